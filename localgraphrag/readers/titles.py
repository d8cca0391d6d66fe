"""Titles: from what a file says of itself where that can be trusted, else from its name."""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import PurePosixPath

_LONGEST = 200
_LINES = 60  # a title stands near the top
_MEANINGLESS = re.compile(
    r"(untitled|no title|new page|page|document|word document|presentation|title|index|home|none|null|unknown)"
    r"( document| page)?\s*\d*",
    re.IGNORECASE,
)
_FILE_NAME = re.compile(r"\S+\.(docx?|dvi|tex|indd|qxd|pdf|html?|pub|pptx?|rtf|txt|odt|ps|eps|cdr|ai)", re.IGNORECASE)
_HEADER_LINE = re.compile(r"[A-Z][\w-]{0,30}:(?: |\t|$)")
_UNDERLINE = re.compile(r"([=\-`:'\"~^_*+#<>.])\1{2,}\s*")


def sensible(title: str) -> str:
    """The title on one line, or "" if programs write such titles without being asked.

    >>> sensible("Annual  report"), sensible("Untitled document"), sensible("Microsoft Word - draft3.doc")
    ('Annual report', '', '')
    """
    from localgraphrag.readers.text import clean

    title = " ".join(clean(title).split())
    if title.startswith(("Microsoft Word - ", "Microsoft PowerPoint - ")) or not any(c.isalnum() for c in title):
        return ""
    if _MEANINGLESS.fullmatch(title) or _FILE_NAME.fullmatch(title):
        return ""
    return title if len(title) <= _LONGEST else title[: _LONGEST - 1].rstrip() + "…"


def from_name(source: str) -> str:
    """A file's name as a title.

    >>> from_name("letters/harbour_board-minutes.txt"), from_name("2024-05-06 notes.md")
    ('Harbour board minutes', '2024-05-06 notes')
    """
    name = PurePosixPath(source).name
    stem = PurePosixPath(name).stem if not name.startswith(".") else name
    words = re.sub(r"(?<!\d)-|-(?!\d)", " ", stem.replace("_", " "))
    title = sensible(words) or " ".join(words.split()) or name
    return title[0].upper() + title[1:] if title.islower() else title


def title_in_text(text: str, kind: str) -> str:
    """The title that a plain text gives:

    a `Title:` header, else for Markdown ("md") and reStructuredText ("rst") a heading.
    """
    lines = text[:20_000].split("\n")[:_LINES]
    found = _header(lines)
    if not found and kind == "md":
        found = _markdown_heading(lines)
    if not found and kind == "rst":
        found = _underlined(lines)
    return sensible(found)


def _header(lines: list[str]) -> str:
    """`Title:` among the `Name: value` lines that open a PEP, a mail or the front matter of a Markdown file."""
    if lines[0].strip() == "---":
        fields = dict(line.split(":", 1) for line in _until(lines[1:], "---") if ":" in line)
        return fields.get("title", fields.get("Title", "")).strip().strip("\"'")
    title = ""
    for line in _until(lines, ""):
        if not _HEADER_LINE.match(line) and not line.startswith((" ", "\t")):
            return ""
        if line.startswith("Title:"):
            title = line.partition(":")[2]
    return title


def _until(lines: list[str], end: str) -> list[str]:
    stop = next((at for at, line in enumerate(lines) if line.strip() == end), len(lines))
    return lines[:stop]


def _markdown_heading(lines: list[str]) -> str:
    fenced = False
    for at, line in enumerate(lines):
        fenced ^= line.lstrip().startswith(("```", "~~~"))
        if fenced:
            continue
        if match := re.match(r" {0,3}#{1,6}\s(.*)", line):
            return match[1].strip().rstrip("#").rstrip()
        if (
            at
            and lines[at - 1].strip()
            and re.fullmatch(r" {0,3}(=+|-{3,})\s*", line)
            and not lines[at - 1].startswith(("-", ">"))
        ):
            return lines[at - 1]
    return ""


def _underlined(lines: list[str]) -> str:
    for line, under in pairwise(lines):
        words = line.strip()
        if (
            words
            and _UNDERLINE.fullmatch(under)
            and not _UNDERLINE.fullmatch(line)
            and len(under.rstrip()) >= len(words)
        ):
            return words
    return ""
