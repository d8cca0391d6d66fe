"""The parts of a report page, and the anchors that its figures lead to."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal


@dataclass(frozen=True)
class Link:
    """A text that leads to an anchor of the page, or nowhere where `href` is empty."""

    text: str
    href: str = ""


Words = str | tuple[Link | str, ...]
"""Running text; pieces of it may lead somewhere."""


@dataclass(frozen=True)
class Text:
    """A paragraph."""

    text: Words
    warning: bool = False
    kind: Literal["text"] = "text"


@dataclass(frozen=True)
class Figure:
    """An SVG with a line below it."""

    svg: str
    caption: Words
    kind: Literal["figure"] = "figure"


@dataclass(frozen=True)
class TableRow:
    """A row, and the anchors by which it is reached, if it is."""

    cells: tuple[Link, ...]
    ids: tuple[str, ...] = ()


@dataclass(frozen=True)
class Table:
    """A table; `right` are the columns of figures, counted from 0."""

    heads: tuple[str, ...]
    rows: tuple[TableRow, ...]
    right: tuple[int, ...] = ()
    caption: Words = ""
    kind: Literal["table"] = "table"


@dataclass(frozen=True)
class AnswerPart:
    """A stored answer as it was given."""

    id: str
    head: str
    note: str
    text: str
    citations: tuple[str, ...]
    kind: Literal["answer"] = "answer"


Part = Text | Figure | Table | AnswerPart


@dataclass(frozen=True)
class Section:
    """A heading with what is below it."""

    id: str
    title: str
    parts: tuple[Part, ...]


@dataclass
class Anchors:
    """Names for places in the page: the same for the same thing, different for different things.

    >>> anchors = Anchors()
    >>> anchors("answer", "C 0"), anchors("answer", "C-0"), anchors("answer", "C 0")
    ('answer-C-0', 'answer-C-0-2', 'answer-C-0')
    """

    _names: dict[tuple[str, ...], str] = field(default_factory=dict)
    _taken: set[str] = field(default_factory=set)

    def __call__(self, *parts: str) -> str:
        """The anchor of the thing named by `parts`."""
        if parts not in self._names:
            base = re.sub(r"[^A-Za-z0-9_]+", "-", "-".join(parts)).strip("-")[:80] or "record"
            name, number = base, 1
            while name in self._taken:
                number += 1
                name = f"{base}-{number}"
            self._taken.add(name)
            self._names[parts] = name
        return self._names[parts]


def table(
    heads: Sequence[str],
    rows: Iterable[tuple[Sequence[str], Sequence[Link | str]]],
    right: Sequence[int] = (),
    caption: Words = "",
) -> Table:
    """A table of rows, each of anchors and cells."""
    made = (TableRow(tuple(c if isinstance(c, Link) else Link(c) for c in cells), tuple(ids)) for ids, cells in rows)
    return Table(tuple(heads), tuple(made), tuple(right), caption)


def linked(text: str, links: Iterable[Link]) -> Words:
    """A text in which some figures lead somewhere: those of `links`, in the order in which they stand in it.

    >>> linked("Of 50 rounds 5 %.", [Link("50", "rounds"), Link("5 %", "bias")])
    ('Of ', Link(text='50', href='rounds'), ' rounds ', Link(text='5 %', href='bias'), '.')
    """
    pieces: list[Link | str] = []
    for link in links:
        if found := re.search(rf"(?<![\w.,]){re.escape(link.text)}(?!\w)", text):
            pieces += [text[: found.start()], link]
            text = text[found.end() :]
    return (*pieces, text)


def render(title: str, subtitle: Words, sections: Sequence[Section], records: Sequence[Section]) -> str:
    """The page as one HTML file that needs nothing else: no script, no style sheet, no picture, no font."""
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent),
        undefined=jinja2.StrictUndefined,
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    page = environment.get_template("report.html.j2")
    return page.render(title=title, subtitle=subtitle, sections=sections, records=records)
