"""An engine that answers from a function or a recorded file: for tests, and for notebooks without a model."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence

from localgraphrag.errors import ContextError
from localgraphrag.llm.types import Completion, Message, Request, Tokenizer, Usage

Answerer = Callable[[tuple[Message, ...], Request], str]
"""Gets all messages of the conversation so far (the current prompt last) and the request; returns the reply."""


class WordTokenizer:
    """Words, runs of spaces, and single other characters: enough like a model's tokens to test budgets with."""

    _pattern = re.compile(r"\w{1,6}|[^\S\n]+|.", re.DOTALL)

    def __init__(self) -> None:
        self._ids: dict[bytes, int] = {}
        self._bytes: list[bytes] = []

    def encode(self, text: str) -> list[int]:
        """Numbers of the pieces of `text`, given out in order of first appearance."""
        ids = []
        for match in self._pattern.finditer(text):
            piece = match.group().encode("utf-8", "surrogatepass")
            if piece not in self._ids:
                self._ids[piece] = len(self._bytes)
                self._bytes.append(piece)
            ids.append(self._ids[piece])
        return ids

    def count(self, text: str) -> int:
        """Number of pieces of `text`."""
        return sum(1 for _ in self._pattern.finditer(text))

    def token_bytes(self, tokens: Sequence[int]) -> list[bytes]:
        """The UTF-8 of each piece."""
        return [self._bytes[t] for t in tokens]


class ScriptedEngine:
    """Answers every request from `answer(messages, request)`.

    Parameters
    ----------
    answer : the reply to a turn, given the conversation so far; an exception it raises that is a
        `LocalGraphRAGError` becomes a completion with `finish="error"`.
    name : part of the identity; two scripts with different answers need different names.
    context_tokens : prompt and output that fit.

    Replies are checked against the request's output type where that is a JSON schema or a regular
    expression, so that a test cannot pass on what no real engine would say.
    """

    def __init__(self, answer: Answerer, name: str = "test", context_tokens: int = 32768) -> None:
        self.answer = answer
        self.identity = f"scripted:{name}"
        self.tokenizer: Tokenizer = WordTokenizer()
        self.context_tokens = context_tokens
        self.requests: list[Request] = []  # every request answered, for tests to look at

    def run(self, requests: Iterable[Request]) -> Iterator[Completion]:
        """Yield a completion for each turn: a conversation to its end, then the next."""
        for first in requests:
            history: tuple[Message, ...] = first.prefix
            turns: deque[Request] = deque([first])
            while turns:
                request = turns.popleft()
                history = (*history, Message("user", request.prompt))
                completion = self._complete(history, request)
                history = (*history, Message("assistant", completion.text))
                follow_up = request.then(completion) if request.then else None
                if follow_up is not None:
                    turns.append(follow_up)
                yield completion

    def prompt_tokens(self, request: Request) -> int:
        """Pieces of the whole prompt of a first turn, and four for the format of each message."""
        return sum(self.tokenizer.count(m.content) + 4 for m in (*request.prefix, Message("user", request.prompt)))

    def close(self) -> None:
        """Nothing to free."""

    def _complete(self, history: tuple[Message, ...], request: Request) -> Completion:
        from localgraphrag.errors import LocalGraphRAGError
        from localgraphrag.llm.output import check_reply

        self.requests.append(request)
        shown = sum(self.tokenizer.count(m.content) + 4 for m in history)
        try:
            if shown + request.max_tokens > self.context_tokens:
                raise ContextError(
                    f"{request.key}: a prompt of {shown} tokens and an output of up to {request.max_tokens} do not fit "
                    f"the context of {self.context_tokens}."
                )
            text = self.answer(history, request)
            check_reply(request.output, text)
        except LocalGraphRAGError as error:
            return Completion(request.key, "", "error", Usage(calls=1, prompt_tokens=shown), str(error))
        spoken = self.tokenizer.count(text)
        return Completion(request.key, text, "stop", Usage(1, shown, shown, spoken))
