"""Map-reduce over passages: reports of one level (global) or chunks (TS). Paper 3.1.6."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from typing import Any, Literal

from localgraphrag.config import Settings
from localgraphrag.embed import Embedder
from localgraphrag.errors import ContextError, ModelError
from localgraphrag.grounding import Grounding, pieces, stop_words
from localgraphrag.llm.types import Message, Request, Usage
from localgraphrag.llm.units import Outcome, Runner, run_all
from localgraphrag.prompts import Prompts
from localgraphrag.search.answer import Answer
from localgraphrag.search.nearness import Nearness
from localgraphrag.search.passages import Passage, pack, room_for, shuffle
from localgraphrag.search.reply import (
    Mapped,
    Written,
    answer_output,
    as_record,
    distinct,
    headed_output,
    listed,
    map_output,
    one_turn,
    quotation,
    quoted_map_output,
    read_answer,
    read_headed,
    read_map,
    read_quoted_map,
    render,
    same,
)
from localgraphrag.search.sources import Provenance
from localgraphrag.sentences import is_brief
from localgraphrag.spacing import spaced

Batch = tuple[Passage, ...]

NEAR, PASSED_OVER = 0.22, 50
"""Worth to the question from which a statement counts that the model has passed over, and the score it then gets."""

MOST_PASSED_OVER, MOST_COMPARED = 12, 2000

WORTH = 1 / 500
"""Of a point's score, beside its worth to the question: 90 is worth as much as being somewhat near."""

MOST_READ = 12
"""Quoted points that the answer is written from; a small model given more takes any."""

LEAST_PARAGRAPHS, NEAR_ENOUGH, TELLING = 8, 0.1, 50
"""Of an answer, if there are points for them; how near to the question these must be, or else what they must score.

With 8 an answer of 1.5B names half as much again of a corpus's themes as with 4, in 60 words more (docs/log.md).
"""


@dataclass(frozen=True)
class Candidate:
    """A point with where it came from: batch and position count from 1."""

    batch: int
    position: int
    score: int
    text: str
    passages: tuple[Passage, ...]

    def record(self, **more: Any) -> dict[str, Any]:
        """JSON-able, with whatever else is to be said about it."""
        where = {"batch": self.batch, "point": self.position, "score": self.score}
        return {**where, "text": self.text, "ids": _ids(self.passages), **more}


@dataclass(frozen=True)
class Chosen:
    """What the reduce call reads, best first, and what it does not, each with the reason."""

    taken: tuple[Candidate, ...]
    dropped: tuple[tuple[Candidate, str], ...]


