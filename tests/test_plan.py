"""Memory reckoned beforehand, slots and threads by a probe that is remembered."""

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
from localgraphrag.llm.plan import Measured

FILE = models_folder() / "SmolLM2-135M-Instruct.Q4_1.gguf"
LONGEST = 8512


class Header:
    """The figures of Qwen2.5-Coder-1.5B, without the file."""

    vocab_size = 151_936
    kv_bytes_per_token = 28_672
    path = SimpleNamespace(name="model.gguf", stat=lambda: SimpleNamespace(st_size=1_117_320_768))

    @staticmethod
    def number(key: str) -> int:
        return {"attention.head_count": 12, "block_count": 28}[key]


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    file = tmp_path / "cache" / "machine.json"
    monkeypatch.setattr(plan, "_file", lambda: file)
    return file


def needed(slots: int) -> int:
    return plan.memory_needed(Header(), slots, LONGEST).total


# Memory


def test_what_the_default_model_needs_is_about_three_gigabytes():
    memory = plan.memory_needed(Header(), 16, LONGEST)
    assert memory.cache == 18 * 2048 * 28_672
    assert memory.total == memory.weights + memory.cache + memory.work + memory.rest
    assert 2.5e9 < memory.total < 3.1e9  # on the safe side of what it takes


def test_few_slots_still_hold_the_longest_conversation_and_two_prefixes():
    assert plan.memory_needed(Header(), 1, LONGEST).cache == 3 * 8704 * 28_672
    assert plan.memory_needed(Header(), 32, LONGEST).cache == 34 * 2048 * 28_672


@given(st.integers(1, 40), st.integers(0, 6_000_000_000))
def test_the_most_slots_that_fit_are_taken(slots, available):
    if needed(1) > available:
        with pytest.raises(ModelError):
            plan.slots_that_fit(Header(), slots, LONGEST, available)
        return
    found = plan.slots_that_fit(Header(), slots, LONGEST, available)
    assert 1 <= found <= slots and needed(found) <= available
    assert found == slots or needed(found + 1) > available


@pytest.mark.parametrize(("layers", "share"), [(-1, 0), (0, 1), (7, 0.75), (28, 0), (99, 0)])
def test_what_is_on_a_graphics_card_takes_no_memory_of_the_machine(monkeypatch, layers, share):
    monkeypatch.setattr(llama_cpp, "llama_supports_gpu_offload", lambda: True)
    whole, found = plan.memory_needed(Header(), 16, LONGEST), plan.memory_needed(Header(), 16, LONGEST, layers)
    elsewhere = "darwin" if share != 1 else "linux"
    assert (found.work, found.rest) == (whole.work, whole.rest)
    assert (found.weights, found.cache) == pytest.approx((whole.weights * share, whole.cache * share), abs=1)
    monkeypatch.setattr(plan.sys, "platform", elsewhere)  # a Mac's graphics has no memory of its own
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


def test_cores_and_logicalprocessors_are_tried(monkeypatch):
    monkeypatch.setattr(plan, "usable_cores", lambda: 8)
    for physical, tried in [(4, [4, 8]), (8, [8]), (16, [8]), (None, [8])]:
        monkeypatch.setattr(psutil, "cpu_count", lambda logical, physical=physical: physical)
        assert plan.thread_candidates() == tried


class FakeStreams:
    """Streams whose steps take as long as a table says, on a clock of its own."""

    cost: dict[tuple[int, int], float]

    def __init__(self, clock: SimpleNamespace, **options: Any) -> None:
        self.clock, self.slots, self.threads, self.closed = clock, options["slots"], options["threads"], False

    def set_threads(self, threads: int) -> None:
        self.threads = threads

    def decode(self, rows: list[tuple[int, int, int, bool]]) -> None:
        assert [stream for _, _, stream, _ in rows] == list(range(len(rows)))
        self.clock.now += self.cost[self.threads, len(rows)]

    def close(self) -> None:
        self.closed = True


@pytest.fixture
def timed(monkeypatch):
    """Run the probe on a made-up machine: seconds of a step by threads and rows."""

    def run(cost: dict[tuple[int, int], float], threads: int = 0) -> tuple[Measured, float]:
        clock = SimpleNamespace(now=0.0)
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


def test_the_probe_is_quick_on_a_slow_machine(timed):
    two_cores = {(2, 4): 0.184, (2, 8): 0.376, (2, 16): 0.464, (2, 32): 0.900}
    measured, seconds = timed(two_cores)
    assert (measured.slots, measured.threads) == (16, 2) and seconds < 6
    with pytest.raises(ModelError, match="busy"):  # what little could be tried says nothing: the defaults are taken
        timed({key: 6 * cost for key, cost in two_cores.items()})


