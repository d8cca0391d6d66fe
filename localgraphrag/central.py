"""Which of many statements say most of what all of them say, each another thing: LexRank and MMR over vectors.

LexRank (Erkan and Radev 2004, arXiv 1109.2128): a statement counts that is like many others which count. Maximal
marginal relevance (Carbonell and Goldstein 1998): the next one chosen is central and unlike those chosen before.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from localgraphrag.embed import Matrix

LIKE = 0.1
"""Cosine up to which two statements have nothing to do with each other."""

FOLLOWING = 0.85
"""Share of a statement's standing that comes from those like it, as in PageRank."""

REPEATING = 1.2
"""What being quite like a chosen one takes away, the most central statement counting 1."""


def centrality(vectors: Matrix) -> NDArray[np.float64]:
    """The standing of each of n statements among all, of shape (n,): the greatest is 1.

    Parameters
    ----------
    vectors : of shape (n, d), each row of length 1 or 0.
    """
    return _standing(_likeness(vectors))


def _standing(likeness: NDArray[np.float64]) -> NDArray[np.float64]:
    n = len(likeness)
    if not n:
        return np.zeros(0)
    links = np.where(likeness > LIKE, likeness, 0.0)
    out = links.sum(axis=1, keepdims=True)
    shares = np.divide(links, out, out=np.zeros_like(links), where=out > 0)
    standing = np.linalg.solve(np.eye(n) - FOLLOWING * shares.T, np.ones(n))
    return np.asarray(standing / standing.max())


def central(vectors: Matrix, costs: Sequence[int], room: int, most: int, bonus: NDArray[np.float64]) -> list[int]:
    """Positions of the statements chosen, the most central first; always one, if there are any.

    Parameters
    ----------
    vectors : of shape (n, d), each row of length 1 or 0.
    costs, room : what each of the n takes, and what all chosen may take together.
    most : how many may be chosen.
    bonus : of shape (n,), added to `centrality`.

    >>> near = np.array([[1, 0], [0.8, 0.6], [0.8, 0.6], [0, 1]], np.float32)
    >>> central(near, [1, 1, 1, 1], 9, 2, np.zeros(4)), central(near, [5, 5, 5, 5], 4, 2, np.zeros(4))
    ([1, 0], [1])
    """
    likeness = _likeness(vectors)
    worth = _standing(likeness) + bonus
    chosen: list[int] = []
    while len(chosen) < most:
        fitting = [i for i in range(len(worth)) if i not in chosen and costs[i] <= room]
        left = fitting if fitting or chosen else list(range(len(worth)))
        if not left:
            break
        repeats = likeness[:, chosen].max(axis=1) if chosen else np.zeros(len(worth))
        gain = np.round(worth - REPEATING * repeats, 6)  # so that the last digits decide nothing
        best = max(left, key=lambda i: (gain[i], -i))
        chosen.append(best)
        room -= costs[best]
    return chosen


def _likeness(vectors: Matrix) -> NDArray[np.float64]:
    """Cosines of all pairs, of shape (n, n), 0 on the diagonal."""
    likeness = np.asarray(vectors @ vectors.T, np.float64)
    np.fill_diagonal(likeness, 0.0)
    return likeness
