"""The model seam: what goes to an engine and what comes back.

An engine takes *requests* and yields *completions* as they finish. A request may be continued:
`Request.then` receives its completion and returns the next turn of the same conversation, for which
the engine keeps what the model has already read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, runtime_checkable

Role = Literal["system", "user", "assistant"]


@dataclass(frozen=True)
class Message:
    """One message of a chat."""

    role: Role
    content: str


@dataclass(frozen=True)
class Request:
    """One turn asked of a model.

    Parameters
    ----------
    prompt : the user message of this turn.
    output : the Outlines type of the reply: a pydantic model, `outlines.types.JsonSchema`,
        `outlines.types.Regex` or `outlines.types.CFG` (llguidance's Lark syntax).
    prefix : messages before the prompt that many requests share (instructions, examples). The engine reads
        equal prefixes once. Must be empty in a follow-up turn.
    max_tokens : cap on the output, in the model's tokens. Near it the reply is closed, never truncated.
    seed, temperature : sampling; temperature 0 is greedy.
    key : the caller's name for the request, given back in the completion and shown in progress.
    then : gets this turn's completion, returns the next turn or None.
    repeats : gets the text so far, says whether it has begun to repeat itself; then the reply is cut back to
        the last whole item and closed. Asked whenever a string ends. It may be wrong only in missing a repeat.
    """

    prompt: str
    output: Any
    prefix: tuple[Message, ...] = ()
    max_tokens: int = 512
    seed: int = 0
    temperature: float = 0.0
    key: str = ""
    then: Callable[[Completion], Request | None] | None = field(default=None, compare=False, repr=False)
    repeats: Callable[[str], bool] | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True)
class Usage:
    """Tokens and seconds of one turn, or of several added up.

    `prompt_tokens` is what the model was shown (prefix, earlier turns and all: what a stateless service
    would bill); `read_tokens` is what it had to read anew; `output_tokens` counts the reply and
    `forced_tokens` those of them that the grammar dictated; `illegal` counts steps at which the model's first choice
    was against the grammar. `seconds` is wall time from admission to the end.
    """

    calls: int = 0
    prompt_tokens: int = 0
    read_tokens: int = 0
    output_tokens: int = 0
    forced_tokens: int = 0
    illegal: int = 0
    seconds: float = 0.0

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            self.calls + other.calls,
            self.prompt_tokens + other.prompt_tokens,
            self.read_tokens + other.read_tokens,
            self.output_tokens + other.output_tokens,
            self.forced_tokens + other.forced_tokens,
            self.illegal + other.illegal,
            self.seconds + other.seconds,
        )


@dataclass(frozen=True)
class Completion:
    """The reply to one request: always complete and valid under its output type, unless `error` is set.

    `finish` is "stop" (the model ended it), "cap" (closed near the token cap) or "repeat" (closed because
    it repeated itself). On "error" the text is empty and `error` says why.
    """

    key: str
    text: str
    finish: Literal["stop", "cap", "repeat", "error"] = "stop"
    usage: Usage = Usage()
    error: str = ""


@runtime_checkable
class Tokenizer(Protocol):
    """Text to the tokens of a model. Special tokens never come out of `encode`."""

    def encode(self, text: str) -> list[int]:
        """Token ids of `text`; control-token look-alikes are plain text."""

    def count(self, text: str) -> int:
        """Number of tokens of `text`."""

    def token_bytes(self, tokens: Sequence[int]) -> list[bytes]:
        """The bytes of each token; joined, they are the text's UTF-8. A token may be part of a character."""


@runtime_checkable
class Engine(Protocol):
    """Anything that answers requests."""

    identity: str
    """Names the model: a GGUF's sha256, or `scripted:<name>`. Part of every stored unit's key."""

    tokenizer: Tokenizer

    context_tokens: int
    """Prompt and output of one conversation together must fit this, in tokens."""

    def run(self, requests: Iterable[Request]) -> Iterator[Completion]:
        """Yield a completion for each turn, in order of completion. Requests are drawn as there is room."""

    def prompt_tokens(self, request: Request) -> int:
        """Tokens of the whole prompt of a first turn: prefix, prompt, chat format."""

    def close(self) -> None:
        """Free the model. Safe to call twice."""