# What is remembered


def test_a_choice_is_measured_once_and_survives_a_spoilt_file(cache, monkeypatch):
    probes = []

    def probe(_model, threads):
        probes.append(threads)
        return Measured(8, threads or 3, {"8": 1.5})

    monkeypatch.setattr(plan, "probe", probe)
    assert plan.choose(None, "a") == plan.choose(None, "a") == (8, 3)
    assert plan.choose(None, "b") == (8, 3) and plan.choose(None, "a", threads=2) == (8, 2)
    assert probes == [0, 0, 2]
    assert len(json.loads(cache.read_text())) == 3 and [f.name for f in cache.parent.iterdir()] == ["machine.json"]
    key = plan.machine_key("a", 0, -1)
    for spoilt in ("", "[]", "{", json.dumps({key: {"slots": 8}}), json.dumps({key: asdict_of(slots="8")}), "\x00"):
        cache.write_text(spoilt)
        assert plan.choose(None, "a") == (8, 3)
    assert len(probes) == 9


def asdict_of(**changes: Any) -> dict[str, Any]:
    return {"slots": 8, "threads": 3, "milliseconds": {}} | changes


def test_another_machine_is_measured_anew(monkeypatch):
    here = plan.machine_key("a", 0, 0)
    assert here == plan.machine_key("a", 0, 0) != plan.machine_key("b", 0, 0)
    monkeypatch.setattr(plan, "processor", lambda: "another")
    assert plan.machine_key("a", 0, 0) != here


def test_a_probe_that_fails_gives_the_defaults_and_is_not_remembered(cache, monkeypatch, caplog):
    def probe(_model, _threads):
        raise ModelError("no room")

    monkeypatch.setattr(plan, "probe", probe)
    monkeypatch.setattr(plan, "usable_cores", lambda: 5)
    assert plan.choose(None, "a") == (plan.DEFAULT_SLOTS, 5)
    assert "no room" in caplog.text and not cache.exists()


def test_a_cache_that_cannot_be_written_does_no_harm(cache, monkeypatch):
    monkeypatch.setattr(plan, "probe", lambda _model, _threads: Measured(4, 1, {}))
    cache.parent.write_text("a file where the folder should be")
    assert plan.choose(None, "a") == (4, 1)


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
    assert measured.threads == 1 and measured.slots in plan.CANDIDATES
    assert "4" in measured.milliseconds and all(ms > 0 for ms in measured.milliseconds.values())


@model_mark
def test_set_slots_are_not_measured_and_unset_ones_once(monkeypatch):
    probes = []

    def probe(model, threads):
        probes.append(model.vocab_size)
        return Measured(3, 1, {"3": 1.0})

    monkeypatch.setattr(plan, "probe", probe)
    small = {"model": str(FILE), "context_window": 2000, "gpu_layers": 0}
    for slots, expected, probed in [(2, 2, 0), (0, 3, 1), (0, 3, 1)]:
        engine = load_engine(Settings(**small, slots=slots))
        assert engine._streams.slots == expected and len(probes) == probed
        engine.close()


@model_mark
def test_memory_that_is_short_takes_slots_or_refuses(monkeypatch):
    settings = Settings(model=str(FILE), context_window=2000, gpu_layers=0, slots=12, threads=1)
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
    settings = Settings(model=str(FILE), context_window=2000, gpu_layers=5, slots=12, threads=1)
    with closing(GGUFModel(FILE, vocab_only=True)) as header:
        enough = plan.memory_needed(header, 5, 2000 + plan.MARGIN, 5).total
        assert enough < plan.memory_needed(header, 5, 2000 + plan.MARGIN).total
    monkeypatch.setattr(psutil, "virtual_memory", lambda: SimpleNamespace(available=enough))
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
    load_engine(Settings(model=str(FILE), context_window=2000, gpu_layers=0, slots=2, threads=1)).close()
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
    plan._remember(plan.machine_key(model.sha256, 0, 0), Measured(16, 2, {"4": 46.0, "16": 29.0}))
    found = checks()
    assert found["at once"].found == "16 conversations, 2 threads; a token took 46 ms with 4, 29 ms with 16"
    assert found["memory"].state == state and found["context"].state == "ok"
    assert bool(found["memory"].remedy) == (state != "ok")
