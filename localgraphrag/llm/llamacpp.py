"""The engine: llama.cpp in this process, many conversations in one batch, grammars on every reply.

One `llama_batch` per step holds a row for each conversation that is being written, the tokens that grammars force,
and slices of prompts still to be read. Instructions shared by requests are read once. A conversation that ends makes
room for the next request at once; one that goes on keeps what has been read.
"""

from __future__ import annotations

import logging
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from localgraphrag.errors import ContextError, ModelError
from localgraphrag.llm import closing, output
from localgraphrag.llm.gguf import GGUFModel, usable_cores
from localgraphrag.llm.types import Completion, Message, Request, Tokenizer, Usage

log = logging.getLogger(__name__)

_PREFIXES = 4  # shared prefixes kept at once
_RESERVE = closing._LONGEST_WAY  # cells kept free behind a reply, for closing it
_HEARTBEAT_SECONDS = 2.0


@dataclass(frozen=True)
class Heartbeat:
    """A sign of life during a long pause: the oldest request in work and what it has come to."""

    key: str
    active: int
    output_tokens: int
    tokens_per_second: float


@dataclass
class _Talk:
    """A conversation in work: all its tokens, and how many of them are in the KV cache."""

    request: Request
    messages: list[Message]  # prefix and answered turns
    prefix: tuple[int, ...]
    tokens: list[int]
    settled: int  # tokens of prefix and answered turns; a turn that fails leaves no trace behind them
    begun: float = 0.0
    seq: int = -1
    cached: int = 0
    start: int = 0  # where the reply begins in `tokens`
    matcher: Any = None
    random: np.random.Generator | None = None
    finish: Literal["stop", "cap", "repeat", "error", ""] = ""
    error: str = ""
    read: int = 0
    forced: int = 0
    illegal: int = 0
    reply: bytes = field(default=b"")

    @property
    def pending(self) -> int:
        return len(self.tokens) - self.cached

    @property
    def limit(self) -> int:
        """Cells the turn may come to take, beyond the shared prefix."""
        return self.start + self.request.max_tokens + _RESERVE - len(self.prefix)


