"""What an index holds: its status as a whole, and one thing of it with what it links to."""

from __future__ import annotations

import re
import shlex
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from localgraphrag import tables
from localgraphrag.chunks import Chunk
from localgraphrag.communities import Community
from localgraphrag.documents import Document
from localgraphrag.errors import ConfigError, NotFoundError, NotIndexedError
from localgraphrag.graph import Edge, GraphClaim, Node, normalize_name
from localgraphrag.llm.types import Usage
from localgraphrag.lock import writer_of
from localgraphrag.runner import Failure
from localgraphrag.search.answer import Citation, Source
from localgraphrag.search.sources import Provenance
from localgraphrag.store import Store, make_index
from localgraphrag.summaries import Coverage, coverage

PASSAGES = 20
"""Most passages shown of one thing."""

BEGINNING = 4
"""Characters of an id that at least must be given."""


@dataclass(frozen=True)
class Status:
    """What the index holds and has cost. `communities`, `reports` and `coverage` are by level, C0 first.

    `spent` is what all runs have cost by stage, `index_cost` what the present index would cost to make once.
    `unfinished`: documents that a run has begun with and not finished; `at_work`: who is writing now, in words, or "".
    `ungrounded`: see the function of that name.
    """

    path: str
    model: str
    paths: tuple[str, ...]
    documents: int
    chunks: int
    entities: int
    relationships: int
    claims: int
    communities: tuple[int, ...]
    reports: tuple[int, ...]
    coverage: tuple[Coverage, ...]
    vectors: int
    answers: int
    failures: tuple[Failure, ...]
    spent: dict[str, Usage]
    index_cost: dict[str, Usage]
    unfinished: int
    at_work: str
    ungrounded: int
    bytes: int


@dataclass(frozen=True)
class Link:
    """Another thing that this one links to; `relation` says how."""

    kind: str
    id: str
    title: str
    relation: str


@dataclass(frozen=True)
class Passage:
    """A chunk's text with the spans in it that matter: pairs of start and end within `text`."""

    chunk_id: str
    document_id: str
    title: str
    sources: tuple[str, ...]
    text: str
    spans: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class Shown:
    """One thing of the index. `fields` are its facts by name, JSON-able."""

    kind: str
    id: str
    title: str
    text: str
    fields: dict[str, Any] = field(default_factory=dict)
    links: tuple[Link, ...] = ()
    passages: tuple[Passage, ...] = ()


def status(store: Store) -> Status:
    """The status of the index, read as one state."""
    with store.snapshot():
        index = tables.load_index(store)
        levels = index.hierarchy.levels
        count: Callable[[str], int] = lambda table: store.scalar(f"SELECT count(*) FROM {table}")  # noqa: E731, S608
        return Status(
            path=str(store.path),
            model=store.get("model") or "",
            paths=tuple(store.get("paths") or ()),
            documents=len(index.documents),
            chunks=len(index.chunks),
            entities=len(index.graph.nodes),
            relationships=len(index.graph.edges),
            claims=len(index.graph.claims),
            communities=tuple(len(level) for level in levels),
            reports=tuple(sum(c.id in index.reports for c in level) for level in levels),
            coverage=tuple(
                coverage(k, index.hierarchy, index.reports, index.graph, index.chunks) for k in range(len(levels))
            ),
            vectors=count("vectors"),
            answers=count("answers"),
            failures=tuple(
                Failure(*row) for row in store.rows("SELECT stage, name, reason FROM failures ORDER BY 1, 2")
            ),
            spent=store.spent(),
            index_cost=store.index_cost(),
            unfinished=count("documents") - len(index.documents),
            at_work=writer_of(store.path),
            ungrounded=ungrounded(store),
            bytes=store.path.stat().st_size,
        )


def ungrounded(store: Store) -> int:
    """Descriptions that the model wrote and the chunks do not bear out, left out of what the index rests on.

    There are none but with `descriptions = "written"`: quotations are the chunks' own words.
    """
    found: int = store.scalar(
        "SELECT coalesce(sum(json_extract(value, '$.ungrounded')), 0) FROM units WHERE stage = 'extract' "
        "AND purpose = 'index' AND idle = 0 AND model = ? AND json_valid(value)",
        store.get("model"),
    )
    return found


