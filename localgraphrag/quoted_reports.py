"""A report whose findings are sentences of the documents, and of which the model writes what they add up to.

The findings are the sentences that say most of what all of the community's do (`central`), chosen without a model: one
of 1.5 billion parameters takes those that it reads first, and reading all takes most of the time (docs/log.md).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from localgraphrag.central import central
from localgraphrag.embed import Embedder
from localgraphrag.llm.output import schema
from localgraphrag.llm.types import Completion, Message, Request
from localgraphrag.llm.units import Conversation
from localgraphrag.packing import PackedContext
from localgraphrag.sentences import is_statement

if TYPE_CHECKING:
    from localgraphrag.prompts import Prompts

MOST_FINDINGS = 10
RESTING = 0.5
"""What it adds to a sentence's standing of 0 to 1 that of all the most entities, links and claims rest on it."""

SUMMARY_CHARACTERS, TITLE_CHARACTERS, REASON_CHARACTERS = 240, 80, 80


def prefix(prompts: Prompts) -> tuple[Message, ...]:
    """Instructions, and one example as a finished exchange."""
    return (
        Message("system", prompts.render("report_quotes_system")),
        Message("user", prompts.render("report_quotes", context=prompts.render("report_quotes_example"))),
        Message("assistant", prompts.render("report_quotes_example_reply")),
    )


def quotable(packed: PackedContext) -> dict[str, int]:
    """The sentences of a context that can be findings, with the labels of their records.

    Headings, salutations and the like are left out where there is something better.
    """
    said = {text: label for label, text in enumerate(packed.told, 1) if text}
    telling = {text: label for text, label in said.items() if is_statement(text)}
    return telling or said


def findings(packed: PackedContext, embedder: Embedder, report_tokens: int) -> dict[str, int]:
    """The sentences that are findings, the most central first, with the labels of their records.

    Together they take at most `report_tokens`. What many records rest on counts for more.
    """
    said = quotable(packed)
    costs = [step.tokens for step in packed.steps if step.action == "add"]
    resting = np.log1p([1 + len(packed.records[label - 1].also) for label in said.values()])
    bonus = RESTING * resting / resting.max() if said else resting
    chosen = central(
        embedder.embed(list(said)), [costs[label - 1] for label in said.values()], report_tokens, MOST_FINDINGS, bonus
    )
    texts = list(said)
    return {texts[i]: said[texts[i]] for i in chosen}


def ask(
    packed: PackedContext, found: Mapping[str, int], prompts: Prompts, report_tokens: int
) -> Conversation[dict[str, Any]]:
    """The conversation about the findings; returns title, rating, reason and summary."""
    context = "\n".join(f"- {text}" for text in found) or packed.text
    written: Completion = yield Request(
        prompts.render("report_quotes", context=context),
        schema(about_output()),
        prefix(prompts),
        max_tokens=max(report_tokens // 2, 100),
    )
    return dict(json.loads(written.text))


def about_output() -> dict[str, Any]:
    """JSON schema of what is written about the findings.

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
