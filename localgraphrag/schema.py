"""The tables of `index.db`, and how files of older versions become files of this one.

Three kinds of rows share the file. *Sources*: documents. *Work*: units, failures, answers, vectors and the ledger,
kept one transaction at a time. *Derived*: chunks, graph, hierarchy and reports, replaced together in one transaction,
so that a reader sees one index or the next and never half of each.

Every row that holds or has seen a document's text hangs on `documents`: deleting that one row deletes them all.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable

APPLICATION_ID = 0x4C475247
"""Marks the file as ours ("LGRG"), for `file(1)` and against opening another program's database."""

_VERSION_1 = """
CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;

CREATE TABLE documents (id TEXT PRIMARY KEY, title TEXT NOT NULL, text TEXT NOT NULL);
CREATE TABLE sources (
    document_id TEXT NOT NULL REFERENCES documents ON DELETE CASCADE, ordinal INTEGER NOT NULL, path TEXT NOT NULL,
    PRIMARY KEY (document_id, ordinal)) WITHOUT ROWID;
CREATE TABLE chunks (
    id TEXT PRIMARY KEY, document_id TEXT NOT NULL REFERENCES documents ON DELETE CASCADE,
    ordinal INTEGER NOT NULL, start INTEGER NOT NULL, stop INTEGER NOT NULL, tokens INTEGER NOT NULL,
    UNIQUE (document_id, ordinal));
CREATE TABLE vectors (
    chunk_id TEXT NOT NULL REFERENCES chunks ON DELETE CASCADE, model TEXT NOT NULL, vector BLOB NOT NULL,
    PRIMARY KEY (chunk_id, model)) WITHOUT ROWID;

CREATE TABLE units (
    key TEXT PRIMARY KEY, stage TEXT NOT NULL, name TEXT NOT NULL, model TEXT NOT NULL,
    purpose TEXT NOT NULL CHECK (purpose IN ('index', 'query')), value TEXT NOT NULL);
CREATE TABLE unit_chunks (
    key TEXT NOT NULL REFERENCES units ON DELETE CASCADE, chunk_id TEXT NOT NULL,
    document_id TEXT NOT NULL REFERENCES documents ON DELETE CASCADE,
    PRIMARY KEY (key, chunk_id)) WITHOUT ROWID;
CREATE INDEX unit_chunks_by_document ON unit_chunks (document_id);
CREATE TABLE failures (
    key TEXT PRIMARY KEY, stage TEXT NOT NULL, name TEXT NOT NULL, model TEXT NOT NULL,
    purpose TEXT NOT NULL CHECK (purpose IN ('index', 'query')), reason TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE failure_chunks (
    key TEXT NOT NULL REFERENCES failures ON DELETE CASCADE, chunk_id TEXT NOT NULL,
    document_id TEXT NOT NULL REFERENCES documents ON DELETE CASCADE,
    PRIMARY KEY (key, chunk_id)) WITHOUT ROWID;
CREATE INDEX failure_chunks_by_document ON failure_chunks (document_id);
CREATE TABLE answers (
    id TEXT PRIMARY KEY, asked TEXT NOT NULL, question TEXT NOT NULL, method TEXT NOT NULL, level INTEGER,
    state TEXT NOT NULL, answer TEXT NOT NULL);
CREATE TABLE answer_chunks (
    answer_id TEXT NOT NULL REFERENCES answers ON DELETE CASCADE, chunk_id TEXT NOT NULL,
    document_id TEXT NOT NULL REFERENCES documents ON DELETE CASCADE,
    PRIMARY KEY (answer_id, chunk_id)) WITHOUT ROWID;
CREATE INDEX answer_chunks_by_document ON answer_chunks (document_id);
CREATE TRIGGER document_forgotten BEFORE DELETE ON documents BEGIN
    DELETE FROM units WHERE key IN (SELECT key FROM unit_chunks WHERE document_id = OLD.id);
    DELETE FROM failures WHERE key IN (SELECT key FROM failure_chunks WHERE document_id = OLD.id);
    DELETE FROM answers WHERE id IN (SELECT answer_id FROM answer_chunks WHERE document_id = OLD.id);
    DELETE FROM communities WHERE id IN (
        SELECT r.community_id FROM report_chunks r JOIN chunks c ON c.id = r.chunk_id WHERE c.document_id = OLD.id
        UNION SELECT m.community_id FROM community_nodes m JOIN node_chunks n ON n.node_id = m.node_id
        JOIN chunks c ON c.id = n.chunk_id WHERE c.document_id = OLD.id);
    DELETE FROM nodes WHERE id IN (
        SELECT n.node_id FROM node_chunks n JOIN chunks c ON c.id = n.chunk_id WHERE c.document_id = OLD.id);
    DELETE FROM edges WHERE id IN (
        SELECT e.edge_id FROM edge_chunks e JOIN chunks c ON c.id = e.chunk_id WHERE c.document_id = OLD.id);
END;

CREATE TABLE runs (
    id INTEGER PRIMARY KEY, kind TEXT NOT NULL, model TEXT NOT NULL, started TEXT NOT NULL, finished TEXT);
CREATE TABLE ledger (
    run INTEGER NOT NULL REFERENCES runs ON DELETE CASCADE, stage TEXT NOT NULL, calls INTEGER NOT NULL,
    prompt_tokens INTEGER NOT NULL, read_tokens INTEGER NOT NULL, output_tokens INTEGER NOT NULL,
    forced_tokens INTEGER NOT NULL, illegal INTEGER NOT NULL, seconds REAL NOT NULL,
    PRIMARY KEY (run, stage)) WITHOUT ROWID;
CREATE TABLE unit_costs (
    key TEXT PRIMARY KEY REFERENCES units ON DELETE CASCADE, created TEXT NOT NULL, calls INTEGER NOT NULL,
    prompt_tokens INTEGER NOT NULL, read_tokens INTEGER NOT NULL, output_tokens INTEGER NOT NULL,
    forced_tokens INTEGER NOT NULL, illegal INTEGER NOT NULL, seconds REAL NOT NULL) WITHOUT ROWID;

CREATE TABLE nodes (
    id TEXT PRIMARY KEY, key TEXT NOT NULL UNIQUE, name TEXT NOT NULL, type TEXT NOT NULL, degree INTEGER NOT NULL,
    summary TEXT NOT NULL);
CREATE TABLE node_descriptions (
    node_id TEXT NOT NULL REFERENCES nodes ON DELETE CASCADE, ordinal INTEGER NOT NULL, text TEXT NOT NULL,
    chunk_id TEXT NOT NULL REFERENCES chunks ON DELETE CASCADE, PRIMARY KEY (node_id, ordinal));
CREATE TABLE node_mentions (
    node_id TEXT NOT NULL REFERENCES nodes ON DELETE CASCADE, ordinal INTEGER NOT NULL,
    chunk_id TEXT NOT NULL REFERENCES chunks ON DELETE CASCADE, start INTEGER NOT NULL, stop INTEGER NOT NULL,
    PRIMARY KEY (node_id, ordinal)) WITHOUT ROWID;
CREATE TABLE node_chunks (
    node_id TEXT NOT NULL REFERENCES nodes ON DELETE CASCADE, ordinal INTEGER NOT NULL,
    chunk_id TEXT NOT NULL REFERENCES chunks ON DELETE CASCADE, PRIMARY KEY (node_id, ordinal)) WITHOUT ROWID;
CREATE TABLE edges (
    id TEXT PRIMARY KEY, source TEXT NOT NULL REFERENCES nodes ON DELETE CASCADE,
    target TEXT NOT NULL REFERENCES nodes ON DELETE CASCADE, weight INTEGER NOT NULL CHECK (weight > 0),
    summary TEXT NOT NULL, CHECK (source < target), UNIQUE (source, target));
CREATE TABLE edge_descriptions (
    edge_id TEXT NOT NULL REFERENCES edges ON DELETE CASCADE, ordinal INTEGER NOT NULL, text TEXT NOT NULL,
    chunk_id TEXT NOT NULL REFERENCES chunks ON DELETE CASCADE, PRIMARY KEY (edge_id, ordinal));
CREATE TABLE edge_chunks (
    edge_id TEXT NOT NULL REFERENCES edges ON DELETE CASCADE, ordinal INTEGER NOT NULL,
    chunk_id TEXT NOT NULL REFERENCES chunks ON DELETE CASCADE, PRIMARY KEY (edge_id, ordinal)) WITHOUT ROWID;
CREATE TABLE claims (
    id TEXT PRIMARY KEY, subject TEXT NOT NULL REFERENCES nodes ON DELETE CASCADE,
    object TEXT REFERENCES nodes ON DELETE CASCADE, type TEXT NOT NULL, status TEXT NOT NULL,
    start_date TEXT NOT NULL, end_date TEXT NOT NULL, description TEXT NOT NULL,
    chunk_id TEXT NOT NULL REFERENCES chunks ON DELETE CASCADE);

CREATE TABLE communities (id TEXT PRIMARY KEY, size INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE community_nodes (
    community_id TEXT NOT NULL REFERENCES communities ON DELETE CASCADE, ordinal INTEGER NOT NULL,
    node_id TEXT NOT NULL REFERENCES nodes ON DELETE CASCADE, PRIMARY KEY (community_id, ordinal)) WITHOUT ROWID;
CREATE TABLE community_levels (
    level INTEGER NOT NULL, rank INTEGER NOT NULL, community_id TEXT NOT NULL REFERENCES communities ON DELETE CASCADE,
    parent_id TEXT REFERENCES communities ON DELETE CASCADE, PRIMARY KEY (level, rank), UNIQUE (level, community_id))
    WITHOUT ROWID;
CREATE TABLE reports (
    community_id TEXT PRIMARY KEY REFERENCES communities ON DELETE CASCADE, title TEXT NOT NULL, summary TEXT NOT NULL,
    rating INTEGER NOT NULL, rating_reason TEXT NOT NULL, written INTEGER NOT NULL, text TEXT NOT NULL);
CREATE TABLE findings (
    community_id TEXT NOT NULL REFERENCES reports ON DELETE CASCADE, ordinal INTEGER NOT NULL, summary TEXT NOT NULL,
    explanation TEXT NOT NULL, PRIMARY KEY (community_id, ordinal));
CREATE TABLE finding_records (
    community_id TEXT NOT NULL, finding INTEGER NOT NULL, ordinal INTEGER NOT NULL, record_id TEXT NOT NULL,
    PRIMARY KEY (community_id, finding, ordinal),
    FOREIGN KEY (community_id, finding) REFERENCES findings ON DELETE CASCADE) WITHOUT ROWID;
CREATE TABLE report_chunks (
    community_id TEXT NOT NULL REFERENCES reports ON DELETE CASCADE, ordinal INTEGER NOT NULL,
    chunk_id TEXT NOT NULL REFERENCES chunks ON DELETE CASCADE, PRIMARY KEY (community_id, ordinal)) WITHOUT ROWID;

CREATE INDEX node_descriptions_by_chunk ON node_descriptions (chunk_id);
CREATE INDEX node_mentions_by_chunk ON node_mentions (chunk_id);
CREATE INDEX node_chunks_by_chunk ON node_chunks (chunk_id);
CREATE INDEX edge_descriptions_by_chunk ON edge_descriptions (chunk_id);
CREATE INDEX edge_chunks_by_chunk ON edge_chunks (chunk_id);
CREATE INDEX edges_by_target ON edges (target);
CREATE INDEX claims_by_subject ON claims (subject);
CREATE INDEX claims_by_object ON claims (object);
CREATE INDEX claims_by_chunk ON claims (chunk_id);
CREATE INDEX community_nodes_by_node ON community_nodes (node_id);
CREATE INDEX community_levels_by_community ON community_levels (community_id);
CREATE INDEX community_levels_by_parent ON community_levels (parent_id);
CREATE INDEX report_chunks_by_chunk ON report_chunks (chunk_id);

-- For reading with any SQLite tool: a chunk's text is a span of its document's.
CREATE VIEW chunk_texts AS
    SELECT c.id, d.title, c.ordinal, substr(d.text, c.start + 1, c.stop - c.start) AS text
    FROM chunks c JOIN documents d ON d.id = c.document_id;
"""


def _create(database: sqlite3.Connection) -> None:
    # executescript would commit first; statement by statement, creation stays inside the caller's transaction.
    statement = ""
    for line in _VERSION_1.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            database.execute(statement)
            statement = ""


def _count_idle_runs(database: sqlite3.Connection) -> None:
    database.execute("ALTER TABLE units ADD COLUMN idle INTEGER NOT NULL DEFAULT 0")


MIGRATIONS: list[Callable[[sqlite3.Connection], None]] = [_create, _count_idle_runs]
"""`MIGRATIONS[n]` turns a file of schema version n into one of n + 1. Append; never change a released entry."""

DERIVED = (
    "report_chunks", "finding_records", "findings", "reports", "community_levels", "community_nodes", "communities",
    "claims", "edge_chunks", "edge_descriptions", "edges", "node_chunks", "node_mentions", "node_descriptions", "nodes",
)  # fmt: skip
"""Tables replaced together by each index run, children before parents."""

LEDGER = ("runs", "ledger", "unit_costs")
"""Tables that tell when and at what cost, and so differ between two runs with equal results."""
