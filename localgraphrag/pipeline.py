"""The list of stages, each saved when done; and the runner that does no finished work again."""

from __future__ import annotations

import logging
import time
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from localgraphrag import extract as extraction
from localgraphrag import tables
from localgraphrag.chunks import Chunk, chunk_document
from localgraphrag.communities import Hierarchy, detect_communities
from localgraphrag.config import Settings
from localgraphrag.documents import Document, Reading, Skipped
from localgraphrag.embed import Embedder, Matrix
from localgraphrag.errors import EmptyExtractionError, StoreError
from localgraphrag.estimate import usual_chunk, usual_report
from localgraphrag.extract import Extraction
from localgraphrag.graph import Graph, build_graph, description_units, with_descriptions
from localgraphrag.llm.types import Completion, Engine, Request, Usage
from localgraphrag.llm.units import Conversation, Outcome, Unit, converse
from localgraphrag.prompts import Prompts
from localgraphrag.store import Purpose, Store
from localgraphrag.summaries import Coverage, Report, coverage, plan_reports, write_reports

T = TypeVar("T")

EMPTY_CHUNKS = 10
"""Chunks that may come back without an entity before the run stops."""

EMBED_AT_ONCE = 32
"""Chunks whose vectors are stored in one transaction."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Progress:
    """How far a stage is.

    `total` 0: not known. `detail` says what is at hand. `tokens` the model has read and written in this stage,
    `seconds` it has taken; `eta_seconds` until its end at this pace, None while unknown.
    """

    stage: str
    done: int
    total: int
    detail: str = ""
    tokens: int = 0
    seconds: float = 0.0
    eta_seconds: float | None = None


OnProgress = Callable[[Progress], None]


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
class Failure:
    """A unit of work that failed. It is tried again by the next run."""

    stage: str
    name: str
    reason: str


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
        """No unit failed and no file was skipped."""
        return not self.failures and not self.skipped


class Overheard:
    """An engine that remembers its last replies, so that an error can show what the model said."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.identity = engine.identity
        self.tokenizer = engine.tokenizer
        self.context_tokens = engine.context_tokens
        self.replies: deque[Completion] = deque(maxlen=3)

    def run(self, requests: Iterable[Request]) -> Iterator[Completion]:
        """See `Engine.run`."""
        for completion in self._engine.run(requests):
            self.replies.append(completion)
            yield completion

    def prompt_tokens(self, request: Request) -> int:
        """See `Engine.prompt_tokens`."""
        return self._engine.prompt_tokens(request)

    def close(self) -> None:
        """See `Engine.close`."""
        self._engine.close()


