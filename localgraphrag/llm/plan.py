"""The engine sized for a machine: memory reckoned before anything is loaded; slots, threads and batch measured once.

Neither changes what is asked of the model or under which key its answer is kept.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import platformdirs

from localgraphrag.errors import ModelError
from localgraphrag.llm.catalog import write_json
from localgraphrag.llm.drafts import most_rows
from localgraphrag.llm.gguf import GGUFModel, offloading, system_info
from localgraphrag.llm.machine import (
    cards,
    free_memory,
    others_seconds,
    processor,
    shares_memory,
    usable_cores,
)
from localgraphrag.llm.streams import PREFIXES, Row, Streams, padded
from localgraphrag.llm.units import content_hash

log = logging.getLogger(__name__)

DEFAULT_SLOTS = 16
TOKENS_PER_SLOT = 2048
"""Cells set aside per conversation: instructions, a chunk of 600 tokens, its questions and its replies."""

BATCH = 256
"""Most rows decoded at once: tokens of a prompt, where no other number reads faster."""

SLOW_BATCH = 128
"""The same where a machine is too slow to try: read nearly as fast (docs/log.md), in steps half as long."""

MARGIN = 512
"""Tokens of a conversation beyond `context_window`: chat format, closing a reply."""

CANDIDATES = (4, 8, 16, 32)
_EARNS, _EARNS_MUCH = 0.9, 0.75  # of the time a row: what more slots may take, up to the default and above it

BATCHES = (BATCH, 128, 64, 512)
"""Numbers of tokens to read at once, as tried: the default, which others are compared with; the longest step last."""
_READS_MUCH = 1.25  # times as many a second: less comes and goes, and every number sums floats in an order of its own

_PROBE_SECONDS = 4.0  # no step begins later; the longest takes about one
_TAKEN = 0.25  # of the processors a probe wants: what it says counts once only, where others had more

_REPACKED = 1.2  # weights as the processor wants them, and an output matrix that is the input's held twice
_REST = 500_000_000  # Python, torch, the embedder, what is read and written; on a graphics card, its driver's own


# -- memory ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Memory:
    """Bytes that an engine needs in one place: `weights`, `cache` (keys and values), `work` (buffers), `rest`."""

    weights: int
    cache: int
    work: int
    rest: int = _REST

    @property
    def total(self) -> int:
        """All together."""
        return self.weights + self.cache + self.work + self.rest


@dataclass(frozen=True)
class Room:
    """Bytes that are free in the machine's memory, or together in the memory of its graphics cards."""

    free: int
    on_card: bool = False


def rooms(gpu_layers: int) -> list[Room]:
    """Where an engine needs memory, and what is free there. A card that does not tell is left out, and that is told."""
    here = Room(free_memory())
    if not offloading(gpu_layers) or shares_memory():
        return [here]
    found = cards()
    if not found:
        log.warning(
            "llama.cpp does not tell how much memory the graphics card has. If it is too little, set fewer `slots` or "
            "`gpu_layers` in localgraphrag.toml."
        )
        return [here]
    return [here, Room(sum(card.free for card in found), on_card=True)]


def memory_needed(
    model: GGUFModel, slots: int, longest: int, gpu_layers: int = 0, batch: int = BATCH, *, on_card: bool = False
) -> Memory:
    """What an engine of so many slots takes of the machine's memory, or `on_card` of its graphics cards'.

    Parameters
    ----------
    model : a model of which the header is enough (`vocab_only`).
    longest : tokens of the longest conversation.
    gpu_layers : layers on a graphics card, -1 for all: their weights and cache are there.
    batch : most rows decoded at once.

    The cache is the larger of two divisions: `slots` streams of `TOKENS_PER_SLOT`, or one of `longest`, each with those
    of the shared prefixes. The buffers hold, all in f32, for each row of a batch the attention scores of every head and
    a mask over the longest conversation, and what goes from layer to layer; and logits of the rows that are written.
    """
    cells = max((slots + PREFIXES) * padded(TOKENS_PER_SLOT), (1 + PREFIXES) * padded(longest))
    written = most_rows(slots + PREFIXES)
    row = padded(longest) * ((model.number("attention.head_count") or 1) + 1) + 2 * model.number("feed_forward_length")
    work = (max(batch, written) * row + 2 * written * model.vocab_size) * 4
    weights = model.path.stat().st_size
    here = _share_here(model, gpu_layers)
    share, size = (1 - here, 1.0) if on_card else (here, _REPACKED)
    return Memory(int(weights * size * share), int(cells * model.kv_bytes_per_token * share), work)


def _share_here(model: GGUFModel, gpu_layers: int) -> float:
    """Which part of the layers stays in the machine's memory."""
    if not offloading(gpu_layers) or shares_memory():
        return 1.0
    return 0.0 if gpu_layers < 0 else max(1 - gpu_layers / max(model.number("block_count"), 1), 0.0)


