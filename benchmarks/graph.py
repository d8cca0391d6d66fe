"""Work without a model, by size of the corpus: merging extractions, the Leiden hierarchy, packing report contexts.

    python -m benchmarks.graph [--scale 1 10] [--json]

Scale 1 is the paper's Podcast corpus: 1,669 chunks, 8,564 nodes, 20,691 edges. Scale 100 takes some twenty minutes. The
extractions are made up: planted topics of power-law size, a few entities that are named everywhere, all from one seed.
Each size runs in a process of its own, so that its peak memory is its own. Packing counts four characters as a token:
the time of a model's tokenizer is not in it.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from itertools import combinations, pairwise
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from localgraphrag.chunks import Chunk
    from localgraphrag.extract import Extraction

CHUNKS, NODES, EDGES = 1_669, 8_564, 20_691
CHUNK_CHARACTERS = 2_400  # 600 tokens of English
BORROWED = 7  # entities of a chunk that are at home elsewhere; about 5 more are at home in it
PACK_BUDGET = 7_300  # a context window of 8,000 less instructions and report
SYLLABLES = [c + v for c in "bdfgklmnprstvz" for v in "aeiou"]
FILLER = "the harbour was quiet that year and nobody in the town could say what the winter would bring to it "


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.graph", description=__doc__.partition("\n")[0])
    parser.add_argument("--scale", type=int, nargs="+", default=[1, 10], help="times the paper's Podcast corpus")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a Markdown table")
    parser.add_argument("--one", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(measure(options.one)))
        return
    runs = [run_apart(scale) for scale in sorted(options.scale)]
    growth = [compare(small, large) for small, large in pairwise(runs)]
    print(json.dumps({"runs": runs, "growth": growth}, indent=2) if options.json else table(runs, growth))


def run_apart(scale: int) -> dict[str, Any]:
    print(f"scale {scale} ...", file=sys.stderr)
    command = [sys.executable, "-m", "benchmarks.graph", "--one", str(scale)]
    found: dict[str, Any] = json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout)
    return found


def measure(scale: int) -> dict[str, Any]:
    """Seconds (wall and processor) and peak memory of each stage at one size."""
    from localgraphrag.communities import detect_communities
    from localgraphrag.graph import build_graph

    clock = Clock()
    chunks, extractions = synthetic(scale)
    clock.lap("input")
    graph = build_graph(chunks, extractions)
    clock.lap("merge")
    number_of_chunks = len(chunks)
    del chunks, extractions  # nothing below needs them
    hierarchy = detect_communities(graph)
    clock.lap("communities")
    contexts = pack_all(graph, hierarchy)
    clock.lap("packing")
    stages = [s for s in clock.seconds if s != "input"]
    return {
        "scale": scale,
        "chunks": number_of_chunks,
        "nodes": len(graph.nodes),
        "edges": len(graph.edges),
        "communities": [len(level) for level in hierarchy.levels],
        "contexts": contexts,
        "seconds": clock.seconds,
        "cpu_seconds": clock.cpu,
        "total_seconds": round(sum(clock.seconds[s] for s in stages), 2),
        "total_cpu_seconds": round(sum(clock.cpu[s] for s in stages), 2),
        "peak_mb": clock.peaks,
    }


class Clock:
    """Seconds and peak resident memory, lap by lap."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self.cpu: dict[str, float] = {}
        self.peaks: dict[str, int] = {}
        self._started = time.perf_counter(), time.process_time()

    def lap(self, stage: str) -> None:
        """Note what was spent since the last lap."""
        now = time.perf_counter(), time.process_time()
        self.seconds[stage] = round(now[0] - self._started[0], 2)
        self.cpu[stage] = round(now[1] - self._started[1], 2)
        unit = 1 if sys.platform == "darwin" else 1024  # bytes there, KiB elsewhere
        self.peaks[stage] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit // 1_000_000
        print(f"  {stage}: {self.seconds[stage]} s, peak {self.peaks[stage]} MB", file=sys.stderr)
        self._started = now