class LlamaCppEngine:
    """Answers requests with a GGUF model.

    Parameters
    ----------
    model : the loaded model; the engine closes it.
    identity : the sha256 of the model file.
    slots : conversations in work at once.
    cells : tokens of KV cache shared by all conversations (f16).
    threads : processor threads, 0 for all usable cores.
    batch : most rows decoded at once.
    step_rows : rows that a step is filled up to with prompt slices while replies are being written.
    on_heartbeat : called every two seconds while nothing finishes.

    Raises ModelError if llama.cpp cannot make the context (most likely: out of memory).
    """

    def __init__(
        self,
        model: GGUFModel,
        *,
        identity: str,
        slots: int = 16,
        cells: int = 24576,
        threads: int = 0,
        batch: int = 256,
        step_rows: int = 48,
        on_heartbeat: Callable[[Heartbeat], None] | None = None,
    ) -> None:
        self.model, self.identity, self.slots, self.cells = model, identity, slots, cells
        self.tokenizer: Tokenizer = model
        self.threads = threads or usable_cores()
        self.context_tokens = min(cells, model.trained_context)
        self.on_heartbeat = on_heartbeat
        self.step_rows = max(step_rows, slots)
        self._api = model.api
        self._context = _make_context(model, cells, slots + _PREFIXES, self.threads, max(batch, slots))
        self._memory = self._api.llama_get_memory(self._context)
        self._batch = _Batch(self._api, max(batch, slots))
        self._prefixes: OrderedDict[tuple[int, ...], int] = OrderedDict()
        self._free = list(range(_PREFIXES, _PREFIXES + slots))
        self._active: list[_Talk] = []
        self._grammars: dict[int, tuple[Any, str]] = {}
        self._running = False

    # -- the seam --------------------------------------------------------------------------------------------

    def prompt_tokens(self, request: Request) -> int:
        """Tokens of the whole prompt of a first turn."""
        return sum(map(len, self.model.chat_segments([*request.prefix, Message("user", request.prompt)])))

    def close(self) -> None:
        """Free the context and the model. Safe to call twice."""
        if self._context:
            self._batch.free()
            self._api.llama_free(self._context)
            self._context = None
        self.model.close()

    def run(self, requests: Iterable[Request]) -> Iterator[Completion]:
        """Yield a completion per turn, in order of completion.

        Raises ModelError if the engine is already running or closed. A request that does not fit the context comes
        back with `finish="error"`.
        """
        if not self._context:
            raise ModelError("The engine is closed.")
        if self._running:
            raise ModelError("The engine is already at work in this process; let its first `run` finish.")
        self._running = True
        source, waiting = iter(requests), deque[_Talk]()
        beat = _Beat(self.on_heartbeat)
        try:
            while True:
                yield from self._admit(source, waiting)
                if not self._active:
                    return
                if not any(t.finish for t in self._active):  # a grammar may leave nothing to choose
                    self._step(waiting)
                for talk in [t for t in self._active if t.finish]:
                    beat.reset()
                    yield from self._finish(talk, waiting)
                beat.tick(self._active)
        finally:
            for talk in list(self._active):
                self._release(talk)
            self._running = False

    # -- coming and going --------------------------------------------------------------------------------------

    def _admit(self, source: Iterator[Request], waiting: deque[_Talk]) -> Iterator[Completion]:
        """Fill free slots, first with conversations that had to wait, then with new requests."""
        while self._free:
            if waiting:
                talk = waiting[0]
                if self._active and not self._room_for(talk):
                    return
                waiting.popleft()
            else:
                request = next(source, None)
                if request is None:
                    return
                begun = self._start(request)
                if not (yield from self._turn(begun, request)):
                    continue
                talk = begun
                if self._active and not self._room_for(talk):
                    waiting.append(talk)
                    return
            self._place(talk)

    def _start(self, request: Request) -> _Talk:
        segments = self.model.chat_segments([*request.prefix, Message("user", request.prompt)])
        prefix = tuple(t for segment in segments[:-2] for t in segment)
        return _Talk(request, list(request.prefix), prefix, list(prefix), len(prefix))

    def _turn(self, talk: _Talk, request: Request | None) -> Generator[Completion, None, bool]:
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

    def _open_turn(self, talk: _Talk, request: Request) -> None:
        """Put a turn behind the answered ones and set up its reply. Raises ContextError if it cannot fit."""
        talk.request = request
        segments = self.model.chat_segments([*talk.messages, Message("user", request.prompt)])
        new = segments[-2:] if talk.settled == len(talk.prefix) else segments[-3:]
        talk.tokens[talk.settled :] = [token for segment in new for token in segment]
        talk.start = len(talk.tokens)
        if talk.start + request.max_tokens + _RESERVE > self.context_tokens:
            raise ContextError(
                f"{request.key or 'A request'}: a prompt of {talk.start} tokens, an output of up to "
                f"{request.max_tokens} and {_RESERVE} to close it do not fit the context of {self.context_tokens} "
                "tokens. Lower the budget in localgraphrag.toml (context_window, map_budget or chunk_size), or use a "
                "model with a longer context."
            )
        from llguidance import LLMatcher

        talk.matcher = LLMatcher(self.model.matcher_tokenizer, self._grammar(request.output))
        if talk.matcher.is_error():
            reason = talk.matcher.get_error().splitlines()[0][:300]
            raise ModelError(f"{request.key}: the output type has no usable grammar: {reason}")
        talk.random = np.random.default_rng(request.seed) if request.temperature > 0 else None
        talk.finish, talk.error, talk.forced, talk.illegal, talk.read = "", "", 0, 0, 0
        talk.begun, talk.reply = time.perf_counter(), b""
        self._take(talk, list(talk.matcher.compute_ff_tokens()), forced=True)

    def _grammar(self, declared: Any) -> str:
        """The grammar text of an output type; types are often one object shared by many requests."""
        known = self._grammars.get(id(declared))
        if known is None or known[0] is not declared:
            if len(self._grammars) > 64:  # enough for the types that are shared
                self._grammars.clear()
            known = self._grammars[id(declared)] = (declared, output.grammar(declared))
        return known[1]

    def _room_for(self, talk: _Talk) -> bool:
        busy = [*self._active, talk]
        return self._claimed(busy) <= self.cells

    def _claimed(self, talks: list[_Talk], prefixes: Iterable[tuple[int, ...]] = ()) -> int:
        """Cells that the talks may come to take, with their prefixes and others."""
        return sum(map(len, {t.prefix for t in talks} | set(prefixes))) + sum(t.limit for t in talks)

    def _drop_idle_prefixes(self) -> None:
        """Forget prefixes that nobody uses, the oldest first, until there is room for all that is in work."""
        used = {t.prefix for t in self._active}
        for prefix in [p for p in self._prefixes if p not in used]:
            if self._claimed(self._active, self._prefixes) <= self.cells:
                return
            self._api.llama_memory_seq_rm(self._memory, self._prefixes.pop(prefix), -1, -1)

    def _place(self, talk: _Talk) -> None:
        """Give the conversation a slot that begins with its shared prefix."""
        talk.seq = self._free.pop()
        self._active.append(talk)
        self._drop_idle_prefixes()
        shared = self._read_prefix(talk.prefix, talk)
        if talk.prefix:
            self._api.llama_memory_seq_cp(self._memory, shared, talk.seq, -1, -1)
        talk.cached = len(talk.prefix)

    def _read_prefix(self, prefix: tuple[int, ...], talk: _Talk) -> int:
        """The sequence that holds a prefix, read now if it is new."""
        if prefix in self._prefixes:
            self._prefixes.move_to_end(prefix)
            return self._prefixes[prefix]
        if len(self._prefixes) >= _PREFIXES:
            _, seq = self._prefixes.popitem(last=False)
            self._api.llama_memory_seq_rm(self._memory, seq, -1, -1)
        seq = next(s for s in range(_PREFIXES) if s not in self._prefixes.values())
        for at in range(0, len(prefix), self._batch.size):
            rows = prefix[at : at + self._batch.size]
            self._batch.fill([(token, at + i, seq, False) for i, token in enumerate(rows)])
            self._decode()
        talk.read += len(prefix)
        self._prefixes[prefix] = seq
        return seq

    def _release(self, talk: _Talk) -> None:
        self._api.llama_memory_seq_rm(self._memory, talk.seq, -1, -1)
        self._active.remove(talk)
        self._free.append(talk.seq)
        talk.seq, talk.cached = -1, 0

    # -- one step ------------------------------------------------------------------------------------------------

    def _step(self, waiting: deque[_Talk]) -> None:
        """Decode one batch and take the next token of every conversation that is up to date."""
        writing = [t for t in self._active if t.pending <= self.step_rows // 4]
        reading = [t for t in self._active if t.pending > self.step_rows // 4]
        room = self.step_rows if writing else self._batch.size
        rows: list[tuple[int, int, int, bool]] = []
        ready: list[tuple[_Talk, int]] = []
        for talk in [*writing, *reading]:
            take = min(talk.pending, room - len(rows))
            for at in range(talk.cached, talk.cached + take):
                rows.append((talk.tokens[at], at, talk.seq, at == len(talk.tokens) - 1))
            talk.read += max(min(talk.start, talk.cached + take) - talk.cached, 0)
            talk.cached += take
            if take and not talk.pending:
                ready.append((talk, len(rows) - 1))
        self._batch.fill(rows)
        while not self._decode(may_be_full=True):
            if not self._evict(waiting, rows, ready):
                raise ModelError(f"The KV cache of {self.cells} tokens is full with one conversation in it.")
            self._batch.fill(rows)
        for talk, row in ready:
            try:
                self._sample(talk, row)
            except ModelError as error:  # this reply's misfortune; the others go on
                talk.finish, talk.error = "error", str(error)

    def _evict(self, waiting: deque[_Talk], rows: list[Any], ready: list[Any]) -> bool:
        """Send the youngest conversation back to the queue; it is read again later. False if it is the only one."""
        if len(self._active) < 2:
            return False
        talk = self._active[-1]
        rows[:] = [row for row in rows if row[2] != talk.seq]
        kept = [t for t, _ in ready if t is not talk]
        self._release(talk)
        waiting.appendleft(talk)
        last = {row[2]: i for i, row in enumerate(rows)}
        ready[:] = [(t, last[t.seq]) for t in kept]
        return bool(rows)

    def _decode(self, *, may_be_full: bool = False) -> bool:
        status = self._api.llama_decode(self._context, self._batch.native)
        if status == 1 and may_be_full:
            return False
        if status != 0:
            rows = self._batch.native.n_tokens
            raise ModelError(f"llama.cpp could not decode a batch of {rows} tokens (status {status}).")
        return True

    def _sample(self, talk: _Talk, row: int) -> None:
        logits = np.ctypeslib.as_array(
            self._api.llama_get_logits_ith(self._context, row), shape=(self.model.vocab_size,)
        )
        token = int(logits.argmax()) if talk.random is None else -1
        if token < 0 or talk.matcher.validate_tokens([token]) != 1:
            talk.illegal += token >= 0
            token = self._sample_masked(talk, logits)
        self._take(talk, [token])
        if not talk.finish:
            self._take(talk, list(talk.matcher.compute_ff_tokens()), forced=True)
        if not talk.finish:
            self._guard(talk)

    def _sample_masked(self, talk: _Talk, logits: np.ndarray[Any, Any]) -> int:
        allowed = np.frombuffer(talk.matcher.compute_bitmask(), dtype=np.uint8)
        legal = np.unpackbits(allowed, bitorder="little")[: len(logits)].astype(bool)
        if talk.random is None:
            return int(np.where(legal, logits, -np.inf).argmax())
        candidates = np.flatnonzero(legal)
        scaled = logits[candidates].astype(np.float64) / talk.request.temperature
        weights = np.exp(scaled - scaled.max())
        return int(talk.random.choice(candidates, p=weights / weights.sum()))

    def _take(self, talk: _Talk, tokens: list[int], *, forced: bool = False) -> None:
        """Add tokens to the reply. An end token ends it and is not part of it."""
        if not tokens:
            return
        if talk.matcher.try_consume_tokens(tokens) != len(tokens):
            reason = talk.matcher.get_error()
            raise ModelError(f"{talk.request.key}: the grammar refused tokens it had allowed: {reason}")
        ends = self.model.end_tokens
        talk.tokens += [t for t in tokens if t not in ends]
        talk.reply += b"".join(self.model.token_bytes([t for t in tokens if t not in ends]))
        talk.forced += len(tokens) if forced else 0
        if talk.matcher.is_stopped() or tokens[-1] in ends:
            talk.finish = "stop"

    def _guard(self, talk: _Talk) -> None:
        """End a reply that reaches its cap or goes round in circles."""
        reply = talk.tokens[talk.start :]
        repeats = talk.request.repeats
        if len(reply) >= talk.request.max_tokens:
            self._close_reply(talk, "cap")
        elif drop := closing.looping(reply[-160:]):
            talk.matcher.rollback(drop)
            del talk.tokens[-drop:]
            self._close_reply(talk, "repeat")
        elif repeats is not None and self._string_ended(talk) and repeats(talk.reply.decode("utf-8", "ignore")):
            self._close_reply(talk, "repeat")

    def _string_ended(self, talk: _Talk) -> bool:
        return b'"' in self.model.token_bytes(talk.tokens[-1:])[0]

    def _close_reply(self, talk: _Talk, why: Literal["cap", "repeat"]) -> None:
        reply = talk.tokens[talk.start :]
        found = closing.close(talk.matcher, reply, self.model.token_bytes, self.model.encode)
        if found is None:
            raise ModelError(f"{talk.request.key}: the reply cannot be closed under its output type.")
        way, keep = found
        talk.tokens[talk.start :] = reply[:keep] + way
        talk.reply = b"".join(self.model.token_bytes(talk.tokens[talk.start :]))
        talk.forced += len(way)
        self._forget(talk, talk.start + keep)
        talk.finish = why

    def _forget(self, talk: _Talk, keep: int) -> None:
        """Take tokens from position `keep` on out of the cache."""
        if talk.cached <= keep:
            return
        if self._api.llama_memory_seq_rm(self._memory, talk.seq, keep, -1):
            talk.cached = keep
            return
        # recurrent and hybrid models cannot drop a part: begin again from the prefix
        self._api.llama_memory_seq_rm(self._memory, talk.seq, -1, -1)
        talk.cached = 0
        if talk.prefix in self._prefixes:
            self._api.llama_memory_seq_cp(self._memory, self._prefixes[talk.prefix], talk.seq, -1, -1)
            talk.cached = len(talk.prefix)

    # -- the end of a turn ---------------------------------------------------------------------------------------

    def _finish(self, talk: _Talk, waiting: deque[_Talk]) -> Iterator[Completion]:
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
        elif self._claimed(self._active) > self.cells and len(self._active) > 1:
            self._release(talk)
            waiting.appendleft(talk)
        else:
            self._drop_idle_prefixes()


class _Batch:
    """A `llama_batch` filled through numpy views."""

    def __init__(self, api: Any, size: int) -> None:
        self.size, self._api = size, api
        self.native = api.llama_batch_init(size, 0, 1)
        view = np.ctypeslib.as_array
        self._token, self._pos = view(self.native.token, (size,)), view(self.native.pos, (size,))
        self._logits = view(self.native.logits, (size,))
        view(self.native.n_seq_id, (size,))[:] = 1
        self._seq = [view(self.native.seq_id[i], (1,)) for i in range(size)]

    def fill(self, rows: list[tuple[int, int, int, bool]]) -> None:
        """Rows of (token, position, sequence, whether logits are wanted). More than `size` would abort the process."""
        if len(rows) > self.size:
            raise ModelError(f"A batch of {len(rows)} rows was asked of a context made for {self.size}.")
        self.native.n_tokens = len(rows)
        for i, (token, position, sequence, wanted) in enumerate(rows):
            self._token[i], self._pos[i], self._logits[i] = token, position, wanted
            self._seq[i][0] = sequence

    def free(self) -> None:
        self._api.llama_batch_free(self.native)


class _Beat:
    """Calls back every two seconds while nothing finishes."""

    def __init__(self, callback: Callable[[Heartbeat], None] | None) -> None:
        self._callback, self._last, self._begun = callback, time.perf_counter(), time.perf_counter()

    def reset(self) -> None:
        self._last = time.perf_counter()

    def tick(self, active: list[_Talk]) -> None:
        now = time.perf_counter()
        if self._callback is None or not active or now - self._last < _HEARTBEAT_SECONDS:
            return
        self._last = now
        written = sum(len(t.tokens) - t.start for t in active)
        oldest = min(t.begun for t in active)
        self._callback(Heartbeat(active[0].request.key, len(active), written, written / max(now - oldest, 1e-9)))


def _make_context(model: GGUFModel, cells: int, sequences: int, threads: int, batch: int) -> Any:
    api = model.api
    params = api.llama_context_default_params()
    params.n_ctx, params.n_batch, params.n_ubatch, params.n_seq_max = cells, batch, batch, sequences
    params.kv_unified = True  # sequences share cells, so that a prefix is stored once and a partial copy is allowed
    params.flash_attn_type = 1
    params.swa_full = True  # sliding-window models would lose the shared prefix otherwise
    params.n_threads = params.n_threads_batch = threads
    context = api.llama_init_from_model(model.handle, params)
    if not context:
        gigabytes = cells * model.kv_bytes_per_token / 1e9
        raise ModelError(
            f"llama.cpp could not make a context of {cells} tokens ({gigabytes:.1f} GB) for {model.path.name}. "
            "Close other programs, or set fewer `slots` in localgraphrag.toml."
        )
    return context
