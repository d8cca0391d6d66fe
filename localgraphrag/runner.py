"""The runner that keeps every result in the index file, and does no finished work again."""

from __future__ import annotations

import logging
from collections import Counter, defaultdict, deque
from collections.abc import Iterable, Iterator, Mapping, Sized
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TypeVar

from localgraphrag import tables
from localgraphrag.economics import worked
from localgraphrag.errors import StoreError
from localgraphrag.llm.types import Completion, Engine, Request, Usage
from localgraphrag.llm.units import Outcome, Unit, converse
from localgraphrag.progress import Stage
from localgraphrag.store import Purpose, Store

T = TypeVar("T")

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Failure:
    """A unit of work that failed. It is tried again by the next run."""

    stage: str
    name: str
    reason: str


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
        self._warned = False

    def run(self, units: Iterable[Unit[T]]) -> Iterator[Outcome[T]]:
        """Yield one outcome per unit, in order of completion.

        Given as a list, the units are the stage's total where it has none.

        Raises StoreFullError when there is no room left for results; those before it are kept.
        """
        if self.stage and isinstance(units, Sized):
            self.stage.expect(len(units))
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

    def usual_seconds(self, stage: str) -> float:
        """Seconds by the clock that a unit of this stage took so far in this index; 0 if there is none."""
        keys = [k for (k,) in self._store.rows(
            "SELECT key FROM units WHERE stage = ? AND model = ?", stage, self.engine.identity
        )]  # fmt: skip
        return worked(self._store, keys) / len(keys) if keys else 0.0

    def finish(self) -> None:
        """Note in the ledger that the run came to its end."""
        if self._run is not None:
            self._store.finish_run(self._run)
        if self._purpose == "query":
            with suppress(StoreError):  # on a medium that cannot be written nothing is forgotten either
                self._store.renew_idle(self.used)

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
            if not self._warned:
                _log.warning("The answer, or steps of it, cannot be recorded: %s", error)
            self._warned = True

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
