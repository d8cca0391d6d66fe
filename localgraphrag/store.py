"""The project's one SQLite file: opening, locking, transactions, units of work and the ledger.

`localgraphrag.tables` turns the rows of documents, graph, hierarchy, reports and answers into their dataclasses.
"""

# ruff: noqa: S608  only constant names of tables and columns are put into SQL; every value is bound

from __future__ import annotations

import errno
import json
import os
import sqlite3
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import astuple
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, Self, TypeVar

from pydantic import TypeAdapter, ValidationError
from pydantic_core import PydanticSerializationError

from localgraphrag import schema
from localgraphrag.errors import (
    NotIndexedError,
    StoreError,
    StoreFullError,
    StoreLockedError,
    StoreVersionError,
)
from localgraphrag.llm.types import Usage
from localgraphrag.llm.units import Outcome, Unit
from localgraphrag.lock import WriterLock

T = TypeVar("T")
Purpose = Literal["index", "query"]
Used = Mapping[str, tuple[str, Sequence[str]]]
"""Units by key: their name and the ids of the chunks they have seen."""

BUSY_SECONDS = 30
"""How long a short write waits for another process's short write."""

IDLE_RUNS = 20
"""Finished runs of `index` through which work is kept that none of them has used."""

_SEALED = "ro&immutable=1"
"""Opens a file to read that nobody writes, with no file beside it."""

_USAGE = "calls, prompt_tokens, read_tokens, output_tokens, forced_tokens, illegal, seconds"
_SEVEN = ", ".join("?" * 7)
_NO_ROOM = {
    sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_IOERR_WRITE,
    sqlite3.SQLITE_IOERR_FSYNC,
    sqlite3.SQLITE_IOERR_TRUNCATE,
    sqlite3.SQLITE_IOERR_SHMSIZE,
}


_adapters: dict[type[Any], TypeAdapter[Any]] = {}


