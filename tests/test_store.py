import json
import os
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from hashlib import sha256
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from localgraphrag import schema, tables
from localgraphrag.chunks import Chunk
from localgraphrag.communities import detect_communities
from localgraphrag.documents import Document
from localgraphrag.errors import (
    NotFoundError,
    NotIndexedError,
    StoreError,
    StoreFullError,
    StoreLockedError,
    StoreVersionError,
)
from localgraphrag.extract import Claim, Entity, Extraction, Relationship
from localgraphrag.graph import build_graph
from localgraphrag.llm.types import Usage
from localgraphrag.llm.units import Conversation, Outcome, Unit
from localgraphrag.search.answer import Answer, Citation, Source
from localgraphrag.store import Store, encoded
from localgraphrag.summaries import Finding, Report

MODEL = "scripted:store"


@dataclass(frozen=True)
class Found:
    names: tuple[str, ...]
    score: float = 0.5


def never() -> Conversation[Found]:
    raise AssertionError("a stored unit must not be asked")
    yield


def unit(name: str, *chunks: str, text: str = "", stage: str = "extract") -> Unit[Found]:
    return Unit(stage, 1, name, (name, text), Found, never, chunks)


def document(path: str, text: str, title: str = "A title") -> Document:
    return Document(sha256(text.encode()).hexdigest(), title, text, (path,))


def chunks_of(document: Document) -> list[Chunk]:
    half = len(document.text) // 2
    spans = [(0, half + 2), (half, len(document.text))]
    return Chunk.row(document, [(f"t-{document.id[:8]}-{i}", s, e, e - s) for i, (s, e) in enumerate(spans)])


def index_of(*documents: Document) -> tables.Index:
    """A whole index, made by hand from what each document's words are."""
    chunks = [chunk for d in documents for chunk in chunks_of(d)]
    extractions = {}
    for chunk in chunks:
        names = list(dict.fromkeys(w for w in chunk.text.split() if w.istitle()))
        entities = tuple(Entity(n, "person", f"{n} is in {chunk.text}", chunk.text.find(n), -1) for n in names)
        links = tuple(Relationship(a, b, f"{a} knows {b}") for a, b in pairwise(names))
        claims = tuple(Claim(n, "", "fact", "true", "", "", f"{n} was here") for n in names[:1])
        extractions[chunk.id] = Extraction(chunk.id, entities, links, claims)
    graph = build_graph(chunks, extractions)
    hierarchy = detect_communities(graph, max_community_size=2)
    reports = {
        c.id: Report(
            c.id, "Title", "Summary", 7, "why", (Finding("f", "because", c.node_ids[:2]), Finding("g", "so", ())), True,
            "Text", tuple(dict.fromkeys(i for n in c.node_ids for i in graph.node(n).chunk_ids)),
        )
        for level in hierarchy.levels for c in level
    }  # fmt: skip
    return tables.Index(tuple(documents), tuple(chunks), graph, hierarchy, dict(sorted(reports.items())))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "project" / "index.db"


@pytest.fixture
def store(path: Path) -> Iterator[Store]:
    with Store(path, writer="index") as opened:
        yield opened


FIRST = document("b.txt", "Ada met Byron in Paris. Then Ada met Mary, and Mary met Byron again.")
SECOND = document("a.txt", "Zanzibar traded with Oman when Hamid reigned. Hamid left Zanzibar to Majid.")


def fill(
    store: Store, *documents: Document, used: dict[str, tuple[str, tuple[str, ...]]] | None = None
) -> tables.Index:
    index = index_of(*tables.in_order(documents))
    tables.add_documents(store, index.documents)
    tables.save_index(store, index, used=used or {}, model=MODEL, meta={"paths": ["x"]})
    return index


def put(store: Store, name: str, *chunks: str, documents: dict[str, str], purpose="index", error="", text="") -> str:
    outcome = Outcome(
        unit(name, *chunks, text=text), None if error else Found(("Ada",)), error, Usage(2, 30, 20, 10, 3, 1, 0.5)
    )
    store.put_unit(outcome, MODEL, run=store.start_run(purpose, MODEL), purpose=purpose, documents=documents)
    return outcome.unit.key(MODEL)