def left_out(ungrounded: int) -> str:
    """What is to be said of descriptions that were left out; "" if there is nothing."""
    told = f"{ungrounded:,} descriptions that the model wrote were left out: the texts do not bear them out."
    return told if ungrounded else ""


def check_finished(store: Store) -> None:
    """Raise NotIndexedError, with what to do, if the first run has not come to its end."""
    path = store.path.absolute()
    if store.scalar("SELECT count(*) FROM sources"):
        return
    if holder := writer_of(path):
        raise NotIndexedError(
            f"Nothing in the index at {path} is finished yet: its first run is at work, {holder}. Wait for it to end."
        )
    if store.scalar("SELECT count(*) FROM documents"):
        raise NotIndexedError(
            f"Nothing in the index at {path} is finished yet: its first run was stopped before the end. Run "
            f"`localgraphrag index --project {shlex.quote(str(path.parent))}` again: it goes on from there."
        )


def check_filled(store: Store) -> None:
    """Raise NotIndexedError, with what to do, unless the index holds documents."""
    check_finished(store)
    if not store.scalar("SELECT count(*) FROM sources"):
        path = store.path
        raise NotIndexedError(f"The index at {path.absolute()} is empty: it holds no documents. {make_index(path)}")


def show(store: Store, reference: str) -> Shown:
    """One thing by id, name or path, or a list. See `Project.show`."""
    if not isinstance(reference, str) or not reference.strip():
        raise ConfigError(
            f"{reference!r} names nothing to show. Give an id, a name or a path, or `documents`, `entities`, `C0`."
        )
    with store.snapshot():
        check_finished(store)
        return _Shower(store).show(reference.strip())


def cited(store: Store, citations: Iterable[Citation]) -> tuple[tuple[Passage, ...], ...]:
    """For each citation the chunks that its sources lie in, most telling first, with the sources marked."""
    with store.snapshot():
        shower = _Shower(store)
        return tuple(shower.cited([citation]) for citation in citations)


