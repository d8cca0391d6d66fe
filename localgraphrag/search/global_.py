"""Global answers: map-reduce over the reports of one level (paper 3.1.6)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from localgraphrag.chunks import Chunk
from localgraphrag.communities import Hierarchy
from localgraphrag.config import Settings
from localgraphrag.embed import Embedder
from localgraphrag.errors import NotIndexedError
from localgraphrag.graph import Graph
from localgraphrag.llm.units import Runner
from localgraphrag.prompts import Prompts
from localgraphrag.search.answer import Answer
from localgraphrag.search.mapreduce import MapReduce
from localgraphrag.search.passages import report_passage
from localgraphrag.search.question import check_level, check_question
from localgraphrag.search.sources import Provenance
from localgraphrag.summaries import Report


def global_search(
    question: str,
    *,
    hierarchy: Hierarchy,
    reports: Mapping[str, Report],
    graph: Graph,
    chunks: Iterable[Chunk],
    settings: Settings,
    prompts: Prompts,
    runner: Runner,
    level: int = 0,
    seed: int = 0,
    embedder: Embedder | None = None,
) -> Answer:
    """Answer from all the reports of one level.

    Parameters
    ----------
    question : in any language; the answer is in the same.
    hierarchy, graph, chunks : of the index.
    reports : by community id; those of other levels too, as citations may lead through them.
    level : 0 is the coarsest.
    seed : of the shuffle; the order of reports depends on seed and level alone.
    embedder : ranks quoted points by their nearness to the question, if there is one.

    Returns
    -------
    Answer
        Citations are reports of the level. Where there is no community at all, or no report helps, the text says so
        and no answer is written. `record` names the reports that are missing.

    Raises
    ------
    ConfigError
        Empty question, or a level that the hierarchy does not have.
    NotIndexedError
        None of the level's reports has been written.
    ContextError
        The question leaves no room for reports.
    ModelError
        All map calls failed, or the reduce call.
    """
    asked = check_question(question)
    check_level(level, len(hierarchy.levels))
    communities = [community.id for community in hierarchy.levels[level]] if hierarchy.levels else []
    missing = [community for community in communities if community not in reports]
    if communities and len(missing) == len(communities):
        raise NotIndexedError(
            f"None of the {len(communities)} reports at level C{level} is written. "
            "Run `localgraphrag index` to write them, or ask at a level that has reports."
        )
    passages = [report_passage(reports[community]) for community in communities if community in reports]
    provenance = Provenance(hierarchy, reports, graph, chunks)
    search = MapReduce(
        "global", level, f"reports at level C{level}", seed, settings, prompts, runner, provenance, embedder
    )
    return search.answer(asked, passages, missing)