class TestOpening:
    def test_a_missing_index_is_said_to_be_missing_and_not_made(self, path: Path):
        with pytest.raises(NotIndexedError, match="localgraphrag index"):
            Store(path)
        assert not path.parent.exists()

    def test_pragmas(self, store: Store):
        for name, value in {
            "journal_mode": "wal",
            "secure_delete": 1,
            "foreign_keys": 1,
            "temp_store": 2,
            "user_version": len(schema.MIGRATIONS),
        }.items():
            assert store.scalar(f"PRAGMA {name}") == value, name

    def test_a_newer_file_is_refused_untouched(self, path: Path, store: Store):
        store.rows("PRAGMA user_version = 99")
        store.close()
        before = path.read_bytes()
        for writer in ("", "index"):
            with pytest.raises(StoreVersionError, match=r"version 99.*Upgrade"):
                Store(path, writer=writer)
        assert path.read_bytes() == before

    def test_an_older_file_is_migrated_and_keeps_its_rows(
        self, path: Path, store: Store, monkeypatch: pytest.MonkeyPatch
    ):
        store.set("kept", [1])
        store.close()
        monkeypatch.setattr(
            schema, "MIGRATIONS", [*schema.MIGRATIONS, lambda db: db.execute("ALTER TABLE runs ADD note TEXT")]
        )
        with Store(path) as migrated:
            assert migrated.scalar("PRAGMA user_version") == len(schema.MIGRATIONS)
            assert migrated.get("kept") == [1]
            assert migrated.rows("SELECT note FROM runs") == []

    def test_a_file_of_version_1_keeps_its_work(self, path: Path, monkeypatch: pytest.MonkeyPatch):
        path.parent.mkdir()
        old = sqlite3.connect(path)
        schema.MIGRATIONS[0](old)
        asked = unit("one")
        value = encoded(Found, Found(("Ada",)))
        old.execute("INSERT INTO units VALUES (?, 'extract', 'one', ?, 'index', ?)", (asked.key(MODEL), MODEL, value))
        old.execute(f"PRAGMA application_id = {schema.APPLICATION_ID}")
        old.execute("PRAGMA user_version = 1")
        old.commit()
        old.close()
        with Store(path) as migrated:
            assert migrated.get_unit(asked, MODEL) == (Found(("Ada",)), Usage())
            assert migrated.rows("SELECT idle FROM units") == [(0,)]

    def test_a_migration_that_fails_changes_nothing(self, path: Path, store: Store, monkeypatch: pytest.MonkeyPatch):
        store.close()

        def half(db: sqlite3.Connection) -> None:
            db.execute("CREATE TABLE half (x)")
            raise sqlite3.OperationalError("lights went out")

        with monkeypatch.context() as patched:
            patched.setattr(schema, "MIGRATIONS", [*schema.MIGRATIONS, half])
            with pytest.raises(StoreError):
                Store(path, writer="index")
        with Store(path) as again:
            assert again.scalar("PRAGMA user_version") == len(schema.MIGRATIONS)
            assert again.scalar("SELECT count(*) FROM sqlite_master WHERE name = 'half'") == 0

    def test_what_is_no_database_is_refused_with_a_remedy(self, path: Path):
        path.parent.mkdir()
        path.write_bytes(b"This is a letter, and not a database. " * 100)
        with pytest.raises(StoreError, match="move it away"):
            Store(path, writer="index")

    def test_a_damaged_file_is_refused_with_a_remedy(self, path: Path, store: Store):
        fill(store, FIRST)
        store.close()
        data = bytearray(path.read_bytes())
        data[4096:] = b"\xff" * (len(data) - 4096)
        path.write_bytes(data)
        with pytest.raises(StoreError, match="damaged"), Store(path) as broken:
            tables.load_index(broken)

    def test_another_programs_database_is_refused(self, path: Path):
        path.parent.mkdir()
        other = sqlite3.connect(path)
        other.execute("CREATE TABLE bookmarks (url)")
        other.close()
        with pytest.raises(StoreError, match="another program"):
            Store(path, writer="index")


