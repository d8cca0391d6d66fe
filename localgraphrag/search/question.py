"""What is asked, and the conditions under which it can be answered (paper 4.1)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal, get_args

from localgraphrag.errors import ConfigError

Method = Literal["global", "ts", "ss"]


@dataclass(frozen=True)
class Condition:
    """A way to answer, by the paper's name for it."""

    name: str
    method: Method
    level: int | None
    about: str


CONDITIONS = MappingProxyType(
    {
        condition.name: condition
        for condition in (
            Condition("C0", "global", 0, "map-reduce over the reports of the root communities"),
            Condition("C1", "global", 1, "map-reduce over the reports one level down"),
            Condition("C2", "global", 2, "map-reduce over the reports two levels down"),
            Condition("C3", "global", 3, "map-reduce over the reports of the finest communities"),
            Condition("TS", "ts", None, "map-reduce over the chunks themselves"),
            Condition("SS", "ss", None, "one call over the chunks nearest to the question"),
        )
    }
)
"""The paper's six conditions by name, in its order."""


def condition(name: str) -> Condition:
    """The condition of that name, in any case. Raises ConfigError that lists the names.

    >>> condition("ts").method, condition("c1").level
    ('ts', 1)
    """
    known = CONDITIONS.get(name.strip().upper()) if isinstance(name, str) else None
    if known is None:
        raise ConfigError(f"There is no condition {name!r}. Conditions: {', '.join(CONDITIONS)}.")
    return known


def conditions_named(names: Iterable[str]) -> list[Condition]:
    """The conditions of a list of names. Raises ConfigError for one that there is not, and where none is named."""
    given = [] if isinstance(names, str) or not isinstance(names, Iterable) else list(names)
    if not given:
        known = ", ".join(CONDITIONS)
        raise ConfigError(f"The conditions were given as {names!r}; name one or more, in a list: {known}.")
    return [condition(name) for name in given]


def check_method(method: str) -> None:
    """Raise ConfigError that lists the methods, unless this is one."""
    if method not in get_args(Method):
        raise ConfigError(f"There is no method {method!r}. Methods: {', '.join(get_args(Method))}.")


def check_number(name: str, given: int) -> None:
    """Raise ConfigError unless a level or seed is a whole number from 0; True is none, though Python counts it as 1."""
    if not isinstance(given, int) or isinstance(given, bool) or given < 0:
        raise ConfigError(f"The {name} was given as {given!r}; it must be a whole number, at least 0.")


def check_level(level: int, levels: int) -> None:
    """Raise ConfigError for a level that an index of so many levels does not have; if it has none, any will do."""
    if levels and not 0 <= level < levels:
        raise ConfigError(f"There is no level {level}. This index has levels 0 (coarsest) to {levels - 1}.")


def check_question(question: str) -> str:
    """The question without surrounding space and without bytes that are no text.

    Raises ConfigError when nothing is left, or for what is no text.
    """
    if not isinstance(question, str):
        raise ConfigError(f"The question was given as {question!r}; it must be a text.")
    # Arguments of a command line can hold lone surrogates, which no tokenizer takes.
    asked = question.encode("utf-8", "replace").decode("utf-8").strip()
    if not asked:
        raise ConfigError("The question is empty. Ask in words, for example: What are the main themes?")
    return asked
