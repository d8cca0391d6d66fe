"""Extractions to one weighted graph (paper 3.1.3)."""

from __future__ import annotations

import json
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any

from localgraphrag.errors import NotFoundError
from localgraphrag.llm.output import schema
from localgraphrag.llm.types import Message, Request
from localgraphrag.llm.units import Conversation, Outcome, Unit, content_hash
from localgraphrag.mentions import Searchable
from localgraphrag.sentences import whole
from localgraphrag.spacing import spaced

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from localgraphrag.chunks import Chunk
    from localgraphrag.config import Settings
    from localgraphrag.extract import Entity, Extraction
    from localgraphrag.llm.types import Tokenizer
    from localgraphrag.prompts import Prompts


@dataclass(frozen=True, slots=True)
class Sourced:
    """A description and the chunk it came from."""

    text: str
    chunk_id: str


@dataclass(frozen=True, slots=True)
class Mention:
    """Where an entity is named: character span in the *document* (the chunk's start is added)."""

    chunk_id: str
    start: int
    end: int


class _Described:
    """What nodes and edges share: `description`."""

    __slots__ = ()
    descriptions: tuple[Sourced, ...]
    summary: str

    @property
    def description(self) -> str:
        """The merged description where one was written, else all of them, one a line."""
        return self.summary or "\n".join(d.text for d in self.descriptions)


@dataclass(frozen=True, slots=True)
class Node(_Described):
    """An entity merged over all chunks.

    `id` is "e-" and 12 hex digits of the hash of `key`, the name after NFKC, whitespace folding and casefold; `name`
    the most frequent surface form (ties: the smallest string); `type` by vote (`other` loses ties).
    `descriptions` are distinct, in chunk order. `mentions`: where the chunks that name it do so, each span of a
    document once, in document and chunk order.
    `chunk_ids`: chunks that name it, in document and chunk order. `degree`: number of distinct neighbours.
    `summary`: the descriptions merged by the model, or "" where they are short enough to stand as they are.
    """

    id: str
    key: str
    name: str
    type: str
    descriptions: tuple[Sourced, ...]
    mentions: tuple[Mention, ...]
    chunk_ids: tuple[str, ...]
    degree: int
    summary: str = ""


@dataclass(frozen=True, slots=True)
class Edge(_Described):
    """A relationship merged over all chunks, undirected.

    `id` is "r-" and 12 hex digits; `source` and `target` are node ids, source < target; `weight` counts the times it
    was found across chunks; `summary` as for a node.
    """

    id: str
    source: str
    target: str
    weight: int
    descriptions: tuple[Sourced, ...]
    chunk_ids: tuple[str, ...]
    summary: str = ""


@dataclass(frozen=True, slots=True)
class GraphClaim:
    """A claim whose subject (and object, or "") are node ids. `id` "k-" and 12 hex digits."""

    id: str
    subject: str
    object: str
    type: str
    status: str
    start_date: str
    end_date: str
    description: str
    chunk_id: str


