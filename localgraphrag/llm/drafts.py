"""Guessing the next tokens of a reply from what the conversation holds already.

A small model copies: names and sentences of the passage, the shape of the example. A step with two rows of a
conversation costs little more than one with one row (docs/log.md), so the engine lets the model read guessed tokens
along with the last one and keeps those that it would have written itself. The reply is the same, only sooner.
"""

from __future__ import annotations

from collections.abc import Sequence

LONGEST = 4
"""Tokens of the end of a conversation that are looked for further up: longer ones tell no more."""

MOST_EACH = 4
"""Rows of a conversation in a step that writes: more guesses in a row are seldom right."""


def guess(keys: Sequence[int], tokens: Sequence[int], most: int) -> list[int]:
    """The tokens that followed where the conversation last held what it ends in; [] if it ends in something new.

    Parameters
    ----------
    keys : what stands for each token when it is compared, the same number for " Iv" and "Iv".
    tokens : the conversation, as long as `keys`.
    most : tokens wanted.

    The longest match wins, the latest of those.

    >>> guess([5, 6, 7, 8, 5, 6], [5, 6, 7, 8, 5, 6], 3)
    [7, 8, 5]
    >>> guess([5, 6, 7], [5, 6, 7], 3)
    []
    """
    longest, after = 0, 0
    last = keys[-1] if keys else None
    for at in range(len(keys) - 2, -1, -1):
        if keys[at] != last:
            continue
        length = 1
        while length < LONGEST and at >= length and keys[at - length] == keys[-1 - length]:
            length += 1
        if length > longest:
            longest, after = length, at + 1
        if longest == LONGEST:
            break
    return list(tokens[after : after + most]) if longest else []


def rows_each(active: int) -> int:
    """Rows of each of `active` conversations in a step that writes.

    Steps cost what the next number of rows costs that the processor's kernels are made for (4, 16, 32); a conversation
    gets at most `MOST_EACH`.

    >>> [rows_each(active) for active in (1, 2, 4, 5, 8, 10, 16, 32)]
    [4, 2, 1, 3, 2, 3, 2, 2]
    """
    size = 4 if active <= 4 else 16 if active <= 8 else 32 if active <= 16 else 2 * active
    return min(size // active, MOST_EACH)


def most_rows(conversations: int) -> int:
    """The most rows that a step takes in which so many conversations, or fewer, are written."""
    return max(2 * conversations, 32)