def pack_all(graph: Any, hierarchy: Any) -> int:
    """Pack the context of every community, finest first, as if each had a report. Returns how many contexts."""
    from localgraphrag.packing import Packer
    from localgraphrag.summaries import Report

    packer = Packer(graph, hierarchy, lambda text: len(text) // 4)
    text = "Report\n" + FILLER * 15
    reports: dict[str, Report] = {}
    for level in reversed(hierarchy.levels):
        for community in level:
            if community.id not in reports:
                packer.pack(community.id, reports, PACK_BUDGET)
                reports[community.id] = Report(community.id, "Report", "", 5, "", (), True, text, ())
    return len(reports)


def synthetic(scale: int) -> tuple[list[Chunk], dict[str, Extraction]]:
    """Chunks and extractions that merge into exactly `scale` times the paper's nodes and edges."""
    from localgraphrag.chunks import Chunk
    from localgraphrag.extract import Claim, Entity, Extraction, Relationship

    draw = random.Random(scale)
    chunks: list[Chunk] = []
    extractions: dict[str, Extraction] = {}
    for number, (members, pairs) in enumerate(contents(scale, draw)):
        names = [name_of(node) for node in members]
        said = [(name_of(a), name_of(b), f"{name_of(a)} and {name_of(b)} met in {number}") for a, b in pairs]
        text = ". ".join(d for _, _, d in said) + ". " + ", ".join(names) + ". "
        text = (text + FILLER * (CHUNK_CHARACTERS // len(FILLER)))[:CHUNK_CHARACTERS]
        document, ordinal = divmod(number, 20)
        start = ordinal * CHUNK_CHARACTERS * 5 // 6
        chunk = Chunk(f"chunk-{number}", f"doc-{document}", "Title", ordinal, start, start + len(text), text, 600)
        entities = [Entity(n, "person", f"{n} is spoken of in part {number} of it", -1, -1) for n in names]
        claims = [Claim(n, "", "fact", "true", "", "", f"{n} was there on day {number}") for n in names[:2]]
        found = Extraction(chunk.id, tuple(entities), tuple(Relationship(*s) for s in said), tuple(claims))
        chunks.append(chunk)
        extractions[chunk.id] = found
    return chunks, extractions


def contents(scale: int, draw: random.Random) -> Iterator[tuple[list[int], list[tuple[int, int]]]]:
    """The entities of each chunk and the pairs of them that are related, by number."""
    chunks, nodes, edges = CHUNKS * scale, NODES * scale, EDGES * scale
    hubs = draw.sample(range(nodes), nodes // 50)
    seen: set[int] = set()
    topic_end = topic_start = 0
    for chunk in range(chunks):
        if chunk == topic_end:
            topic_start, topic_end = chunk, min(chunks, chunk + min(500, int(5 * draw.paretovariate(1.2))))
        home = range(chunk * nodes // chunks, (chunk + 1) * nodes // chunks)
        low, high = topic_start * nodes // chunks, topic_end * nodes // chunks
        members = dict.fromkeys(home)
        for _ in range(BORROWED):
            if draw.random() < 0.85:
                members.setdefault(low + int((high - low) * draw.random() ** 3))
            else:
                members.setdefault(hubs[int(len(hubs) * draw.random() ** 3)])
        pairs = list(combinations(sorted(members), 2))
        draw.shuffle(pairs)
        due = (chunk + 1) * edges // chunks
        taken = []
        for a, b in pairs:
            if len(seen) >= due:
                break
            seen.add(a * nodes + b)
            taken.append((a, b))
        yield list(members), taken


def name_of(node: int) -> str:
    """A different two-word name for each number."""
    parts = []
    for _ in range(4):
        node, rest = divmod(node, len(SYLLABLES))
        parts.append(SYLLABLES[rest])
    return (parts[0] + parts[1]).capitalize() + " " + (parts[2] + parts[3]).capitalize()


def compare(small: dict[str, Any], large: dict[str, Any]) -> dict[str, Any]:
    """Growth between two sizes: processor seconds and peak memory beside n log n, n being nodes and edges."""
    n, m = (run["nodes"] + run["edges"] for run in (small, large))
    stages = {s: (small["cpu_seconds"][s], large["cpu_seconds"][s]) for s in large["cpu_seconds"] if s != "input"}
    stages["total"] = (small["total_cpu_seconds"], large["total_cpu_seconds"])
    return {
        "from": small["scale"],
        "to": large["scale"],
        "n_log_n": round(m * math.log(m) / (n * math.log(n)), 1),
        "peak_mb": round(max(large["peak_mb"].values()) / max(small["peak_mb"].values()), 1),
        "cpu_seconds": {stage: round(b / max(a, 0.01), 1) for stage, (a, b) in stages.items()},
    }


def table(runs: list[dict[str, Any]], growth: list[dict[str, Any]]) -> str:
    """The results in Markdown."""
    lines = [
        "| scale | chunks | nodes | edges | C0, C1 .. | merge s | Leiden s | packing s | total s (CPU s) | peak MB |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for run in runs:
        seconds = run["seconds"]
        cells = [run["scale"], *(f"{run[k]:,}" for k in ("chunks", "nodes", "edges")), run["communities"]]
        cells += [seconds["merge"], seconds["communities"], seconds["packing"]]
        cells += [f"{run['total_seconds']} ({run['total_cpu_seconds']})", f"{run['peak_mb']['packing']:,}"]
        lines.append("| " + " | ".join(map(str, cells)) + " |")
    for g in growth:
        parts = ", ".join(f"{stage} x {times}" for stage, times in g["cpu_seconds"].items())
        lines.append(
            f"\nFrom {g['from']} to {g['to']}: n log n x {g['n_log_n']}; peak memory x {g['peak_mb']}; "
            f"processor seconds: {parts}."
        )
    if runs[-1]["scale"] < 100:
        lines.append(
            "\n`python -m benchmarks.graph --scale 1 10 100` adds a hundred times the size in some 20 minutes."
        )
    return "\n".join(lines)


if __name__ == "__main__":
    main()
