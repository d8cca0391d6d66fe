"""Answers to one question side by side, each citation with the words of the documents that it rests on."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import traitlets

from localgraphrag.notebook.base import Element, View, el, script, styles
from localgraphrag.notebook.chunk_view import Span, segments
from localgraphrag.search.answer import Answer, Citation
from localgraphrag.search.question import CONDITIONS
from localgraphrag.show import Passage, cited

if TYPE_CHECKING:
    from localgraphrag.project import Comparison, Project

PASSAGES = 5
"""Most chunks shown of one citation; `Project.show` has more."""

HEADS = ("", "calls", "tokens in", "read anew", "written", "seconds", "citations")

_MARK = re.compile(r"\[(\d+)\]")


class CompareView(View):
    """Answers of several conditions, and what each took. A citation opens the source text with its words marked.

    Parameters
    ----------
    comparison : as `Project.compare` gives it. Conditions without an answer say why.
    project : whose index holds the sources.

    `opened` is the citation whose source is shown, as "C0:3" (condition and number), or "".

    Raises NotIndexedError where the project has no index.
    """

    _esm = script("compare_view.js")
    _css = styles("compare_view.css")
    data = traitlets.Dict().tag(sync=True)
    opened = traitlets.Unicode("").tag(sync=True)

    def __init__(self, comparison: Comparison, project: Project, **traits: Any) -> None:
        self.comparison = comparison
        self._citations = {
            f"{name}:{citation.number}": citation
            for name, answer in comparison.answers.items()
            for citation in answer.citations
        }
        with project.store() as store:
            self._passages = dict(zip(self._citations, cited(store, self._citations.values()), strict=True))
        super().__init__(data=self._data(), **traits)

    @classmethod
    def of(cls, answer: Answer, project: Project, **traits: Any) -> CompareView:
        """One answer alone."""
        from localgraphrag.project import Comparison
        from localgraphrag.report_view import condition_name

        return cls(Comparison(answer.question, {condition_name(answer): answer}, {}), project, **traits)

    @property
    def opened_citation(self) -> Citation | None:
        """The citation whose source is shown."""
        return self._citations.get(self.opened)

    @property
    def opened_passages(self) -> tuple[Passage, ...]:
        """The chunks of the citation whose source is shown, with their spans."""
        return self._passages.get(self.opened, ())

    @traitlets.validate("opened")
    def _known(self, proposal: Any) -> str:
        key = str(proposal["value"])
        if key and key not in self._citations:
            known = ", ".join(self._citations) or "none"
            raise traitlets.TraitError(f"There is no citation {key!r}; there are {known}.")
        return key

    def _data(self) -> dict[str, Any]:
        return {
            "question": self.comparison.question,
            "heads": list(HEADS),
            "answers": [self._answer(name, answer) for name, answer in self.comparison.answers.items()],
            "errors": [{"name": name, "error": error} for name, error in self.comparison.errors.items()],
        }

    def _answer(self, name: str, answer: Answer) -> dict[str, Any]:
        usage = answer.usage
        counts = (usage.calls, usage.prompt_tokens, usage.read_tokens, usage.output_tokens)
        known = {str(citation.number) for citation in answer.citations}
        return {
            "name": name,
            "about": CONDITIONS[name].about if name in CONDITIONS else "",
            "paragraphs": [_parts(line, name, known) for line in answer.text.splitlines() if line.strip()],
            "figures": [*(f"{count:,}" for count in counts), f"{answer.seconds:,.1f}", str(len(answer.citations))],
            "citations": [self._citation(f"{name}:{c.number}", c) for c in answer.citations],
        }

    def _citation(self, key: str, citation: Citation) -> dict[str, Any]:
        passages = self._passages[key]
        return {
            "key": key,
            "number": citation.number,
            "kind": citation.kind,
            "id": citation.id,
            "title": citation.title,
            "passages": [_passage(passage) for passage in passages[:PASSAGES]],
            "more": max(len(passages) - PASSAGES, 0),
        }

    def picture(self) -> Element:
        """The table of what each took, the answers, and below each its citations to be opened."""
        heads = (el("th", {"class": "lgr-number"} if head else {}, head) for head in HEADS)
        rows = [el("tr", {}, *heads)]
        for answer in self.data["answers"]:
            cells = (el("td", {"class": "lgr-number"}, figure) for figure in answer["figures"])
            rows.append(el("tr", {}, el("th", {}, answer["name"]), *cells))
        columns = [*map(self._column, self.data["answers"]), *map(_failed, self.data["errors"])]
        answers = el("div", {"class": "lgr-answers"}, *columns)
        return el("div", {}, el("h4", {"dir": "auto"}, self.comparison.question), el("table", {}, *rows), answers)

    def _column(self, answer: dict[str, Any]) -> Element:
        box = el("div", {"class": "lgr-box"}, el("h4", {}, answer["name"]))
        box.append(el("div", {"class": "lgr-muted"}, answer["about"]))
        for parts in answer["paragraphs"]:
            said = (el("sup", {}, part["text"]) if part["key"] else part["text"] for part in parts)
            box.append(el("p", {"dir": "auto"}, *said))
        for citation in answer["citations"]:
            head = el("summary", {}, f"[{citation['number']}] {citation['kind']}: {citation['title']}")
            chosen = {"open": "open"} if citation["key"] == self.opened else {}
            box.append(el("details", chosen, head, *_sources(citation)))
        return box


def _parts(line: str, name: str, known: set[str]) -> list[dict[str, str]]:
    """A line of an answer, cut at its marks; `key` is that of the citation that a mark stands for, else ""."""
    parts, at = [], 0
    for mark in _MARK.finditer(line):
        if mark[1] in known:
            parts += [{"text": line[at : mark.start()], "key": ""}, {"text": mark[0], "key": f"{name}:{mark[1]}"}]
            at = mark.end()
    return [part for part in (*parts, {"text": line[at:], "key": ""}) if part["text"]]


def _passage(passage: Passage) -> dict[str, Any]:
    """The chunk's text in stretches that are marked or not, cut here because JavaScript counts characters otherwise."""
    spans = [Span(start, end, "", "") for start, end in passage.spans]
    stretches = [[segment.text, bool(segment.spans)] for segment in segments(passage.text, spans)]
    return {"title": passage.title, "source": ", ".join(passage.sources), "id": passage.chunk_id, "parts": stretches}


def _sources(citation: dict[str, Any]) -> Iterator[Element]:
    for passage in citation["passages"]:
        yield el("div", {"class": "lgr-muted"}, f"{passage['title']} ({passage['source']})")
        words = (el("mark", {}, text) if marked else text for text, marked in passage["parts"])
        yield el("div", {"class": "lgr-source", "dir": "auto"}, *words)
    if citation["more"]:
        yield el("div", {"class": "lgr-muted"}, f"and {citation['more']} chunks more")


def _failed(error: dict[str, str]) -> Element:
    return el("div", {"class": "lgr-box"}, el("h4", {}, error["name"]), el("p", {}, f"No answer: {error['error']}"))
