"""Chunks to entities, relationships and claims, with gleanings (paper 3.1.2).

One conversation per chunk, in steps that a small model can take: names with their types, whether any were missed, which
sentences are claims. Grammars keep every reply inside the text: names are verbatim spans of the chunk, and everything
after speaks only of names listed before.

What a chunk says of its entities and what links them is quoted from it (`quotes.py`), or, with
`descriptions = "written"`, put into words by the model in two steps more.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

from localgraphrag import extract_grammar as grammar
from localgraphrag.chunks import Chunk
from localgraphrag.config import Settings
from localgraphrag.errors import ContextError
from localgraphrag.grounding import Grounding
from localgraphrag.llm.closing import LONGEST_WAY
from localgraphrag.llm.types import Completion, Engine, Message, Request
from localgraphrag.llm.units import Conversation, Unit
from localgraphrag.names import is_name
from localgraphrag.prompts import Prompts
from localgraphrag.quotes import Quote, cut, descriptions, links, quotes
from localgraphrag.sentences import sentences, whole, whole_sentences

VERSION = 4

Status = Literal["true", "false", "suspected"]


@dataclass(frozen=True)
class Entity:
    """A thing a chunk names. `start`, `end`: character span of the first mention within the *chunk's* text, -1 if
    the name is not a verbatim span of it. `gleaning`: 0 for the first pass, n for the n-th gleaning.
    """

    name: str
    type: str
    description: str
    start: int
    end: int
    gleaning: int = 0


@dataclass(frozen=True)
class Relationship:
    """Two entities of the chunk, by name, and what links them."""

    source: str
    target: str
    description: str
    gleaning: int = 0


@dataclass(frozen=True)
class Claim:
    """A statement about an entity that can be checked. Dates are as the text gives them, or empty."""

    subject: str
    object: str  # a name, or empty
    type: str
    status: Status
    start_date: str
    end_date: str
    description: str


@dataclass(frozen=True)
class Extraction:
    """What was found in one chunk. `ungrounded` counts descriptions that the chunk does not bear out, left out."""

    chunk_id: str
    entities: tuple[Entity, ...]
    relationships: tuple[Relationship, ...]
    claims: tuple[Claim, ...]
    ungrounded: int = 0


def extraction_units(chunks: Iterable[Chunk], settings: Settings, prompts: Prompts) -> Iterator[Unit[Extraction]]:
    """A unit of work per chunk, named by the chunk's id.

    Only title and text of a chunk, and the sentences cut at its edges, decide the result, so the same passage in
    another place is the same work.
    """
    guide = _Guide(settings, prompts)
    for chunk in chunks:
        yield Unit(
            stage="extract",
            version=VERSION,
            name=chunk.id,
            inputs=(*guide.inputs, chunk.title, chunk.text, *_edges(chunk)),
            result=Extraction,
            ask=_Asking(guide, chunk),
            chunks=(chunk.id,),
        )


def check_room(chunks: Sequence[Chunk], settings: Settings, prompts: Prompts, engine: Engine) -> None:
    """Raise ContextError unless the longest chunk fits the context with instructions and the most names it may have."""
    if not chunks:
        return
    longest = max(chunks, key=lambda chunk: chunk.tokens)
    request = _Asking(_Guide(settings, prompts), longest).for_names({})
    taken, most = engine.prompt_tokens(request), request.max_tokens + LONGEST_WAY
    if taken + most > engine.context_tokens:
        raise ContextError(
            f"A chunk of {longest.tokens} tokens takes {taken} with the instructions, and the reply up to {most}: "
            f"more than the context of {engine.context_tokens} tokens. Lower `chunk_size` in localgraphrag.toml, raise "
            "`context_window` if the model allows more, or use a model with a longer context. Nothing was done."
        )


def _edges(chunk: Chunk) -> tuple[str, ...]:
    """From where to where a chunk with cut sentences is quoted."""
    if not any(chunk.around):
        return ()
    said = whole_sentences(chunk.text, chunk.around)
    return () if said == sentences(chunk.text) else (str(said[0].start), str(said[-1].end))


class _Guide:
    """What all chunks of a run share: settings, prompts, the worked example."""

    def __init__(self, settings: Settings, prompts: Prompts) -> None:
        self.types = tuple(dict.fromkeys([*settings.entity_types, "other"]))
        self.gleanings, self.claims, self.grounded = settings.max_gleanings, settings.claims, settings.grounded
        self.seed = settings.seed
        self._prompts = prompts
        self.written = settings.descriptions == "written"
        names = ["extract_system", "extract_example", "extract_names"]
        names += ["extract_relationships", "extract_details"] if self.written else []
        names += ["extract_missed", "extract_more"] if self.gleanings else []
        names += ["extract_claims"] if self.claims else []
        options = (*self.types, str(self.gleanings), str(self.claims), str(self.grounded), settings.descriptions)
        self.inputs = (prompts.digest(*names), *options)
        self.example = prompts.render("extract_example")
        self.prefix = self._prefix()

    def ask(self, step: str, **values: Any) -> str:
        """The user's message of a step."""
        return self._prompts.render(f"extract_{step}", types=self.types, kinds=grammar.CLAIM_KINDS, **values)

    def _prefix(self) -> tuple[Message, ...]:
        """The system message, then the worked example as a conversation that has already taken place."""
        messages = [Message("system", self.ask("system"))]
        shown_step = True
        for turn in self.example.split("\n=== ")[1:]:
            role, _, content = turn.partition("\n")
            step, _, title = role.partition(" ")
            if step != "reply":
                shown_step = self._takes(step)
            if not shown_step:
                continue
            if step == "reply":
                messages.append(Message("assistant", content.strip()))
            else:
                shown = {"title": title, "text": content.strip()} if step == "names" else {}
                messages.append(Message("user", self.ask(step, **shown)))
        return tuple(messages)

    def _takes(self, step: str) -> bool:
        """Whether the conversation has this step."""
        return {"claims": self.claims, "relationships": self.written, "details": self.written}.get(step, True)


