"""The command `lab`: JupyterLab on a copy of the notebooks, served to this machine alone."""

from __future__ import annotations

import importlib.util
import os
import socket
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from localgraphrag import console
from localgraphrag.errors import ConfigError

ADDRESS = "127.0.0.1"
"""The only address that is listened on, whatever a configuration of Jupyter says."""

FOLDER = Path("localgraphrag-notebooks")

_NEEDED = ("jupyterlab", "ipywidgets", "anywidget")


@dataclass(frozen=True)
class Copied:
    """Names of the notebooks that were written, and of those left as they are because they differ."""

    written: tuple[str, ...]
    kept: tuple[str, ...]


def register(app: typer.Typer) -> None:
    """Add the command to the program."""
    app.command()(lab)


def lab(
    folder: Annotated[Path, typer.Argument(metavar="[DIR]", help="Where the copy is, or is put.")] = FOLDER,
    port: Annotated[
        int | None, typer.Option(min=1, max=65535, help="The port; by default the first free one from 8888.")
    ] = None,
    no_browser: Annotated[bool, typer.Option("--no-browser", help="Print the address, and open no browser.")] = False,
) -> None:
    """Open the notebooks in JupyterLab.

    Copies them into a folder first. What you have changed there is never overwritten. Listens on 127.0.0.1 only, and
    asks the network for nothing.
    """
    check_installed()
    if port is not None:
        check_port(port)
    copied = copy_notebooks(folder)
    console.note(f"{len(copied.written)} notebooks written to {folder.resolve()}.")
    if copied.kept:
        console.note(
            f"Kept as they are, because they differ from the packaged ones: {', '.join(copied.kept)}. "
            "To have one anew, delete or rename it and start again."
        )
    launch(server_arguments(folder, port, browser=not no_browser))


def check_installed() -> None:
    """Raises ConfigError that names what the notebooks need and this Python does not have."""
    missing = [name for name in _NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        raise ConfigError(
            f"The notebooks need {', '.join(missing)}, which {sys.executable} does not have. "
            "Install them: pip install -e '.[notebook]', in the folder of the project's source"
        )


def check_port(port: int) -> None:
    """Raises ConfigError if the port cannot be listened on."""
    with socket.socket() as probe:
        if sys.platform != "win32":  # where it would take a port in use
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((ADDRESS, port))
        except OSError as error:
            raise ConfigError(
                f"Port {port} of {ADDRESS} cannot be used: {error.strerror}. "
                "Give another with --port, or leave --port away and a free one is found."
            ) from None


def packaged_notebooks() -> Path:
    """The folder of the notebooks: in the installed package, or beside it in a checkout. Raises ConfigError."""
    package = Path(__file__).parent
    places = (package / "notebook" / "lessons", package.parent / "notebooks")
    for place in places:
        if any(place.glob("*.ipynb")):
            return place
    raise ConfigError(f"There are no notebooks in {' or '.join(map(str, places))}. Install localgraphrag anew.")


def copy_notebooks(folder: Path, source: Path | None = None) -> Copied:
    """Put the notebooks into a folder, which is made if it is not there. No file that is there is written to.

    Parameters
    ----------
    source : where they come from; the packaged ones by default.

    Raises ConfigError for a folder that cannot be written, or that is the source itself.
    """
    source = source or packaged_notebooks()
    if folder.resolve() == source.resolve():
        raise ConfigError(f"{folder} holds the notebooks of the program itself. Name another folder for a copy.")
    written, kept = [], []
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for notebook in sorted(source.glob("*.ipynb")):
            target, content = folder / notebook.name, notebook.read_bytes()
            if not target.exists():
                with target.open("xb") as file:  # fails, rather than overwrites, if it has come to be meanwhile
                    file.write(content)
                written.append(notebook.name)
            elif not target.is_file() or target.read_bytes() != content:
                kept.append(notebook.name)
    except OSError as error:
        raise ConfigError(f"Notebooks cannot be put into {folder}: {error.strerror}. Name another folder.") from error
    return Copied(tuple(written), tuple(kept))


def server_arguments(folder: Path, port: int | None, *, browser: bool) -> list[str]:
    """Arguments of JupyterLab. They win over its configuration files."""
    chosen = [] if port is None else [f"--ServerApp.port={port}", "--ServerApp.port_retries=0"]
    first = min((path.name for path in folder.glob("*.ipynb")), default="")
    return [
        f"--ServerApp.root_dir={folder.resolve()}",
        f"--ServerApp.ip={ADDRESS}",
        "--ServerApp.allow_remote_access=False",
        "--ServerApp.allow_root=True",  # in a container one is root; who may come in is settled by address and token
        *chosen,
        f"--ServerApp.open_browser={browser}",
        f"--LabApp.default_url=/lab/tree/{first}",
        # what it would ask the network for
        "--LabApp.news_url=None",
        "--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate",
        "--LabApp.extension_manager=readonly",
    ]


def launch(arguments: list[str]) -> None:
    """Run JupyterLab in this process until it is told to end."""
    settings = [str(Path(__file__).parent / "notebook" / "jupyter")]  # without its offer of news from the network
    settings += filter(None, [os.environ.get("JUPYTER_CONFIG_PATH")])
    os.environ["JUPYTER_CONFIG_PATH"] = os.pathsep.join(settings)  # read when Jupyter is imported or later
    from jupyterlab.labapp import LabApp

    LabApp.launch_instance(argv=arguments)