class TestLock:
    def test_a_second_writer_is_refused_at_once_and_told_by_whom(self, path: Path, store: Store):
        with pytest.raises(StoreLockedError, match=rf"process {os.getpid()} \(index, since 2"):
            Store(path, writer="index")

    def test_the_lock_is_free_after_close(self, path: Path, store: Store):
        store.close()
        store.close()
        Store(path, writer="index").close()

    def test_the_lock_is_free_after_kill_9(self, path: Path):
        held = (
            "import sys, pathlib; from localgraphrag.store import Store\n"
            "s = Store(pathlib.Path(sys.argv[1]), writer='index'); print('held', flush=True); sys.stdin.read()"
        )
        process = subprocess.Popen([sys.executable, "-c", held, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert process.stdout is not None
        assert process.stdout.readline().strip() == b"held"
        with pytest.raises(StoreLockedError, match=f"process {process.pid} "):
            Store(path, writer="index")
        process.kill()
        process.communicate()
        Store(path, writer="index").close()

    def test_readers_are_welcome_and_see_the_last_whole_state(self, path: Path, store: Store):
        before = fill(store, FIRST)
        with Store(path) as reader, store.transaction() as database:
            database.execute("DELETE FROM nodes")
            assert tables.load_index(reader) == before

    def test_a_snapshot_is_one_state_throughout(self, path: Path, store: Store):
        fill(store, FIRST)
        with Store(path) as reader:
            with reader.snapshot():
                count = reader.scalar("SELECT count(*) FROM nodes")
                fill(store, FIRST, SECOND)
                assert reader.scalar("SELECT count(*) FROM nodes") == count
            assert reader.scalar("SELECT count(*) FROM nodes") > count

    def test_a_folder_that_cannot_be_written_can_be_read(
        self, path: Path, store: Store, monkeypatch: pytest.MonkeyPatch
    ):
        index = fill(store, FIRST)
        store.close()
        access = os.access
        monkeypatch.setattr(os, "access", lambda p, mode: mode != os.W_OK and access(p, mode))
        with Store(path) as reader:
            assert tables.load_index(reader) == index
        assert sorted(p.name for p in path.parent.iterdir()) == ["index.db", "index.db.lock"]

    def test_an_older_file_that_cannot_be_written_can_be_read(
        self, path: Path, store: Store, monkeypatch: pytest.MonkeyPatch
    ):
        index = fill(store, FIRST)
        store.close()
        old = sqlite3.connect(path)
        old.execute("ALTER TABLE units DROP COLUMN idle")
        old.execute("PRAGMA user_version = 1")
        old.close()
        before, access = path.read_bytes(), os.access
        monkeypatch.setattr(os, "access", lambda p, mode: mode != os.W_OK and access(p, mode))
        with Store(path) as reader:
            assert tables.load_index(reader) == index
            assert reader.scalar("SELECT count(idle) FROM units") == reader.scalar("SELECT count(*) FROM units")
            with pytest.raises(StoreError, match="readonly"):
                reader.set("note", "would be lost")
        assert path.read_bytes() == before


class TestUnits:
    def test_a_unit_comes_back_as_the_value_it_was(self, store: Store):
        index = fill(store, FIRST)
        chunk = index.chunks[0].id
        put(store, "one", chunk, documents={chunk: FIRST.id})
        assert store.get_unit(unit("one", chunk), MODEL) == (Found(("Ada",)), Usage(2, 30, 20, 10, 3, 1, 0.5))
        assert store.get_unit(unit("one", chunk), "another model") is None
        assert store.get_unit(unit("two", chunk), MODEL) is None

    def test_a_value_that_does_not_survive_json_is_a_bug_and_not_stored(self, store: Store):
        for wrong in (Found(("Ada",), float("nan")), "no Found at all"):
            outcome = Outcome(unit("nan"), wrong)
            with pytest.raises(TypeError):
                store.put_unit(outcome, MODEL, run=store.start_run("index", MODEL), purpose="index", documents={})
        assert store.rows("SELECT * FROM units") == []

    def test_a_value_its_type_no_longer_takes_counts_as_missing(self, store: Store):
        put(store, "one", documents={})
        with store.transaction() as database:
            database.execute("UPDATE units SET value = '{}'")
        assert store.get_unit(unit("one"), MODEL) is None

    def test_a_failure_is_counted_and_gives_way_to_success(self, store: Store):
        index = fill(store, FIRST)
        chunk = index.chunks[0].id
        put(store, "one", chunk, documents={chunk: FIRST.id}, error="no room")
        assert store.rows("SELECT stage, name, reason FROM failures") == [("extract", "one", "no room")]
        assert store.get_unit(unit("one"), MODEL) is None
        put(store, "one", chunk, documents={chunk: FIRST.id})
        assert store.rows("SELECT * FROM failures") == []
        assert store.rows("SELECT * FROM failure_chunks") == []

    def test_ledger_counts_every_call_by_run_and_stage_also_of_failures(self, store: Store):
        run = store.start_run("index", MODEL)
        for name, error in (("one", ""), ("two", "broken"), ("two", "")):
            outcome = Outcome(unit(name), None if error else Found(()), error, Usage(1, 10, 9, 8, 7, 6, 0.25))
            store.put_unit(outcome, MODEL, run=run, purpose="index", documents={})
        assert store.spent() == store.spent("index") == {"extract": Usage(3, 30, 27, 24, 21, 18, 0.75)}
        assert store.spent("query") == {}
        store.set("model", MODEL)
        assert store.index_cost() == {"extract": Usage(2, 20, 18, 16, 14, 12, 0.5)}

    def test_work_on_a_document_that_is_gone_is_not_stored_but_paid_for(self, store: Store):
        put(store, "one", "t-gone", documents={})
        assert store.rows("SELECT * FROM units") == []
        assert store.spent()["extract"].calls == 2

    def test_unused_units_are_idle_and_links_follow_the_text(self, store: Store):
        old, new = (
            document("a.txt", "Same words here. And old ones there."),
            document("a.txt", "Same words here. And new ones there."),
        )
        before, after = chunks_of(old), chunks_of(new)
        documents = {c.id: c.document_id for c in (*before, *after)}
        tables.add_documents(store, [old, new])
        shared = put(store, before[0].id, before[0].id, documents=documents, text="shared")
        put(store, before[1].id, before[1].id, documents=documents)
        other = Outcome(unit("other", before[0].id), Found(()))
        store.put_unit(other, "other model", run=store.start_run("index", MODEL), purpose="index", documents=documents)
        kept = Outcome(unit("kept", after[0].id), Found(()))
        store.put_unit(kept, "other model", run=store.start_run("index", MODEL), purpose="index", documents=documents)
        asked = put(store, "asked", after[1].id, documents=documents, purpose="query")
        unused = put(store, "unused", after[1].id, documents=documents)
        fill(store, new, used={shared: (after[0].id, (after[0].id,))})
        assert set(store.rows("SELECT key, name, idle FROM units")) == {
            (shared, after[0].id, 0), (kept.unit.key("other model"), "kept", 0), (asked, "asked", 0),
            (unused, "unused", 1),
        }  # fmt: skip
        assert store.rows("SELECT chunk_id, document_id FROM unit_chunks WHERE key = ?", shared) == [
            (after[0].id, new.id)
        ]


class TestTables:
    @pytest.mark.parametrize("documents", [(), (FIRST,), (FIRST, SECOND)])
    def test_the_index_comes_back_as_it_was(self, store: Store, documents: tuple[Document, ...]):
        index = fill(store, *documents)
        assert tables.load_index(store) == index

    def test_plain_sql_reads_a_chunks_text(self, store: Store):
        index = fill(store, FIRST, document("c.txt", "Χρόνος 時間 and Ada 🙂 met Émile in the évening"))
        assert dict(store.rows("SELECT id, text FROM chunk_texts")) == {c.id: c.text for c in index.chunks}

    def test_rows_of_a_table_stay_in_their_order(self):
        rows = [replace(document(f"t.csv#{n}", f"text {n}"), sources=(f"t.csv#{n}",)) for n in (10, 9, 1)]
        assert [d.sources[0] for d in tables.in_order(rows)] == ["t.csv#1", "t.csv#9", "t.csv#10"]

    def test_vectors_come_back_and_stay_with_chunks_that_stay(self, store: Store):
        index = fill(store, FIRST, SECOND)
        ids = [c.id for c in index.chunks]
        matrix = np.random.default_rng(0).standard_normal((len(ids), 3)).astype(np.float32)
        tables.save_vectors(store, "embedder", ids, matrix)
        fill(store, FIRST)
        found = tables.load_vectors(store, "embedder")
        assert set(found) == {c.id for c in chunks_of(FIRST)}
        for id_, vector in found.items():
            np.testing.assert_array_equal(vector, matrix[ids.index(id_)])
        assert tables.load_vectors(store, "another") == {}

    def test_reports_written_later_are_added_and_others_stay(self, store: Store):
        index = fill(store, FIRST)
        one, *others = index.reports.values()
        with store.transaction() as database:
            database.execute("DELETE FROM reports WHERE community_id = ?", (one.community_id,))
        changed = {r.community_id: replace(r, title="Another") for r in others}
        tables.save_reports(store, {one.community_id: one, **changed})
        assert tables.load_reports(store) == index.reports

    def test_an_answer_comes_back_and_the_same_question_replaces_it(self, store: Store):
        index = fill(store, FIRST)
        chunk = index.chunks[0]
        citation = Citation(1, "report", "c-1", "t", ("e-1",), (Source(chunk.id, FIRST.id, 0, 3),))
        answer = Answer("Who?", "global", 0, "Ada [1].", (citation,), Usage(1), {"seed": 0, "batches": [1]})

        def save(answer: Answer, *chunks: str) -> str:
            id_ = tables.answer_id(index.state, answer)
            kept = replace(answer, record={**answer.record, "id": id_})
            tables.save_answer(store, kept, index.state, chunks)
            assert tables.load_answer(store, id_) == kept
            return id_

        first = save(answer, chunk.id)
        assert save(replace(answer, text="Byron."), chunk.id) == first
        assert save(replace(answer, level=1), chunk.id) != first
        with pytest.raises(sqlite3.IntegrityError):
            save(replace(answer, level=2), "t-gone")
        with pytest.raises(NotFoundError, match=first):
            tables.load_answer(store, "a-nothing")


def everything(store: Store) -> dict[str, int]:
    return {
        t: store.scalar(f"SELECT count(*) FROM {t}")
        for (t,) in store.rows("SELECT name FROM sqlite_master WHERE type = 'table'")
    }


class TestForgetting:
    SECRET = "Xylophonist"

    def fill(self, store: Store) -> Document:
        secret = document(
            "s.txt", f"The {self.SECRET} Quentin met Ada once. {self.SECRET} Quentin is the culprit, said Rosa."
        )
        index = fill(store, FIRST, secret)
        chunk = next(c.id for c in index.chunks if c.document_id == secret.id)
        documents = {c.id: c.document_id for c in index.chunks}
        outcome = Outcome(unit("one", chunk, text=self.SECRET), Found((self.SECRET,)))
        store.put_unit(outcome, MODEL, run=store.start_run("index", MODEL), purpose="query", documents=documents)
        store.put_unit(
            Outcome(unit("bad", chunk), None, f"{self.SECRET} was too long"),
            MODEL,
            run=1,
            purpose="index",
            documents=documents,
        )
        tables.save_answer(store, Answer("Who?", "ts", None, self.SECRET, (), Usage(), {"id": "a-1"}), "", [chunk])
        tables.save_vectors(store, "embedder", [chunk], np.ones((1, 2), np.float32))
        return secret

    def bytes_with_secret(self, path: Path) -> list[str]:
        return [p.name for p in path.parent.iterdir() if self.SECRET.lower().encode() in p.read_bytes().lower()]

    def test_an_index_without_the_document_has_no_trace_of_it_in_any_byte(self, store: Store, path: Path):
        self.fill(store)
        assert self.bytes_with_secret(path)
        fill(store, FIRST)
        assert self.bytes_with_secret(path) == []
        assert (path.parent / "index.db-wal").exists()
        assert everything(store)["answers"] == 0
        store.close()
        assert self.bytes_with_secret(path) == []

    def test_a_reader_of_the_old_state_delays_it_to_the_next_writer(self, store: Store, path: Path):
        self.fill(store)
        with Store(path) as reader, reader.snapshot():
            tables.load_graph(reader)
            fill(store, FIRST)
            assert store.get("purge_pending")
            store.close()
        with Store(path, writer="index") as again:
            assert self.bytes_with_secret(path) == []
            assert again.get("purge_pending") is None

    def test_deleting_the_row_in_any_sqlite_tool_takes_all_that_saw_it(self, store: Store, path: Path):
        secret = self.fill(store)
        store.close()
        tool = sqlite3.connect(path)
        tool.executescript("PRAGMA foreign_keys = ON; PRAGMA secure_delete = ON")
        with tool:
            tool.execute("DELETE FROM documents WHERE id = ?", (secret.id,))
        assert tool.execute("PRAGMA foreign_key_check").fetchall() == []
        tool.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        tool.close()
        assert self.bytes_with_secret(path) == []
        with Store(path) as rest:
            counts = everything(rest)
            assert counts["units"] == counts["failures"] == counts["answers"] == counts["vectors"] == 0
            assert counts["nodes"] > 0

    def test_saving_is_all_or_nothing(self, store: Store):
        before = fill(store, FIRST)
        after = index_of(SECOND)
        broken = replace(after, reports={"c-none": replace(next(iter(after.reports.values())), community_id="c-none")})
        with pytest.raises(sqlite3.IntegrityError):
            tables.save_index(store, broken, used={}, model=MODEL, meta={})
        assert tables.load_index(store) == before


class TestFullDisk:
    def test_error_is_clear_nothing_is_lost_and_work_goes_on_once_there_is_room(self, store: Store, path: Path):
        before = fill(store, FIRST)
        put(store, "kept", documents={})
        store.rows(f"PRAGMA max_page_count = {store.scalar('PRAGMA page_count') + 2}")
        big = document("big.txt", "Ada saw Byron. " * 20000)
        with pytest.raises(StoreFullError, match="goes on from there"):
            tables.add_documents(store, [big])
        assert tables.load_index(store) == before
        with Store(path) as reader:
            assert reader.get_unit(unit("kept"), MODEL) is not None
        store.rows("PRAGMA max_page_count = 1000000")
        tables.add_documents(store, [big])

    def test_a_limit_on_file_size_is_told_the_same_way(self, path: Path):
        pytest.importorskip("resource")
        script = (
            "import pathlib, resource, sys\n"
            "from localgraphrag import tables; from localgraphrag.documents import Document\n"
            "from localgraphrag.errors import StoreFullError; from localgraphrag.store import Store\n"
            "store = Store(pathlib.Path(sys.argv[1]), writer='index'); store.set('kept', 1)\n"
            "resource.setrlimit(resource.RLIMIT_FSIZE, (600_000, 600_000))\n"
            "try: tables.add_documents(store, [Document('d', 't', 'x' * 2_000_000, ('p',))])\n"
            "except StoreFullError as error: print(error)\n"
            "assert store.get('kept') == 1"
        )
        done = subprocess.run([sys.executable, "-c", script, path], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        assert "disk is full" in done.stdout
        with Store(path) as reader:
            assert reader.get("kept") == 1
            assert reader.rows("SELECT * FROM documents") == []

    @pytest.mark.parametrize("limit", [10, 1000])
    def test_where_nothing_can_be_written_it_can_still_be_read_and_a_writer_is_told(self, path: Path, limit: int):
        pytest.importorskip("resource")
        with Store(path, writer="index") as store:
            store.set("kept", 1)
        script = (
            "import pathlib, resource, sys\n"
            "from localgraphrag.errors import StoreFullError; from localgraphrag.store import Store\n"
            "path, limit = pathlib.Path(sys.argv[1]), int(sys.argv[2])\n"
            "resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))\n"
            "with Store(path) as store: assert store.get('kept') == 1\n"
            "try: Store(path, writer='index').set('kept', 2)\n"
            "except StoreFullError as error: print(error)"
        )
        command = [sys.executable, "-c", script, str(path), str(limit)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        assert "disk is full" in done.stdout
        with Store(path, writer="index") as store:
            assert store.get("kept") == 1


def test_meta_holds_json_and_forgets_none(store: Store):
    store.set("x", {"b": [1, None], "a": "é"})
    assert store.get("x") == json.loads(json.dumps({"b": [1, None], "a": "é"}))
    store.set("x", None)
    assert store.get("x") is None
