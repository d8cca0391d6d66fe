"""DOCX to text: paragraphs, tables, text boxes and notes in the order of the document."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterator
from typing import Any

from localgraphrag.errors import DocumentError
from localgraphrag.readers.text import blank, clean
from localgraphrag.readers.titles import sensible

LARGEST_XML = 300_000_000  # bytes; a ZIP of a few kilobytes can claim more than any memory holds
_WRAPPERS = {"sdt", "sdtContent", "customXml", "ins", "moveTo", "smartTag", "AlternateContent", "Choice"}
_UNSEEN = {"pPr", "rPr", "del", "moveFrom", "Fallback", "txbxContent", "instrText", "rt", "sdtPr"}
_BREAKS = {"tab": "\t", "br": "\n", "cr": "\n", "noBreakHyphen": "-"}


def read_docx(data: bytes) -> tuple[str, str]:
    """Text and title of a Word document. Raises DocumentError if it is broken, encrypted or without text.

    Inserted text is kept, deleted text and comments are not. Cells of a table row are joined by ` | `.
    """
    body, notes, title = _open(data)
    blocks = [*_blocks(body), *(block for note in notes for block in _blocks(note))]
    text = clean("\n\n".join(block for block in blocks if block.strip()))
    if blank(text):
        raise DocumentError("is a DOCX file without text")
    return text + "\n", title


def _open(data: bytes) -> tuple[Any, list[Any], str]:
    """Body, foot- and endnotes, title."""
    import docx
    from docx.oxml import parse_xml

    try:
        archive = zipfile.ZipFile(io.BytesIO(data))
        names = archive.namelist()
        if sum(archive.getinfo(name).file_size for name in names if name.endswith((".xml", ".rels"))) > LARGEST_XML:
            raise DocumentError("is a DOCX file that unpacks to more text than fits in memory")
        main = parse_xml(archive.read("word/document.xml"))
        parts = [
            parse_xml(archive.read(f"word/{name}.xml"))
            for name in ("footnotes", "endnotes")
            if f"word/{name}.xml" in names
        ]
    except DocumentError:
        raise
    except Exception as error:  # zipfile, zlib and lxml raise a dozen kinds on broken files
        raise DocumentError(f"is a broken DOCX file ({type(error).__name__}: {error})") from error
    try:
        title = docx.Document(io.BytesIO(data)).core_properties.title
    except Exception:  # python-docx refuses files with a dangling reference, whose text is still sound
        title = ""
    body = next((child for child in main if _name(child) == "body"), main)
    return body, [note for part in parts for note in part], sensible(title or "") or _title_paragraph(body)


def _title_paragraph(body: Any) -> str:
    """Text of the first paragraph in the style Title, or ""."""
    for child in _children(body):
        styles = (element for element in child.iter() if _name(element) == "pStyle")
        if any(value == "Title" for style in styles for value in style.attrib.values()):
            return next(_paragraph(child), "") if _name(child) == "p" else ""
    return ""


def _name(element: Any) -> str:
    """Tag without its namespace, of which there are two (transitional and strict). Comments have none."""
    return element.tag.rpartition("}")[2] if isinstance(element.tag, str) else ""


def _children(element: Any) -> Iterator[Any]:
    """Children, those in content controls and tracked insertions included."""
    for child in element:
        if _name(child) in _WRAPPERS:
            yield from _children(child)
        else:
            yield child


def _blocks(element: Any) -> Iterator[str]:
    for child in _children(element):
        if _name(child) == "p":
            yield from _paragraph(child)
        elif _name(child) == "tbl":
            yield from _table(child)


def _paragraph(paragraph: Any) -> Iterator[str]:
    """The paragraph's own text, then that of text boxes anchored in it."""
    parts: list[str] = []
    boxes: list[Any] = []
    stack = list(reversed(paragraph))
    while stack:
        element = stack.pop()
        name = _name(element)
        if name == "txbxContent":
            boxes.append(element)
        if name in _UNSEEN:
            continue
        if name == "t":
            parts.append(element.text or "")
        elif name in _BREAKS:
            parts.append(_BREAKS[name])
        stack.extend(reversed(element))
    yield "".join(parts).strip()
    for box in boxes:
        yield from _blocks(box)


def _table(table: Any) -> Iterator[str]:
    """One block for the rows; a row of one cell is layout, and its blocks stand by themselves."""
    lines: list[str] = []
    for row in (child for child in _children(table) if _name(child) == "tr"):
        cells = [[block for block in _blocks(cell) if block] for cell in _children(row) if _name(cell) == "tc"]
        if len(cells) == 1:
            lines.extend(cells[0])
        elif any(cells):
            lines.append(" | ".join(" ".join(" ".join(blocks).split()) for blocks in cells))
    yield "\n".join(lines)
