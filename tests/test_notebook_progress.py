"""`ProgressView`: it follows a run in a thread, says how it ended, and can stop it."""

from __future__ import annotations

import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from localgraphrag.errors import NoDocumentsError
from localgraphrag.notebook.progress_view import ProgressView, Stopped
from localgraphrag.progress import Progress
from tests import workbench


@pytest.fixture
def project(tmp_path):
    workbench.write_corpus(tmp_path / "letters", 4, 6)
    return workbench.open_project(tmp_path / "project")


def test_an_index_and_a_question_are_followed_to_their_end(project, tmp_path):
    view = ProgressView("Index", every=0)
    summary = view.run(project.index, tmp_path / "letters").result(60)
    assert (view.state, summary.documents) == ("done", 4)
    stages = {stage["name"]: stage for stage in view.data["stages"]}
    assert {"read", "extract"} <= set(stages)
    assert all(stage["over"] and stage["share"] == 1 for stage in stages.values())
    answer = view.run(project.query, "Who wrote?").result(60)
    assert answer.citations
    assert "read" not in {stage["name"] for stage in view.data["stages"]}, "a new run begins anew"


def test_the_cell_returns_while_the_run_goes_on():
    go, seen = threading.Event(), []

    def work(progress):
        progress(Progress("extract", 1, 4, "t-1 done", tokens=50, seconds=2.0, eta_seconds=75.0))
        seen.append(go.wait(10))

    view = ProgressView("Work", every=0).run(work)
    wait_for(lambda: view.data["stages"])
    [stage] = view.data["stages"]
    assert (view.state, seen) == ("running", [])
    assert (stage["share"], stage["told"]) == (0.25, "1 of 4, 25 tokens/s, 1 min 15 s left")
    with pytest.raises(RuntimeError, match="still at work"):
        view.run(work)
    with pytest.raises(TimeoutError):
        view.result(0.01)
    go.set()
    view.result(10)
    assert (view.state, seen) == ("done", [True])


def wait_for(condition):
    pause = threading.Event()
    for _ in range(500):
        if condition():
            return
        pause.wait(0.01)
    raise AssertionError("it never came")


def test_an_error_is_shown_in_words_and_raised_by_result(project, tmp_path):
    (tmp_path / "empty").mkdir()
    view = ProgressView("Index").run(project.index, tmp_path / "empty")
    with pytest.raises(NoDocumentsError) as raised:
        view.result(30)
    assert view.state == "failed"
    assert view.data["message"] == str(raised.value)
    assert "It ended with an error: " in view.static()
    view = ProgressView("Sum").run(lambda progress: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        view.result(10)
    assert view.data["message"] == "ZeroDivisionError: division by zero"


def test_a_run_is_stopped_where_it_next_reports_and_goes_on_later(project, tmp_path):
    view = ProgressView("Index", every=0)

    def stop(_change):
        if any(stage["name"] == "extract" for stage in view.data["stages"]):
            view.stopping = True

    view.observe(stop, "data")
    with pytest.raises(Stopped):
        view.run(project.index, tmp_path / "letters").result(60)
    assert (view.state, view.stopping) == ("stopped", False)
    view.unobserve(stop, "data")
    assert view.run(project.index, tmp_path / "letters").result(60).documents == 4
    assert project.verify() == []


def test_a_block_is_followed_too(project, tmp_path):
    view = ProgressView("Index")
    with view:
        project.index(tmp_path / "letters", progress=view)
    assert view.state == "done"
    with pytest.raises(ValueError, match="no"), view:
        raise ValueError("no")
    assert (view.state, view.data["message"]) == ("failed", "ValueError: no")


def test_what_failed_is_counted_and_the_latest_are_shown():
    view = ProgressView("Index")
    for number in range(8):
        view(Progress("extract", number + 1, 9, f"t-{number} failed: <script>alert({number})</script>"))
    view(Progress("extract", 9, 9, "done"))
    assert (view.data["failed"], len(view.data["failures"])) == (8, 5)
    assert view.data["failures"][-1].startswith("t-7 failed")
    assert "<script" not in view.static()
    assert "&lt;script&gt;alert(7)" in view.static()


def test_hardly_begun():
    view = ProgressView("Index")
    assert "not begun" in view.static()
    with pytest.raises(RuntimeError, match="Nothing was begun"):
        view.result()
    view(Progress("read", 0, 0, "a file"))
    [stage] = view.data["stages"]
    assert (stage["known"], stage["share"], stage["over"]) == (False, 0, False)


STEPS = st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 9), st.integers(0, 9), st.booleans()), max_size=12)


@given(STEPS)
def test_stages_stand_in_order_and_all_but_the_last_are_over(steps):
    view = ProgressView(every=0)
    for name, done, total, ended in steps:
        view(Progress(name, done, total, "done" if ended else ""))
    stages = view.data["stages"]
    assert [stage["name"] for stage in stages] == list(dict.fromkeys(name for name, *_ in steps))
    assert all(stage["over"] for stage in stages[:-1])
    assert all(0 <= stage["share"] <= 1 for stage in stages)


def test_not_every_report_changes_the_picture():
    view, changes = ProgressView(every=3600), []
    view.observe(changes.append, "data")
    for number in range(1000):
        view(Progress("chunk", number, 1000))
    view(Progress("chunk", 1000, 1000, "done"))
    assert len(changes) == 2, "the first and the last"
    assert view.data["stages"][0]["over"]
