"""How far a piece of work is, told through one callback, with the time that is left by tokens."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from localgraphrag.llm.types import Usage
from localgraphrag.llm.units import Outcome


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


TELLING = 0.05
"""Share of a unit's tokens before which the pace says nothing: instructions are read before anything is counted."""

BELIEVED = 8
"""Units that, finished, count as much as what was thought before: the first to be finished are the short ones."""

OnProgress = Callable[[Progress], None]


@dataclass
class Reporter:
    """Times stages and tells progress, also when an engine shows signs of life between results."""

    told: OnProgress | None = None
    engine: Any = None
    seconds: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def stage(self, name: str, total: int = 0, detail: str = "", each: float = 0.0, after: int = 0) -> Iterator[Stage]:
        """Tell that a stage begins and ends, and keep its seconds. See `Stage`."""
        stage = Stage(name, total, self.told, each, after)
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

    `total` 0: not known. `after`: units that come after those a runner is given first.
    `each`: tokens that a unit will take, as far as can be said before any is finished, 0 if it cannot. `fresh` units
    were not found stored, and took `spent` tokens; `tokens` were read and written in all turns that have ended,
    `underway` in others. `stored` units were found and not told yet.
    """

    name: str
    total: int
    told: OnProgress | None
    each: float = 0.0
    after: int = 0
    done: int = 0
    fresh: int = 0
    spent: int = 0
    tokens: int = 0
    underway: int = 0
    stored: int = 0
    detail: str = ""
    started: float = field(default_factory=time.monotonic)

    def expect(self, count: int) -> None:
        """So many units are given to the runner: how many there are in all, unless that is known."""
        if not self.total:
            self.total = self.done + count + self.after

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
        """Tell that the engine is alive; see `llm.heartbeat.Heartbeat`."""
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
        counted = self.fresh + (BELIEVED if self.each else 0)
        each = (self.spent + BELIEVED * self.each) / counted if counted else 0.0
        tokens, units = self.tokens + self.underway, max(self.total - self.done - self.stored, 0)
        if not self.fresh and tokens < TELLING * each:
            return None
        if tokens and each:
            # those finished first are the short ones: an open unit has something left, whatever it has taken
            return seconds / tokens * max(each * units - (tokens - self.spent), each * units / 5)
        return seconds / self.fresh * units if self.fresh else None


def _tokens(usage: Usage) -> int:
    return usage.read_tokens + usage.output_tokens
