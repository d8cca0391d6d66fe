"""Is the index sound? Each check finds what is wrong and says it in words."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import pairwise

import numpy as np

from localgraphrag import tables
from localgraphrag.errors import LocalGraphRAGError, StoreError
from localgraphrag.extract import Extraction
from localgraphrag.graph import Edge, Node, build_graph, normalize_name
from localgraphrag.sentences import fold
from localgraphrag.store import Store, adapter
from localgraphrag.tables import Index

MOST = 20
"""Problems of one kind that are told one by one."""


def verify(store: Store) -> list[str]:
    """All problems of an index, in words; an empty list when it is sound."""
    with store.snapshot():
        problems = list(_file(store))
        if problems:
            return problems  # rows of a damaged file say nothing
        try:
            index = tables.load_index(store)
        except (LocalGraphRAGError, KeyError, TypeError, ValueError) as error:
            return [f"The index cannot be read: {error}"]
        for check in _CHECKS:
            problems += _listed(check(index))
        for stored in _STORED:
            problems += _listed(stored(store, index))
    return problems


def _listed(check: Iterator[str]) -> list[str]:
    """What a check finds, the first of it where it is much. Damage on which it stops is a problem too."""
    found: list[str] = []
    stopped = []
    try:
        found += check
    except (LocalGraphRAGError, KeyError, TypeError, ValueError) as error:
        stopped = [f"A check could not go on: {type(error).__name__}: {error}"]
    more = [f"... and {len(found) - MOST} more of this kind"] if len(found) > MOST else []
    return found[:MOST] + more + stopped


def _file(store: Store) -> Iterator[str]:
    for (found,) in store.rows("PRAGMA integrity_check(20)"):
        if found != "ok":
            yield f"The file is damaged: {found}"
    for table, row, parent, _constraint in store.rows("PRAGMA foreign_key_check"):
        yield f"Table {table}, row {row}: what it refers to in {parent} is not there"
    for (name,) in store.rows("SELECT name FROM meta WHERE NOT json_valid(value)"):
        yield f"Table meta, {name!r}: its value is not JSON"


def _documents(index: Index) -> Iterator[str]:
    chunked = {chunk.document_id for chunk in index.chunks}
    for document in index.documents:
        if hashlib.sha256(document.text.encode("utf-8")).hexdigest() != document.id:
            yield f"Document {document.sources[0]}: its text is not the one its id was made of"
        if document.id not in chunked and document.text.strip():
            yield f"Document {document.sources[0]} has no chunks"


def _spans(index: Index) -> Iterator[str]:
    lengths = {document.id: len(document.text) for document in index.documents}
    for chunk in index.chunks:
        if not 0 <= chunk.start < chunk.end <= lengths[chunk.document_id]:
            yield f"Chunk {chunk.id}: its span {chunk.start}-{chunk.end} is not within its document"
    for one, other in pairwise(index.chunks):
        if one.document_id == other.document_id:
            if other.ordinal != one.ordinal + 1 or other.start < one.start or other.end <= one.end:
                yield f"Chunks {one.id} and {other.id} are not in order"
            text = next(d.text for d in index.documents if d.id == one.document_id) if other.start > one.end else ""
            if text[one.end : other.start].strip():
                yield f"Between chunks {one.id} and {other.id} there is text in neither"


def _mentions(index: Index) -> Iterator[str]:
    chunks = {chunk.id: chunk for chunk in index.chunks}
    texts = {document.id: document.text for document in index.documents}
    for node in index.graph.nodes:
        if normalize_name(node.name) != node.key:
            yield f"Entity {node.id}: its name {node.name!r} does not belong to its key {node.key!r}"
        for mention in node.mentions:
            chunk = chunks[mention.chunk_id]
            if not chunk.start <= mention.start < mention.end <= chunk.end:
                yield f"Entity {node.id}: a mention at {mention.start}-{mention.end} is not within chunk {chunk.id}"
                continue
            words = texts[chunk.document_id][mention.start : mention.end]
            if normalize_name(words) != node.key:
                yield f"Entity {node.id}: a mention at {mention.start}-{mention.end} is {words!r}, not {node.name!r}"


def _graph(index: Index) -> Iterator[str]:
    degrees = Counter(end for edge in index.graph.edges for end in (edge.source, edge.target))
    for node in index.graph.nodes:
        if node.degree != degrees[node.id]:
            yield f"Entity {node.id} has degree {node.degree} and {degrees[node.id]} relationships"
        if not node.chunk_ids:
            yield f"Entity {node.id} is in no chunk"
    for edge in index.graph.edges:
        if not edge.chunk_ids or edge.weight < len(edge.chunk_ids):
            yield f"Relationship {edge.id}: weight {edge.weight} in {len(edge.chunk_ids)} chunks"


def _partitions(index: Index) -> Iterator[str]:
    nodes = {node.id for node in index.graph.nodes}
    if nodes and not index.hierarchy.levels:
        yield "There are entities and no communities"
    for k, level in enumerate(index.hierarchy.levels):
        counted = Counter(id_ for community in level for id_ in community.node_ids)
        for id_ in sorted(nodes - set(counted)):
            yield f"Entity {id_} is in no community of level C{k}"
        for id_, times in counted.items():
            if times > 1:
                yield f"Entity {id_} is in {times} communities of level C{k}"


def _nesting(index: Index) -> Iterator[str]:
    for above, level in pairwise(index.hierarchy.levels):
        parents = {community.id: set(community.node_ids) for community in above}
        for community in level:
            if not set(community.node_ids) <= parents.get(community.parent, set()):
                yield f"Community {community.id} of level C{community.level} is not within its parent"
    for community in index.hierarchy.levels[0] if index.hierarchy.levels else ():
        if community.parent:
            yield f"Community {community.id} of level C0 has a parent"


def _reports(index: Index) -> Iterator[str]:
    graph = index.graph
    known = {thing.id for things in (graph.nodes, graph.edges, graph.claims) for thing in things}
    known |= {community.id for level in index.hierarchy.levels for community in level}
    for report in index.reports.values():
        for finding in report.findings:
            for record in finding.records:
                if record not in known:
                    yield f"The report of community {report.community_id} rests on {record}, which is not there"


_CHECKS: tuple[Callable[[Index], Iterator[str]], ...] = (
    _documents, _spans, _mentions, _graph, _partitions, _nesting, _reports,
)  # fmt: skip


def _vectors(store: Store, _index: Index) -> Iterator[str]:
    broken = store.rows("SELECT chunk_id, model FROM vectors WHERE typeof(vector) != 'blob' OR length(vector) % 4")
    for chunk, model in broken:
        yield f"The vector of chunk {chunk} under embedder {model} is no row of float32"
    for (model,) in store.rows("SELECT DISTINCT model FROM vectors") if not broken else ():
        vectors = tables.load_vectors(store, model)
        if len({len(vector) for vector in vectors.values()}) > 1:
            yield f"Vectors of embedder {model} differ in length"
        elif not all(np.isfinite(vector).all() for vector in vectors.values()):
            yield f"Vectors of embedder {model} hold numbers that are none"


def _units(store: Store, index: Index) -> Iterator[str]:
    for (key,) in store.rows("SELECT key FROM units WHERE NOT json_valid(value) LIMIT ?", MOST):
        yield f"Unit {key}: its value is not JSON"
    chunks = {chunk.id for chunk in index.chunks}
    seen = store.rows(
        "SELECT key, chunk_id FROM units JOIN unit_chunks USING (key) "
        "WHERE purpose = 'index' AND idle = 0 AND model = ?",
        store.get("model"),
    )
    for key, chunk in seen if _finished(store) else ():
        if chunk not in chunks:
            yield f"Unit {key} has seen chunk {chunk}, which is not there"


def _finished(store: Store) -> bool:
    """Whether the last run came to its end: one that has not has units of chunks that are not shown yet."""
    return bool(store.scalar("SELECT finished FROM runs WHERE kind = 'index' ORDER BY id DESC LIMIT 1"))


def _extracted(store: Store, index: Index) -> Iterator[str]:
    """Whether the relationships are those that the stored extractions of the chunks have."""
    if not _finished(store):
        return
    work = store.rows(
        "SELECT chunk_id, value FROM units JOIN unit_chunks USING (key) "
        "WHERE stage = 'extract' AND purpose = 'index' AND idle = 0 AND model = ? AND json_valid(value)",
        store.get("model"),
    )
    read = {chunk_id for chunk_id, _ in work}
    failed = store.rows("SELECT chunk_id FROM failures JOIN failure_chunks USING (key) WHERE stage = 'extract'")
    read |= {chunk_id for (chunk_id,) in failed}
    for chunk in index.chunks:
        if chunk.id not in read:
            yield f"Chunk {chunk.id} was read by no extraction, and none failed at it"
    extractions = {chunk_id: adapter(Extraction).validate_json(value) for chunk_id, value in work}
    weights = {edge.id: edge.weight for edge in build_graph(index.chunks, extractions).edges}
    for edge in index.graph.edges:
        weight = weights.pop(edge.id, 0)
        if edge.weight != weight:
            yield f"Relationship {edge.id}: weight {edge.weight}; by what was extracted it is {weight}"
    for id_ in weights:
        yield f"Relationship {id_} was extracted, and is not there"


def _quotations(store: Store, index: Index) -> Iterator[str]:
    """Where descriptions are quoted, whether each stands in its chunk."""
    if (store.get("settings") or {}).get("descriptions") != "quoted":
        return
    graph = index.graph
    described: list[Node | Edge] = [*graph.nodes, *graph.edges]
    texts = {chunk.id: fold(chunk.text) for chunk in index.chunks}
    told = [(x.id, d.text, d.chunk_id) for x in described for d in x.descriptions]
    for id_, text, chunk_id in told + [(claim.id, claim.description, claim.chunk_id) for claim in graph.claims]:
        words = text.removeprefix("… ").removesuffix(" …")  # marks of a sentence that was cut
        if fold(words) not in texts[chunk_id]:
            yield f"{id_} is described by words that do not stand in chunk {chunk_id}: {text!r}"


def _answers(store: Store, index: Index) -> Iterator[str]:
    lengths = {document.id: len(document.text) for document in index.documents}
    chunks = {chunk.id for chunk in index.chunks}
    communities = {community.id for level in index.hierarchy.levels for community in level}
    for id_, state in store.rows("SELECT id, state FROM answers ORDER BY id"):
        try:
            answer = tables.load_answer(store, id_)
        except StoreError:
            yield f"Answer {id_} cannot be read"
            continue
        for citation in answer.citations:
            for source in citation.sources:
                if not 0 <= source.start < source.end <= lengths.get(source.document_id, 0):
                    yield f"Answer {id_}, citation [{citation.number}]: span {source} is not within a document"
            # An answer keeps what it cited when the index moves on; only the documents' spans must stay.
            here = chunks if citation.kind == "chunk" else communities
            if state == index.state and citation.id not in here:
                yield f"Answer {id_}, citation [{citation.number}]: {citation.kind} {citation.id} is not there"


_STORED: tuple[Callable[[Store, Index], Iterator[str]], ...] = (
    _vectors, _units, _extracted, _quotations, _answers,
)  # fmt: skip