class _Shower:
    """Finds a thing in one state of the index and gathers what is around it."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.index = tables.load_index(store)
        self.documents = {d.id: d for d in self.index.documents}
        self.chunks = {c.id: c for c in self.index.chunks}
        self.names = {n.id: n.name for n in self.index.graph.nodes}
        self.provenance = Provenance(self.index.hierarchy, self.index.reports, self.index.graph, self.index.chunks)
        self.levels: defaultdict[str, list[int]] = defaultdict(list)  # by community: one may be on several
        for k, level in enumerate(self.index.hierarchy.levels):
            for community in level:
                self.levels[community.id].append(k)

    def show(self, reference: str) -> Shown:
        for find in (self._by_id, self._by_name, self._list):
            if found := find(reference):
                return found
        meant = self._meant(reference)
        if len(meant) == 1:
            return self.show(meant[0])
        if meant:
            shown = ", ".join(meant[:8]) + (f" and {len(meant) - 8} more" if len(meant) > 8 else "")
            raise NotFoundError(f"'{reference}' can be {shown}. Give one of these.")
        if re.fullmatch(r"a-[0-9a-f]+", reference):
            return self.answer(reference)  # there is none: the error names the latest
        raise NotFoundError(self._near(reference))

    def _meant(self, reference: str) -> list[str]:
        """Ids of reports with that title, or else ids that begin so."""
        reports, graph = self.index.reports, self.index.graph
        titled = [id_ for id_, report in reports.items() if normalize_name(report.title) == normalize_name(reference)]
        ids = [*self.names, *(e.id for e in graph.edges), *(c.id for c in graph.claims)]
        ids += [*self.levels, *self.chunks, *self.documents, *self._answers()]
        return titled or [id_ for id_ in ids if len(reference) >= BEGINNING and id_.startswith(reference)]

    def _by_id(self, id_: str) -> Shown | None:
        graph = self.index.graph
        things: dict[str, Callable[[], Shown]] = {
            **{node.id: partial(self.node, node) for node in graph.nodes},
            **{edge.id: partial(self.edge, edge) for edge in graph.edges},
            **{claim.id: partial(self.claim, claim) for claim in graph.claims},
            **{community_id: partial(self.community, community_id) for community_id in self.levels},
            **{chunk.id: partial(self.chunk, chunk) for chunk in self.index.chunks},
            **{document_id: partial(self.document, document_id) for document_id in self.documents},
            **{answer_id: partial(self.answer, answer_id) for answer_id in self._answers()},
        }
        return things[id_]() if id_ in things else None

    def _answers(self) -> list[str]:
        return [id_ for (id_,) in self.store.rows("SELECT id FROM answers ORDER BY id")]

    def _by_name(self, name: str) -> Shown | None:
        node = self.index.graph.nodes_by_key.get(normalize_name(name))
        if node:
            return self.node(node)
        named = [d.id for d in self.index.documents if name in d.sources or name == d.title]
        return self.document(named[0]) if named else None

    def _list(self, reference: str) -> Shown | None:
        """All things of a kind, the communities of a level, or the rows of a table."""
        index, wanted = self.index, reference.casefold()
        communities = [community for level in index.hierarchy.levels for community in level]
        lists: dict[str, Callable[[], list[Link]]] = {
            "documents": partial(self._documents, index.documents),
            "entities": self._entities,
            "relationships": self._relationships,
            "claims": self._claims,
            "communities": partial(self._communities, communities),
            "reports": self._reports,
            "answers": self._asked,
            **{f"c{k}": partial(self._communities, level) for k, level in enumerate(index.hierarchy.levels)},
        }
        rows = [d for d in index.documents if any(path.rpartition("#")[0] == reference for path in d.sources)]
        if not rows and wanted not in lists:
            return None
        links = self._documents(rows) if rows else lists[wanted]()
        none = "There are none." if index.documents else "The index holds no documents."
        return Shown("list", reference, f"{len(links)} of {reference}", "" if links else none, {}, tuple(links))

    def _documents(self, documents: Iterable[Document]) -> list[Link]:
        return [Link("document", d.id, d.title, ", ".join(d.sources)) for d in documents]

    def _entities(self) -> list[Link]:
        nodes = sorted(self.index.graph.nodes, key=lambda node: (-node.degree, node.name))
        return [Link("entity", n.id, n.name, f"{n.type}, {n.degree} relationships") for n in nodes]

    def _relationships(self) -> list[Link]:
        return [self._edge_link(e) for e in sorted(self.index.graph.edges, key=lambda e: (-e.weight, self._title(e)))]

    def _claims(self) -> list[Link]:
        claims = sorted(self.index.graph.claims, key=lambda c: (self.names[c.subject], c.description))
        return [Link("claim", c.id, c.description, f"{self.names[c.subject]}: {c.type}, {c.status}") for c in claims]

    def _communities(self, communities: Iterable[Community]) -> list[Link]:
        """Each once, with the levels that it is on."""
        sizes = {c.id: len(c.node_ids) for c in communities}
        return [
            Link("community", id_, self._report_title(id_), f"{self._on_levels(id_)}, {size} entities")
            for id_, size in sizes.items()
        ]

    def _reports(self) -> list[Link]:
        """The coarsest first, and of a level those that matter most."""
        reports = sorted(self.index.reports.values(), key=lambda r: (self.levels[r.community_id], -r.rating, r.title))
        return [
            Link("community", r.community_id, r.title, f"{self._on_levels(r.community_id)}, {rating}")
            for r in reports
            for rating in [f"rating {r.rating}" if r.written else "not rated"]
        ]

    def _asked(self) -> list[Link]:
        """The latest first."""
        rows = self.store.rows("SELECT id, question, method, level, asked FROM answers ORDER BY asked DESC, id")
        return [
            Link("answer", id_, question, f"{method.upper() if level is None else f'C{level}'}, {asked}")
            for id_, question, method, level, asked in rows
        ]

    def _on_levels(self, community_id: str) -> str:
        return ", ".join(f"C{k}" for k in self.levels[community_id])

    def _near(self, reference: str) -> str:
        from rapidfuzz import fuzz, process

        levels = len(self.index.hierarchy.levels)
        if levels and re.fullmatch(r"[Cc]\d+", reference):
            there = "level 0 alone" if levels == 1 else f"levels 0 to {levels - 1}"
            return f"There is no level '{reference}'; the index has {there}. `show C0` lists level 0."
        if len(reference) < BEGINNING and re.fullmatch(r"[a-z]-[0-9a-f]*", reference):
            return f"'{reference}' is too little of an id: give at least {BEGINNING} characters of it."
        known = [n.name for n in self.index.graph.nodes]
        known += [path for d in self.index.documents for path in d.sources]
        near = process.extract(reference, known, scorer=fuzz.WRatio, limit=5, score_cutoff=50)
        hint = f"Near to it: {', '.join(name for name, *_ in near)}. " if near else ""
        hint += "`show entities`, `show documents`, `show claims` and `show C0` list what there is."
        return f"The index holds nothing of the name or id '{reference}'. {hint}"

    def node(self, node: Node) -> Shown:
        edges, claims = self.index.graph.edges_of(node.id), self.index.graph.claims_of(node.id)
        spans = self._named([node], node.chunk_ids)
        links = [self._edge_link(edge) for edge in edges]
        links += [Link("claim", c.id, c.description, f"{c.type}, {c.status}") for c in claims]
        links += self._community_links(node.id)
        facts = {
            "type": node.type,
            "degree": node.degree,
            "mentions": len(node.mentions),
            "chunks": len(node.chunk_ids),
        }
        return Shown("entity", node.id, node.name, node.description, facts, tuple(links), self._passages(spans))

    def edge(self, edge: Edge) -> Shown:
        ends = (edge.source, edge.target)
        spans = self._named(map(self.index.graph.node, ends), edge.chunk_ids)
        links = tuple(Link("entity", id_, self.names[id_], "end") for id_ in ends)
        facts = {"weight": edge.weight, "chunks": len(edge.chunk_ids)}
        return Shown("relationship", edge.id, self._title(edge), edge.description, facts, links, self._passages(spans))

    def claim(self, claim: GraphClaim) -> Shown:
        links = [Link("entity", claim.subject, self.names[claim.subject], "subject")]
        links += [Link("entity", claim.object, self.names[claim.object], "object")] if claim.object else []
        facts = {"status": claim.status, "start_date": claim.start_date, "end_date": claim.end_date}
        passages = self._borne_out([claim.description], [claim.chunk_id], [claim.id])
        return Shown("claim", claim.id, claim.type, claim.description, facts, tuple(links), passages)

    def community(self, community_id: str) -> Shown:
        index = self.index
        levels = self.levels[community_id]
        community = index.hierarchy.community(community_id)
        report = index.reports.get(community_id)
        links = [Link("entity", id_, self.names[id_], "member") for id_ in community.node_ids]
        links += [Link("community", c, self._report_title(c), "parent") for c in (community.parent,) if c]
        finest = index.hierarchy.levels[levels[-1]]
        children = next(c.children for c in finest if c.id == community_id)
        links += [Link("community", c, self._report_title(c), "child") for c in children]
        facts: dict[str, Any] = {"levels": levels, "entities": len(community.node_ids)}
        if report is None:
            return Shown("community", community_id, community_id, "Its report is not written yet.", facts, tuple(links))
        records = dict.fromkeys(r for finding in report.findings for r in finding.records)
        links += [self._record_link(r) for r in records]
        facts |= {"rating": report.rating, "rating_reason": report.rating_reason, "written": report.written}
        told = [finding.summary for finding in report.findings] or report.text.splitlines()
        passages = self._borne_out(told, report.chunk_ids, records or self.provenance.of_report(community_id).records)
        return Shown("community", community_id, report.title, report.text, facts, tuple(links), passages)

    def chunk(self, chunk: Chunk) -> Shown:
        graph = self.index.graph
        nodes = [n for n in graph.nodes if chunk.id in n.chunk_ids]
        links = [Link("entity", n.id, n.name, n.type) for n in nodes]
        links += [self._edge_link(e) for e in graph.edges if chunk.id in e.chunk_ids]
        links += [Link("claim", c.id, c.description, c.status) for c in graph.claims if c.chunk_id == chunk.id]
        links.append(Link("document", chunk.document_id, chunk.title, "document"))
        spans = self._named(nodes, [chunk.id])
        facts = {"ordinal": chunk.ordinal, "start": chunk.start, "end": chunk.end, "tokens": chunk.tokens}
        title = f"{chunk.title}, chunk {chunk.ordinal + 1}"
        return Shown("chunk", chunk.id, title, chunk.text, facts, tuple(links), self._passages(spans))

    def document(self, document_id: str) -> Shown:
        document = self.documents[document_id]
        chunks = [c for c in self.index.chunks if c.document_id == document_id]
        links = tuple(Link("chunk", c.id, f"{c.start}-{c.end}", f"chunk {c.ordinal + 1}") for c in chunks)
        facts = {"sources": list(document.sources), "characters": len(document.text)}
        return Shown("document", document_id, document.title, document.text, facts, links)

    def answer(self, id_: str) -> Shown:
        answer = tables.load_answer(self.store, id_)
        links: list[Link] = []
        for citation in answer.citations:
            kind = "community" if citation.kind == "report" else "chunk"
            links.append(Link(kind, citation.id, citation.title, f"[{citation.number}]"))
            links += [self._record_link(record) for record in citation.records]
        facts = {"method": answer.method, "level": answer.level, "record": answer.record}
        passages = self.cited(answer.citations)
        return Shown("answer", id_, answer.question, answer.text, facts, tuple(links), passages)

    def cited(self, citations: Iterable[Citation]) -> tuple[Passage, ...]:
        return self._marked(source for citation in citations for source in citation.sources)

    def _named(self, nodes: Iterable[Node], chunk_ids: Sequence[str]) -> dict[str, list[tuple[int, int]]]:
        """Where the chunks name the nodes. A mention belongs to one chunk; where two overlap, it is in both."""
        spans: defaultdict[str, list[tuple[int, int]]] = defaultdict(list)
        for node in nodes:
            for mention in node.mentions:
                spans[self.chunks[mention.chunk_id].document_id].append((mention.start, mention.end))
        return {id_: spans[self.chunks[id_].document_id] for id_ in chunk_ids}

    def _borne_out(self, told: Iterable[str], chunk_ids: Sequence[str], records: Iterable[str]) -> tuple[Passage, ...]:
        """The chunks with the sentences of them that are told marked; where none is a quotation, what records name."""
        sources = [source for text in told for source in self.provenance.of_words(text, chunk_ids)]
        sources = sources or [source for record in records for source in self.provenance.of_record(record)]
        return self._marked(sources) if sources else self._passages({id_: [] for id_ in chunk_ids})

    def _marked(self, sources: Iterable[Source]) -> tuple[Passage, ...]:
        spans: dict[str, list[tuple[int, int]]] = {}
        for source in sources:
            spans.setdefault(source.chunk_id, []).append((source.start, source.end))
        return self._passages(spans)

    def _passages(self, spans: dict[str, list[tuple[int, int]]]) -> tuple[Passage, ...]:
        """Chunks with spans given in their documents."""
        found = []
        for chunk_id in [id_ for id_ in spans if id_ in self.chunks][:PASSAGES]:
            chunk = self.chunks[chunk_id]
            inside = [
                (s - chunk.start, e - chunk.start) for s, e in spans[chunk_id] if chunk.start <= s < e <= chunk.end
            ]
            sources = self.documents[chunk.document_id].sources
            marks = _distinct(inside)
            found.append(Passage(chunk_id, chunk.document_id, chunk.title, sources, chunk.text, marks))
        return tuple(found)

    def _record_link(self, record: str) -> Link:
        """What a finding rests on: an entity, relationship, claim or community."""
        graph = self.index.graph
        if record in self.names:
            return Link("entity", record, self.names[record], "evidence")
        for edge in graph.edges:
            if edge.id == record:
                return Link("relationship", record, self._title(edge), "evidence")
        for claim in graph.claims:
            if claim.id == record:
                return Link("claim", record, claim.description, "evidence")
        return Link("community", record, self._report_title(record), "evidence")

    def _community_links(self, node_id: str) -> list[Link]:
        path = self.index.hierarchy.path(node_id)
        return [Link("community", c.id, self._report_title(c.id), f"C{c.level}") for c in path]

    def _edge_link(self, edge: Edge) -> Link:
        return Link("relationship", edge.id, self._title(edge), f"weight {edge.weight}")

    def _title(self, edge: Edge) -> str:
        return f"{self.names[edge.source]} - {self.names[edge.target]}"

    def _report_title(self, community_id: str) -> str:
        report = self.index.reports.get(community_id)
        return report.title if report else "no report"


def _distinct(spans: Iterable[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    ordered: Sequence[tuple[int, int]] = sorted(set(spans))
    return tuple(ordered)
