"""Model files: which there are, bringing one here, where they are kept.

The verbs of the command `localgraphrag models`. Only `pull` uses the network.

>>> from localgraphrag import models
>>> [model.name for model in models.list() if model.default and model.kind == "language"]
['qwen2.5-coder-1.5b']
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from localgraphrag.config import Settings, models_folder
from localgraphrag.llm import catalog

if TYPE_CHECKING:
    from localgraphrag.llm.catalog import Kind, ModelFile
    from localgraphrag.llm.fetch import From, Progress

__all__ = ["Model", "add", "list", "path", "pull"]


@dataclass(frozen=True)
class Model:
    """A model of the catalogue, or (`own`) another file in the models folder.

    `bytes` is the size of its files, 0 where the catalogue does not know it; `context` in tokens; `here` says that the
    file is at `path`, not that it is whole: its sha256 is checked when it is loaded.
    """

    name: str
    kind: Kind
    path: Path
    here: bool
    bytes: int
    default: bool = False
    own: bool = False
    licence: str = ""
    context: int = 0
    use: str = ""


def list() -> tuple[Model, ...]:
    """The models of the catalogue in its order, then GGUF files in the models folder that it does not know."""
    folder = models_folder()
    defaults = {Settings.model_fields[name].default for name in ("model", "embedder")}
    known = [
        Model(
            entry.name, entry.kind, entry.path(folder), entry.path(folder).exists(), entry.bytes,
            default=entry.name in defaults, licence=entry.licence, context=entry.context, use=entry.use,
        )
        for entry in catalog.catalog().values()
    ]  # fmt: skip
    others = [Model(p.stem, "language", p, True, p.stat().st_size, own=True) for p in catalog.own_models()]
    return (*known, *others)


def pull(name: str, source: From = "auto", progress: Progress | None = None) -> ModelFile:
    """Fetch a model of the catalogue and verify it; see `llm.fetch.pull` for parameters and errors."""
    from localgraphrag.llm import fetch

    return fetch.pull(name, source, progress)


def add(file: Path | str, name: str = "", progress: Progress | None = None) -> tuple[ModelFile, str]:
    """Take a model file from a stick, after checking what it is; see `llm.fetch.add` for parameters and errors."""
    from localgraphrag.llm import fetch

    return fetch.add(Path(file), name, progress)


def path(name: str = "") -> Path:
    """Where a model is, or without a name the folder of all. Raises ModelMissingError or ModelBrokenError."""
    if not name:
        return models_folder()
    known = catalog.catalog().get(name)
    return catalog.resolve_model(name, known.kind if known else "language").path
