"""A question to an index: whatever it still needs is made, and the answer is recorded."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from localgraphrag import tables
from localgraphrag.economics import worked
from localgraphrag.errors import NotIndexedError, StoreError
from localgraphrag.llm.catalog import catalog, model_name
from localgraphrag.pipeline import embedded, reports_of
from localgraphrag.progress import OnProgress, Reporter
from localgraphrag.runner import StoredRunner
from localgraphrag.search import Answer, global_search, text_search, vector_search
from localgraphrag.search.question import Method, check_method
from localgraphrag.show import check_filled
from localgraphrag.store import Store

if TYPE_CHECKING:
    from localgraphrag.config import Settings
    from localgraphrag.embed import Embedder
    from localgraphrag.llm.types import Engine
    from localgraphrag.prompts import Prompts
    from localgraphrag.search.vector import Vectors
    from localgraphrag.summaries import Report


USUAL_REPLY = 250
"""Tokens of a call of an answer beside the texts it reads."""


class Asking:
    """One question at work: the state of the index it is asked of, and what answering it takes.

    Parameters
    ----------
    store : opened to read; answers and results of calls are recorded in short transactions of their own.
    embedder : needed for vector search; elsewhere it ranks quoted points by their nearness to the question, and the
        sentences that may be findings of a report by what they have in common.
    """

    def __init__(
        self,
        store: Store,
        settings: Settings,
        engine: Engine,
        prompts: Prompts,
        embedder: Embedder | None = None,
        progress: OnProgress | None = None,
    ) -> None:
        self.store, self.settings, self.prompts, self.embedder = store, settings, prompts, embedder
        self.index = tables.load_index(store)
        self.reporter = Reporter(progress, engine)
        documents = {chunk.id: chunk.document_id for chunk in self.index.chunks}
        self.runner = StoredRunner(engine, store, purpose="query", documents=documents)

    def answer(self, question: str, method: Method, level: int, seed: int) -> Answer:
        """Answer and record. `record["id"]` of the answer is what it can be shown by; "" where it could not be kept.

        Raises NotIndexedError when the index has no documents, or when reports are missing that this model did not
        begin; ConfigError for a method that there is not; and what the searches raise.
        """
        check_method(method)
        check_filled(self.store)
        reports = self._reports(level) if method == "global" else {}
        last = 0 if method == "ss" else 1  # the answer is put together when all batches are read
        with self.reporter.stage("answer", 0, question, self._usual_call(method), after=last) as stage:
            self.runner.stage = stage
            found = self._search(question, method, level, seed, reports)
        self.runner.finish()
        seconds = worked(self.store, self.runner.used) or found.usage.seconds
        return self._recorded(replace(found, record={**found.record, "seconds": round(seconds, 1)}))

    def _search(self, question: str, method: Method, level: int, seed: int, reports: dict[str, Report]) -> Answer:
        index = self.index
        if method == "global":
            return global_search(
                question, hierarchy=index.hierarchy, reports=reports, graph=index.graph, chunks=index.chunks,
                settings=self.settings, prompts=self.prompts, runner=self.runner, level=level, seed=seed,
                embedder=self.embedder,
            )  # fmt: skip
        if method == "ts":
            return text_search(
                question,
                chunks=index.chunks,
                settings=self.settings,
                prompts=self.prompts,
                runner=self.runner,
                seed=seed,
                embedder=self.embedder,
            )
        assert self.embedder is not None
        return vector_search(
            question, chunks=index.chunks, vectors=self._vectors(self.embedder), embedder=self.embedder,
            settings=self.settings, prompts=self.prompts, runner=self.runner,
        )  # fmt: skip

    def _usual_call(self, method: Method) -> float:
        """Tokens that a call of an answer will likely take, the first time."""
        budget = self.settings.vector_budget if method == "ss" else self.settings.map_budget
        return budget + USUAL_REPLY

    def _reports(self, level: int) -> dict[str, Report]:
        """The reports there are, and those of the level that were not written yet."""
        index = self.index
        if not 0 <= level < len(index.hierarchy.levels):
            return index.reports  # the search says which levels there are
        missing = [c for c in index.hierarchy.levels[level] if c.id not in index.reports]
        if not missing:
            return index.reports
        made_by = self.store.get("model")
        if made_by != self.runner.engine.identity:
            name = model_name(made_by or "")
            option = f" (`--model {name}`)" if name in catalog() else ""
            raise NotIndexedError(
                f"{len(missing)} reports of level C{level} are not written yet, and this index was made by another "
                f"model ({name}). Ask with that model{option}, or at a level that has reports, or index again with "
                "this one."
            )
        written = reports_of(
            index.graph,
            index.hierarchy,
            [level],
            index.reports,
            self.settings,
            self.prompts,
            self.runner,
            self.reporter,
            self.embedder,
        )
        reports = {**index.reports, **written}
        with self._if_possible():
            tables.save_reports(self.store, {c.id: reports[c.id] for c in missing if c.id in reports})
        return reports

    def _vectors(self, embedder: Embedder) -> Vectors:
        """Ids and vectors of all chunks; those not embedded yet are now, and kept where the file can be written."""
        import numpy as np

        chunks = self.index.chunks
        vectors = tables.load_vectors(self.store, embedder.identity)
        with self.reporter.stage("vectors") as stage:
            for ids, rows in embedded([c for c in chunks if c.id not in vectors], embedder, stage):
                vectors |= dict(zip(ids, rows, strict=True))
                with self._if_possible():
                    tables.save_vectors(self.store, embedder.identity, ids, rows)
        order: Sequence[str] = [chunk.id for chunk in chunks]
        return order, np.stack([vectors[id_] for id_ in order])

    def _recorded(self, answer: Answer) -> Answer:
        id_ = tables.answer_id(self.index.state, answer)
        kept = replace(answer, record={**answer.record, "id": id_})
        seen = (chunk for _name, chunks in self.runner.used.values() for chunk in chunks)
        with self._if_possible():
            tables.save_answer(self.store, kept, self.index.state, seen)
            return kept
        return replace(answer, record={**answer.record, "id": ""})

    def _if_possible(self) -> AbstractContextManager[None]:
        """Nothing is kept for later where the file cannot be written, or when it was indexed anew meanwhile."""
        return suppress(StoreError, sqlite3.IntegrityError)
