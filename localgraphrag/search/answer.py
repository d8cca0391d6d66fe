"""The one answer type that every way to answer returns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from localgraphrag.llm.types import Usage


@dataclass(frozen=True)
class Source:
    """A piece of evidence at the end of a citation: the chunk, and the character span in its document."""

    chunk_id: str
    document_id: str
    start: int
    end: int


@dataclass(frozen=True)
class Citation:
    """A mark in the answer, `[number]`, and what it points to.

    `kind` "report" (id is a community id) or "chunk" (a chunk id). `records`: the node, edge and claim ids below a
    report that bear it. `sources`: chunks and spans, most telling first.
    """

    number: int
    kind: Literal["report", "chunk"]
    id: str
    title: str
    records: tuple[str, ...]
    sources: tuple[Source, ...]


@dataclass(frozen=True)
class Answer:
    """An answer, its evidence, and the record of how it came about.

    `method` "global", "ts" or "ss"; `level` None where there is none. `record` is JSON-able: seed, level, report or
    chunk ids per batch, model identity, every map output with its score, what reduce took, what it dropped and why.
    """

    question: str
    method: str
    level: int | None
    text: str
    citations: tuple[Citation, ...]
    usage: Usage
    record: dict[str, Any]

    @property
    def seconds(self) -> float:
        """How long the model was at work, by the clock; `usage.seconds` adds up calls that ran side by side."""
        return float(self.record.get("seconds", self.usage.seconds))
