"""Extractions to one weighted graph (paper 3.1.3)."""
from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Sourced:
    """A description and the chunk it came from."""

    text: str
    chunk_id: str


@dataclass(frozen=True)
class Mention:
    """Where an entity is named: character span in the *document* (the chunk's start is added)."""

    chunk_id: str
    start: int
    end: int


@dataclass(frozen=True)
class Node:
    """An entity merged over all chunks.

    `id` is "e-" and 12 hex digits of the hash of `key`, the name after NFKC, whitespace folding and casefold; `name` the most
    frequent surface form (ties: the smallest string); `type` by vote. `descriptions` are distinct, in chunk order.
    `chunk_ids`: chunks that name it, in document and chunk order. `degree`: number of distinct neighbours.
    """

    id: str
    key: str
    name: str
    type: str
    descriptions: tuple[Sourced, ...]
    mentions: tuple[Mention, ...]
    chunk_ids: tuple[str, ...]
    degree: int


@dataclass(frozen=True)
class Edge:
    """A relationship merged over all chunks, undirected. `id` "r-" and 12 hex digits; `source` and `target` are node ids,
    source < target; `weight` counts the times it was found across chunks."""

    id: str
    source: str
    target: str
    weight: int
    descriptions: tuple[Sourced, ...]
    chunk_ids: tuple[str, ...]


@dataclass(frozen=True)
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
