"""SS, vector search: one call over the chunks nearest to the question (paper 4.1).

The paper fills the context window. A model of 1.5B that reads 7,000 tokens mixes up who did what (docs/log.md), and a
laptop takes minutes to read them; `vector_budget` sets how many it is given.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from localgraphrag.chunks import Chunk
from localgraphrag.config import Settings
from localgraphrag.embed import Embedder
from localgraphrag.errors import ConfigError, ModelError
from localgraphrag.grounding import pieces
from localgraphrag.llm.types import Message, Request, Usage
from localgraphrag.llm.units import Runner, run_all
from localgraphrag.prompts import Prompts
from localgraphrag.search.answer import Answer
from localgraphrag.search.mapreduce import context_of
from localgraphrag.search.passages import Passage, chunk_passage, room_for, split
from localgraphrag.search.question import check_question
from localgraphrag.search.reply import (
    MAX_PARAGRAPHS,
    Paragraph,
    Written,
    answer_output,
    as_record,
    headed_output,
    one_turn,
    quotation,
    read_answer,
    read_headed,
    render,
    shortened,
)
from localgraphrag.search.text import chunk_provenance
from localgraphrag.sentences import is_statement

Vectors = tuple[Sequence[str], NDArray[np.float32]]
"""Chunk ids, and their vectors as the rows of a float32 matrix, L2-normalised."""


def vector_search(
    question: str,
    *,
    chunks: Iterable[Chunk],
    vectors: Vectors,
    embedder: Embedder,
    settings: Settings,
    prompts: Prompts,
    runner: Runner,
) -> Answer:
    """Answer from the chunks nearest to the question by cosine, as many as fit `vector_budget`.

    Parameters
    ----------
    question : in any language the embedder knows.
    chunks : of the index.
    vectors : ids and matrix of shape (n, d) made by the same `embedder`. A chunk without a vector cannot be found; the
        record names it.

    Returns
    -------
    Answer
        Citations are chunks, their sources the sentences that bear out what is said where these are known, as with
        `descriptions = "quoted"`. Where the chunks hold no answer, the text says so.

    Raises
    ------
    ConfigError
        Empty question, or vectors of another embedder's dimensions.
    ContextError
        The question leaves no room for chunks.
    ModelError
        The call failed.
    """
    asked = check_question(question)
    given = {chunk.id: chunk for chunk in chunks}
    order = nearest(asked, vectors, embedder)
    known = [(chunk_id, score) for chunk_id, score in order if chunk_id in given]
    ranked = {chunk_id: score for chunk_id, score in known}
    search = _VectorSearch(asked, settings, prompts, runner)
    passages, room = search.fill([chunk_passage(given[chunk_id]) for chunk_id, _ in known])
    record: dict[str, Any] = {
        "method": "ss",
        "level": None,
        "seed": None,
        "model": runner.engine.identity,
        "embedder": embedder.identity,
        "budgets": {
            "context": context_of(settings, runner),
            "vector_budget": settings.vector_budget,
            "answer_tokens": settings.answer_tokens,
            "room": room,
        },
        "batches": [{"ids": list(dict.fromkeys(passage.id for passage in passages))}],
        "similarity": {passage.id: round(ranked[passage.id], 6) for passage in passages},
        "split": {passage.id: passage.part for passage in passages if passage.part},
        "missing": [chunk_id for chunk_id in given if chunk_id not in ranked],
        "dropped": {
            "count": len(known) - len({passage.id for passage in passages}),
            "reason": f"the {room} tokens for chunks are full",
        },
    }
    if not passages:
        text = "There are no chunks with vectors, so there is nothing to answer from. No model was called."
        return Answer(asked, "ss", None, text, (), Usage(), {**record, "cached_calls": 0, "usage": as_record(Usage())})
    said = search.said(passages)
    unit = one_turn(
        "answer", "SS answer", search.request(passages), search.reader(said), Written, passages,
        beside=[sentence for _, sentence in said],
    )  # fmt: skip
    outcome = run_all(runner, [unit])[unit.name]
    if outcome.value is None:
        error = outcome.error.rstrip(".")
        raise ModelError(f"The answer could not be written from {len(passages)} chunks: {error}. Ask again.")
    text, citations = render(
        outcome.value,
        lambda label: (passages[said[label - 1][0] - 1],),
        chunk_provenance(given.values()),
        lambda label: said[label - 1][1],
    )
    text = text or _nothing_said(len(passages), len(given), len(outcome.value.refused))
    reply = {"reply": as_record(outcome.value), "cached_calls": int(outcome.cached), "usage": as_record(outcome.usage)}
    return Answer(asked, "ss", None, text, citations, outcome.usage, {**record, **reply})


def _nothing_said(shown: int, of: int, refused: int) -> str:
    nearest = f"The {shown} chunks nearest to the question, of {of},"
    if not refused:
        return f"{nearest} hold no answer to it."
    wrote = "one sentence, which is" if refused == 1 else f"{refused} sentences, which are"
    return (
        f"{nearest} hold no answer to it that stands there: the model wrote {wrote} left out, as no sentence of "
        "the chunks bears it out (the record has it). A question about the whole is for the global method."
    )


def nearest(question: str, vectors: Vectors, embedder: Embedder) -> list[tuple[str, float]]:
    """Chunk ids with their cosine to the question, nearest first (ties: in the order given).

    Raises ConfigError when the vectors are not the embedder's.
    """
    ids, matrix = vectors
    if not len(ids):
        return []
    if matrix.shape != (len(ids), embedder.dimensions):
        raise ConfigError(
            f"The index holds vectors of shape {matrix.shape} for {len(ids)} chunks; the embedder "
            f"'{embedder.identity}' makes {embedder.dimensions} numbers per text. Run `localgraphrag index` again with "
            "this embedder, or set `embedder` to the one the index was made with."
        )
    cosines = matrix @ embedder.embed([question])[0]
    return [(ids[row], float(cosines[row])) for row in np.argsort(-cosines, kind="stable")]


class _VectorSearch:
    """The one call: what it shows and how much of it fits."""

    def __init__(self, question: str, settings: Settings, prompts: Prompts, runner: Runner) -> None:
        self.question, self.settings, self.prompts, self.runner = question, settings, prompts, runner
        self.quoted = settings.descriptions == "quoted"

    def request(self, passages: Sequence[Passage]) -> Request:
        prefix: tuple[Message, ...] = (Message("system", self.prompts.render("answer_system", quoted=self.quoted)),)
        if self.quoted:
            prefix += (
                Message("user", self.prompts.render("map_example", quoted=False)),
                Message("assistant", self.prompts.render("answer_example_reply")),
            )
        prompt = self.prompts.render("answer", passages=list(passages), question=self.question)
        if self.quoted:
            output = headed_output(may_be_empty=True)
        else:
            output = answer_output(max(len(passages), 1), may_be_empty=True)
        return Request(prompt, output, prefix, max_tokens=self.settings.answer_tokens)

    def reader(self, said: Sequence[tuple[int, str]]) -> Callable[[str], Written]:
        """What makes an answer of the reply, its labels those of `said`."""
        return partial(self._read, said) if self.quoted else read_answer

    def said(self, passages: Sequence[Passage]) -> list[tuple[int, str]]:
        """What an answer's labels count, each with the label of its passage: sentences, titles among them.

        Where the model names the passages itself it is these, and "" for their sentences.
        """
        if not self.quoted:
            return [(label, "") for label in range(1, len(passages) + 1)]
        return [
            (label, sentence)
            for label, passage in enumerate(passages, 1)
            for sentence in (passage.title, *passage.said)
        ]

    def _read(self, said: Sequence[tuple[int, str]], text: str) -> Written:
        """The answer, each paragraph with the sentences (labels of `said`) that bear it out.

        Not with passages: one has so many words that it bears out almost anything about its subject.
        """
        example = self.prompts.render("map_example", quoted=False) + self.prompts.render("answer_example_reply")
        written = read_headed(text, [sentence for _, sentence in said], self.question, example)
        return replace(written, paragraphs=written.paragraphs or tuple(self._instead(written.refused, said)))

    def _instead(self, refused: Sequence[Paragraph], said: Sequence[tuple[int, str]]) -> list[Paragraph]:
        """Where nothing that the model wrote is borne out: statements that hold most of a sentence's words.

        A sentence that only says that there is no answer has few words of any statement.
        """
        told = {text: label for label, (_, text) in enumerate(said, 1) if is_statement(text)}
        words = {text: pieces(text) for text in told}
        found: dict[str, int] = {}
        for sentence in refused:
            wanted = pieces(sentence.text)
            best = max(words, key=lambda text: len(words[text] & wanted), default="")
            if best and len(words[best] & wanted) > len(wanted) / 2:
                found.setdefault(best, told[best])
        return [quotation(shortened(text), label) for text, label in found.items()][:MAX_PARAGRAPHS]

    def measure(self, passages: Sequence[Passage]) -> int:
        return self.runner.engine.prompt_tokens(self.request(passages))

    def fill(self, passages: Sequence[Passage]) -> tuple[list[Passage], int]:
        """The leading passages that fit, and the tokens there were for them.

        The first is shown in pieces, as many as fit, if it is larger than the room.
        """
        context = context_of(self.settings, self.runner)
        base = self.measure(())
        reserve = self.settings.answer_tokens
        room = room_for(
            self.settings.vector_budget, overhead=base, reserve=reserve, context=context, question=self.question
        )
        pieces = split(passages[0], lambda p: self.measure((p,)) - base <= room) if passages else []
        taken: list[Passage] = []
        for passage in (*pieces, *passages[1:]):
            if self.measure([*taken, passage]) - base > room:
                break
            taken.append(passage)
        return taken, room
