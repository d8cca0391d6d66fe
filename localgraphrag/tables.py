"""Rows of the index file to the dataclasses of the stages, and back."""

# ruff: noqa: S608  only constant names of tables and columns are put into SQL; every value is bound

from __future__ import annotations

import sqlite3
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from localgraphrag import schema
from localgraphrag.chunks import Chunk
from localgraphrag.communities import Community, Hierarchy
from localgraphrag.documents import Document
from localgraphrag.errors import NotFoundError
from localgraphrag.graph import Edge, Graph, GraphClaim, Mention, Node, Sourced
from localgraphrag.llm.units import content_hash
from localgraphrag.search.answer import Answer
from localgraphrag.store import Store, Used, adapter, damaged, now
from localgraphrag.summaries import Finding, Report

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True)
class Index:
    """All that is derived from the documents and shown to readers as one state."""

    documents: tuple[Document, ...]
    chunks: tuple[Chunk, ...]
    graph: Graph
    hierarchy: Hierarchy
    reports: dict[str, Report]

    @property
    def state(self) -> str:
        """A hash that changes when ids that an answer can cite change."""
        levels = (c.id for level in self.hierarchy.levels for c in level)
        return content_hash(*(chunk.id for chunk in self.chunks), *levels)


def in_order(documents: Iterable[Document]) -> tuple[Document, ...]:
    """Documents in the order of the index: by first source, rows of a table by their number."""
    return tuple(sorted(documents, key=lambda document: (_place(document.sources[0]), document.id)))


def _place(source: str) -> tuple[str, int]:
    path, _, row = source.rpartition("#")
    return (path, int(row)) if row.isdecimal() else (source, 0)


# Documents and chunks


def add_documents(store: Store, documents: Iterable[Document]) -> None:
    """Store the texts of documents that are new, so that work on them has something to hang on.

    They count as indexed only once they have sources, which `save_index` gives them.
    """
    with store.transaction() as database:
        rows = ((d.id, d.title, d.text) for d in documents)
        database.executemany("INSERT INTO documents VALUES (?, ?, ?) ON CONFLICT DO NOTHING", rows)


def load_documents(store: Store) -> tuple[Document, ...]:
    """All indexed documents."""
    with store.snapshot():
        sources = _grouped(store.rows("SELECT document_id, path FROM sources ORDER BY document_id, ordinal"))
        rows = store.rows("SELECT id, title, text FROM documents")
    known = (row for row in rows if row[0] in sources)
    return in_order(Document(id_, title, text, tuple(p for (p,) in sources[id_])) for id_, title, text in known)


def load_chunks(store: Store) -> tuple[Chunk, ...]:
    """All chunks, in document and chunk order."""
    with store.snapshot():
        documents = load_documents(store)
        rows = _grouped(store.rows("SELECT document_id, id, start, stop, tokens FROM chunks ORDER BY ordinal"))
    return tuple(chunk for document in documents for chunk in Chunk.row(document, rows[document.id]))


def chunk_documents(store: Store) -> dict[str, str]:
    """The document id of each chunk id."""
    return dict(store.rows("SELECT id, document_id FROM chunks"))


# One state of the index


def save_index(store: Store, index: Index, *, used: Used, model: str, meta: Mapping[str, Any]) -> None:
    """Make `index` the state that readers see, in one transaction; forget whatever is no longer in it.

    Documents that are gone take with them every unit, failure and answer that has seen them, and their text leaves the
    bytes of the file.
    """
    with store.transaction() as database:
        for table in schema.DERIVED:
            database.execute(f"DELETE FROM {table}")
        store.keep_units(used, model, {chunk.id: chunk.document_id for chunk in index.chunks})
        _forget_all_but(database, "documents", [document.id for document in index.documents])
        _save_documents(database, index.documents)
        _save_chunks(database, index.chunks)
        _save_graph(database, index.graph)
        _save_hierarchy(database, index.hierarchy)
        _save_reports(database, index.reports.values())
        for name, value in {**meta, "model": model, "state": index.state}.items():
            store.put(name, value)
    store.scrub()


