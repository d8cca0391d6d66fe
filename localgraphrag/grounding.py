"""Does the text bear out what the model says of it? A check without a model."""

from __future__ import annotations

import re
from functools import cache

SHARE = 0.5
"""Least share of a description's content words that the text must have."""

_WORD = re.compile(r"\w+")
_STEM = 5  # letters that count: "appointed" and "appointment" are one word here
_SHORT = 4  # shorter words carry no content that can be checked
_NOUNS = frozenset(
    (
        "amount",
        "bill",
        "bottom",
        "detail",
        "fire",
        "front",
        "interest",
        "mill",
        "mine",
        "name",
        "part",
        "side",
        "system",
    )
)
_UNSPACED = re.compile(r"[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")


class Grounding:
    """Judges descriptions against one chunk.

    Parameters
    ----------
    text, title : what the model was shown.
    example : the worked example of the prompt; its names and rare words must not turn up elsewhere.

    >>> g = Grounding("Ada Brook repaired the sluice in May.", "Log", "Tom Vale sold the mill.")
    >>> g.holds("Ada Brook repaired the sluice.", "Ada Brook"), g.holds("Ada Brook sold the mill.", "Ada Brook")
    (True, False)
    >>> g.holds("Ada Brook.", "Ada Brook"), g.refused
    (False, 2)
    """

    def __init__(self, text: str, title: str, example: str) -> None:
        self._shown = pieces(f"{title}\n{text}")
        names = {w.casefold() for w in _WORD.findall(example) if w[:1].isupper() and len(w) >= _SHORT}
        said_small = {w for w in _WORD.findall(example) if w.islower()}
        self._foreign = {_stem(w) for w in names - said_small} - self._shown
        self.refused = 0

    def foreign(self, text: str) -> bool:
        """Whether a text brings in a name of the example that is not in what the model was shown."""
        return bool(pieces(text) & self._foreign)

    def holds(self, description: str, *names: str) -> bool:
        """Whether a description may be kept; counts those that may not.

        The names it is about prove nothing, being given: what is said beyond them must be in the text. A
        description without any checkable word says nothing and is not kept.
        """
        said = pieces(description)
        for name in names:
            said -= pieces(name)
        known = len(said & self._shown)
        # a single word may be a verb put differently ("stands at" for "is at"); more than one must be in the text
        borne_out = bool(said) and (known / len(said) >= SHARE or len(said) == 1) and not said & self._foreign
        self.refused += not borne_out
        return borne_out


def pieces(text: str) -> set[str]:
    """The checkable pieces of a text: word stems, or pairs of characters where words are not spaced."""
    found = set()
    for word in _WORD.findall(text.casefold()):
        if _UNSPACED.search(word):
            found |= {word[i : i + 2] for i in range(max(len(word) - 1, 1))}
        elif len(word) >= _SHORT or word.isdigit():
            found.add(_stem(word))
    return found


def _stem(word: str) -> str:
    return word[:_STEM]


@cache
def stop_words() -> frozenset[str]:
    """English words that name nothing: scikit-learn's list, less the nouns in it.

    >>> "the" in stop_words(), "mill" in stop_words()
    (True, False)
    """
    from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS

    return frozenset(ENGLISH_STOP_WORDS - _NOUNS)
