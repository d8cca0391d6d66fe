"""What a step of the evaluation took."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from localgraphrag.llm.types import Usage

if TYPE_CHECKING:
    from localgraphrag.runner import StoredRunner


@dataclass(frozen=True)
class Took:
    """What a step took in its last run.

    Of `units` of work `stored` were there from earlier runs and took nothing; `failed` gave no result. Tokens as a
    service without memory would count them, `read_tokens` as the model here read them anew. `seconds` by the clock.
    """

    units: int
    stored: int
    failed: int
    calls: int
    prompt_tokens: int
    read_tokens: int
    output_tokens: int
    seconds: float


def took(runner: StoredRunner, seconds: float) -> Took:
    """The ledger of all that a runner was given."""
    used = sum(runner.usage.values(), Usage())
    units, stored, failed = (
        sum(count for (_, what), count in runner.counts.items() if what == name)
        for name in ("units", "cached", "failed")
    )
    return Took(
        units, stored, failed, used.calls, used.prompt_tokens, used.read_tokens, used.output_tokens, round(seconds, 3)
    )