@dataclass(frozen=True)
class Graph:
    """Nodes, edges and claims, each sorted by id."""

    nodes: tuple[Node, ...]
    edges: tuple[Edge, ...]
    claims: tuple[GraphClaim, ...]

    def node(self, node_id: str) -> Node:
        """The node of that id. Raises NotFoundError."""
        if node_id not in self._nodes:
            raise NotFoundError(
                f"No entity has the id '{node_id}'. The graph holds {len(self.nodes)}; look one up by name instead."
            )
        return self._nodes[node_id]

    def edge(self, edge_id: str) -> Edge:
        """The edge of that id. Raises NotFoundError."""
        if edge_id not in self._edges:
            raise NotFoundError(
                f"No relationship has the id '{edge_id}'. The graph holds {len(self.edges)}; "
                "show an entity to see the ids of its own."
            )
        return self._edges[edge_id]

    def edges_of(self, node_id: str) -> tuple[Edge, ...]:
        """The edges at a node, by id. Raises NotFoundError."""
        return self._incident.get(self.node(node_id).id, ())

    def neighbours(self, node_id: str) -> tuple[Node, ...]:
        """The nodes that share an edge with a node, by edge id. Raises NotFoundError."""
        return tuple(self._nodes[e.target if e.source == node_id else e.source] for e in self.edges_of(node_id))

    def claims_of(self, node_id: str) -> tuple[GraphClaim, ...]:
        """The claims whose subject a node is, by id. Raises NotFoundError."""
        return self._claims.get(self.node(node_id).id, ())

    @cached_property
    def nodes_by_key(self) -> dict[str, Node]:
        """Nodes by normalized name: `graph.nodes_by_key[normalize_name("Ada Byron")]`."""
        return {node.key: node for node in self.nodes}

    @cached_property
    def _nodes(self) -> dict[str, Node]:
        return {node.id: node for node in self.nodes}

    @cached_property
    def _edges(self) -> dict[str, Edge]:
        return {edge.id: edge for edge in self.edges}

    @cached_property
    def _incident(self) -> dict[str, tuple[Edge, ...]]:
        found: defaultdict[str, list[Edge]] = defaultdict(list)
        for edge in self.edges:
            found[edge.source].append(edge)
            found[edge.target].append(edge)
        return {node_id: tuple(edges) for node_id, edges in found.items()}

    @cached_property
    def _claims(self) -> dict[str, tuple[GraphClaim, ...]]:
        found: defaultdict[str, list[GraphClaim]] = defaultdict(list)
        for claim in self.claims:
            found[claim.subject].append(claim)
        return {node_id: tuple(claims) for node_id, claims in found.items()}


@lru_cache(maxsize=1 << 16)
def normalize_name(name: str) -> str:
    r"""The key under which surface forms are one entity: NFKC, white space folded, casefold.

    >>> normalize_name("  IBM\nCorp. ") == normalize_name("ＩＢＭ corp.")
    True
    """
    folded = unicodedata.normalize("NFKC", name).casefold()
    return " ".join(unicodedata.normalize("NFKC", folded).split())  # casefold can undo NFKC, so once more


def build_graph(chunks: Sequence[Chunk], extractions: Mapping[str, Extraction]) -> Graph:
    """Merge what was found in each chunk into one graph, by exact normalized name (paper 3.1.3).

    Parameters
    ----------
    chunks : in any order; those without an extraction (failed, not yet done) add nothing.
    extractions : by chunk id.

    Returns
    -------
    The same graph whatever the order of chunks and extractions. Self-loops, and relationships and claims about names
    that their chunk's extraction does not list, are left out.
    """
    ordered = sorted({c.id: c for c in chunks}.values(), key=lambda c: (c.document_id, c.ordinal, c.start, c.id))
    found = _Found()
    for chunk in ordered:
        if chunk.id in extractions:
            found.add(chunk, extractions[chunk.id])
    edges = tuple(sorted((_edge(pair, times) for pair, times in found.relationships.items()), key=lambda e: e.id))
    found.relationships.clear()  # of a large corpus, hundreds of megabytes
    degrees = Counter(end for edge in edges for end in (edge.source, edge.target))
    mentions = _mentions(ordered, found.entities)
    nodes = (_node(key, times, mentions[key], degrees[_node_id(key)]) for key, times in found.entities.items())
    return Graph(tuple(sorted(nodes, key=lambda n: n.id)), edges, tuple(found.claims[k] for k in sorted(found.claims)))


@dataclass
class _Found:
    """Everything the extractions say, grouped by what it is about, in chunk order."""

    entities: dict[str, list[tuple[Chunk, Entity]]] = field(default_factory=lambda: defaultdict(list))
    relationships: dict[tuple[str, str], list[Sourced]] = field(default_factory=lambda: defaultdict(list))
    claims: dict[str, GraphClaim] = field(default_factory=dict)

    def add(self, chunk: Chunk, extraction: Extraction) -> None:
        ids: dict[str, str] = {}
        for entity in extraction.entities:
            key = normalize_name(entity.name)
            if key:
                self.entities[key].append((chunk, entity))
                ids[key] = _node_id(key)
        for relationship in extraction.relationships:
            source, target = (ids.get(normalize_name(n), "") for n in (relationship.source, relationship.target))
            if source and target and source != target:
                pair = (source, target) if source < target else (target, source)
                self.relationships[pair].append(Sourced(relationship.description, chunk.id))
        for c in extraction.claims:
            subject, object_ = (ids.get(normalize_name(n), "") for n in (c.subject, c.object))
            if subject:
                facts = (subject, object_, c.type, c.status, c.start_date, c.end_date, c.description, chunk.id)
                claim = GraphClaim(_short_id("k", *facts), *facts)
                self.claims[claim.id] = claim


