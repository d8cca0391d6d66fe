"""From a citation down to the documents: report -> records -> chunks -> character spans."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from localgraphrag.chunks import Chunk
from localgraphrag.communities import Community, Hierarchy
from localgraphrag.errors import NotFoundError
from localgraphrag.graph import Edge, Graph, GraphClaim, Mention, Node
from localgraphrag.search.answer import Source
from localgraphrag.summaries import Report


@dataclass(frozen=True)
class Evidence:
    """The records a report rests on, and where the documents bear them out, most telling first."""

    records: tuple[str, ...]
    sources: tuple[Source, ...]


class Provenance:
    """Looks up what reports rest on.

    Parameters
    ----------
    hierarchy, reports, graph, chunks : of one index. `reports` by community id; reports of other levels belong in
        it too, as a report may rest on those of its sub-communities.
    """

    def __init__(
        self, hierarchy: Hierarchy, reports: Mapping[str, Report], graph: Graph, chunks: Iterable[Chunk]
    ) -> None:
        self.reports = reports
        self.chunks = {chunk.id: chunk for chunk in chunks}
        self.communities = {community.id: community for level in hierarchy.levels for community in level}
        self.graph = graph
        self.nodes = {node.id: node for node in graph.nodes}
        self.edges = {edge.id: edge for edge in graph.edges}
        self.claims = {claim.id: claim for claim in graph.claims}

    def of_chunk(self, chunk_id: str) -> Evidence:
        """A chunk is its own evidence: its whole span."""
        if chunk_id not in self.chunks:
            raise NotFoundError(f"There is no chunk {chunk_id!r} among the {len(self.chunks)} given.")
        chunk = self.chunks[chunk_id]
        return Evidence((), (Source(chunk.id, chunk.document_id, chunk.start, chunk.end),))

    def of_words(self, text: str, chunk_ids: Iterable[str]) -> tuple[Source, ...]:
        """Where in some chunks a text stands word for word, white space aside; once where chunks overlap."""
        words = text.removeprefix("… ").removesuffix(" …").split()
        wanted = re.compile(r"\s+".join(map(re.escape, words)))
        places: dict[tuple[str, int, int], Source] = {}
        for chunk in (self.chunks[id_] for id_ in chunk_ids if id_ in self.chunks):
            if words and (found := wanted.search(chunk.text)):
                start, end = chunk.start + found.start(), chunk.start + found.end()
                places.setdefault((chunk.document_id, start, end), Source(chunk.id, chunk.document_id, start, end))
        return tuple(places.values())

    def of_report(self, community_id: str) -> Evidence:
        """Records and sources of a report.

        A record that is a sub-community stands for that one's records. Chunks that bear more of the records come
        first, then in the order of documents; within a chunk, spans in reading order.
        """
        if community_id not in self.reports:
            raise NotFoundError(f"There is no report of {community_id!r} among the {len(self.reports)} given.")
        records = tuple(self._records(community_id, set()))
        spans: dict[str, list[tuple[int, int]]] = {}
        for record in records:
            for chunk_id, start, end in self._spans(record):
                spans.setdefault(chunk_id, []).append((start, end))
        if not spans:  # nothing finer is known than the chunks it was made from
            report = self.reports[community_id]
            found = {chunk_id: self._whole(chunk_id) for chunk_id in report.chunk_ids if chunk_id in self.chunks}
            spans = {chunk_id: [whole] for chunk_id, whole in found.items()}
        return Evidence(records, tuple(self._ranked(spans)))

    def of_record(self, record: str) -> tuple[Source, ...]:
        """Where the documents bear out an entity, relationship or claim; a report's are those of `of_report`."""
        if record in self.reports:
            return self.of_report(record).sources
        if not (record in self.nodes or record in self.edges or record in self.claims):
            return ()
        return tuple(Source(id_, self.chunks[id_].document_id, start, end) for id_, start, end in self._spans(record))

    def _records(self, community_id: str, seen: set[str]) -> list[str]:
        """Ids of nodes, edges and claims below a report, each once, in the order met."""
        seen.add(community_id)
        report = self.reports.get(community_id)
        named = [record for finding in report.findings for record in finding.records] if report else []
        if not named and community_id in self.communities:
            named = self._elements(self.communities[community_id])
        records: list[str] = []
        for record in named:
            if record in seen:
                continue
            seen.add(record)
            if record in self.communities or record in self.reports:
                records += self._records(record, seen)
            elif record in self.nodes or record in self.edges or record in self.claims:
                records.append(record)
        return records

    def _elements(self, community: Community) -> list[str]:
        """A report without findings is its community's elements: nodes, the edges inside, the claims on them."""
        inside = set(community.node_ids)
        edges = [edge.id for edge in self.graph.edges if edge.source in inside and edge.target in inside]
        return [*community.node_ids, *edges, *(claim.id for claim in self.graph.claims if claim.subject in inside)]

    def _spans(self, record: str) -> list[tuple[str, int, int]]:
        """(chunk, start, end) for every chunk a record comes from.

        A node's span is its first mention; that of a relationship or claim reaches over the first mentions of its
        ends; where no mention is known it is the whole chunk.
        """
        item = self.nodes.get(record) or self.edges.get(record) or self.claims[record]
        ends = [self.nodes[end] for end in _ends(item) if end in self.nodes]
        spans = []
        for chunk_id in [item.chunk_id] if isinstance(item, GraphClaim) else item.chunk_ids:
            if chunk_id not in self.chunks:
                continue
            mentions = [first for end in ends if (first := _first_mention(end, chunk_id)) is not None]
            if mentions:
                spans.append((chunk_id, min(m.start for m in mentions), max(m.end for m in mentions)))
            else:
                spans.append((chunk_id, *self._whole(chunk_id)))
        return spans

    def _whole(self, chunk_id: str) -> tuple[int, int]:
        return self.chunks[chunk_id].start, self.chunks[chunk_id].end

    def _ranked(self, spans: Mapping[str, list[tuple[int, int]]]) -> list[Source]:
        def rank(chunk_id: str) -> tuple[int, str, int]:
            chunk = self.chunks[chunk_id]
            return -len(spans[chunk_id]), chunk.document_id, chunk.start

        return [
            Source(chunk_id, self.chunks[chunk_id].document_id, start, end)
            for chunk_id in sorted(spans, key=rank)
            for start, end in sorted(set(spans[chunk_id]))
        ]


def resolve_sources(
    kind: Literal["report", "chunk"],
    identifier: str,
    *,
    hierarchy: Hierarchy,
    reports: Mapping[str, Report],
    graph: Graph,
    chunks: Iterable[Chunk],
) -> Evidence:
    """Records and document spans below a report (by community id) or a chunk; see `Provenance`.

    Raises NotFoundError where there is no such report or chunk.
    """
    provenance = Provenance(hierarchy, reports, graph, chunks)
    return provenance.of_report(identifier) if kind == "report" else provenance.of_chunk(identifier)


def _first_mention(node: Node, chunk_id: str) -> Mention | None:
    found = [mention for mention in node.mentions if mention.chunk_id == chunk_id and mention.start >= 0]
    return min(found, key=lambda mention: (mention.start, mention.end), default=None)


def _ends(item: Node | Edge | GraphClaim) -> list[str]:
    if isinstance(item, Node):
        return [item.id]
    if isinstance(item, Edge):
        return [item.source, item.target]
    return [item.subject, item.object]
