"""What a model may reply to a search prompt, and how its answer becomes text with marks that hold.

Citations are labels that the grammar lists, and the words themselves cannot contain square brackets; so every mark
`[n]` in a finished text was put there by `render` and points to something the model was shown.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from itertools import pairwise
from typing import Any, TypeVar

from localgraphrag.attribution import borne_out, is_name, supports
from localgraphrag.grounding import Grounding
from localgraphrag.llm.output import object_schema, schema
from localgraphrag.llm.types import Completion, Request
from localgraphrag.llm.units import Conversation, Unit
from localgraphrag.search.answer import Citation, Source
from localgraphrag.search.passages import Passage
from localgraphrag.search.sources import Provenance
from localgraphrag.sentences import fold, has_end, is_statement, sentences, whole

T = TypeVar("T")

VERSION = 6
"""Of the code behind a reply. Raise it when the same words would become another result."""

MAX_POINTS = 5
MAX_QUOTED_POINTS = 8  # a quoted point costs the model little
POINT_CHARACTERS, PARAGRAPH_CHARACTERS, HEADING_CHARACTERS = 300, 500, 70
MAX_PARAGRAPHS = 6
APART = "* * *"
LEAST_BEGUN = 20  # characters by which a sentence is known
SAME = 92  # of 100; above it two texts say the same in other punctuation or word endings


@dataclass(frozen=True)
class Point:
    """One thing that a batch contributes. `sources`: labels of the batch's passages, from 1; `score` 0-100."""

    text: str
    score: int
    sources: tuple[int, ...]


@dataclass(frozen=True)
class Mapped:
    """A batch's reply. `score` 0-100: how much the batch helps, the paper's helpfulness."""

    score: int
    points: tuple[Point, ...]


@dataclass(frozen=True)
class Paragraph:
    """A stretch of the answer and the labels, from 1, of the points or passages it rests on."""

    text: str
    cites: tuple[int, ...]
    heading: str = ""


@dataclass(frozen=True)
class Written:
    """A written answer. `refused`: sentences that what was shown does not bear out, left out."""

    paragraphs: tuple[Paragraph, ...]
    refused: tuple[Paragraph, ...] = ()


def _words(longest: int) -> dict[str, Any]:
    """A line of text without square brackets, which are kept for marks."""
    return {"type": "string", "pattern": rf"^[^\[\] \n\t][^\[\]\n]{{0,{longest - 1}}}$"}


def _labels(count: int, most: int) -> dict[str, Any]:
    return {"type": "array", "minItems": 1, "maxItems": most, "items": {"enum": list(range(1, count + 1))}}


@lru_cache(maxsize=512)  # Outlines checks every schema it is given, which takes longer than counting tokens
def map_output(passages: int) -> Any:
    """Outlines type of a map reply over so many passages: either score 0 and no point, or both."""
    from outlines.types import JsonSchema

    score = {"type": "integer", "minimum": 1, "maximum": 100}
    # a point on many passages at once is a list of their titles
    point = object_schema({"sources": _labels(passages, 2), "text": _words(POINT_CHARACTERS), "score": score})
    points = {"type": "array", "minItems": 1, "maxItems": MAX_POINTS, "items": point}
    useless = object_schema({"score": {"const": 0}, "points": {"type": "array", "maxItems": 0}})
    return JsonSchema({"anyOf": [useless, object_schema({"score": score, "points": points})]})


@lru_cache(maxsize=512)
def answer_output(labels: int, *, may_be_empty: bool) -> Any:
    """Outlines type of an answer citing labels 1 to `labels`; empty means that the passages hold no answer."""
    paragraph = object_schema({"cites": _labels(labels, 4), "text": _words(PARAGRAPH_CHARACTERS)})
    least = 0 if may_be_empty else 1
    return schema({"answer": {"type": "array", "minItems": least, "maxItems": MAX_PARAGRAPHS, "items": paragraph}})


