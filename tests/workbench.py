"""A corpus, and a model that is a function: for tests of everything that runs the whole pipeline.

Extraction has its own tests. Here one call finds the capitalized words of a chunk, and everything after it is the
package's own.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

from localgraphrag import schema
from localgraphrag.chunks import Chunk
from localgraphrag.config import Settings
from localgraphrag.embed import HashEmbedder
from localgraphrag.extract import Claim, Entity, Extraction, Relationship
from localgraphrag.llm import output
from localgraphrag.llm.scripted import ScriptedEngine
from localgraphrag.llm.types import Message, Request
from localgraphrag.llm.units import Conversation, Unit
from localgraphrag.project import Project
from localgraphrag.store import Store

NAMES = [
    "Ada", "Byron", "Clara", "Dickens", "Emma", "Faraday", "Gauss", "Hamilton", "Ibsen", "Joule", "Kepler", "Lovelace",
    "Maxwell", "Newton", "Ohm", "Pascal", "Quetelet", "Ritter", "Somerville", "Tesla", "Ulugh", "Volta", "Watt",
]  # fmt: skip

SETTINGS: dict[str, Any] = {
    "chunk_size": 40, "chunk_overlap": 8, "max_community_size": 4, "min_report_tokens": 20, "report_tokens": 100,
    "context_window": 2000, "map_budget": 300, "reduce_budget": 300, "map_tokens": 60, "answer_tokens": 60,
}  # fmt: skip


def sentence(i: int) -> str:
    a, b, c = (NAMES[(i * k + k - 1) % len(NAMES)] for k in (1, 5, 7))
    return f"In the year {1800 + i} {a} wrote to {b} of the work of {c}."


def write_corpus(folder: Path, documents: int = 4, sentences: int = 5) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for d in range(documents):
        text = " ".join(sentence(d * sentences + i) for i in range(sentences))
        (folder / f"letter{d:02}.txt").write_text(text, encoding="utf-8")
    return folder


def names_in(text: str) -> list[str]:
    return [name for name in dict.fromkeys(re.findall(r"\b[A-Z][a-z]+\b", text)) if name in NAMES]


def extraction_units(chunks: Iterable[Chunk], settings: Settings, _prompts: Any) -> Iterator[Unit[Extraction]]:
    for chunk in chunks:
        yield _unit(chunk, settings)


def _unit(chunk: Chunk, settings: Settings) -> Unit[Extraction]:
    def ask() -> Conversation[Extraction]:
        names = {"type": "array", "maxItems": 20, "items": {"type": "string", "maxLength": 40}}
        first = yield Request(f"{chunk.title}\n\n{chunk.text}", output.schema({"entities": names}), max_tokens=200)
        second = yield Request("Any more?", output.schema({"yes": {"type": "boolean"}}), max_tokens=10)
        assert json.loads(second.text) == {"yes": False}
        found = json.loads(first.text)["entities"]
        entities = tuple(
            Entity(n, "person", f"{n} is named in “{chunk.text[:30]}”", chunk.text.find(n), chunk.text.find(n) + len(n))
            for n in found
        )
        links = tuple(Relationship(a, b, f"{a} and {b} wrote letters") for a, b in pairwise(found))
        claims = tuple(Claim(n, "", "letter", "true", "", "", f"{n} wrote") for n in found[:1])
        return Extraction(chunk.id, entities, links, claims)

    inputs = (chunk.title, chunk.text, str(settings.max_gleanings))
    return Unit("extract", 1, chunk.id, inputs, Extraction, ask, (chunk.id,))


def reply(messages: tuple[Message, ...], request: Request) -> str:
    """What the model says: capitalized words where names are asked for, else the least that the schema allows."""
    declared = json.loads(request.output.schema)
    if "entities" in declared.get("properties", ()):
        return json.dumps({"entities": names_in(request.prompt)}, separators=(",", ":"))
    names = next((found for message in reversed(messages) if (found := names_in(message.content))), [])
    said = least(declared, " ".join(names[:3]))
    return json.dumps(said, ensure_ascii=False, separators=(",", ":"))


def least(declared: dict[str, Any], words: str) -> Any:
    """The least value of a JSON schema: last of alternatives, first of enums, short lists, numbers in the middle."""
    if "anyOf" in declared:
        return least(declared["anyOf"][-1], words)
    if "enum" in declared:
        return declared["enum"][0]
    kind = declared["type"]
    if kind == "object":
        return {name: least(inner, words) for name, inner in declared["properties"].items()}
    if kind == "array":
        length = max(declared.get("minItems", 0), min(1, declared.get("maxItems", 1)))
        items = declared.get("prefixItems") or [declared["items"]] * length
        return [least(item, words) for item in items]
    if kind == "integer":
        return (declared.get("minimum", 0) + declared.get("maximum", 10)) // 2
    if kind == "boolean":
        return False
    text = (words or "Nothing").ljust(declared.get("minLength", 0), ".")
    return text[: declared.get("maxLength", len(text))]


def open_project(folder: Path, answer: Any = reply, name: str = "workbench", **settings: Any) -> Project:
    engine = ScriptedEngine(answer, name)
    return Project.open(folder, engine=engine, embedder=HashEmbedder(16), **(SETTINGS | settings))


def tables_of(path: Path) -> dict[str, list[tuple[Any, ...]]]:
    """Every row of every table but the ledger's, in the order of its columns.

    Without work that is kept though the index does not rest on it, which is there to be found and seen by nobody.
    """
    with Store(path) as store:
        idle = {key for (key,) in store.rows("SELECT key FROM units WHERE idle")}
        names = [n for (n,) in store.rows("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name")]
        return {
            name: sorted((row for row in store.rows(f"SELECT * FROM {name}") if row[0] not in idle), key=repr)
            for name in names
            if name not in schema.LEDGER
        }
