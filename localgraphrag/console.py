"""What the command line prints: results on stdout, progress on stderr."""

from __future__ import annotations

import dataclasses
import json
import re
import sys
import time
from collections.abc import Iterable, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from localgraphrag.progress import Progress

_EVERY = 10.0  # seconds between plain lines of one stage, where nobody watches a bar
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")  # of a document, they could redraw or rename the terminal
_QUIET = 20.0  # seconds after which a line is said even if nothing has been finished since


def write(text: str = "") -> None:
    """A line of results."""
    sys.stdout.write(harmless(text) + "\n")


def harmless(text: str) -> str:
    r"""The text with a mark in place of each control character but tab and end of line.

    >>> harmless("two\tlines\n\x1b[2Jgone")
    'two\tlines\n�[2Jgone'
    """
    return _CONTROL.sub("\ufffd", text)


def one_line(text: str) -> str:
    r"""The text, harmless and on one line, for a cell or an entry of a list.

    >>> one_line("refused:\r\n  line 1\x1b\n")
    'refused: line 1�'
    """
    lines = text.splitlines()
    return harmless(" ".join(line.strip() for line in lines if line.strip()) if len(lines) > 1 else text)


def note(text: str) -> None:
    """A line for whoever watches, on stderr."""
    sys.stderr.write(harmless(text) + "\n")
    sys.stderr.flush()


def write_json(value: Any) -> None:
    """A result as JSON: dataclasses by their fields, paths as strings, texts as they are."""
    json.dump(_plain(value), sys.stdout, ensure_ascii=False, indent=2)
    sys.stdout.write("\n")