def now() -> str:
    """The time in UTC, ISO 8601, to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def make_index(path: Path) -> str:
    """What to do where there is no index at `path`, or nothing in it: name the right folder, or make the index."""
    folder = str(path.absolute().parent)
    shown = f'"{folder}"' if " " in folder else folder
    return (
        "If it is in another folder, give that with `--project DIR`; "
        f"else make it: `localgraphrag index PATHS --project {shown}`."
    )


class Store:
    """An open `index.db`.

    Parameters
    ----------
    path : the file.
    writer : what the opener is about to do ("index"), which makes it the one writer and creates the file where it is
        missing; or "" to read. Readers may still record questions, in short transactions of their own.

    Raises NotIndexedError when there is nothing to read; StoreLockedError when there is a writer already;
    StoreVersionError for a newer file; StoreError for one that is broken or not ours. Later calls raise StoreFullError
    when the disk is full; the transaction at hand is then undone and everything before it stands.

    A Store belongs to the thread that opened it; opening another is cheap.
    """

    def __init__(self, path: Path, *, writer: str = "") -> None:
        self.path = path
        self.writer = writer
        self._lock: WriterLock | None = None
        if not writer and not path.exists():
            raise NotIndexedError(f"There is no index at {path.absolute()}. {make_index(path)}")
        with _explained(path):
            if writer:
                path.parent.mkdir(parents=True, exist_ok=True)
                self._lock = WriterLock(path, writer, now())
            try:
                self._database = self._connect()
            except BaseException:
                self._release()
                raise
        if writer and self.get("purge_pending"):
            self.scrub()

    def _connect(self) -> sqlite3.Connection:
        if self.writer:
            return self._open("rwc")
        sealed = not self.path.with_name(self.path.name + "-wal").exists()  # then no -shm file is needed to read it
        if sealed and not os.access(self.path.parent, os.W_OK):
            return self._open(_SEALED)
        try:
            return self._open("rw")
        except sqlite3.OperationalError as error:
            if sealed and _no_room(error):  # nor could one be made on a full disk
                return self._open(_SEALED)
            raise

    def _open(self, mode: str) -> sqlite3.Connection:
        uri = f"{self.path.absolute().as_uri()}?mode={mode}"
        database = sqlite3.connect(uri, uri=True, timeout=BUSY_SECONDS, isolation_level=None)
        try:
            self._check(database)
            if mode != _SEALED:
                database.execute("PRAGMA journal_mode = WAL")
                database.execute("PRAGMA synchronous = FULL")  # a unit costs seconds of model time, a sync milliseconds
            database.execute("PRAGMA secure_delete = ON")
            database.execute("PRAGMA temp_store = MEMORY")  # no text in the system's temporary folder
            database.execute("PRAGMA foreign_keys = ON")
            try:
                self._migrate(database)
            except sqlite3.OperationalError as error:
                if self.writer or _primary(error) != sqlite3.SQLITE_READONLY:
                    raise
                database = self._migrated_copy(database)
        except BaseException:
            database.close()
            raise
        return database

    def _migrated_copy(self, database: sqlite3.Connection) -> sqlite3.Connection:
        """A copy in memory, to read, of an older file that cannot be written. Closes the file."""
        copy = sqlite3.connect(":memory:", isolation_level=None)
        try:
            database.backup(copy)
            self._migrate(copy)
            copy.execute("PRAGMA query_only = ON")  # what was recorded here would be lost without a word
        except BaseException:
            copy.close()
            raise
        database.close()
        return copy

    def _check(self, database: sqlite3.Connection) -> None:
        """Refuse a file that is another program's or from the future, before anything in it is changed."""
        version = database.execute("PRAGMA user_version").fetchone()[0]
        application = database.execute("PRAGMA application_id").fetchone()[0]
        empty = not database.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
        if not empty and application != schema.APPLICATION_ID:
            raise StoreError(f"{self.path} is a SQLite file of another program. Move it away, or use another folder.")
        if empty and not self.writer:
            raise NotIndexedError(f"The index at {self.path.absolute()} is empty. {make_index(self.path)}")
        if version > len(schema.MIGRATIONS):
            raise StoreVersionError(
                f"{self.path} has schema version {version}; this version of localgraphrag reads up to "
                f"{len(schema.MIGRATIONS)}. Upgrade localgraphrag, or index into another folder."
            )

    def _migrate(self, database: sqlite3.Connection) -> None:
        if database.execute("PRAGMA user_version").fetchone()[0] == len(schema.MIGRATIONS):
            return
        database.execute("BEGIN IMMEDIATE")
        try:
            version = database.execute("PRAGMA user_version").fetchone()[0]  # again: another process may have done it
            for migrate in schema.MIGRATIONS[version:]:
                migrate(database)
            database.execute(f"PRAGMA application_id = {schema.APPLICATION_ID}")
            database.execute(f"PRAGMA user_version = {len(schema.MIGRATIONS)}")
            database.execute("COMMIT")
        except BaseException:
            if database.in_transaction:
                database.execute("ROLLBACK")
            raise

    def close(self) -> None:
        """Close the file and let the next writer in. Safe to call twice."""
        self._database.close()
        self._release()

    def _release(self) -> None:
        if self._lock is not None:
            self._lock.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.close()

    # Transactions

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """All of the block's writes or none. Raises StoreFullError when they do not fit the disk."""
        with _explained(self.path):
            self._database.execute("BEGIN IMMEDIATE")
            try:
                yield self._database
                self._database.execute("COMMIT")
            except BaseException:
                if self._database.in_transaction:  # a full disk may have undone it already
                    self._database.execute("ROLLBACK")
                raise

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """All of the block's reads see one state of the file, whatever others write meanwhile."""
        if self._database.in_transaction:
            yield
            return
        with _explained(self.path):
            self._database.execute("BEGIN")
            try:
                yield
            finally:
                self._database.execute("COMMIT")

    def rows(self, sql: str, *values: Any) -> list[tuple[Any, ...]]:
        """The rows of a query."""
        with _explained(self.path):
            return self._database.execute(sql, values).fetchall()

    def scalar(self, sql: str, *values: Any) -> Any:
        """The first column of a query's first row, or None."""
        found = self.rows(sql, *values)
        return found[0][0] if found else None

    def scrub(self) -> None:
        """Bring deletions down to the bytes of the files.

        `secure_delete` zeroes what was deleted in the main file, but the write-ahead log may hold earlier pages. While
        somebody reads an earlier state, the log cannot be emptied; that is then done when a writer next opens the file.
        """
        with _explained(self.path):
            self._database.execute("PRAGMA busy_timeout = 500")
            busy = self._database.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]
            self._database.execute(f"PRAGMA busy_timeout = {BUSY_SECONDS * 1000}")
        if bool(busy) != bool(self.get("purge_pending")):
            self.set("purge_pending", True if busy else None)

    # Settings of the file

    def get(self, name: str) -> Any:
        """The value stored under `name`, or None. Raises StoreError where it is damaged."""
        value = self.scalar("SELECT value FROM meta WHERE name = ?", name)
        try:
            return None if value is None else json.loads(value)
        except ValueError as error:
            raise damaged(f"The value of {name!r} in the table meta of {self.path}") from error

    def set(self, name: str, value: Any) -> None:
        """Store a JSON-able value under `name`; None removes it."""
        with self.transaction():
            self.put(name, value)

    def put(self, name: str, value: Any) -> None:
        """Like `set`, within a transaction that is already open."""
        if value is None:
            self._database.execute("DELETE FROM meta WHERE name = ?", (name,))
        else:
            text = json.dumps(value, sort_keys=True)
            self._database.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (name, text))

    # Units of work

    def get_unit(self, unit: Unit[T], model: str) -> tuple[T, Usage] | None:
        """The stored result of a unit and what it cost, or None.

        A value that its type no longer accepts counts as missing, and is made anew.
        """
        found = self.rows(
            f"SELECT value, {_USAGE} FROM units LEFT JOIN unit_costs USING (key) WHERE key = ?",
            unit.key(model),
        )
        if not found:
            return None
        value, *usage = found[0]
        try:
            return adapter(unit.result).validate_json(value), Usage(*usage) if usage[0] is not None else Usage()
        except ValidationError:
            return None

    def put_unit(
        self, outcome: Outcome[Any], model: str, *, run: int, purpose: Purpose, documents: Mapping[str, str]
    ) -> bool:
        """Record what became of a unit, in one transaction with its place in the ledger.

        `documents` maps the ids of chunks to those of their documents. Returns False, with nothing stored but the
        ledger, when a document the unit has seen is no longer in the index.
        """
        unit, key = outcome.unit, outcome.unit.key(model)
        links = [(key, chunk, documents.get(chunk)) for chunk in dict.fromkeys(unit.chunks)]
        described = (key, unit.stage, unit.name, model, purpose)
        value = encoded(unit.result, outcome.value) if outcome.ok else ""
        try:
            with self.transaction() as database:
                self._spend(run, unit.stage, outcome.usage)
                database.execute("DELETE FROM failures WHERE key = ?", (key,))
                if outcome.ok:
                    database.execute("DELETE FROM units WHERE key = ?", (key,))
                    database.execute(
                        "INSERT INTO units (key, stage, name, model, purpose, value) VALUES (?, ?, ?, ?, ?, ?)",
                        (*described, value),
                    )
                    cost = (key, now(), *astuple(outcome.usage))
                    database.execute(f"INSERT INTO unit_costs VALUES (?, ?, {_SEVEN})", cost)
                    database.executemany("INSERT INTO unit_chunks VALUES (?, ?, ?)", links)
                else:
                    database.execute("INSERT INTO failures VALUES (?, ?, ?, ?, ?, ?)", (*described, outcome.error))
                    database.executemany("INSERT INTO failure_chunks VALUES (?, ?, ?)", links)
        except sqlite3.IntegrityError:
            with self.transaction():
                self._spend(run, unit.stage, outcome.usage)
            return False
        return True

    def keep_units(self, used: Used, model: str, documents: Mapping[str, str]) -> None:
        """Make this model's units that the index rests on exactly those `used`. Call within a transaction.

        Links move with the work: a unit made for a document that is gone, and used again for the same text in another,
        is kept for that one. Units of other models, and of questions, stay while their documents do. So do those that
        this run alone had no use for, as after an option that was meant for one run: they are `idle`, and forgotten
        when `IDLE_RUNS` runs have passed them by (`renew_idle`), so that the file does not grow with every change of a
        document.
        """
        database = self._database
        database.execute("CREATE TEMP TABLE used (key TEXT PRIMARY KEY, name TEXT) WITHOUT ROWID")
        database.executemany("INSERT INTO used VALUES (?, ?)", ((key, name) for key, (name, _) in used.items()))
        unused = "model = ? AND purpose = 'index' AND key NOT IN (SELECT key FROM used)"
        database.execute(f"DELETE FROM failures WHERE {unused}", (model,))
        database.execute(f"UPDATE units SET idle = idle + 1 WHERE {unused}", (model,))
        database.execute("DELETE FROM units WHERE idle > ?", (IDLE_RUNS,))
        database.execute("UPDATE units SET idle = 0 WHERE key IN (SELECT key FROM used)")
        for table in ("unit_chunks", "failure_chunks"):
            database.execute(f"DELETE FROM {table} WHERE key IN (SELECT key FROM used)")
        for owner, table in (("units", "unit_chunks"), ("failures", "failure_chunks")):
            database.execute(
                f"UPDATE {owner} SET purpose = 'index', name = (SELECT name FROM used WHERE used.key = {owner}.key) "
                "WHERE key IN (SELECT key FROM used)"
            )
            held = {key for (key,) in database.execute(f"SELECT key FROM {owner} WHERE key IN (SELECT key FROM used)")}
            links = ((key, c, documents[c]) for key in held for c in dict.fromkeys(used[key][1]))
            database.executemany(f"INSERT INTO {table} VALUES (?, ?, ?)", links)
        database.execute("DROP TABLE used")

    def renew_idle(self, keys: Collection[str]) -> None:
        """Count the runs that pass idle units by from the start again, as a question had use for them."""
        idle = {key for (key,) in self.rows("SELECT key FROM units WHERE idle > 1")}.intersection(keys)
        if idle:
            with self.transaction() as database:
                # Not 0: the index itself does not rest on them.
                database.executemany("UPDATE units SET idle = 1 WHERE key = ? AND idle > 1", ((key,) for key in idle))

    # Runs and the ledger

    def start_run(self, kind: str, model: str) -> int:
        """Open an entry for a run of "index" or "query"; its number."""
        with self.transaction() as database:
            values = (kind, model, now())
            run = database.execute("INSERT INTO runs (kind, model, started) VALUES (?, ?, ?)", values).lastrowid
        assert run is not None
        return run

    def finish_run(self, run: int) -> None:
        """Note that a run came to its end."""
        with self.transaction() as database:
            database.execute("UPDATE runs SET finished = ? WHERE id = ?", (now(), run))

    def spend(self, run: int, stage: str, usage: Usage) -> None:
        """Add to what a stage of a run has cost."""
        with self.transaction():
            self._spend(run, stage, usage)

    def _spend(self, run: int, stage: str, usage: Usage) -> None:
        nothing = (run, stage, *astuple(Usage()))
        self._database.execute(f"INSERT OR IGNORE INTO ledger VALUES (?, ?, {_SEVEN})", nothing)
        added = ", ".join(f"{name} = {name} + ?" for name in _USAGE.split(", "))
        self._database.execute(f"UPDATE ledger SET {added} WHERE run = ? AND stage = ?", (*astuple(usage), run, stage))

    def spent(self, kind: str | None = None) -> dict[str, Usage]:
        """Tokens, calls and seconds by stage, over all runs of a kind."""
        sums = ", ".join(f"sum({name})" for name in _USAGE.split(", "))
        found = self.rows(
            f"SELECT stage, {sums} FROM ledger JOIN runs ON runs.id = ledger.run "
            "WHERE ? IS NULL OR kind = ? GROUP BY stage ORDER BY min(run), stage",
            kind, kind,
        )  # fmt: skip
        return {stage: Usage(*usage) for stage, *usage in found}

    def index_cost(self) -> dict[str, Usage]:
        """What the units that this index rests on cost to make, by stage, whichever run made them."""
        sums = ", ".join(f"sum({name})" for name in _USAGE.split(", "))
        found = self.rows(
            f"SELECT stage, {sums} FROM units JOIN unit_costs USING (key) "
            "WHERE purpose = 'index' AND idle = 0 AND model = ? GROUP BY stage ORDER BY stage",
            self.get("model"),
        )
        return {stage: Usage(*usage) for stage, *usage in found}


