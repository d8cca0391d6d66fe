"""Graph to a hierarchy of communities by recursive Leiden (paper 3.1.4)."""
from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Community:
    """A set of nodes at one level.

    `id` is "c-" and 12 hex digits of the hash of its sorted node ids, so a community carried down undivided keeps its id (and so
    its report) on every level. `parent` is the id of the community one level up ("" at C0), `children` the ids one level down.
    """

    id: str
    level: int
    parent: str
    children: tuple[str, ...]
    node_ids: tuple[str, ...]


@dataclass(frozen=True)
class Hierarchy:
    """`levels[k]` is the partition Ck, each level a complete cover, largest community first (ties: id)."""

    levels: tuple[tuple[Community, ...], ...]
