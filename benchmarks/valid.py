"""How many replies are whole and valid under their output type: the smallest model, and the one that is used.

    python -m benchmarks.valid [--chunks 40] [--small-chunks 200] [--model NAME] [--small NAME] [--json]

Chunks of 600 tokens, evenly taken from `peps` (LOCALGRAPHRAG_TEST_DATA), go through extraction with everything on:
gleanings, claims, and descriptions that the model writes, so that every kind of reply comes up. Each reply is checked
against its grammar, and read as JSON where it is JSON. A small model tries a grammar harder than a good one.
"""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

from benchmarks.common import Listening, arguments, sample_chunks, say


def main() -> None:
    parser = arguments("valid", __doc__)
    parser.add_argument("--chunks", type=int, default=40, help="chunks for the model")
    parser.add_argument("--small", default="smollm2-135m", help="a small model: a name of the catalogue, or a file")
    parser.add_argument("--small-chunks", type=int, default=200, help="chunks for the small model")
    options = parser.parse_args()
    asked = [(options.small, options.small_chunks), (options.model, options.chunks)]
    found = [measure(model, options.slots, chunks) for model, chunks in asked if chunks]
    print(json.dumps(found, indent=2) if options.json else table(found))


def measure(model: str, slots: int, chunks: int) -> dict[str, Any]:
    """Extract from so many chunks and count what cannot be read."""
    from localgraphrag.config import Settings
    from localgraphrag.extract import extraction_units
    from localgraphrag.llm import load_engine
    from localgraphrag.llm.units import EngineRunner, run_all
    from localgraphrag.prompts import Prompts

    settings = Settings(model=model, slots=slots, descriptions="written")
    engine = load_engine(settings)
    listening = Listening(engine)
    sample = sample_chunks(engine.tokenizer, chunks)
    say(f"{model}: {len(sample)} chunks ...")
    outcomes = run_all(EngineRunner(listening), extraction_units(sample, settings, Prompts(None)))
    engine.close()
    unreadable = listening.invalid()
    for key in unreadable:
        say(f"  cannot be read: {key}")
    return {
        "model": model,
        "chunks": len(sample),
        "replies": len(listening.heard),
        "unparsable": len(unreadable),
        "failed_chunks": sum(not outcome.ok for outcome in outcomes.values()),
        "finishes": dict(Counter(completion.finish for _, completion in listening.heard)),
    }


def table(found: list[dict[str, Any]]) -> str:
    """The results in Markdown."""
    lines = [
        "| model | chunks | replies | unparsable | failed chunks | how replies ended |",
        "|---|---|---|---|---|---|",
    ]
    for run in found:
        ends = ", ".join(f"{finish} {times:,}" for finish, times in sorted(run["finishes"].items()))
        cells = [run["model"], *(f"{run[k]:,}" for k in ("chunks", "replies", "unparsable", "failed_chunks")), ends]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
