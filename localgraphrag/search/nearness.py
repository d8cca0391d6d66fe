"""How near statements are to a question and to each other."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from localgraphrag.embed import Embedder
from localgraphrag.grounding import stop_words

COMMON = 10
"""With so many texts half of their mean counts as what all have in common, with many more nearly all of it."""


EVERYWHERE = 0.1
"""Share of the texts from which on a name in them tells nothing."""


class Nearness:
    """Cosines between a question and texts, and between texts; all 0 without an embedder.

    Parameters
    ----------
    texts : those that will be asked about, each once.
    sample : texts that stand for all there are; by default `texts` themselves.

    To the question: what all texts have in common is taken away from the question and from each before they are
    compared, since it tells none of them from the others; and so is a name that is everywhere (`unnamed`).
    """

    def __init__(
        self, embedder: Embedder | None, question: str, texts: Sequence[str], sample: Sequence[str] = ()
    ) -> None:
        self.question = question
        self._at: dict[str, int] = {}
        if embedder is not None and texts:
            vectors = embedder.embed([unnamed(question, sample or texts), *texts])
            standing = embedder.embed(sample) if sample else vectors[1:]
            apart = vectors - standing.mean(axis=0) * (len(standing) / (len(standing) + COMMON))
            lengths = np.linalg.norm(apart, axis=1, keepdims=True)
            apart = apart / np.where(lengths == 0, 1, lengths)
            self._at = {text: i for i, text in enumerate(texts)}
            self._vectors = vectors[1:]
            self._asked = apart[1:] @ apart[0]

    def to_question(self, text: str) -> float:
        """Cosine to the question, -1 to 1; 0 for a text that was not given."""
        return float(self._asked[self._at[text]]) if text in self._at else 0.0

    def between(self, text: str, others: Sequence[str]) -> list[float]:
        """Cosines of a text to others, 0 where one was not given."""
        there = [self._at.get(other) for other in others]
        if text not in self._at:
            return [0.0] * len(there)
        here = self._vectors[self._at[text]]
        return [0.0 if at is None else float(self._vectors[at] @ here) for at in there]


def unnamed(question: str, texts: Sequence[str]) -> str:
    """A question without the names that many of the texts have, as that of the town which all are about.

    A question that is about nothing but the name stays as it is.

    >>> said = ["The pier of Ness shut.", "Rain fell on Ness.", "A rash."]
    >>> unnamed("What happens to Ness?", said), unnamed("What is Ness?", said)
    ('What happens to ?', 'What is Ness?')
    """
    words = list(re.finditer(r"\w+", question))
    names = [word for word in words[1:] if word.group()[:1].isupper() and _often(word.group(), texts)]
    rest = [w.group() for w in words if w not in names and w.group().casefold() not in stop_words()]
    if not rest:
        return question
    for name in reversed(names):
        question = question[: name.start()] + question[name.end() :]
    return question


def _often(word: str, texts: Sequence[str]) -> bool:
    whole = re.compile(rf"\b{word}\b")
    return sum(bool(whole.search(text)) for text in texts) > EVERYWHERE * len(texts)
