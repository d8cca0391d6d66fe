"""Memory reckoned beforehand; slots, threads and batch by a probe that is remembered."""

from __future__ import annotations

import json
import logging
from contextlib import closing
from types import SimpleNamespace
from typing import Any

import llama_cpp
import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st

from localgraphrag import doctor
from localgraphrag.config import Settings, models_folder
from localgraphrag.doctor import Check
from localgraphrag.errors import ModelBrokenError, ModelError
from localgraphrag.llm import gguf, load_engine, plan
from localgraphrag.llm.catalog import resolve_model
from localgraphrag.llm.gguf import GGUFModel
from localgraphrag.llm.machine import Device
from localgraphrag.llm.plan import Measured, Room

FILE = models_folder() / "SmolLM2-135M-Instruct.Q4_1.gguf"
LONGEST = 8512


class Header:
    """The figures of Qwen2.5-Coder-1.5B, without the file."""

    vocab_size = 151_936
    kv_bytes_per_token = 28_672
    path = SimpleNamespace(name="model.gguf", stat=lambda: SimpleNamespace(st_size=1_117_320_768))

    @staticmethod
    def number(key: str) -> int:
        return {"attention.head_count": 12, "block_count": 28, "feed_forward_length": 8_960}[key]


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    file = tmp_path / "cache" / "machine.json"
    monkeypatch.setattr(plan, "_file", lambda: file)
    return file


def needed(slots: int) -> int:
    return plan.memory_needed(Header(), slots, LONGEST).total


# Memory


def test_an_interrupt_within_llama_cpps_own_messages_is_said_again(monkeypatch):
    said, threads = [], []

    def interrupted(_text: str) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(logging.getLogger("localgraphrag.llama"), "debug", interrupted)
    monkeypatch.setattr(gguf._thread, "interrupt_main", lambda: said.append("again"))
    monkeypatch.setattr(
        gguf.threading, "Timer", lambda _seconds, call: threads.append(call) or SimpleNamespace(start=call)
    )
    gguf._silence()(1, b"llama_model_loader: ...", None)
    assert said == ["again"]


def test_what_the_default_model_needs_is_about_three_gigabytes():
    memory = plan.memory_needed(Header(), 16, LONGEST)
    assert memory.cache == 18 * 2048 * 28_672
    assert memory.total == memory.weights + memory.cache + memory.work + memory.rest
    assert 2.5e9 < memory.total < 3.1e9  # on the safe side of what it takes


def test_few_slots_still_hold_the_longest_conversation_and_two_prefixes():
    assert plan.memory_needed(Header(), 1, LONGEST).cache == 3 * 8704 * 28_672
    assert plan.memory_needed(Header(), 32, LONGEST).cache == 34 * 2048 * 28_672


def test_a_batch_takes_buffers_of_its_size_but_never_fewer_rows_than_are_written():
    work = {batch: plan.memory_needed(Header(), 32, LONGEST, 0, batch).work for batch in (1, 68, 69, 256, 512)}
    assert work[1] == work[68] < work[69]
    assert work[256] == plan.memory_needed(Header(), 32, LONGEST).work
    assert work[512] - work[256] == 256 * (8704 * 13 + 2 * 8960) * 4


@given(st.integers(1, 40), st.integers(0, 6_000_000_000), st.sampled_from(plan.BATCHES))
def test_the_most_slots_that_fit_are_taken(slots, available, batch):
    def needed(slots):
        return plan.memory_needed(Header(), slots, LONGEST, 0, batch).total

    if needed(1) > available:
        with pytest.raises(ModelError):
            plan.slots_that_fit(Header(), slots, LONGEST, available, 0, batch)
        return
    found = plan.slots_that_fit(Header(), slots, LONGEST, available, 0, batch)
    assert 1 <= found <= slots and needed(found) <= available
    assert found == slots or needed(found + 1) > available