def _short_id(letter: str, *parts: str) -> str:
    return f"{letter}-{content_hash(*parts)[:12]}"


@lru_cache(maxsize=1 << 16)
def _node_id(key: str) -> str:
    return _short_id("e", key)


def _node(key: str, times: list[tuple[Chunk, Entity]], mentions: tuple[Mention, ...], degree: int) -> Node:
    names = Counter(_surface(entity.name) for _, entity in times)
    types = Counter(entity.type for _, entity in times)
    return Node(
        id=_node_id(key),
        key=key,
        name=min(names, key=lambda n: (-names[n], n)),
        type=min(types, key=lambda t: (-types[t], t == "other", t)),
        descriptions=_distinct(Sourced(entity.description, chunk.id) for chunk, entity in times),
        mentions=mentions,
        chunk_ids=tuple(dict.fromkeys(chunk.id for chunk, _ in times)),
        degree=degree,
    )


def _edge(pair: tuple[str, str], times: list[Sourced]) -> Edge:
    chunk_ids = tuple(dict.fromkeys(found.chunk_id for found in times))
    return Edge(_short_id("r", *pair), *pair, weight=len(times), descriptions=_distinct(times), chunk_ids=chunk_ids)


def _surface(name: str) -> str:
    return " ".join(name.split())


def _distinct(descriptions: Iterable[Sourced]) -> tuple[Sourced, ...]:
    first: dict[str, Sourced] = {}
    for found in descriptions:
        text = found.text.strip()
        if text and text not in first:
            first[text] = found if text == found.text else Sourced(text, found.chunk_id)
    return tuple(first.values())


def _mentions(
    ordered: Sequence[Chunk], entities: Mapping[str, list[tuple[Chunk, Entity]]]
) -> dict[str, tuple[Mention, ...]]:
    """Mentions by entity key, searched for under every surface form the entity has anywhere."""
    named: defaultdict[str, dict[str, Entity]] = defaultdict(dict)
    surfaces: dict[str, tuple[str, ...]] = {}
    for key, times in entities.items():
        surfaces[key] = tuple(dict.fromkeys(_surface(entity.name) for _, entity in times))
        for chunk, entity in times:
            named[chunk.id].setdefault(key, entity)
    found: dict[str, list[Mention]] = {key: [] for key in entities}
    for position, chunk in enumerate(ordered):
        if chunk.id not in named:
            continue
        before = _character(ordered[position - 1] if position else None, chunk.document_id, chunk.start - 1)
        after = _character(next(iter(ordered[position + 1 : position + 2]), None), chunk.document_id, chunk.end)
        text = Searchable(chunk.text, before, after)
        for key, entity in named[chunk.id].items():
            spans = sorted({span for name in surfaces[key] for span in text.find(name)})
            for first, last in spans or _extracted_span(chunk, entity):
                found[key].append(Mention(chunk.id, chunk.start + first, chunk.start + last))
    documents = {chunk.id: chunk.document_id for chunk in ordered}
    return {key: _each_span_once(mentions, documents) for key, mentions in found.items()}


def _each_span_once(mentions: list[Mention], documents: Mapping[str, str]) -> tuple[Mention, ...]:
    """Without what an overlapping chunk saw again."""
    first: dict[tuple[str, int, int], Mention] = {}
    for mention in mentions:
        first.setdefault((documents[mention.chunk_id], mention.start, mention.end), mention)
    return tuple(first.values())


