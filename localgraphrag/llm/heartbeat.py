"""A sign of life while the engine works and nothing finishes."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from localgraphrag.llm.talk import Talk

_HEARTBEAT_SECONDS = 2.0


@dataclass(frozen=True)
class Heartbeat:
    """A sign of life during a long pause: a request in work, how many there are, and what these have come to."""

    key: str
    active: int
    read_tokens: int
    output_tokens: int


class Beat:
    """Calls back every two seconds while nothing finishes."""

    def __init__(self, callback: Callable[[Heartbeat], None] | None) -> None:
        self._callback, self._last = callback, time.perf_counter()

    def reset(self) -> None:
        """Something has finished."""
        self._last = time.perf_counter()

    def tick(self, active: Sequence[Talk]) -> None:
        """A step of the conversations in work has ended."""
        now = time.perf_counter()
        if self._callback is None or not active or now - self._last < _HEARTBEAT_SECONDS:
            return
        self._last = now
        written = sum(len(t.tokens) - t.start for t in active)
        self._callback(Heartbeat(active[0].request.key, len(active), sum(t.read for t in active), written))