@pytest.mark.parametrize(("layers", "share"), [(-1, 0), (0, 1), (7, 0.75), (28, 0), (99, 0)])
def test_what_is_on_a_graphics_card_takes_no_memory_of_the_machine(monkeypatch, layers, share):
    monkeypatch.setattr(llama_cpp, "llama_supports_gpu_offload", lambda: True)
    whole, found = plan.memory_needed(Header(), 16, LONGEST), plan.memory_needed(Header(), 16, LONGEST, layers)
    assert (found.work, found.rest) == (whole.work, whole.rest)
    assert (found.weights, found.cache) == pytest.approx((whole.weights * share, whole.cache * share), abs=1)
    there = plan.memory_needed(Header(), 16, LONGEST, layers, on_card=True)
    weights = Header.path.stat().st_size  # as in the file: a card takes them as they are
    assert (there.weights, there.cache) == pytest.approx((weights * (1 - share), whole.cache * (1 - share)), abs=1)
    monkeypatch.setattr(plan, "shares_memory", lambda: True)  # a Mac's graphics has no memory of its own
    assert plan.memory_needed(Header(), 16, LONGEST, layers) == whole
    monkeypatch.setattr(llama_cpp, "llama_supports_gpu_offload", lambda: False)
    assert plan.memory_needed(Header(), 16, LONGEST, layers) == whole


def test_fewer_slots_are_told_in_one_line(caplog):
    with caplog.at_level(logging.INFO):
        found = plan.slots_that_fit(Header(), 32, LONGEST, needed(20))
        assert plan.slots_that_fit(Header(), 16, LONGEST, needed(20)) == 16
    (record,) = caplog.records
    assert found == 20 and "20 conversations at once instead of 32" in record.getMessage()


def test_where_not_even_one_fits_figures_and_remedies_are_named():
    with pytest.raises(ModelError, match=r"model\.gguf needs \d\.\d GB.*0\.7 GB are free.*context_window.*models list"):
        plan.slots_that_fit(Header(), 16, LONGEST, 700_000_000)


@pytest.fixture
def card(monkeypatch):
    """A build that can use a graphics card, and what llama.cpp tells of one."""

    def put(*free: int) -> None:
        monkeypatch.setattr(llama_cpp, "llama_supports_gpu_offload", lambda: True)
        monkeypatch.setattr(plan, "shares_memory", lambda: False)
        monkeypatch.setattr(plan, "cards", lambda: [Device(1, f"card {i}", n) for i, n in enumerate(free)])
        monkeypatch.setattr(plan, "free_memory", lambda: 9)

    return put


def test_there_is_room_in_the_machine_and_on_its_cards(card, monkeypatch, caplog):
    card(5, 7)
    assert plan.rooms(-1) == plan.rooms(3) == [Room(9), Room(12, on_card=True)]
    assert plan.rooms(0) == [Room(9)] and not caplog.records
    card()
    assert plan.rooms(-1) == [Room(9)] and "does not tell how much memory the graphics card has" in caplog.text
    card(5)
    monkeypatch.setattr(plan, "shares_memory", lambda: True)
    assert plan.rooms(-1) == [Room(9)] and len(caplog.records) == 1


def test_a_card_that_is_short_of_memory_takes_slots(card, caplog):
    card(1)
    enough = plan.memory_needed(Header(), 12, LONGEST, -1, on_card=True).total
    assert plan.slots_that_fit(Header(), 16, LONGEST, enough, -1, on_card=True) == 12
    assert (
        "12 conversations at once instead of 16" in caplog.text
        and "memory of the graphics card are free" in caplog.text
    )
    with pytest.raises(ModelError, match=r"GB of memory of the graphics card.*fewer layers.*`gpu_layers`, of 28"):
        plan.slots_that_fit(Header(), 16, LONGEST, 900_000_000, -1, on_card=True)
    assert plan.slots_that_fit(Header(), 16, LONGEST, 900_000_000, 1, on_card=True) == 16


# The choice


@pytest.mark.parametrize(
    ("milliseconds", "best"),
    [
        ({4: 46, 8: 47, 16: 29, 32: 28}, 16),
        ({4: 31, 8: 30, 16: 27, 32: 27}, 16),
        ({4: 30, 8: 16, 16: 9, 32: 5}, 32),
        ({4: 59, 8: 61, 16: 39, 32: 34}, 16),
        ({4: 30, 8: 60}, 4),
        ({4: 30}, 4),
    ],
)
def test_more_slots_must_earn_their_memory(milliseconds, best):
    assert plan.best_slots(milliseconds) == best


