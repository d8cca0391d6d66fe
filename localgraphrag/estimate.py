"""What an index run would take: chunks, calls, tokens, and minutes on this machine."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from localgraphrag import extract as extraction
from localgraphrag.chunks import Chunk, chunk_document
from localgraphrag.llm.output import schema
from localgraphrag.llm.types import Engine, Request, Usage

if TYPE_CHECKING:
    from localgraphrag.config import Settings
    from localgraphrag.documents import Reading, Skipped
    from localgraphrag.prompts import Prompts
    from localgraphrag.store import Store

ENOUGH_UNITS = 5
"""Stored units from which averages are taken; with fewer, the figures below serve."""

CALLS_PER_GLEANING = 1.2
OUTPUT_PER_CALL = 40.0
READ_PER_CALL = 60.0
"""Of extraction, beside the chunk itself, which is read once; names and claims are a call each."""

WRITTEN_CALLS = 2.0
WRITTEN_OUTPUT = 450.0
"""More of extraction where the model writes the descriptions."""

REPORTS_PER_CHUNK = 0.4
REPORT_CALLS = 1.0
REPORT_READ = 400.0
REPORT_OUTPUT = 90.0
"""Of a report of quotations on the demo corpus."""

WRITTEN_REPORT_READ = 1300.0
WRITTEN_REPORT_OUTPUT = 290.0
"""Of one that the model writes, on the same."""

READERS, WRITERS = 4, 16
"""Requests of either half of the probe. An engine writes the faster the more it writes at once."""


@dataclass(frozen=True)
class Estimate:
    """What an index run would take. `stored` chunks are done already and cost nothing.

    `read_rate` and `write_rate` are tokens per second, as this machine and model had them just now; `measured` says
    whether tokens per chunk come from work already stored, or from general experience.
    """

    documents: int
    chunks: int
    stored: int
    calls: int
    read_tokens: int
    output_tokens: int
    seconds: float
    read_rate: float
    write_rate: float
    measured: bool
    skipped: tuple[Skipped, ...]


@dataclass(frozen=True)
class Cost:
    """Of one unit, on average."""

    calls: float
    read: float
    output: float

    @property
    def tokens(self) -> float:
        """Read and written."""
        return self.read + self.output


def estimate(store: Store | None, settings: Settings, engine: Engine, prompts: Prompts, reading: Reading) -> Estimate:
    """Estimate from what the store holds of the same model, if anything, and from a probe of some seconds."""
    chunks = [
        chunk
        for document in reading.documents
        for chunk in chunk_document(
            document, engine.tokenizer, size=settings.chunk_size, overlap=settings.chunk_overlap
        )
    ]
    units = list(extraction.extraction_units(chunks, settings, prompts))
    stored = sum(store.get_unit(unit, engine.identity) is not None for unit in units) if store else 0
    todo = len(units) - stored
    known = _averages(store, engine.identity) if store else {}
    each = known.get("extract") or usual_chunk(chunks, settings)
    report = known.get("report") or usual_report(settings)
    reports = todo * REPORTS_PER_CHUNK
    read, output = todo * each.read + reports * report.read, todo * each.output + reports * report.output
    read_rate, write_rate = probe(engine, [chunk.text for chunk in chunks])
    return Estimate(
        documents=len(reading.documents),
        chunks=len(chunks),
        stored=stored,
        calls=round(todo * each.calls + reports * report.calls),
        read_tokens=round(read),
        output_tokens=round(output),
        seconds=read / read_rate + output / write_rate,
        read_rate=read_rate,
        write_rate=write_rate,
        measured="extract" in known,
        skipped=reading.skipped,
    )


def _averages(store: Store, model: str) -> dict[str, Cost]:
    rows = store.rows(
        "SELECT stage, avg(calls), avg(read_tokens), avg(output_tokens - forced_tokens) FROM units JOIN unit_costs "
        "USING (key) WHERE model = ? GROUP BY stage HAVING count(*) >= ?",
        model, ENOUGH_UNITS,
    )  # fmt: skip
    return {stage: Cost(*cost) for stage, *cost in rows}


def usual_chunk(chunks: Sequence[Chunk], settings: Settings) -> Cost:
    """What the extraction of one of these chunks takes, by general experience."""
    calls = 1 + CALLS_PER_GLEANING * settings.max_gleanings + settings.claims
    output = calls * OUTPUT_PER_CALL
    if settings.descriptions == "written":
        calls, output = calls + WRITTEN_CALLS, output + WRITTEN_OUTPUT
    size = sum(chunk.tokens for chunk in chunks) / max(len(chunks), 1)
    return Cost(calls, size + calls * READ_PER_CALL, output)


def usual_report(settings: Settings) -> Cost:
    """What a report that the model writes takes, by general experience."""
    if settings.descriptions == "quoted":
        return Cost(REPORT_CALLS, REPORT_READ, REPORT_OUTPUT)
    return Cost(REPORT_CALLS, WRITTEN_REPORT_READ, WRITTEN_REPORT_OUTPUT)


def probe(engine: Engine, texts: Sequence[str]) -> tuple[float, float]:
    """Tokens per second that the engine reads, and that it writes with many requests at once.

    Reading is timed by long prompts and short replies, writing by the opposite.
    """
    shown = [" ".join(texts)[i * 900 : (i + 1) * 900] or "Nothing." for i in range(READERS)]
    short, long = (
        schema({"yes": {"type": "boolean"}}),
        schema({"text": {"type": "string", "minLength": 80, "maxLength": 120}}),
    )
    reading, reading_seconds = _timed(
        engine, (Request(f"{text}\n\nIs this prose?", short, max_tokens=12) for text in shown)
    )
    read_rate = max(reading.read_tokens, 1) / reading_seconds
    writing, writing_seconds = _timed(
        engine, (Request(f"Describe a town. ({n})", long, max_tokens=12) for n in range(WRITERS))
    )
    rest = max(writing_seconds - writing.read_tokens / read_rate, writing_seconds / 10)
    return read_rate, max(writing.output_tokens, 1) / rest


def _timed(engine: Engine, requests: Iterable[Request]) -> tuple[Usage, float]:
    started = time.monotonic()
    usage = sum((completion.usage for completion in engine.run(requests)), Usage())
    return usage, max(time.monotonic() - started, 1e-6)
