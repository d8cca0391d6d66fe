"""Plots as SVG text: lines, bars and a heat map. No library, no script, nothing fetched.

Text takes the colour of its surroundings (`currentColor`) and every mark has its label beside it, so that the plots
read in a dark page, in a notebook, in print, and without telling colours apart. The colours are Okabe and Ito's
(Color Universal Design, 2008).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from xml.etree import ElementTree

COLOURS: MappingProxyType[str, str] = MappingProxyType(
    {"C0": "#0072b2", "C1": "#56b4e9", "C2": "#009e73", "C3": "#cc79a7", "TS": "#d55e00", "SS": "#e69f00"}
)
"""Of the paper's conditions; any other is grey."""

DASHES: MappingProxyType[str, str] = MappingProxyType({"C1": "7 3", "C2": "2 3", "C3": "9 3 2 3", "TS": "14 4"})

_WIDTH, _LINE_HEIGHT = 720, 16
_LOW, _HIGH = "#d55e00", "#0072b2"


@dataclass(frozen=True)
class Line:
    """A named line through points (x, y)."""

    name: str
    points: tuple[tuple[float, float], ...]


@dataclass(frozen=True)
class Bar:
    """A bar of the series `name`; `text` is shown at its end, `href` is where it leads, `value` None shows no bar."""

    name: str
    value: float | None
    text: str
    href: str = ""


@dataclass(frozen=True)
class Cell:
    """A cell of a heat map: a share from 0 to 1, or None for an empty one; `note` is a second, smaller line."""

    share: float | None
    text: str
    note: str = ""
    href: str = ""


def line_chart(title: str, lines: Sequence[Line], *, across: str, up: str) -> str:
    """Lines from the origin, each with its name at its end. `across` and `up` name the axes."""
    height, left, right, top, bottom = 380, 64, 70, 16, 44
    right_most = max((x for line in lines for x, _ in line.points), default=1) or 1
    highest = max((y for line in lines for _, y in line.points), default=1) or 1
    place = _Scale(left, _WIDTH - right, right_most), _Scale(height - bottom, top, highest)
    svg = _svg(title, height)
    for value in ticks(right_most):
        x = place[0](value)
        _text(svg, x, height - bottom + 18, short(value), anchor="middle")
    for value in ticks(highest):
        y = place[1](value)
        _add(svg, "line", x1=left, x2=_WIDTH - right, y1=y, y2=y, stroke="currentColor", stroke_opacity=0.15)
        _text(svg, left - 8, y + 4, short(value), anchor="end")
    _text(svg, (left + _WIDTH - right) / 2, height - 6, across, anchor="middle")
    _text(svg, 12, (top + height - bottom) / 2, up, anchor="middle", turned=True)
    ends = sorted((place[1](line.points[-1][1]), line.name) for line in lines if line.points)
    labels = dict(zip((name for _, name in ends), _apart([y for y, _ in ends]), strict=True))
    for line in lines:
        path = " ".join(f"{place[0](x):.1f},{place[1](y):.1f}" for x, y in line.points)
        drawn = _add(svg, "polyline", points=path, fill="none", stroke=colour(line.name), stroke_width=2.5)
        if line.name in DASHES:
            drawn.set("stroke-dasharray", DASHES[line.name])
        if line.points:
            _text(svg, _WIDTH - right + 8, labels[line.name] + 4, line.name, fill=colour(line.name), bold=True)
    return _finished(svg)


def bar_chart(title: str, groups: Sequence[tuple[str, Sequence[Bar]]], *, most: float = 0) -> str:
    """Bars from the left, in groups under a heading. `most` is the value of the longest bar there can be."""
    most = most or max((bar.value or 0 for _, bars in groups for bar in bars), default=0) or 1
    left, right = 70, 110
    height = sum(_LINE_HEIGHT * (len(bars) + bool(name)) + 10 for name, bars in groups) + 4
    svg = _svg(title, height)
    y = 2.0
    for name, bars in groups:
        if name:
            _text(svg, 0, y + 12, name, bold=True)
            y += _LINE_HEIGHT
        for bar in bars:
            _text(svg, left - 8, y + 12, bar.name, anchor="end")
            place = _linked(svg, bar.href)
            length = (_WIDTH - left - right) * min((bar.value or 0) / most, 1)
            _add(place, "rect", x=left, y=y + 2, width=max(length, 0.5), height=_LINE_HEIGHT - 4, fill=colour(bar.name))
            _text(place, left + length + 6, y + 12, bar.text)
            y += _LINE_HEIGHT
        y += 10
    return _finished(svg)


