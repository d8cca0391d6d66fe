"""What statements are worth to a question, and how near they are to each other."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from localgraphrag.central import LIKE, centrality
from localgraphrag.embed import Embedder, HashEmbedder, Matrix
from localgraphrag.grounding import stop_words

COMMON = 10
"""With so many texts half of their mean counts as what all have in common, with many more nearly all of it."""

REPEATING = 0.3
"""Of its likeness to a better text, by which a text falls behind: each matter has its say."""

EVERYWHERE = 0.1
"""Share of the texts from which on a name in them tells nothing."""

GENERAL = (
    "What are the main themes of these documents?",
    "What is this text about?",
    "Summarize the most important things that happen in it.",
    "What are the main topics?",
    "Give an overview of the story.",
)
_DOING = frozenset(("did", "does", "doing", "done"))  # that ask for nothing by themselves

SPECIFIC, WHOLLY_GENERAL = 0.45, 0.55
"""Cosine to the mean of `GENERAL` up to which a question is not of their kind, and from which on it wholly is."""

CENTRAL = 0.5
"""To a general question, what the most central text is worth; to others, a text is worth 1 that says the same."""


class Nearness:
    """What texts are worth to a question, and how alike they are; all 0 without an embedder.

    Parameters
    ----------
    texts : those that will be asked about, each once.
    sample : texts that stand for all there are; by default `texts` themselves.

    Worth is the cosine to the question. What all texts have in common is taken away from the question and from each
    before they are compared, since it tells none of them from the others; and so is a name that is everywhere
    (`unnamed`). To a question about the whole, such as for the main themes, a text is near that speaks of themes or of
    documents, and not one that is a theme: the more a question is of that kind, the more the centrality of the texts
    (LexRank) counts instead.
    """

    def __init__(
        self, embedder: Embedder | None, question: str, texts: Sequence[str], sample: Sequence[str] = ()
    ) -> None:
        self.question = question
        self._at: dict[str, int] = {}
        self._vectors = np.zeros((0, 0), np.float32)
        if embedder is not None and texts:
            vectors = embedder.embed([unnamed(question, sample or texts), *texts])
            general = generality(embedder, question)
            standing = embedder.embed(sample) if sample else vectors[1:]
            apart = vectors - standing.mean(axis=0) * (len(standing) / (len(standing) + COMMON))
            lengths = np.linalg.norm(apart, axis=1, keepdims=True)
            apart = apart / np.where(lengths == 0, 1, lengths)
            self._at = {text: i for i, text in enumerate(texts)}
            self._vectors = vectors[1:]
            self._worth = (1 - general) * (apart[1:] @ apart[0])
            if general:
                self._worth += (
                    general * CENTRAL * (_degree(self._vectors, standing) if sample else centrality(self._vectors))
                )

    def worth(self, text: str) -> float:
        """Of a text to the question, -1 to 1; 0 if it was not given."""
        return float(self._worth[self._at[text]]) if text in self._at else 0.0

    def varied(self, texts: Sequence[str], worth: Sequence[float], most: int) -> list[int]:
        """Positions of the `most` best: each the one of most worth, less `REPEATING` times its likeness to one before.

        Likeness is the cosine, 0 for a text that was not given. Ties: the earlier one.
        """
        rows = [self._at.get(text) for text in texts]
        vectors = np.zeros((len(texts), self._vectors.shape[1]))
        for i, row in enumerate(rows):
            if row is not None:
                vectors[i] = self._vectors[row]
        left, repeats = np.array(worth, np.float64), np.zeros(len(texts))
        best: list[int] = []
        while len(best) < min(most, len(texts)):
            gain = np.round(left - REPEATING * repeats, 6)  # so that the last digits decide nothing
            best.append(int(np.argmax(gain)))
            left[best[-1]] = -np.inf
            repeats = np.maximum(repeats, vectors @ vectors[best[-1]])
        return best


def generality(embedder: Embedder, question: str) -> float:
    """How far a question is about the whole, 0 to 1, told by its likeness to such questions.

    0 for an embedder that knows no more than which words a text has: those of a question say little of its kind.
    """
    if isinstance(embedder, HashEmbedder):
        return 0.0
    usual = embedder.embed(GENERAL).mean(axis=0)
    length = float(np.linalg.norm(usual))
    alike = float(usual @ embedder.embed([question])[0]) / length if length else 0.0
    return min(max((alike - SPECIFIC) / (WHOLLY_GENERAL - SPECIFIC), 0.0), 1.0)


def _degree(vectors: Matrix, sample: Matrix) -> NDArray[np.float64]:
    """Of texts of which many more than the sample are known: how like the sample each is, the greatest being 1."""
    likeness = np.asarray(vectors @ sample.T, np.float64)
    standing = np.where(likeness > LIKE, likeness, 0.0).sum(axis=1)
    return np.asarray(standing / standing.max() if standing.any() else standing)


def unnamed(question: str, texts: Sequence[str]) -> str:
    """A question without the names that many of the texts have, as that of the town which all are about.

    A question that is about nothing but the name stays as it is.

    >>> said = ["The pier of Ness shut.", "Rain fell on Ness.", "A rash."]
    >>> unnamed("What happens to Ness?", said), unnamed("What does Ness do?", said)
    ('What happens to ?', 'What does Ness do?')
    """
    words = list(re.finditer(r"\w+", question))
    names = [word for word in words[1:] if word.group()[:1].isupper() and _often(word.group(), texts)]
    rest = [w.group() for w in words if w not in names and w.group().casefold() not in stop_words() | _DOING]
    if not rest:
        return question
    for name in reversed(names):
        question = question[: name.start()] + question[name.end() :]
    return question


def _often(word: str, texts: Sequence[str]) -> bool:
    whole = re.compile(rf"\b{word}\b")
    return sum(bool(whole.search(text)) for text in texts) > EVERYWHERE * len(texts)