@dataclass(frozen=True)
class _Asking:
    """The conversation about one chunk."""

    guide: _Guide
    chunk: Chunk

    def __call__(self) -> Conversation[Extraction]:
        guide, chunk = self.guide, self.chunk
        types: dict[str, str] = {}
        gleaned: dict[str, int] = {}
        told: dict[str, str] = {}
        relationships: list[Relationship] = []
        grounding = Grounding(chunk.text, chunk.title, guide.example)
        for gleaning in range(guide.gleanings + 1):
            if gleaning and not (yield from self._missed(types)):
                break
            new = yield from self._names(types)
            if not new:
                break
            if guide.written:
                relationships += yield from self._relationships(list(types), list(new), gleaning, grounding)
                told |= yield from self._details(list(new), grounding)
            types |= new
            gleaned |= dict.fromkeys(new, gleaning)
        found = quotes(chunk.text, list(types), chunk.around)
        if not guide.written:
            told = descriptions(found)
            for source, target, text in links(found):
                relationships.append(Relationship(source, target, text, max(gleaned[source], gleaned[target])))
        claims: tuple[Claim, ...] = ()
        if guide.claims and found:
            claims = yield from self._claims(found)
        entities = (
            Entity(name, kind, told.get(name, ""), *grammar.find_span(chunk.text, name), gleaned[name])
            for name, kind in types.items()
        )
        return Extraction(chunk.id, tuple(entities), tuple(relationships), claims, grounding.refused)

    def _request(self, step: str, output: Any, tokens: int, *, first: bool = False, **more: Any) -> Request:
        values = {"title": self.chunk.title, "text": self.chunk.text} if first else {}
        return Request(
            prompt=self.guide.ask(step, **values),
            output=output,
            prefix=self.guide.prefix if first else (),
            max_tokens=tokens,
            seed=self.guide.seed,
            key=f"extract {self.chunk.id} {step}",
            **more,
        )

    def for_names(self, known: Mapping[str, str]) -> Request:
        """Asks for names, or for more than those known."""
        text = self.chunk.text if self.guide.grounded else None
        # a gleaning adds the few that were missed; the first pass is open
        most = grammar.MOST_GLEANED if known else grammar.MOST_NAMES
        return self._request(
            "more" if known else "names",
            grammar.names(text, self.guide.types, most),
            tokens=most * 12,
            first=not known,
            repeats=partial(grammar.repeats_name, known=frozenset(known)),
        )

    def _names(self, known: Mapping[str, str]) -> Conversation[dict[str, str]]:
        """Names not yet listed and their types, in the model's order."""
        reply: Completion = yield self.for_names(known)
        seen = {name.casefold() for name in known}
        found = grammar.read(reply.text, "entities").items()
        new = {name: kind for name, kind in found if name.casefold() not in seen}
        return {name: kind for name, kind in new.items() if is_name(name, self.chunk.text)}

    def _relationships(
        self, known: Sequence[str], new: Sequence[str], gleaning: int, grounding: Grounding
    ) -> Conversation[list[Relationship]]:
        """Relationships between names that stand near each other, one of them new."""
        pairs = grammar.pairs_near(self.chunk.text, known, new)
        if not pairs:
            return []
        most = min(grammar.MOST_RELATIONSHIPS, len(new) + 2, len(pairs))
        reply: Completion = yield self._request(
            "relationships", grammar.relationships(pairs, most), tokens=most * 50, repeats=grammar.repeats_pair
        )
        found: dict[frozenset[str], Relationship] = {}
        for source, target, text in grammar.read(reply.text, "relationships"):
            description = whole(text, grammar.TEXT_CHARACTERS)
            if not grammar.stray_link(source, target, text) and grounding.holds(description, source, target):
                found.setdefault(frozenset((source, target)), Relationship(source, target, description, gleaning))
        return list(found.values())

    def _details(self, names: Sequence[str], grounding: Grounding) -> Conversation[dict[str, str]]:
        """A description of each name, where the text bears it out."""
        reply: Completion = yield self._request("details", grammar.details(names), tokens=len(names) * 45 + 20)
        told = ((name, whole(text, grammar.TEXT_CHARACTERS)) for name, text in grammar.read(reply.text, "details"))
        return {name: text for name, text in told if grounding.holds(text, name)}

    def _missed(self, names: Collection[str]) -> Conversation[bool]:
        """Whether the model thinks that entities were missed (paper 3.1.2: a forced yes or no)."""
        if len(names) >= grammar.MOST_NAMES:
            return False
        reply: Completion = yield self._request("missed", grammar.yes_or_no(), tokens=4)
        return reply.text == "yes"

    def _claims(self, found: Sequence[Quote]) -> Conversation[tuple[Claim, ...]]:
        """Which sentences are claims, told by their first words."""
        openings = grammar.openings(found)
        reply: Completion = yield self._request(
            "claims",
            grammar.claims(list(openings.items())),
            tokens=grammar.MOST_CLAIMS * 50,
            repeats=grammar.repeats_claim,
        )
        claims: dict[str, Claim] = {}
        for opening, subject, kind, status, start, end in grammar.read(reply.text, "claims"):
            quote = openings[opening]
            other = next((name for name in quote.names if name != subject), "")
            text = cut(quote, (subject, other))
            claims.setdefault(opening, Claim(subject, other, kind, status, start, end, text))
        return tuple(claims.values())
