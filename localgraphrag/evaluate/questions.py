"""Questions about a whole corpus, made from a short description of it and never from its text (paper 3.2).

K people who would use it, M tasks of each, N questions for each task. The model is asked in these three steps, each
a short list that the grammar bounds; what comes near something already there is asked for again.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from localgraphrag.embed import Embedder
from localgraphrag.errors import ConfigError, ModelError, explained
from localgraphrag.evaluate.ledger import Took
from localgraphrag.evaluate.near import Near
from localgraphrag.evaluate.records import Row
from localgraphrag.evaluate.replies import cap, ended
from localgraphrag.llm.output import object_schema, schema
from localgraphrag.llm.types import Message, Request
from localgraphrag.llm.units import Outcome, Runner, Unit, content_hash, run_all
from localgraphrag.prompts import Prompts
from localgraphrag.search.reply import one_turn
from localgraphrag.sentences import whole

STAGE = "questions"

SAME_QUESTION = 0.9
"""Cosine from which two personas, tasks or questions count as the same."""

TRIES = 3
"""Times that something near a duplicate is asked for again, before there is one less."""

RETRY_TEMPERATURE = 0.8
"""Of asking again: greedy, a model would often say the same once more."""

WHO, WANTS, TASK, QUESTION = 60, 120, 120, 180  # characters
_TOKENS = {"personas": (80, 240), "tasks": (60, 160), "questions": (80, 240)}  # per item, in plain letters and others

_VERSION = 5  # since 5, nothing is read of a reply that was cut, nor a question that ran into its limit

_END = "?？؟"
_LINE = r"^[^\[\]\"\n\t ][^\[\]\"\n]{{4,{most}}}$"


@dataclass(frozen=True)
class Sizes:
    """How many personas, tasks of each, questions for each task. Raises ConfigError unless all are at least 1."""

    personas: int = 5
    tasks: int = 5
    questions: int = 5

    def __post_init__(self) -> None:
        for name, value in (("personas", self.personas), ("tasks", self.tasks), ("questions", self.questions)):
            if value < 1:
                raise ConfigError(f"{name} was given as {value}; at least 1 is needed.")


@dataclass(frozen=True)
class Listed:
    """A model's list: lines of text, fewer than asked for where some of them were cut short."""

    lines: tuple[str, ...]


@dataclass(frozen=True)
class QuestionSet:
    """Questions as rows of `questions.jsonl`.

    `replaced`: duplicates that were asked for again; `cut`: questions that ran into the limit of their length, asked
    for again too; `short`: how many personas, tasks and questions are missing since nothing new came; `failed`: calls
    that failed, cut replies among them; `took`: what the run took, where it was measured.
    """

    rows: tuple[Row, ...]
    replaced: int
    cut: int
    short: int
    failed: int
    took: Took | None = None


def make_questions(
    description: str,
    sizes: Sizes,
    *,
    prompts: Prompts,
    runner: Runner,
    embedder: Embedder,
    seed: int = 0,
    there: Sequence[str] = (),
) -> QuestionSet:
    """Make questions from a description of a corpus.

    Parameters
    ----------
    description : a few sentences: what the corpus is, from when, and what somebody would want of it.
    embedder : finds duplicates.
    seed : of asking again.
    there : questions that there are already; what comes near one of them is a duplicate. The very same words are not,
        so that a run that is made again comes out the same.

    Returns
    -------
    QuestionSet
        In the order of personas and tasks; ids are hashes of the questions, so that a question keeps its id.

    Raises
    ------
    ConfigError
        An empty description.
    ModelError
        Not one question came back.
    """
    description = " ".join(description.split())
    if not description:
        raise ConfigError("The description of the corpus is empty. Say in a few sentences what it holds.")
    lister = _Lister(description, prompts, runner, embedder, seed)
    personas = [((), one) for one in lister.fill("personas", {(): sizes.personas})[()]]
    tasks = lister.fill("tasks", {(persona,): sizes.tasks for _, persona in personas})
    wanted = {(*above, task): sizes.questions for above, listed in tasks.items() for task in listed}
    questions = lister.fill("questions", wanted, there, everywhere=True)
    rows = [
        {"id": f"q-{content_hash(one)[:8]}", "question": one, "persona": persona, "task": task, "kind": "global"}
        for (persona, task), listed in questions.items()
        for one in listed
    ]
    if not rows:
        why = f", the last with: {lister.error}" if lister.error else ". Try another model."
        raise ModelError(f"The model made no question from the description; {lister.failed} calls failed{why}")
    return QuestionSet(tuple(rows), lister.replaced, lister.cut, lister.short, lister.failed)


Place = tuple[str, ...]
"""What a list belongs to: (), (persona,) or (persona, task)."""