def statements(passage: Passage) -> list[str]:
    """What a passage says that can be quoted: the lines of a report's findings, or a chunk's sentences."""
    return [shortened(text) for text in dict.fromkeys(passage.said) if is_statement(text)]


def listed(batch: Sequence[Passage]) -> list[list[str]]:
    """The statements of each passage of a batch; all that they say, if none of it is a statement."""
    said = [statements(passage) for passage in batch]
    return said if any(said) else [list(map(shortened, dict.fromkeys(passage.said))) for passage in batch]


def shortened(text: str) -> str:
    """A statement as it is listed: cut at a word, if there are spaces, where it is longer than a point may be."""
    if len(text) <= POINT_CHARACTERS:
        return text
    end = text.rfind(" ", 0, POINT_CHARACTERS)
    return f"{text[: end if end > 0 else POINT_CHARACTERS]} …"


def quoted_map_output(said: Sequence[str]) -> Any:
    """Outlines type of a map reply that chooses among statements."""
    score = {"type": "integer", "minimum": 1, "maximum": 100}
    most = min(len(said), MAX_QUOTED_POINTS)
    point = object_schema({"sentence": {"enum": list(said)}, "score": score}) if said else {}
    return schema({"points": {"type": "array", "maxItems": most, "items": point}})


def read_quoted_map(text: str, said: Sequence[Sequence[str]]) -> Mapped:
    """The reply to a map prompt that chooses among statements; `said`: those of each passage, which is its source.

    >>> read_quoted_map('{"points":[{"sentence":"It floods.","score":90}]}', [["It rains."], ["It floods."]])
    Mapped(score=90, points=(Point(text='It floods.', score=90, sources=(2,)),))
    """
    found: dict[str, Point] = {}
    for point in json.loads(text)["points"]:
        sources = tuple(label for label, of_one in enumerate(said, 1) if point["sentence"] in of_one)
        found.setdefault(point["sentence"], Point(point["sentence"], point["score"], sources))
    return Mapped(max((point.score for point in found.values()), default=0), tuple(found.values()))


@lru_cache(maxsize=2)
def headed_output(*, may_be_empty: bool) -> Any:
    """Outlines type of an answer in paragraphs under headings, whose sources are found by comparing words."""
    heading = {"type": "string", "pattern": rf"^[^\[\] \n\t][^\[\]\n]{{2,{HEADING_CHARACTERS - 1}}}$"}
    paragraph = object_schema({"heading": heading, "text": _words(PARAGRAPH_CHARACTERS)})
    least = 0 if may_be_empty else 1
    return schema({"answer": {"type": "array", "minItems": least, "maxItems": MAX_PARAGRAPHS, "items": paragraph}})


def read_headed(text: str, shown: Sequence[str], question: str, example: str) -> Written:
    """The reply to a prompt that asks for headed paragraphs, each with what bears it out.

    Parameters
    ----------
    shown : texts of the points or passages that the model was given, in the order of their labels.
    example : the prompt's worked example.

    Sentence by sentence: one that brings in a name of the example, or that `shown` does not bear out, is refused. A
    heading that says more than what is left of its paragraph is set in round brackets: it is the model's own reading,
    as a theme is. One that was cut off, that names what the paragraph does not, or of whose paragraph a sentence is
    refused, is left out.
    """
    grounding = Grounding("\n".join(shown), question, example)
    kept: list[Paragraph] = []
    refused: list[Paragraph] = []
    for given in json.loads(text)["answer"]:
        words = _ended(whole(given["text"], PARAGRAPH_CHARACTERS), shown)
        kept_here: list[str] = []
        cites: dict[int, None] = {}
        for sentence in _pieces(words):
            found = () if grounding.foreign(sentence) else _sources(sentence, shown)
            if found:
                kept_here.append(sentence)
                cites |= dict.fromkeys(found)
            else:
                refused.append(Paragraph(fold(sentence), ()))
        if kept_here:
            left = "".join(kept_here).strip()
            whole_paragraph = "".join(kept_here) == words
            heading = _heading(given["heading"], left, shown, grounding, own=whole_paragraph)
            kept.append(Paragraph(left, tuple(cites), heading))
    return Written(tuple(kept), tuple(refused))