@pytest.mark.parametrize(
    ("rates", "best"),
    [
        ({256: 55, 128: 54, 64: 52, 512: 56}, 256),
        ({256: 55, 128: 60, 64: 68, 512: 68}, 256),  # within noise
        ({256: 100, 128: 125}, 128),
        ({256: 100, 128: 130, 64: 140}, 64),
        ({256: 2600, 128: 1500, 64: 900, 512: 4100}, 512),
        ({256: 55}, 256),
        ({}, 128),  # a machine too slow to try
    ],
)
def test_another_batch_must_read_clearly_faster(rates, best):
    assert plan.BATCH == 256
    assert plan.best_batch(rates) == best


def test_cores_and_logical_processors_are_tried(monkeypatch):
    monkeypatch.setattr(plan, "usable_cores", lambda: 8)
    for physical, tried in [(4, [4, 8]), (8, [8]), (16, [8]), (None, [8])]:
        monkeypatch.setattr(psutil, "cpu_count", lambda logical, physical=physical: physical)
        assert plan.thread_candidates() == tried


class FakeStreams:
    """Streams whose steps take as long as a table says, on a clock of its own.

    As with a graphics card, the time passes when the logits are asked for.
    """

    cost: dict[tuple[int, int], float]

    def __init__(self, clock: SimpleNamespace, **options: Any) -> None:
        self.clock, self.slots, self.threads, self.closed = clock, options["slots"], options["threads"], False
        self.longest, self.batch, self.cells = options["longest"], options["batch"], options["cells"]
        self.held = [0] * self.slots

    def set_threads(self, threads: int) -> None:
        self.threads = threads

    def divide(self, tokens: int) -> None:
        assert tokens <= self.longest
        if tokens > self.cells:
            self.cells, self.held = tokens, [0] * 15

    def open(self, stream: int, prefix: tuple[int, ...]) -> None:
        assert not prefix
        self.held[stream] = 0

    def decode(self, rows: list[tuple[int, int, int, bool]]) -> None:
        assert len(rows) <= self.batch
        written = [stream for _, _, stream, _ in rows]
        assert written in (list(range(len(rows))), [0] * len(rows))
        for _, position, stream, _ in rows:
            assert position == self.held[stream] < self.cells
            self.held[stream] += 1
        self.rows = rows

    def logits(self, row: int) -> None:
        assert row == len(self.rows) - 1 and self.rows[row][3]
        self.clock.now += self.cost[self.threads, len(self.rows)]

    def close(self) -> None:
        self.closed = True


@pytest.fixture
def timed(monkeypatch):
    """Run the probe on a made-up machine: seconds of a step by threads and rows."""

    def run(cost: dict[tuple[int, int], float], threads: int = 0, others: float = 0) -> tuple[Measured, float]:
        clock = SimpleNamespace(now=0.0)
        monkeypatch.setattr(plan, "others_seconds", lambda: 1000 + others * clock.now)
        monkeypatch.setattr(plan.time, "perf_counter", lambda: clock.now)
        monkeypatch.setattr(FakeStreams, "cost", cost, raising=False)
        monkeypatch.setattr(plan, "Streams", lambda _model, **options: FakeStreams(clock, **options))
        monkeypatch.setattr(plan, "thread_candidates", lambda: sorted({threads for threads, _ in cost}))
        return plan.probe(Header(), threads), clock.now

    return run


def test_the_probe_takes_the_better_threads_and_then_slots(timed):
    cost = {(4, n): n * 0.010 for n in (4, 8, 16, 32)} | {(8, n): n * 0.012 for n in (4, 8, 16, 32)}
    cost[4, 16] = 16 * 0.005
    measured, _ = timed(cost)
    assert (measured.threads, measured.slots) == (4, 16)
    assert measured.milliseconds == {"4": 10.0, "8": 10.0, "16": 5.0, "32": 10.0}
    assert timed(cost, threads=8)[0].threads == 8


