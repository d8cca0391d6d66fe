"""What this machine can do for a project, and what to do where it falls short."""

from __future__ import annotations

import os
import platform
import shutil
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from localgraphrag.config import INDEX_FILE, Settings, models_folder, nearest
from localgraphrag.errors import LocalGraphRAGError, ModelError
from localgraphrag.llm.catalog import Kind, ModelFile, Tick, catalog, resolve_model, verify_model

if TYPE_CHECKING:
    from localgraphrag.llm.fetch import Progress
    from localgraphrag.llm.plan import Measured

_ENOUGH_DISK = 2 * 10**9


@dataclass(frozen=True)
class Check:
    """One thing looked at. `state` "warn" slows or limits the work, "fail" prevents it; `remedy` says what to do."""

    name: str
    state: Literal["ok", "warn", "fail"]
    found: str
    remedy: str = ""


def examine(settings: Settings, folder: Path, progress: Progress | None = None) -> Iterator[Check]:
    """Look at everything a run in `folder` depends on, one check after another.

    `progress` hears how many bytes of a model are hashed, of how many: a gigabyte takes seconds.
    """
    yield Check("system", "ok", f"{platform.system()} {platform.machine()}, Python {platform.python_version()}")
    model, check = _model("model", settings.model, "language", folder, progress)
    yield check
    yield _model("embedder", settings.embedder, "embedding", folder, progress)[1]
    if model is not None:
        try:
            yield from _fit(model, settings)
        except ModelError as error:  # it begins as a model does and is damaged further on
            yield Check("model file", "fail", str(error), _pull_or_name(settings.model, "language", "model"))
    yield _build()
    yield _gpu(settings)
    yield _threads(settings)
    yield _disk("disk of the project", folder, "Make room, or move the project to another disk.")
    yield _disk("disk of the models", models_folder(), "Set LOCALGRAPHRAG_MODELS to a folder on another disk.")
    if (folder / INDEX_FILE).exists():
        yield _index(folder)


def _model(
    name: str, wanted: str, kind: Kind, folder: Path, progress: Progress | None
) -> tuple[ModelFile | None, Check]:
    if kind == "embedding" and wanted == "hash":
        return None, Check(name, "ok", "hash: words only, no model", "")
    try:
        model = resolve_model(wanted, kind, folder)
        verify_model(model, _hashing(model, wanted, progress) if progress else None)
    except ModelError as error:
        return None, Check(name, "fail", f"{wanted}: {error}", _pull_or_name(wanted, kind, name))
    how = "not in the catalogue, nothing to compare with"
    if model.entry:
        known = all(file.sha256 for file in model.entry.files)
        how = "sha256 as in the catalogue" if known else "sha256 as when it came; the catalogue has none"
    return model, Check(name, "ok", f"{wanted}: {model.path} ({how})")


def _hashing(model: ModelFile, wanted: str, progress: Progress) -> Tick:
    total = model.entry.bytes if model.entry else 0
    total = total or (model.path.stat().st_size if model.path.is_file() else 0)
    done = 0

    def tick(count: int) -> None:
        nonlocal done
        done += count
        progress(f"verifying {wanted}", done, total)

    return tick


def _pull_or_name(wanted: str, kind: Kind, setting: str) -> str:
    names = [entry.name for entry in catalog().values() if entry.kind == kind]
    if wanted in names:
        return (
            f"`localgraphrag models pull {wanted}`, or set `{setting}` to one that `localgraphrag models list` shows."
        )
    form = "a GGUF file" if kind == "language" else "an embedder's folder"
    return f"Set `{setting}` to one of {', '.join(names)}, or to the path of {form}."