def _ended(words: str, shown: Sequence[str]) -> str:
    """A paragraph whose last sentence breaks off, as at a quotation mark, which ends the reply's string.

    Where it is the beginning of a sentence that was shown, the rest of that follows; else it gets a mark.
    """
    *before, last = _pieces(words)
    if not last.strip() or has_end(last):
        return words
    begun = fold(last)
    whole_ones = (text for text in shown if len(begun) >= LEAST_BEGUN and fold(text).startswith(begun))
    rest = next((_unmarked(shortened(text)) for text in whole_ones), f"{begun} …")
    space = last[: len(last) - len(last.lstrip())]
    return "".join([*before, space, rest])


def _heading(given: str, text: str, shown: Sequence[str], grounding: Grounding, *, own: bool) -> str:
    """A heading as it stands over its text: in brackets if it is the model's own, "" if that is not allowed.

    One as long as headings may be is a sentence cut off.
    """
    if len(given) >= HEADING_CHARACTERS:
        return ""
    heading = fold(given).strip(" .:")
    if heading.startswith("(") and heading.endswith(")"):
        heading = heading[1:-1].strip(" .:")
    if not heading or text.casefold().startswith(heading.casefold()):
        return ""
    if borne_out(heading, text):
        return heading
    first, *rest = re.findall(r"\w+", heading) or [""]
    named = [word for word in rest if word[:1].isupper() or word.isdigit()]
    if first.isdigit() or is_name(first, shown):
        named.append(first)
    said_here = {word.casefold() for word in re.findall(r"\w+", text)}
    known = {word.casefold() for word in named} <= said_here and not grounding.foreign(heading)
    return f"({heading})" if known and own else ""


def _pieces(words: str) -> list[str]:
    """The sentences of a paragraph with all that stands between them: joined, they are the paragraph."""
    ends = [0, *(sentence.end for sentence in sentences(words)[:-1]), len(words)]
    return [words[start:end] for start, end in pairwise(ends)]


def _sources(sentence: str, shown: Sequence[str]) -> tuple[int, ...]:
    """What bears a sentence out: words too short to compare may stand there as they are."""
    found = supports(sentence, shown)
    if not found and (plain := fold(sentence)):
        found = tuple(label for label, text in enumerate(shown, 1) if plain in fold(text))[:1]
    return found


def quotation(text: str, label: int) -> Paragraph:
    """A statement as a paragraph of its own."""
    return Paragraph(_unmarked(text), (label,))


def _unmarked(text: str) -> str:
    """Words of a document with round brackets for square ones, which are kept for marks."""
    return text.replace("[", "(").replace("]", ")")


def read_map(text: str) -> Mapped:
    """The reply to a map prompt.

    >>> read_map('{"score":80,"points":[{"sources":[2,2],"text":"It floods.","score":90}]}')
    Mapped(score=80, points=(Point(text='It floods.', score=90, sources=(2,)),))
    """
    reply = json.loads(text)
    return Mapped(
        reply["score"],
        tuple(
            Point(whole(p["text"], POINT_CHARACTERS), p["score"], tuple(dict.fromkeys(p["sources"])))
            for p in reply["points"]
        ),
    )


def read_answer(text: str) -> Written:
    """The reply to a reduce or answer prompt."""
    reply = json.loads(text)
    return Written(
        tuple(
            Paragraph(whole(p["text"], PARAGRAPH_CHARACTERS), tuple(dict.fromkeys(p["cites"]))) for p in reply["answer"]
        )
    )


