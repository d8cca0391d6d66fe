"""A report whose findings are sentences of the documents: the model chooses them and says what they add up to.

Two turns, so that what a report says is written by a model that has just chosen what it rests on. A small model that
is asked for numbers of records counts them through instead of choosing (docs/log.md); words it has to look for.
"""

from __future__ import annotations

import json
from itertools import accumulate
from typing import TYPE_CHECKING, Any

from localgraphrag.llm.output import schema
from localgraphrag.llm.types import Completion, Message, Request
from localgraphrag.llm.units import Conversation
from localgraphrag.packing import PackedContext
from localgraphrag.sentences import is_statement

if TYPE_CHECKING:
    from localgraphrag.prompts import Prompts

MOST_FINDINGS, LEAST_FINDINGS = 7, 5
MORE_TURNS = 2  # in which findings are asked for that are still lacking
ESCAPES = 1.1  # tokens of a sentence in JSON, for one as it stands
SUMMARY_CHARACTERS, TITLE_CHARACTERS, REASON_CHARACTERS = 240, 80, 80


def prefix(prompts: Prompts) -> tuple[Message, ...]:
    """Instructions, and one example as a finished conversation."""
    findings, _, rest = prompts.render("report_quotes_example_reply").strip().partition("\n")
    return (
        Message("system", prompts.render("report_quotes_system")),
        Message("user", prompts.render("report_quotes", context=prompts.render("report_quotes_example"))),
        Message("assistant", findings),
        Message("user", prompts.render("report_quotes_about")),
        Message("assistant", rest),
    )


def quotable(packed: PackedContext) -> dict[str, int]:
    """The sentences of a context that can be findings, with the labels of their records.

    Headings, salutations and the like are left out where there is something better.
    """
    said = {text: label for label, text in enumerate(packed.told, 1) if text}
    telling = {text: label for text, label in said.items() if is_statement(text)}
    return telling or said


def ask(packed: PackedContext, prompts: Prompts, report_tokens: int) -> Conversation[dict[str, Any]]:
    """The conversation; returns title, rating, reason and summary, and the findings with their records' labels."""
    said = quotable(packed)
    most = most_findings(packed, said, report_tokens)
    least = min(most, LEAST_FINDINGS, 1 + len(said) // 3)
    chosen: Completion = yield Request(
        prompts.render("report_quotes", context=packed.text),
        schema(findings_output(list(said), most)),
        prefix(prompts),
        max_tokens=report_tokens,
    )
    quotes = _read(chosen.text)
    # A small model stops at two or three, or quotes one again and is stopped. A grammar that asked for more would leave
    # the engine no way to end a reply that goes round in circles.
    for _ in range(MORE_TURNS):
        if len(quotes) >= least:
            break
        rest = [text for text in said if text not in quotes]
        more: Completion = yield Request(
            prompts.render("report_quotes_more"),
            schema(findings_output(rest, most - len(quotes))),
            max_tokens=report_tokens,
        )
        quotes += _read(more.text)
    written: Completion = yield Request(
        prompts.render("report_quotes_about"), schema(about_output()), max_tokens=max(report_tokens // 2, 100)
    )
    return {**json.loads(written.text), "findings": {quote: said[quote] for quote in quotes}}


def most_findings(packed: PackedContext, said: dict[str, int], report_tokens: int) -> int:
    """How many sentences can be quoted within a cap, were they the longest: a list that ran into it has no end."""
    costs = [step.tokens for step in packed.steps if step.action == "add"]
    longest = sorted((costs[label - 1] * ESCAPES + 4 for label in said.values()), reverse=True)[:MOST_FINDINGS]
    return max(sum(total <= report_tokens - 20 for total in accumulate(longest)), min(1, len(said)))


def _read(text: str) -> list[str]:
    return list(dict.fromkeys(json.loads(text)["findings"]))


def findings_output(said: list[str], most: int) -> dict[str, Any]:
    """JSON schema of the findings: sentences, word for word."""
    if not said:
        return {"findings": {"type": "array", "maxItems": 0}}
    return {"findings": {"type": "array", "minItems": 1, "maxItems": most, "items": {"enum": said}}}


def about_output() -> dict[str, Any]:
    """JSON schema of what is written once the findings are chosen.

    The summary comes last: where the model begins to repeat itself, and is stopped, there is nothing after it to lose.
    """
    return {
        "title": _string(TITLE_CHARACTERS),
        "rating_reason": _string(REASON_CHARACTERS),
        "rating": {"type": "integer", "minimum": 0, "maximum": 10},
        "summary": _string(SUMMARY_CHARACTERS),
    }


def _string(limit: int) -> dict[str, Any]:
    return {"type": "string", "minLength": 1, "maxLength": limit}