class _Lister:
    """Asks for lists until they hold enough different things, or nothing new comes."""

    def __init__(self, description: str, prompts: Prompts, runner: Runner, embedder: Embedder, seed: int) -> None:
        self.description, self.prompts, self.runner, self.seed = description, prompts, runner, seed
        self._near = Near(embedder)
        self.replaced = self.cut = self.short = self.failed = 0
        self.error = ""

    def fill(
        self, what: str, wanted: Mapping[Place, int], there: Sequence[str] = (), *, everywhere: bool = False
    ) -> dict[Place, list[str]]:
        """Lists of so many things for each place, unlike what is `there`.

        `everywhere`: unlike those of all places, not only of their own.
        """
        kept: dict[Place, list[str]] = {place: [] for place in wanted}
        avoid: dict[Place, list[str]] = {place: [] for place in wanted}  # said, or near to what was said
        for attempt in range(TRIES + 1):
            lacking = {place: count - len(kept[place]) for place, count in wanted.items() if len(kept[place]) < count}
            units = {
                place: self._unit(what, place, count, list(dict.fromkeys((*kept[place], *avoid[place]))), attempt)
                for place, count in lacking.items()
            }
            outcomes = run_all(self.runner, units.values())
            for place, unit in units.items():
                outcome: Outcome[Listed] = outcomes[unit.name]
                lines = outcome.value.lines if outcome.value else ()
                self.failed += not outcome.ok
                self.error = outcome.error or self.error
                self.cut += lacking[place] - len(lines) if outcome.ok else 0
                for line in lines:
                    others = [one for listed in kept.values() for one in listed] if everywhere else kept[place]
                    twin = self._near.twin(line, others, SAME_QUESTION)
                    said = others[twin] if twin is not None else self._earlier(line, there)
                    if said is None:
                        kept[place].append(line)
                    else:
                        avoid[place] += [line, said]
                        self.replaced += 1
        self.short += sum(count - len(kept[place]) for place, count in wanted.items())
        return kept

    def _earlier(self, line: str, there: Sequence[str]) -> str | None:
        """The first of what is there that a line comes near, unless it is there itself.

        The first, not the nearest: what this run adds comes later, and the run made again must ask for the same.
        """
        if line in there:
            return None
        cosines = self._near.cosines(line, there) if there else []
        return next((one for one, cosine in zip(there, cosines, strict=True) if cosine >= SAME_QUESTION), None)

    def _unit(self, what: str, place: Place, count: int, taken: Sequence[str], attempt: int) -> Unit[Listed]:
        persona, task = (*place, "", "")[:2]
        prompt = self.prompts.render(
            "evaluate_questions",
            description=self.description, persona=persona, task=task, taken=list(taken), count=count,
        )  # fmt: skip
        request = Request(
            prompt,
            _OUTPUTS[what](count),
            (Message("system", self.prompts.render("evaluate_questions_system")),),
            max_tokens=cap(self.description, *_TOKENS[what]) * count + 40,  # the reply is in its language
            seed=self.seed + attempt,
            temperature=RETRY_TEMPERATURE if attempt else 0.0,
        )
        name = " / ".join([what, *place, *([f"again {attempt}"] if attempt else [])])
        # A list has a set length, so what closes a reply that was cut makes up the items that lack; which of them the
        # model has said in full cannot be told, and the call counts as failed.
        unit = one_turn(STAGE, name, request, partial(_READ[what], count=count), Listed, (), check=ended)
        return replace(unit, version=_VERSION)


def _line(most: int) -> dict[str, Any]:
    return {"type": "string", "pattern": _LINE.format(most=most - 1)}


def _question() -> dict[str, Any]:
    """One line that ends with its only question mark."""
    inner = rf"[^\[\]\"\n{_END}]"
    return {"type": "string", "pattern": rf"^[^\[\]\"\n\t {_END}]{inner}{{8,{QUESTION - 2}}}[{_END}]$"}


def _listed(name: str, item: Mapping[str, Any]) -> Callable[[int], Any]:
    def output(count: int) -> Any:
        return schema({name: {"type": "array", "minItems": count, "maxItems": count, "items": dict(item)}})

    return output


_OUTPUTS: dict[str, Callable[[int], Any]] = {
    "personas": _listed("personas", object_schema({"who": _line(WHO), "wants": _line(WANTS)})),
    "tasks": _listed("tasks", _line(TASK)),
    "questions": _listed("questions", _question()),
}


def _personas(text: str, count: int) -> Listed:
    found = json.loads(text)["personas"][:count]
    return Listed(tuple(f"{whole(p['who'], WHO)}, who wants {_small(whole(p['wants'], WANTS))}" for p in found))


def _tasks(text: str, count: int) -> Listed:
    return Listed(tuple(whole(task, TASK) for task in json.loads(text)["tasks"][:count]))


def _questions(text: str, count: int) -> Listed:
    """Without those as long as one may be: the form ended them, by a mark that the model did not mean."""
    found = json.loads(text)["questions"][:count]
    return Listed(tuple(" ".join(question.split()) for question in found if len(question) < QUESTION))


_READ = {"personas": _personas, "tasks": _tasks, "questions": _questions}


def _small(text: str) -> str:
    """A clause that goes on after "wants": without a capital or full stop."""
    return (text[:1].lower() + text[1:]).rstrip(".") if text[1:2].islower() else text.rstrip(".")


def read_description(text: str | None, path: Path | None = None) -> str:
    """A description given as text, or as a file: plain text, or a key of the form of the demo's (`.toml`).

    Raises ConfigError unless exactly one is given, or for a file that cannot be read.
    """
    from localgraphrag.demo import facts

    if (text is None) == (path is None):
        raise ConfigError(
            "Questions are made from a description of the corpus: give its text, or a file that holds it, and not both."
        )
    if path is None:
        return text or ""
    with explained(path):
        return facts(path).description if path.suffix == ".toml" else path.read_text(encoding="utf-8")