def _extracted_span(chunk: Chunk, entity: Entity) -> list[tuple[int, int]]:
    """The span that extraction saw, for a name that is nowhere a word of its own (part of a compound)."""
    if entity.start < 0 or normalize_name(chunk.text[entity.start : entity.end]) != normalize_name(entity.name):
        return []
    return [(entity.start, entity.end)]


def _character(chunk: Chunk | None, document_id: str, position: int) -> str:
    """The document's character there, if the chunk covers it."""
    if chunk is None or chunk.document_id != document_id or not chunk.start <= position < chunk.end:
        return ""
    return chunk.text[position - chunk.start]


# Many descriptions of one thing, merged by the model.


@dataclass(frozen=True)
class MergedDescription:
    """One text in place of many. The sources stay with the node or edge."""

    text: str


def description_units(
    graph: Graph, settings: Settings, prompts: Prompts, tokenizer: Tokenizer
) -> Iterator[Unit[MergedDescription]]:
    """One unit for each node and edge whose written descriptions together exceed `description_budget` tokens.

    None where descriptions are quoted: a merged one would be in the model's words (docs/log.md has what came).

    The unit's name is the node's or edge's id. A call shows at most what the context window holds: of more
    descriptions, evenly spaced ones.
    """
    if settings.descriptions == "quoted":
        return
    names = {node.id: node.name for node in graph.nodes}
    for node in graph.nodes:
        if _is_long(node, settings.description_budget, tokenizer):
            yield _description_unit(node, node.name, settings, prompts, tokenizer)
    for edge in graph.edges:
        if _is_long(edge, settings.description_budget, tokenizer):
            yield _description_unit(edge, f"{names[edge.source]} - {names[edge.target]}", settings, prompts, tokenizer)


def with_descriptions(graph: Graph, outcomes: Iterable[Outcome[MergedDescription]]) -> Graph:
    """The graph with the merged descriptions as `summary`. A failed outcome leaves the descriptions as they were."""
    texts = {outcome.unit.name: outcome.value.text for outcome in outcomes if outcome.value is not None}
    return replace(
        graph,
        nodes=tuple(replace(n, summary=texts[n.id]) if n.id in texts else n for n in graph.nodes),
        edges=tuple(replace(e, summary=texts[e.id]) if e.id in texts else e for e in graph.edges),
    )


def _is_long(item: Node | Edge, budget: int, tokenizer: Tokenizer) -> bool:
    if len(item.descriptions) < 2:
        return False
    text = "\n".join(d.text for d in item.descriptions)
    return len(text.encode()) > budget and tokenizer.count(text) > budget  # a token is a byte or more: often no count


def _description_unit(
    item: Node | Edge, name: str, settings: Settings, prompts: Prompts, tokenizer: Tokenizer
) -> Unit[MergedDescription]:
    budget = settings.description_budget
    rules = prompts.render("describe", subject="", descriptions=[])
    fixed = tokenizer.count(rules) + tokenizer.count(name) + budget + 200  # 200: chat format and labels
    room, most = settings.context_window - fixed, 4 * budget  # tokens, characters
    shown = spaced([(d, tokenizer.count(d.text) + 4) for d in item.descriptions], room)
    request = Request(
        prompt=prompts.render("describe", subject=name, descriptions=[d.text for d in shown]),
        output=schema({"description": {"type": "string", "minLength": 1, "maxLength": most}}),
        prefix=(Message("system", rules),),
        max_tokens=budget + 20,  # the JSON around the text
        seed=settings.seed,
    )

    def ask() -> Conversation[MergedDescription]:
        reply = yield request
        return MergedDescription(whole(json.loads(reply.text)["description"], most))

    inputs = (rules, request.prompt, request.output.schema, str(request.max_tokens), str(request.seed))
    chunk_ids = tuple(dict.fromkeys(d.chunk_id for d in shown))
    return Unit("describe", 2, item.id, inputs, MergedDescription, ask, chunk_ids)


# Other forms of the graph.


