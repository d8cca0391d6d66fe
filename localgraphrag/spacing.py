"""Some of many things, evenly spaced, where there is no room for all."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")


def spaced(costed: Sequence[tuple[T, int]], room: int) -> list[T]:
    """As many things as their costs allow, evenly spaced over all of them, in order; always at least one.

    Parameters
    ----------
    costed : things and what each takes, at least one of them.
    room : what they may take together.

    >>> spaced([("a", 2), ("b", 2), ("c", 2), ("d", 2)], 5)
    ['a', 'c']
    """
    cheapest = max(min(cost for _, cost in costed), 1)
    for count in range(min(len(costed), room // cheapest), 1, -1):
        chosen = [costed[i * len(costed) // count] for i in range(count)]
        if sum(cost for _, cost in chosen) <= room:
            return [thing for thing, _ in chosen]
    return [min(costed, key=lambda pair: pair[1])[0]] if costed[0][1] > room else [costed[0][0]]