def _forget_all_but(database: sqlite3.Connection, table: str, ids: Collection[str]) -> None:
    kept = set(ids)
    gone = [(id_,) for (id_,) in database.execute(f"SELECT id FROM {table}") if id_ not in kept]
    database.executemany(f"DELETE FROM {table} WHERE id = ?", gone)


def _save_documents(database: sqlite3.Connection, documents: Sequence[Document]) -> None:
    rows = ((d.id, d.title, d.text) for d in documents)
    _insert(database, "documents", rows, "ON CONFLICT (id) DO UPDATE SET title = excluded.title")
    database.execute("DELETE FROM sources")
    _insert(database, "sources", ((d.id, i, path) for d in documents for i, path in enumerate(d.sources)))


def _save_chunks(database: sqlite3.Connection, chunks: Sequence[Chunk]) -> None:
    """Replace the chunks, leaving those that stay in place: their vectors hang on them."""
    _forget_all_but(database, "chunks", [chunk.id for chunk in chunks])
    database.execute("UPDATE chunks SET ordinal = -1 - ordinal")  # out of the way: a place may go to another chunk
    _insert(
        database, "chunks", ((c.id, c.document_id, c.ordinal, c.start, c.end, c.tokens) for c in chunks),
        "ON CONFLICT (id) DO UPDATE SET ordinal = excluded.ordinal, tokens = excluded.tokens",
    )  # fmt: skip


def _save_graph(database: sqlite3.Connection, graph: Graph) -> None:
    _insert(database, "nodes", ((n.id, n.key, n.name, n.type, n.degree, n.summary) for n in graph.nodes))
    mentions = ((n.id, i, m.chunk_id, m.start, m.end) for n in graph.nodes for i, m in enumerate(n.mentions))
    _insert(database, "node_mentions", mentions)
    _insert(database, "edges", ((e.id, e.source, e.target, e.weight, e.summary) for e in graph.edges))
    things: tuple[tuple[str, Sequence[Node | Edge]], ...] = (("node", graph.nodes), ("edge", graph.edges))
    for kind, items in things:
        descriptions = ((x.id, i, d.text, d.chunk_id) for x in items for i, d in enumerate(x.descriptions))
        _insert(database, f"{kind}_descriptions", descriptions)
        _insert(database, f"{kind}_chunks", ((x.id, i, chunk) for x in items for i, chunk in enumerate(x.chunk_ids)))
    claims = (
        (c.id, c.subject, c.object or None, c.type, c.status, c.start_date, c.end_date, c.description, c.chunk_id)
        for c in graph.claims
    )
    _insert(database, "claims", claims)


def _save_hierarchy(database: sqlite3.Connection, hierarchy: Hierarchy) -> None:
    # A community that is carried down undivided is one community on several levels.
    communities = {community.id: community for level in hierarchy.levels for community in level}.values()
    _insert(database, "communities", ((c.id, len(c.node_ids)) for c in communities))
    _insert(database, "community_nodes", ((c.id, i, n) for c in communities for i, n in enumerate(c.node_ids)))
    levels = ((k, i, c.id, c.parent or None) for k, level in enumerate(hierarchy.levels) for i, c in enumerate(level))
    _insert(database, "community_levels", levels)


def save_reports(store: Store, reports: Mapping[str, Report]) -> None:
    """Add reports written for a question at a level that had none; those already there stay."""
    with store.transaction() as database:
        known = {id_ for (id_,) in database.execute("SELECT community_id FROM reports")}
        _save_reports(database, [report for id_, report in reports.items() if id_ not in known])


def _save_reports(database: sqlite3.Connection, reports: Collection[Report]) -> None:
    _insert(
        database, "reports",
        ((r.community_id, r.title, r.summary, r.rating, r.rating_reason, int(r.written), r.text) for r in reports),
    )  # fmt: skip
    findings = [(r.community_id, i, f) for r in reports for i, f in enumerate(r.findings)]
    _insert(database, "findings", ((id_, i, f.summary, f.explanation) for id_, i, f in findings))
    records = ((id_, i, j, record) for id_, i, f in findings for j, record in enumerate(f.records))
    _insert(database, "finding_records", records)
    chunks = ((r.community_id, i, chunk) for r in reports for i, chunk in enumerate(r.chunk_ids))
    _insert(database, "report_chunks", chunks)


