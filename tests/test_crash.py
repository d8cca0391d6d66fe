"""An index run killed at twenty random moments, and what is there afterwards.

Runs are forked from the test, so that twenty of them do not import everything twenty times.
"""

import os
import random
import signal
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import workbench as bench

from localgraphrag import extract
from localgraphrag.errors import StoreLockedError
from localgraphrag.llm.output import schema
from localgraphrag.llm.types import Message, Request
from localgraphrag.progress import Progress
from localgraphrag.store import Store

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")

KILLS = 20
PAUSE = 0.01  # seconds that each call of the scripted model takes: moments to be killed in


@pytest.fixture(autouse=True)
def plain_extraction(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(extract, "extraction_units", bench.extraction_units, raising=False)
    schema({})  # imports outlines before the forks


class Run:
    """An index run in a process of its own that tells each call it makes."""

    def __init__(self, docs: Path, project: Path, progress: Callable[[Progress], None] | None = None) -> None:
        read, write = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            try:
                self._index(docs, project, write, progress)
                os._exit(0)
            except BaseException:
                traceback.print_exc()
                os._exit(1)
        os.close(write)
        self._read = read

    def _index(self, docs: Path, project: Path, write: int, progress: Callable[[Progress], None] | None) -> None:
        def slow(messages: tuple[Message, ...], request: Request) -> str:
            time.sleep(PAUSE)
            os.write(write, f"{request.key}\n".encode())
            return bench.reply(messages, request)

        bench.open_project(project, slow).index(docs, progress=progress)

    def calls(self) -> Iterator[str]:
        with os.fdopen(self._read, encoding="utf-8") as lines:
            yield from (line.strip() for line in lines)

    def kill(self) -> None:
        os.kill(self.pid, signal.SIGKILL)

    def wait(self) -> int:
        """0 when it finished, -9 when it was killed."""
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])


def run_and_kill(docs: Path, project: Path, after_calls: int, delay: float) -> tuple[list[str], int]:
    """Kill a run `delay` seconds after so many calls; the calls it made, and how it ended."""
    run = Run(docs, project)
    calls: list[str] = []
    if not after_calls:
        time.sleep(delay)
        run.kill()
    for call in run.calls():
        calls.append(call)
        if len(calls) == after_calls:
            time.sleep(delay)
            run.kill()
    return calls, run.wait()


@pytest.mark.timeout(300)
def test_killed_at_twenty_random_moments_it_loses_at_most_the_units_in_flight(tmp_path: Path):
    docs = bench.write_corpus(tmp_path / "docs", documents=8, sentences=6)
    whole = bench.open_project(tmp_path / "whole")
    whole.index(docs)
    needed = [request.key for request in whole.engine.requests]
    killed, made, draw = tmp_path / "killed", [], random.Random(7)
    for _ in range(KILLS):
        calls, ended = run_and_kill(docs, killed, draw.choice((0, 1, 2, 3, 5, 7)), draw.random() * 3 * PAUSE)
        assert ended == -signal.SIGKILL, "the run ended before it was killed: give it more to do"
        made += calls
        if (killed / "index.db").exists():
            with Store(killed / "index.db", writer="test") as store:
                assert store.rows("PRAGMA integrity_check") == [("ok",)]
                assert store.rows("PRAGMA foreign_key_check") == []
    calls, ended = run_and_kill(docs, killed, 10**9, 0)
    assert ended == 0
    made += calls
    assert bench.open_project(killed).verify() == []
    assert bench.tables_of(killed / "index.db") == bench.tables_of(tmp_path / "whole" / "index.db")
    assert set(made) == set(needed)
    # A unit has at most two calls, and this engine has one unit in flight: what is done is not done again.
    assert len(made) <= len(needed) + 2 * KILLS


@pytest.mark.parametrize("stage", ["read", "chunk", "graph", "communities", "save", "vectors"])
@pytest.mark.parametrize("moment", ["begin", "end"])
def test_killed_outside_of_model_work(tmp_path: Path, stage: str, moment: str):
    docs = bench.write_corpus(tmp_path / "docs", documents=2)
    killed = tmp_path / "killed"

    def die(event: Progress) -> None:
        if event.stage == stage and (event.detail == "done") == (moment == "end"):
            os.kill(os.getpid(), signal.SIGKILL)

    run = Run(docs, killed, die)
    list(run.calls())
    assert run.wait() == (0 if (stage, moment) == ("read", "end") else -signal.SIGKILL)
    for folder in (killed, tmp_path / "whole"):
        bench.open_project(folder).index(docs)
    assert bench.open_project(killed).verify() == []
    assert bench.tables_of(killed / "index.db") == bench.tables_of(tmp_path / "whole" / "index.db")


def test_killed_in_an_update_the_state_before_stands_until_the_next_run(tmp_path: Path):
    docs = bench.write_corpus(tmp_path / "docs")
    project = bench.open_project(tmp_path / "project")
    project.index(docs)
    before = project.status()
    (docs / "letter00.txt").unlink()
    (docs / "new.txt").write_text(" ".join(bench.sentence(n) for n in range(50, 56)))
    _, ended = run_and_kill(docs, project.folder, 3, 0)
    assert ended == -signal.SIGKILL
    meanwhile = project.status()
    assert (meanwhile.documents, meanwhile.chunks, meanwhile.reports) == (
        before.documents,
        before.chunks,
        before.reports,
    )
    assert meanwhile.unfinished == 1
    assert project.verify() == []
    assert project.query("Who?").citations
    assert project.index(docs).removed == 1
    assert project.status().unfinished == 0
    assert project.verify() == []


def test_two_runs_at_once_the_second_is_refused_and_a_reader_is_not(tmp_path: Path):
    docs = bench.write_corpus(tmp_path / "docs")
    run = Run(docs, tmp_path / "project")
    calls = run.calls()
    assert next(calls).startswith("extract")
    second = bench.open_project(tmp_path / "project")
    with pytest.raises(StoreLockedError, match=rf"process {run.pid} \(index, since"):
        second.index(docs)
    assert second.engine.requests == []
    with second.store() as store:
        assert store.scalar("SELECT count(*) FROM documents") == 4
    list(calls)
    assert run.wait() == 0
    assert second.verify() == []
