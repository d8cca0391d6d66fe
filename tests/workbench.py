"""A corpus, and a model that is a function: for tests of everything that runs the whole pipeline.

The model finds the capitalized words of a chunk and says the least that a grammar allows. Everything else, extraction
with its conversations too, is the package's own.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from localgraphrag import schema
from localgraphrag.embed import HashEmbedder
from localgraphrag.llm.scripted import ScriptedEngine
from localgraphrag.llm.types import Message, Request
from localgraphrag.project import Project
from localgraphrag.store import Store

NAMES = [
    "Ada", "Byron", "Clara", "Dickens", "Emma", "Faraday", "Gauss", "Hamilton", "Ibsen", "Joule", "Kepler", "Lovelace",
    "Maxwell", "Newton", "Ohm", "Pascal", "Quetelet", "Ritter", "Somerville", "Tesla", "Ulugh", "Volta", "Watt",
]  # fmt: skip

_NAME = re.compile(rf"\b(?:{'|'.join(NAMES)})\b|(?<=[a-z] )[A-Z][a-z]{{3,}}\b")
_LITERAL = re.compile(r'"(?:[^"\\]|\\.)*"')

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
    """The names above, and of real text what has a capital within a sentence: the first eight."""
    return list(dict.fromkeys(_NAME.findall(text)))[:8]


def reply(messages: tuple[Message, ...], request: Request) -> str:
    """What the model says: the names that it reads, and the least that the output type allows."""
    if request.key.startswith("extract "):
        return extracted(request.key.split()[-1], messages, request.output)
    names = next((found for message in reversed(messages) if (found := names_in(message.content))), [])
    return compact(least(json.loads(request.output.schema), " ".join(names[:3])))


def extracted(step: str, messages: tuple[Message, ...], declared: Any) -> str:
    """The reply to a step of an extraction. The last of several names is left to a gleaning."""
    at = max(i for i, message in enumerate(messages) if message.role == "user" and "Passage:" in message.content)
    listed = "".join(message.content for message in messages[at:] if message.role == "assistant")
    left = [name for name in names_in(messages[at].content.split("Passage:", 1)[1]) if f'"{name}":' not in listed]
    if step == "missed":
        return "yes" if left else "no"
    if step in ("names", "more"):
        found = left if step == "more" or len(left) < 3 else left[:-1]
        return compact({"entities": dict.fromkeys(found, "person")})
    # the other steps point at what is there: here, at what the grammar offers first
    (offers,) = re.findall(r"^(?:item|d0): (.*)", declared.definition, re.MULTILINE)
    head, first, _, second, *_ = [json.loads(literal) for literal in _LITERAL.findall(offers)] + [""] * 2
    if step == "claims":
        return f'{{"claims":[[{first},{second},"event","true","",""]]}}'
    if step == "details":
        return f'{{"details":[[{first},"Wrote of the work."]]}}'
    target = json.loads(head + '"]')[1]
    return f'{{"relationships":[{head}wrote to {target}."]]}}'


def stopping(step: str = "", after: int = 0) -> Any:
    """A model that is interrupted when it has been asked so many things, of one step or of all."""
    asked = []

    def answer(messages: tuple[Message, ...], request: Request) -> str:
        asked.extend([request] * request.key.startswith(step))
        if len(asked) > after:
            raise KeyboardInterrupt
        return reply(messages, request)

    return answer


def compact(value: Any) -> str:
    """JSON as grammars have it: no white space."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


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