def load_index(store: Store) -> Index:
    """The state of the index, read as one."""
    with store.snapshot():
        documents, chunks = load_documents(store), load_chunks(store)
        return Index(documents, chunks, load_graph(store), load_hierarchy(store), load_reports(store))


def load_graph(store: Store) -> Graph:
    """The graph, as it was built."""
    with store.snapshot():
        described = {}
        for kind in ("node", "edge"):
            rows = store.rows(f"SELECT {kind}_id, text, chunk_id FROM {kind}_descriptions ORDER BY {kind}_id, ordinal")
            described[kind] = _grouped(rows)
        mentions = _grouped(
            store.rows("SELECT node_id, chunk_id, start, stop FROM node_mentions ORDER BY node_id, ordinal")
        )
        node_chunks = _grouped(store.rows("SELECT node_id, chunk_id FROM node_chunks ORDER BY node_id, ordinal"))
        edge_chunks = _grouped(store.rows("SELECT edge_id, chunk_id FROM edge_chunks ORDER BY edge_id, ordinal"))
        nodes = store.rows("SELECT id, key, name, type, degree, summary FROM nodes ORDER BY id")
        edges = store.rows("SELECT id, source, target, weight, summary FROM edges ORDER BY id")
        claims = store.rows(
            "SELECT id, subject, coalesce(object, ''), type, status, start_date, end_date, description, chunk_id "
            "FROM claims ORDER BY id"
        )
    return Graph(
        tuple(
            Node(
                id_, key, name, type_,
                tuple(Sourced(*d) for d in described["node"][id_]),
                tuple(Mention(*m) for m in mentions[id_]),
                tuple(c for (c,) in node_chunks[id_]),
                degree, summary,
            )
            for id_, key, name, type_, degree, summary in nodes
        ),
        tuple(
            Edge(
                id_, source, target, weight,
                tuple(Sourced(*d) for d in described["edge"][id_]),
                tuple(c for (c,) in edge_chunks[id_]),
                summary,
            )
            for id_, source, target, weight, summary in edges
        ),
        tuple(GraphClaim(*claim) for claim in claims),
    )  # fmt: skip


def load_hierarchy(store: Store) -> Hierarchy:
    """The communities of every level."""
    with store.snapshot():
        nodes = _grouped(store.rows("SELECT community_id, node_id FROM community_nodes ORDER BY community_id, ordinal"))
        rows = store.rows(
            "SELECT level, community_id, coalesce(parent_id, '') FROM community_levels ORDER BY level, rank"
        )
    children: dict[tuple[int, str], list[str]] = defaultdict(list)
    for level, id_, parent in rows:
        children[level - 1, parent].append(id_)
    levels: dict[int, list[Community]] = defaultdict(list)
    for level, id_, parent in rows:
        members = tuple(n for (n,) in nodes[id_])
        levels[level].append(Community(id_, level, parent, tuple(children[level, id_]), members))
    return Hierarchy(tuple(tuple(levels[k]) for k in sorted(levels)))


def load_reports(store: Store) -> dict[str, Report]:
    """The reports by community id, in the order of the ids."""
    with store.snapshot():
        records = _grouped(
            ((id_, i), record)
            for id_, i, record in store.rows(
                "SELECT community_id, finding, record_id FROM finding_records ORDER BY community_id, finding, ordinal"
            )
        )
        findings = _grouped(
            store.rows(
                "SELECT community_id, ordinal, summary, explanation FROM findings ORDER BY community_id, ordinal"
            )
        )
        chunks = _grouped(store.rows("SELECT community_id, chunk_id FROM report_chunks ORDER BY community_id, ordinal"))
        rows = store.rows(
            "SELECT community_id, title, summary, rating, rating_reason, written, text FROM reports "
            "ORDER BY community_id"
        )
    return {
        id_: Report(
            id_, title, summary, rating, reason,
            tuple(Finding(head, body, tuple(r for (r,) in records[id_, i])) for i, head, body in findings[id_]),
            bool(written), shown, tuple(c for (c,) in chunks[id_]),
        )
        for id_, title, summary, rating, reason, written, shown in rows
    }  # fmt: skip


