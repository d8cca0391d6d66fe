"""Where a name stands in a text, whatever the script and the line breaks."""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Iterator

_SPACELESS = re.compile(  # scripts that write words without spaces, and Hangul, whose particles are joined to names
    "[\u0e00-\u109f\u1100-\u11ff\u1780-\u17ff\u1950-\u1aaf\u1b00-\u1b7f\u2e80-\ua4cf\ua980-\ua9df\uac00-\ud7ff"
    "\uf900-\ufaff\uff66-\uff9f\U00020000-\U0003ffff]"
)
_WIDE_SPACE = re.compile(r"\s{2,}|[^\S ]")


class Searchable:
    r"""A text with its white space folded, and the way back to positions in it.

    `before` and `after` are the characters next to the text, where they are known: they tell whether a word at its edge
    is whole.

    >>> list(Searchable("Ada Byron met Ada\n  Byron; Ada Byrons").find("Ada Byron"))
    [(0, 9), (14, 25)]
    """

    def __init__(self, text: str, before: str = "", after: str = "") -> None:
        self._lead = len(before)
        self._length = len(text)
        whole = before + text + after
        self._folded = _WIDE_SPACE.sub(" ", whole)
        self._cuts, self._shifts = [-1], [0]  # after folded position cuts[i], add shifts[i] for the position in `whole`
        for run in _WIDE_SPACE.finditer(whole) if len(self._folded) < len(whole) else ():
            self._cuts.append(run.start() - self._shifts[-1])
            self._shifts.append(self._shifts[-1] + len(run.group()) - 1)

    def find(self, name: str) -> Iterator[tuple[int, int]]:
        """Spans of a non-empty `name` (its white space folded) where it stands in the text as a word, verbatim."""
        at = self._folded.find(name)
        while at >= 0:
            stop = at + len(name)
            start, end = self._position(at), self._position(stop - 1) + 1
            whole_word = _parts(self._folded[at - 1 : at], name[0]) and _parts(name[-1], self._folded[stop : stop + 1])
            taken = whole_word and start >= 0 and end <= self._length
            if taken:
                yield start, end
            at = self._folded.find(name, stop if taken else at + 1)

    def _position(self, folded: int) -> int:
        return folded + self._shifts[bisect_right(self._cuts, folded - 1) - 1] - self._lead


def _parts(left: str, right: str) -> bool:
    """Whether a word may end between two neighbouring characters ("" at an edge of the text)."""
    if not left or not right:
        return True
    if unicodedata.category(right)[0] == "M":
        return False  # a combining mark belongs to the character before it
    if not (_in_word(left) and _in_word(right)):
        return True
    return bool(_SPACELESS.match(left) or _SPACELESS.match(right))


def _in_word(character: str) -> bool:
    return character.isalnum() or character == "_" or unicodedata.category(character)[0] == "M"
