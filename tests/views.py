"""One view of each kind, of the library's own results; every text in them tries to be more than text."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from localgraphrag.chunks import Chunk
from localgraphrag.communities import Community, Hierarchy
from localgraphrag.documents import Document
from localgraphrag.extract import Entity, Extraction
from localgraphrag.graph import build_graph
from localgraphrag.llm.trace import Choice, Tracer
from localgraphrag.llm.types import Usage
from localgraphrag.notebook.chunk_view import ChunkView
from localgraphrag.notebook.extraction_stepper import ExtractionStepper, ExtractionTrace
from localgraphrag.notebook.map_reduce_view import MapReduceView
from localgraphrag.notebook.packing_view import PackingView
from localgraphrag.packing import PackedContext, Packer
from localgraphrag.search.answer import Answer, Citation, Source
from localgraphrag.summaries import Report

HOSTILE = "</style><script>document.title='ran'</script><img src=x onerror=\"document.title='ran'\">"
TEXT = f"Ines Falk runs the mill {HOSTILE} on the Ness.\nOskar Lind met Ines Falk there; the Ness mill burned."
CHUNK = Chunk("t-1", "d-1", f"Letters {HOSTILE}", 0, 0, len(TEXT), TEXT, 40)
DOCUMENT = Document("d-1", CHUNK.title, TEXT, ("letters.txt",))
WORDS = [b"", b"{", b"}", b'"', b" mill", b" <b>", "é".encode()[:1], "é".encode()[1:], b"Ines", b" Falk"]
"""A vocabulary; token 0 ends a reply."""


class Vocabulary:
    end_tokens = frozenset({0})

    def token_bytes(self, tokens: Any) -> list[bytes]:
        return [WORDS[token] for token in tokens]


def choice(position: int, token: int, likeliest: int | None = None, key: str = "extract t-1 names") -> Choice:
    """A choice of `token`, legal with all higher ones, where the model likes `likeliest` best."""
    logits = np.linspace(1, 0, len(WORDS), dtype=np.float32)
    logits[token] = 5
    logits[token if likeliest is None else likeliest] = 6
    return Choice(key, position, token, logits, np.arange(len(WORDS)) >= token)


def trace() -> ExtractionTrace:
    tracer = Tracer(Vocabulary(), top=3)
    key = "extract t-1 names"
    for told in [
        Choice(key, 0, 1), Choice(key, 1, 3), choice(2, 8), choice(3, 9, likeliest=4), choice(4, 5), choice(5, 5),
        choice(4, 6), choice(5, 7), Choice(key, 6, 3), Choice(key, 7, 2), Choice(key, 8, 0),
        choice(0, 4, key="extract t-1 missed"), choice(1, 0, key="extract t-1 missed"),
    ]:  # fmt: skip
        tracer(told)
    return ExtractionTrace(CHUNK, tracer.turns, EXTRACTION)


EXTRACTION = Extraction(
    "t-1",
    (
        Entity("Ines Falk", "person", f"runs the mill {HOSTILE}", 0, 9),
        Entity("mill", "place", "", 19, 23),
        Entity("Ness mill", f"place {HOSTILE}", "", TEXT.index("Ness mill"), TEXT.index("Ness mill") + 9, 1),
    ),
    (),
    (),
)


def packed() -> tuple[PackedContext, Any, dict[str, Report]]:
    """A community of two parts, the larger of which gives way to its report; not all the rest fits."""
    names = [f"Name{i}" for i in range(12)]
    text = " ".join(names)
    chunk = Chunk("t-2", "d-1", "List", 0, 0, len(text), text, 40)
    entities = tuple(
        Entity(name, "person", f"{name} {HOSTILE} is told of here at length {i}", text.index(name), -1)
        for i, name in enumerate(names)
    )
    graph = build_graph([chunk], {"t-2": Extraction("t-2", entities, (), ())})
    ids = tuple(node.id for node in graph.nodes)
    parts = [Community("c-a", 1, "c-0", (), ids[:7]), Community("c-b", 1, "c-0", (), ids[7:])]
    hierarchy = Hierarchy(((Community("c-0", 0, "", ("c-a", "c-b"), ids),), tuple(parts)))
    report = Report("c-a", f"Seven {HOSTILE}", "Seven people.", 5, "", (), True, "Seven\nSeven people.", ("t-2",))
    packer = Packer(graph, hierarchy, lambda line: len(line.split()))
    return packer.pack("c-0", {"c-a": report}, 40), graph, {"c-a": report}


def answer() -> Answer:
    """Two batches, one point read, one a repeat, one that scored 0."""

    def point(batch: int, position: int, score: int, **more: Any) -> dict[str, Any]:
        said = f"point {batch}.{position} {HOSTILE}"
        return {"batch": batch, "point": position, "score": score, "text": said, "ids": [f"c-{batch}"], **more}

    def mapped(batch: int, score: int, *points: dict[str, Any]) -> dict[str, Any]:
        told = [{"text": p["text"], "score": p["score"], "sources": p["ids"]} for p in points]
        return {"ids": [f"c-{batch}", f"c-{batch}x"], "score": score, "points": told, "error": ""}

    taken, twin, none = point(1, 1, 80, number=1), point(2, 1, 70, reason="repeats point 1"), point(1, 2, 0)
    record = {
        "method": "global", "level": 1, "seed": 0, "model": "scripted",
        "budgets": {"map_budget": 3000, "map_tokens": 400, "reduce_budget": 3000, "answer_tokens": 500},
        "batches": [mapped(1, 80, taken, none), mapped(2, 70, twin), mapped(3, 0)],
        "taken": [taken], "dropped": [twin, {**none, "reason": "scored 0"}],
        "reply": {"paragraphs": [{"heading": "", "text": f"The mill {HOSTILE}", "cites": [1]}], "refused": []},
    }  # fmt: skip
    source = Source("t-1", "d-1", 0, 9)
    citation = Citation(1, "report", "c-1", f"Mill {HOSTILE}", (), (source,))
    text = f"The mill {HOSTILE} [1]"
    return Answer(f"What burned? {HOSTILE}", "global", 1, text, (citation,), Usage(), json.loads(json.dumps(record)))


def views() -> dict[str, Any]:
    context, graph, reports = packed()
    return {
        "chunk": ChunkView.entities(CHUNK, EXTRACTION),
        "stepper": ExtractionStepper(trace()),
        "packing": PackingView(context, graph, reports, title=f"Community {HOSTILE}"),
        "map_reduce": MapReduceView(answer()),
    }
