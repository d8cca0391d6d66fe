"""An index run killed at twenty random moments, and what is there afterwards.

Runs are forked from the test, so that twenty of them do not import everything twenty times.
"""

import os
import random
import signal
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path

import pytest
import workbench as bench

from localgraphrag import demo
from localgraphrag.errors import StoreLockedError
from localgraphrag.llm.output import schema
from localgraphrag.llm.types import Completion, Message, Request
from localgraphrag.progress import Progress
from localgraphrag.project import Project
from localgraphrag.store import Store

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")

KILLS = 20
MOST_CALLS = 5  # of a unit, and one


@pytest.fixture(autouse=True)
def imported_before_the_forks():
    schema({})


class Run:
    """An index run in a process of its own that tells each call it makes, and waits for leave to go on."""

    def __init__(self, project: Project, docs: Path, progress: Callable[[Progress], None] | None = None) -> None:
        told, tell = os.pipe()
        wait, self._leave = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            try:
                os.close(self._leave)
                project.engine._complete = telling(project.engine._complete, tell, wait)
                project.index(docs, progress=progress)
                os._exit(0)
            except BaseException:
                traceback.print_exc()
                os._exit(1)
        os.close(tell)
        os.close(wait)
        self._told = os.fdopen(told, encoding="utf-8")

    def calls(self) -> Iterator[str]:
        """Each call, which is answered when the next one is asked for."""
        for line in self._told:
            yield line.strip()
            self.answer()

    def answer(self) -> None:
        with suppress(BrokenPipeError):
            os.write(self._leave, b".")

    def kill(self) -> None:
        os.kill(self.pid, signal.SIGKILL)

    def wait(self) -> int:
        """0 when it finished, -9 when it was killed."""
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])


def telling(complete: Callable[..., Completion], tell: int, wait: int) -> Callable[..., Completion]:
    def told(history: tuple[Message, ...], request: Request) -> Completion:
        os.write(tell, f"{request.key}\n".encode())
        os.read(wait, 1)
        return complete(history, request)

    return told


def run_and_kill(project: Project, docs: Path, answered: int, delay: float) -> tuple[list[str], int]:
    """Kill a run `delay` seconds after so many answers; the calls it made, and how it ended."""
    run = Run(project, docs)
    calls = list(islice(run.calls(), answered))
    if answered:
        run.answer()
    time.sleep(delay)
    run.kill()
    calls += run.calls()  # the one that had no answer
    return calls, run.wait()


def unit(call: str) -> str:
    """What a call was for: "extract t-.." of "extract t-.. names"."""
    return " ".join(call.split()[:2])


def units(calls: list[str]) -> set[str]:
    return {unit(call) for call in calls}


def letters(folder: Path) -> Path:
    return bench.write_corpus(folder, documents=8, sentences=6)


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("corpus", "open_project"),
    [(letters, bench.open_project), (lambda _folder: demo.corpus_folder(), demo.open_project)],
    ids=["letters", "what the default model said of the demo"],
)
def test_killed_at_twenty_random_moments_it_loses_at_most_the_unit_in_flight(tmp_path: Path, corpus, open_project):
    docs = corpus(tmp_path / "docs")
    whole = open_project(tmp_path / "whole")
    assert whole.index(docs).complete
    needed = [request.key for request in whole.engine.requests]
    killed, made, draw = tmp_path / "killed", [], random.Random(7)
    for moment in sorted(draw.sample(range(len(needed) - MOST_CALLS), KILLS)):
        in_flight = units(made[-1:])  # this engine has one at a time
        done = sum(unit(call) not in in_flight for call in set(made))
        calls, ended = run_and_kill(open_project(killed), docs, max(moment - done, 0), draw.random() ** 3 / 10)
        assert ended == -signal.SIGKILL
        assert units(calls) & units(made) <= in_flight
        made += calls
        if (killed / "index.db").exists():
            with Store(killed / "index.db", writer="test") as store:
                assert store.rows("PRAGMA integrity_check") == [("ok",)]
                assert store.rows("PRAGMA foreign_key_check") == []
    run = Run(open_project(killed), docs)
    calls = list(run.calls())
    assert run.wait() == 0
    assert units(calls) & units(made) <= units(made[-1:])
    assert set(made + calls) == set(needed)
    assert open_project(killed).verify() == []
    assert bench.tables_of(killed / "index.db") == bench.tables_of(tmp_path / "whole" / "index.db")


@pytest.mark.parametrize("stage", ["read", "chunk", "graph", "communities", "save", "vectors"])
@pytest.mark.parametrize("moment", ["begin", "end"])
def test_killed_outside_of_model_work(tmp_path: Path, stage: str, moment: str):
    docs = bench.write_corpus(tmp_path / "docs", documents=2)
    killed = tmp_path / "killed"

    def die(event: Progress) -> None:
        if event.stage == stage and (event.detail == "done") == (moment == "end"):
            os.kill(os.getpid(), signal.SIGKILL)

    run = Run(bench.open_project(killed), docs, die)
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
    _, ended = run_and_kill(project, docs, 3, 0)
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
    run = Run(bench.open_project(tmp_path / "project"), docs)
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
