"""One file of any supported kind to texts with titles.

text.py        bytes to text: encodings, binary files
titles.py      titles from the text or the file's name
web.py         HTML
word.py        DOCX
pdf.py         PDF, by pdf_worker.py in a process of its own
rows.py        CSV and JSONL, a text per row
"""

from __future__ import annotations

import zipfile
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from localgraphrag.errors import DocumentError

LARGEST_FILE = 200_000_000
"""Bytes. A larger file is refused: it would not fit in memory several times over."""

SUPPORTED = "txt, md, rst, html, pdf, docx, csv, tsv, jsonl and other plain text"

_KINDS = {
    ".html": "html", ".htm": "html", ".xhtml": "html", ".pdf": "pdf", ".docx": "docx", ".docm": "docx",
    ".csv": "csv", ".tsv": "csv", ".jsonl": "jsonl", ".ndjson": "jsonl",
    ".md": "md", ".markdown": "md", ".rst": "rst", ".rest": "rst",
}  # fmt: skip
# Text by its bytes, but data or layout rather than prose: read only when asked for by name.
_NOT_PROSE = {
    ".json", ".geojson", ".xml", ".rss", ".atom", ".svg", ".yaml", ".yml", ".toml", ".ini", ".css", ".js", ".map",
    ".lock",
    ".rtf", ".ipynb", ".sql", ".gml", ".graphml", ".bib", ".ics", ".vcf", ".ps", ".eps",
}  # fmt: skip


@dataclass(frozen=True)
class Item:
    """A text found in a file. `title` is the file's own or ""; `row` is 0, or the row's number from 1."""

    text: str
    title: str = ""
    row: int = 0


@dataclass(frozen=True)
class Content:
    """What a file gave: its texts, and a sentence about any part that could not be read (or "")."""

    items: tuple[Item, ...]
    problem: str = ""


def read_file(path: Path, *, text_column: str, title_column: str, named: bool) -> Content:
    """Texts of one file.

    `named` says that the user asked for this very file (or by a glob), so that kinds which are data rather than prose
    are read as plain text. Raises DocumentError with the reason, worded to follow the file's name, or NoColumnError.
    """
    try:
        size = path.stat().st_size
        if size > LARGEST_FILE:
            raise DocumentError(f"is larger than {LARGEST_FILE // 1_000_000} MB; split it")
        data = path.read_bytes()
    except OSError as error:
        raise DocumentError(f"cannot be opened ({error.strerror})") from error
    kind = _kind(path, data)
    if kind == "unsupported" or (kind == "not prose" and not named):
        raise DocumentError(_unsupported(path, data))
    if kind in ("csv", "jsonl"):
        from localgraphrag.readers.rows import read_csv, read_jsonl

        rows, problem = (read_csv if kind == "csv" else read_jsonl)(data, text_column, title_column)
        return Content(tuple(Item(row.text, row.title, row.number) for row in rows), problem)
    return _whole(kind, path, data)


def _whole(kind: str, path: Path, data: bytes) -> Content:
    from localgraphrag.readers import pdf, text, titles, web, word

    if kind == "pdf":
        found, title, problem = pdf.read_pdf(path)
        return Content((Item(found, titles.sensible(title)),), problem)
    if kind in ("html", "docx"):
        found, title = (web.read_html if kind == "html" else word.read_docx)(data)
        return Content((Item(found, titles.sensible(title)),))
    found = text.decode(data)
    return Content((Item(found, titles.title_in_text(found, kind)),))


def _kind(path: Path, data: bytes) -> str:
    """The kind by content where that is certain, else by suffix."""
    from localgraphrag.readers.text import binary_kind

    suffix = path.suffix.lower()
    if not data.strip():
        return "text"
    if data.lstrip()[:5] == b"%PDF-":
        return "pdf"
    if binary_kind(data):
        return "docx" if _is_docx(path, data) else "unsupported"
    if suffix in _NOT_PROSE:
        return "not prose"
    start = data[:1000].lstrip(b"\xef\xbb\xbf \t\r\n").lower()
    if suffix not in _KINDS and suffix != ".txt" and start.startswith((b"<!doctype html", b"<html")):
        return "html"
    return _KINDS.get(suffix, "text")


def _is_docx(path: Path, data: bytes) -> bool:
    if path.suffix.lower() in (".docx", ".docm") and not data.startswith(b"\xd0"):
        return True  # the reader says what is wrong with it
    try:
        with zipfile.ZipFile(path) as archive:
            return "word/document.xml" in archive.namelist()
    except (zipfile.BadZipFile, OSError, ValueError):
        return False


def _unsupported(path: Path, data: bytes) -> str:
    from localgraphrag.readers.text import binary_kind

    suffix = PurePosixPath(path.name).suffix.lower()
    if suffix in (".docx", ".doc", ".docm") and data.startswith(b"\xd0\xcf\x11\xe0"):
        return "is an encrypted or old Word file; save it as DOCX without a password"
    kind = f"is of a kind that is not read ({suffix or binary_kind(data)})"
    return f"{kind}; supported are {SUPPORTED}"
