"""`CompareView`: each citation leads to the words of the documents that it stands for."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
import traitlets

from localgraphrag.llm.types import Usage
from localgraphrag.notebook.compare_view import CompareView
from localgraphrag.project import Comparison
from localgraphrag.search.answer import Answer, Citation, Source
from tests import workbench

HOSTILE = "</style><script>alert(1)</script>"


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    folder = tmp_path_factory.mktemp("compare")
    corpus = workbench.write_corpus(folder / "letters", 4, 6)
    (corpus / "hostile.txt").write_text(f"Ada 𝔸 wrote {HOSTILE} to Byron 😀 and to Clara.", encoding="utf-8")
    project = workbench.open_project(folder / "project")
    project.index(corpus)
    return project


@pytest.fixture(scope="module")
def comparison(project):
    found = project.compare("Who wrote to whom?")
    return replace(found, errors={"C9": f"no such level {HOSTILE}"})


@pytest.fixture
def view(project, comparison):
    return CompareView(comparison, project)


def text_of(parts) -> str:
    return "".join(text for text, _ in parts)


def test_every_condition_is_there_with_what_it_took(view, comparison):
    assert [answer["name"] for answer in view.data["answers"]] == list(comparison.answers)
    assert {"C0", "TS", "SS"} <= set(comparison.answers)
    for shown, answer in zip(view.data["answers"], comparison.answers.values(), strict=True):
        assert shown["figures"][0] == f"{answer.usage.calls:,}"
        assert shown["figures"][-1] == str(len(answer.citations))
        assert len(shown["figures"]) == len(view.data["heads"]) - 1
        joined = "\n\n".join("".join(part["text"] for part in parts) for parts in shown["paragraphs"])
        assert joined.split() == answer.text.split(), "nothing is lost or added"
    assert view.data["errors"][0]["name"] == "C9"


def test_every_mark_of_an_answer_is_a_citation_that_can_be_opened(view, comparison):
    keys = {part["key"] for a in view.data["answers"] for line in a["paragraphs"] for part in line if part["key"]}
    assert keys
    for key in keys:
        name, number = key.split(":")
        view.opened = key
        assert view.opened_citation in comparison.answers[name].citations
        assert view.opened_citation.number == int(number)


def test_the_marked_words_are_those_of_the_documents(view, project):
    from localgraphrag import tables

    with project.store() as store:
        documents = {document.id: document.text for document in tables.load_documents(store)}
    checked = 0
    for answer in view.data["answers"]:
        for citation in answer["citations"]:
            view.opened = citation["key"]
            said = {documents[s.document_id][s.start : s.end] for s in view.opened_citation.sources}
            for shown, passage in zip(citation["passages"], view.opened_passages, strict=False):
                assert text_of(shown["parts"]) == passage.text
                marked = "".join(text for text, is_marked in shown["parts"] if is_marked)
                assert all(span in marked for span in (passage.text[a:b] for a, b in passage.spans) if span in said)
                checked += bool(marked)
    assert checked


def test_characters_beyond_the_basic_plane_do_not_shift_a_mark(project):
    from localgraphrag import tables

    with project.store() as store:
        chunk = next(c for c in tables.load_index(store).chunks if "𝔸" in c.text)
    start = chunk.start + chunk.text.index("Clara")
    source = Source(chunk.id, chunk.document_id, start, start + 5)
    answer = Answer("?", "ss", None, "So. [1]", (Citation(1, "chunk", chunk.id, "t", (), (source,)),), Usage(), {})
    view = CompareView.of(answer, project, opened="SS:1")
    [passage] = view.data["answers"][0]["citations"][0]["passages"]
    assert [text for text, marked in passage["parts"] if marked] == ["Clara"]
    assert "<mark>Clara</mark>" in view.static()
    assert "<script" not in view.static()
    assert "&lt;script&gt;" in view.static()


def test_the_static_form_opens_what_is_opened(view):
    closed = view.static()
    assert "<details open" not in closed
    view.opened = view.data["answers"][0]["citations"][0]["key"]
    assert view.static().count("<details open") == 1
    assert "<script" not in closed
    assert f"No answer: no such level {HOSTILE}".replace("<", "&lt;").replace(">", "&gt;") in closed


def test_a_citation_that_is_not_there_is_refused(view):
    for key in ("C0:99", "C7:1", "nonsense"):
        with pytest.raises(traitlets.TraitError, match="There is no citation"):
            view.opened = key
    assert (view.opened, view.opened_citation, view.opened_passages) == ("", None, ())


def test_a_source_that_has_left_the_index_has_no_passage(project):
    gone = Citation(1, "chunk", "t-gone", "gone", (), (Source("t-gone", "d-gone", 0, 3),))
    answer = Answer("?", "ts", None, "So. [1] But [7] is no mark.", (gone,), Usage(), {})
    view = CompareView(Comparison("?", {"TS": answer}, {}), project)
    assert view.data["answers"][0]["citations"][0]["passages"] == []
    keys = [part["key"] for part in view.data["answers"][0]["paragraphs"][0]]
    assert keys == ["", "TS:1", ""]


def test_what_is_sent_is_json(view):
    assert json.loads(json.dumps(view.data)) == view.data