class StoredRunner:
    """Runs units on an engine and keeps each result in the index file, in a transaction of its own.

    What is stored already is not asked again, nor is the same unit twice in one run. Units are drawn as the engine has
    room, so that a large corpus streams through.

    Parameters
    ----------
    purpose : "index" for work that the index rests on, "query" for questions. A question that cannot be recorded
        (on a medium that cannot be written) is answered all the same.
    documents : the document id of each chunk id; by default as the index has them.

    `stage` hears of every turn and outcome. `used` collects the units met, `failures` those that failed, `counts` and
    `usage` what became of them by stage.
    """

    def __init__(
        self,
        engine: Engine,
        store: Store,
        *,
        purpose: Purpose = "index",
        documents: Mapping[str, str] | None = None,
    ) -> None:
        self.engine = engine
        self.stage: Stage | None = None
        self.used: dict[str, tuple[str, tuple[str, ...]]] = {}
        self.failures: list[Failure] = []
        self.counts: Counter[tuple[str, str]] = Counter()
        self.usage: defaultdict[str, Usage] = defaultdict(Usage)
        self._store = store
        self._purpose = purpose
        self._documents = tables.chunk_documents(store) if documents is None else documents
        self._run = store.start_run("index", engine.identity) if purpose == "index" else None

    def run(self, units: Iterable[Unit[T]]) -> Iterator[Outcome[T]]:
        """Yield one outcome per unit, in order of completion.

        Raises StoreFullError when there is no room left for results; those before it are kept.
        """
        ready: deque[Outcome[T]] = deque()
        waiting: defaultdict[str, list[Unit[T]]] = defaultdict(list)

        def missing() -> Iterator[Unit[T]]:
            for unit in units:
                key = unit.key(self.engine.identity)
                self._meet(key, unit)
                stored = self._store.get_unit(unit, self.engine.identity)
                if stored is not None:
                    if self.stage:
                        self.stage.stored += 1
                    ready.append(Outcome(unit, stored[0], usage=stored[1], cached=True))
                elif key in waiting:
                    waiting[key].append(unit)
                else:
                    waiting[key] = []
                    yield unit

        for outcome in converse(self.engine, missing(), self._turn):
            yield from self._all(ready)
            self._record(outcome)
            yield self._seen(outcome)
            for twin in waiting.pop(outcome.unit.key(self.engine.identity)):
                yield self._seen(replace(outcome, unit=twin, cached=outcome.ok))
        yield from self._all(ready)

    def finish(self) -> None:
        """Note in the ledger that the run came to its end."""
        if self._run is not None:
            self._store.finish_run(self._run)

    def _all(self, ready: deque[Outcome[T]]) -> Iterator[Outcome[T]]:
        while ready:
            yield self._seen(ready.popleft())

    def _meet(self, key: str, unit: Unit[T]) -> None:
        name, chunks = self.used.get(key, (unit.name, ()))
        self.used[key] = (min(name, unit.name), tuple(dict.fromkeys((*chunks, *unit.chunks))))

    def _record(self, outcome: Outcome[T]) -> None:
        identity = self.engine.identity
        self.usage[outcome.unit.stage] += outcome.usage
        try:
            if self._run is None:
                self._run = self._store.start_run(self._purpose, identity)
            self._store.put_unit(outcome, identity, run=self._run, purpose=self._purpose, documents=self._documents)
        except StoreError as error:
            if self._purpose == "index":
                raise
            _log.warning("This step of the answer is not recorded: %s", error)

    def _seen(self, outcome: Outcome[T]) -> Outcome[T]:
        stage = outcome.unit.stage
        self.counts[stage, "units"] += 1
        self.counts[stage, "cached"] += outcome.cached
        if not outcome.ok:
            self.counts[stage, "failed"] += 1
            self.failures.append(Failure(stage, outcome.unit.name, outcome.error))
        if self.stage:
            self.stage.outcome(outcome)
        return outcome

    def _turn(self, usage: Usage) -> None:
        if self.stage:
            self.stage.turn(usage)


@dataclass
class Reporter:
    """Times stages and tells progress, also when an engine shows signs of life between results."""

    told: OnProgress | None = None
    engine: Any = None
    seconds: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def stage(self, name: str, total: int = 0, detail: str = "", each: float = 0.0) -> Iterator[Stage]:
        """Tell that a stage begins and ends, and keep its seconds. `each`: tokens that a unit will likely take."""
        stage = Stage(name, total, self.told, each)
        stage.tell(detail)
        if hasattr(self.engine, "on_heartbeat"):
            self.engine.on_heartbeat = stage.heartbeat
        try:
            yield stage
        finally:
            if hasattr(self.engine, "on_heartbeat"):
                self.engine.on_heartbeat = None
        self.seconds[name] = time.monotonic() - stage.started
        stage.total, stage.underway = stage.total or stage.done, 0
        stage.tell("done")


