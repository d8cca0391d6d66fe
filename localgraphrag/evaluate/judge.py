"""Answers compared two by two by a model (paper 3.3 to 4.1): what it is asked, and what it says.

Every pair is shown in both orders, since a judge may name a position rather than an answer; `verdicts` has what the
replies come to.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType
from typing import Any, Literal

from localgraphrag.errors import ConfigError
from localgraphrag.evaluate.facts import refused
from localgraphrag.evaluate.records import Row, answer_mark, without_marks
from localgraphrag.evaluate.replies import cap, ended
from localgraphrag.llm.output import schema
from localgraphrag.llm.types import Message, Request
from localgraphrag.llm.units import Outcome, Unit
from localgraphrag.prompts import Prompts
from localgraphrag.search.passages import Passage
from localgraphrag.search.question import CONDITIONS
from localgraphrag.search.reply import one_turn
from localgraphrag.sentences import whole

STAGE = "judge"

METRICS: Mapping[str, str] = MappingProxyType(
    {
        "comprehensiveness": "How much detail does the answer give to cover all sides and details of the question?",
        "diversity": "How varied and rich is the answer in giving different points of view and insights?",
        "empowerment": "How well does the answer help the reader to understand the matter and to judge it for oneself, "
        "with grounds and examples?",
        "directness": "How specifically and clearly does the answer address the question, without detours?",
    }
)
"""The paper's measures (3.3) and what the judge is told of each. Directness is the control: short answers win it."""

TEMPERATURE = 0.7
"""Of all rounds but the first, which is greedy."""

REFUSAL = "The documents do not answer this question."
"""Shown in place of a refusal, whose own words would tell the method."""

REASON = 200  # characters
_TOKENS = 100  # of a reply in plain letters, whose reason takes some 50
_MOST_TOKENS = 4 * REASON + 40  # a token has at least a byte, and a character at most four

Winner = Literal["first", "second", "tie"]


@dataclass(frozen=True)
class Verdict:
    """A judge's reply."""

    reason: str
    winner: Winner


@dataclass(frozen=True)
class Comparison:
    """One call: a question, a metric, the conditions in the order shown, and the round, from 1.

    `texts` as shown, `answers` what marks them (`records.answer_mark`). `chunks`: ids of chunks whose text may be in
    them.
    """

    question_id: str
    question: str
    metric: str
    first: str
    second: str
    repeat: int
    texts: tuple[str, str]
    answers: tuple[str, str]
    chunks: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """What a reader calls it."""
        return f"{self.question_id} {self.metric} {self.first}-{self.second} {self.repeat}"

    @property
    def same(self) -> bool:
        """Whether there is nothing to choose between the texts."""
        first, second = (" ".join(text.split()) for text in self.texts)
        return first == second


