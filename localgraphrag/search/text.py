"""TS: map-reduce over the chunks themselves, with no index in between (paper 4.1)."""

from __future__ import annotations

from collections.abc import Iterable

from localgraphrag.chunks import Chunk
from localgraphrag.communities import Hierarchy
from localgraphrag.config import Settings
from localgraphrag.embed import Embedder
from localgraphrag.graph import Graph
from localgraphrag.llm.units import Runner
from localgraphrag.prompts import Prompts
from localgraphrag.search.answer import Answer
from localgraphrag.search.mapreduce import MapReduce
from localgraphrag.search.passages import chunk_passage
from localgraphrag.search.question import check_question
from localgraphrag.search.sources import Provenance


def chunk_provenance(chunks: Iterable[Chunk]) -> Provenance:
    """Provenance of answers that cite chunks only."""
    return Provenance(Hierarchy(()), {}, Graph((), (), ()), chunks)


def text_search(
    question: str,
    *,
    chunks: Iterable[Chunk],
    settings: Settings,
    prompts: Prompts,
    runner: Runner,
    seed: int = 0,
    embedder: Embedder | None = None,
) -> Answer:
    """Answer from all the chunks: the same map-reduce as `global_search`, and the upper bound in tokens.

    Citations are chunks. `embedder` ranks quoted points by their nearness to the question, if there is one. Raises as
    `global_search` does, but for levels.
    """
    asked = check_question(question)
    given = list(chunks)
    search = MapReduce("ts", None, "chunks", seed, settings, prompts, runner, chunk_provenance(given), embedder)
    return search.answer(asked, [chunk_passage(chunk) for chunk in given])
