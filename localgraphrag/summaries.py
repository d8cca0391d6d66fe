"""Hierarchy to a report per community, bottom-up under a token budget (paper 3.1.5)."""
from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Finding:
    """One finding of a report. `records`: ids of the nodes, edges, claims or child communities it rests on."""

    summary: str
    explanation: str
    records: tuple[str, ...]


@dataclass(frozen=True)
class Report:
    """What a community is about.

    `rating` 0-10 says how much it matters, `rating_reason` why. `written` is False where the community's own element
    summaries are the report and no model was called. `text` is the report as later prompts show it.
    `chunk_ids`: the chunks its records come from.
    """

    community_id: str
    title: str
    summary: str
    rating: int
    rating_reason: str
    findings: tuple[Finding, ...]
    written: bool
    text: str
    chunk_ids: tuple[str, ...]
