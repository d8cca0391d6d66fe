"""Reports whose findings are sentences of the documents: one record a sentence, the most central are chosen."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from test_summaries import make_graph

from localgraphrag import quoted_reports
from localgraphrag.communities import Community, Hierarchy
from localgraphrag.config import Settings
from localgraphrag.embed import HashEmbedder, Remembering
from localgraphrag.errors import ContextError
from localgraphrag.graph import GraphClaim, Sourced
from localgraphrag.llm.output import check_reply, schema
from localgraphrag.llm.scripted import ScriptedEngine, WordTokenizer
from localgraphrag.llm.units import EngineRunner
from localgraphrag.packing import Packer
from localgraphrag.prompts import Prompts
from localgraphrag.summaries import own_report, report_unit, write_reports

PROMPTS = Prompts()
SETTINGS = Settings(min_report_tokens=1)
MET = "Ada and Bob met Cid at the mill."
SOLD = "Ada sold the mill to Bob in 1911."
SAID = {
    "a": ("person", MET), "b": ("person", MET), "c": ("person", "Cid left for the coast."),
    "d": ("person", "Dear Miss Dora,"), "e": ("object", ""),
}  # fmt: skip
LINKS = {"r1": ("a", "b", MET), "r2": ("a", "c", MET), "r3": ("b", "d", SOLD)}
CLAIM = GraphClaim("k1", "a", "b", "sale", "true", "1911", "", SOLD, "chunk-k1")
ALL = Community("all", 0, "", (), ("a", "b", "c", "d", "e"))
HIERARCHY = Hierarchy(((ALL,),))
count = WordTokenizer().count


@pytest.fixture
def graph():
    return make_graph(SAID, LINKS, [CLAIM])


def packed(graph, budget=999):
    return Packer(graph, HIERARCHY, count, quoted=True).pack("all", {}, budget)


REASON = "The mill was sold by Ada."


def written(graph, settings=SETTINGS, title="The mill", embedder=None, reason=REASON):
    """The report on all, and the prompts asked."""
    asked = []

    def answer(messages, request):
        asked.append(request)
        about = {"title": title, "rating_reason": reason, "rating": 3, "summary": f"{SOLD} Ada flew to the moon."}
        return json.dumps(about, separators=(",", ":"))

    runner = EngineRunner(ScriptedEngine(answer))
    return write_reports(graph, HIERARCHY, [0], settings, PROMPTS, runner, embedder=embedder)["all"], asked


class Directions:
    """An embedder of hand-made vectors; what is not named points nowhere."""

    identity, dimensions = "directions", 3

    def __init__(self, **vectors):
        self.vectors = vectors
        self.asked = []

    def embed(self, texts):
        self.asked += texts
        rows = [next((v for name, v in self.vectors.items() if name in text.casefold()), (0, 0, 0)) for text in texts]
        return np.array(rows, np.float32).reshape(len(texts), 3)


def test_a_sentence_is_one_record_whatever_rests_on_it(graph):
    context = packed(graph)
    assert context.text.splitlines() == [
        f"1. {MET}", f"2. {SOLD}", "3. Cid left for the coast.", "4. Dear Miss Dora,", "5. E (object)"
    ]  # fmt: skip
    first, second, *_ = context.records
    assert {first.id, *first.also} == {"a", "b", "r1", "r2"} and set(first.names) == {"A", "B", "C"}
    assert {second.id, *second.also} == {"k1", "r3"}
    assert {step.id for step in context.steps if step.action == "join"} >= {"b", "r1", "r2"}
    assert set(context.chunk_ids) == {c for node in graph.nodes for c in node.chunk_ids} | {
        "chunk-r1", "chunk-r2", "chunk-r3", "chunk-k1"
    }  # fmt: skip


def test_the_size_of_a_community_is_what_is_shown_of_it(graph):
    size = Packer(graph, HIERARCHY, count, quoted=True).size("all")
    assert size.records == len(packed(graph).records) == 5
    assert packed(graph).whole >= packed(graph).tokens


def test_of_many_sentences_about_one_thing_evenly_spaced_ones_are_shown():
    many = [f"Ada met number {i} at the mill." for i in range(40)]
    graph = make_graph({"a": ("person", MET)}, {})
    ada = replace(graph.nodes[0], descriptions=tuple(Sourced(text, f"chunk-{i}") for i, text in enumerate(many)))
    only = Hierarchy(((Community("all", 0, "", (), ("a",)),),))
    packer = Packer(replace(graph, nodes=(ada,)), only, count, quoted=True, most_quoted=50)
    shown = [line.partition(". ")[2] for line in packer.pack("all", {}, 999).text.splitlines()]
    assert shown == [text for text in many if text in shown]
    assert 3 <= len(shown) <= 8 and shown[0] == many[0] and many.index(shown[-1]) > 25


def test_an_own_report_tells_each_sentence_once(graph):
    text = own_report("all", graph, Packer(graph, HIERARCHY, count, quoted=True)).text
    assert text.count(MET) == text.count(SOLD) == 1


def test_what_cannot_be_quoted_is_left_out_where_there_is_better(graph):
    assert list(quoted_reports.quotable(packed(graph))) == [MET, SOLD, "Cid left for the coast."]
    letters = make_graph({"a": ("person", "Dear Ada,")}, {})
    alone = Packer(letters, Hierarchy(((Community("all", 0, "", (), ("a",)),),)), count, quoted=True)
    assert list(quoted_reports.quotable(alone.pack("all", {}, 99))) == ["Dear Ada,"]


def test_a_title_with_words_that_nobody_said_gives_way_to_the_names(graph):
    assert written(graph, title="Ada sold the mill")[0].title == "Ada sold the mill"
    report, _ = written(graph, title="The mill: a failed project")
    assert report.title == "A, B, C" and report.text.startswith("A, B, C\n")


def test_findings_are_sentences_with_all_that_rests_on_them(graph):
    report, asked = written(graph)
    assert [finding.summary for finding in report.findings] == [MET, SOLD, "Cid left for the coast."]
    assert set(report.findings[1].records) == {"r3", "k1"}
    assert report.text == f"The mill\n- {MET}\n- {SOLD}\n- Cid left for the coast."
    assert (report.rating, report.rating_reason, len(asked)) == (3, REASON, 1)


@pytest.mark.parametrize("reason", ["The mill was sold to the council of Aldane.", "Astronomers depend on telescopes."])
def test_a_reason_of_the_prompts_example_or_of_nowhere_is_left_out(graph, reason):
    report, _ = written(graph, reason=reason)
    assert report.rating_reason == ""
    assert report.summary.startswith(SOLD)


def test_the_author_reads_the_findings_and_nothing_else(graph):
    _, [request] = written(graph)
    assert f"- {MET}\n- {SOLD}\n- Cid left for the coast.\n" in request.prompt
    assert "Dear Miss Dora" not in request.prompt


def test_the_most_central_sentence_comes_first_and_what_repeats_it_last():
    said = {"a": "Rain fell on the mill.", "b": "Rain fell, and the mill stood in it.", "c": "The mill is in Ness now.",
            "d": "Nothing like it at all here."}  # fmt: skip
    graph = make_graph({i: ("object", text) for i, text in said.items()}, {})
    everybody = Hierarchy(((Community("all", 0, "", (), tuple(said)),),))
    context = Packer(graph, everybody, count, quoted=True).pack("all", {}, 999)
    near = Directions(rain=(1, 0, 0), ness=(0.8, 0.6, 0), nothing=(0, 0, 1))
    assert list(quoted_reports.findings(context, near, 500)) == [said["a"], said["d"], said["c"], said["b"]]


def test_what_more_records_rest_on_counts_more(graph):
    same = Directions(ada=(1, 0, 0), cid=(1, 0, 0))
    assert next(iter(quoted_reports.findings(packed(graph), same, 500))) == MET
    bare = make_graph(
        {**SAID, "a": ("person", "Ada was early."), "b": ("person", "")}, {"r3": ("b", "d", SOLD)}, [CLAIM]
    )
    assert next(iter(quoted_reports.findings(packed(bare), same, 500))) == SOLD


def test_findings_take_no_more_than_their_tokens(graph):
    context = packed(graph)
    costs = [step.tokens for step in context.steps if step.action == "add"]
    for room in (100, costs[0] + costs[1], costs[0] + costs[1] - 1, 1):
        found = quoted_reports.findings(context, HashEmbedder(), room)
        assert len(found) == 1 or sum(costs[label - 1] for label in found.values()) <= room
    assert len(quoted_reports.findings(context, HashEmbedder(), 100)) == 3


def test_another_embedder_is_another_report(graph):
    units = [report_unit(ALL, packed(graph), SETTINGS, PROMPTS, e) for e in (None, HashEmbedder(), Directions())]
    assert units[0].key("m") == units[1].key("m") != units[2].key("m")


def test_reports_that_are_there_are_not_written_again(graph):
    report, _ = written(graph)
    silent = EngineRunner(ScriptedEngine(lambda *_: pytest.fail("nothing is to be written")))
    again = write_reports(
        graph, HIERARCHY, [0], SETTINGS, PROMPTS, silent, embedder=Directions(), written={"all": report}
    )
    assert again == {"all": report}


def test_a_sentence_is_embedded_once_in_a_run():
    near = Directions(ada=(1, 0, 0))
    remembering = Remembering(near)
    first = remembering.embed(["Ada", "Bob"])
    assert (remembering.embed(["Bob", "Ada", "Bob"]) == first[[1, 0, 1]]).all() and near.asked == ["Ada", "Bob"]
    assert remembering.embed([]).shape == (0, 3)


def test_sentences_are_compared_only_when_a_report_is_written(graph):
    near = Directions(ada=(1, 0, 0))
    report_unit(ALL, packed(graph), SETTINGS, PROMPTS, near)
    assert near.asked == []
    written(graph, embedder=near)
    assert near.asked == [MET, SOLD, "Cid left for the coast."]


def test_a_summary_keeps_what_the_records_bear_out(graph):
    assert written(graph)[0].summary == SOLD


def test_an_empty_community_has_no_findings():
    bare = make_graph({"a": ("person", "")}, {})
    hierarchy = Hierarchy(((Community("all", 0, "", (), ("a",)),),))

    runner = EngineRunner(ScriptedEngine(lambda *_: '{"title":"A","rating_reason":"-","rating":0,"summary":"-"}'))
    report = write_reports(bare, hierarchy, [0], SETTINGS, PROMPTS, runner)["all"]
    assert report.findings == () and report.text == "A"


def test_a_sub_community_gives_way_to_its_quotations(graph):
    part = Community("part", 1, "top", (), ("a", "b"))
    rest = Community("rest", 1, "top", (), ("c", "d", "e"))
    top = Community("top", 0, "", ("part", "rest"), ALL.node_ids)
    packer = Packer(graph, Hierarchy(((top,), (part, rest))), count, quoted=True)
    report, _ = written(graph)
    reports = {"part": report.__class__(**{**report.__dict__, "community_id": "part"})}
    steps = packer.substitutions("top", 1, lambda i: packer.report_tokens(i, reports) and 1)
    assert [step.id for step in steps if step.action == "substitute"] == ["part"]
    shown = packer.pack("top", reports, packer.size("top").tokens)
    if shown.substituted:
        assert shown.substituted == ("part",) and "Report on The mill" in shown.text


def test_the_example_obeys_the_format():
    prefix = quoted_reports.prefix(PROMPTS)
    check_reply(schema(quoted_reports.about_output()), prefix[2].content)
    assert [message.role for message in prefix] == ["system", "user", "assistant"]


def test_a_context_too_small_says_what_it_holds(graph):
    with pytest.raises(ContextError, match="at least 200 are needed"):
        written(graph, settings=Settings(min_report_tokens=1, context_window=1000, report_tokens=700))
