"""Every benchmark in turn, and one Markdown file of their tables.

    python -m benchmarks [--model NAME] [--only PART ..] [--quick] [--to FILE]

Some hours with the default model on two cores, most of it for the plain ways that the engine is compared with. Each
part goes to docs/benchmarks.md when it is done, in the place of what the file said of it, so that they can be run on
different days; a quick try is printed. A part that fails is named, and ends the run with exit code 1 after the others
are done.
"""

from __future__ import annotations

import argparse
import platform
import subprocess
import sys
from collections.abc import Mapping
from datetime import date
from pathlib import Path

from benchmarks.common import say

TITLES = {
    "throughput": "Seconds per chunk",
    "index_run": "A whole index run",
    "extraction_quality": "What extraction finds",
    "valid": "Whether every reply can be read",
    "memory": "Memory",
    "graph": "Work without a model",
}
QUICK = {
    "throughput": ["--chunks", "2", "--baseline-chunks", "1"],
    "index_run": ["--characters", "2400"],
    "valid": ["--chunks", "1", "--small-chunks", "2"],
    "extraction_quality": ["--documents", "2"],
    "memory": ["--requests", "20", "--documents", "1"],
    "graph": ["--scale", "1"],
}
FULL = {"throughput": ["--written"]}
WHOLE = Path("docs/benchmarks.md")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--model", default="qwen2.5-coder-1.5b", help="a name of the catalogue, or a GGUF file")
    parser.add_argument("--to", type=Path, help=f"the file to write; {WHOLE} unless --quick is given")
    parser.add_argument("--only", nargs="+", choices=list(TITLES), default=list(TITLES), help="some of them")
    parser.add_argument("--quick", action="store_true", help="a few items each: whether they work, not figures")
    options = parser.parse_args()
    file = options.to or (None if options.quick else WHOLE)
    sections = sections_of(file.read_text(encoding="utf-8")) if file and file.exists() else {}
    failed = []
    for name in options.only:
        say(f"== {name}")
        more = (QUICK if options.quick else FULL).get(name, [])
        command = [sys.executable, "-m", f"benchmarks.{name}", *more]
        command += [] if name == "graph" else ["--model", options.model]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True)
        if done.returncode:
            failed.append(name)
            say(f"{name} failed with exit code {done.returncode}")
            continue
        said = " ".join(["python -m", f"benchmarks.{name}", *more])
        sections[TITLES[name]] = f"`{said}`, {date.today()}, on {machine()}\n\n{done.stdout.strip()}"
        say(done.stdout)
        if file:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(written(sections), encoding="utf-8")
    if file is None:
        print(written(sections))
    else:
        say(f"written: {file}")
    return 1 if failed else 0


def written(sections: Mapping[str, str]) -> str:
    """The file of these sections, by title."""
    there = [title for title in TITLES.values() if title in sections]
    return "\n\n".join(["# Benchmarks", *(f"## {title}\n\n{sections[title]}" for title in there)]) + "\n"


def sections_of(text: str) -> dict[str, str]:
    """What `written` has made a file of."""
    titles_and_texts = (section.split("\n\n", 1) for section in text.strip().split("\n\n## ")[1:])
    return {title: table for title, table in titles_and_texts}


def machine() -> str:
    """The machine in words."""
    from localgraphrag.llm.gguf import system_info
    from localgraphrag.llm.machine import processor, usable_cores

    build = system_info().strip(" |\n")
    system = f"{platform.system()}, Python {platform.python_version()}"
    return f"{processor()}, {usable_cores()} usable cores, {system}. {build}."


if __name__ == "__main__":
    sys.exit(main())
