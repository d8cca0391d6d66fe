"""What a process may use: of the machine, and of a container that is given less."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from localgraphrag.llm import machine
from localgraphrag.llm.machine import Device

STAT = "anon 500\nactive_file 30\ninactive_file 70\n"
STAT_1 = (
    "inactive_file 1\nactive_file 1\nhierarchical_memory_limit 1000\ntotal_inactive_file 70\ntotal_active_file 30\n"
)
NO_LIMIT = "9223372036854771712"  # as version 1 says it


@pytest.fixture
def groups(tmp_path, monkeypatch):
    """Control groups as written: what /proc says of this process, and files under /sys. The machine has four cores."""

    def write(own: str, files: dict[str, str]) -> None:
        (tmp_path / "own").write_text(own)
        for name, text in files.items():
            file = tmp_path / "groups" / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text + "\n")

    monkeypatch.setattr(machine, "_OWN", tmp_path / "own")
    monkeypatch.setattr(machine, "_GROUPS", tmp_path / "groups")
    monkeypatch.setattr(os, "sched_getaffinity", lambda _process: set(range(4)), raising=False)
    monkeypatch.setattr(psutil, "virtual_memory", lambda: SimpleNamespace(available=8_000, total=10_000))
    return write


def found() -> tuple[float, int, int, int]:
    return machine.processor_time(), machine.usable_cores(), machine.free_memory(), machine.total_memory()


def memory(limit: str, used: str, stat: str = STAT, at: str = "") -> dict[str, str]:
    return {f"{at}memory.max": limit, f"{at}memory.current": used, f"{at}memory.stat": stat}


def memory_1(limit: str, used: str, at: str = "memory/") -> dict[str, str]:
    return {f"{at}memory.limit_in_bytes": limit, f"{at}memory.usage_in_bytes": used, f"{at}memory.stat": STAT_1}


def test_without_control_groups_it_is_the_machine(groups):
    assert found() == (4, 4, 8_000, 10_000)


def test_without_limits_it_is_the_machine(groups):
    groups("0::/\n", {"cpu.max": "max 100000"} | memory("max", "600"))
    assert found() == (4, 4, 8_000, 10_000)
    groups(
        "4:memory:/\n3:cpu,cpuacct:/\n0::/\n",
        {"cpu/cpu.cfs_quota_us": "-1", "cpu/cpu.cfs_period_us": "100000"} | memory_1(NO_LIMIT, "600"),
    )
    assert found() == (4, 4, 8_000, 10_000)


def test_limits_of_a_container_hold(groups):
    groups("0::/\n", {"cpu.max": "150000 100000"} | memory("1000", "600"))
    assert found() == (1.5, 2, 500, 1_000)  # of the 600 used, 100 are of files and give way


def test_limits_of_version_1_hold(groups):
    files = {"cpu/cpu.cfs_quota_us": "50000", "cpu/cpu.cfs_period_us": "100000"} | memory_1("1000", "600")
    groups("4:memory:/docker/0123\n3:cpu,cpuacct:/docker/0123\n1:name=systemd:/docker/0123\n0::/\n", files)
    assert found() == (0.5, 1, 500, 1_000)  # the path is the host's; here the group is the root


def test_the_tightest_of_groups_within_groups_holds(groups):
    inner, outer = "user.slice/a.scope/", "user.slice/"
    files = {f"{inner}cpu.max": "max 100000", f"{outer}cpu.max": "200000 100000"}
    files |= memory("3000", "600", at=inner) | memory("5000", "4900", at=outer)
    groups("0::/user.slice/a.scope\n", files)
    assert found() == (2, 2, 200, 3_000)


def test_more_taken_than_there_is_leaves_nothing(groups):
    groups("0::/\n", memory("1000", "1500"))
    assert machine.free_memory() == 0


def test_a_quota_above_what_there_is_changes_nothing(groups):
    groups("0::/\n", {"cpu.max": "900000 100000"} | memory("90000", "600"))
    assert found() == (4, 4, 8_000, 10_000)


def test_processors_time_of_this_process_is_not_others():
    before, own, started = machine.others_seconds(), time.process_time(), time.perf_counter()
    while time.process_time() - own < 0.5:
        pass
    others, seconds = machine.others_seconds() - before, time.perf_counter() - started
    processors = psutil.cpu_count() or 1
    assert -0.2 <= others <= seconds * processors - 0.5 + 0.1 * processors


def test_llama_cpp_tells_what_it_can_compute_on():
    kinds = {device.kind: device for device in machine._devices()}
    assert kinds[0].name and 0 < kinds[0].free <= psutil.virtual_memory().total  # the processor


def test_cards_have_memory_of_their_own(monkeypatch):
    processor, card = Device(0, "a processor", 16), Device(1, "a card", 24)
    integrated, blas = Device(2, "within", 8), Device(3, "BLAS", 0)
    monkeypatch.setattr(sys, "platform", "linux")
    for devices, own, shared in [
        ([processor, blas], [], False),
        ([card, integrated, processor], [card], False),  # llama.cpp takes the card
        ([integrated, processor], [], True),
        ([], [], False),
    ]:
        monkeypatch.setattr(machine, "_devices", lambda devices=devices: devices)
        assert (machine.cards(), machine.shares_memory()) == (own, shared)
    monkeypatch.setattr(sys, "platform", "darwin")
    assert machine.shares_memory()


def test_a_llama_cpp_that_does_not_tell_is_no_error(monkeypatch):
    import llama_cpp

    monkeypatch.setattr(llama_cpp, "__file__", str(Path("/nowhere/__init__.py")))
    assert machine._devices() == []