@dataclass
class Stage:
    """A stage at work.

    `each`: tokens that a unit will take, as far as can be said before any is finished. `fresh` units were not found
    stored, and took `spent` tokens; `tokens` were read and written in all turns that have ended, `underway` in others.
    `stored` units were found and not told yet.
    """

    name: str
    total: int
    told: OnProgress | None
    each: float = 0.0
    done: int = 0
    fresh: int = 0
    spent: int = 0
    tokens: int = 0
    underway: int = 0
    stored: int = 0
    detail: str = ""
    started: float = field(default_factory=time.monotonic)

    def step(self, detail: str = "", count: int = 1) -> None:
        """Tell that `count` more are done."""
        self.done += count
        self.fresh += count
        self.tell(detail)

    def outcome(self, outcome: Outcome[Any]) -> None:
        """Tell that a unit is done. Those found stored say nothing about the pace."""
        self.done += 1
        self.total = max(self.total, self.done)
        if outcome.cached:
            self.stored = max(self.stored - 1, 0)
        else:
            self.fresh += 1
            self.spent += _tokens(outcome.usage)
        self.tell(f"{outcome.unit.name} {'failed: ' + outcome.error if outcome.error else 'done'}")

    def turn(self, usage: Usage) -> None:
        """Tell that a turn has ended, be it the last of its unit or not."""
        self.tokens += _tokens(usage)
        self.underway = max(self.underway - _tokens(usage), 0)
        self.tell(self.detail)

    def heartbeat(self, beat: Any) -> None:
        """Tell that the engine is alive; see `llm.llamacpp.Heartbeat`."""
        self.underway = beat.read_tokens + beat.output_tokens
        done = f"{beat.read_tokens:,} tokens read, {beat.output_tokens:,} written"
        self.tell(f"{beat.key}: {done}, {beat.active} at once")

    def tell(self, detail: str) -> None:
        """Tell how far the stage is."""
        self.detail = detail
        if self.told:
            seconds = time.monotonic() - self.started
            tokens = self.tokens + self.underway
            self.told(Progress(self.name, self.done, self.total, detail, tokens, seconds, self._left(seconds)))

    def _left(self, seconds: float) -> float | None:
        """Seconds to the end at the pace so far, None while unknown.

        In tokens, where a model is at work: with many units at once, the first is done when others are nearly so.
        """
        if not self.total:
            return None
        each = self.spent / self.fresh if self.spent else self.each
        tokens, units = self.tokens + self.underway, max(self.total - self.done - self.stored, 0)
        if tokens and each:
            # those finished first are the short ones: an open unit has something left, whatever it has taken
            return seconds / tokens * max(each * units - (tokens - self.spent), each * units / 5)
        return seconds / self.fresh * units if self.fresh else None


def _tokens(usage: Usage) -> int:
    return usage.read_tokens + usage.output_tokens


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
    tables.add_documents(store, documents)
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
    levels = [k for k in range(len(hierarchy.levels)) if not settings.report_levels or k in settings.report_levels]
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
        warnings=tuple(warnings),
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

    Raises EmptyExtractionError when the first `EMPTY_CHUNKS` have not one entity between them.
    """
    runner.stage = stage
    found: dict[str, Extraction] = {}
    empty: list[Outcome[Extraction]] | None = []
    longest_first = sorted(chunks, key=lambda chunk: -chunk.tokens)
    for outcome in runner.run(map(_placeless, extraction.extraction_units(longest_first, settings, prompts))):
        if outcome.value is not None:
            found[outcome.unit.name] = replace(outcome.value, chunk_id=outcome.unit.name)
        if empty is not None:
            empty = None if outcome.value is not None and outcome.value.entities else [*empty, outcome]
            if empty and len(empty) >= EMPTY_CHUNKS:
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
        saw = f"{len(failed)} of them failed, the first with: {failed[0][:300]}"
    elif replies and not all(outcome.cached for outcome in empty):
        saw = f"The last replies of the model were: {' | '.join(text[:200] for text in replies)}"
    else:
        saw = "These results are from an earlier run with the same settings"
    return (
        f"The first {len(empty)} chunks gave not one entity, so the run stops here. {saw}. If the documents do name "
        "people, places or things: try a larger `model`, set `grounded = false` (names need not be verbatim), or check "
        "`entity_types` and the prompts. What was done is kept."
    )


def communities_of(graph: Graph, settings: Settings) -> Hierarchy:
    """The hierarchy of communities under the settings."""
    return detect_communities(
        graph,
        max_community_size=settings.max_community_size,
        max_levels=settings.max_levels,
        cooccurrence_weight=settings.cooccurrence_weight,
        seed=settings.seed,
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
    told = f"up to {len(planned)} reports for {named}"
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
