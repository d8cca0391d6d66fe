"""Which passages bear out a sentence, found by comparing words: small models cannot be relied on to say it.

Asked for the numbers of the passages that a paragraph rests on, a 1.5B model counts them through (docs/log.md).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from itertools import groupby
from math import log

from localgraphrag.grounding import pieces, stop_words

MOST = 4
"""Passages that bear out one text."""

LEAST_SHARE = 0.6
"""Of a text's content that the passages named must hold together; with less it is not borne out."""

LEAST_GAIN = 0.15
"""Of a text's content that a further passage must add."""


def supports(text: str, passages: Sequence[str], *, most: int = MOST, least: float = LEAST_SHARE) -> tuple[int, ...]:
    """Labels, from 1, of at most `most` passages that together hold what a text says, the most telling first; or ().

    At least the share `least` of it must be held, 0 to 1.

    Content is words of four letters and more by their stems, figures, and pairs of characters in scripts without
    spaces; what few passages have counts more than what all have. A figure that no passage named has refutes the text,
    and so does the name of one person where they name another of the same family.

    >>> passages = ["The dam was built in 1912.", "The mill closed in 1950.", "A choir sings in the mill."]
    >>> supports("The mill closed in 1950, and a choir sings there.", passages)
    (2, 3)
    >>> supports("The mill closed in 1951.", passages), supports("Bread was cheap.", passages)
    ((), ())
    >>> supports("Ada Moore built the mill.", ["Ben Moore built the mill of Ness.", "The mill owes Ada Moore much."])
    ()
    """
    said = pieces(text)
    held = [pieces(passage) & said for passage in passages]
    count = Counter(piece for found in held for piece in found)
    weight = {piece: log(1 + (len(passages) + 1) / (count[piece] + 1)) for piece in sorted(said)}
    total = sum(weight.values())
    left = set(said)
    chosen: list[int] = []
    while total and len(chosen) < most:
        gains = [sum(weight[piece] for piece in sorted(found & left)) for found in held]
        best = max(range(len(gains)), key=gains.__getitem__, default=0)
        if not gains or gains[best] < LEAST_GAIN * total:
            break
        chosen.append(best + 1)
        left -= held[best]
    share = 1 - sum(weight[piece] for piece in sorted(left)) / total if total else 0.0
    named = [passages[label - 1] for label in chosen]
    refuted = any(piece.isdigit() for piece in left) or _mistaken(text, named)
    return tuple(chosen) if share >= least and not refuted else ()


def is_name(word: str, passages: Sequence[str]) -> bool:
    """Whether a word that begins a sentence is a name: somewhere it has its capital inside one."""
    return word[:1].isupper() and any(re.search(rf"[^\W\d_],? {word}\b", said) for said in passages)


def full_names(text: str) -> list[tuple[str, ...]]:
    """Names of two words and more: words with capitals that stand side by side.

    >>> full_names("When Ada Moore met Ben in the Long Pier Inn, The Ness heard.")
    [('Ada', 'Moore'), ('Long', 'Pier', 'Inn')]
    """
    found: list[tuple[str, ...]] = []
    for stretch in re.findall(r"\w+(?: \w+)*", text):
        for capital, words in groupby(stretch.split(" "), key=lambda word: word[:1].isupper()):
            name = tuple(word for word in words if word.casefold() not in stop_words())
            if capital and len(name) > 1:
                found.append(name)
    return found


def _mistaken(text: str, passages: Sequence[str]) -> bool:
    """Whether a passage says of another what a text says of someone: it has Ben Moore, and the text Ada Moore alone."""
    named = full_names(text)
    for passage in passages:
        words = set(re.findall(r"\w+", passage))
        missing = [name for name in named if not set(name) <= words]
        others = [other for other in full_names(passage) if other not in named]
        if any(other[-1] == name[-1] and set(other) - set(name) for name in missing for other in others):
            return True
    return False


def borne_out(heading: str, text: str) -> bool:
    """Whether a heading says no more than the text below it does.

    >>> borne_out("The mill closed", "The mill was closed in 1950."), borne_out("Fire at the mill", "The mill closed.")
    (True, False)
    """
    said = pieces(heading)
    return bool(said) and len(said & pieces(text)) > len(said) / 2


def entirely(text: str, passages: Sequence[str]) -> bool:
    """Whether all words of a short text, as a title, are in the passages, but for such as "between".

    One without a checkable word is not.

    >>> said = ["The mill closed.", "The dam held."]
    >>> entirely("Between mill and dam", said), entirely("The mill: a failure", said), entirely("So it is", said)
    (True, False, False)
    """
    said = pieces(" ".join(word for word in re.findall(r"\w+", text) if word.casefold() not in stop_words()))
    return bool(said) and said <= {piece for passage in passages for piece in pieces(passage)}
