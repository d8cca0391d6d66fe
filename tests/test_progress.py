"""How far a stage is, and how long it still takes."""

from __future__ import annotations

import pytest

from localgraphrag.llm.heartbeat import Heartbeat
from localgraphrag.llm.types import Usage
from localgraphrag.llm.units import Outcome, Unit
from localgraphrag.progress import Stage


def unit(name: str) -> Unit[str]:
    def never():
        raise AssertionError("it is not asked")

    return Unit("ask", 1, name, (name,), str, never)


def test_the_time_left_is_told_by_tokens_and_from_the_first_sign_of_life(monkeypatch):
    def spend(read: int, written: int) -> Usage:
        return Usage(calls=1, read_tokens=read, output_tokens=written)

    now = [0.0]
    monkeypatch.setattr("localgraphrag.progress.time.monotonic", lambda: now[0])
    told: list[float | None] = []
    stage = Stage("extract", 4, lambda progress: told.append(progress.eta_seconds), 500, started=0.0)
    stage.tell("")
    now[0] = 5.0
    stage.heartbeat(Heartbeat("a", 4, 0, 20))  # the instructions are still being read
    now[0] = 10.0
    stage.heartbeat(Heartbeat("a", 4, 180, 20))  # four units in work, of 500 tokens each: a tenth of it
    stage.turn(spend(180, 20))
    assert told == [None, None, 90.0, 90.0]
    now[0] = 80.0
    stage.turn(spend(800, 200))
    stage.turn(spend(200, 200))
    # 1,600 tokens in 80 s; what is done took 400, then 600 on average, which counts as much as an eighth of the 500
    stage.outcome(Outcome(unit("a"), None, usage=spend(300, 100)))
    assert told[-1] == pytest.approx(3 * (400 + 8 * 500) / 9 / 5 / 20)  # three are open: at least a fifth is left
    stage.outcome(Outcome(unit("b"), None, usage=spend(600, 200)))
    assert told[-1] == pytest.approx((2 * (1200 + 8 * 500) / 10 - 400) / 20)


def test_the_first_to_be_done_is_a_short_one_and_does_not_say_how_long_the_others_take(monkeypatch):
    monkeypatch.setattr("localgraphrag.progress.time.monotonic", lambda: 100.0)
    told: list[float | None] = []
    stage = Stage("extract", 21, lambda progress: told.append(progress.eta_seconds), 620, started=0.0)
    stage.tokens = 6000  # of sixteen at once
    stage.tell("")
    stage.outcome(Outcome(unit("short"), None, usage=Usage(calls=1, read_tokens=200, output_tokens=100)))
    before, after = told
    assert before == pytest.approx(117)
    assert after == pytest.approx(100, abs=5)
