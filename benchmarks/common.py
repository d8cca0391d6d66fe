"""What the benchmarks share: test data, chunks, and the plain ways to ask a model for everything in one object."""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from pydantic import BaseModel, ValidationError

if TYPE_CHECKING:
    from localgraphrag.chunks import Chunk
    from localgraphrag.llm.types import Completion, Request, Tokenizer

T = TypeVar("T")

DATA = Path(os.environ.get("LOCALGRAPHRAG_TEST_DATA", Path(__file__).parents[2] / "shared" / "data"))
CAP = 1_000  # output tokens of the plain ways

INSTRUCTIONS = """You extract a knowledge graph from a passage. Reply with one JSON object:
{"entities": [{"name": "..", "type": "..", "description": ".."}],
 "relationships": [{"source": "..", "target": "..", "description": ".."}]}
Entities are the persons, organizations, places, events, objects and concepts that the passage names. Each has its name
as it stands in the passage, a type, and a description in one sentence. Relationships are between two of these entities,
by name, with one sentence that says what links them. Use only what the passage says."""


class Entity(BaseModel):
    """A named thing."""

    name: str
    type: Literal["person", "organization", "place", "event", "object", "concept", "other"]
    description: str


class Relationship(BaseModel):
    """What links two entities, which are given by name."""

    source: str
    target: str
    description: str


class Found(BaseModel):
    """Names, types, descriptions and relationships in one object."""

    entities: list[Entity]
    relationships: list[Relationship]


def arguments(name: str, about: str | None) -> argparse.ArgumentParser:
    """A parser with what every benchmark of a model takes."""
    summary = (about or "").partition("\n")[0]
    parser = argparse.ArgumentParser(prog=f"python -m benchmarks.{name}", description=summary)
    parser.add_argument("--model", default="qwen2.5-coder-1.5b", help="a name of the catalogue, or a GGUF file")
    parser.add_argument("--slots", type=int, default=0, help="conversations at once; 0 measures this machine")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a Markdown table")
    return parser


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def corpus(name: str) -> Path:
    """The folder of a data set. Ends the program where it is absent."""
    path = DATA / name
    if not path.exists():
        sys.exit(f"The data set '{name}' is not at {path}. Set LOCALGRAPHRAG_TEST_DATA to the folder that holds it.")
    return path


def sample_chunks(tokenizer: Tokenizer, count: int) -> list[Chunk]:
    """Chunks of 600 tokens, evenly taken from all of the peps."""
    from localgraphrag.chunks import chunk_document
    from localgraphrag.documents import read_documents

    documents = read_documents([corpus("peps")], include=["*.rst"]).documents
    chunks = [c for d in documents for c in chunk_document(d, tokenizer, size=600, overlap=100) if c.tokens >= 500]
    return evenly(chunks, count)


def evenly(items: Sequence[T], count: int) -> list[T]:
    """So many of the items, evenly spread: the same ones every time."""
    count = min(count, len(items))
    return [items[i * len(items) // count] for i in range(count)]


def messages(title: str, text: str) -> list[dict[str, str]]:
    return [{"role": "system", "content": INSTRUCTIONS}, {"role": "user", "content": f"{title}\n\n{text}"}]


def parse(text: str) -> Found | None:
    """The object, or None if the text is not valid under its schema."""
    try:
        return Found.model_validate_json(text)
    except ValidationError:
        return None


# -- the plain ways --------------------------------------------------------------------------------------------------

Ask = Callable[[str, str], str]
"""Title and text to the model's reply."""


@dataclass
class Plain:
    """llama-cpp-python as anyone would use it: one request after another, all cores, greedy."""

    path: Path
    context: int = 4096
    setup_seconds: float = 0.0
    _llama: Any = field(default=None, repr=False)

    def __enter__(self) -> Plain:
        import llama_cpp

        from localgraphrag.llm.machine import usable_cores

        cores = usable_cores()
        threads = {"n_threads": cores, "n_threads_batch": cores}
        self._llama = llama_cpp.Llama(str(self.path), n_ctx=self.context, n_gpu_layers=-1, verbose=False, **threads)
        return self

    def __exit__(self, *_exception: object) -> None:
        self._llama.close()

    def schema(self) -> Ask:
        """(a) `create_chat_completion` with a JSON schema."""
        form = {"type": "json_object", "schema": Found.model_json_schema()}

        def ask(title: str, text: str) -> str:
            reply = self._llama.create_chat_completion(
                messages(title, text), response_format=form, max_tokens=CAP, temperature=0.0
            )
            return str(reply["choices"][0]["message"]["content"])

        return ask

    def outlines(self) -> Ask:
        """(b) one Outlines Generator with a pydantic schema, used again for every text."""
        import outlines

        begun = time.perf_counter()
        # Outlines' default backend wants numba, and without it the reply comes out unconstrained
        generator: Any = outlines.Generator(outlines.from_llamacpp(self._llama), Found, backend="llguidance")
        self.setup_seconds = time.perf_counter() - begun

        def ask(title: str, text: str) -> str:
            return str(generator(outlines.inputs.Chat(messages(title, text)), max_tokens=CAP, temperature=0.0))

        return ask


# -- the engine ------------------------------------------------------------------------------------------------------


@dataclass
class Listening:
    """An engine that keeps every request and its completion."""

    engine: Any
    heard: list[tuple[Request, Completion]] = field(default_factory=list)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.engine, name)

    def run(self, requests: Iterable[Request]) -> Iterator[Completion]:
        """As the engine does."""
        return self.engine.run(map(self._heard, requests))

    def _heard(self, request: Request) -> Request:
        def then(completion: Completion) -> Request | None:
            self.heard.append((request, completion))
            follow = request.then(completion) if request.then else None
            return self._heard(follow) if follow else None

        return replace(request, then=then)

    def invalid(self) -> list[str]:
        """Keys of the requests whose reply is not whole and valid under its type; JSON is read as such as well."""
        from localgraphrag.errors import ModelError
        from localgraphrag.llm.output import check_reply

        bad = []
        for request, completion in self.heard:
            try:
                check_reply(request.output, completion.text)
                if completion.text.startswith(("{", "[")):
                    json.loads(completion.text)
            except (ModelError, ValueError):
                bad.append(request.key)
        return bad
