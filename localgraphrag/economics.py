"""What an index costs and what it saves: Table 2 of the paper, for one's own index.

A question at level Ck reads every report of the level; under TS it reads every chunk. So the tokens of a question are
those of the texts it reads, the index is paid for once, and the difference pays it back:
`break-even queries = index tokens / (tokens under TS - tokens under Ck)`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from localgraphrag import tables
from localgraphrag.llm.types import Usage
from localgraphrag.search.question import CONDITIONS

if TYPE_CHECKING:
    from localgraphrag.chunks import Chunk
    from localgraphrag.config import Settings
    from localgraphrag.llm.types import Tokenizer
    from localgraphrag.store import Store

_COST = "calls, prompt_tokens, read_tokens, output_tokens, forced_tokens, illegal, seconds"


@dataclass(frozen=True)
class Level:
    """One way to answer, and what its texts come to.

    `name` "C0".."C3" or "TS"; `units` communities or chunks; `tokens` of their reports or texts; `missing` reports not
    written (or failed), whose tokens are not counted. `percent` of the tokens under TS, and `break_even`, the number of
    questions from which the index is cheaper than TS, are None where they cannot be told: for TS itself, with reports
    missing, and `break_even` also where a question costs no less than under TS.
    `items`: id, title and tokens of each unit, largest first.
    """

    name: str
    units: int
    tokens: int
    missing: int = 0
    percent: float | None = None
    break_even: int | None = None
    items: tuple[tuple[str, str, int], ...] = ()


@dataclass(frozen=True)
class UnitCost:
    """What one unit of work took: a chunk extracted, a report written. Its `name` is the id of that thing."""

    name: str
    usage: Usage


@dataclass(frozen=True)
class StageCost:
    """What a stage of indexing took: units of work, tokens, and `minutes` by the clock.

    `usage.seconds` adds up conversations that ran side by side; `minutes` counts that time once.
    """

    stage: str
    units: tuple[UnitCost, ...]
    minutes: float

    @property
    def usage(self) -> Usage:
        """All of it together."""
        return sum((unit.usage for unit in self.units), Usage())


@dataclass(frozen=True)
class Economics:
    """The token economics of an index.

    `index_tokens` are what the model read and wrote for it on this machine; `billed_tokens` what a service would count
    that is shown each prompt anew, shared beginnings and earlier turns included. `counted` is False where the model of
    the index is not at hand, and tokens of reports are estimated from the ratio of tokens to characters of the chunks.
    """

    model: str
    levels: tuple[Level, ...]
    stages: tuple[StageCost, ...]
    counted: bool

    @property
    def index_tokens(self) -> int:
        """Tokens read and written to make the index."""
        return sum(stage.usage.read_tokens + stage.usage.output_tokens for stage in self.stages)

    @property
    def billed_tokens(self) -> int:
        """Tokens of all prompts and replies, as a service without memory would bill them."""
        return sum(stage.usage.prompt_tokens + stage.usage.output_tokens for stage in self.stages)

    @property
    def minutes(self) -> float:
        """Minutes of model time by the clock."""
        return sum(stage.minutes for stage in self.stages)


PAPER = MappingProxyType(
    {
        "Podcast": {
            "C0": (34, 26_657), "C1": (367, 225_756), "C2": (969, 565_720), "C3": (1310, 746_100),
            "TS": (1669, 1_014_611),
        },
        "News": {
            "C0": (55, 39_770), "C1": (555, 352_641), "C2": (1797, 980_898), "C3": (2142, 1_140_266),
            "TS": (3197, 1_707_694),
        },
    }
)  # fmt: skip
"""Units and tokens of the paper's two corpora (Table 2)."""


def percent_of(tokens: int, ts_tokens: int) -> float:
    """Tokens of a question as a percentage of those under TS.

    >>> round(percent_of(26_657, 1_014_611), 2)
    2.63
    """
    return 100 * tokens / ts_tokens