def _fit(model: ModelFile, settings: Settings) -> Iterator[Check]:
    """Whether the model can hold the context that is set, and the memory both."""
    from localgraphrag.llm import plan
    from localgraphrag.llm.gguf import GGUFModel
    from localgraphrag.llm.machine import free_memory, total_memory

    with closing(GGUFModel(model.path, vocab_only=True)) as header:
        trained, window = header.trained_context, settings.context_window
        known = plan.remembered(plan.machine_key(model.sha256, settings.threads, settings.gpu_layers))
        slots = settings.slots or (known.slots if known else plan.DEFAULT_SLOTS)
        batch = settings.batch or (known.batch if known else plan.BATCH)
        longest = window + plan.MARGIN
        needed = plan.memory_needed(header, slots, longest, settings.gpu_layers, batch)
        least = plan.memory_needed(header, 1, longest, settings.gpu_layers, settings.batch or plan.BATCH).total
    if trained and window > trained:
        yield Check(
            "context", "fail", f"context_window {window:,} of the {trained:,} tokens this model was made for",
            f"Set `context_window = {trained}` or less, or take a model with a longer context.",
        )  # fmt: skip
    else:
        yield Check("context", "ok", f"context_window {window:,} of {trained:,} tokens")
    free = free_memory()
    found = (
        f"{free / 1e9:.1f} GB free of {total_memory() / 1e9:.1f} GB; about {needed.total / 1e9:.1f} GB "
        f"needed for {slots} conversations at once"
    )
    small = "Close other programs, take `--model qwen2.5-coder-0.5b`, or lower `context_window`."
    if least > free:
        yield Check("memory", "fail", found + f", {least / 1e9:.1f} GB for one", small)
    elif needed.total > free:
        yield Check("memory", "warn", found, "Fewer will be taken at once, which is slower. " + small)
    else:
        yield Check("memory", "ok", found)
    yield _pace(slots, batch, settings, known)


def _pace(slots: int, batch: int, settings: Settings, known: Measured | None) -> Check:
    """Where the numbers of conversations, and of tokens of a prompt, at once come from."""
    if settings.slots and settings.batch:
        return Check("at once", "ok", f"{slots} conversations, or {batch} tokens of a prompt, as set")
    if known is None:
        return Check("at once", "ok", "not measured yet; the first run does it in some seconds")
    found = f"{slots} conversations{' (as set)' if settings.slots else ''}, "
    found += f"or {batch} tokens of a prompt{' (as set)' if settings.batch else ''}, {known.threads} threads"
    seen = sorted(known.milliseconds.items(), key=lambda item: int(item[0]))
    found += "; a token took " + ", ".join(f"{ms:.0f} ms with {count}" for count, ms in seen)
    if known.rates:
        read = sorted(known.rates.items(), key=lambda item: int(item[0]))
        found += "; of a prompt, " + ", ".join(f"{rate:.0f} a second with {count}" for count, rate in read)
    return Check("at once", "ok", found)


def _build() -> Check:
    from localgraphrag.llm.gguf import slow_build_warning, system_info

    info = system_info().strip(" |\n")
    warning = slow_build_warning(info)
    return Check("vector units", "warn" if warning else "ok", info, warning)


def _gpu(settings: Settings) -> Check:
    import llama_cpp

    if llama_cpp.llama_supports_gpu_offload():
        layers = "all layers" if settings.gpu_layers < 0 else f"{settings.gpu_layers} layers"
        remedy = "" if settings.gpu_layers else "Set `gpu_layers = -1` to use it."
        return Check(
            "graphics card", "warn" if remedy else "ok", f"this build can use it; {layers} are put there", remedy
        )
    remedy = ""
    if shutil.which("nvidia-smi"):
        remedy = (
            'Rebuild for it: CMAKE_ARGS="-DGGML_CUDA=on" pip install --force-reinstall --no-cache-dir llama-cpp-python'
        )
    return Check("graphics card", "warn" if remedy else "ok", "this build of llama.cpp uses the processor only", remedy)


def _threads(settings: Settings) -> Check:
    from localgraphrag.llm.machine import usable_cores

    cores, total = usable_cores(), os.cpu_count() or 1
    used = settings.threads or cores
    found = f"{used} of {cores} usable cores ({total} in the machine)"
    if used > cores:
        return Check("threads", "warn", found, "More threads than cores slow each other down. Set `threads = 0`.")
    if used < cores:
        return Check("threads", "warn", found, "Set `threads = 0` to use all.")
    return Check("threads", "ok", found)


def _disk(name: str, folder: Path, remedy: str) -> Check:
    there = nearest(folder)
    if there is None:
        return Check(name, "fail", f"{folder.absolute().anchor} is not there", remedy)
    free = shutil.disk_usage(there).free
    found = f"{free / 1e9:.1f} GB free at {there}"
    if there != folder.absolute():
        found += f"; {folder.absolute()} does not exist yet"
    if not os.access(there, os.W_OK):
        return Check(name, "warn", f"{found}, not writable", remedy)
    return Check(name, "ok", found) if free >= _ENOUGH_DISK else Check(name, "warn", found, remedy)


def _index(folder: Path) -> Check:
    from localgraphrag.store import Store

    path = folder / INDEX_FILE
    try:
        Store(path).close()
    except LocalGraphRAGError as error:
        return Check("index", "fail", str(error), "`localgraphrag verify` says more.")
    return Check("index", "ok", f"{path}, {path.stat().st_size / 1e6:.1f} MB")
