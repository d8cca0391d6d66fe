"""The list of stages of an index run, each saved when done."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from localgraphrag import extract as extraction
from localgraphrag import tables
from localgraphrag.chunks import Chunk, chunk_document
from localgraphrag.communities import Hierarchy, communities_of, levels_reported, levels_unknown
from localgraphrag.config import Settings
from localgraphrag.console import duration
from localgraphrag.documents import Document, Reading, Skipped
from localgraphrag.embed import Embedder, Matrix
from localgraphrag.errors import EmptyExtractionError
from localgraphrag.estimate import usual_chunk, usual_report
from localgraphrag.extract import Extraction
from localgraphrag.graph import Graph, build_graph, description_units, with_descriptions
from localgraphrag.llm.types import Engine, Usage
from localgraphrag.llm.units import Conversation, Outcome, Unit
from localgraphrag.progress import OnProgress, Reporter, Stage
from localgraphrag.prompts import Prompts
from localgraphrag.remembered import remember
from localgraphrag.runner import Failure, Overheard, StoredRunner
from localgraphrag.store import Store
from localgraphrag.summaries import Coverage, Report, context_budget, coverage, plan_reports, write_reports

EMBED_AT_ONCE = 32
"""Chunks whose vectors are stored in one transaction."""


@dataclass(frozen=True)
class StageSummary:
    """What a stage has done: units in all, those found stored, those failed; what the others cost; wall seconds."""

    stage: str
    units: int
    cached: int
    failed: int
    usage: Usage
    seconds: float


@dataclass(frozen=True)
class IndexSummary:
    """What an index run has made. JSON-able by `dataclasses.asdict`.

    `communities` and `coverage` are by level, C0 first; `added` and `removed` count documents against the state before.
    """

    documents: int
    chunks: int
    entities: int
    relationships: int
    claims: int
    communities: tuple[int, ...]
    coverage: tuple[Coverage, ...]
    added: int
    removed: int
    stages: tuple[StageSummary, ...]
    failures: tuple[Failure, ...]
    skipped: tuple[Skipped, ...]
    warnings: tuple[str, ...]
    seconds: float

    @property
    def complete(self) -> bool:
        """No unit failed and no file was skipped, but for those left out deliberately."""
        return not self.failures and all(file.deliberate for file in self.skipped)


def index_project(
    store: Store,
    settings: Settings,
    engine: Engine,
    embedder: Embedder | None,
    prompts: Prompts,
    reading: Reading,
    *,
    meta: Mapping[str, Any] | None = None,
    progress: OnProgress | None = None,
    warnings: Sequence[str] = (),
) -> IndexSummary:
    """Make the index of the documents read, doing only what is not stored yet (paper 3.1.1 to 3.1.5).

    Each unit of model work is saved when it is done. Readers see the state before until the new one is whole, and then
    that one; what is no longer in it leaves the file.

    Parameters
    ----------
    store : opened by a writer.
    embedder : None leaves vectors out, and chooses the findings of reports by shared words.
    meta : values kept with the index.
    warnings : passed on into the summary.

    Raises
    ------
    ContextError
        A chunk, or a report, does not fit the model's context with its instructions. Nothing is done then.
    EmptyExtractionError
        The first chunks all came back without an entity.
    StoreFullError
        No room; everything done before is kept.
    """
    started = time.monotonic()
    reporter = Reporter(progress, engine)
    known = {id_ for (id_,) in store.rows("SELECT document_id FROM sources")}
    documents = tables.in_order(reading.documents)
    with reporter.stage("chunk", len(documents)) as stage:
        chunks = tuple(_chunks(documents, settings, engine, stage))
    context_budget(settings, prompts, engine)
    extraction.check_room(chunks, settings, prompts, engine)
    tables.add_documents(store, documents)
    remember(store, meta or {})
    runner = StoredRunner(Overheard(engine), store, documents={chunk.id: chunk.document_id for chunk in chunks})
    with reporter.stage("extract", len(chunks), each=usual_chunk(chunks, settings).tokens) as stage:
        extractions = extract(chunks, settings, prompts, runner, stage)
    with reporter.stage("graph"):
        graph = build_graph(chunks, extractions)
    with reporter.stage("describe") as stage:
        runner.stage = stage
        units = description_units(graph, settings, prompts, engine.tokenizer)
        graph = with_descriptions(graph, list(runner.run(units)))
    with reporter.stage("communities"):
        hierarchy = communities_of(graph, settings)
    levels = levels_reported(hierarchy, settings)
    reports = reports_of(graph, hierarchy, levels, {}, settings, prompts, runner, reporter, embedder)
    index = tables.Index(documents, chunks, graph, hierarchy, reports)
    with reporter.stage("save"):
        tables.save_index(store, index, used=runner.used, model=engine.identity, meta=meta or {})
    if embedder is not None:
        with reporter.stage("vectors") as stage:
            embed_chunks(store, chunks, embedder, stage)
    runner.finish()
    now_known = {document.id for document in documents}
    return IndexSummary(
        documents=len(documents),
        chunks=len(chunks),
        entities=len(graph.nodes),
        relationships=len(graph.edges),
        claims=len(graph.claims),
        communities=tuple(len(level) for level in hierarchy.levels),
        coverage=tuple(coverage(k, hierarchy, reports, graph, chunks) for k in range(len(hierarchy.levels))),
        added=len(now_known - known),
        removed=len(known - now_known),
        stages=_stages(reporter, runner),
        failures=tuple(runner.failures),
        skipped=reading.skipped,
        warnings=(*warnings, *levels_unknown(hierarchy, settings)),
        seconds=time.monotonic() - started,
    )


def _chunks(documents: Sequence[Document], settings: Settings, engine: Engine, stage: Stage) -> Iterator[Chunk]:
    for document in documents:
        yield from chunk_document(document, engine.tokenizer, size=settings.chunk_size, overlap=settings.chunk_overlap)
        stage.step(document.title)


def extract(
    chunks: Sequence[Chunk], settings: Settings, prompts: Prompts, runner: StoredRunner, stage: Stage
) -> dict[str, Extraction]:
    """What is found in each chunk, by chunk id; those that failed are left out.

    The longest come first, so that at the end no long one keeps an engine at work that has room for many.

    Raises EmptyExtractionError when the first `settings.empty_chunks` have not one entity between them.
    """
    runner.stage = stage
    found: dict[str, Extraction] = {}
    empty: list[Outcome[Extraction]] | None = [] if settings.empty_chunks else None
    longest_first = sorted(chunks, key=lambda chunk: -chunk.tokens)
    for outcome in runner.run(map(_placeless, extraction.extraction_units(longest_first, settings, prompts))):
        if outcome.value is not None:
            found[outcome.unit.name] = replace(outcome.value, chunk_id=outcome.unit.name)
        if empty is not None:
            empty = None if outcome.value is not None and outcome.value.entities else [*empty, outcome]
            if empty and len(empty) >= settings.empty_chunks:
                raise EmptyExtractionError(_nothing_found(empty, runner.engine))
    return found


def _placeless(unit: Unit[Extraction]) -> Unit[Extraction]:
    """The unit without the chunk in its result: the same text in another place is the same work, and stored once."""

    def ask() -> Conversation[Extraction]:
        return replace((yield from unit.ask()), chunk_id="")

    return replace(unit, ask=ask)


def _nothing_found(empty: Sequence[Outcome[Extraction]], engine: Engine) -> str:
    replies = [c.text or c.error for c in engine.replies] if isinstance(engine, Overheard) else []
    failed = [outcome.error for outcome in empty if not outcome.ok]
    if failed:
        saw = f"{len(failed)} of them failed, the first with: {failed[0][:300].rstrip('.')}"
    elif replies and not all(outcome.cached for outcome in empty):
        saw = f"The last replies of the model were: {' | '.join(text[:200] for text in replies)}"
    else:
        saw = "These results are from an earlier run with the same settings"
    return (
        f"The first {len(empty)} chunks, the longest, gave not one entity, so the run stops here. {saw}. If they do "
        "name people, places or things: try a larger `model`, set `grounded = false` (names need not be verbatim), or "
        "check `entity_types` and the prompts. If they name none, as tables of figures do: set `empty_chunks = 0`, and "
        "the run goes on. What was done is kept."
    )


def reports_of(
    graph: Graph,
    hierarchy: Hierarchy,
    levels: Sequence[int],
    written: Mapping[str, Report],
    settings: Settings,
    prompts: Prompts,
    runner: StoredRunner,
    reporter: Reporter,
    embedder: Embedder | None,
) -> dict[str, Report]:
    """The reports of some levels and those they rest on, telling first how many calls of the model that may take."""
    if not any(hierarchy.levels[k] for k in levels):
        return {}
    planned = plan_reports(graph, hierarchy, levels, settings, prompts, runner.engine, written)
    named = ", ".join(f"C{k}" for k in levels)
    told = f"up to {len(planned)} reports for {named}, a call of the model each"
    if each := runner.usual_seconds("report"):
        told += f", about {duration(each * len(planned))}"
    with reporter.stage("report", len(planned), told, usual_report(settings).tokens) as stage:
        runner.stage = stage
        return write_reports(graph, hierarchy, levels, settings, prompts, runner, embedder=embedder, written=written)


def embed_chunks(store: Store, chunks: Sequence[Chunk], embedder: Embedder, stage: Stage) -> None:
    """Store the vectors of chunks that have none under this embedder."""
    there = {id_ for (id_,) in store.rows("SELECT chunk_id FROM vectors WHERE model = ?", embedder.identity)}
    for ids, vectors in embedded([chunk for chunk in chunks if chunk.id not in there], embedder, stage):
        tables.save_vectors(store, embedder.identity, ids, vectors)


def embedded(chunks: Sequence[Chunk], embedder: Embedder, stage: Stage) -> Iterator[tuple[list[str], Matrix]]:
    """Ids and vectors of the chunks, some at a time; vectors of shape (n, d)."""
    stage.total = len(chunks)
    for first in range(0, len(chunks), EMBED_AT_ONCE):
        batch = chunks[first : first + EMBED_AT_ONCE]
        yield [chunk.id for chunk in batch], embedder.embed([chunk.text for chunk in batch])
        stage.step(count=len(batch))


def _stages(reporter: Reporter, runner: StoredRunner) -> tuple[StageSummary, ...]:
    def summary(name: str, seconds: float) -> StageSummary:
        units, cached, failed = (runner.counts[name, what] for what in ("units", "cached", "failed"))
        return StageSummary(name, units, cached, failed, runner.usage[name], seconds)

    return tuple(summary(name, seconds) for name, seconds in reporter.seconds.items())