def reading(seconds: dict[int, float]) -> dict[tuple[int, int], float]:
    """A machine that writes a millisecond a row, and reads in so many seconds a step."""
    return {(2, n): n * 0.001 for n in (4, 8, 16, 32)} | {(2, n): taken for n, taken in seconds.items()}


def test_the_probe_takes_the_batch_that_reads_fastest(timed):
    measured, seconds = timed(reading({64: 0.04, 128: 0.05, 256: 0.08, 512: 0.1}))
    assert measured.rates == {"64": 1600.0, "128": 2560.0, "256": 3200.0, "512": 5120.0}
    assert measured.batch == 512 and seconds < 1
    assert timed(reading({64: 0.01, 128: 0.05, 256: 0.08, 512: 0.2}))[0].batch == 64


def test_no_batch_is_taken_that_there_was_no_time_to_compare(timed):
    alike = {64: 0.17, 128: 0.34, 256: 0.68}  # with what the others take, 512 would end too late: it has no figure
    measured, seconds = timed(reading(alike))
    assert (list(measured.rates), measured.batch) == (["256", "128", "64"], 256) and seconds < 4
    slow = {(2, n): n * 0.009 for n in (4, 8, 16, 32)}  # nor has any
    measured, seconds = timed(slow)
    assert (measured.rates, measured.batch) == ({}, 128) and seconds < 4


def test_the_probe_is_quick_on_a_slow_machine(timed):
    two_cores = {(2, 4): 0.184, (2, 8): 0.376, (2, 16): 0.464, (2, 32): 0.900}
    measured, seconds = timed(two_cores)
    assert (measured.slots, measured.threads) == (16, 2) and seconds < 6
    with pytest.raises(ModelError, match="busy"):  # what little could be tried says nothing: the defaults are taken
        timed({key: 6 * cost for key, cost in two_cores.items()})


@pytest.mark.parametrize(
    ("processors", "threads", "others", "busy"),
    [(2, 2, 0.4, False), (2, 2, 0.6, True), (16, 2, 14, False), (16, 2, 15, True), (2, 8, 0.4, False)],
)
def test_a_probe_knows_whether_others_took_what_it_wanted(timed, monkeypatch, processors, threads, others, busy):
    monkeypatch.setattr(psutil, "cpu_count", lambda: processors)
    cost = {(threads, n): n * 0.001 for n in (4, 8, 16, 32, 64, 128, 256, 512)}
    assert timed(cost, others=others)[0].busy == busy


# What is remembered


def test_a_choice_is_measured_once_and_survives_a_spoilt_file(cache, monkeypatch):
    probes = []

    def probe(_model, threads):
        probes.append(threads)
        return Measured(8, threads or 3, 128, {"8": 1.5}, {"128": 900.0, "256": 700.0})

    monkeypatch.setattr(plan, "probe", probe)
    found = Measured(8, 3, 128, {"8": 1.5}, {"128": 900.0, "256": 700.0})
    assert plan.choose(None, "a") == plan.choose(None, "a") == found
    assert plan.choose(None, "b") == found and plan.choose(None, "a", threads=2).threads == 2
    assert probes == [0, 0, 2]
    assert len(json.loads(cache.read_text())) == 3 and [f.name for f in cache.parent.iterdir()] == ["machine.json"]
    key = plan.machine_key("a", 0, -1)
    old = {"slots": 8, "threads": 3, "milliseconds": {"8": 1.5}}  # before there was a batch to choose
    wrong = [{"slots": 8}, old, asdict_of(slots="8"), asdict_of(batch=0)]
    for spoilt in ("", "[]", "{", "\x00", *(json.dumps({key: entry}) for entry in wrong)):
        cache.write_text(spoilt)
        assert plan.choose(None, "a") == found
    assert len(probes) == 11