def break_even(index_tokens: int, ts_tokens: int, tokens: int) -> int | None:
    """Questions after which an index has cost no more than TS would have; None where it never does.

    >>> break_even(166_792_400, 1_707_694, 39_770)
    100
    """
    saved = ts_tokens - tokens
    return -(-index_tokens // saved) if saved > 0 else None


def affordable_index(queries: int, ts_tokens: int, tokens: int) -> int:
    """The most tokens that an index may cost to be paid back by so many questions.

    >>> affordable_index(100, 1_707_694, 39_770)
    166792400
    """
    return queries * (ts_tokens - tokens)


def economics(store: Store, tokenizer: Tokenizer | None) -> Economics:
    """The economics of an index.

    Parameters
    ----------
    store : opened to read.
    tokenizer : of the model that made the index; None estimates the tokens of reports.
    """
    with store.snapshot():
        index = tables.load_index(store)
        stages = _stages(store)
    count = tokenizer.count if tokenizer else _by_length(index.chunks)
    cost = sum(stage.usage.read_tokens + stage.usage.output_tokens for stage in stages)
    chunks = [(chunk.id, f"{chunk.title}, chunk {chunk.ordinal + 1}", chunk.tokens) for chunk in index.chunks]
    ts = Level("TS", len(chunks), sum(tokens for *_, tokens in chunks), percent=100.0 if chunks else None,
               items=_largest_first(chunks))  # fmt: skip
    levels = []
    names = {c.level: name for name, c in CONDITIONS.items() if c.level is not None}
    for k, communities in enumerate(index.hierarchy.levels):
        reports = [index.reports[c.id] for c in communities if c.id in index.reports]
        items = [(report.community_id, report.title, count(report.text)) for report in reports]
        missing = len(communities) - len(reports)
        levels.append(_level(names.get(k, f"C{k}"), items, missing, ts.tokens, cost))
    return Economics(store.get("model") or "", (*levels, ts), stages, tokenizer is not None)


def _level(name: str, items: list[tuple[str, str, int]], missing: int, ts: int, index_tokens: int) -> Level:
    tokens, known = sum(tokens for *_, tokens in items), not missing and ts > 0
    return Level(
        name, len(items) + missing, tokens, missing,
        percent_of(tokens, ts) if known else None,
        break_even(index_tokens, ts, tokens) if known else None,
        _largest_first(items),
    )  # fmt: skip


def _largest_first(items: Iterable[tuple[str, str, int]]) -> tuple[tuple[str, str, int], ...]:
    return tuple(sorted(items, key=lambda item: (-item[2], item[0])))


def _by_length(chunks: Sequence[Chunk]) -> Callable[[str], int]:
    characters, tokens = sum(len(chunk.text) for chunk in chunks), sum(chunk.tokens for chunk in chunks)
    return lambda text: round(len(text) * tokens / max(characters, 1))


def _stages(store: Store) -> tuple[StageCost, ...]:
    """What the index rests on, by stage: the work of indexing, and reports written later for a question.

    A report may have been written under several settings; that of the last index run is the one that counts, else the
    latest.
    """
    rows = store.rows(
        f"SELECT stage, name, created, {_COST} FROM units JOIN unit_costs USING (key) "  # noqa: S608  a constant
        "WHERE model = ? AND (purpose = 'index' AND idle = 0 "
        "OR stage = 'report' AND name IN (SELECT community_id FROM reports)) "
        "ORDER BY purpose = 'index' AND idle = 0, created, key",
        store.get("model"),
    )
    found: dict[str, list[tuple[float, UnitCost]]] = {}
    counting = {row[:2]: row for row in rows}.values()
    for stage, name, created, *usage in sorted(counting, key=lambda row: row[2]):
        ended = datetime.fromisoformat(created).timestamp()
        found.setdefault(stage, []).append((ended, UnitCost(name, Usage(*usage))))
    return tuple(
        StageCost(
            stage,
            tuple(unit for _, unit in units),
            at_work((ended - unit.usage.seconds, ended) for ended, unit in units) / 60,
        )
        for stage, units in found.items()
    )


def at_work(spans: Iterable[tuple[float, float]]) -> float:
    """The length of all spans together, each moment counted once.

    >>> at_work([(0, 10), (5, 12), (20, 21)])
    13.0
    """
    total, until = 0.0, float("-inf")
    for start, end in sorted(spans):
        total += max(end - max(start, until), 0)
        until = max(until, end)
    return total


def worked(store: Store, keys: Iterable[str]) -> float:
    """Seconds by the clock in which the model was at work on units; 0 where none is stored.

    Conversations run side by side, so the seconds of each add up to more.
    """
    spans = []
    for key in sorted(keys):
        for created, seconds in store.rows("SELECT created, seconds FROM unit_costs WHERE key = ?", key):
            ended = datetime.fromisoformat(created).timestamp()
            spans.append((ended - seconds, ended))
    return at_work(spans)


def vocabulary(settings: Settings, folder: Path, model: str) -> Tokenizer | None:
    """The tokenizer of the settings' model if it is the `model` that made the index and is on this machine; else None.

    Only the vocabulary is loaded, in a second.
    """
    from localgraphrag.errors import ModelError
    from localgraphrag.llm.catalog import resolve_model
    from localgraphrag.llm.gguf import GGUFModel

    try:
        file = resolve_model(settings.model, beside=folder)
    except ModelError:
        return None
    return GGUFModel(file.path, vocab_only=True) if file.sha256 == model else None


def cumulative_plot(found: Economics) -> str:
    """An SVG of all tokens spent over the number of questions asked: TS against each level, index included."""
    from localgraphrag.plots import Line, line_chart

    asked = _shown_queries(found)
    lines = []
    for level in found.levels:
        if level.missing or not level.units:
            continue
        begin = 0 if level.name == "TS" else found.index_tokens
        lines.append(Line(level.name, ((0, begin), (asked, begin + asked * level.tokens))))
    return line_chart(
        "Tokens spent over questions asked, index included", lines, across="questions asked", up="tokens spent"
    )


def _shown_queries(found: Economics) -> int:
    """Questions that the plot runs to: half as many again as the last break-even that is near the first."""
    known = sorted(level.break_even for level in found.levels if level.break_even is not None)
    near = [queries for queries in known if queries <= 20 * max(known[0], 1)]
    return max(round(near[-1] * 1.5), 10) if near else 100
