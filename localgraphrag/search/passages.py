"""Passages and budgets: what a question is put to, shuffled and packed into batches (paper 3.1.6)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeVar

from localgraphrag.chunks import Chunk
from localgraphrag.errors import ContextError
from localgraphrag.llm.units import content_hash
from localgraphrag.sentences import whole_sentences
from localgraphrag.summaries import Report

T = TypeVar("T")

Measure = Callable[[Sequence[T]], int]
"""Tokens of the whole prompt that shows these items: instructions, question and chat format included."""

MIN_ROOM = 100
"""Tokens that must be left for passages or points; with less a call is not worth making."""

MAX_TITLE = 160


@dataclass(frozen=True)
class Passage:
    """A text that can be cited: a community's report or a chunk.

    `id` is the community's or the chunk's. `chunk_ids`: the chunks whose words it shows. `part` is 0 for a whole
    passage, else counts the pieces, from 1, of one that was larger than a batch. `around`: see `Chunk`.
    """

    id: str
    kind: Literal["report", "chunk"]
    title: str
    text: str
    chunk_ids: tuple[str, ...]
    part: int = 0
    around: tuple[str, str] = ("", "")

    @property
    def said(self) -> list[str]:
        """What it says that can be quoted: the lines of a report's findings, or a chunk's whole sentences."""
        if self.kind == "report":
            return [line[2:] for line in self.text.splitlines() if line.startswith("- ")]
        return [sentence.text for sentence in whole_sentences(self.text, self.around)]


def report_passage(report: Report) -> Passage:
    """The report as it is shown to the model and cited."""
    return Passage(report.community_id, "report", report.title, report.text, report.chunk_ids)


def chunk_passage(chunk: Chunk) -> Passage:
    """The chunk as it is shown to the model and cited. A long document title is cut."""
    return Passage(chunk.id, "chunk", chunk.title[:MAX_TITLE], chunk.text, (chunk.id,), around=chunk.around)


def shuffle(passages: Iterable[Passage], seed: int, level: int | None) -> list[Passage]:
    """A permutation that depends on `seed`, `level` and the ids alone, not on the order given.

    Each id is ranked by its hash under seed and level, so that one report more or less leaves the order of the
    others as it was.
    """
    return sorted(passages, key=lambda passage: (content_hash(str(seed), str(level), passage.id), passage.id))


def room_for(budget: int, *, overhead: int, reserve: int, context: int, question: str) -> int:
    """Tokens left for passages or points in one call.

    Parameters
    ----------
    budget : the most they may take.
    overhead : tokens of the prompt without them.
    reserve : tokens kept for the output.
    context : tokens of prompt and output together.

    Raises
    ------
    ContextError
        When fewer than `MIN_ROOM` tokens are left.
    """
    left = min(budget, context - overhead - reserve)
    if left < MIN_ROOM:
        raise ContextError(
            f"The prompt with its question of {len(question)} characters takes {overhead} tokens and the reply up to "
            f"{reserve}; of a context of {context} tokens that leaves {max(left, 0)} for the texts to read, and at "
            f"least {MIN_ROOM} are needed. Ask a shorter question, or raise `context_window` if the model allows it."
        )
    return left


def pack(passages: Sequence[Passage], measure: Measure[Passage], room: int) -> list[tuple[Passage, ...]]:
    """Pack passages whole, in order, into batches of at most `room` tokens beyond the prompt without any.

    A passage larger than a batch is cut into pieces that fit (`split`); nothing is lost. Every passage is measured
    once and every batch is measured as the model will see it, because tokens of joined texts need not add up.

    Raises ContextError when not even one character of a passage fits.
    """
    base = measure(())
    pieces = [piece for passage in passages for piece in split(passage, lambda p: measure((p,)) - base <= room)]
    sizes = [measure((piece,)) - base for piece in pieces]
    batches = []
    start = 0
    while start < len(pieces):
        stop, total = start, 0
        while stop < len(pieces) and (stop == start or total + sizes[stop] <= room):
            total += sizes[stop]
            stop += 1
        while stop > start + 1 and measure(pieces[start:stop]) - base > room:
            stop -= 1
        batches.append(tuple(pieces[start:stop]))
        start = stop
    return batches


def split(passage: Passage, fits: Callable[[Passage], bool]) -> list[Passage]:
    """The passage itself if it fits, else its pieces in order, numbered from 1. Joined, their texts are its text."""
    if fits(passage):
        return [passage]
    # The number is part of what is shown, so pieces are measured with one.
    texts = _halve(passage.text, lambda text: fits(replace(passage, text=text, part=1, around=("", ""))), passage)
    pieces = [replace(passage, text=text, part=number, around=("", "")) for number, text in enumerate(texts, 1)]
    pieces[0] = replace(pieces[0], around=(passage.around[0], ""))
    pieces[-1] = replace(pieces[-1], around=(pieces[-1].around[0], passage.around[1]))
    return pieces


def _halve(text: str, fits: Callable[[str], bool], passage: Passage) -> list[str]:
    if fits(text):
        return [text]
    if len(text) < 2:
        raise ContextError(
            f"Not even one character of {passage.kind} {passage.id} ({passage.title!r}) fits a batch. "
            "Raise `map_budget` or `context_window`, or ask a shorter question."
        )
    middle = len(text) // 2
    # Cut after a line, else after a sentence, else after a word, if one ends in the second quarter.
    ends = (text.rfind(mark, middle // 2, middle) + len(mark) for mark in ("\n", ". ", "。", " "))
    cut = next((end for end in ends if end > middle // 2 and end > 0), middle)
    return _halve(text[:cut], fits, passage) + _halve(text[cut:], fits, passage)
