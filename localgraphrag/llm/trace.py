"""What a model chose, token by token, and what its grammar left it to choose from: for looking, not for indexing.

Set `LlamaCppEngine.trace` to a `Tracer`, run, and read `turns`. Each step then costs a mask and a look over the
vocabulary; unset, it costs nothing.
"""

from __future__ import annotations

import codecs
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np


class Vocabulary(Protocol):
    """Of a model: the tokens that end a reply, and the bytes of each token."""

    @property
    def end_tokens(self) -> frozenset[int]:
        """Those that end a reply."""

    def token_bytes(self, tokens: Sequence[int]) -> list[bytes]:
        """The bytes of each token."""


class Choice(NamedTuple):
    """One token of a reply, as the engine tells it.

    `position` counts the tokens of the reply before it; where those told already are more, the reply was cut there.
    `logits` and `legal` are over the vocabulary and hold only during the call; None for a token that was forced.
    """

    key: str
    position: int
    token: int
    logits: np.ndarray[Any, Any] | None = None
    legal: np.ndarray[Any, Any] | None = None


class Candidate(NamedTuple):
    """A token that could come next: its text ("" ends the reply), its probability before the grammar is asked, and
    what the grammar says.
    """

    text: str
    share: float
    legal: bool


class TokenStep(NamedTuple):
    """A token of a reply: `text` is what it adds, in whole characters.

    `allowed` is how many tokens the grammar left, 1 where it forced this one. `candidates`: the likeliest ones, best
    first, then the one chosen if it is not among them; none for a forced token. `chosen`: its number there, or -1.
    """

    text: str
    allowed: int = 1
    chosen: int = -1
    candidates: tuple[Candidate, ...] = ()

    @property
    def forced(self) -> bool:
        """Whether the grammar left nothing to choose."""
        return self.chosen < 0

    @property
    def struck(self) -> bool:
        """Whether the likeliest token was against the grammar."""
        return bool(self.candidates) and not self.candidates[0].legal


@dataclass(frozen=True)
class Turn:
    """A reply by its steps. `key` is the request's; `taken_back`: tokens that were written and cut off again."""

    key: str
    steps: tuple[TokenStep, ...]
    taken_back: int = 0

    @property
    def text(self) -> str:
        """The reply."""
        return "".join(step.text for step in self.steps)


class Tracer:
    """Listens to an engine; `turns` holds what it heard, by request key in the order of their first tokens.

    Parameters
    ----------
    vocabulary : the engine's model.
    top : how many candidates to keep of each step.
    """

    def __init__(self, vocabulary: Vocabulary, *, top: int = 5) -> None:
        self._vocabulary, self._top = vocabulary, top
        self._heard: dict[str, list[tuple[bytes, TokenStep]]] = {}
        self._taken_back: dict[str, int] = {}

    def __call__(self, choice: Choice) -> None:
        """Note one token."""
        heard = self._heard.setdefault(choice.key, [])
        cut = len(heard) - choice.position
        self._taken_back[choice.key] = self._taken_back.get(choice.key, 0) + max(cut, 0)
        del heard[choice.position :]
        heard.append((self._bytes(choice.token), self._step(choice)))

    @property
    def turns(self) -> tuple[Turn, ...]:
        """The replies heard so far."""
        return tuple(Turn(key, _with_text(heard), self._taken_back[key]) for key, heard in self._heard.items())

    def _step(self, choice: Choice) -> TokenStep:
        if choice.logits is None or choice.legal is None:
            return TokenStep("")
        likely = np.argpartition(choice.logits, -self._top)[-self._top :]
        tokens = [int(token) for token in likely[np.argsort(-choice.logits[likely], kind="stable")]]
        tokens += [choice.token] if choice.token not in tokens else []
        weights = np.exp(choice.logits.astype(np.float64) - float(choice.logits.max()))
        total = float(weights.sum())
        found = (
            Candidate(
                self._bytes(token).decode("utf-8", "backslashreplace"),
                round(float(weights[token]) / total, 4),
                bool(choice.legal[token]),
            )
            for token in tokens
        )
        return TokenStep("", int(choice.legal.sum()), tokens.index(choice.token), tuple(found))

    def _bytes(self, token: int) -> bytes:
        return b"" if token in self._vocabulary.end_tokens else self._vocabulary.token_bytes([token])[0]


def _with_text(heard: list[tuple[bytes, TokenStep]]) -> tuple[TokenStep, ...]:
    """The steps with what each adds: a token may be part of a character, which comes with the last part."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    return tuple(step._replace(text=decoder.decode(piece)) for piece, step in heard)