def adapter(result: type[T]) -> TypeAdapter[T]:
    """Reads and writes a result type as JSON."""
    if result not in _adapters:
        _adapters[result] = TypeAdapter(result)
    return _adapters[result]


def encoded(result: type[T], value: T) -> str:
    """A value as JSON that reads back as the same value.

    Raises TypeError where it would not: such a result type cannot be stored.
    """
    try:
        text = adapter(result).dump_json(value, warnings="error").decode()
        back = adapter(result).validate_json(text)
    except (ValidationError, PydanticSerializationError) as error:
        raise TypeError(f"{value!r} is not a {result.__name__}: {error}") from error
    if back != value:
        raise TypeError(f"A {result.__name__} does not survive JSON: {value!r} came back as {back!r}")
    return text


def damaged(what: str) -> StoreError:
    """The error for something in the file that cannot be read."""
    return StoreError(
        f"{what} is damaged. `localgraphrag verify` tells what else is. "
        "Put back a copy of the file, or move it away and run `localgraphrag index` again."
    )


@contextmanager
def _explained(path: Path) -> Iterator[None]:
    """Turn SQLite's errors, and those of a full disk, into ours.

    Broken constraints pass: the caller knows what they mean.
    """
    try:
        yield
    except sqlite3.IntegrityError:
        raise
    except sqlite3.Error as error:
        raise _explain(error, path) from error
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            raise _full(error, path) from error
        raise


def _primary(error: sqlite3.Error) -> int:
    """SQLite's code of an error, without what the extended code adds."""
    return int(getattr(error, "sqlite_errorcode", 0)) & 0xFF


def _no_room(error: sqlite3.Error) -> bool:
    return getattr(error, "sqlite_errorcode", 0) in _NO_ROOM or _primary(error) == sqlite3.SQLITE_FULL


def _full(error: Exception, path: Path) -> StoreFullError:
    return StoreFullError(
        f"{path} cannot grow: the disk is full, or a limit on file size is reached ({error}). "
        "What was stored before is intact. Free some space and run the same command again: it goes on from there."
    )


def _explain(error: sqlite3.Error, path: Path) -> StoreError:
    if _no_room(error):
        return _full(error, path)
    primary = _primary(error)
    if primary in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return StoreLockedError(
            f"{path} was busy for {BUSY_SECONDS} s ({error}). Try again when the other process is done."
        )
    if primary in (sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT):
        return StoreError(
            f"{path} is damaged or not an index ({error}). Put back a copy, or move it away and run "
            "`localgraphrag index` again; `sqlite3 FILE .recover` saves what can be read."
        )
    return StoreError(f"{path} cannot be used: {error}. Check that the folder exists and can be written, and its disk.")