def test_what_was_measured_beside_other_work_is_measured_again(cache, monkeypatch, caplog):
    probes = [
        Measured(4, 1, 128, {}, {}, busy=True),
        Measured(4, 1, 256, {}, {}, busy=True),
        Measured(16, 1, 256, {}, {}),
    ]
    left = [*probes]
    monkeypatch.setattr(plan, "probe", lambda _model, _threads: left.pop(0))
    with caplog.at_level(logging.INFO):
        assert [plan.choose(None, "a") for _ in range(5)] == [*probes, probes[2], probes[2]]
    assert caplog.text.count("beside other work") == 2


def test_a_second_probe_that_fails_leaves_what_the_first_one_saw(cache, monkeypatch, caplog):
    def probe(_model, _threads):
        raise ModelError("no room")

    first = Measured(4, 1, 128, {}, {}, busy=True)
    plan._remember(plan.machine_key("a", 0, -1), first)
    monkeypatch.setattr(plan, "probe", probe)
    assert plan.choose(None, "a") == first and "no room" in caplog.text


def test_what_is_remembered_of_others_stays(cache, monkeypatch):
    monkeypatch.setattr(plan, "probe", lambda _model, _threads: Measured(4, 1, 256, {}, {}))
    cache.parent.mkdir()
    cache.write_text(json.dumps({"old": {"slots": 8, "threads": 3, "milliseconds": {"8": 1.5}}}))
    assert plan.choose(None, "a").slots == 4
    assert len(json.loads(cache.read_text())) == 2


def asdict_of(**changes: Any) -> dict[str, Any]:
    return {"slots": 8, "threads": 3, "batch": 256, "milliseconds": {}, "rates": {}} | changes


def test_another_machine_is_measured_anew(monkeypatch):
    here = plan.machine_key("a", 0, 0)
    assert here == plan.machine_key("a", 0, 0) != plan.machine_key("b", 0, 0)
    monkeypatch.setattr(plan, "processor", lambda: "another")
    assert plan.machine_key("a", 0, 0) != here


def test_another_card_is_measured_anew_where_it_is_used(card, monkeypatch):
    card(5)
    one, without = plan.machine_key("a", 0, -1), plan.machine_key("a", 0, 0)
    card(7)
    assert plan.machine_key("a", 0, -1) == one != plan.machine_key("a", 0, 5)  # free memory comes and goes
    monkeypatch.setattr(plan, "cards", lambda: [Device(1, "another", 5)])
    assert plan.machine_key("a", 0, -1) != one and plan.machine_key("a", 0, 0) == without


def test_a_probe_that_fails_gives_the_defaults_and_is_not_remembered(cache, monkeypatch, caplog):
    def probe(_model, _threads):
        raise ModelError("no room")

    monkeypatch.setattr(plan, "probe", probe)
    monkeypatch.setattr(plan, "usable_cores", lambda: 5)
    assert plan.choose(None, "a") == Measured(plan.DEFAULT_SLOTS, 5, plan.SLOW_BATCH, {}, {})
    assert "no room" in caplog.text and not cache.exists()


def test_a_cache_that_cannot_be_written_does_no_harm(cache, monkeypatch):
    monkeypatch.setattr(plan, "probe", lambda _model, _threads: Measured(4, 1, 256, {}, {}))
    cache.parent.write_text("a file where the folder should be")
    assert plan.choose(None, "a").slots == 4


# With a model


needs_model = [
    pytest.mark.model,
    pytest.mark.skipif(not FILE.exists(), reason=f"{FILE.name} is not in {FILE.parent}"),
]


def model_mark(test):
    for mark in needs_model:
        test = mark(test)
    return test


@model_mark
def test_the_header_tells_what_the_model_does():
    with closing(GGUFModel(FILE, vocab_only=True)) as header, closing(GGUFModel(FILE, gpu_layers=0)) as whole:
        assert header.kv_bytes_per_token == whole.kv_bytes_per_token == 30 * 3 * 64 * 2 * 2
        assert header.trained_context == whole.trained_context == 8192


@model_mark
def test_a_probe_of_a_real_model():
    with closing(GGUFModel(FILE, gpu_layers=0)) as model:
        measured = plan.probe(model, threads=1)
    assert measured.threads == 1 and measured.slots in plan.CANDIDATES and measured.batch in plan.BATCHES
    assert "4" in measured.milliseconds and all(ms > 0 for ms in measured.milliseconds.values())
    assert all(rate > 0 for rate in measured.rates.values())