def slots_that_fit(
    model: GGUFModel,
    slots: int,
    longest: int,
    available: int,
    gpu_layers: int = 0,
    batch: int = BATCH,
    *,
    on_card: bool = False,
) -> int:
    """The most slots, up to `slots`, that `available` bytes of memory allow: of the machine's, or `on_card`.

    Raises ModelError with figures and remedies if not even one does.
    """

    def needed(slots: int) -> Memory:
        return memory_needed(model, slots, longest, gpu_layers, batch, on_card=on_card)

    memory = "memory of the graphics card" if on_card else "memory"
    for fewer in range(slots, 0, -1):
        if needed(fewer).total <= available:
            if fewer < slots:
                log.warning(
                    "%d conversations at once instead of %d: %.1f GB of %s are free, and %d would need %.1f GB.",
                    fewer, slots, available / 1e9, memory, slots, needed(slots).total / 1e9,
                )  # fmt: skip
            return fewer
    need = needed(1)
    layers = f"put fewer layers there (`gpu_layers`, of {model.number('block_count')}), " if on_card else ""
    raise ModelError(
        f"{model.path.name} needs {need.total / 1e9:.1f} GB of {memory} for one conversation of {longest:,} tokens "
        f"(weights {need.weights / 1e9:.1f}, context {need.cache / 1e9:.1f}), and {available / 1e9:.1f} GB are free. "
        f"Close other programs, {layers}lower `context_window` or `batch` in localgraphrag.toml, or take a smaller "
        "model (`localgraphrag models list`)."
    )


# -- speed -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Measured:
    """What a probe chose, and what it saw.

    `milliseconds` of a row for each number of slots, and `rates`, tokens of a prompt read per second, for each batch:
    none where the machine took too long for more than the slots. `busy`: other processes were at work as well.
    """

    slots: int
    threads: int
    batch: int
    milliseconds: dict[str, float]
    rates: dict[str, float]
    busy: bool = False


def choose(model: GGUFModel, identity: str, *, threads: int = 0, gpu_layers: int = -1) -> Measured:
    """Slots, threads and batch for a loaded model on this machine: as remembered, else by a probe of some seconds.

    What was measured beside other work is measured anew. A probe that fails is told in the log and gives what an
    earlier one did, or the defaults.
    """
    key = machine_key(identity, threads, gpu_layers)
    known = remembered(key)
    if known is not None and not known.busy:
        return known
    try:
        found = probe(model, threads)
    except ModelError as error:
        log.warning(
            "This machine could not be measured (%s); taking %s.", error, "what it was before" if known else "defaults"
        )
        return known or Measured(DEFAULT_SLOTS, threads or usable_cores(), SLOW_BATCH, {}, {})
    log.info(
        "Measured: %d conversations or %d tokens of a prompt at once, %d threads%s.",
        found.slots, found.batch, found.threads, "; beside other work, so the next run measures anew" * found.busy,
    )  # fmt: skip
    _remember(key, found)
    return found


def probe(model: GGUFModel, threads: int = 0) -> Measured:
    """Time steps of several numbers of rows, and of threads where there is a choice.

    Raises ModelError, also when there was no time to try the default number of slots: nothing could be chosen by that.

    First every row is one token of a conversation of its own, as when an engine writes without guesses; then all are of
    one, as when it reads. Streams are short: what longer ones add to a row is the same however many there are.
    """
    wanted = [threads] if threads else thread_candidates()
    most = max(CANDIDATES)
    begun = time.perf_counter()
    longest = max(BATCHES)
    streams = Streams(model, slots=most, cells=256, longest=longest, threads=wanted[-1], batch=longest)
    try:
        clock = _Stopwatch(streams, begun)
        clock.milliseconds(4)  # the first step also builds what later ones use again
        if len(wanted) > 1:
            by_threads = {}
            for count in wanted:
                streams.set_threads(count)
                by_threads[count] = clock.milliseconds(DEFAULT_SLOTS)
            wanted = [min(by_threads, key=lambda count: by_threads[count])]
            streams.set_threads(wanted[0])
        before, started = others_seconds(), time.perf_counter()
        found = {rows: clock.milliseconds(rows) for rows in CANDIDATES if clock.has_time or rows == CANDIDATES[0]}
        busy = others_seconds() - before > _elsewhere(wanted[0]) * (time.perf_counter() - started)
        rates = clock.rates(min(found.values()))
    finally:
        streams.close()
    if DEFAULT_SLOTS not in found:
        raise ModelError(f"a step took so long that {_PROBE_SECONDS:.0f} s were over; it may be busy with other work")
    seen = {str(rows): round(ms, 2) for rows, ms in found.items()}
    read = {str(rows): round(rate, 1) for rows, rate in rates.items()}
    return Measured(best_slots(found), wanted[0], best_batch(rates), seen, read, busy)


def _elsewhere(threads: int) -> float:
    """How many processors others may keep busy beside so many threads: those that are left, and a part of theirs."""
    import psutil

    processors = psutil.cpu_count() or threads
    return processors - (1 - _TAKEN) * min(threads, processors)