def heat_map(title: str, names: Sequence[str], cells: Mapping[tuple[str, str], Cell]) -> str:
    """A square table of shares by (row, column): blue above a half, orange below, white at a half.

    Every cell says its share in figures; colour only repeats it.
    """
    left, top, wide, high = 60, 34, 84, 44
    svg = _svg(title, top + high * len(names) + 4, left + wide * len(names) + 4)
    for i, name in enumerate(names):
        _text(svg, left + wide * (i + 0.5), top - 10, name, anchor="middle", bold=True)
        _text(svg, left - 10, top + high * (i + 0.5) + 4, name, anchor="end", bold=True)
    for row, first in enumerate(names):
        for column, second in enumerate(names):
            cell = cells.get((first, second), Cell(None, ""))
            x, y = left + wide * column, top + high * row
            place = _linked(svg, cell.href)
            box = _add(place, "rect", x=x + 1, y=y + 1, width=wide - 2, height=high - 2, fill="currentColor")
            box.set("fill-opacity", "0.04")
            if cell.share is not None:
                box.set("fill", _HIGH if cell.share >= 0.5 else _LOW)
                box.set("fill-opacity", f"{0.06 + abs(cell.share - 0.5) * 1.1:.2f}")
            _text(place, x + wide / 2, y + (high / 2 - 1 if cell.note else high / 2 + 4), cell.text, anchor="middle")
            if cell.note:
                _text(place, x + wide / 2, y + high / 2 + 14, cell.note, anchor="middle", size=10)
    return _finished(svg)


def colour(name: str) -> str:
    """The colour of a condition."""
    return COLOURS.get(name, "#8c8c8c")


def short(value: float) -> str:
    """A number in few characters.

    >>> short(0), short(950), short(26_657), short(1_667_924), short(0.5)
    ('0', '950', '27 k', '1.7 M', '0.5')
    """
    for size, unit in ((1e9, " G"), (1e6, " M"), (1e3, " k")):
        if value >= size:
            scaled = value / size
            return f"{scaled:.0f}{unit}" if scaled >= 10 or scaled == round(scaled) else f"{scaled:.1f}{unit}"
    return f"{value:g}"


def ticks(highest: float) -> list[float]:
    """Four to eight round numbers from 0 to `highest`.

    >>> ticks(100), ticks(7)
    ([0, 20, 40, 60, 80, 100], [0, 1, 2, 3, 4, 5, 6, 7])
    """
    size = 10 ** math.floor(math.log10(highest))
    step = next(size * part for part in (0.1, 0.2, 0.5, 1, 2) if highest / (size * part) < 8)
    marks = [round(i * step, 12) for i in range(int(highest / step + 1e-9) + 1)]
    return [int(mark) if mark == int(mark) else mark for mark in marks]


class _Scale:
    """Values to places on the page."""

    def __init__(self, start: float, end: float, most: float) -> None:
        self.start, self.end, self.most = start, end, most

    def __call__(self, value: float) -> float:
        return self.start + (self.end - self.start) * value / self.most


def _apart(heights: Sequence[float]) -> list[float]:
    """The heights in rising order, moved up so that labels there do not lie on each other."""
    placed: list[float] = []
    for y in sorted(heights, reverse=True):
        placed.append(min(y, placed[-1] - 14) if placed else y)
    return placed[::-1]


def _svg(title: str, height: float, width: float = _WIDTH) -> ElementTree.Element:
    svg = ElementTree.Element("svg", xmlns="http://www.w3.org/2000/svg", viewBox=f"0 0 {width:g} {height:g}")
    svg.attrib |= {"role": "img", "width": f"{width:g}", "height": f"{height:g}", "style": "max-width:100%;height:auto"}
    svg.attrib |= {"font-family": "system-ui, sans-serif", "font-size": "12", "fill": "currentColor"}
    ElementTree.SubElement(svg, "title").text = title
    return svg


def _linked(parent: ElementTree.Element, href: str) -> ElementTree.Element:
    return _add(parent, "a", href=href) if href else parent


def _add(parent: ElementTree.Element, tag: str, **attributes: str | float) -> ElementTree.Element:
    named = {name.replace("_", "-"): v if isinstance(v, str) else f"{v:g}" for name, v in attributes.items()}
    return ElementTree.SubElement(parent, tag, named)


def _text(
    parent: ElementTree.Element,
    x: float,
    y: float,
    text: str,
    *,
    anchor: str = "start",
    bold: bool = False,
    turned: bool = False,
    size: int = 12,
    fill: str = "currentColor",
) -> None:
    found = _add(parent, "text", x=x, y=y, text_anchor=anchor, fill=fill, font_size=size)
    if bold:
        found.set("font-weight", "bold")
    if turned:
        found.set("transform", f"rotate(-90 {x:g} {y:g})")
    found.text = text


def _finished(svg: ElementTree.Element) -> str:
    return ElementTree.tostring(svg, encoding="unicode")
