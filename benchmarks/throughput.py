"""Seconds per chunk of extraction: two plain ways, this engine, and the floor that this machine sets.

    python -m benchmarks.throughput [--chunks 20] [--baseline-chunks 5] [--model NAME] [--json]

Chunks of 600 tokens, evenly taken from `peps` (LOCALGRAPHRAG_TEST_DATA). One run, one machine, one model:

(a) `create_chat_completion` with a JSON schema, and (b) a reused Outlines Generator with a pydantic schema
    (llguidance), are asked for names, types, descriptions and relationships in one object of at most 1,000 tokens,
    greedily, with all cores, on a few of the chunks. Loading and the building of (b)'s generator are not in their
    seconds.
(c) is this engine on all chunks: names, types, descriptions and relationships, as the settings say by default:
    descriptions and relationships are sentences of the chunk, which the engine quotes and the model does not write.
    `--descriptions written` has the model write them, as (a) and (b) do; `--written` measures that as well. No
    gleanings and no claims, which (a) and (b) have not either.

`ratio` is the seconds per chunk of the better of (a) and (b), valid or not, over those of (c).

The floor of (c) is what its tokens must cost at rates measured on the same context, before and after its run:

    floor = (read + forced) / read_rate + sampled / write_rate

`read` are the tokens of prompts that had to be read (shared instructions once), `forced` those of the replies that
the grammar dictates, which could be read like a prompt, and `sampled` the rest of the replies. `read_rate` is that of
one prompt of a chunk, in batches; a row of a step costs more where the step has few rows, so

    write_rate = sum(n[r] * r) / sum(n[r] * seconds[r])

with n[r] the number of (c)'s steps in which r conversations were written, and seconds[r] measured with a row of each
behind a chunk's prompt, between the numbers measured by straight lines. `share_of_floor` = floor / seconds of (c). The
floor is that of an engine that writes a token of a conversation at a time; guessed tokens can get below it.
`share_of_full_floor` is stricter: its write rate is that of a step with every slot in use, so that idle slots at the
end count against the engine. `share_of_bare_floor` is the strictest, and lets forced tokens cost nothing:

    bare floor = read / read_rate + sampled / write_rate with every slot in use
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.common import Ask, Listening, Plain, arguments, evenly, parse, sample_chunks, say
from localgraphrag.llm.drafts import rows_each

if TYPE_CHECKING:
    from localgraphrag.chunks import Chunk
    from localgraphrag.config import Settings
    from localgraphrag.llm.llamacpp import LlamaCppEngine
    from localgraphrag.llm.streams import Row

STEPS = 3  # timed steps of each number of rows


def main() -> None:
    parser = arguments("throughput", __doc__)
    parser.add_argument("--chunks", type=int, default=20, help="chunks for the engine")
    parser.add_argument("--baseline-chunks", type=int, default=5, help="chunks for (a) and (b); 0 leaves them out")
    parser.add_argument("--descriptions", choices=["quoted", "written"], default="quoted", help="of the engine")
    parser.add_argument("--written", action="store_true", help="the engine a second time, with descriptions written")
    options = parser.parse_args()
    ways = [options.descriptions, *(["written"] if options.written and options.descriptions != "written" else [])]
    found = measure(options.model, options.chunks, options.baseline_chunks, options.slots, ways)
    print(json.dumps(found, indent=2) if options.json else table(found))


def measure(model: str, chunks: int, baseline: int, slots: int, ways: Sequence[str]) -> dict[str, Any]:
    """Everything of one run. `ways` are how entities are described: the first is that of (c)."""
    from localgraphrag.config import Settings
    from localgraphrag.llm import load_engine
    from localgraphrag.llm.catalog import resolve_model

    settings = Settings(model=model, slots=slots, max_gleanings=0, claims=False, descriptions=ways[0])
    engine: Any = load_engine(settings)
    _ = engine.model.matcher_tokenizer  # part of loading, which is not timed
    sample = sample_chunks(engine.tokenizer, chunks)
    found = {"model": model, "slots": engine._streams.slots, "threads": engine.threads}
    ours = extract(engine, sample, settings)
    others = [extract(engine, sample, settings.model_copy(update={"descriptions": way})) for way in ways[1:]]
    count = engine.tokenizer.count
    few = evenly(sample, baseline) if baseline else []
    with Plain(resolve_model(model).path) as plain:
        ways = {"a": plain.schema, "b": plain.outlines}
        plains = {name: one_by_one(name, make(), few, count) for name, make in ways.items()} if few else {}
        if plains:
            plains["b"]["setup_seconds"] = round(plain.setup_seconds, 1)
    engine.close()
    best = min((way["seconds_per_chunk"] for way in plains.values()), default=None)
    for measured in (ours, *others):
        measured["ratio"] = round(best / measured["c"]["seconds_per_chunk"], 2) if best else None
    return found | plains | ours | ({"written": others[0]} if others else {})


def one_by_one(name: str, ask: Ask, chunks: Sequence[Chunk], count: Any) -> dict[str, Any]:
    """Seconds, validity and tokens of a plain way."""
    seconds, valid, written, entities = 0.0, 0, 0, 0
    for number, chunk in enumerate(chunks, 1):
        begun = time.perf_counter()
        reply = ask(chunk.title, chunk.text)
        taken = time.perf_counter() - begun
        seconds, written = seconds + taken, written + count(reply)
        object_found = parse(reply)
        valid += object_found is not None
        entities += len(object_found.entities) if object_found else 0
        say(f"  ({name}) {number} of {len(chunks)}: {taken:.0f} s, {'valid' if object_found else 'not valid'}")
    return {
        "chunks": len(chunks),
        "seconds_per_chunk": round(seconds / len(chunks), 2),
        "chunks_per_minute": round(60 * len(chunks) / seconds, 2),
        "valid_share": round(valid / len(chunks), 3),
        "output_tokens_per_chunk": round(written / len(chunks), 1),
        "entities_per_chunk": round(entities / len(chunks), 1),
    }


# -- the engine and its floor ----------------------------------------------------------------------------------------


@dataclass
class Steps:
    """What an engine's steps were: conversations of those that write, and seconds of either kind."""

    writing: Counter[int] = field(default_factory=Counter)
    seconds: Counter[str] = field(default_factory=Counter)

    def watch(self, engine: LlamaCppEngine) -> None:
        """Note every step from now on."""
        decode = engine._streams.decode

        def noted(rows: Sequence[Row]) -> None:
            begun = time.perf_counter()
            decode(rows)
            conversations = len({stream for _, _, stream, _ in rows})
            # prompts are read one at a time, in more rows than a conversation is written in
            kind = "writing" if conversations > 1 or len(rows) <= rows_each(1) else "reading"
            self.seconds[kind] += time.perf_counter() - begun
            if kind == "writing":
                self.writing[conversations] += 1

        engine._streams.decode = noted

    def forget(self, engine: LlamaCppEngine) -> None:
        """Note nothing more."""
        del engine._streams.decode


