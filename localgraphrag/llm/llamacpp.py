"""The engine: llama.cpp in this process, many conversations in one batch, grammars on every reply.

Every conversation that is being written gets some rows of each step: its last token, those that its grammar forces, and
guesses of what comes next (`drafts.py`), of which those stay that the model would have written. Prompts are read in
steps of their own, many rows at a time. Instructions shared by requests are read once, and so is whatever else the
prompts of conversations in work begin with. A conversation that ends makes room for the next request at once; one that
goes on keeps what has been read.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from typing import Any, Literal

import numpy as np

from localgraphrag.errors import ContextError, ModelError
from localgraphrag.llm import closing, output
from localgraphrag.llm.drafts import MOST_EACH, guess, rows_each
from localgraphrag.llm.gguf import GGUFModel
from localgraphrag.llm.heartbeat import Beat, Heartbeat
from localgraphrag.llm.machine import usable_cores
from localgraphrag.llm.streams import Row, Streams
from localgraphrag.llm.talk import RESERVE, Talk
from localgraphrag.llm.trace import Choice
from localgraphrag.llm.types import Completion, Message, Request, Tokenizer, Usage

log = logging.getLogger(__name__)

_WORTH_COPYING = 64  # tokens read already by another conversation: a copy takes the time of one or two
_MOST_FAILURES = 3  # conversations in a row that llama.cpp fails: then it is no matter of one of them


class LlamaCppEngine:
    """Answers requests with a GGUF model.

    Parameters
    ----------
    model : the loaded model; the engine closes it.
    identity : the sha256 of the model file.
    slots : conversations in work at once, fewer of them while some need more than `cells`.
    cells : tokens of KV cache (f16) that a conversation gets.
    longest : tokens of the longest conversation that may come, `cells` or more.
    threads : processor threads, 0 for all usable cores.
    batch : tokens of a prompt read at once.
    flash : whether to use flash attention; None for what is faster.
    on_heartbeat : called while nothing finishes, after the first step that ends two seconds after the last call.

    `trace`, None at first, may be set to what shall hear of every token (`llm/trace.py`).

    Raises ModelError if llama.cpp cannot make the context (most likely: out of memory).
    """

    def __init__(
        self,
        model: GGUFModel,
        *,
        identity: str,
        slots: int = 16,
        cells: int = 2048,
        longest: int = 8704,
        threads: int = 0,
        batch: int = 256,
        flash: bool | None = None,
        on_heartbeat: Callable[[Heartbeat], None] | None = None,
    ) -> None:
        self.model, self.identity = model, identity
        self.tokenizer: Tokenizer = model
        self.threads, self.batch = threads or usable_cores(), batch
        self.context_tokens = min(max(cells, longest), model.trained_context)
        self.on_heartbeat = on_heartbeat
        self.trace: Callable[[Choice], None] | None = None
        self._streams = Streams(
            model,
            slots=slots,
            cells=cells,
            longest=self.context_tokens,
            threads=self.threads,
            batch=batch,
            flash=flash,
        )
        self._active: list[Talk] = []  # the talk at i is in stream i: steps want neighbours
        self._grammars: dict[int, tuple[Any, str]] = {}
        self._running = False
        self._beat = Beat(None)
        self._forgets = model.forgets
        self._failures = 0
        self.guessed, self.guessed_right = 0, 0
        self._keys: dict[int, int] = {}  # of a token, the first token with the same text
        self._texts: dict[bytes, int] = {}

    # -- the seam --------------------------------------------------------------------------------------------

    def prompt_tokens(self, request: Request) -> int:
        """Tokens of the whole prompt of a first turn."""
        return sum(map(len, self.model.chat_segments([*request.prefix, Message("user", request.prompt)])))

    def close(self) -> None:
        """Free the context and the model. Safe to call twice."""
        self._streams.close()
        self.model.close()

    def run(self, requests: Iterable[Request]) -> Iterator[Completion]:
        """Yield a completion per turn, in order of completion.

        A request that does not fit the context, or that llama.cpp fails by itself, comes back with `finish="error"`.
        Raises ModelError if the engine is already running or closed, or if llama.cpp fails one after another.
        """
        if self._streams.closed:
            raise ModelError("The engine is closed.")
        if self._running:
            raise ModelError("The engine is already at work in this process; let its first `run` finish.")
        self._running, self._failures = True, 0
        source, waiting = iter(requests), deque[Talk]()
        self._beat = Beat(self.on_heartbeat)
        try:
            while True:
                yield from self._admit(source, waiting)
                if not self._active:
                    return
                if not any(t.finish for t in self._active):  # a grammar may leave nothing to choose
                    self._step()
                for talk in [t for t in self._active if t.finish]:
                    self._beat.reset()
                    yield from self._finish(talk, waiting)
                self._tick()
        finally:
            for talk in list(self._active):
                self._release(talk)
            self._running = False

    # -- coming and going --------------------------------------------------------------------------------------

    def _admit(self, source: Iterator[Request], waiting: deque[Talk]) -> Iterator[Completion]:
        """Fill free streams, first with conversations that had to wait, then with new requests.

        One that needs longer streams than there are waits until those in work have come to their end. Shorter ones join
        those that need the streams as long as they are, rather than wait for more and shorter ones.
        """
        while len(self._active) < self._streams.slots:
            if not waiting:
                request = next(source, None)
                if request is None:
                    return
                talk = Talk(request, list(request.prefix))
                if not (yield from self._turn(talk, request)):
                    continue
                waiting.append(talk)
            longest = max((self._streams.size_for(talk.limit) for talk in self._active), default=0)
            needed = max(self._streams.size_for(waiting[0].limit), longest)
            if needed != self._streams.cells:
                if self._active:
                    return
                self._streams.divide(waiting[0].limit)
            self._place(waiting.popleft())

    def _turn(self, talk: Talk, request: Request | None) -> Generator[Completion, None, bool]:
        """Open the next turn; a refused one is told, and what the caller asks instead is tried. False if no turn is."""
        while request is not None:
            try:
                self._open_turn(talk, request)
            except ModelError as error:
                completion = Completion(request.key, "", "error", Usage(calls=1, prompt_tokens=talk.start), str(error))
                request = request.then(completion) if request.then else None
                yield completion
            else:
                return True
        return False

    def _open_turn(self, talk: Talk, request: Request) -> None:
        """Put a turn behind the answered ones and set up its reply.

        Raises ContextError if it cannot fit, ModelError if the chat format or the grammar refuses it.
        """
        talk.request = request
        segments = self.model.chat_segments([*talk.messages, Message("user", request.prompt)])
        new = segments[-3:]
        if talk.settled == len(talk.prefix):  # nothing is answered yet
            talk.prefix = tuple(token for segment in segments[:-2] for token in segment)
            talk.settled, new = 0, segments
        talk.cut(talk.settled)
        talk.tokens += [token for segment in new for token in segment]
        talk.settled = talk.settled or len(talk.prefix)
        talk.start = len(talk.tokens)
        if talk.limit > self.context_tokens:
            raise ContextError(
                f"{request.key or 'A request'}: a prompt of {talk.start} tokens, an output of up to "
                f"{request.max_tokens} and {RESERVE} to close it do not fit the context of {self.context_tokens} "
                "tokens. Lower the budget in localgraphrag.toml (context_window, map_budget or chunk_size), or use a "
                "model with a longer context."
            )
        talk.matcher = output.matcher(self.model.matcher_tokenizer, self._grammar(request.output))
        if talk.matcher.is_error():
            reason = talk.matcher.get_error().splitlines()[0][:300]
            raise ModelError(f"{request.key}: the output type has no usable grammar: {reason}")
        talk.random = np.random.default_rng(request.seed) if request.temperature > 0 else None
        talk.finish, talk.error, talk.forced, talk.illegal, talk.read = "", "", 0, 0, 0
        talk.begun, talk.reply = time.perf_counter(), b""
        self._take(talk, list(talk.matcher.compute_ff_tokens()), forced=True)
        if not talk.finish and len(talk.tokens) + MOST_EACH > talk.limit:
            raise ContextError(
                f"{request.key or 'A request'}: the output type dictates {talk.forced} tokens before the first choice, "
                f"more than `max_tokens` ({request.max_tokens}) and the {RESERVE} for closing leave room for. Raise "
                "`max_tokens`, or have the type dictate less."
            )

    def _grammar(self, declared: Any) -> str:
        """The grammar text of an output type; types are often one object shared by many requests."""
        known = self._grammars.get(id(declared))
        if known is None or known[0] is not declared:
            if len(self._grammars) > 64:  # enough for the types that are shared
                self._grammars.clear()
            known = self._grammars[id(declared)] = (declared, output.grammar(declared))
        return known[1]

    def _place(self, talk: Talk) -> None:
        """Give the conversation the next stream, which begins with its shared prefix."""
        talk.stream = len(self._active)
        self._active.append(talk)
        self._begin(talk)

    def _begin(self, talk: Talk) -> None:
        """Make its stream hold the shared prefix and nothing else; nothing at all if that could not be read."""
        try:
            talk.read += self._streams.open(talk.stream, talk.prefix, self._tick)
            talk.cached = len(talk.prefix)
        except ModelError as error:
            log.warning("%s The conversation reads its instructions itself.", error)
            self._empty(talk)

    def _release(self, talk: Talk) -> None:
        """Take the conversation out of its stream; the last one moves in, so that no gap is left."""
        last = self._active.pop()
        if last is not talk:
            self._streams.copy(last.stream, talk.stream)
            self._active[talk.stream], last.stream = last, talk.stream
        talk.stream, talk.cached = -1, 0

    # -- one step ------------------------------------------------------------------------------------------------

    def _step(self) -> None:
        """Read a part of one prompt, or take every conversation further.

        A prompt is read apart, since rows of one stream beyond those of its neighbours are decoded apart anyway. A
        few forced tokens go in with the others' steps: that costs less than a pass of their own.
        """
        each = rows_each(len(self._active)) if self._forgets else 1
        few = max(len(self._active) // 2, each)
        reading = next((t for t in self._active if t.pending > few), None)
        if reading:
            self._borrow(reading)
            steps = [(reading, reading.tokens[reading.cached :][: self.batch])]
        else:
            steps = [(talk, self._with_guesses(talk, each)) for talk in self._active]
        try:
            self._advance(steps)
        except ModelError as error:
            self._retry([talk for talk, _ in steps], error)

    def _advance(self, steps: Sequence[tuple[Talk, list[int]]]) -> None:
        """Decode the next tokens of some conversations, and choose what comes where all that is known has been read.

        Raises ModelError if llama.cpp cannot; then nothing has changed but what is in the streams.
        """
        rows: list[Row] = []
        ready: list[tuple[Talk, list[int], int]] = []
        for talk, taken in steps:
            known = talk.pending  # rows beyond are guesses
            if len(taken) >= known:
                ready.append((talk, taken[known:], len(rows) + known - 1))
            rows += [(token, talk.cached + i, talk.stream, i + 1 >= known) for i, token in enumerate(taken)]
        self._streams.decode(rows)
        self._failures = 0
        for talk, taken in steps:
            talk.read += max(min(talk.start, talk.cached + len(taken)) - talk.cached, 0)
            talk.cached += min(len(taken), talk.pending)
        for talk, guesses, row in ready:
            try:
                self._sample(talk, row)
                self._keep_right(talk, guesses, row)
            except ModelError as error:  # this reply's misfortune; the others go on
                talk.finish, talk.error = "error", str(error)

    def _retry(self, talks: Sequence[Talk], error: ModelError) -> None:
        """Try a step that failed for each of its conversations alone, in half the rows; those that fail again end."""
        log.warning("%s Trying again with each of %d conversations.", error, len(talks))
        for talk in talks:
            self._cut(talk, talk.cached)  # a part of the step may have come into the stream
            try:
                self._advance([(talk, talk.tokens[talk.cached :][: max(self.batch // 2, 1)])])
            except ModelError as again:
                self._fail(talk, again)

    def _fail(self, talk: Talk, error: ModelError) -> None:
        """End a reply that llama.cpp failed. Raises ModelError where it failed those before as well."""
        talk.finish, talk.error = "error", str(error)
        self._failures += 1
        if self._failures >= _MOST_FAILURES:
            raise ModelError(
                f"{error} It failed {self._failures} conversations in a row. Start again: what is done is kept. If it "
                "comes back, set fewer `slots`, or a lower `batch` or `gpu_layers`, in localgraphrag.toml."
            ) from error
        self._empty(talk)

    def _borrow(self, talk: Talk) -> None:
        """Take over what another conversation has read already of the same text.

        Questions put to the same passages have all but their end in common.
        """
        if not self._forgets or talk.pending <= _WORTH_COPYING:
            return
        read = {other.stream: common(talk.tokens[:-1], other.tokens[: other.cached]) for other in self._active}
        best = max(read, key=lambda stream: read[stream])
        if read[best] >= talk.cached + _WORTH_COPYING:
            self._streams.copy(best, talk.stream)
            self._cut(talk, read[best])

    def _with_guesses(self, talk: Talk, each: int) -> list[int]:
        """The next `each` tokens to decode: those known, then guesses. All conversations need the same number."""
        known = talk.tokens[talk.cached :][:each]
        lacking = each - len(known)
        if not lacking:
            return known
        talk.keys += map(self._key, talk.tokens[len(talk.keys) :])
        guesses = guess(talk.keys, talk.tokens, lacking)
        return known + guesses + known[-1:] * (lacking - len(guesses))

    def _key(self, token: int) -> int:
        """The same number for tokens that differ in white space at their ends."""
        key = self._keys.get(token)
        if key is None:
            text = self.model.token_bytes([token])[0].strip()
            key = self._keys[token] = self._texts.setdefault(text, token)
        return key

    def _keep_right(self, talk: Talk, guesses: list[int], row: int) -> None:
        """Go through the guesses behind the token read in `row`: each that the reply came to as well takes it on."""
        self.guessed += len(guesses)
        for right, token in enumerate(guesses, 1):
            if talk.finish or talk.tokens[talk.cached] != token:
                break
            talk.cached += 1
            self.guessed_right += 1
            if not talk.pending:
                self._sample(talk, row + right)
        if guesses:
            self._cut(talk, talk.cached)

    def _sample(self, talk: Talk, row: int) -> None:
        logits = self._streams.logits(row)
        token = int(logits.argmax()) if talk.random is None else -1
        if token < 0 or talk.matcher.validate_tokens([token]) != 1:
            talk.illegal += token >= 0
            token = self._sample_masked(talk, logits)
        if self.trace is not None:
            self.trace(Choice(talk.request.key, len(talk.tokens) - talk.start, token, logits, _legal(talk, logits)))
        self._take(talk, [token])
        if not talk.finish:
            self._take(talk, list(talk.matcher.compute_ff_tokens()), forced=True)
        if not talk.finish:
            self._guard(talk)

    def _sample_masked(self, talk: Talk, logits: np.ndarray[Any, Any]) -> int:
        legal = _legal(talk, logits)
        if talk.random is None:
            return int(np.where(legal, logits, -np.inf).argmax())
        candidates = np.flatnonzero(legal)
        scaled = logits[candidates].astype(np.float64) / talk.request.temperature
        weights = np.exp(scaled - scaled.max())
        return int(talk.random.choice(candidates, p=weights / weights.sum()))

    def _take(self, talk: Talk, tokens: list[int], *, forced: bool = False) -> None:
        """Add tokens to the reply. An end token ends it and is not part of it."""
        if not tokens:
            return
        if talk.matcher.try_consume_tokens(tokens) != len(tokens):
            reason = talk.matcher.get_error()
            raise ModelError(f"{talk.request.key}: the grammar refused tokens it had allowed: {reason}")
        if forced:
            self._tell(talk, len(talk.tokens) - talk.start, tokens)
        ends = self.model.end_tokens
        talk.tokens += [t for t in tokens if t not in ends]
        talk.reply += b"".join(self.model.token_bytes([t for t in tokens if t not in ends]))
        talk.forced += len(tokens) if forced else 0
        if talk.matcher.is_stopped() or tokens[-1] in ends:
            talk.finish = "stop"

    def _tell(self, talk: Talk, position: int, forced: list[int]) -> None:
        if self.trace is not None:
            for at, token in enumerate(forced, position):
                self.trace(Choice(talk.request.key, at, token))

    def _guard(self, talk: Talk) -> None:
        """End a reply that reaches its cap or goes round in circles."""
        reply = talk.tokens[talk.start :]
        repeats = talk.request.repeats
        if len(reply) >= talk.request.max_tokens:
            if len(talk.tokens) > talk.limit:  # a long forced text began shortly before the cap
                self._take_back(talk, len(reply) - talk.request.max_tokens)
            self._close_reply(talk, "cap")
        elif drop := closing.looping(reply[-160:]):
            self._take_back(talk, drop)
            self._close_reply(talk, "repeat")
        elif repeats is not None and self._string_ended(talk) and repeats(talk.reply.decode("utf-8", "ignore")):
            self._close_reply(talk, "repeat")

    def _take_back(self, talk: Talk, drop: int) -> None:
        talk.matcher.rollback(drop)
        talk.cut(len(talk.tokens) - drop)

    def _string_ended(self, talk: Talk) -> bool:
        return b'"' in self.model.token_bytes(talk.tokens[-1:])[0]

    def _close_reply(self, talk: Talk, why: Literal["cap", "repeat"]) -> None:
        reply = talk.tokens[talk.start :]
        found = closing.close(talk.matcher, reply, self.model.token_bytes, self.model.encode)
        if found is None:
            raise ModelError(f"{talk.request.key}: the reply cannot be closed under its output type.")
        way, keep = found
        self._tell(talk, keep, [*way, min(self.model.end_tokens)])
        talk.cut(talk.start + keep)
        talk.tokens += way
        talk.reply = b"".join(self.model.token_bytes(talk.tokens[talk.start :]))
        talk.forced += len(way)
        self._forget(talk, talk.start + keep)
        talk.finish = why

    def _forget(self, talk: Talk, keep: int) -> None:
        """Take tokens from position `keep` on out of the cache."""
        if talk.cached > keep:
            self._cut(talk, keep)

    def _cut(self, talk: Talk, keep: int) -> None:
        """Have the stream hold the first `keep` tokens of the conversation, which stand in it, and nothing else."""
        if self._streams.cut(talk.stream, keep):
            talk.cached = keep
            return
        # recurrent and hybrid models cannot drop a part: begin again, and try it no more where it need not be
        self._forgets = False
        self._begin(talk)

    def _empty(self, talk: Talk) -> None:
        self._streams.clear(talk.stream)
        talk.cached = 0

    def _tick(self) -> None:
        self._beat.tick(self._active)

    # -- the end of a turn ---------------------------------------------------------------------------------------

    def _finish(self, talk: Talk, waiting: deque[Talk]) -> Iterator[Completion]:
        request = talk.request
        assert talk.finish
        written = len(talk.tokens) - talk.start
        usage = Usage(1, talk.start, talk.read, written, talk.forced, talk.illegal, time.perf_counter() - talk.begun)
        if talk.finish == "error":
            completion = Completion(request.key, "", "error", usage, talk.error)
            self._forget(talk, talk.settled)
        else:
            completion = Completion(request.key, talk.reply.decode("utf-8", "replace"), talk.finish, usage)
            talk.messages += [Message("user", request.prompt), Message("assistant", completion.text)]
            talk.settled = len(talk.tokens)
        follow_up = request.then(completion) if request.then else None
        yield completion
        if not (yield from self._turn(talk, follow_up)):
            self._release(talk)
        elif talk.limit > self._streams.cells:
            self._release(talk)
            waiting.appendleft(talk)


def common(tokens: Sequence[int], others: Sequence[int]) -> int:
    """With how many tokens both begin.

    >>> common([1, 2, 3, 4], [1, 2, 5]), common([1], [1, 2]), common([], [1])
    (2, 1, 0)
    """
    pairs = zip(tokens, others, strict=False)
    return next((at for at, (one, other) in enumerate(pairs) if one != other), min(len(tokens), len(others)))


def _legal(talk: Talk, logits: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Which tokens the grammar allows next."""
    allowed = np.frombuffer(talk.matcher.compute_bitmask(), dtype=np.uint8)
    return np.unpackbits(allowed, bitorder="little")[: len(logits)].astype(bool)
