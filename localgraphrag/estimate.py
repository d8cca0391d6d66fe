"""What an index run would take: chunks, reports, calls, tokens, and minutes on this machine.

The stages are gone through as `index` does, with a runner that asks no model: what is stored is found, and what is not
is counted. What will be found in chunks that are not extracted yet, and so how many reports they call for, nobody
knows: that is taken from the chunks that are extracted, or from general experience.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeVar

from localgraphrag import extract as extraction
from localgraphrag.chunks import Chunk, chunk_document
from localgraphrag.communities import communities_of, levels_reported
from localgraphrag.graph import build_graph, description_units, with_descriptions
from localgraphrag.llm.types import Engine, Usage
from localgraphrag.llm.units import Outcome, Unit
from localgraphrag.speed import speed
from localgraphrag.summaries import context_budget, plan_reports, write_reports

if TYPE_CHECKING:
    from localgraphrag.config import Settings
    from localgraphrag.documents import Reading, Skipped
    from localgraphrag.embed import Embedder
    from localgraphrag.extract import Extraction
    from localgraphrag.prompts import Prompts
    from localgraphrag.store import Store

T = TypeVar("T")

ENOUGH_UNITS = 5
"""Stored units from which averages are taken; with fewer, the figures below serve."""

CALLS_PER_GLEANING = 1.2
OUTPUT_PER_CALL = 40.0
READ_PER_CALL = 60.0
"""Of extraction, beside the chunk itself, which is read once; names and claims are a call each."""

WRITTEN_CALLS = 2.0
WRITTEN_OUTPUT = 450.0
"""More of extraction where the model writes the descriptions."""

DESCRIPTIONS_PER_CHUNK = 0.05
"""Descriptions to merge, where the model writes them: of the demo's 21 chunks one."""

REPORTS_PER_CHUNK, LEVEL_PER_CHUNK = 0.5, 0.3
"""Reports of all levels, and of a single one: on the demo corpus 10, and 4 to 6."""

REPORT_CALLS = 1.0
REPORT_READ = 400.0
REPORT_OUTPUT = 90.0
"""Of a report of quotations on the demo corpus."""

WRITTEN_REPORT_READ = 1300.0
WRITTEN_REPORT_OUTPUT = 290.0
"""Of one that the model writes, on the same."""


@dataclass(frozen=True)
class Estimate:
    """What an index run would take. `stored` chunks are done already and cost nothing.

    `reports` that the model would write: those that the graph of the stored chunks lacks and, for each other chunk, as
    many as a stored one has. That new chunks will change reports which are there is not foreseen.

    `read_rate` and `write_rate` are tokens per second, as this machine and model had them just now. Tokens that a
    grammar dictates are not counted as written. `measured` says whether tokens per chunk come from chunks that were
    done with these settings, or from general experience.
    """

    documents: int
    chunks: int
    stored: int
    reports: int
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


def estimate(
    store: Store | None,
    settings: Settings,
    engine: Engine,
    prompts: Prompts,
    reading: Reading,
    embedder: Embedder | None = None,
) -> Estimate:
    """Estimate from what the store holds of the same model, if anything, and from a probe of some seconds.

    `embedder` is the one that `index` would have, since reports of quotations are stored under its name. It is not put
    to work. Raises ContextError where `index` would, and ModelError if the model fails the probe.
    """
    context_budget(settings, prompts, engine)
    chunks = [
        chunk
        for document in reading.documents
        for chunk in chunk_document(
            document, engine.tokenizer, size=settings.chunk_size, overlap=settings.chunk_overlap
        )
    ]
    extraction.check_room(chunks, settings, prompts, engine)
    runner = _Finding(engine, store)
    outcomes = runner.run(extraction.extraction_units(chunks, settings, prompts))
    found = {outcome.unit.name: outcome.value for outcome in outcomes if outcome.value is not None}
    known, unknown = [c for c in chunks if c.id in found], [c for c in chunks if c.id not in found]
    numbers = _numbers(known, found, settings, prompts, runner, embedder)
    each = _costs(known, unknown, settings, runner)
    read = sum(numbers[stage] * each[stage].read for stage in numbers)
    output = sum(numbers[stage] * each[stage].output for stage in numbers)
    read_rate, write_rate = speed(engine, chunks)
    return Estimate(
        documents=len(reading.documents),
        chunks=len(chunks),
        stored=len(known),
        reports=round(numbers["report"]),
        calls=round(sum(numbers[stage] * each[stage].calls for stage in numbers)),
        read_tokens=round(read),
        output_tokens=round(output),
        seconds=read / read_rate + output / write_rate,
        read_rate=read_rate,
        write_rate=write_rate,
        measured=runner.average("extract") is not None,
        skipped=reading.skipped,
    )


