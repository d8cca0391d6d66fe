"""Colours and marks that tell things apart, also in grey and to the colour-blind.

The colours are Okabe and Ito's (Color Universal Design, 2008). None is ever used alone: each category also has a mark
(for points) and a line style (for text), and whoever shows one also writes its name.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

OKABE_ITO = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#f0e442")
"""Blue, orange, green, purple, sky, vermilion, yellow; black is left to the text."""

MARKS = ("●", "▲", "■", "◆", "★", "▼", "✚", "⬟")
LINES = ("solid", "dashed", "dotted", "double", "wavy")
OTHER = "#8c8c8c"

KINDS = {"entity": OKABE_ITO[0], "relationship": OKABE_ITO[1], "claim": OKABE_ITO[2], "report": OKABE_ITO[3]}
"""Of the records of a context."""


class Look(NamedTuple):
    """How a category looks: colour as `#rrggbb`, a mark, and a line style of CSS' `text-decoration`."""

    colour: str
    mark: str
    line: str


def look(number: int) -> Look:
    """The look of the category with this number, from 0: the first 56 have a colour and mark of their own.

    >>> look(0), look(7)
    (Look(colour='#0072b2', mark='●', line='solid'), Look(colour='#0072b2', mark='◆', line='dotted'))
    >>> len({look(i)[:2] for i in range(56)})
    56
    """
    lap = number // len(OKABE_ITO)
    # each lap the colours meet other marks, so that no pair comes back before all have been
    mark = (number % len(OKABE_ITO) + 3 * lap) % len(MARKS)
    return Look(OKABE_ITO[number % len(OKABE_ITO)], MARKS[mark], LINES[number % len(LINES)])


def looks(names: Iterable[str]) -> dict[str, Look]:
    """A look for each name, in the order given; "other" is grey.

    >>> looks(["person", "other"])["other"].colour
    '#8c8c8c'
    """
    found = {name: look(i) for i, name in enumerate(dict.fromkeys(names))}
    if "other" in found:
        found["other"] = found["other"]._replace(colour=OTHER)
    return found