@dataclass(frozen=True)
class MapReduce:
    """One way to answer: settings, prompts and a model, put to a question at a time.

    `level` is None for chunks. `unit` is what the passages are called: "reports at level C0", "chunks".
    """

    method: Literal["global", "ts"]
    level: int | None
    unit: str
    seed: int
    settings: Settings
    prompts: Prompts
    runner: Runner
    provenance: Provenance
    embedder: Embedder | None = None

    def answer(self, question: str, passages: Sequence[Passage], missing: Sequence[str] = ()) -> Answer:
        """Answer from all the passages.

        Parameters
        ----------
        question : not empty.
        passages : whole reports or chunks, in any order.
        missing : ids of reports that should be there and are not; they go into the record.

        Raises
        ------
        ContextError
            The question leaves no room for passages or points.
        ModelError
            Every map call failed, or the reduce call did. What was mapped is the runner's to keep.
        """
        batches = self.batches(question, passages)
        outcomes = self.map(question, batches)
        found = _candidates(batches, outcomes)
        near = self._nearness(question, batches, found)
        passed_over = self._passed_over(near, batches, found)
        chosen = self.choose(near, [*found, *passed_over])
        usage = sum((outcome.usage for outcome in outcomes), Usage())
        record = {
            **self._head(missing),
            "batches": [_batch_record(b, o) for b, o in zip(batches, outcomes, strict=True)],
            "passed_over": [c.record() for c in passed_over],
            "split": _pieces(batches),
            "taken": [c.record(number=number) for number, c in enumerate(chosen.taken, 1)],
            "dropped": [c.record(reason=reason) for c, reason in chosen.dropped],
            "cached_calls": sum(outcome.cached for outcome in outcomes),
        }
        if not chosen.taken:
            text = self._nothing(passages, outcomes)
            return Answer(question, self.method, self.level, text, (), usage, {**record, "usage": as_record(usage)})
        reduced = self.reduce(question, chosen.taken, [p for c in chosen.taken for p in batches[c.batch - 1]])
        assert reduced.value is not None
        usage += reduced.usage
        written = self._made_up(reduced.value, chosen.taken, near) if self.quoted else reduced.value
        text, citations = render(
            written,
            lambda label: chosen.taken[label - 1].passages,
            self.provenance,
            lambda label: chosen.taken[label - 1].text if self.quoted else "",
        )
        record["cached_calls"] += reduced.cached
        record |= {"reply": as_record(written), "usage": as_record(usage)}
        return Answer(question, self.method, self.level, text, citations, usage, record)

    def batches(self, question: str, passages: Sequence[Passage]) -> list[Batch]:
        """Shuffle the passages and pack them into what one map call each reads."""
        return self.packed(question, shuffle(passages, self.seed, self.level))

    def packed(self, question: str, passages: Sequence[Passage]) -> list[Batch]:
        """Pack the passages, in the order given, into what one map call each reads."""

        def measure(batch: Sequence[Passage]) -> int:
            return self.runner.engine.prompt_tokens(self._map_prompt(question, batch))

        room = self._room(question, self.settings.map_budget, measure(()), self.settings.map_tokens)
        return pack(passages, measure, room)

    def map(self, question: str, batches: Sequence[Batch]) -> list[Outcome[Mapped]]:
        """Ask every batch what it contributes, as one run of the model. Raises ModelError when all of them fail."""
        units = []
        for number, batch in enumerate(batches, 1):
            name, request = self._name(f"batch {number} of {len(batches)}"), self._map_request(question, batch)
            read = self._quoting(batch) if self.quoted else read_map
            units.append(one_turn("map", name, request, read, Mapped, batch))
        outcomes = list(run_all(self.runner, units).values())
        if outcomes and not any(outcome.ok for outcome in outcomes):
            raise ModelError(
                f"All {len(outcomes)} calls over {self.unit} failed, the first with: {outcomes[0].error}. "
                "Nothing was answered. See `localgraphrag doctor` for the model, and ask again."
            )
        return outcomes

    def choose(self, near: Nearness, candidates: Sequence[Candidate]) -> Chosen:
        """Points, best first (`_ranked`), until one does not fit the reduce budget; of quoted ones `MOST_READ`.

        Points that score 0, that name something of the prompt's example, or that are near-identical to a better one are
        left out before that; a repeated point lends its passages to the one that stays.
        """
        question = near.question

        def measure(points: Sequence[Candidate]) -> int:
            return self.runner.engine.prompt_tokens(self._reduce_prompt(question, points))

        base = measure(())
        room = self._room(question, self.settings.reduce_budget, base, self.settings.answer_tokens)
        taken: list[Candidate] = []
        dropped: list[tuple[Candidate, str]] = []
        full = False
        for point in self._ranked(near, candidates):
            if point.score <= 0:
                dropped.append((point, "scored 0"))
            elif not self.quoted and self._borrowed(question, point):
                dropped.append((point, "names something of the prompt's example"))
            elif (twin := next((i for i, kept in enumerate(taken) if same(point.text, kept.text)), None)) is not None:
                taken[twin] = replace(taken[twin], passages=(*taken[twin].passages, *point.passages))
                dropped.append((point, f"repeats point {twin + 1}"))
            elif full:
                dropped.append((point, "comes after the first that did not fit"))
            elif self.quoted and len(taken) == MOST_READ:
                dropped.append((point, f"comes after the best {MOST_READ}"))
            elif measure([*taken, point]) - base <= room:
                taken.append(point)
            else:
                full = True
                dropped.append((point, f"does not fit the reduce budget of {room} tokens"))
        if full and not taken:
            raise ContextError(
                f"Not even the best point fits the {room} tokens that the reduce call may read. Raise `reduce_budget` "
                "or `context_window`, or ask a shorter question."
            )
        return Chosen(tuple(taken), tuple(dropped))

    def _ranked(self, near: Nearness, candidates: Sequence[Candidate]) -> list[Candidate]:
        """By score, best first (ties: batch, then position).

        Of quoted points a small model scores the first it lists 90, the next 80, and so on, whatever they say
        (docs/log.md). So worth to the question counts far more, and a point falls behind that is like a better one.
        Bylines and entries of a form are central, since they stand in every letter or log; what is as brief as they are
        comes last.
        """
        by_score = sorted(candidates, key=lambda c: (-c.score, c.batch, c.position))
        if not self.quoted:
            return by_score
        useful = [point for point in by_score if point.score > 0 and not is_brief(point.text)]
        worth = [WORTH * point.score + near.worth(point.text) for point in useful]
        # those far behind are hardly ever read
        best = near.varied([point.text for point in useful], worth, 2 * MOST_READ)
        rest = sorted(set(range(len(useful))) - set(best), key=lambda i: -worth[i])
        others = [point for point in by_score if point.score <= 0 or is_brief(point.text)]
        return [*(useful[i] for i in (*best, *rest)), *others]

    def _passed_over(self, near: Nearness, batches: Sequence[Batch], found: Sequence[Candidate]) -> list[Candidate]:
        """Statements near to the question that a small model did not choose, as points behind those of their batch.

        Only if it chose any at all: whether there is an answer is for the model to say.
        """
        chosen, behind = {point.text for point in found}, Counter(point.batch for point in found if point.score > 0)
        if not self.quoted or not behind:
            return []
        left: dict[str, tuple[int, list[Passage]]] = {}
        for number, passage, text in _said(batches):
            if text not in chosen:
                left.setdefault(text, (number, []))[1].append(passage)
        points = []
        texts = [text for text in left if near.worth(text) >= NEAR]
        for best in near.varied(texts, [near.worth(text) for text in texts], MOST_PASSED_OVER):
            number, passages = left[texts[best]]
            behind[number] += 1
            points.append(Candidate(number, behind[number], PASSED_OVER, texts[best], tuple(passages)))
        return points

    def _nearness(self, question: str, batches: Sequence[Batch], found: Sequence[Candidate]) -> Nearness:
        """Of points and statements to the question.

        Of very many points it is of the best, of very many statements of those that share most words with the question,
        and of others, evenly spaced, which stand for all: the former have the question in common.
        """
        if not self.quoted or self.embedder is None:
            return Nearness(None, question, ())
        best = sorted(found, key=lambda point: -point.score)[: MOST_COMPARED // 2]
        points = dict.fromkeys(point.text for point in best)
        said = [text for text in dict.fromkeys(text for _, _, text in _said(batches)) if text not in points]
        sample: list[str] = []
        if len(said) > MOST_COMPARED:
            asked = pieces(" ".join(w for w in question.split() if w.casefold().strip(".,?!") not in stop_words()))
            sample = spaced([(text, 1) for text in said], MOST_COMPARED // 4)
            said = sorted(said, key=lambda text: -len(pieces(text) & asked))[: MOST_COMPARED - len(sample)]
        return Nearness(self.embedder, question, list(dict.fromkeys([*points, *said, *sample])), sample)

    def _borrowed(self, question: str, point: Candidate) -> bool:
        """Whether a point brings in a name of the prompt's worked example: small models do."""
        shown = "\n".join([question, *(f"{passage.title}\n{passage.text}" for passage in point.passages)])
        example = "".join(message.content for message in self._map_prefix()[1:])
        return Grounding(shown, "", example).foreign(point.text)

    def reduce(self, question: str, points: Sequence[Candidate], seen: Sequence[Passage]) -> Outcome[Written]:
        """Write the answer from the points, in one call. Raises ModelError when it fails.

        `seen`: all that the model had before it when it wrote the points, cited or not: their words can be in it.
        """
        request = self._reduce_request(question, points)
        read = partial(self._borne_out, points, question) if self.quoted else read_answer
        unit = one_turn("reduce", self._name("answer"), request, read, Written, seen)
        outcome = run_all(self.runner, [unit])[unit.name]
        if not outcome.ok:
            error = outcome.error.rstrip(".")
            raise ModelError(f"The answer could not be written from {len(points)} points: {error}. Ask again.")
        return outcome

    @property
    def quoted(self) -> bool:
        """Whether points are quoted from the passages, and an answer's sources found by comparing words."""
        return self.settings.descriptions == "quoted"

    def _quoting(self, batch: Batch) -> Callable[[str], Mapped]:
        return partial(read_quoted_map, said=listed(batch))

    def _borne_out(self, points: Sequence[Candidate], question: str, text: str) -> Written:
        """What of a reply the points bear out."""
        example = self.prompts.render("reduce_example") + self.prompts.render("answer_example_reply")
        return read_headed(text, [point.text for point in points], question, example)

    def _made_up(self, written: Written, points: Sequence[Candidate], near: Nearness) -> Written:
        """The answer; where it is short, the best points follow as they stand that it does not cite and that are near.

        Small models stop after a paragraph or two, or write what no point bears out. Nearness cannot be told without an
        embedder, and the score has to do.
        """
        written = distinct(written)
        cited = {label for paragraph in written.paragraphs for label in paragraph.cites}
        left = [(label, point) for label, point in enumerate(points, 1) if label not in cited]
        if written.paragraphs and self.embedder is None:
            left = [(label, point) for label, point in left if point.score >= TELLING]
        elif written.paragraphs:
            left = [(label, point) for label, point in left if near.worth(point.text) >= NEAR_ENOUGH]
        lacking = max(LEAST_PARAGRAPHS - len(written.paragraphs), 0)
        quoted = (quotation(point.text, label) for label, point in left[:lacking])
        return replace(written, paragraphs=(*written.paragraphs, *quoted))

    def _map_prompt(self, question: str, batch: Sequence[Passage]) -> Request:
        prompt = self.prompts.render("map", passages=list(batch), question=question, quoted=self.quoted)
        return Request(prompt, None, self._map_prefix(), max_tokens=self.settings.map_tokens)

    def _map_prefix(self) -> tuple[Message, ...]:
        return (
            Message("system", self.prompts.render("map_system", quoted=self.quoted)),
            Message("user", self.prompts.render("map_example", quoted=self.quoted)),
            Message("assistant", self.prompts.render("map_example_reply", quoted=self.quoted)),
        )

    def _map_request(self, question: str, batch: Sequence[Passage]) -> Request:
        if self.quoted:
            output = quoted_map_output(list(dict.fromkeys(chain.from_iterable(listed(batch)))))
        else:
            output = map_output(max(len(batch), 1))
        return replace(self._map_prompt(question, batch), output=output)

    def _reduce_prompt(self, question: str, points: Sequence[Candidate]) -> Request:
        prefix: tuple[Message, ...] = (Message("system", self.prompts.render("reduce_system", quoted=self.quoted)),)
        if self.quoted:
            prefix += (
                Message("user", self.prompts.render("reduce_example")),
                Message("assistant", self.prompts.render("answer_example_reply")),
            )
        prompt = self.prompts.render(
            "reduce", points=[point.text for point in points], question=question, quoted=self.quoted
        )
        return Request(prompt, None, prefix, max_tokens=self.settings.answer_tokens)

    def _reduce_request(self, question: str, points: Sequence[Candidate]) -> Request:
        if self.quoted:
            output = headed_output(may_be_empty=False)
        else:
            output = answer_output(max(len(points), 1), may_be_empty=False)
        return replace(self._reduce_prompt(question, points), output=output)

    def _room(self, question: str, budget: int, overhead: int, reserve: int) -> int:
        context = context_of(self.settings, self.runner)
        return room_for(budget, overhead=overhead, reserve=reserve, context=context, question=question)

    def _name(self, what: str) -> str:
        return f"{'TS' if self.level is None else f'C{self.level}'} {what}"

    def _head(self, missing: Sequence[str]) -> dict[str, Any]:
        chosen = ("map_budget", "map_tokens", "reduce_budget", "answer_tokens")
        budgets = {name: getattr(self.settings, name) for name in chosen}
        budgets["context"] = context_of(self.settings, self.runner)
        head = {"method": self.method, "level": self.level, "seed": self.seed, "model": self.runner.engine.identity}
        head["embedder"] = self.embedder.identity if self.embedder and self.quoted else None
        return {**head, "budgets": budgets, "missing": list(missing)}

    def _nothing(self, passages: Sequence[Passage], outcomes: Sequence[Outcome[Mapped]]) -> str:
        if not passages:
            return f"There are no {self.unit}, so there is nothing to answer from. No model was called."
        failed = sum(not outcome.ok for outcome in outcomes)
        also = f" {failed} of {len(outcomes)} batches could not be read." if failed else ""
        return (
            f"None of the {len(passages)} {self.unit} helps to answer this question: "
            f"{len(outcomes) - failed} of {len(outcomes)} batches were read and scored 0.{also}"
        )


def context_of(settings: Settings, runner: Runner) -> int:
    """Tokens of prompt and output together: what the settings allow and the model can."""
    return min(settings.context_window, runner.engine.context_tokens)


def _candidates(batches: Sequence[Batch], outcomes: Sequence[Outcome[Mapped]]) -> list[Candidate]:
    """All points of all batches; those of a batch that scored 0 score 0."""
    found = []
    for number, (batch, outcome) in enumerate(zip(batches, outcomes, strict=True), 1):
        reply = outcome.value or Mapped(0, ())
        for position, point in enumerate(reply.points, 1):
            passages = tuple(batch[label - 1] for label in point.sources)
            found.append(Candidate(number, position, point.score if reply.score > 0 else 0, point.text, passages))
    return found


def _said(batches: Sequence[Batch]) -> Iterator[tuple[int, Passage, str]]:
    """Every statement with its passage and the number of the batch, from 1."""
    for number, batch in enumerate(batches, 1):
        for passage, said in zip(batch, listed(batch), strict=True):
            for text in said:
                yield number, passage, text


def _batch_record(batch: Batch, outcome: Outcome[Mapped]) -> dict[str, Any]:
    reply = outcome.value
    points = [{**as_record(p), "sources": [batch[s - 1].id for s in p.sources]} for p in reply.points] if reply else []
    return {"ids": _ids(batch), "score": reply.score if reply else None, "points": points, "error": outcome.error}


def _pieces(batches: Sequence[Batch]) -> dict[str, int]:
    """Passages that were larger than a batch, and into how many pieces each was cut."""
    pieces: dict[str, int] = {}
    for passage in (passage for batch in batches for passage in batch if passage.part):
        pieces[passage.id] = max(pieces.get(passage.id, 0), passage.part)
    return pieces


def _ids(passages: Sequence[Passage]) -> list[str]:
    return list(dict.fromkeys(passage.id for passage in passages))
