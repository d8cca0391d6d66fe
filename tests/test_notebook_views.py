"""The views: what Python says and what is drawn agree, nothing in a text ever runs, a static form holds it all."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from dataclasses import replace
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path

import pytest
import traitlets
from hypothesis import given
from hypothesis import strategies as st
from views import CHUNK, DOCUMENT, EXTRACTION, HOSTILE, TEXT, answer, packed, trace, views

from localgraphrag import demo, notebook
from localgraphrag.documents import read_documents
from localgraphrag.errors import ConfigError
from localgraphrag.notebook.base import View, el, html
from localgraphrag.notebook.chunk_view import ChunkView, Span, lanes, segments
from localgraphrag.notebook.extraction_stepper import ExtractionStepper, ExtractionTrace, passes
from localgraphrag.notebook.map_reduce_view import STAGES, MapReduceView
from localgraphrag.notebook.packing_view import PackingView, evictions, frames
from localgraphrag.packing import PackedContext, Record, Step

HOME = Path(notebook.__file__).parent
VIEWS = views()


@pytest.fixture(params=VIEWS)
def view(request):
    return VIEWS[request.param]


class Seen(HTMLParser):
    """The tags and the text of a fragment."""

    def __init__(self, fragment: str) -> None:
        super().__init__()
        self.tags, self.text, self.names = [], [], set[str]()
        self.feed(fragment)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.names.update(name for name, _ in attrs)

    def handle_data(self, data):
        if self.tags[-1:] != ["style"]:
            self.text.append(data)


# -- what all views hold ----------------------------------------------------------------------------------------


def test_the_package_names_its_views_and_says_what_is_missing():
    assert list(notebook.__all__) == sorted(notebook.__all__)
    for name in notebook.__all__:
        assert getattr(notebook, name)
    with pytest.raises(AttributeError, match="ChunkView"):
        notebook.Chart  # noqa: B018


def test_the_library_imports_without_the_widgets():
    code = (
        "import sys, localgraphrag, localgraphrag.notebook; assert not {'anywidget', 'ipywidgets'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_the_bundle_has_the_widget_and_the_static_form(view):
    data, _ = view._repr_mimebundle_()
    assert data["application/vnd.jupyter.widget-view+json"]["model_id"] == view.model_id
    assert data["text/html"] == view.static()


def test_nothing_in_a_text_becomes_markup(view):
    seen = Seen(view.static())
    assert not {"script", "img"} & set(seen.tags)
    assert not [name for name in seen.names if name.startswith("on")]
    assert seen.tags.count("style") == 1
    assert "<script>document.title" in "".join(seen.text)  # it is still there to read


def test_the_static_form_fetches_nothing(view):
    assert not re.search(r"https?:|url\(|@import|src=|href=", view.static().replace(HOSTILE, "").replace("src=x", ""))


def test_traits_of_a_script_are_those_of_its_class(view):
    shared = set(re.findall(r'"(\w+)"', " ".join(re.findall(r'(?:model, "\w+"|model\.get\("\w+"\))', view._esm))))
    watched = {
        name for names in re.findall(r"watch\(model, \[(.*?)\]", view._esm) for name in re.findall(r'"(\w+)"', names)
    }
    own = {n for n in view.trait_names(sync=True) if not n.startswith("_")} - set(View.class_trait_names())
    assert watched == own
    assert shared <= own


@pytest.mark.parametrize("path", sorted(HOME.glob("*.js")), ids=lambda path: path.name)
def test_scripts_write_text_as_text_and_fetch_nothing(path):
    source = path.read_text(encoding="utf-8")
    assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function", source)
    assert not re.search(r"\bfetch\(|XMLHttpRequest|WebSocket|import\(|https?://(?!www\.w3\.org/2000/svg)", source)


def test_elements_are_the_same_in_any_nesting():
    assert html(el("p", {}, "a", el("b"), "c", "d", el("i", {}, "&"), "e")) == "<p>a<b></b>cd<i>&amp;</i>e</p>"


# -- spans in a text --------------------------------------------------------------------------------------------

spans_in = st.lists(
    st.tuples(st.integers(0, 30), st.integers(0, 30)).map(lambda p: Span(min(p), max(p), "x", "y")), max_size=12
)


@given(spans_in)
def test_segments_are_the_text_and_lie_in_just_the_spans_they_name(spans):
    text = "".join(chr(0x1F300 + i) for i in range(30))
    at = 0
    for piece in segments(text, spans):
        assert piece.text == text[at : at + len(piece.text)] and piece.text
        inside = {n for n, s in enumerate(spans) if s.start <= at and at + len(piece.text) <= s.end and s.start < s.end}
        assert set(piece.spans) == inside
        lengths = [spans[n].end - spans[n].start for n in piece.spans]
        assert lengths == sorted(lengths, reverse=True)
        at += len(piece.text)
    assert at == len(text)


@given(spans_in)
def test_spans_that_overlap_have_different_lanes(spans):
    given_lanes = lanes(spans)
    for a, first in enumerate(spans):
        for b, second in enumerate(spans[:a]):
            if max(first.start, second.start) < min(first.end, second.end):
                assert given_lanes[a] != given_lanes[b]


def test_every_mention_of_an_entity_is_a_span():
    view = ChunkView.entities(CHUNK, EXTRACTION)
    assert [view.data["spans"][n]["label"] for n in range(len(view.spans))] == [span.label for span in view.spans]
    found = [(span.label, TEXT[span.start : span.end]) for span in view.spans]
    assert found.count(("Ines Falk", "Ines Falk")) == 2
    assert found.count(("mill", "mill")) == 2
    assert next(s for s in view.spans if s.label == "Ness mill").note == "found by gleaning 1"


def test_selecting_a_span_shows_in_the_static_form():
    view = ChunkView("a b c", [Span(0, 3, "ab", "k"), Span(2, 5, "bc", "k")])
    assert view.selected_span is None and view.static().count("lgr-span lgr-chosen") == 0
    view.selected = 1
    assert view.selected_span.label == "bc"
    assert view.static().count("lgr-span lgr-chosen") == 2  # it lies in two segments
    with pytest.raises(traitlets.TraitError, match="no span 2"):
        view.selected = 2
    view.hidden = ["k"]
    assert "lgr-mark" not in view.static().partition("</style>")[2]


def test_spans_of_another_text_are_refused():
    with pytest.raises(ValueError, match="characters 0 to 2"):
        ChunkView("ab", [Span(0, 3, "x", "y")])


def test_chunks_and_sources_of_a_document():
    chunks = [
        replace(CHUNK, end=60),
        replace(CHUNK, id="t-2", ordinal=1, start=50),
        replace(CHUNK, document_id="other"),
    ]
    view = ChunkView.chunks(DOCUMENT, chunks)
    assert [span[:3] for span in view.spans] == [(0, 60, "chunk 0"), (50, len(TEXT), "chunk 1")]
    assert [span[:3] for span in ChunkView.sources(DOCUMENT, answer()).spans] == [(0, 9, "[1]")]


# -- an extraction, token by token ------------------------------------------------------------------------------


def test_a_trace_tells_the_reply_and_what_was_taken_back():
    names, missed = trace().turns
    assert names.text == '{"Ines Falké"}'
    assert names.taken_back == 2
    assert [step.forced for step in names.steps] == [True, True, False, False, False, False, True, True, True]
    assert [step.struck for step in names.steps].index(True) == 3
    struck = names.steps[3]
    assert [c.text for c in struck.candidates][:2] == [" mill", " Falk"] and struck.allowed == 1
    assert struck.candidates[struck.chosen].legal
    assert missed.steps[-1].candidates[missed.steps[-1].chosen].text == ""  # the end


def test_a_trace_comes_back_from_its_file(tmp_path):
    path = tmp_path / "trace.json"
    trace().save(path)
    assert ExtractionTrace.load(path) == trace()
    path.write_text("[]")
    with pytest.raises(ConfigError, match="no trace of an extraction"):
        ExtractionTrace.load(path)


def test_the_stepper_counts_the_tokens_of_all_replies():
    view = ExtractionStepper(trace())
    assert view.step == 0 and view.current.text == "{"
    assert view.struck == (3,)
    view.step = 10
    assert view.current == trace().turns[1].steps[1]
    assert sum(len(turn["steps"]) for turn in view.data["turns"]) == 11
    with pytest.raises(traitlets.TraitError, match="from 0 to 10"):
        view.step = 11
    told = "".join(Seen(view.static()).text)
    assert "9 tokens, 5 of them forced, 2 taken back" in told and "gleaning 1 adds 1 entity" in told


def test_passes_are_the_entities_by_gleaning():
    assert [[entity.name for entity in found] for found in passes(EXTRACTION)] == [["Ines Falk", "mill"], ["Ness mill"]]
    assert passes(replace(EXTRACTION, entities=())) == [()]


# -- packing ----------------------------------------------------------------------------------------------------


def test_frames_follow_the_decisions():
    context, _, _ = packed()
    found = frames(context)
    assert len(found) == len(context.steps) + 1
    assert found[0] == ((), (), (), 0, context.whole)
    last = found[-1]
    assert [context.steps[at].id for at in last.shown] == [record.id for record in context.records]
    assert [context.steps[at].id for at in last.replaced] == ["c-a"]
    assert {context.steps[at].id for at in last.out} == set(context.dropped) != set()
    assert all(frame.used <= context.budget for frame in found)
    assert last.planned < found[0].planned
    for before, after in pairwise(found):
        assert len(after.shown) >= len(before.shown) and after.planned <= before.planned


def test_a_record_taken_out_again_is_told_apart_from_one_that_never_was_in():
    steps = [
        Step("add", "a", 5, 0, ""),
        Step("add", "b", 5, 0, ""),
        Step("drop", "c", 9, 0, "full"),
        Step("drop", "b", 5, 0, "joined"),
    ]
    context = PackedContext("1. a", (Record(1, "a", "entity", ("A",)),), (), ("c", "b"), (), 6, 19, 10, tuple(steps))
    assert evictions(context) == {3}
    assert [(frame.shown, frame.used) for frame in frames(context)][2:] == [((0, 1), 10), ((0, 1), 10), ((0,), 5)]


def test_the_packing_view_begins_with_the_end_and_goes_back():
    context, graph, reports = packed()
    view = PackingView(context, graph, reports)
    assert view.step == len(context.steps) and view.frame == frames(context)[-1]
    assert f"in the context ({len(context.records)})" in view.static()
    view.step = 0
    assert "in the context (0)" in view.static()
    with pytest.raises(traitlets.TraitError, match="from 0 to"):
        view.step = len(context.steps) + 1


def test_names_of_what_was_left_out_come_from_the_graph():
    context, graph, _ = packed()
    dropped = [s["name"] for s in PackingView(context, graph).data["steps"] if s["action"] == "drop"]
    assert dropped and all(name.startswith("Name") for name in dropped)
    lines = [s["line"] for s in PackingView(context).data["steps"] if s["action"] == "add"]
    assert lines == context.text.split("\n")


# -- map-reduce -------------------------------------------------------------------------------------------------


def test_points_carry_their_fate():
    view = MapReduceView(answer())
    points = {point["key"]: point for batch in view.data["batches"] for point in batch["points"]}
    assert {key: (p["taken"], p["reason"]) for key, p in points.items()} == {
        "1.1": (1, ""),
        "1.2": (0, "scored 0"),
        "2.1": (0, "repeats point 1"),
    }
    view.selected = "2.1"
    assert view.selected_point["score"] == 70
    with pytest.raises(traitlets.TraitError, match=r"no point '9\.9'; points are 1\.1"):
        view.selected = "9.9"


def test_stages_open_one_after_another():
    view = MapReduceView(answer(), titles={"c-2": "The second"})
    assert view.stage == len(STAGES) - 1 and "the answer" in view.static() and "The second" in view.static()
    view.stage = 1
    assert "score 80" in view.static() and "dropped" not in view.static().partition("</style>")[2]
    view.stage = 0
    assert "score 80" not in view.static()
    with pytest.raises(traitlets.TraitError, match="from 0 to 3"):
        view.stage = 4


def test_an_answer_without_batches_is_refused():
    with pytest.raises(ValueError, match="'global' or 'ts'"):
        MapReduceView(replace(answer(), method="ss", record={"method": "ss"}))


def test_the_packaged_trace_is_an_extraction_of_its_chunk():
    told = ExtractionTrace.load(ExtractionTrace.packaged())
    view = ExtractionStepper(told)
    names = told.turns[0]
    assert json.loads(names.text)["entities"]
    assert view.struck, "the grammar is seen at work"
    assert all(entity.name in " ".join(told.chunk.text.split()) for entity in told.extraction.entities)
    assert told.chunk.text in [document.text[told.chunk.start : told.chunk.end] for document in corpus_documents()]


def corpus_documents():
    return read_documents([demo.corpus_folder()]).documents
