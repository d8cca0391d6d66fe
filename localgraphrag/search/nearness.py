"""How near statements are to a question and to each other."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from localgraphrag.embed import Embedder

COMMON = 10
"""With so many texts half of their mean counts as what all have in common, with many more nearly all of it."""


class Nearness:
    """Cosines between a question and texts, and between texts; all 0 without an embedder.

    Parameters
    ----------
    texts : those that will be asked about, each once.

    To the question: what all texts have in common, as the name of the town that they are all about, is taken away from
    the question and from each before they are compared, since it tells none of them from the others.
    """

    def __init__(self, embedder: Embedder | None, question: str, texts: Sequence[str]) -> None:
        self.question = question
        self._at: dict[str, int] = {}
        if embedder is not None and texts:
            vectors = embedder.embed([question, *texts])
            common = vectors[1:].mean(axis=0) * (len(texts) / (len(texts) + COMMON))
            apart = vectors - common
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
