"""Chunks to entities, relationships and claims, with gleanings (paper 3.1.2)."""
from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Entity:
    """A thing a chunk names. `start`, `end`: character span of the first mention within the *chunk's* text, -1 if
    the name is not a verbatim span of it. `gleaning`: 0 for the first pass, n for the n-th gleaning."""

    name: str
    type: str
    description: str
    start: int
    end: int
    gleaning: int = 0


@dataclass(frozen=True)
class Relationship:
    """Two entities of the chunk, by name, and what links them."""

    source: str
    target: str
    description: str
    gleaning: int = 0


@dataclass(frozen=True)
class Claim:
    """A statement about an entity that can be checked. Dates are as the text gives them, or empty."""

    subject: str
    object: str  # a name, or empty
    type: str
    status: Literal["true", "false", "suspected"]
    start_date: str
    end_date: str
    description: str


@dataclass(frozen=True)
class Extraction:
    """What was found in one chunk. `ungrounded` counts descriptions dropped because the chunk does not bear them out."""

    chunk_id: str
    entities: tuple[Entity, ...]
    relationships: tuple[Relationship, ...]
    claims: tuple[Claim, ...]
    ungrounded: int = 0
