"""A whole index run: the first pages of a novella, compared with another tool on the same text and model.

    python -m benchmarks.index_run [--characters 24000] [--model NAME] [--json]

The first 24,000 characters of `operation_dulce` (LOCALGRAPHRAG_TEST_DATA) are ten chunks of 600 tokens. Everything is
on as the settings say by default: one gleaning, claims, reports of every level, the embedder. The seconds are those of
the whole run with loading. microsoft/graphrag 3.3.0 took 557 s for this text with qwen2.5-coder-1.5b on two cores
(gleanings 1) and found 18 entities, five of them from its prompt's example, and 5 relationships.
"""

from __future__ import annotations

import json
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.common import arguments, corpus, say

OTHER_SECONDS = 557


def main() -> None:
    parser = arguments("index_run", __doc__)
    parser.add_argument("--characters", type=int, default=24_000, help="of the text, from its beginning")
    options = parser.parse_args()
    found = measure(options.model, options.slots, options.characters)
    print(json.dumps(found, indent=2) if options.json else table(found))


def measure(model: str, slots: int, characters: int) -> dict[str, Any]:
    """Index the beginning of the novella in a folder that is thrown away."""
    from localgraphrag import Project

    book = next(corpus("operation_dulce").glob("*.md"))
    text = book.read_text(encoding="utf-8")[:characters]
    with tempfile.TemporaryDirectory() as folder:
        paper = Path(folder) / book.name
        paper.write_text(text, encoding="utf-8")
        begun = time.perf_counter()
        with Project.open(Path(folder) / "project", model=model, slots=slots) as project:
            summary = project.index(paper)
        seconds = time.perf_counter() - begun
    for failure in summary.failures:
        say(f"  failed: {failure.stage} {failure.name}: {failure.reason}")
    return {
        "model": model,
        "characters": len(text),
        "chunks": summary.chunks,
        "seconds": round(seconds, 1),
        "seconds_by_stage": {stage.stage: round(stage.seconds, 1) for stage in summary.stages},
        "entities": summary.entities,
        "relationships": summary.relationships,
        "claims": summary.claims,
        "communities": list(summary.communities),
        "failures": len(summary.failures),
        "share_of_other": round(seconds / OTHER_SECONDS, 2),
    }


def table(found: dict[str, Any]) -> str:
    """The results in Markdown."""
    keys = ["characters", "chunks", "seconds", "entities", "relationships", "claims", "failures"]
    stages = ", ".join(f"{stage} {seconds}" for stage, seconds in found["seconds_by_stage"].items())
    return "\n".join(
        [
            f"| {' | '.join(keys)} |",
            "|" + "---|" * len(keys),
            "| " + " | ".join(f"{found[key]:,}" for key in keys) + " |",
            "",
            f"{found['model']}. Seconds by stage: {stages}. microsoft/graphrag 3.3.0 took {OTHER_SECONDS} s for 24,000 "
            f"characters with qwen2.5-coder-1.5b on two cores; this run took {found['share_of_other']:.0%} of that.",
        ]
    )


if __name__ == "__main__":
    main()
