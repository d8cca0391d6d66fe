"""Every benchmark in turn, and one Markdown file of their tables.

    python -m benchmarks [--model NAME] [--to docs/benchmarks.md] [--quick]

About two hours with the default model on two cores, most of it for the plain ways that the engine is compared with. A
part that fails is named in the file, and ends the run with exit code 1 after the others are done.
"""

from __future__ import annotations

import argparse
import platform
import subprocess
import sys
from pathlib import Path

from benchmarks.common import say

TITLES = {
    "throughput": "Seconds per chunk",
    "extraction_quality": "What extraction finds",
    "memory": "Memory",
    "graph": "Work without a model",
}
QUICK = {
    "throughput": ["--chunks", "2", "--baseline-chunks", "1"],
    "extraction_quality": ["--documents", "2"],
    "memory": ["--requests", "20", "--documents", "1"],
    "graph": ["--scale", "1"],
}
FULL = {"graph": ["--scale", "1", "10", "100"]}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--model", default="qwen2.5-coder-1.5b", help="a name of the catalogue, or a GGUF file")
    parser.add_argument("--to", type=Path, default=Path("docs/benchmarks.md"), help="the file to write")
    parser.add_argument("--only", nargs="+", choices=list(TITLES), default=list(TITLES), help="some of them")
    parser.add_argument("--quick", action="store_true", help="a few items each: whether they work, not figures")
    options = parser.parse_args()
    parts, failed = [], []
    for name in options.only:
        say(f"== {name}")
        command = [sys.executable, "-m", f"benchmarks.{name}", *(QUICK if options.quick else FULL).get(name, [])]
        command += [] if name == "graph" else ["--model", options.model]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True)
        if done.returncode:
            failed.append(name)
        table = done.stdout.strip() if not done.returncode else f"Failed with exit code {done.returncode}."
        parts.append(f"## {TITLES[name]}\n\n`python -m benchmarks.{name}`\n\n{table}\n")
        options.to.parent.mkdir(parents=True, exist_ok=True)
        options.to.write_text(f"# Benchmarks\n\n{machine()}\n\n" + "\n".join(parts), encoding="utf-8")
    say(f"written: {options.to}")
    return 1 if failed else 0


def machine() -> str:
    """The machine in words."""
    from localgraphrag.llm.gguf import system_info, usable_cores
    from localgraphrag.llm.plan import processor

    build = system_info().strip(" |\n")
    system = f"{platform.system()}, Python {platform.python_version()}"
    return f"{processor()}, {usable_cores()} usable cores, {system}. {build}."


if __name__ == "__main__":
    sys.exit(main())