def extract(engine: LlamaCppEngine, chunks: Sequence[Chunk], settings: Settings) -> dict[str, Any]:
    """The engine's figures, the rates, and the floor."""
    from localgraphrag.extract import extraction_units
    from localgraphrag.llm.types import Usage
    from localgraphrag.llm.units import EngineRunner, run_all
    from localgraphrag.prompts import Prompts

    units = list(extraction_units(chunks, settings, Prompts(None)))
    prompt = next(units[0].ask())
    before = rates(engine, prompt)
    listening, steps = Listening(engine), Steps()
    steps.watch(engine)
    begun = time.perf_counter()
    outcomes = run_all(EngineRunner(listening), units)
    seconds = time.perf_counter() - begun
    steps.forget(engine)
    after = rates(engine, prompt)
    usage = sum((outcome.usage for outcome in outcomes.values()), Usage())
    bad = {key.split()[1] for key in listening.invalid()} | {n for n, o in outcomes.items() if not o.ok}
    values = [outcome.value for outcome in outcomes.values() if outcome.value]
    n = len(chunks)
    own = {
        "chunks": n,
        "seconds_per_chunk": round(seconds / n, 2),
        "chunks_per_minute": round(60 * n / seconds, 2),
        "valid_share": round(1 - len(bad) / n, 3),
        "calls_per_chunk": round(usage.calls / n, 2),
        "read_tokens_per_chunk": round(usage.read_tokens / n, 1),
        "output_tokens_per_chunk": round(usage.output_tokens / n, 1),
        "forced_tokens_per_chunk": round(usage.forced_tokens / n, 1),
        "entities_per_chunk": round(sum(len(v.entities) for v in values) / n, 1),
        "relationships_per_chunk": round(sum(len(v.relationships) for v in values) / n, 1),
        "seconds": {kind: round(taken, 1) for kind, taken in steps.seconds.items()} | {"all": round(seconds, 1)},
        "descriptions": settings.descriptions,
    }
    return {"c": own} | floor(usage, seconds, steps.writing, [before, after], engine._streams.slots)


@dataclass(frozen=True)
class Rates:
    """Tokens read per second, and seconds of a step by its rows."""

    read: float
    steps: dict[int, float]