def one_turn(
    stage: str,
    name: str,
    request: Request,
    read: Callable[[str], T],
    result: type[T],
    passages: Sequence[Passage],
    *,
    beside: Sequence[str] = (),
    check: Callable[[Completion], None] | None = None,
) -> Unit[T]:
    """A unit of one request and its reply. Its key holds all that the model is given and may say.

    `beside`: what else the result depends on, as the sentences that its numbers count.
    `check` looks at a reply before it is read, and raises ConversationError for one that does not count.
    """

    def ask() -> Conversation[T]:
        completion: Completion = yield request
        if check:
            check(completion)
        return read(completion.text)

    shown = (*(message.content for message in request.prefix), request.prompt, request.output.schema)
    sampling = (str(request.max_tokens), str(request.seed), str(request.temperature))
    chunks = tuple(dict.fromkeys(chunk_id for passage in passages for chunk_id in passage.chunk_ids))
    return Unit(stage, VERSION, name, (*shown, *sampling, *beside), result, ask, chunks)


def same(text: str, other: str) -> bool:
    """Whether two texts are near-identical. Those that differ in a figure never are.

    >>> same("The dam was built in 1912.", "the dam was built in 1912"), same("Built in 1912.", "Built in 1913.")
    (True, False)
    """
    from rapidfuzz import fuzz, utils

    left, right = utils.default_process(text), utils.default_process(other)
    figures = [[c for c in side if c.isdigit()] for side in (left, right)]
    return figures[0] == figures[1] and fuzz.ratio(left, right) >= SAME


def distinct(written: Written) -> Written:
    """The answer without paragraphs near-identical to earlier ones."""
    kept: list[Paragraph] = []
    for paragraph in written.paragraphs:
        if not any(same(paragraph.text, earlier.text) for earlier in kept):
            kept.append(paragraph)
    return replace(written, paragraphs=tuple(kept))


def render(
    written: Written,
    shown: Callable[[int], Sequence[Passage]],
    provenance: Provenance,
    quoted: Callable[[int], str] = lambda _label: "",
) -> tuple[str, tuple[Citation, ...]]:
    """The answer's text with its marks, and the citation behind each.

    Parameters
    ----------
    written : the answer; what of it repeats itself is left out (`distinct`).
    shown : the passages behind a label.
    provenance : resolves them to the documents.
    quoted : the statement of a document that a label stands for, or "": where it stands is the first source.

    Marks count the reports or chunks cited, in the order in which they are first cited. A heading that several
    paragraphs in a row have stands over the first; what has none is set apart from what has one.
    """
    numbers: dict[tuple[str, str], int] = {}
    cited: list[Passage] = []
    places: list[dict[Source, None]] = []
    lines: list[str] = []
    above = ""
    for paragraph in distinct(written).paragraphs:
        marks: dict[int, None] = {}
        for label, passage in [(cited_by, passage) for cited_by in paragraph.cites for passage in shown(cited_by)]:
            if (passage.kind, passage.id) not in numbers:
                numbers[passage.kind, passage.id] = len(numbers) + 1
                cited.append(passage)
                places.append({})
            number = numbers[passage.kind, passage.id]
            marks[number] = None
            places[number - 1] |= dict.fromkeys(provenance.of_words(quoted(label), passage.chunk_ids))
        if above and not paragraph.heading:
            lines.append(APART)
        heading = f"{paragraph.heading}\n" if paragraph.heading and paragraph.heading != above else ""
        above = paragraph.heading
        lines.append(f"{heading}{paragraph.text} {''.join(f'[{number}]' for number in sorted(marks))}")
    citations = tuple(
        _citation(number, passage, provenance, words)
        for number, (passage, words) in enumerate(zip(cited, places, strict=True), 1)
    )
    return "\n\n".join(lines), citations


def _citation(number: int, passage: Passage, provenance: Provenance, words: Iterable[Source]) -> Citation:
    found = provenance.of_report(passage.id) if passage.kind == "report" else provenance.of_chunk(passage.id)
    places = tuple(dict.fromkeys(words))
    sources = places if places and passage.kind == "chunk" else tuple(dict.fromkeys((*places, *found.sources)))
    return Citation(number, passage.kind, passage.id, passage.title, found.records, sources)


def as_record(value: Any) -> dict[str, Any]:
    """A dataclass as JSON-able values."""
    return dict(json.loads(json.dumps(asdict(value))))
