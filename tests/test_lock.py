"""One writer at a time, and who it is."""

from __future__ import annotations

import errno
import os
import sys
import threading
from pathlib import Path

import pytest
import workbench as bench

from localgraphrag import documents
from localgraphrag.errors import NoDocumentsError, StoreLockedError
from localgraphrag.lock import check_free, writer_of
from localgraphrag.store import Store


def test_who_is_writing_is_told_while_it_does_and_no_file_is_made(tmp_path: Path):
    path = tmp_path / "p" / "index.db"
    assert writer_of(path) == ""
    assert not path.parent.exists()
    with Store(path, writer="index"):
        assert "(index, since " in writer_of(path)
        with pytest.raises(StoreLockedError, match=r"index.db is being written by process \d+ \(index, since"):
            check_free(path)
    assert writer_of(path) == ""
    check_free(path)
    lock = path.with_name("index.db.lock")
    lock.write_text('{"pid": 1, "purpose": "index", "since": "yesterday"}')  # its holder was killed
    assert writer_of(path) == ""
    Store(path, writer="index").close()


@pytest.mark.skipif(sys.platform == "win32", reason="of flock")
def test_on_nfs_a_lock_that_a_killed_run_left_is_free(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    import fcntl

    flock = fcntl.flock

    def nfs(descriptor: int, how: int) -> None:
        if how & fcntl.LOCK_EX and fcntl.fcntl(descriptor, fcntl.F_GETFL) & os.O_ACCMODE == os.O_RDONLY:
            raise OSError(errno.EBADF, "Bad file descriptor")
        flock(descriptor, how)

    monkeypatch.setattr(fcntl, "flock", nfs)
    path = tmp_path / "index.db"
    with Store(path, writer="index"):
        assert "(index, since " in writer_of(path)
    path.with_name("index.db.lock").write_text('{"pid": 1, "purpose": "index", "since": "yesterday"}')
    assert writer_of(path) == ""


@pytest.mark.skipif(sys.platform == "win32", reason="of flock")
def test_where_nothing_can_be_locked_nobody_is_said_to_hold_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    import fcntl

    def none(descriptor: int, how: int) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    path = tmp_path / "index.db"
    path.with_name("index.db.lock").write_text('{"pid": 1, "purpose": "index", "since": "yesterday"}')
    monkeypatch.setattr(fcntl, "flock", none)
    assert writer_of(path) == ""
    with pytest.raises(OSError, match="No locks available"):
        Store(path, writer="index")


@pytest.mark.skipif(sys.platform == "win32", reason="of flock")
def test_a_look_at_who_is_writing_does_not_keep_a_writer_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    import fcntl

    path, flock = tmp_path / "index.db", fcntl.flock
    with path.with_name("index.db.lock").open("a+b") as other:
        flock(other.fileno(), fcntl.LOCK_SH)

        def look_ends(descriptor: int, how: int) -> None:
            try:
                flock(descriptor, how)
            finally:
                flock(other.fileno(), fcntl.LOCK_UN)

        monkeypatch.setattr(fcntl, "flock", look_ends)
        Store(path, writer="index").close()


def test_a_second_run_is_refused_before_anything_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def read(*_arguments: object, **_options: object) -> None:
        raise AssertionError("a document was read")

    docs, project = bench.write_corpus(tmp_path / "docs"), bench.open_project(tmp_path / "p")
    project.index(docs)
    monkeypatch.setattr(documents, "read_documents", read)
    with Store(project.index_path, writer="index"), pytest.raises(StoreLockedError):
        project.index(docs)


def test_where_there_is_nothing_to_read_looking_for_a_writer_makes_nothing(tmp_path: Path):
    (tmp_path / "empty").mkdir()
    with pytest.raises(NoDocumentsError):
        bench.open_project(tmp_path / "p").index(tmp_path / "empty")
    assert not (tmp_path / "p").exists()


def test_a_run_of_another_thread_is_waited_for(tmp_path: Path):
    docs, found = bench.write_corpus(tmp_path / "docs"), []

    def reply(messages, request):
        if not second.ident:
            second.start()
            second.join(0.2)  # it had time to be refused
        return bench.reply(messages, request)

    project = bench.open_project(tmp_path / "p", reply)
    second = threading.Thread(target=lambda: found.append(project.index(docs)))
    project.index(docs)
    second.join()
    assert [summary.documents for summary in found] == [4]
