"""Answers to all questions under all conditions, with the calls of many answers side by side.

An answer takes steps that wait for each other: all map calls, then the reduce call. Each search is run until it needs
a call that nobody has made yet; the calls that all of them need are made as one batch, and the searches run again. So
any way to answer fills the engine's slots, and whatever was made before is found in the index file.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import TYPE_CHECKING, Any, TypeVar

from localgraphrag.economics import worked
from localgraphrag.errors import LocalGraphRAGError
from localgraphrag.evaluate.records import Row, plain
from localgraphrag.llm.types import Usage
from localgraphrag.llm.units import Outcome, Unit
from localgraphrag.progress import Reporter

if TYPE_CHECKING:
    from localgraphrag.progress import Stage
    from localgraphrag.questions import Asking
    from localgraphrag.runner import StoredRunner
    from localgraphrag.search.answer import Answer
    from localgraphrag.search.question import Condition
    from localgraphrag.store import Store

T = TypeVar("T")

Known = dict[str, Outcome[Any]]
"""Outcomes of this run by the keys of their units."""


@dataclass(frozen=True)
class Ledger:
    """What the answers of one condition took, in whatever runs they were made; `ledger.Took` is of one run.

    `answers` in all, of which `cached` needed no call in this run; `failed` could not be given. Tokens as a service
    without memory would count them, `read_tokens` as the model here read them anew. `seconds` by the clock.
    """

    answers: int
    cached: int
    failed: int
    calls: int
    prompt_tokens: int
    read_tokens: int
    output_tokens: int
    seconds: float


@dataclass(frozen=True)
class Unanswered:
    """A question without an answer under a condition, and why."""

    question_id: str
    condition: str
    reason: str


@dataclass(frozen=True)
class Answered:
    """The answers of one condition as rows of `answers.jsonl`."""

    condition: str
    rows: tuple[Row, ...]
    ledger: Ledger
    unanswered: tuple[Unanswered, ...]


class Wanting(Exception):  # noqa: N818  not an error: a search says which calls it waits for
    """Units that a search needs and nobody has made yet, by key."""

    def __init__(self, units: Mapping[str, Unit[Any]]) -> None:
        super().__init__(f"{len(units)} calls are waited for")
        self.units = units


class Looking:
    """A runner that makes no call: it finds what is known, and raises `Wanting` for the rest.

    It stands in for the `StoredRunner` of an `Asking`; `used` are the units of one answer.
    """

    def __init__(self, runner: StoredRunner, store: Store, known: Known) -> None:
        self.engine = runner.engine
        self.stage: Stage | None = None  # nothing to tell it
        self.used: dict[str, tuple[str, tuple[str, ...]]] = {}
        self._store, self._known = store, known

    def run(self, units: Iterable[Unit[T]]) -> Iterator[Outcome[T]]:
        """Yield the outcomes that are known; raise `Wanting` at the end if any is not."""
        missing: dict[str, Unit[Any]] = {}
        for unit in units:
            key = unit.key(self.engine.identity)
            self.used[key] = (unit.name, unit.chunks)
            if key in self._known:
                yield replace(self._known[key], unit=unit)
            elif stored := self._store.get_unit(unit, self.engine.identity):
                yield Outcome(unit, stored[0], usage=stored[1], cached=True)
            else:
                missing[key] = unit
        if missing:
            raise Wanting(missing)

    def finish(self) -> None:
        """Nothing to note."""


def answer_all(asking: Asking, condition: Condition, questions: Sequence[Row], seed: int) -> Answered:
    """All answers of one condition.

    An answer that cannot be given is told and does not stop the others. Raises what the runner raises: a full disk.
    """
    runner, reporter = asking.runner, asking.reporter
    known: Known = {}
    answers: dict[str, tuple[Answer, frozenset[str]]] = {}
    unanswered: list[Unanswered] = []
    open_questions = list(questions)
    try:
        while open_questions:
            calls: list[Mapping[str, Unit[Any]]] = []
            waiting: list[Row] = []
            for question in open_questions:
                looking = Looking(runner, asking.store, known)
                try:
                    answer = _quietly(asking, looking, question["question"], condition, seed)
                    answers[str(question["id"])] = answer, frozenset(looking.used)
                except Wanting as more:
                    calls.append(more.units)
                    waiting.append(question)
                except LocalGraphRAGError as error:
                    unanswered.append(Unanswered(str(question["id"]), condition.name, str(error)))
            asking.reporter, asking.runner = reporter, runner
            if wanted := side_by_side(calls):
                with reporter.stage(f"answer {condition.name}", len(wanted)) as stage:
                    runner.stage = stage
                    known |= {o.unit.key(runner.engine.identity): o for o in runner.run(wanted.values())}
            open_questions = waiting
    finally:
        asking.reporter, asking.runner = reporter, runner
    return _answered(asking, condition, questions, answers, unanswered, frozenset(known))


def side_by_side(calls: Sequence[Mapping[str, T]]) -> dict[str, T]:
    """The first calls of all searches, then the second ones, and so on, each once.

    The first batches of all questions hold the same passages, and a model reads once what prompts in work begin with.

    >>> side_by_side([{"a1": 1, "a2": 2}, {"b1": 3}, {"a1": 1, "c2": 4}])
    {'a1': 1, 'b1': 3, 'a2': 2, 'c2': 4}
    """
    rows = zip_longest(*(each.items() for each in calls))
    return {key: call for row in rows for key, call in filter(None, row)}


def _quietly(asking: Asking, looking: Looking, question: str, condition: Condition, seed: int) -> Answer:
    """One search, with nothing told of it: the batches tell how far things are."""
    asking.runner = looking  # type: ignore[assignment]  # it is a runner to the searches
    asking.reporter = Reporter()
    return asking.answer(question, condition.method, condition.level or 0, seed)


def _answered(
    asking: Asking,
    condition: Condition,
    questions: Sequence[Row],
    answers: Mapping[str, tuple[Answer, frozenset[str]]],
    unanswered: Sequence[Unanswered],
    fresh: frozenset[str],
) -> Answered:
    usage = sum((answer.usage for answer, _ in answers.values()), Usage())
    clock = worked(asking.store, {key for _, keys in answers.values() for key in keys}) or usage.seconds
    share = clock / usage.seconds if usage.seconds else 0.0
    rows = []
    for question in questions:
        if str(question["id"]) in answers:
            answer, keys = answers[str(question["id"])]
            rows.append(_row(question, condition, answer, answer.usage.seconds * share, not keys & fresh))
    ledger = Ledger(
        len(rows), sum(row["cached"] for row in rows), len(unanswered), usage.calls, usage.prompt_tokens,
        usage.read_tokens, usage.output_tokens, clock,
    )  # fmt: skip
    return Answered(condition.name, tuple(rows), ledger, tuple(unanswered))


def _row(question: Row, condition: Condition, answer: Answer, seconds: float, cached: bool) -> Row:
    return {
        "question_id": str(question["id"]), "question": question["question"], "condition": condition.name,
        "answer_id": answer.record["id"], "text": answer.text, "citations": plain(answer.citations),
        "prompt_tokens": answer.usage.prompt_tokens, "read_tokens": answer.usage.read_tokens,
        "output_tokens": answer.usage.output_tokens, "seconds": round(seconds, 3), "calls": answer.usage.calls,
        "cached": cached, "model": answer.record["model"],
    }  # fmt: skip
