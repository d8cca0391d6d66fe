"""What all views share: the module and style that a browser gets, elements whose text is always text, static forms.

A view is one class with two files: `name.py` holds the state and the static form, `name.js` draws. What is drawn comes
to the browser in one trait, `data`, made in Python from the library's own results; the other traits hold what a reader
does, and may be set from either side.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import anywidget
import traitlets

_HERE = Path(__file__).parent

Element = ElementTree.Element


def script(name: str) -> str:
    """The JavaScript module of a view: what all share (`common.js`), then its own file."""
    return f"{_read('common.js')}\n{_read(name)}"


def styles(*names: str) -> str:
    """The style of a view: what all share (`style.css`), then its own files."""
    return "\n".join(map(_read, ("style.css", *names)))


@lru_cache
def _read(name: str) -> str:
    return (_HERE / name).read_text(encoding="utf-8")


def el(tag: str, attributes: dict[str, str] | None = None, *children: Element | str) -> Element:
    """An element of HTML or SVG with its children, as `el` of `common.js`: strings become text, never markup.

    >>> html(el("p", {"class": "a"}, "1 < 2, ", el("b", {}, "<script>")))
    '<p class="a">1 &lt; 2, <b>&lt;script&gt;</b></p>'
    """
    made = ElementTree.Element(tag, attributes or {})
    last: Element | None = None
    for child in children:
        if not isinstance(child, str):
            made.append(child)
            last = child
        elif last is None:
            made.text = (made.text or "") + child
        else:
            last.tail = (last.tail or "") + child
    return made


def html(element: Element) -> str:
    """The element as HTML."""
    return ElementTree.tostring(element, encoding="unicode", method="html")


def within(what: str, value: int, least: int, last: int) -> int:
    """The value of a trait that counts. Raises TraitError for one that is out of range."""
    if not least <= value <= last:
        raise traitlets.TraitError(f"There is no {what} {value}; give one from {least} to {last}.")
    return value


class View(anywidget.AnyWidget):
    """A widget that also has a static form, for a saved notebook and for a page without Jupyter.

    A subclass sets `_esm = script("name.js")` and `_css = styles()`, and draws its static form in `picture`.
    """

    _css = styles()

    def picture(self) -> Element:
        """The static form in its present state, without style."""
        raise NotImplementedError

    def static(self) -> str:
        """The view as it stands, as an HTML fragment that needs neither script nor network."""
        return html(el("div", {"class": "lgr lgr-static"}, el("style", {}, str(self._css)), self.picture()))

    def _repr_mimebundle_(self, **kwargs: Any) -> tuple[dict[Any, Any], dict[Any, Any]] | None:
        bundle = super()._repr_mimebundle_(**kwargs)
        if bundle is not None:
            bundle[0]["text/html"] = self.static()
        return bundle