class _Finding:
    """A runner that asks no model: a unit that is stored is found, and another has failed.

    `found`: what those found cost; `missing`: the keys of the others; both by stage.
    """

    def __init__(self, engine: Engine, store: Store | None) -> None:
        self.engine = engine
        self.found: defaultdict[str, list[Usage]] = defaultdict(list)
        self.missing: defaultdict[str, set[str]] = defaultdict(set)
        self._store = store

    def run(self, units: Iterable[Unit[T]]) -> Iterator[Outcome[T]]:
        """Yield one outcome per unit."""
        for unit in units:
            stored = self._store.get_unit(unit, self.engine.identity) if self._store else None
            if stored is None:
                self.missing[unit.stage].add(unit.key(self.engine.identity))
                yield Outcome(unit, None, error="not stored")
            else:
                self.found[unit.stage].append(stored[1])
                yield Outcome(unit, stored[0], usage=stored[1], cached=True)

    def average(self, stage: str) -> Cost | None:
        """What a unit that was found cost, or None if too few were."""
        found = self.found[stage]
        if len(found) < ENOUGH_UNITS:
            return None
        whole = sum(found, Usage())
        parts = (whole.calls, whole.read_tokens, whole.output_tokens - whole.forced_tokens)
        return Cost(*(part / len(found) for part in parts))


def _numbers(
    known: Sequence[Chunk],
    found: Mapping[str, Extraction],
    settings: Settings,
    prompts: Prompts,
    runner: _Finding,
    embedder: Embedder | None,
) -> dict[str, float]:
    """Units to do, by stage: those missing to the known chunks, and what the others will come to."""
    todo = len(runner.missing["extract"])
    written = settings.descriptions == "written"
    usual = {
        "describe": DESCRIPTIONS_PER_CHUNK if written else 0.0,
        "report": LEVEL_PER_CHUNK if len(settings.report_levels) == 1 else REPORTS_PER_CHUNK,
    }
    there = _of_the_graph(known, found, settings, prompts, runner, embedder)
    numbers = {"extract": float(todo)}
    for stage, (missing, stored) in there.items():
        per_chunk = (missing + stored) / len(known) if len(known) >= ENOUGH_UNITS else usual[stage]
        numbers[stage] = missing + todo * per_chunk
    return numbers


def _of_the_graph(
    chunks: Sequence[Chunk],
    found: Mapping[str, Extraction],
    settings: Settings,
    prompts: Prompts,
    runner: _Finding,
    embedder: Embedder | None,
) -> dict[str, tuple[int, int]]:
    """Units that the graph of these chunks calls for, by stage: how many are missing, and how many stored."""
    graph = build_graph(chunks, found)
    graph = with_descriptions(
        graph, list(runner.run(description_units(graph, settings, prompts, runner.engine.tokenizer)))
    )
    hierarchy = communities_of(graph, settings)
    levels = levels_reported(hierarchy, settings)
    reports = write_reports(graph, hierarchy, levels, settings, prompts, runner, embedder=embedder)
    planned = plan_reports(graph, hierarchy, levels, settings, prompts, runner.engine, reports)
    return {
        "describe": (len(runner.missing["describe"]), len(runner.found["describe"])),
        "report": (len(planned), sum(report.written for report in reports.values())),
    }


def _costs(known: Sequence[Chunk], unknown: Sequence[Chunk], settings: Settings, runner: _Finding) -> dict[str, Cost]:
    """What a unit takes, by stage: as those of this project did, or as usual."""
    extract = runner.average("extract")
    if extract is not None:  # the longest chunks are done first, and others read less
        read = extract.read - _mean_tokens(known) + _mean_tokens(unknown)
        extract = replace(extract, read=max(read, 0.0))
    return {
        "extract": extract or usual_chunk(unknown, settings),
        "describe": runner.average("describe") or usual_description(settings),
        "report": runner.average("report") or usual_report(settings),
    }


def usual_chunk(chunks: Sequence[Chunk], settings: Settings) -> Cost:
    """What the extraction of one of these chunks takes, by general experience."""
    calls = 1 + CALLS_PER_GLEANING * settings.max_gleanings + settings.claims
    output = calls * OUTPUT_PER_CALL
    if settings.descriptions == "written":
        calls, output = calls + WRITTEN_CALLS, output + WRITTEN_OUTPUT
    return Cost(calls, _mean_tokens(chunks) + calls * READ_PER_CALL, output)


def usual_description(settings: Settings) -> Cost:
    """What merging the descriptions of one thing takes: more than the budget is read, and less is written."""
    return Cost(1.0, 2.0 * settings.description_budget, 0.5 * settings.description_budget)


def usual_report(settings: Settings) -> Cost:
    """What a report that the model writes takes, by general experience."""
    if settings.descriptions == "quoted":
        return Cost(REPORT_CALLS, REPORT_READ, REPORT_OUTPUT)
    return Cost(REPORT_CALLS, WRITTEN_REPORT_READ, WRITTEN_REPORT_OUTPUT)


def _mean_tokens(chunks: Sequence[Chunk]) -> float:
    return sum(chunk.tokens for chunk in chunks) / max(len(chunks), 1)
