"""How many tokens a second a model reads and writes on this machine, probed in about five seconds.

An engine works off what it has been given and cannot be stopped half way, so each request is made no longer than the
time that is left for it, going by how quickly those before it were read.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

from localgraphrag.chunks import Chunk
from localgraphrag.errors import ModelError
from localgraphrag.llm.output import schema
from localgraphrag.llm.types import Completion, Engine, Message, Request, Usage

READ_SECONDS, PROMPTS_SECONDS, WRITE_SECONDS = 1.5, 2.0, 1.5
"""On a slow machine: for reading, for the prompts of those requests that then write, and for their writing."""

READ_TOKENS = (40, 80, 160, 320, 640)
"""Lengths of text to read, one after another while there is time: a longer one is read faster, as chunks are."""

MOST_WRITERS, LEAST_WRITERS = 32, 4
"""Requests that write at once. The more an engine writes at once, the faster it writes."""

PROMPT_TOKENS = 11
"""Of each of them, beside the instructions, which are read once for all."""

MOST_STEPS, LEAST_STEPS = 12, 2
"""Tokens that each writes while its time is taken."""

WRITE_FACTOR = 8
"""A token is taken to be written in so many times as long as one is read, to choose the steps; then it is measured."""

FIRST_CHARACTERS, STEP_CHARACTERS = 8, 5
"""Of the reply that ends first, which is at least two tokens, and of one token more."""


def speed(engine: Engine, chunks: Sequence[Chunk]) -> tuple[float, float]:
    """Tokens per second that the engine reads of such chunks, and that it writes with many requests at once.

    Of those written, tokens that the grammar dictates do not count. Raises ModelError if the engine fails a request.
    """
    read = _read_rate(engine, chunks)
    return read, _write_rate(engine, read)


def _read_rate(engine: Engine, chunks: Sequence[Chunk]) -> float:
    started = time.monotonic()
    some = chunks[:50]
    text = " ".join(chunk.text for chunk in some) or "Nothing."
    per_token = len(text) / max(sum(chunk.tokens for chunk in some), 1)
    answer = schema({"yes": {"type": "boolean"}})
    rate = 0.0
    for tokens in (0, *READ_TOKENS):  # the first request also sets up what later ones use again, and is not counted
        length = round(tokens * per_token)
        shown = (text * (length // len(text) + 1))[:length]
        begun = time.monotonic()
        request = Request(f"{shown}\n\nIs this prose?", answer, max_tokens=12)
        (usage,) = [_usage(reply) for reply in engine.run([request])]
        seconds = _since(begun)
        rate = max(usage.read_tokens, 1) / seconds
        if tokens and _since(started) + 2 * seconds > READ_SECONDS:
            break
    return rate


def _write_rate(engine: Engine, read_rate: float) -> float:
    """Tokens per second from the moment that the first reply is done, which is a short one.

    By then all prompts that the engine takes at once have been read, and the others have written as much as the first;
    no more are drawn then, so that nothing but writing is left.
    """
    writers = min(max(int(PROMPTS_SECONDS * read_rate / PROMPT_TOKENS), LEAST_WRITERS), MOST_WRITERS)
    steps = min(max(int(WRITE_SECONDS * read_rate / (WRITE_FACTOR * writers)), LEAST_STEPS), MOST_STEPS)
    drawn = at_work = 0
    begun = 0.0
    replies: list[Completion] = []

    def requests() -> Iterator[Request]:
        nonlocal drawn
        while drawn < writers and (not replies or drawn < 2):
            drawn += 1
            yield _writing(FIRST_CHARACTERS + (drawn > 1) * steps * STEP_CHARACTERS)

    for reply in engine.run(requests()):
        if not replies:
            begun, at_work = time.monotonic(), drawn - 1
        replies.append(reply)
    seconds = _since(begun)
    first, *others = [usage.output_tokens - usage.forced_tokens for usage in map(_usage, replies)]
    return max(sum(others) - at_work * first, 1) / seconds


def _writing(characters: int) -> Request:
    """A request for a text of a length that the grammar ends, so that nothing of it is cut off."""
    from outlines.types import JsonSchema

    length = JsonSchema({"type": "string", "minLength": characters, "maxLength": characters})
    instructions = (Message("system", "You describe the place that is named, in one long sentence."),)
    return Request("A town by the sea.", length, instructions, max_tokens=4 * characters)


def _usage(reply: Completion) -> Usage:
    if reply.finish == "error":
        raise ModelError(f"The model failed when its speed was measured: {reply.error}")
    return reply.usage


def _since(moment: float) -> float:
    return max(time.monotonic() - moment, 1e-6)
