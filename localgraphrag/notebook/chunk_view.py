"""A text with spans in it: the entities of a chunk, the chunks of a document, the sources of an answer."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import traitlets

from localgraphrag.chunks import Chunk
from localgraphrag.documents import Document
from localgraphrag.extract import Entity, Extraction
from localgraphrag.mentions import Searchable
from localgraphrag.notebook.base import Element, View, el, script, styles, within
from localgraphrag.notebook.palette import Look, looks
from localgraphrag.search.answer import Answer
from localgraphrag.sentences import fold


class Span(NamedTuple):
    """A stretch of a text, `text[start:end]`. `kind` decides how it looks, `note` is what there is to say of it."""

    start: int
    end: int
    label: str
    kind: str
    note: str = ""


class Segment(NamedTuple):
    """A stretch in which no span begins or ends, and the numbers of the spans over it, the longest first."""

    text: str
    spans: tuple[int, ...]


def segments(text: str, spans: Sequence[Span]) -> list[Segment]:
    """The text cut wherever a span begins or ends; joined, the segments are the text. Empty spans cut nothing.

    >>> segments("abcd", [Span(0, 3, "", ""), Span(1, 4, "", "")])
    [Segment(text='a', spans=(0,)), Segment(text='bc', spans=(0, 1)), Segment(text='d', spans=(1,))]
    """
    solid = [number for number, span in enumerate(spans) if span.start < span.end]
    borders = sorted({0, len(text), *(at for number in solid for at in spans[number][:2])})
    starting: dict[int, list[int]] = {}
    for number in solid:
        starting.setdefault(spans[number].start, []).append(number)
    found, over = [], list[int]()
    for at, until in pairwise(borders):
        over = [number for number in (*over, *starting.get(at, ())) if spans[number].end > at]
        longest_first = sorted(over, key=lambda number: (spans[number].start - spans[number].end, number))
        found.append(Segment(text[at:until], tuple(longest_first)))
    return found


def lanes(spans: Sequence[Span]) -> list[int]:
    """A lane for each span, from 0, so that spans that overlap have different ones.

    >>> lanes([Span(0, 3, "", ""), Span(1, 4, "", ""), Span(3, 5, "", "")])
    [0, 1, 0]
    """
    given, until = [0] * len(spans), list[int]()
    for number in sorted(range(len(spans)), key=lambda number: spans[number][:2]):
        span = spans[number]
        free = next((lane for lane, end in enumerate(until) if end <= span.start), len(until))
        until[free : free + 1] = [span.end]
        given[number] = free
    return given


class ChunkView(View):
    """A text in which spans are marked. A click, or the arrow keys, select one; a click again, the one below it.

    Parameters
    ----------
    text : what is shown, as it is.
    spans : may overlap. Raises ValueError for one that does not lie in the text.
    title : shown above.

    `selected` is the number of a span in `spans`, -1 for none; `hidden` lists the kinds that are not marked.
    """

    _esm = script("chunk_view.js")
    _css = styles("chunk_view.css")
    data = traitlets.Dict().tag(sync=True)
    selected = traitlets.Int(-1).tag(sync=True)
    hidden = traitlets.List(traitlets.Unicode()).tag(sync=True)

    def __init__(self, text: str, spans: Iterable[Span] = (), *, title: str = "", **traits: Any) -> None:
        self.spans = tuple(sorted(spans, key=lambda span: (span.start, -span.end)))
        for span in self.spans:
            if not 0 <= span.start <= span.end <= len(text):
                raise ValueError(
                    f"The span {span.label!r} runs from {span.start} to {span.end}, but the text has characters 0 to "
                    f"{len(text)}. Give spans of this text; those of a document do not fit one of its chunks."
                )
        self._looks = looks(span.kind for span in self.spans)
        super().__init__(data=self._data(text, title), **traits)

    @classmethod
    def entities(cls, chunk: Chunk, extraction: Extraction, **traits: Any) -> ChunkView:
        """A chunk with every mention of the entities found in it; those of a gleaning say so."""
        places, spans = Searchable(chunk.text), list[Span]()
        for entity in extraction.entities:
            found = list(places.find(fold(entity.name))) or [(entity.start, entity.end)] * (entity.start >= 0)
            spans += [Span(start, end, entity.name, entity.type, _entity_note(entity)) for start, end in found]
        return cls(chunk.text, spans, title=f"{chunk.title}, chunk {chunk.ordinal}: {chunk.tokens} tokens", **traits)

    @classmethod
    def chunks(cls, document: Document, chunks: Iterable[Chunk], **traits: Any) -> ChunkView:
        """A document with its chunks; where two overlap, both are marked."""
        own = [chunk for chunk in chunks if chunk.document_id == document.id]
        kinds = ("even chunk", "odd chunk")
        spans = [
            Span(c.start, c.end, f"chunk {c.ordinal}", kinds[c.ordinal % 2], f"{c.tokens} tokens, {c.id}") for c in own
        ]
        return cls(document.text, spans, title=f"{document.title}: {len(own)} chunks", **traits)

    @classmethod
    def sources(cls, document: Document, answer: Answer, **traits: Any) -> ChunkView:
        """A document with the places in it that the citations of an answer lead to."""
        spans = [
            Span(source.start, source.end, f"[{citation.number}]", citation.kind, citation.title)
            for citation in answer.citations
            for source in citation.sources
            if source.document_id == document.id
        ]
        return cls(document.text, spans, title=document.title, **traits)

    @property
    def selected_span(self) -> Span | None:
        """The span that is selected."""
        return self.spans[self.selected] if 0 <= self.selected < len(self.spans) else None

    @traitlets.validate("selected")
    def _known(self, proposal: Any) -> int:
        return within("span", proposal["value"], -1, len(self.spans) - 1)

    def _data(self, text: str, title: str) -> dict[str, Any]:
        shown = zip(self.spans, lanes(self.spans), strict=True)
        return {
            "title": title,
            "kinds": [{"name": name, **look._asdict()} for name, look in self._looks.items()],
            "spans": [{**span._asdict(), "lane": lane} for span, lane in shown],
            "segments": [[segment.text, list(segment.spans)] for segment in segments(text, self.spans)],
        }

    def picture(self) -> Element:
        """The text with its spans marked, then a list of them."""
        text = el("div", {"class": "lgr-text", "dir": "auto"})
        begun: set[int] = set()
        for words, over in self.data["segments"]:
            text.append(self._marked(words, over, begun))
        legend = el("ul", {"class": "lgr-legend"}, *(self._legend(*item) for item in self._looks.items()))
        rows = (el("tr", {}, *(el("td", {}, cell) for cell in _cells(span))) for span in self.spans)
        table = el("table", {}, el("tr", {}, *(el("th", {}, name) for name in ("span", "kind", "place", ""))), *rows)
        listed = el("details", {}, el("summary", {}, f"{len(self.spans)} spans"), table)
        return el("div", {}, el("h4", {}, self.data["title"]), legend, text, listed)

    def _marked(self, words: str, over: list[int], begun: set[int]) -> Element:
        """A segment inside its spans, the longest outermost, each with its mark where it begins."""
        inner = el("span", {}, words)
        for number in reversed([n for n in over if self.spans[n].kind not in self.hidden]):
            span = self.spans[number]
            look, lane = self._looks[span.kind], self.data["spans"][number]["lane"]
            chosen = " lgr-chosen" if number == self.selected else ""
            shown = {"class": f"lgr-span{chosen}", "style": _style(look, lane), "title": f"{span.label} ({span.kind})"}
            mark = [] if number in begun else [el("sup", {"class": "lgr-mark", "aria-hidden": "true"}, look.mark)]
            begun.add(number)
            inner = el("span", shown, *mark, inner)
        return inner

    def _legend(self, kind: str, look: Look) -> Element:
        return el("li", {}, el("span", {"class": "lgr-span", "style": _style(look, 0)}, f"{look.mark} {kind}"))


def _style(look: Look, lane: int) -> str:
    return f"--lgr-colour:{look.colour};--lgr-line-style:{look.line};--lgr-lane:{lane}"


def _cells(span: Span) -> tuple[str, ...]:
    return span.label, span.kind, f"{span.start:,} to {span.end:,}", span.note


def _entity_note(entity: Entity) -> str:
    found = f"found by gleaning {entity.gleaning}" if entity.gleaning else ""
    return ": ".join(part for part in (found, entity.description) if part)