# Vectors


def save_vectors(store: Store, model: str, chunk_ids: Sequence[str], vectors: NDArray[np.float32]) -> None:
    """Store one float32 vector per chunk, shape (n, d)."""
    with store.transaction() as database:
        rows = ((id_, model, vector.astype("<f4").tobytes()) for id_, vector in zip(chunk_ids, vectors, strict=True))
        _insert(database, "vectors", rows, "ON CONFLICT DO UPDATE SET vector = excluded.vector")


def load_vectors(store: Store, model: str) -> dict[str, NDArray[np.float32]]:
    """The vector of each chunk that has one under this embedder, shape (d,). Raises StoreError where one is damaged."""
    import numpy as np

    rows = store.rows("SELECT chunk_id, vector FROM vectors WHERE model = ? ORDER BY chunk_id", model)
    for id_, blob in rows:
        if not isinstance(blob, bytes) or len(blob) % 4:
            raise damaged(f"The vector of chunk {id_}")
    return {id_: np.frombuffer(blob, dtype="<f4") for id_, blob in rows}


# Answers


def answer_id(state: str, answer: Answer) -> str:
    """The id of an answer to a question asked of one state of the index: the same whenever the same is asked."""
    told = (str(answer.record.get(name)) for name in ("seed", "model", "embedder", "budgets"))
    return "a-" + content_hash(state, answer.question, answer.method, str(answer.level), *told)[:12]


def save_answer(store: Store, answer: Answer, state: str, chunk_ids: Iterable[str]) -> None:
    """Record an answer under `record["id"]`, with the chunks it has seen and the state of the index it was asked of.

    Raises sqlite3.IntegrityError when a document it has seen is no longer in the index.
    """
    documents = chunk_documents(store)
    id_ = answer.record["id"]
    text = adapter(Answer).dump_json(answer).decode()
    with store.transaction() as database:
        database.execute("DELETE FROM answers WHERE id = ?", (id_,))
        _insert(database, "answers", [(id_, now(), answer.question, answer.method, answer.level, state, text)])
        seen = ((id_, chunk, documents.get(chunk)) for chunk in dict.fromkeys(chunk_ids))
        _insert(database, "answer_chunks", seen)


def load_answer(store: Store, id_: str) -> Answer:
    """A recorded answer. Raises NotFoundError; StoreError where it is damaged."""
    found = store.scalar("SELECT answer FROM answers WHERE id = ?", id_)
    if found is None:
        known = [i for (i,) in store.rows("SELECT id FROM answers ORDER BY asked DESC, id LIMIT 5")]
        raise NotFoundError(f"There is no answer '{id_}'. The latest: {', '.join(known) or 'none'}.")
    try:
        answer: Answer = adapter(Answer).validate_json(found)
    except ValidationError as error:
        raise damaged(f"The answer {id_}") from error
    return answer


def _insert(database: sqlite3.Connection, table: str, rows: Iterable[Sequence[Any]], conflict: str = "") -> None:
    width = len(database.execute(f"PRAGMA table_info({table})").fetchall())
    marks = ", ".join("?" * width)
    database.executemany(f"INSERT INTO {table} VALUES ({marks}) {conflict}", rows)


def _grouped(rows: Iterable[tuple[Any, ...]]) -> defaultdict[Any, list[tuple[Any, ...]]]:
    """Rows by their first column, without it."""
    groups: defaultdict[Any, list[tuple[Any, ...]]] = defaultdict(list)
    for first, *rest in rows:
        groups[first].append(tuple(rest))
    return groups