@model_mark
def test_what_is_set_is_not_measured_and_the_rest_once(monkeypatch):
    probes = []

    def probe(model, threads):
        probes.append(model.vocab_size)
        return Measured(3, 1, 128, {"3": 1.0}, {"256": 1.0, "128": 2.0})

    monkeypatch.setattr(plan, "probe", probe)
    small = {"model": str(FILE), "context_window": 2000, "gpu_layers": 0}
    for slots, batch, expected, probed in [
        (2, 64, (2, 64), 0),
        (0, 0, (3, 128), 1),
        (0, 0, (3, 128), 1),
        (2, 0, (2, 128), 1),
        (0, 64, (3, 64), 1),
    ]:
        engine = load_engine(Settings(**small, slots=slots, batch=batch))
        assert (engine._streams.slots, engine.batch) == expected and len(probes) == probed
        engine.close()


@model_mark
@pytest.mark.parametrize(("batch", "slots", "taken"), [(0, 4, 256), (512, 3, 512)])
def test_where_memory_is_short_conversations_come_before_a_measured_batch(monkeypatch, batch, slots, taken):
    monkeypatch.setattr(plan, "probe", lambda _model, _threads: Measured(4, 1, 512, {}, {}))
    settings = Settings(model=str(FILE), context_window=2000, gpu_layers=0, batch=batch)
    with closing(GGUFModel(FILE, vocab_only=True)) as header:
        enough = plan.memory_needed(header, 4, 2000 + plan.MARGIN).total
    monkeypatch.setattr(psutil, "virtual_memory", lambda: SimpleNamespace(available=enough))
    with closing(load_engine(settings)) as engine:
        assert (engine._streams.slots, engine.batch) == (slots, taken)


@model_mark
def test_memory_that_is_short_takes_slots_or_refuses(monkeypatch):
    settings = Settings(model=str(FILE), context_window=2000, gpu_layers=0, slots=12, batch=256, threads=1)
    with closing(GGUFModel(FILE, vocab_only=True)) as header:
        enough = plan.memory_needed(header, 5, 2000 + plan.MARGIN).total
    monkeypatch.setattr(psutil, "virtual_memory", lambda: SimpleNamespace(available=enough))
    with closing(load_engine(settings)) as engine:
        assert engine._streams.slots == 5
    monkeypatch.setattr(psutil, "virtual_memory", lambda: SimpleNamespace(available=10_000_000))
    with pytest.raises(ModelError, match="GB are free"):
        load_engine(settings)


@model_mark
def test_memory_that_is_short_takes_slots_with_some_layers_on_a_card_too(monkeypatch):
    monkeypatch.setattr(llama_cpp, "llama_supports_gpu_offload", lambda: True)
    settings = Settings(model=str(FILE), context_window=2000, gpu_layers=5, slots=12, batch=256, threads=1)
    with closing(GGUFModel(FILE, vocab_only=True)) as header:
        enough = plan.memory_needed(header, 5, 2000 + plan.MARGIN, 5).total
        assert enough < plan.memory_needed(header, 5, 2000 + plan.MARGIN).total
    monkeypatch.setattr(psutil, "virtual_memory", lambda: SimpleNamespace(available=enough))
    with closing(load_engine(settings)) as engine:
        assert engine._streams.slots == 5