def best_slots(milliseconds: Mapping[int, float]) -> int:
    """The number of slots to take, given milliseconds per row of each: more only if they take a tenth less time.

    Above the default a quarter less, since memory for twice as many costs a gigabyte with a model of 1.5B.

    >>> best_slots({4: 46, 8: 47, 16: 29, 32: 28})
    16
    >>> best_slots({4: 30, 8: 16, 16: 9, 32: 5})
    32
    """
    chosen, *larger = sorted(milliseconds)
    for rows in larger:
        if milliseconds[rows] <= (_EARNS if rows <= DEFAULT_SLOTS else _EARNS_MUCH) * milliseconds[chosen]:
            chosen = rows
    return chosen


def best_batch(rates: Mapping[int, float]) -> int:
    """The batch to take, given tokens read per second with each: the default, unless another reads a quarter more.

    A larger one costs memory (256 more: 0.1 GB with 1.5B), and time between two signs of life. Without figures it is
    the one for slow machines, where that time is seconds.

    >>> best_batch({256: 260, 128: 250, 64: 210, 512: 270}), best_batch({256: 2600, 128: 1500, 64: 900, 512: 4100})
    (256, 512)
    >>> best_batch({})
    128
    """
    if not rates:
        return SLOW_BATCH
    best = max(rates, key=lambda rows: rates[rows])
    return best if BATCH in rates and rates[best] >= _READS_MUCH * rates[BATCH] else BATCH


def thread_candidates() -> list[int]:
    """Numbers of threads worth trying, ascending: one per core, and one per logical processor."""
    import psutil

    usable = usable_cores()
    return sorted({min(psutil.cpu_count(logical=False) or usable, usable), usable})


class _Stopwatch:
    """Times steps, the better of two while there is time."""

    def __init__(self, streams: Streams, begun: float) -> None:
        self._streams, self._begun = streams, begun
        self._positions = [0] * streams.slots

    @property
    def _left(self) -> float:
        return _PROBE_SECONDS - (time.perf_counter() - self._begun)

    @property
    def has_time(self) -> bool:
        return self._left > 0

    def milliseconds(self, rows: int) -> float:
        """Of a row of a step that takes the first `rows` streams a token further."""
        best = self._write(rows)
        return min(best, self._write(rows)) if self.has_time else best

    def rates(self, pace: float) -> dict[int, float]:
        """Tokens of a prompt read per second with each batch for which there is time, given milliseconds of a row.

        Where there is none, as with 1.5B on two cores, arithmetic takes it all and more rows gain nothing: docs/log.md.
        """
        found: dict[int, float] = {}
        for rows in BATCHES:
            if 2 * rows * pace > self._left * 1000:
                break
            found[rows] = 1000 / min(self._read(rows), self._read(rows))
            pace = 1000 / max(found.values())
        return found

    def _write(self, rows: int) -> float:
        step = [(0, self._positions[stream], stream, True) for stream in range(rows)]
        for stream in range(rows):
            self._positions[stream] += 1
        return self._decode(step)

    def _read(self, rows: int) -> float:
        self._streams.divide(max(BATCHES))  # from the first on: streams fewer and longer
        self._streams.open(0, ())
        return self._decode([(0, at, 0, at == rows - 1) for at in range(rows)])

    def _decode(self, step: Sequence[Row]) -> float:
        """Milliseconds of a row; any token does."""
        started = time.perf_counter()
        self._streams.decode(step)
        self._streams.logits(len(step) - 1)  # a graphics card is still at work when `decode` returns
        return (time.perf_counter() - started) / len(step) * 1000


# -- what is known of this machine ---------------------------------------------------------------------------------


def machine_key(identity: str, threads: int, gpu_layers: int) -> str:
    """Names machine, build, model and rule: another processor, card, llama.cpp or model file is measured anew."""
    import llama_cpp

    layers = gpu_layers if offloading(gpu_layers) else 0
    devices = [processor(), *(card.name for card in cards() if layers)]
    build = f"{llama_cpp.__version__} {system_info()}"
    # what another rule chose is measured anew
    rule = f"{CANDIDATES} {_EARNS} {_EARNS_MUCH} {BATCHES} {_READS_MUCH} {SLOW_BATCH} {_TAKEN}"
    return content_hash(str(devices), str(usable_cores()), build, identity, str(threads), str(layers), rule)[:16]


def _file() -> Path:
    return Path(platformdirs.user_cache_dir("localgraphrag")) / "machine.json"


def _all() -> dict[str, Any]:
    """What the file holds; empty when it is absent or spoilt, which costs only a probe."""
    try:
        held = json.loads(_file().read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return held if isinstance(held, dict) else {}


def remembered(key: str) -> Measured | None:
    """What an earlier probe chose."""
    try:
        found = Measured(**_all()[key])
    except (KeyError, TypeError):
        return None
    return found if all(type(n) is int and n > 0 for n in (found.slots, found.threads, found.batch)) else None


def _remember(key: str, measured: Measured) -> None:
    write_json(_file(), _all() | {key: asdict(measured)})