def comparisons(
    questions: Sequence[Row],
    answers: Sequence[Row],
    *,
    conditions: Sequence[str] | None = None,
    metrics: Sequence[str] | None = None,
    repeats: int = 4,
    chunks: Mapping[str, Sequence[str]] = MappingProxyType({}),
) -> list[Comparison]:
    """All calls there are to make: each question, pair of conditions, round, order and metric.

    Calls that show the same two answers follow each other, so that the model reads these once.

    Parameters
    ----------
    conditions, metrics : None takes all there are.
    repeats : calls for each pair and metric, an even number: half of them in each order.
    chunks : by answer id.

    Raises ConfigError for an odd number, an unknown metric, or fewer than two conditions.
    """
    named = chosen("metric", metrics, list(METRICS))
    if repeats < 2 or repeats % 2:
        raise ConfigError(f"repeats was given as {repeats}; give an even number: half of the calls in each order.")
    there = {row["condition"] for row in answers}
    order = [*(name for name in CONDITIONS if name in there), *sorted(there - set(CONDITIONS))]
    sides = chosen("condition with answers", conditions, order)
    if len(sides) < 2:
        raise ConfigError(
            f"Judging compares answers under two conditions or more; there are answers under {', '.join(sides)} only. "
            "Run `localgraphrag evaluate run --conditions ...` first."
        )
    given = {(str(row["question_id"]), row["condition"]): row for row in answers}
    found = []
    for question, pair in itertools.product(questions, itertools.combinations(sides, 2)):
        rows = [given.get((str(question["id"]), side)) for side in pair]
        if rows[0] is None or rows[1] is None:
            continue
        seen = tuple(dict.fromkeys(chunk for row in rows if row for chunk in chunks.get(row["answer_id"], ())))
        for (first, second), repeat, metric in itertools.product((rows, rows[::-1]), range(1, repeats // 2 + 1), named):
            assert first and second
            sides_shown = (first["condition"], second["condition"])
            texts, marks = (shown(first), shown(second)), (answer_mark(first), answer_mark(second))
            asked = str(question["id"]), question["question"]
            found.append(Comparison(*asked, metric, *sides_shown, repeat, texts, marks, seen))
    return found


def shown(answer: Row) -> str:
    """The text of an answer as the judge sees it: without marks of citation, a refusal in set words."""
    return REFUSAL if refused(answer) else without_marks(answer["text"])


def judge_units(calls: Iterable[Comparison], prompts: Prompts) -> list[Unit[Verdict]]:
    """A unit for each call that has something to choose, by the call's name."""
    return [_unit(call, prompts) for call in calls if not call.same]


def _unit(call: Comparison, prompts: Prompts) -> Unit[Verdict]:
    first, second = call.texts
    read = prompts.render("evaluate_judge_answers", question=call.question, first=first, second=second)
    prefix = (
        Message("system", prompts.render("evaluate_judge_system")),
        Message("user", read),
        Message("assistant", "I have read both answers."),  # calls on the same two answers share all up to here
    )
    prompt = prompts.render("evaluate_judge", metric=call.metric.capitalize(), definition=METRICS[call.metric])
    tokens = cap(read, _TOKENS, _MOST_TOKENS)
    temperature = TEMPERATURE if call.repeat > 1 else 0.0
    request = Request(prompt, _output(), prefix, max_tokens=tokens, seed=call.repeat, temperature=temperature)
    seen = [Passage("", "chunk", "", "", call.chunks)]
    return one_turn(STAGE, call.name, request, _read, Verdict, seen, check=ended)


@lru_cache(maxsize=1)  # Outlines checks every schema that it is given
def _output() -> Any:
    reason = {"type": "string", "minLength": 1, "maxLength": REASON}
    return schema({"reason": reason, "winner": {"enum": ["first", "second", "tie"]}})


def _read(text: str) -> Verdict:
    reply = json.loads(text)
    return Verdict(whole(reply["reason"], REASON), reply["winner"])


def verdict_rows(calls: Iterable[Comparison], outcomes: Mapping[str, Outcome[Verdict]], judge: str) -> list[Row]:
    """The rows of `verdicts.jsonl`. A call that failed has no winner, and an error."""
    rows = []
    for call in calls:
        outcome = outcomes.get(call.name)
        if outcome is None:
            said, winner, error = "The answers are the same.", "tie", ""
        elif outcome.value is None:
            said, winner, error = "", "", outcome.error
        else:
            said, winner, error = outcome.value.reason, outcome.value.winner, ""
        rows.append(
            {
                "question_id": call.question_id, "metric": call.metric, "first": call.first, "second": call.second,
                "repeat": call.repeat, "winner": winner, "reason": said, "judge": judge, "error": error,
                "called": outcome is not None, "first_answer": call.answers[0], "second_answer": call.answers[1],
            }
        )  # fmt: skip
    return rows


def chosen(what: str, given: Sequence[str] | None, known: Sequence[str]) -> list[str]:
    """Those given, in the order known. Raises ConfigError for one that is not known."""
    if given is None:
        return list(known)
    by_name = {name.casefold(): name for name in known}
    unknown = sorted({name.strip() for name in given if name.strip().casefold() not in by_name})
    if unknown:
        raise ConfigError(f"There is no {what} {', '.join(unknown)}. There are: {', '.join(known) or 'none'}.")
    wanted = {by_name[name.strip().casefold()] for name in given}
    return [name for name in known if name in wanted]