def write_table(heads: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """A table; numbers to the right. Two spaces part the columns where stdout is not a terminal; nothing is cut."""
    cells = [[_cell(value) for value in row] for row in rows]
    right = [all(_is_number(row[i]) for row in cells) and bool(cells) for i in range(len(heads))]
    if sys.stdout.isatty():
        from rich import box
        from rich.console import Console
        from rich.table import Table
        from rich.text import Text

        table = Table(box=box.SIMPLE_HEAD, show_header=any(heads), padding=(0, 1), pad_edge=False)
        for head, on_right in zip(heads, right, strict=True):
            table.add_column(head, justify="right" if on_right else "left", overflow="fold")
        for row in cells:
            table.add_row(*(Text(cell) for cell in row))
        Console().print(table)
        return
    widths = [max(len(row[i]) for row in [list(heads), *cells]) for i in range(len(heads))]
    for row in [*([list(heads)] if any(heads) else []), *cells]:
        parts = [c.rjust(w) if r else c.ljust(w) for c, w, r in zip(row, widths, right, strict=True)]
        write("  ".join(parts).rstrip())


def write_marked(text: str, spans: Sequence[tuple[int, int]], *, around: int | None = 160) -> None:
    """A text with spans of it marked: in reverse video on a terminal, between ⟦ and ⟧ elsewhere.

    Shows `around` characters on either side of each span, to the end of a word, and … for what is left out; all of the
    text where `around` is None or nothing is marked.
    """
    text, marked = harmless(text), sorted(set(spans))
    windows = [(0, len(text))] if around is None or not marked else _windows(text, marked, around)
    parts: list[tuple[str, bool]] = []
    for left, right in windows:
        parts.append(("… " if left else "", False))
        at = left
        for start, end in marked:
            if left <= start and end <= right and start >= at:
                parts += [(text[at:start], False), (text[start:end], True)]
                at = end
        parts.append((text[at:right], False))
    parts.append((" …" if windows[-1][1] < len(text) else "", False))
    if sys.stdout.isatty():
        from rich.console import Console
        from rich.text import Text

        Console().print(Text.assemble(*((part, "reverse" if mark else "") for part, mark in parts)))
    else:
        write("".join(f"⟦{part}⟧" if mark else part for part, mark in parts))


def _windows(text: str, marked: Sequence[tuple[int, int]], around: int) -> list[tuple[int, int]]:
    """Stretches of the text around the spans, widened to white space; those that meet are one."""
    windows: list[tuple[int, int]] = []
    for start, end in marked:
        left = text.rfind(" ", 0, max(0, start - around)) + 1 if start > around else 0
        right = text.find(" ", end + around)
        right = len(text) if right < 0 else right
        if windows and left <= windows[-1][1]:
            windows[-1] = (windows[-1][0], max(windows[-1][1], right))
        else:
            windows.append((left, right))
    return windows


class ProgressView:
    """Draws progress: a moving bar per stage on a terminal, else a plain line now and then.

    Use as a context manager and call it with what happens.
    """

    def __init__(self) -> None:
        self._bars: Any = None
        self._tasks: dict[str, Any] = {}
        self._lines: set[str] = set()
        self._said: dict[str, tuple[float, str]] = {}  # by stage: when something was said last, and what

    def __enter__(self) -> Self:
        if sys.stderr.isatty():
            from rich.console import Console
            from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

            columns = (
                TextColumn("{task.description:<14}", markup=False),
                BarColumn(bar_width=24),
                MofNCompleteColumn(),
                TextColumn("{task.fields[rest]}", markup=False),  # of a document it may hold what looks like markup
                TimeElapsedColumn(),
            )
            self._bars = Progress(*columns, console=Console(stderr=True))
            self._bars.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bars is not None:
            self._bars.stop()

    def say(self, text: str) -> None:
        """A line of its own, once."""
        if text not in self._lines:
            self._lines.add(text)
            if self._bars is not None:
                self._bars.console.print(text, highlight=False, markup=False)
            else:
                note(text)

    def update(self, stage: str, done: int, total: int, rest: str = "", *, finished: bool = False) -> None:
        """Say that `done` of `total` of a stage is done (total 0: not known), with a few words more."""
        finished = finished or (bool(total) and done >= total)
        if self._bars is not None:
            if stage not in self._tasks:
                for task in self._bars.tasks:  # a stage is over when the next one begins, whether it said so or not
                    self._bars.update(task.id, completed=task.total)
                self._tasks[stage] = self._bars.add_task(stage, total=total or None, rest=rest)
            end = (max(done, 1), max(done, 1)) if finished else (done, total or None)
            self._bars.update(self._tasks[stage], completed=end[0], total=end[1], rest=rest)
            return
        now = time.monotonic()
        last, said = self._said.get(stage, (now - _EVERY, ""))
        counted = f"{done:,}/{total:,}" if total else f"{done:,}" if done else ""
        counted = counted or ("done" if finished else "")
        if counted and (now - last >= (_EVERY if counted != said else _QUIET) or (finished and counted != said)):
            self._said[stage] = (now, counted)
            note(f"{stage}: {counted} {rest}".rstrip())


def duration(seconds: float) -> str:
    """Seconds as people say them.

    >>> duration(4.2), duration(75), duration(7500)
    ('4 s', '1 min 15 s', '2 h 5 min')
    """
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s" if whole < 600 else f"{whole // 60} min"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


def pace(progress: Progress) -> str:
    """How fast a stage is, how long it still takes, and what has failed: the end of a line of progress."""
    rate = f"{progress.tokens / progress.seconds:.0f} tokens/s" if progress.tokens and progress.seconds else ""
    left = f"{duration(progress.eta_seconds)} left" if progress.eta_seconds else ""
    failed = one_line(progress.detail) if " failed: " in progress.detail else ""
    return ", ".join(part for part in (rate, left, failed) if part)


def _cell(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:,.1f}" if isinstance(value, float) else one_line(str(value))


def _is_number(cell: str) -> bool:
    return not cell or cell.strip("%").replace(",", "").replace(".", "").replace("-", "").isdigit()


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: _plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return value if isinstance(value, (str, int, float, bool, type(None))) else str(value)
