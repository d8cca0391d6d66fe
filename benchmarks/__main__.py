"""Every benchmark in turn, and one Markdown file of their tables.

    python -m benchmarks [--model NAME] [--only PART ..] [--quick] [--to FILE]

Some hours with the default model on two cores, most of it for the plain ways that the engine is compared with. All
together go to docs/benchmarks.md when the last is done; some of them, or a quick try, are printed. A part that fails is
named, and ends the run with exit code 1 after the others are done.
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
    parser.add_argument("--to", type=Path, help=f"the file to write; {WHOLE} where all are run in full")
    parser.add_argument("--only", nargs="+", choices=list(TITLES), default=list(TITLES), help="some of them")
    parser.add_argument("--quick", action="store_true", help="a few items each: whether they work, not figures")
    options = parser.parse_args()
    partial = options.quick or set(options.only) != set(TITLES)
    file = options.to or (None if partial else WHOLE)
    parts, failed = [], []
    for name in options.only:
        say(f"== {name}")
        more = (QUICK if options.quick else FULL).get(name, [])
        command = [sys.executable, "-m", f"benchmarks.{name}", *more]
        command += [] if name == "graph" else ["--model", options.model]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True)
        if done.returncode:
            failed.append(name)
        table = done.stdout.strip() if not done.returncode else f"Failed with exit code {done.returncode}."
        said = " ".join(["python -m", f"benchmarks.{name}", *more])
        parts.append(f"## {TITLES[name]}\n\n`{said}`\n\n{table}\n")
        say(table)
    text = f"# Benchmarks\n\n{machine()}\n\n" + "\n".join(parts)
    if file is None:
        print(text)
    else:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
        say(f"written: {file}")
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
