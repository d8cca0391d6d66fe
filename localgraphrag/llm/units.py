"""Units of model work: the one mechanism behind cache, resume, update and delete.

A `Unit` is a conversation with a content-addressed key. Stages make units and read outcomes; they do not
know whether an outcome came from the model or from the index file. `EngineRunner` runs units on an engine and
stores nothing; `localgraphrag.pipeline` has the runner that keeps results in the project's file.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Generic, Protocol, TypeVar

from localgraphrag.llm.types import Completion, Engine, Request, Usage

T = TypeVar("T")

Conversation = Generator[Request, Completion, T]
"""A function that yields requests, is sent their completions, and returns its result."""


def content_hash(*parts: str) -> str:
    """Hex sha256 of the parts, unambiguous whatever they contain.

    >>> content_hash("ab", "c") == content_hash("a", "bc")
    False
    """
    return hashlib.sha256(json.dumps(parts, ensure_ascii=True).encode()).hexdigest()


@dataclass(frozen=True)
class Unit(Generic[T]):
    """One piece of model work.

    Parameters
    ----------
    stage, version : e.g. "extract", 1. Raise the version when the code behind `ask` changes meaning.
    name : what a reader calls it: a chunk id, a community id.
    inputs : everything else that decides the result: prompt text, grammar and sampling settings, input text.
    result : the type of the result, a frozen dataclass; pydantic writes it to JSON and reads it back.
    chunks : ids of the chunks whose text the unit has seen, so that deleting them reaches it.
    ask : starts the conversation.
    """

    stage: str
    version: int
    name: str
    inputs: tuple[str, ...]
    result: type[T]
    ask: Callable[[], Conversation[T]] = field(compare=False, repr=False)
    chunks: tuple[str, ...] = ()

    def key(self, model: str) -> str:
        """The unit's address under a model (`Engine.identity`)."""
        return content_hash(self.stage, str(self.version), model, *self.inputs)


@dataclass(frozen=True)
class Outcome(Generic[T]):
    """What became of a unit: a value, or an error with its reason. `cached` if no model was called."""

    unit: Unit[T]
    value: T | None
    error: str = ""
    usage: Usage = field(default_factory=Usage)
    cached: bool = False

    @property
    def ok(self) -> bool:
        """Whether there is a value."""
        return not self.error


class Runner(Protocol):
    """Runs units in batches, in order of completion."""

    engine: Engine

    def run(self, units: Iterable[Unit[T]]) -> Iterator[Outcome[T]]:
        """Yield one outcome per unit. A failed unit is an outcome, not an exception."""


class ConversationError(Exception):
    """Thrown into a conversation when the engine could not answer a turn."""


@dataclass
class EngineRunner:
    """Runs units on an engine; keeps nothing."""

    engine: Engine

    def run(self, units: Iterable[Unit[T]]) -> Iterator[Outcome[T]]:
        """Yield one outcome per unit, in order of completion."""
        return converse(self.engine, units)


def converse(
    engine: Engine, units: Iterable[Unit[T]], on_turn: Callable[[Usage], None] | None = None
) -> Iterator[Outcome[T]]:
    """Drive the units' conversations side by side on one engine; `on_turn` hears what each turn has cost.

    Raises whatever a conversation raises other than through a failed turn: that is a bug, not an outcome.
    """
    finished: list[Outcome[T]] = []

    def first_turns() -> Iterator[Request]:
        for unit in units:
            conversation = unit.ask()
            request = _advance(unit, conversation, None, Usage(), finished)
            if request is not None:
                yield request

    for completion in engine.run(first_turns()):
        yield from finished
        finished.clear()
        if on_turn:
            on_turn(completion.usage)
    yield from finished


def _advance(
    unit: Unit[T],
    conversation: Conversation[T],
    completion: Completion | None,
    spent: Usage,
    finished: list[Outcome[T]],
) -> Request | None:
    """Send a completion into a conversation; return its next request, or file its outcome and return None."""
    try:
        if completion is None:
            request = next(conversation)
        elif completion.finish == "error":
            request = conversation.throw(ConversationError(completion.error))
        else:
            request = conversation.send(completion)
    except StopIteration as stop:
        finished.append(Outcome(unit, stop.value, usage=spent))
        return None
    except ConversationError as failure:
        finished.append(Outcome(unit, None, error=str(failure), usage=spent))
        return None

    def then(reply: Completion) -> Request | None:
        return _advance(unit, conversation, reply, spent + reply.usage, finished)

    return replace(request, key=request.key or f"{unit.stage} {unit.name}", then=then)


def run_all(runner: Runner, units: Iterable[Unit[T]]) -> dict[str, Outcome[Any]]:
    """Run units to the end; outcomes by unit name, in the order the units were given."""
    order = list(units)
    found = {outcome.unit.name: outcome for outcome in runner.run(order)}
    return {unit.name: found[unit.name] for unit in order}