@dataclass(frozen=True)
class Links:
    """Weighted links between nodes by their position in `Graph.nodes`.

    Three arrays of one length; source < target, in ascending order, each pair once.
    """

    sources: NDArray[np.int64]
    targets: NDArray[np.int64]
    weights: NDArray[np.float64]


def weighted_links(graph: Graph, cooccurrence_weight: float = 0.0) -> Links:
    """The graph's edges as arrays, each pair that shares chunks weighing `cooccurrence_weight` more for each."""
    import numpy as np

    size = max(len(graph.nodes), 1)
    index = {node.id: i for i, node in enumerate(graph.nodes)}
    pairs = np.fromiter((index[e.source] * size + index[e.target] for e in graph.edges), np.int64, len(graph.edges))
    weights = np.fromiter((e.weight for e in graph.edges), np.float64, len(graph.edges))
    if cooccurrence_weight > 0:
        shared, times = _shared_chunks(graph)
        pairs = np.concatenate((pairs, shared))
        weights = np.concatenate((weights, times * cooccurrence_weight))
    pairs, weights = _add_up(pairs, weights)
    return Links(pairs // size, pairs % size, weights)


def _shared_chunks(graph: Graph) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Pairs of nodes that share a chunk, coded as `i * len(nodes) + j` with i < j, and how many chunks they share."""
    import numpy as np

    index: dict[str, int] = {}
    entries = sum(len(node.chunk_ids) for node in graph.nodes)
    numbers = (index.setdefault(chunk_id, len(index)) for node in graph.nodes for chunk_id in node.chunk_ids)
    chunk_of = np.fromiter(numbers, np.int64, entries)
    node_of = np.repeat(np.arange(len(graph.nodes)), [len(node.chunk_ids) for node in graph.nodes])
    members = node_of[np.argsort(chunk_of, kind="stable")]
    sizes = np.bincount(chunk_of)
    starts = np.cumsum(sizes) - sizes
    blocks = [(np.empty(0, np.int64), np.empty(0))]
    for size in np.unique(sizes[sizes > 1]):  # chunks of equal size make one rectangular block
        block = members[starts[sizes == size][:, None] + np.arange(size)]
        first, second = np.triu_indices(size, 1)
        pairs, times = np.unique(block[:, first] * len(graph.nodes) + block[:, second], return_counts=True)
        blocks.append((pairs, times.astype(np.float64)))
    return _add_up(np.concatenate([b[0] for b in blocks]), np.concatenate([b[1] for b in blocks]))


def _add_up(keys: NDArray[np.int64], values: NDArray[np.float64]) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Distinct keys, ascending, with the sum of their values."""
    import numpy as np

    order = np.argsort(keys, kind="stable")
    keys = keys[order]
    first = np.flatnonzero(np.diff(keys, prepend=-1))
    return keys[first], np.add.reduceat(values[order], first) if len(first) else values


def to_networkx(graph: Graph, cooccurrence_weight: float = 0.0) -> Any:
    """The graph as a `networkx.Graph`, nodes by id, in the order of `Graph.nodes`.

    Nodes have `name`, `type`, `description`, `degree`, `mentions` (how many); edges have `weight`, `id`, `description`.
    With a `cooccurrence_weight` pairs that share chunks weigh more; those that share nothing else have an empty `id`.
    """
    import networkx as nx

    result = nx.Graph()
    for n in graph.nodes:
        shown = {"name": n.name, "type": n.type, "description": n.description}
        result.add_node(n.id, **shown, degree=n.degree, mentions=len(n.mentions))
    for e in graph.edges:
        result.add_edge(e.source, e.target, id=e.id, weight=e.weight, description=e.description)
    if cooccurrence_weight > 0:
        links = weighted_links(graph, cooccurrence_weight)
        for i, j, weight in zip(links.sources.tolist(), links.targets.tolist(), links.weights.tolist(), strict=True):
            source, target = graph.nodes[i].id, graph.nodes[j].id
            known = result.edges.get((source, target), {"id": "", "description": ""})
            result.add_edge(source, target, **(known | {"weight": weight}))
    return result
