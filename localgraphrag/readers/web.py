"""HTML to text: blocks become lines, scripts and navigation go."""

from __future__ import annotations

import re
from typing import Any

from localgraphrag.errors import DocumentError
from localgraphrag.readers.text import clean, decode

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
_CELL = "\x1f"  # the unit separator marks where a table cell begins, until rows are put together
_COMMENT = re.compile(rb"<!--.*?-->", re.DOTALL)
_SCRIPT = re.compile(rb"<(script|style)\b.*?</\1", re.DOTALL | re.IGNORECASE)
_TAG = re.compile(rb"<[^<>]*>")
_CHARSET = re.compile(rb"<(?:meta\b[^>]*?charset|\?xml\b[^>]*?encoding)\s*=\s*[\"']?\s*([\w.:-]+)", re.IGNORECASE)


def read_html(data: bytes) -> tuple[str, str]:
    """Text and title of a page. Raises DocumentError if it has no text.

    The charset is a byte order mark, else what the bytes prove, else what the page declares, else a guess from the
    bytes outside the markup: pages often declare a charset they are not in.
    """
    from bs4 import BeautifulSoup
    from bs4.exceptions import ParserRejectedMarkup

    bare = _COMMENT.sub(b"", data)
    declared = _CHARSET.search(bare)
    sample = _TAG.sub(b" ", _SCRIPT.sub(b" ", bare))
    markup = decode(data, declared[1].decode("ascii", "ignore") if declared else "", sample)
    try:
        soup = BeautifulSoup(markup, "html.parser")
    except ParserRejectedMarkup:  # over some malformed declarations; this one never refuses, but nests only so deep
        soup = BeautifulSoup(markup, "lxml")
    text = clean(_text(soup, _NOT_PROSE))
    if not text.strip():
        text = clean(_text(soup, _NEVER_TEXT))  # an unclosed <nav> may have swallowed the page
    if not text.strip():
        raise DocumentError("is HTML without text")
    return text, _title(soup)


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
        self._preformatted = 0

    def add(self, text: str) -> None:
        self._parts.append(text if self._preformatted else re.sub(r"[ \t\n\r\f]+", " ", text))

    def start_block(self, name: str) -> None:
        self._break(name)
        self._preformatted += name == "pre"
        if name == "li":
            self._parts.append("- ")
        elif name == "br":
            self._parts.append("\n")
        elif name in ("td", "th"):  # before a cell, not after it: cells are often left unclosed
            self._parts.append(_CELL)

    def end_block(self, name: str) -> None:
        self._preformatted -= name == "pre"
        self._break(name)

    def _break(self, name: str) -> None:
        if name in _SPACED:
            self._parts.append("\n\n")
        elif name in _BLOCKS and not self._at_line_start():
            self._parts.append("\n")

    def _at_line_start(self) -> bool:
        last = next((part for part in reversed(self._parts) if part.strip(" ")), "\n")
        return last.endswith("\n")

    def joined(self) -> str:
        text = "".join(self._parts)
        text = re.sub(rf"(^|\n)[ \t]*{_CELL}", r"\1", text)  # before a row's first cell
        text = re.sub(rf"[ \t]*{_CELL}[ \t]*", " | ", text)
        text = re.sub(r"[ \t]+\n", "\n", text)
        text = re.sub(r"\n- *\n+", "\n- ", text)  # an item whose text is in a paragraph of its own
        text = re.sub(r"\n (?=\S)", "\n", text)
        return re.sub(r"\n{3,}", "\n\n", text).strip() + "\n"
