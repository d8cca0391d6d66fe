"""What an answer claims, and whether its sources say so (paper 5.2; Claimify, arXiv 2502.10855).

Sentence by sentence, with those around it: does it state something that can be checked; whom and what does it mean, or
is that unclear; which simple claims does it make. Each claim is then put to the passages that its paragraph cites.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from localgraphrag.chunks import Chunk
from localgraphrag.evaluate.facts import refused
from localgraphrag.evaluate.near import Near
from localgraphrag.evaluate.records import Row, without_marks
from localgraphrag.evaluate.replies import cap, ended
from localgraphrag.evaluate.statistics import words
from localgraphrag.llm.output import schema
from localgraphrag.llm.types import Completion, Message, Request
from localgraphrag.llm.units import Conversation, Outcome, Unit
from localgraphrag.prompts import Prompts
from localgraphrag.search.passages import chunk_passage
from localgraphrag.sentences import ENDS, sentences, whole

STAGE, SUPPORT_STAGE = "claims", "support"

BEFORE, AFTER = 3, 1  # sentences of context
MOST_CLAIMS = 5
CHARACTERS = 220  # of a sentence put clearly, and of a claim

_VERSION = 2  # since 2, what a cut reply was closed with is no claim
_CLEAR_TOKENS = 110, 4 * CHARACTERS + 20  # in plain letters, and in others, of which a character is four bytes at most
_SPLIT_TOKENS = 400, 1500  # five claims of 220 characters take some 1100 tokens in Hindi

SAME_CLAIM = 0.95
"""Cosine from which two claims of an answer are one, unless they differ in a figure."""

EVIDENCE_TOKENS = 1300
"""Most tokens of cited chunks that a claim is checked against: two of 600, those nearest to its paragraph."""

_NUMBER = re.compile(r"\[(\d+)\]")
_DIGIT = re.compile(r"\d+")


@dataclass(frozen=True)
class Spoken:
    """A sentence of an answer, what stands around it, and the numbers of the citations of its paragraph."""

    question_id: str
    question: str
    condition: str
    number: int
    before: str
    text: str
    after: str
    paragraph: str
    cites: tuple[int, ...]
    chunks: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """What a reader calls it."""
        return f"{self.question_id} {self.condition} sentence {self.number}"


@dataclass(frozen=True)
class Stated:
    """What a sentence states. `checkable`: it states something; `sentence`: that, put clearly, "" if it is unclear."""

    checkable: bool
    sentence: str
    claims: tuple[str, ...]


@dataclass(frozen=True)
class Claim:
    """A claim, and the sentence it was taken from."""

    text: str
    spoken: Spoken


@dataclass(frozen=True)
class Support:
    """Whether passages say what a claim says."""

    supported: bool


def spoken(question: str, answer: Row, chunks: Sequence[str] = ()) -> list[Spoken]:
    """The sentences of an answer; none of a refusal. `chunks`: ids of those whose text may be in it."""
    if refused(answer):
        return []
    found = []
    for paragraph in answer["text"].split("\n\n"):
        cites = tuple(dict.fromkeys(int(number) for number in _NUMBER.findall(paragraph)))
        text = without_marks(paragraph)
        found += [(sentence.text, text, cites) for sentence in sentences(text)]
    said = [text for text, _, _ in found]
    return [
        Spoken(
            str(answer["question_id"]), question, answer["condition"], i + 1, " ".join(said[max(i - BEFORE, 0) : i]),
            text, " ".join(said[i + 1 : i + 1 + AFTER]), paragraph, cites, tuple(chunks),
        )
        for i, (text, paragraph, cites) in enumerate(found)
    ]  # fmt: skip


def claim_units(said: Iterable[Spoken], prompts: Prompts) -> list[Unit[Stated]]:
    """A unit for each sentence, by its name: a conversation of up to three steps."""
    system = prompts.render("evaluate_claims_system")
    clear, split = prompts.render("evaluate_claims_clear"), prompts.render("evaluate_claims_split")
    units = []
    for one in said:
        shown = {"question": one.question, "before": one.before, "sentence": one.text, "after": one.after}
        select = prompts.render("evaluate_claims_select", **shown)
        forms = (_yes_no().pattern, _clear().schema, _claims().schema)
        inputs = (system, select, clear, split, *forms)
        steps = _steps(system, select, clear, split)
        units.append(Unit(STAGE, _VERSION, one.name, inputs, Stated, steps, one.chunks))
    return units


def _steps(system: str, select: str, clear: str, split: str) -> Callable[[], Conversation[Stated]]:
    def ask() -> Conversation[Stated]:
        chosen = yield Request(select, _yes_no(), (Message("system", system),), max_tokens=4)
        if chosen.text == "no":
            return Stated(False, "", ())
        put = yield Request(clear, _clear(), max_tokens=cap(select, *_CLEAR_TOKENS))
        ended(put)
        sentence = json.loads(put.text)["sentence"]
        if sentence is None:
            return Stated(True, "", ())
        listed = yield Request(split, _claims(), max_tokens=cap(select, *_SPLIT_TOKENS))
        claims = (whole(claim, CHARACTERS) for claim in _uncut(listed))
        return Stated(True, whole(sentence, CHARACTERS), tuple(claims))

    return ask


def _uncut(listed: Completion) -> list[str]:
    """The claims of a reply; of one that was cut, without the last, which may be a fragment.

    One that repeated itself was cut back to what it said first, which is kept if it is a sentence. Raises
    ConversationError where none is left.
    """
    claims: list[str] = json.loads(listed.text)["claims"]
    if listed.finish == "cap" or (listed.finish == "repeat" and not claims[-1].endswith(ENDS)):
        del claims[-1]
    if not claims:
        ended(listed)
    return claims


@lru_cache(maxsize=1)
def _yes_no() -> Any:
    from outlines.types import Regex

    return Regex("yes|no")


def _line() -> dict[str, Any]:
    return {"type": "string", "pattern": rf"^[^\[\]\n\t ][^\[\]\n]{{2,{CHARACTERS - 1}}}$"}


@lru_cache(maxsize=1)
def _clear() -> Any:
    return schema({"sentence": {"anyOf": [{"type": "null"}, _line()]}})


@lru_cache(maxsize=1)
def _claims() -> Any:
    return schema({"claims": {"type": "array", "minItems": 1, "maxItems": MOST_CLAIMS, "items": _line()}})


def unique_claims(claims: Iterable[Claim], near: Near) -> tuple[list[Claim], int]:
    """The claims of an answer, each once, by word and by embedding; and how many differ by word alone."""
    by_word = list({_folded(claim.text): claim for claim in reversed(list(claims))}.values())[::-1]
    kept: list[Claim] = []
    for claim in by_word:
        others = [other.text for other in kept if _figures(other.text) == _figures(claim.text)]
        if near.twin(claim.text, others, SAME_CLAIM) is None:
            kept.append(claim)
    return kept, len(by_word)


def _folded(text: str) -> str:
    return " ".join(words(text.casefold()))


def _figures(text: str) -> list[str]:
    return _DIGIT.findall(text)


def evidence(
    said: Spoken, citations: Iterable[Mapping[str, Any]], chunks: Mapping[str, Chunk], near: Near
) -> list[Chunk]:
    """The chunks that a sentence's paragraph cites, nearest first, as many as `EVIDENCE_TOKENS` hold, at least one.

    A cited report stands for the chunks it rests on.
    """
    cited = [c for c in citations if c["number"] in said.cites]
    ids = dict.fromkeys(source["chunk_id"] for c in cited for source in c["sources"])
    known = [chunks[id_] for id_ in ids if id_ in chunks]
    cosines = near.cosines(said.paragraph, [chunk.text for chunk in known]) if len(known) > 1 else [0.0] * len(known)
    ranked = [known[i] for i in sorted(range(len(known)), key=lambda i: -cosines[i])]
    taken, tokens = ranked[:1], sum(chunk.tokens for chunk in ranked[:1])
    for chunk in ranked[1:]:
        if tokens + chunk.tokens > EVIDENCE_TOKENS:
            break
        taken.append(chunk)
        tokens += chunk.tokens
    return taken


def support_unit(name: str, claim: Claim, passages: Sequence[Chunk], prompts: Prompts) -> Unit[Support]:
    """A unit that asks whether passages say what a claim says. Claims on the same passages share what is read."""
    shown = prompts.render("evaluate_support_passages", passages=[chunk_passage(chunk) for chunk in passages])
    prefix = (
        Message("system", prompts.render("evaluate_support_system")),
        Message("user", shown),
        Message("assistant", "I have read the passages."),
    )
    prompt = prompts.render("evaluate_support", claim=claim.text)

    def ask() -> Conversation[Support]:
        reply = yield Request(prompt, _yes_no(), prefix, max_tokens=4)
        return Support(reply.text == "yes")

    inputs = (*(message.content for message in prefix), prompt, _yes_no().pattern)
    seen = tuple(dict.fromkeys((*(chunk.id for chunk in passages), *claim.spoken.chunks)))
    return Unit(SUPPORT_STAGE, 1, name, inputs, Support, ask, seen)


def claims_found(said: Iterable[Spoken], outcomes: Mapping[str, Outcome[Stated]]) -> list[Claim]:
    """All claims of some sentences, in order, repeated ones too."""
    values = ((one, outcomes[one.name].value) for one in said)
    return [Claim(text, one) for one, value in values if value for text in value.claims]
