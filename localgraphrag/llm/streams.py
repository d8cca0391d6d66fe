"""A llama.cpp context whose KV cache is divided into equal streams, one for each conversation.

A cache of its own per conversation (`kv_unified = False`) lets a row look only at the tokens of its conversation. In
one cache for all, every row goes through the cells of the others as well; docs/log.md has the figures.

The division is made anew for conversations that need longer streams, which then are fewer.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from localgraphrag.errors import ModelError
from localgraphrag.llm.drafts import most_rows
from localgraphrag.llm.gguf import GGUFModel

PREFIXES = 2  # shared instructions kept at once: those of map and of reduce, say
_PAD = 256  # llama.cpp rounds the cells of a stream up to this

Row = tuple[int, int, int, bool]
"""Token, position, stream, whether its logits are wanted."""


class Streams:
    """The context of an engine.

    Parameters
    ----------
    model : the loaded model.
    slots : conversations at once while they fit streams of `cells` tokens.
    cells : tokens of a stream, prompt and replies together.
    longest : tokens of the longest conversation; for those the streams are fewer, and at least one.
    threads : processor threads.
    batch : most rows in a step.
    flash : whether to use flash attention; None: as llama.cpp chooses on a GPU, not on a processor, where it is slower.

    Raises ModelError if llama.cpp cannot make the context (most likely: out of memory).
    """

    def __init__(
        self,
        model: GGUFModel,
        *,
        slots: int,
        cells: int,
        longest: int,
        threads: int,
        batch: int,
        flash: bool | None = None,
    ) -> None:
        self._model, self._api = model, model.api
        self._threads = threads
        self._batch_size = max(batch, most_rows(slots + PREFIXES))  # fewer rows than streams abort the process
        self._most, self._least, self._longest = slots, padded(cells), longest
        self._flash = (-1 if model.on_gpu else 0) if flash is None else int(flash)
        self._context: Any = None
        self._prefixes: OrderedDict[tuple[int, ...], int] = OrderedDict()
        self.slots, self.cells = 0, 0
        self.divide(0)
        self._batch = _Batch(self._api, self._batch_size)

    def close(self) -> None:
        """Free the context. Safe to call twice."""
        if self._context:
            self._batch.free()
            self._api.llama_free(self._context)
            self._context = None

    @property
    def closed(self) -> bool:
        """Whether the context is gone."""
        return not self._context

    def size_for(self, tokens: int) -> int:
        """Cells of the streams in which a conversation of so many tokens is put: the least size, or that doubled."""
        size = self._least
        while size < tokens:
            size *= 2
        return min(size, max(padded(self._longest), self._least))

    def divide(self, tokens: int) -> None:
        """Divide the cache for conversations of up to `tokens`. What is in it is lost if that changes it.

        Shared prefixes are lost as well: llama.cpp takes a saved sequence only into a cache of as many streams.
        """
        cells = self.size_for(tokens)
        if cells == self.cells:
            return
        room = (self._most + PREFIXES) * self._least
        self.slots = max(min(self._most, room // cells - PREFIXES), 1)
        self.cells = cells
        if self._context:
            self._api.llama_free(self._context)
            self._context = None
        self._prefixes.clear()
        self._context = self._make(self.slots + PREFIXES)
        self._memory = self._api.llama_get_memory(self._context)

    def set_threads(self, threads: int) -> None:
        """Use another number of processor threads from the next step on."""
        self._threads = threads
        self._api.llama_set_n_threads(self._context, threads, threads)

    def _make(self, streams: int) -> Any:
        params = self._api.llama_context_default_params()
        params.n_ctx, params.n_seq_max = self.cells * streams, streams
        params.n_batch = params.n_ubatch = self._batch_size
        # else room for the logits of a whole batch is kept: 150 MB with 150,000 tokens
        params.n_outputs_max = most_rows(streams)
        params.kv_unified = False
        params.flash_attn_type = self._flash
        params.swa_full = True  # sliding-window models would lose the shared prefix otherwise
        params.n_threads = params.n_threads_batch = self._threads
        context = self._api.llama_init_from_model(self._model.handle, params)
        if not context:
            gigabytes = self.cells * streams * self._model.kv_bytes_per_token / 1e9
            raise ModelError(
                f"llama.cpp could not make a context of {streams} times {self.cells} tokens ({gigabytes:.1f} GB) for "
                f"{self._model.path.name}. Close other programs, or set fewer `slots` in localgraphrag.toml."
            )
        return context

    def open(self, stream: int, prefix: tuple[int, ...], after_part: Callable[[], None] = lambda: None) -> int:
        """Begin a stream with a shared prefix. Returns the tokens that had to be read for it: none if it is known.

        `after_part` is called after each step of reading.
        """
        read = 0
        if not prefix:
            self.clear(stream)
            return read
        if prefix not in self._prefixes:
            homes = [home for home in range(self.slots, self.slots + PREFIXES) if home not in self._prefixes.values()]
            home = homes[0] if homes else self._prefixes.popitem(last=False)[1]
            self.clear(home)
            for at in range(0, len(prefix), self._batch_size):
                part = prefix[at : at + self._batch_size]
                self.decode([(token, at + i, home, False) for i, token in enumerate(part)])
                after_part()
            self._prefixes[prefix] = home
            read = len(prefix)
        self._prefixes.move_to_end(prefix)
        self.copy(self._prefixes[prefix], stream)
        return read

    def clear(self, stream: int) -> None:
        """Make one stream hold nothing."""
        self._api.llama_memory_seq_rm(self._memory, stream, -1, -1)

    def copy(self, source: int, target: int) -> None:
        """Make one stream hold what another holds."""
        self._api.llama_memory_seq_cp(self._memory, source, target, -1, -1)

    def cut(self, stream: int, keep: int) -> bool:
        """Drop the tokens of a stream from a position on. False if the model's kind of cache does not allow it."""
        return bool(self._api.llama_memory_seq_rm(self._memory, stream, keep, -1))

    def decode(self, rows: Sequence[Row]) -> None:
        """Decode rows of one step; raises ModelError if llama.cpp cannot.

        llama.cpp decodes together what stands in neighbouring streams, as many rows of each as the shortest has; any
        other rows cost a pass through the weights of their own.
        """
        self._batch.fill(rows)
        status = self._api.llama_decode(self._context, self._batch.native)
        if status != 0:
            raise ModelError(f"llama.cpp could not decode {len(rows)} tokens (status {status}: {_why(status)}).")

    def logits(self, row: int) -> np.ndarray[Any, Any]:
        """The logits of a row of the last step, in place: valid until the next one."""
        found = self._api.llama_get_logits_ith(self._context, row)
        return np.ctypeslib.as_array(found, shape=(self._model.vocab_size,))


def padded(cells: int) -> int:
    """Cells of a stream as llama.cpp makes them."""
    return -(-cells // _PAD) * _PAD


def _why(status: int) -> str:
    """What llama.h says of it. After 1 and -1 the streams are as they were; after others a part may have come in."""
    known = {1: "no room in the cache", 2: "aborted", -1: "an invalid batch"}
    return known.get(status, "an error, most likely too little memory")


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

    def fill(self, rows: Sequence[Row]) -> None:
        """More rows than `size` would abort the process."""
        if len(rows) > self.size:
            raise ModelError(f"A batch of {len(rows)} rows was asked of a context made for {self.size}.")
        self.native.n_tokens = len(rows)
        for i, (token, position, stream, wanted) in enumerate(rows):
            self._token[i], self._pos[i], self._logits[i] = token, position, wanted
            self._seq[i][0] = stream

    def free(self) -> None:
        self._api.llama_batch_free(self.native)
