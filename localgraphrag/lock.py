"""One writer at a time: a lock that the operating system frees when its holder ends, however it ends."""

from __future__ import annotations

import json
import os
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import IO

from localgraphrag.errors import StoreLockedError

_LOCKED_BYTE = 1 << 30  # Windows locks are mandatory: far behind the text, so that others can read who holds it
_HELD = (BlockingIOError, PermissionError)  # EWOULDBLOCK, EAGAIN; EACCES on Windows
_PATIENCE = 0.3
"""Seconds for which a lock that is held is tried again: a look at who is writing holds it for a moment."""


class WriterLock:
    """An advisory lock on `path`, with the holder's name in it.

    A pid file alone would outlive `kill -9`; this lock does not. The file stays when the lock is freed: removing it
    would race with the next holder.

    Raises StoreLockedError, naming the holder, when another process or another Store of this one has it; OSError where
    the file cannot be written or locked.
    """

    def __init__(self, index: Path, purpose: str, since: str) -> None:
        self._file: IO[bytes] | None = _beside(index).open("a+b", buffering=0)
        try:
            _wait_for(self._file)
        except _HELD:
            holder = _holder(self._file)
            self._file.close()
            raise _held(index, holder) from None
        except OSError:
            self._file.close()
            raise
        try:
            self._file.truncate(0)
            self._file.write(json.dumps({"pid": os.getpid(), "purpose": purpose, "since": since}).encode())
        except OSError:  # a full disk
            self.release()
            raise

    def release(self) -> None:
        """Free the lock. Safe to call twice."""
        if self._file is not None:
            self._file.truncate(0)
            _unlock(self._file)
            self._file.close()
            self._file = None


def writer_of(index: Path) -> str:
    """Who is writing to the index file now, in words, or "" where nobody is or it cannot be told. Makes no file."""
    with suppress(OSError), _beside(index).open("rb", buffering=0) as file:  # there may be none, or none that is ours
        if file.read(1):  # it is emptied when it is freed
            try:
                _share(file)
            except _HELD:
                return _holder(file)
            _unlock(file)  # its holder was killed
    return ""


def check_free(index: Path) -> None:
    """Raise StoreLockedError if a writer is at work on the index file. Makes no file, and so keeps no other out."""
    if holder := writer_of(index):
        raise _held(index, holder)


def _wait_for(file: IO[bytes]) -> None:
    until = time.monotonic() + _PATIENCE
    while True:
        try:
            return _lock(file)
        except _HELD:
            if time.monotonic() > until:
                raise
        time.sleep(_PATIENCE / 10)


def _beside(index: Path) -> Path:
    return index.with_name(index.name + ".lock")


def _held(index: Path, holder: str) -> StoreLockedError:
    return StoreLockedError(
        f"{index} is being written by {holder}. Wait for it to end or stop it; "
        "what it has stored is kept, and questions can be asked meanwhile."
    )


def _holder(file: IO[bytes]) -> str:
    file.seek(0)
    try:
        held = json.loads(file.read(4096))
        return f"process {held['pid']} ({held['purpose']}, since {held['since']})"
    except (ValueError, KeyError, TypeError, OSError):
        return "another process"


if sys.platform == "win32":
    import msvcrt

    def _windows(file: IO[bytes], mode: int) -> None:
        file.seek(_LOCKED_BYTE)
        msvcrt.locking(file.fileno(), mode, 1)
        file.seek(0)

    def _lock(file: IO[bytes]) -> None:
        _windows(file, msvcrt.LK_NBLCK)

    _share = _lock

    def _unlock(file: IO[bytes]) -> None:
        _windows(file, msvcrt.LK_UNLCK)

else:
    import fcntl

    def _lock(file: IO[bytes]) -> None:
        # flock, not lockf: lockf is freed when any handle of the process on the file closes.
        fcntl.flock(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)

    def _share(file: IO[bytes]) -> None:
        # Not for writing: NFS refuses that on a file opened to read.
        fcntl.flock(file.fileno(), fcntl.LOCK_SH | fcntl.LOCK_NB)

    def _unlock(file: IO[bytes]) -> None:
        fcntl.flock(file.fileno(), fcntl.LOCK_UN)
