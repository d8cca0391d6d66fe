"""Files to documents (paper 3.1.1)."""
from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Document:
    """A text with its origin.

    `id` is the sha256 of the text (hex); `title` comes from the file; `sources` are the paths (or path#row for CSV and JSONL)
    that hold this very text, sorted, relative to the folder given where there is one.
    """

    id: str
    title: str
    text: str
    sources: tuple[str, ...]
