"""Writes docs/cli.md from the program's own help."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

TARGET = Path(__file__).resolve().parents[1] / "docs" / "cli.md"

HEAD = """\
# Command line

Written by `make docs` from the program's own help; a test fails when it is stale. `lgr` is the same program.

Results go to stdout, progress to stderr. Exit codes: 0 done; 1 failed items under `--strict`, or a broken
index; 2 wrong use, or work that could not start.
"""


def render() -> str:
    """The page: the help of every command, in the order of the program."""
    import typer.main

    from localgraphrag.cli import app

    root = typer.main.get_command(app)
    return HEAD + "".join(_section("localgraphrag", root))


def _section(name: str, command: Any, parent: Any = None) -> list[str]:
    """The help of a command and of its own commands, each in the context of the one above, as when it is run."""
    context = command.make_context(name, [], parent=parent, resilient_parsing=True)
    context.terminal_width = 100
    parts = [f"\n## {context.command_path}\n\n```text\n{_plain(command.get_help(context))}\n```\n"]
    for child, own in getattr(command, "commands", {}).items():
        parts += _section(child, own, context)
    return parts


def _plain(text: str) -> str:
    return "\n".join(line.rstrip() for line in text.strip().splitlines())


if __name__ == "__main__":
    TARGET.write_text(render(), encoding="utf-8")
    print(f"wrote {TARGET}", file=sys.stderr)
