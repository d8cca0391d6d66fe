"""What the model may reply at each step of an extraction: compact JSON that points only at what is there.

Grammars are Outlines CFG types in llguidance's Lark syntax. `%regex {"substring_chunks": ..}` accepts any run of whole
words of the text: that is how a name is held to the letter of the chunk.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from typing import Any

from localgraphrag.quotes import Quote

MOST_NAMES = 40
MOST_GLEANED = 12
MOST_REPEATS = 5
MOST_RELATIONSHIPS = 20
MOST_CLAIMS = 4
OPENING_WORDS = 4
CLAIM_KINDS = ("figure", "decision", "promise", "accusation", "event", "rule", "opinion", "other")
NEAR_CHARACTERS = 220  # about two sentences
NAME_CHARACTERS = 60
TEXT_CHARACTERS = 140
LINK_CHARACTERS = 110


# words of spaced scripts whole, other scripts letter by letter, so that a name is never part of a word
_UNSPACED = r"\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff"
_WORDS = re.compile(rf"[{_UNSPACED}]|[^\W_{_UNSPACED}]+|\s+|.")
_INNER = r'[^"\\\x00-\x1f\x7f]'
_IN_NAME = r'[^"\\\x00-\x1f\x7f,;!?*_#<>=|~\[\]{}“”„«»…]'
# a name begins with a letter, or with digits that belong to its first word: no dates, no numbers of paragraphs
_SHAPE = rf"(\p{{L}}|\p{{N}}+[\p{{L}}-])({_IN_NAME}{{0,{NAME_CHARACTERS - 2}}}[\p{{L}}\p{{M}}\p{{N}}).])?"
# what is longer is a clause of the text, not a name; one that begins with a small letter is a common noun
_FEW_WORDS = r"/\P{Ll}[^ ]*( [^ ]+){0,5}|\p{Ll}[^ ]*( [^ ]+){0,2}/"
# between two names: up to a space or bracket, or any letter of a script without spaces; longer than a clause is not a
# link but a model that has lost its thread, and `stray_link` finds it
_LINK = rf"({_INNER}{{0,{LINK_CHARACTERS - 1}}}[ ({_UNSPACED}])?"
_REST = rf'([^\p{{L}}\p{{N}}"\\\x00-\x1f\x7f]|[{_UNSPACED}]){_INNER}{{0,{LINK_CHARACTERS}}}'
_DATE = r'[^"\\\x00-\x1f]{0,16}[0-9][^"\\\x00-\x1f]{0,16}'
_TEXT = rf'[^"\\\s\x00-\x1f]{_INNER}{{6,{TEXT_CHARACTERS}}}'


def names(text: str | None, types: Sequence[str], most: int) -> Any:
    """`{"entities":{"name":"type",..}}`: at most `most` names; verbatim spans of `text` unless that is None."""
    lines = [f'start: "{{\\"entities\\":{{" (item ("," item){{0,{most - 1}}})? "}}}}"']
    parts = [f"/{_SHAPE}/", _FEW_WORDS]
    if text is not None:
        lines.append(f"SPAN: {_span(text)}")
        parts.append("SPAN")
    lines.append(f'NAME: "\\"" ({" & ".join(parts)}) "\\""')
    lines.append("TYPE: " + " | ".join(map(_quoted, types)))
    lines.append('item: NAME ":" TYPE')
    return _cfg(lines)


def pairs_near(text: str, known: Sequence[str], new: Sequence[str]) -> list[tuple[str, str]]:
    """Pairs of names, one of them new, that the text mentions close to each other: those that it can say something of.

    The last word of a name counts as a mention too ("Falk" for "Ines Falk").

    >>> text = "Ines Falk met Oskar Lind. " + "Then it rained. " * 30 + "The mill stood still."
    >>> pairs_near(text, [], ["Ines Falk", "Oskar Lind", "mill"])
    [('Ines Falk', 'Oskar Lind'), ('Oskar Lind', 'Ines Falk')]
    """
    folded = " ".join(text.split())
    places = {name: _places(folded, name) for name in (*known, *new)}
    return [
        (source, target)
        for source in places
        for target in places
        if source != target
        and (source in new or target in new)
        and any(abs(a - b) <= NEAR_CHARACTERS for a in places[source] for b in places[target])
    ]


def _places(text: str, name: str) -> list[int]:
    last = name.split()[-1]
    forms = {name, last} if len(last) >= 4 and last[:1].isupper() else {name}
    return sorted(found.start() for form in forms for found in re.finditer(re.escape(form), text))


def relationships(pairs: Sequence[tuple[str, str]], most: int) -> Any:
    """`{"relationships":[["source","target","description"],..]}`.

    Source and target are one of `pairs`; the description begins with the source and goes on to name the target, so that
    it speaks of both.
    """
    targets = list(dict.fromkeys(target for _, target in pairs))
    lines = [f"ABOUT{i}: /{_LINK}/ {json.dumps(target)} /({_REST})?/" for i, target in enumerate(targets)]
    items = []
    for source, target in pairs:
        head = f'["{source}","{target}","{source} '
        items.append(f"{json.dumps(head, ensure_ascii=False)} ABOUT{targets.index(target)}")
    lines.append("item: (" + " | ".join(items) + ') "\\"]"')
    return _cfg([f'start: "{{\\"relationships\\":[" (item ("," item){{0,{most - 1}}})? "]}}"', *lines])


def details(names: Sequence[str]) -> Any:
    """`{"details":[["name","description"],..]}`: each name once, in the order listed.

    The list may end before all names are told, so that a reply that reaches its cap can be closed after a whole item.
    """
    rules = []
    for i, name in enumerate(names):
        rest = f' ("," d{i + 1})?' if i + 1 < len(names) else ""
        rules.append(f'd{i}: "[" {_quoted(name)} ",\\"" TEXT "\\"]"{rest}')
    return _cfg(['start: "{\\"details\\":[" d0 "]}"', *rules, f"TEXT: /{_TEXT}/"])


def claims(found: Sequence[tuple[str, Quote]]) -> Any:
    """`{"claims":[["opening words","name","kind","status","start","end"],..]}`.

    `found`: sentences by their opening words. The name is one that the sentence mentions, a date is empty or a span of
    the sentence with a digit in it.
    """
    items, rules = [], []
    for i, (opening, quote) in enumerate(found):
        names = " | ".join(map(_quoted, quote.names))
        dates = 'NONE "," NONE'
        if any(letter.isdigit() for letter in quote.sentence.text):
            rules.append(f"SPAN{i}: {_span(quote.sentence.text)}")
            rules.append(f'DATE{i}: "\\"" (SPAN{i} & /{_DATE}/)? "\\""')
            dates = f'DATE{i} "," DATE{i}'
        items.append(f'{_quoted(opening)} "," ({names}) ",\\"" KIND "\\",\\"" STATUS "\\"," {dates}')
    return _cfg(
        [
            f'start: "{{\\"claims\\":[" (item ("," item){{0,{MOST_CLAIMS - 1}}})? "]}}"',
            'item: "[" (' + " | ".join(items) + ') "]"',
            *rules,
            r'NONE: "\"\""',
            "KIND: " + " | ".join(map(json.dumps, CLAIM_KINDS)),
            'STATUS: "true" | "false" | "suspected"',
        ]
    )


def openings(found: Sequence[Quote]) -> dict[str, Quote]:
    """Each sentence by its first words, as few as tell it from the others, but some."""
    texts = [quote.sentence.text for quote in found]
    told: dict[str, Quote] = {}
    for quote in found:
        words = _WORDS.findall(quote.sentence.text)
        for stop in (*range(2 * OPENING_WORDS - 1, len(words), 2), len(words)):
            opening = "".join(words[:stop]).rstrip()
            if sum(text.startswith(opening) for text in texts) == 1:
                break
        told.setdefault(opening, quote)
    return told


def yes_or_no() -> Any:
    """`yes` or `no`."""
    from outlines.types import Regex

    return Regex("yes|no")


def read(text: str, key: str) -> Any:
    """What a reply holds."""
    return json.loads(text)[key]


def _ended(items: Sequence[Any], known: Iterable[Any] = ()) -> bool:
    """Whether a list only repeats itself: its last two items, or five in all, were there before.

    One repeat is not the end: a model that names the writer of a letter twice may still go on to its contents.
    """
    before = set(known)
    again = []
    for item in items:
        again.append(item in before)
        before.add(item)
    return sum(again) >= MOST_REPEATS or again[-2:] == [True, True]


_ITEM = re.compile(r'[{,]("(?:[^"\\]|\\.)*"):"[^"]*"')


def repeats_name(text: str, known: frozenset[str] = frozenset()) -> bool:
    """Whether the names listed so far only repeat themselves, or those known from before."""
    return _ended([json.loads(name) for name in _ITEM.findall(text)], known)


_ENDS = re.compile(r'\["([^"]+)","([^"]+)","')


def repeats_pair(text: str) -> bool:
    """Whether the relationships listed so far only repeat their pairs, either way round."""
    return _ended([frozenset(pair) for pair in _ENDS.findall(text)])


def stray_link(source: str, target: str, description: str) -> bool:
    """Whether the way from source to target ran into its cap, so that the target was forced upon the sentence."""
    found = description.find(target, len(source) + 1)
    return found < 0 or found - len(source) - 1 >= LINK_CHARACTERS - 1


_OPENING = re.compile(r'\[("(?:[^"\\]|\\.)*"),"')


def repeats_claim(text: str) -> bool:
    """Whether the claims listed so far only repeat themselves."""
    return _ended(_OPENING.findall(text))


def find_span(text: str, name: str) -> tuple[int, int]:
    """Character span of a name's first mention, whole words first; (-1, -1) if it has none."""
    pattern = r"\s+".join(map(re.escape, name.split()))
    if not pattern:
        return -1, -1
    found = re.search(rf"(?<!\w){pattern}(?!\w)", text) or re.search(pattern, text)
    return found.span() if found else (-1, -1)


def _span(text: str) -> str:
    """The terminal of any run of whole words of a text, its white space folded: a name may run over a line's end."""
    return f'%regex {{"substring_chunks": {json.dumps(_WORDS.findall(" ".join(text.split())))}}}'


def _quoted(name: str) -> str:
    return json.dumps(json.dumps(name, ensure_ascii=False), ensure_ascii=False)


def _cfg(lines: Sequence[str]) -> Any:
    from outlines.types import CFG

    return CFG("\n".join(lines))
