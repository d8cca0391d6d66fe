"""What the model may reply at each step of an extraction: compact JSON that points only at what is there.

Grammars are Outlines CFG types in llguidance's Lark syntax. `%regex {"substring_chunks": ..}` accepts any run of whole
words of the text: that is how a name is held to the letter of the chunk.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from typing import Any

MOST_NAMES = 40
MOST_GLEANED = 12
MOST_REPEATS = 5
MOST_RELATIONSHIPS = 20
MOST_CLAIMS = 4
NEAR_CHARACTERS = 220  # about two sentences
NAME_CHARACTERS = 60
TEXT_CHARACTERS = 140
LINK_CHARACTERS = 110

_STOPS = (".", "!", "?", "。", "…")

# words of spaced scripts whole, other scripts letter by letter, so that a name is never part of a word
_UNSPACED = r"\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff"
_WORDS = re.compile(rf"[{_UNSPACED}]|[^\W_{_UNSPACED}]+|\s+|.")
_INNER = r'[^"\\\x00-\x1f\x7f]'
_IN_NAME = r'[^"\\\x00-\x1f\x7f,;!?*_#<>=|~\[\]{}“”„«»…]'
_SHAPE = rf"[\p{{L}}\p{{N}}]({_IN_NAME}{{0,{NAME_CHARACTERS - 2}}}[\p{{L}}\p{{M}}\p{{N}}).])?"
_FEW_WORDS = r"/[^ ]+( [^ ]+){0,5}/"  # six words at most: what is longer is a clause of the text, not a name
# between two names: up to a space or bracket, or any letter of a script without spaces; longer than a clause is not a
# link but a model that has lost its thread, and `stray_link` finds it
_LINK = rf"({_INNER}{{0,{LINK_CHARACTERS - 1}}}[ ({_UNSPACED}])?"
_REST = rf'([^\p{{L}}\p{{N}}"\\\x00-\x1f\x7f]|[{_UNSPACED}]){_INNER}{{0,{LINK_CHARACTERS}}}'
_TEXT = rf'[^"\\\s\x00-\x1f]{_INNER}{{6,{TEXT_CHARACTERS}}}'


def names(text: str | None, most: int) -> Any:
    """`{"entities":["..",..]}`: at most `most` names; verbatim spans of `text` unless that is None."""
    lines = [f'start: "{{\\"entities\\":[" (NAME ("," NAME){{0,{most - 1}}})? "]}}"']
    parts = [f"/{_SHAPE}/", _FEW_WORDS]
    if text is not None:
        folded = " ".join(text.split())  # a name may run over the end of a line
        lines.append(f'SPAN: %regex {{"substring_chunks": {json.dumps(_WORDS.findall(folded))}}}')
        parts.append("SPAN")
    lines.append(f'NAME: "\\"" ({" & ".join(parts)}) "\\""')
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


def details(names: Sequence[str], types: Sequence[str]) -> Any:
    """`{"details":[["name","type","description"],..]}`: each name once, in the order listed.

    The list may end before all names are told, so that a reply that reaches its cap can be closed after a whole item.
    """
    rules = []
    for i, name in enumerate(names):
        rest = f' ("," d{i + 1})?' if i + 1 < len(names) else ""
        rules.append(f'd{i}: "[" {_quoted(name)} ",\\"" KIND "\\",\\"" TEXT "\\"]"{rest}')
    return _cfg(
        [
            'start: "{\\"details\\":[" d0 "]}"',
            *rules,
            "KIND: " + " | ".join(map(json.dumps, types)),
            f"TEXT: /{_TEXT}/",
        ]
    )


def claims(names: Sequence[str], text: str) -> Any:
    """`{"claims":[["subject","statement","status","kind","object","start","end"],..]}`.

    Subject and object are listed names (the object may be empty); dates are empty or verbatim spans with a digit.
    """
    folded = " ".join(text.split())
    return _cfg(
        [
            f'start: "{{\\"claims\\":[" (item ("," item){{0,{MOST_CLAIMS - 1}}})? "]}}"',
            "name: " + " | ".join(map(_quoted, names)),
            f'SPAN: %regex {{"substring_chunks": {json.dumps(_WORDS.findall(folded))}}}',
            r'DATE: "\"" (SPAN & /[^"\\\x00-\x1f]{0,16}[0-9][^"\\\x00-\x1f]{0,16}/)? "\""',
            r"KIND: /[a-z][a-z ]{2,23}/",
            'STATUS: "true" | "false" | "suspected"',
            f"TEXT: /{_TEXT}/",
            r'item: "[" name ",\"" TEXT "\",\"" STATUS "\",\"" KIND "\"," (name | "\"\"") "," DATE "," DATE "]"',
        ]
    )


def yes_or_no() -> Any:
    """`yes` or `no`."""
    from outlines.types import Regex

    return Regex("yes|no")


def read(text: str, key: str) -> list[Any]:
    """The list in a reply."""
    found: list[Any] = json.loads(text)[key]
    return found


def _partial_list(text: str) -> list[Any]:
    """The complete items of a reply that is still being written."""
    inner = text[text.find("[") :]
    for end in range(len(inner), 0, -1):
        if inner[end - 1] in '"]':
            try:
                items: list[Any] = json.loads(inner[:end] + "]")
            except json.JSONDecodeError:
                continue
            return items
    return []


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


def repeats_name(text: str, known: frozenset[str] = frozenset()) -> bool:
    """Whether the names listed so far only repeat themselves, or those known from before."""
    return _ended(_partial_list(text), known)


_ENDS = re.compile(r'\["([^"]+)","([^"]+)","')


def repeats_pair(text: str) -> bool:
    """Whether the relationships listed so far only repeat their pairs, either way round."""
    return _ended([frozenset(pair) for pair in _ENDS.findall(text)])


def stray_link(source: str, target: str, description: str) -> bool:
    """Whether the way from source to target ran into its cap, so that the target was forced upon the sentence."""
    found = description.find(target, len(source) + 1)
    return found < 0 or found - len(source) - 1 >= LINK_CHARACTERS - 1


def repeats_claim(text: str) -> bool:
    """Whether the claims listed so far only repeat themselves."""
    return _ended([item[1] for item in _partial_list(text) if isinstance(item, list)])


def tidy(text: str, cap: int = TEXT_CHARACTERS) -> str:
    """A description without loose ends: one that ran into its cap is cut at the end of its last sentence or word.

    >>> tidy("Short and whole. "), tidy("One. " + "x" * 216)
    ('Short and whole.', 'One.')
    """
    text = text.strip()
    if len(text) < cap or text.endswith(_STOPS):
        return text
    sentence = max(text.rfind(mark) for mark in (". ", "! ", "? ", "。"))
    return text[: sentence + 1] if sentence > 0 else text[: text.rfind(" ")].rstrip(" ,;:") + "…"


def find_span(text: str, name: str) -> tuple[int, int]:
    """Character span of a name's first mention, whole words first; (-1, -1) if it has none."""
    pattern = r"\s+".join(map(re.escape, name.split()))
    if not pattern:
        return -1, -1
    found = re.search(rf"(?<!\w){pattern}(?!\w)", text) or re.search(pattern, text)
    return found.span() if found else (-1, -1)


def _quoted(name: str) -> str:
    return json.dumps(json.dumps(name, ensure_ascii=False), ensure_ascii=False)


def _cfg(lines: Sequence[str]) -> Any:
    from outlines.types import CFG

    return CFG("\n".join(lines))
