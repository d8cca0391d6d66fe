"""How far a run is, while it goes on in a thread of its own."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from types import TracebackType
from typing import Any, Self

import traitlets

from localgraphrag.console import duration, pace
from localgraphrag.errors import LocalGraphRAGError
from localgraphrag.notebook.base import Element, View, el, script, styles
from localgraphrag.progress import Progress

STATES = {
    "waiting": "not begun",
    "running": "at work",
    "done": "done",
    "failed": "failed",
    "stopped": "stopped; what was finished is kept, and the same run again goes on from there",
}

_FAILURES = 5  # shown, the latest


class Stopped(KeyboardInterrupt):
    """A run was stopped by its button, as Ctrl-C stops one on the command line."""


class ProgressView(View):
    """Stages of a run, how far each is, how long it still takes, and what went wrong.

    The view itself is the callback that `Project.index`, `query` and `compare` take as `progress`. `run` starts such a
    method in a thread, so that the notebook can be used meanwhile:

    >>> view = ProgressView("Index")  # doctest: +SKIP
    >>> view.run(project.index, "letters")  # doctest: +SKIP
    >>> view.result()  # doctest: +SKIP

    In a `with` block it follows what the block does: `with view: project.index("letters", progress=view)`.

    Parameters
    ----------
    every : seconds between two changes of the picture.

    `state` is one of `STATES`; `stopping` set to True, here or by the button, stops the run when it next reports.
    """

    _esm = script("progress_view.js")
    _css = styles("progress_view.css")
    data = traitlets.Dict().tag(sync=True)
    state = traitlets.Enum(list(STATES), "waiting").tag(sync=True)
    stopping = traitlets.Bool(False).tag(sync=True)

    def __init__(self, title: str = "", *, every: float = 0.1, **traits: Any) -> None:
        self._title, self._every = title, every
        self._latest: dict[str, Progress] = {}
        self._failures: list[str] = []
        self._message, self._shown = "", 0.0
        self._lock = threading.Lock()
        self._future: Future[Any] | None = None
        super().__init__(data=self._data(), **traits)

    def run(self, work: Callable[..., Any], *arguments: Any, **options: Any) -> Self:
        """Call `work(*arguments, progress=self, **options)` in a thread, and return at once.

        Raises RuntimeError if the last run is still at work.
        """
        if self.state == "running":
            raise RuntimeError("A run is still at work. Wait for it with result(), or stop it: view.stopping = True.")
        future: Future[Any] = Future()
        self._future = future
        self._begin()

        def at_work() -> None:
            try:
                with self:
                    value = work(*arguments, progress=self, **options)
            except BaseException as error:  # whoever asks for the result gets it
                future.set_exception(error)
            else:
                future.set_result(value)

        threading.Thread(target=at_work, name=f"run of {self._title}", daemon=True).start()
        return self

    def result(self, timeout: float | None = None) -> Any:
        """What the run has returned; waits for its end, at most `timeout` seconds.

        Raises what the run raised; Stopped if it was stopped; TimeoutError; RuntimeError where nothing was begun.
        """
        if self._future is None:
            raise RuntimeError("Nothing was begun. Start something: view.run(project.index, PATHS).")
        return self._future.result(timeout)

    def __call__(self, progress: Progress) -> None:
        """Take in how far a stage is. Raises Stopped if the run is to stop."""
        with self._lock:
            changed = progress.stage not in self._latest or progress.detail == "done"
            self._latest[progress.stage] = progress
            if " failed: " in progress.detail:
                self._failures.append(progress.detail)
            if changed or time.monotonic() - self._shown >= self._every:
                self._show()
        if self.state == "waiting":
            self.state = "running"
        if self.stopping and self.state == "running":
            raise Stopped

    def __enter__(self) -> Self:
        self._begin()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self._end("done", "")
        elif isinstance(error, KeyboardInterrupt):
            self._end("stopped", "")
        else:
            known = isinstance(error, LocalGraphRAGError)
            self._end("failed", str(error) if known else f"{type(error).__name__}: {error}")

    def _begin(self) -> None:
        with self._lock:
            self._latest, self._failures, self._message = {}, [], ""
            self._show()
        self.stopping, self.state = False, "running"

    def _end(self, state: str, message: str) -> None:
        with self._lock:
            self._message = message
            self.state = state
            self._show()
        self.stopping = False

    def _show(self) -> None:
        self.data, self._shown = self._data(), time.monotonic()

    def _data(self) -> dict[str, Any]:
        stages = list(self._latest.values())
        # a stage is over when the next one begins, whether it said so or not
        over = [p.detail == "done" or number < len(stages) - 1 for number, p in enumerate(stages)]
        over = [True] * len(stages) if self.state == "done" else over
        return {
            "title": self._title,
            "states": STATES,
            "stages": [_stage(p, ended) for p, ended in zip(stages, over, strict=True)],
            "failed": len(self._failures),
            "failures": self._failures[-_FAILURES:],
            "message": self._message,
        }

    def picture(self) -> Element:
        """A bar for each stage, and what went wrong."""
        data = self.data
        box = el("div", {}, el("strong", {}, data["title"]), f" {STATES[self.state]}")
        for stage in data["stages"]:
            bar = el("div", {"class": "lgr-bar"}, el("i", {"style": f"width:{stage['share']:.0%}"}, ""))
            box.append(
                el("div", {"class": "lgr-stage"}, el("span", {}, stage["name"]), bar, el("span", {}, stage["told"]))
            )
        if data["message"]:
            box.append(el("p", {"class": "lgr-error"}, f"It ended with an error: {data['message']}"))
        if data["failures"]:
            lines = (el("li", {}, line) for line in data["failures"])
            box.append(el("div", {}, f"{data['failed']} failed, the latest:", el("ul", {}, *lines)))
        return box


def _stage(progress: Progress, over: bool) -> dict[str, Any]:
    done, total = progress.done, progress.total
    share = 1.0 if over else min(done / total, 1.0) if total else 0.0
    counted = f"{done:,} of {total:,}" if total else f"{done:,}" if done else ""
    rest = [f"done in {duration(progress.seconds)}" if progress.seconds else "done"] if over else [pace(progress)]
    return {
        "name": progress.stage,
        "share": share,
        "known": bool(total) or over,
        "over": over,
        "told": ", ".join(part for part in (counted, *rest) if part),
        "detail": "" if over else progress.detail,
    }
