"""What this process may use of the machine: processors, memory, graphics cards. In a container it may be less.

Containers are limited by control groups, of which there are two versions; a group's limit holds for those within it.
"""

from __future__ import annotations

import ctypes
import math
import os
import platform
import sys
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import NamedTuple

_GROUPS, _OWN = Path("/sys/fs/cgroup"), Path("/proc/self/cgroup")
_CARD, _INTEGRATED = 1, 2  # ggml_backend_dev_type: with memory of its own, and with the machine's


class Device(NamedTuple):
    """What llama.cpp can compute on: its kind (ggml_backend_dev_type), its name, and how many bytes of it are free."""

    kind: int
    name: str
    free: int


# -- processors --------------------------------------------------------------------------------------------------


def usable_cores() -> int:
    """Processors worth a thread each. A quota of one and a half keeps two of them busy, three quarters of the time."""
    return math.ceil(processor_time())


def processor_time() -> float:
    """Seconds of processors' time that this process may take in a second."""
    here = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min([here, *_quotas()])


def others_seconds() -> float:
    """Seconds of processors' time that other processes have taken since the machine was started."""
    import psutil

    times, own = psutil.cpu_times(), psutil.Process().cpu_times()
    # time of guests is in that of users already
    idle = sum(getattr(times, kind, 0.0) for kind in ("idle", "iowait", "guest", "guest_nice"))
    return float(sum(times) - idle - own.user - own.system)


def processor() -> str:
    """The processor's own name."""
    for line in _text(Path("/proc/cpuinfo")).splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


# -- memory ------------------------------------------------------------------------------------------------------


def free_memory() -> int:
    """Bytes of memory that this process may still take."""
    import psutil

    return min([int(psutil.virtual_memory().available), *(free for _, free in _memory_limits())])


def total_memory() -> int:
    """Bytes of memory that there are, for all processes together that share this one's limit."""
    import psutil

    return min([int(psutil.virtual_memory().total), *(limit for limit, _ in _memory_limits())])


# -- graphics cards ----------------------------------------------------------------------------------------------


def cards() -> list[Device]:
    """Graphics cards with memory of their own. None also where llama.cpp does not tell."""
    return [device for device in _devices() if device.kind == _CARD]


def shares_memory() -> bool:
    """Whether graphics uses the machine's memory, as on a Mac, and where it is a part of the processor."""
    if sys.platform == "darwin":
        return True
    kinds = {device.kind for device in _devices()}
    return _INTEGRATED in kinds and _CARD not in kinds


def _devices() -> list[Device]:
    """All that llama.cpp can compute on, the processor among it; none where it does not tell."""
    import llama_cpp

    folder = Path(llama_cpp.__file__).parent / "lib"
    try:  # llama-cpp-python has no names for these functions
        from llama_cpp._ctypes_extensions import load_shared_library

        registry, device = (load_shared_library(name, folder) for name in ("ggml", "ggml-base"))
        registry.ggml_backend_dev_count.restype = ctypes.c_size_t
        registry.ggml_backend_dev_get.argtypes = [ctypes.c_size_t]
        registry.ggml_backend_dev_get.restype = ctypes.c_void_p
        device.ggml_backend_dev_description.argtypes = device.ggml_backend_dev_type.argtypes = [ctypes.c_void_p]
        device.ggml_backend_dev_description.restype = ctypes.c_char_p
        sizes = ctypes.POINTER(ctypes.c_size_t)
        device.ggml_backend_dev_memory.argtypes = [ctypes.c_void_p, sizes, sizes]
        device.ggml_backend_dev_memory.restype = None
    except (ImportError, OSError, AttributeError):
        return []
    found = []
    for number in range(registry.ggml_backend_dev_count()):
        handle, free, total = registry.ggml_backend_dev_get(number), ctypes.c_size_t(), ctypes.c_size_t()
        device.ggml_backend_dev_memory(handle, ctypes.byref(free), ctypes.byref(total))
        name = device.ggml_backend_dev_description(handle).decode("utf-8", "replace")
        found.append(Device(device.ggml_backend_dev_type(handle), name, free.value))
    return found


# -- control groups ----------------------------------------------------------------------------------------------


def _groups(controller: str) -> Iterator[Path]:
    """Folders of the groups that this process is in, from its own up; some may not be there.

    A container may be told its path on the host, of which it sees nothing but its own group, as the root.
    """
    for line in _text(_OWN).splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers and controller not in controllers.split(","):  # version 2 names none
            continue
        inner = PurePosixPath(path.lstrip("/"))
        for group in dict.fromkeys((inner, *inner.parents)):
            yield (_GROUPS / controller if controllers else _GROUPS) / group


def _quotas() -> Iterator[float]:
    for group in _groups("cpu"):
        quota, _, period = _text(group / "cpu.max").partition(" ")
        if not period:
            quota, period = _text(group / "cpu.cfs_quota_us"), _text(group / "cpu.cfs_period_us")
        if quota.isdigit() and period.isdigit():  # none: "max", or -1
            yield int(quota) / int(period)


def _memory_limits() -> Iterator[tuple[int, int]]:
    """Of each group with a limit: the limit, and what is free of it. What is kept of files gives way."""
    for group in _groups("memory"):
        for limit, used in (("memory.max", "memory.current"), ("memory.limit_in_bytes", "memory.usage_in_bytes")):
            most, taken = _text(group / limit), _text(group / used)
            if most.isdigit() and taken.isdigit():
                lines = [line.split() for line in _text(group / "memory.stat").splitlines()]
                held = {name: int(number) for name, number in lines}
                files = [held.get(f"total_{kind}", held.get(kind, 0)) for kind in ("active_file", "inactive_file")]
                yield int(most), max(int(most) - int(taken) + sum(files), 0)


def _text(file: Path) -> str:
    """What a file holds; "" if it cannot be read."""
    try:
        return file.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""
