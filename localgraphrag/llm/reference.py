"""The plain way, to check the engine against: Outlines on llama-cpp-python, one request after another.

Nothing is shared, batched, forced or kept: every turn reads its whole conversation, and each token is the most likely
one that Outlines' mask leaves. Slow on purpose; `llamacpp.py` must say the same.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from localgraphrag.errors import ContextError, ModelError
from localgraphrag.llm import closing, output
from localgraphrag.llm.gguf import GGUFModel
from localgraphrag.llm.machine import usable_cores
from localgraphrag.llm.types import Completion, Message, Request, Tokenizer, Usage


class ReferenceEngine:
    """Answers requests greedily through `outlines.from_llamacpp` and `outlines.Generator`.

    Parameters
    ----------
    path : the GGUF file.
    identity : the sha256 of the model file.
    context_tokens : prompt and output that fit.
    threads : processor threads, 0 for all usable cores.
    flash : whether to use flash attention; as shipped, the engine uses none on a processor.

    Repeats are not looked for, and temperatures not used. `replies` keeps the tokens of every reply, in order.
    """

    def __init__(
        self, path: Path, *, identity: str, context_tokens: int = 4096, threads: int = 0, flash: bool = False
    ) -> None:
        import llama_cpp
        import outlines

        cores = threads or usable_cores()
        self._vocabulary = GGUFModel(path, vocab_only=True)
        self._llama = llama_cpp.Llama(
            str(path), n_ctx=context_tokens, n_threads=cores, n_threads_batch=cores, flash_attn=flash, verbose=False
        )
        self._outlines = outlines.from_llamacpp(self._llama, chat_mode=False)
        self.identity = f"reference:{identity}"
        self.tokenizer: Tokenizer = self._vocabulary
        self.context_tokens = context_tokens
        self.replies: list[tuple[int, ...]] = []

    def prompt_tokens(self, request: Request) -> int:
        """Tokens of the whole prompt of a first turn."""
        return sum(map(len, self._vocabulary.chat_segments([*request.prefix, Message("user", request.prompt)])))

    def close(self) -> None:
        """Free the model. Safe to call twice."""
        self._llama.close()
        self._vocabulary.close()

    def run(self, requests: Iterable[Request]) -> Iterator[Completion]:
        """Yield a completion for each turn: a conversation to its end, then the next."""
        for first in requests:
            messages, tokens = list(first.prefix), list[int]()
            request: Request | None = first
            while request is not None:
                segments = self._vocabulary.chat_segments([*messages, Message("user", request.prompt)])
                prompt = tokens + [t for segment in (segments[-3:] if tokens else segments) for t in segment]
                completion, reply = self._complete(request, prompt)
                if not completion.error:  # a failed turn leaves no trace
                    messages += [Message("user", request.prompt), Message("assistant", completion.text)]
                    tokens = prompt + reply
                    self.replies.append(tuple(reply))
                request = request.then(completion) if request.then else None
                yield completion

    def _complete(self, request: Request, prompt: list[int]) -> tuple[Completion, list[int]]:
        begun = time.perf_counter()
        try:
            if len(prompt) + request.max_tokens > self.context_tokens:
                raise ContextError(
                    f"{request.key}: a prompt of {len(prompt)} tokens and an output of up to {request.max_tokens} do "
                    f"not fit the context of {self.context_tokens}."
                )
            reply, finish = self._generate(request, prompt)
        except ModelError as error:
            return Completion(request.key, "", "error", Usage(1, len(prompt)), str(error)), []
        text = b"".join(self._vocabulary.token_bytes(reply)).decode("utf-8", "replace")
        usage = Usage(1, len(prompt), len(prompt), len(reply), seconds=time.perf_counter() - begun)
        return Completion(request.key, text, "cap" if finish == "cap" else "stop", usage), reply

    def _generate(self, request: Request, prompt: Sequence[int]) -> tuple[list[int], str]:
        import outlines

        # the prompt goes in as tokens, past Outlines, which would read look-alikes of control tokens in a text as such
        generator: Any = outlines.Generator(self._outlines, _compact(request.output), backend="llguidance")
        generator.logits_processor.reset()
        processors = self._outlines.type_adapter.format_output_type(generator.logits_processor)
        llama: Any = self._llama
        llama.reset()
        reply: list[int] = []
        for token in llama.generate(prompt, temp=0.0, repeat_penalty=1.0, logits_processor=processors):
            if token in self._vocabulary.end_tokens:
                return reply, "stop"
            reply.append(token)
            if len(reply) >= request.max_tokens:
                return self._close_reply(request, reply), "cap"
        return reply, "stop"

    def _close_reply(self, request: Request, reply: list[int]) -> list[int]:
        matcher = output.matcher(self._vocabulary.matcher_tokenizer, output.grammar(request.output))
        matcher.try_consume_tokens(reply)
        found = closing.close(matcher, reply, self._vocabulary.token_bytes, self._vocabulary.encode)
        if found is None:
            raise ModelError(f"{request.key}: the reply cannot be closed under its output type.")
        way, keep = found
        return reply[:keep] + way


def _compact(declared: Any) -> Any:
    """The type with its JSON written without white space, as the engine writes it."""
    from outlines.types import JsonSchema

    if not isinstance(declared, JsonSchema):
        return declared
    layout = {"whitespace_flexible": False, "item_separator": ",", "key_separator": ":"}
    return JsonSchema(json.loads(declared.schema) | {"x-guidance": layout})
