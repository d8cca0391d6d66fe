"""What a passage says of its entities, in its own sentences: nothing here is written by a model.

A sentence that names two entities is what the passage says of the two. Small models that are asked to put it in their
own words get much of it wrong (docs/log.md); a quotation is as true as the passage, and its place is known.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise

from localgraphrag.mentions import Searchable
from localgraphrag.sentences import Sentence, whole_sentences

QUOTE_CHARACTERS = 300
MOST_PAIRED = 4
"""Names in a sentence of which every two are linked. In a longer row, the first with all, and neighbours."""
_SURNAME = 4  # letters of a last word that may stand for the whole name


@dataclass(frozen=True)
class Quote:
    """A sentence and the names in it, in order of mention."""

    sentence: Sentence
    names: tuple[str, ...]


def quotes(text: str, names: Sequence[str], around: tuple[str, str] = ("", "")) -> list[Quote]:
    """The sentences of a passage that mention any of the names; the last word of a name may stand for it.

    `around`: what stands before and behind the passage. A sentence that runs over its edge is not quoted.

    >>> text = "Ines Falk met Oskar Lind. It rained. Falk laughed at Lind."
    >>> [quote.names for quote in quotes(text, ["Ines Falk", "Oskar Lind"])]
    [('Ines Falk', 'Oskar Lind'), ('Ines Falk', 'Oskar Lind')]
    """
    forms = _forms(names)
    found = []
    for sentence in whole_sentences(text, around):
        if there := _mentioned(sentence.text, forms):
            found.append(Quote(sentence, there))
    return found


def descriptions(found: Sequence[Quote]) -> dict[str, str]:
    """By name the sentence that is most about it: where it comes first, else the earliest that mentions it."""
    told: dict[str, str] = {}
    for quote in found:
        told.setdefault(quote.names[0], cut(quote, quote.names[:1]))
    for quote in found:
        for name in quote.names:
            told.setdefault(name, cut(quote, (name,)))
    return told


def links(found: Sequence[Quote]) -> Iterator[tuple[str, str, str]]:
    """(source, target, sentence) for names that a sentence mentions together, each pair once, where it first does."""
    seen: set[frozenset[str]] = set()
    for quote in found:
        near = quote.names
        pairs = [*combinations(near, 2)]
        if len(near) > MOST_PAIRED:
            pairs = [*((near[0], other) for other in near[1:]), *pairwise(near[1:])]
        for pair in pairs:
            if frozenset(pair) not in seen:
                seen.add(frozenset(pair))
                yield (*pair, cut(quote, pair))


def cut(quote: Quote, about: Sequence[str], most: int = QUOTE_CHARACTERS) -> str:
    """The sentence, or the part of a long one around what it is about, with an ellipsis where words are left out."""
    text = quote.sentence.text
    if len(text) <= most:
        return text
    forms = _forms(quote.names)
    places = [at for form, name in forms.items() if name in about for at, _ in Searchable(text).find(form)]
    first, last = min(places, default=0), max(places, default=0)
    start = 0 if last < most * 2 // 3 else max(min(first, last - most // 2) - most // 6, 0)
    stop = min(start + most, len(text))
    start = text.find(" ", start) + 1 if start else 0
    stop = max(text.rfind(" ", start, stop), start) if stop < len(text) and " " in text[start:stop] else stop
    return ("… " if start else "") + text[start:stop].rstrip(" ,;:") + (" …" if stop < len(text) else "")


def _forms(names: Sequence[str]) -> dict[str, str]:
    """Ways to say each name: itself, and its last word where no other name has it. Longest first."""
    last = [name.split()[-1] for name in names]
    forms = {
        word: name
        for word, name in zip(last, names, strict=True)
        if len(word) >= _SURNAME and word[:1].isupper() and sum(word in other.split() for other in names) == 1
    }
    forms |= {" ".join(name.split()): name for name in names}
    return dict(sorted(forms.items(), key=lambda form: -len(form[0])))


def _mentioned(text: str, forms: dict[str, str]) -> tuple[str, ...]:
    places: list[tuple[int, str]] = []
    for form, name in forms.items():
        if form in text:
            for start, end in Searchable(text).find(form):
                places.append((start, name))
                text = text[:start] + "\0" * (end - start) + text[end:]  # a shorter name within it is not meant
    return tuple(dict.fromkeys(name for _, name in sorted(places)))