@model_mark
def test_memory_that_is_short_on_a_card_takes_slots(card, monkeypatch):
    settings = Settings(model=str(FILE), context_window=2000, gpu_layers=20, slots=12, batch=256, threads=1)
    with closing(GGUFModel(FILE, vocab_only=True)) as header:
        card(0)
        sizes = [plan.memory_needed(header, 5, 2000 + plan.MARGIN, 20, on_card=there).total for there in (True, False)]
    card(sizes[0] // 2, sizes[0] - sizes[0] // 2)  # two cards: the layers are divided
    monkeypatch.setattr(plan, "free_memory", lambda: 2 * sizes[1])
    with closing(load_engine(settings)) as engine:
        assert engine._streams.slots == 5


@model_mark
@pytest.mark.parametrize(
    ("offloads", "asked", "passed"), [(True, -1, 9999), (True, 5, 5), (True, 0, 0), (False, -1, 0)]
)
def test_layers_are_put_on_a_card_where_the_build_can(monkeypatch, offloads, asked, passed):
    layers = []
    monkeypatch.setattr(llama_cpp, "llama_supports_gpu_offload", lambda: offloads)
    monkeypatch.setattr(
        llama_cpp, "llama_model_load_from_file", lambda _path, params: layers.append(params.n_gpu_layers)
    )
    with pytest.raises(ModelBrokenError):
        GGUFModel(FILE, gpu_layers=asked)
    assert layers == [passed]


@model_mark
@pytest.mark.parametrize(("info", "told"), [("CPU : SSE3 = 1 |", True), ("CPU : AVX2 = 1 |", False)])
def test_a_build_without_vector_instructions_is_told_when_it_is_used(monkeypatch, caplog, info, told):
    monkeypatch.setattr(gguf, "system_info", lambda: info)
    load_engine(Settings(model=str(FILE), context_window=2000, gpu_layers=0, slots=2, batch=256, threads=1)).close()
    assert ("SOURCE_DATE_EPOCH" in caplog.text) == told


@model_mark
@pytest.mark.parametrize(("free", "state"), [(30_000_000_000, "ok"), (900_000_000, "warn"), (100_000_000, "fail")])
def test_doctor_tells_memory_and_pace(cache, monkeypatch, free, state):
    monkeypatch.setattr(psutil, "virtual_memory", lambda: SimpleNamespace(available=free, total=32_000_000_000))
    settings = Settings(model=str(FILE), context_window=2000, gpu_layers=0)
    model = resolve_model(str(FILE))

    def checks() -> dict[str, Check]:
        return {check.name: check for check in doctor._fit(model, settings)}

    assert checks()["at once"].found.startswith("not measured yet")
    plan._remember(plan.machine_key(model.sha256, 0, 0), Measured(16, 2, 256, {"4": 46.0, "16": 29.0}, {}))
    found = checks()
    at_once = "16 conversations, or 256 tokens of a prompt, 2 threads; a token took 46 ms with 4, 29 ms with 16"
    assert found["at once"].found == at_once
    assert found["memory"].state == state and found["context"].state == "ok"
    assert bool(found["memory"].remedy) == (state != "ok")


@pytest.mark.parametrize(
    ("slots", "batch", "told"),
    [
        (0, 0, "16 conversations, or 512 tokens of a prompt, 8 threads; "),
        (2, 0, "2 conversations (as set), or 512 tokens of a prompt, 8 threads; "),
        (0, 64, "16 conversations, or 64 tokens of a prompt (as set), 8 threads; "),
        (2, 64, "2 conversations, or 64 tokens of a prompt, as set"),
    ],
)
def test_doctor_tells_what_is_set_and_what_is_measured(slots, batch, told):
    known = Measured(16, 8, 512, {"4": 2.0, "16": 1.0}, {"256": 2600.0, "64": 900.4, "512": 4100.0})
    figures = (
        "a token took 2 ms with 4, 1 ms with 16; of a prompt, 900 a second with 64, 2600 a second with 256, "
        "4100 a second with 512"
    )
    settings = Settings(slots=slots, batch=batch)
    found = doctor._pace(slots or 16, batch or 512, settings, known).found
    assert found == told + figures * told.endswith("; ")
    unknown = doctor._pace(slots or 16, batch or 256, settings, None).found
    assert unknown == told if slots and batch else unknown.startswith("not measured yet")


def test_doctor_goes_on_after_a_model_that_is_damaged_further_on(tmp_path):
    damaged = tmp_path / "damaged.gguf"
    damaged.write_bytes(b"GGUF" + bytes([3, 0, 0, 0]) + b"\x07" * 64)
    checks = {c.name: c for c in doctor.examine(Settings(model=str(damaged), embedder="hash"), tmp_path)}
    assert checks["model file"].state == "fail" and checks["model file"].remedy
    assert "disk of the project" in checks
