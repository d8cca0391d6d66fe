"""Reports whose findings are sentences of the documents: one record a sentence, chosen by the model word for word."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from test_summaries import make_graph

from localgraphrag import quoted_reports
from localgraphrag.communities import Community, Hierarchy
from localgraphrag.config import Settings
from localgraphrag.errors import ContextError
from localgraphrag.graph import GraphClaim, Sourced
from localgraphrag.llm.output import check_reply, schema
from localgraphrag.llm.scripted import ScriptedEngine, WordTokenizer
from localgraphrag.llm.units import EngineRunner
from localgraphrag.packing import Packer
from localgraphrag.prompts import Prompts
from localgraphrag.summaries import own_report, write_reports

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


def written(graph, *replies, settings=SETTINGS, title="The mill"):
    """The report on all, and the prompts asked; `replies`: findings of the first turns."""
    asked, left = [], list(replies)

    def answer(messages, request):
        asked.append(request)
        if '"findings"' in request.output.schema:
            return json.dumps({"findings": left.pop(0)}, separators=(",", ":"))
        about = {"title": title, "rating_reason": "Bob", "rating": 3, "summary": f"{SOLD} Ada flew to the moon."}
        return json.dumps(about, separators=(",", ":"))

    runner = EngineRunner(ScriptedEngine(answer))
    return write_reports(graph, HIERARCHY, [0], settings, PROMPTS, runner)["all"], asked


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
    assert written(graph, [SOLD, MET], title="Ada sold the mill")[0].title == "Ada sold the mill"
    report, _ = written(graph, [SOLD, MET], title="The mill: a failed project")
    assert report.title == "A, B, D" and report.text.startswith("A, B, D\n")


def test_findings_are_sentences_with_all_that_rests_on_them(graph):
    report, asked = written(graph, [SOLD, MET])
    assert [finding.summary for finding in report.findings] == [SOLD, MET]
    assert set(report.findings[0].records) == {"r3", "k1"}
    assert report.text == f"The mill\n- {SOLD}\n- {MET}"
    assert (report.rating, report.rating_reason, len(asked)) == (3, "Bob", 2)


def test_a_summary_keeps_what_the_records_bear_out(graph):
    assert written(graph, [SOLD, MET])[0].summary == SOLD


def test_what_was_quoted_twice_is_asked_again(graph):
    report, asked = written(graph, [MET, MET], [SOLD])
    assert [finding.summary for finding in report.findings] == [MET, SOLD]
    assert (
        len(asked) == 3
        and '"minItems": 1' in asked[0].output.schema
        and MET not in asked[1].output.schema
        and SOLD in asked[1].output.schema
    )


def test_as_many_are_asked_for_as_the_cap_holds_were_they_the_longest(graph):
    context = packed(graph)
    said = quoted_reports.quotable(context)
    most = [quoted_reports.most_findings(context, said, cap) for cap in (100, 60, 45, 10)]
    assert most[0] == len(said) == 3 and most == sorted(most, reverse=True) and most[-1] == 1


def test_only_sentences_of_the_context_can_be_quoted(graph):
    _, asked = written(graph, [SOLD, MET])
    reply = json.dumps({"findings": [SOLD, "Ada flew to the moon."]}, separators=(",", ":"))
    with pytest.raises(Exception, match="moon|reply"):
        check_reply(asked[0].output, reply)


def test_an_empty_community_has_no_findings():
    bare = make_graph({"a": ("person", "")}, {})
    hierarchy = Hierarchy(((Community("all", 0, "", (), ("a",)),),))

    def answer(messages, request):
        if '"findings"' in request.output.schema:
            return '{"findings":[]}'
        return '{"title":"A","rating_reason":"-","rating":0,"summary":"-"}'

    runner = EngineRunner(ScriptedEngine(answer))
    report = write_reports(bare, hierarchy, [0], SETTINGS, PROMPTS, runner)["all"]
    assert report.findings == () and report.text == "A"


def test_a_sub_community_gives_way_to_its_quotations(graph):
    part = Community("part", 1, "top", (), ("a", "b"))
    rest = Community("rest", 1, "top", (), ("c", "d", "e"))
    top = Community("top", 0, "", ("part", "rest"), ALL.node_ids)
    packer = Packer(graph, Hierarchy(((top,), (part, rest))), count, quoted=True)
    report, _ = written(graph, [SOLD, MET])
    reports = {"part": report.__class__(**{**report.__dict__, "community_id": "part"})}
    steps = packer.substitutions("top", 1, lambda i: packer.report_tokens(i, reports) and 1)
    assert [step.id for step in steps if step.action == "substitute"] == ["part"]
    shown = packer.pack("top", reports, packer.size("top").tokens)
    if shown.substituted:
        assert shown.substituted == ("part",) and "Report on The mill" in shown.text


def test_the_example_obeys_the_format():
    example = PROMPTS.render("report_quotes_example").splitlines()
    said = [line.partition(". ")[2] for line in example]
    prefix = quoted_reports.prefix(PROMPTS)
    check_reply(schema(quoted_reports.findings_output(said, 5)), prefix[2].content)
    check_reply(schema(quoted_reports.about_output()), prefix[4].content)
    assert [message.role for message in prefix] == ["system", "user", "assistant", "user", "assistant"]


def test_a_context_too_small_says_what_it_holds(graph):
    with pytest.raises(ContextError, match="at least 200 are needed"):
        written(graph, settings=Settings(min_report_tokens=1, context_window=1000))
