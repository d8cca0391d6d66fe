"""A conversation in work: its tokens, how many of them have been read, and the reply that is being written."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from localgraphrag.llm.closing import LONGEST_WAY
from localgraphrag.llm.types import Message, Request

RESERVE = LONGEST_WAY
"""Cells kept free behind a reply, for closing it."""


@dataclass
class Talk:
    """All tokens of a conversation, and how many of them are in the KV cache."""

    request: Request
    messages: list[Message]  # prefix and answered turns
    prefix: tuple[int, ...] = ()
    tokens: list[int] = field(default_factory=list)
    keys: list[int] = field(default_factory=list)  # of the first of `tokens`, for guessing
    settled: int = 0  # tokens of prefix and answered turns; a turn that fails leaves no trace behind them
    begun: float = 0.0
    stream: int = -1
    cached: int = 0
    start: int = 0  # where the reply begins in `tokens`
    matcher: Any = None
    random: np.random.Generator | None = None
    finish: Literal["stop", "cap", "repeat", "error", ""] = ""
    error: str = ""
    read: int = 0
    forced: int = 0
    illegal: int = 0
    reply: bytes = b""

    @property
    def pending(self) -> int:
        """Tokens that are not in the cache."""
        return len(self.tokens) - self.cached

    @property
    def limit(self) -> int:
        """Cells that the conversation may come to take by the end of the turn."""
        return self.start + self.request.max_tokens + RESERVE

    def cut(self, keep: int) -> None:
        """Drop the tokens from a position on."""
        del self.tokens[keep:], self.keys[keep:]