def rates(engine: LlamaCppEngine, request: Any) -> Rates:
    """Time one prompt, in batches, then steps of several numbers of rows behind as many copies of it."""
    from localgraphrag.llm.types import Message

    streams = engine._streams
    segments = engine.model.chat_segments([*request.prefix, Message("user", request.prompt)])
    tokens = [token for segment in segments for token in segment]
    streams.divide(len(tokens) + STEPS + 1)
    streams.cut(0, 0)
    begun = time.perf_counter()
    for at in range(0, len(tokens), engine.batch):
        part = tokens[at : at + engine.batch]
        streams.decode([(token, at + i, 0, at + i + 1 == len(tokens)) for i, token in enumerate(part)])
    read = len(tokens) / (time.perf_counter() - begun)
    for stream in range(1, streams.slots):
        streams.copy(0, stream)
    counts = sorted({1, 2, *range(4, streams.slots, 4), streams.slots} & set(range(1, streams.slots + 1)))
    found = {rows: _step_seconds(streams, tokens[-1], len(tokens), rows) for rows in counts}
    for stream in range(streams.slots):
        streams.cut(stream, 0)
    return Rates(read, found)


def _step_seconds(streams: Any, token: int, start: int, rows: int) -> float:
    """The median of some steps after one that is not timed."""
    taken = []
    for step in range(STEPS + 1):
        begun = time.perf_counter()
        streams.decode([(token, start + step, stream, True) for stream in range(rows)])
        taken.append(time.perf_counter() - begun)
    for stream in range(rows):
        streams.cut(stream, start)
    return float(np.median(taken[1:]))


def floor(usage: Any, seconds: float, writing: Counter[int], measured: Sequence[Rates], slots: int) -> dict[str, Any]:
    """The floor and the share of it that was reached; see the head of this file."""
    read_rate = float(np.mean([m.read for m in measured]))
    counts = list(measured[0].steps)
    step = [float(np.mean([m.steps[rows] for m in measured])) for rows in counts]
    steps = {rows: float(np.interp(rows, counts, step)) for rows in writing}
    rows_written = sum(rows * n for rows, n in writing.items())
    write_rate = rows_written / max(sum(n * steps[rows] for rows, n in writing.items()), 1e-9)
    full_rate = slots / step[counts.index(slots)]
    reading = (usage.read_tokens + usage.forced_tokens) / read_rate
    sampled = usage.output_tokens - usage.forced_tokens
    lowest, full = reading + sampled / max(write_rate, 1e-9), reading + sampled / full_rate
    bare = usage.read_tokens / read_rate + sampled / full_rate
    return {
        "rates": {
            "read_tokens_per_second": round(read_rate, 1),
            "write_tokens_per_second": round(write_rate, 1),
            "write_tokens_per_second_all_slots": round(full_rate, 1),
            "milliseconds_per_step": {str(rows): round(s * 1000, 1) for rows, s in zip(counts, step, strict=True)},
        },
        "steps_by_conversations": {str(rows): n for rows, n in sorted(writing.items())},
        "floor_seconds": round(lowest, 1),
        "share_of_floor": round(lowest / seconds, 3),
        "share_of_full_floor": round(full / seconds, 3),
        "share_of_bare_floor": round(bare / seconds, 3),
    }


def table(found: dict[str, Any]) -> str:
    """The results in Markdown."""
    engine = f"this engine, {found['slots']} at once, descriptions"
    rows = {
        "(a) `create_chat_completion`, JSON schema": found.get("a"),
        "(b) reused Outlines Generator, pydantic": found.get("b"),
        f"(c) {engine} {found['c']['descriptions']}": found["c"],
        f"{engine} written": found.get("written", {}).get("c"),
    }
    lines = [
        "| extraction by | chunks | seconds a chunk | chunks a minute | valid | tokens written a chunk "
        "| entities a chunk |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, way in rows.items():
        if way:
            cells = [name, way["chunks"], way["seconds_per_chunk"], way["chunks_per_minute"]]
            cells += [f"{way['valid_share']:.0%}", way["output_tokens_per_chunk"], way["entities_per_chunk"]]
            lines.append("| " + " | ".join(map(str, cells)) + " |")
    lines += ["", f"{found['model']}. {_compared(found)} (c) quotes descriptions and relationships from the chunk."]
    if found["c"]["descriptions"] == "written":
        lines[-1] = f"{found['model']}. {_compared(found)}"
    if "written" in found:
        lines.append(
            f"\nWith descriptions that the model writes, as (a) and (b) write them: {_compared(found['written'])}"
        )
    return "\n".join(lines)


def _compared(found: dict[str, Any]) -> str:
    """Ratio and floors in words."""
    rate, times = found["rates"], found["ratio"]
    ratio = f"The better of (a) and (b) takes {times} times as long as this engine. " if times else ""
    return (
        f"{ratio}This machine reads {rate['read_tokens_per_second']} tokens/s and writes "
        f"{rate['write_tokens_per_second']} at the rows in use, {rate['write_tokens_per_second_all_slots']} with all "
        f"slots. Shares of the floor: {found['share_of_floor']:.0%} (prompt and forced tokens at the reading rate, "
        f"sampled ones at that of the rows in use); {found['share_of_bare_floor']:.0%} (prompt tokens at the reading "
        "rate, sampled ones at that of all slots, forced ones for nothing)."
    )


if __name__ == "__main__":
    main()
