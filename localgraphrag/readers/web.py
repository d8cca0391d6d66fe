"""HTML to text: blocks become lines, scripts and navigation go."""

from __future__ import annotations

import re
from typing import Any

from localgraphrag.errors import DocumentError
from localgraphrag.readers.text import blank, clean, decode

_NEVER_TEXT = {"title", "script", "style", "template"}
_NOT_PROSE = _NEVER_TEXT | {"nav", "noscript", "svg", "iframe", "object", "select", "canvas", "datalist"}
_BLOCKS = {
    "address", "article", "aside", "blockquote", "body", "caption", "center", "dd", "details", "dialog", "div", "dl",
    "dt",
    "fieldset", "figcaption", "figure", "footer", "form", "h1", "h2", "h3", "h4", "h5", "h6", "header", "hr", "li",
    "main", "ol",
    "option", "p", "pre", "section", "summary", "table", "tbody", "tfoot", "thead", "tr", "ul",
}  # fmt: skip
_SPACED = {
    "article",
    "blockquote",
    "dl",
    "figure",
    "h1",
    "h2",
    "h3",
    "h4",
    "h5",
    "h6",
    "ol",
    "p",
    "pre",
    "section",
    "table",
    "ul",
}
_ROW, _CELL = "\x1e", "\x1f"  # ASCII's own separators mark where table rows and cells begin, until all is joined
_TAG = re.compile(rb"<[^<>]*>")
_CHARSET = re.compile(
    rb"<(?:meta\b[^>]{0,300}?charset|\?xml\b[^>]{0,300}?encoding)\s*=\s*[\"']?\s*([\w.:-]+)", re.IGNORECASE
)


def read_html(data: bytes) -> tuple[str, str]:
    """Text and title of a page. Raises DocumentError if it has no text.

    The charset is a byte order mark, else what the bytes prove, else what the page declares, else a guess from the
    bytes outside the markup: pages often declare a charset they are not in.
    """
    from bs4 import BeautifulSoup
    from bs4.exceptions import ParserRejectedMarkup

    bare = _without(data.lower(), b"<!--", b"-->")
    declared = _CHARSET.search(bare)
    sample = _TAG.sub(b" ", _without(_without(bare, b"<script", b"</script"), b"<style", b"</style"))
    markup = decode(data, declared[1].decode("ascii", "ignore") if declared else "", sample)
    try:
        soup = BeautifulSoup(markup, "html.parser")
    except ParserRejectedMarkup:  # over some malformed declarations; this one never refuses, but nests only so deep
        soup = BeautifulSoup(markup, "lxml")
    text = clean(_text(soup, _NOT_PROSE))
    if blank(text):
        text = clean(_text(soup, _NEVER_TEXT))  # an unclosed <nav> may have swallowed the page
    if blank(text):
        raise DocumentError("is HTML without text")
    return text, _title(soup)


def _without(data: bytes, opening: bytes, closing: bytes) -> bytes:
    """The bytes outside all stretches from an opening to its closing; a regular expression takes square time."""
    kept, at = [], 0
    while (start := data.find(opening, at)) >= 0 and (end := data.find(closing, start)) >= 0:
        kept.append(data[at:start])
        at = end + len(closing)
    return b" ".join([*kept, data[at:]])


def _title(soup: Any) -> str:
    for name in ("title", "h1"):
        found = soup.find(name)
        if found and (title := " ".join(found.get_text(" ").split())):
            return title
    return ""


def _text(soup: Any, dropped: set[str]) -> str:
    """The page's text without the elements named.

    A stack rather than recursion, because broken pages nest thousands deep.
    """
    out = _Lines()
    stack: list[tuple[Any, bool]] = [(soup, True)]
    while stack:
        node, entering = stack.pop()
        name = getattr(node, "name", None)
        if name is None:
            _string(node, out)
        elif not entering:
            out.end_block(name)
        elif name not in dropped and (node.get("role") != "navigation" or "nav" not in dropped):
            out.start_block(name)
            stack.append((node, False))
            stack.extend((child, True) for child in reversed(node.contents))
    return out.joined()


def _string(node: Any, out: _Lines) -> None:
    from bs4.element import CData, NavigableString

    if type(node) in (NavigableString, CData):  # the subclasses are comments, doctypes, scripts
        out.add(str(node))


class _Lines:
    """Collects words into lines; white space folds as in a browser, except inside `pre`."""

    def __init__(self) -> None:
        self._parts: list[str] = []
        self._last = "\n"  # the last part that is more than spaces
        self._preformatted = 0

    def _append(self, part: str) -> None:
        self._parts.append(part)
        if part.strip(" "):
            self._last = part

    def add(self, text: str) -> None:
        if not self._preformatted:
            text = re.sub(r"[ \t\n\r\f]+", " ", text)
            if text == " " and self._parts and self._parts[-1].endswith((" ", "\n")):
                return
        self._append(text)

    def start_block(self, name: str) -> None:
        self._break(name)
        self._preformatted += name == "pre"
        if name == "li":
            self._append("- ")
        elif name == "br":
            self._append("\n")
        elif name in ("td", "th"):  # before a cell, not after it: cells are often left unclosed
            self._append(_CELL)
        elif name == "tr":
            self._append(_ROW)

    def end_block(self, name: str) -> None:
        self._preformatted -= name == "pre"
        self._break(name)

    def _break(self, name: str) -> None:
        if self._last == _CELL and name != "tr":
            return  # a cell's first block stays on the row's line
        if name in _SPACED:
            self._append("\n\n")
        elif name in _BLOCKS and not self._last.endswith("\n"):
            self._append("\n")

    def joined(self) -> str:
        text = "".join(self._parts)
        text = re.sub(rf"{_ROW}[ \t\n]*{_CELL}?[ \t\n]*", _ROW, text)
        text = re.sub(rf"(?<![ \t\n])[ \t\n]*{_CELL}[ \t]*", " | ", text).replace(_ROW, "")
        text = re.sub(r"(?<![ \t])[ \t]+\n", "\n", text)
        text = re.sub(r"\n- *\n+", "\n- ", text)  # an item whose text is in a paragraph of its own
        text = re.sub(r"\n (?=\S)", "\n", text)
        return re.sub(r"\n{3,}", "\n\n", text).strip() + "\n"
