"""Memory: the engine over 500 requests, and the peak of an index run.

    python -m benchmarks.memory [--requests 500] [--documents 8] [--model NAME] [--json]

Requests vary in size, and one in a hundred is longer than a slot, so that the cache is divided anew. Resident memory is
read after each tenth of them. Growth is what it gained between the first and the last tenth: of 500 requests, the first
tenth has a long one and has filled every buffer. The index run is one of the demo corpus' first documents with
everything on (gleanings, claims, reports, the embedder where it is installed), in a process of its own, whose peak the
system tells.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.common import arguments, say

LONG = 2_100  # words of the longest requests: more than the tokens of a slot


def main() -> None:
    parser = arguments("memory", __doc__)
    parser.add_argument("--requests", type=int, default=500, help="requests to the engine")
    parser.add_argument("--documents", type=int, default=8, help="documents of the index run; 0 leaves it out")
    parser.add_argument("--only", choices=["requests", "index"], help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.only == "requests":
        print(json.dumps(requests(options.model, options.slots, options.requests)))
    elif options.only == "index":
        print(json.dumps(index(options.model, options.slots, options.documents)))
    else:
        found = {"model": options.model, "requests": apart("requests")}
        if options.documents:
            found["index"] = apart("index")
        print(json.dumps(found, indent=2) if options.json else table(found))


def apart(what: str) -> dict[str, Any]:
    """A part in a process of its own, so that its peak is its own."""
    say(f"{what} ...")
    command = [sys.executable, "-m", "benchmarks.memory", *sys.argv[1:], "--only", what]
    found: dict[str, Any] = json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout)
    return found


def peak_mb() -> int:
    unit = 1 if sys.platform == "darwin" else 1024  # bytes there, KiB elsewhere
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit // 1_000_000


def requests(model: str, slots: int, count: int) -> dict[str, Any]:
    """Resident memory after each tenth of so many requests."""
    import psutil

    from localgraphrag.config import Settings
    from localgraphrag.llm import load_engine
    from localgraphrag.llm.output import schema
    from localgraphrag.llm.types import Message, Request

    engine = load_engine(Settings(model=model, slots=slots))
    process = psutil.Process()
    before = process.memory_info().rss // 1_000_000
    told = (Message("system", "Answer with one JSON object."),)

    def varied(number: int) -> Request:
        form = schema({"note": {"type": "string", "maxLength": 20 + number % 7}})
        words = LONG if number % 100 == 40 else number % 13 * 3
        prompt = f"Note {number}: a word for {number * 7919 % 1000}." + " river" * words
        return Request(prompt, form, told, max_tokens=4 + number % 9, key=str(number))

    tenth, resident, failed = max(count // 10, 1), [], 0
    for done, completion in enumerate(engine.run(varied(n) for n in range(count)), 1):
        failed += bool(completion.error)
        if done % tenth == 0:
            resident.append(process.memory_info().rss // 1_000_000)
            say(f"  {done} requests: {resident[-1]} MB")
    engine.close()
    growth = resident[-1] - resident[0]
    return {
        "count": count,
        "failed": failed,
        "loaded_mb": before,
        "resident_mb": resident,
        "growth_mb": growth,
        "peak_mb": peak_mb(),
    }


def index(model: str, slots: int, documents: int) -> dict[str, Any]:
    """Index some of the demo corpus; the peak of this process."""
    from localgraphrag import Project
    from localgraphrag.demo import corpus_folder

    papers = sorted(path for path in corpus_folder().iterdir() if path.is_file())[:documents]
    with (
        tempfile.TemporaryDirectory() as folder,
        Project.open(Path(folder) / "project", model=model, slots=slots) as project,
    ):
        summary = project.index(papers)
    return {
        "documents": len(papers),
        "chunks": summary.chunks,
        "complete": summary.complete,
        "failures": len(summary.failures),
        "warnings": list(summary.warnings),
        "peak_mb": peak_mb(),
    }


def table(found: dict[str, Any]) -> str:
    """The results in Markdown."""
    small = found["requests"]
    lines = [
        "| what | peak MB |",
        "|---|---|",
        f"| engine loaded, then {small['count']} requests, {small['failed']} of which failed "
        f"| {small['loaded_mb']:,}, then {small['peak_mb']:,} |",
    ]
    if "index" in found:
        run = found["index"]
        how = "complete" if run["complete"] else f"not complete, {run['failures']} failures"
        what = f"index run, {run['documents']} documents, {run['chunks']} chunks, {how}"
        lines.append(f"| {what} | {run['peak_mb']:,} |")
    tenths = ", ".join(f"{mb:,}" for mb in small["resident_mb"])
    lines += [
        "",
        f"{found['model']}. Resident after each tenth of the requests: {tenths} MB; growth {small['growth_mb']} MB.",
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    main()
