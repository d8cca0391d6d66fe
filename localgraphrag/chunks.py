"""Documents to chunks: windows of tokens with exact character spans (paper 3.1.1)."""
from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Chunk:
    """A window of a document: `document.text[start:end] == text`.

    `id` is a hash of document id and span; `ordinal` counts from 0 within the document; `tokens` is the
    window's length in the model's tokens. `title` is the document's.
    """

    id: str
    document_id: str
    title: str
    ordinal: int
    start: int
    end: int
    text: str
    tokens: int
