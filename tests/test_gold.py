"""Gold sets and the question answering score: readers on the real files, measures worked out by hand."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from localgraphrag import tables
from localgraphrag.cli import app
from localgraphrag.documents import read_documents
from localgraphrag.errors import ConfigError
from localgraphrag.evaluate.gold import (
    GoldQuestion,
    GoldSet,
    document_id,
    gold_questions,
    questions_of,
    read_gold,
    write_passages,
)
from localgraphrag.evaluate.qa import contains, exact_match, recall_at, score_answers, token_f1
from localgraphrag.evaluate.records import read_rows, write_rows
from localgraphrag.llm.types import Usage
from localgraphrag.search.answer import Answer
from localgraphrag.store import Store

# Measures


def test_measures_worked_out_by_hand():
    assert exact_match("The Long Pier!", "long pier") == 1
    assert exact_match("The Long Pier of Ostrey", "long pier") == 0
    # said: it was long pier in 1931 (6 words); gold: long pier (2): shared 2, so 2*2/8
    assert token_f1("It was the Long Pier, in 1931. [1]", "the Long Pier") == pytest.approx(0.5)
    assert token_f1("pier pier pier", "pier") == pytest.approx(0.5)  # a word counts as often as gold has it
    assert token_f1("Ostrey", "Corvane") == 0
    assert token_f1("yes, certainly", "yes") == 0  # HotpotQA: yes and no are right or wrong
    assert token_f1("Yes.", "yes") == 1
    assert contains("The papers say: yes, certainly.", "Yes") == 1
    assert contains("In 1931.", "193") == 0
    assert contains("anything", "the") == 0  # no word is left of it


def test_recall_counts_distinct_documents_in_order():
    assert recall_at(["a", "b", "a", "c", "d"], ["c", "d"]) == {2: 0.0, 5: 1.0, 10: 1.0}
    assert recall_at(["a", "c", "a", "d"], ["c", "d", "c"]) == {2: 0.5, 5: 1.0, 10: 1.0}
    assert recall_at([], ["c"]) == {2: 0.0, 5: 0.0, 10: 0.0}
    assert recall_at(["a"], []) is None


@given(st.text(max_size=40), st.text(max_size=40))
def test_f1_is_a_share_symmetric_and_one_for_an_exact_match(one, other):
    f1 = token_f1(one, other)
    assert 0 <= f1 <= 1
    assert f1 == pytest.approx(token_f1(other, one))
    assert token_f1(one, one) == exact_match(one, one) == 1
    assert f1 >= exact_match(one, other)


# Scoring

GOLD = GoldSet(
    "harbour",
    (
        GoldQuestion("q1", "Who built it?", "single", ("Josiah Pryde", "Pryde"), ("d1", "d2")),
        GoldQuestion("q2", "Did it fall?", "single", ("No",), ("d3",)),
        GoldQuestion("q3", "Who paid?", "none", ("Insufficient information",), (), null=True),
    ),
)


def row(question: str, condition: str, text: str, cited: list[str]) -> dict[str, Any]:
    citations = [{"number": i, "sources": [{"document_id": d}]} for i, d in enumerate(cited, 1)]
    return {
        "question_id": question, "condition": condition, "answer_id": f"{question}-{condition}", "text": text,
        "citations": citations,
    }  # fmt: skip


ANSWERS = [
    row("q1", "SS", "Pryde. [1]", ["d1", "d1", "d9"]),
    row("q2", "SS", "It did, in 1931. [1]", ["d9", "d8", "d3"]),
    row("q3", "SS", "The chunks hold no answer.", []),
    row("q1", "C0", "None of the reports helps.", []),
    row("q3", "C0", "Insufficient information. [1]", ["d1"]),
    row("q0", "C0", "Of another set. [1]", ["d1"]),
]


def stored(id_: str) -> Answer | None:
    if not id_.endswith("SS"):
        return None
    record = {"batches": [{"ids": ["c9", "c2", "c1", "gone"]}]}
    return Answer("", "ss", None, "", (), Usage(), record)


@pytest.fixture
def report():
    return score_answers(GOLD, ANSWERS, stored, {"c1": "d1", "c2": "d2", "c9": "d9"})


def test_answers_are_scored_as_worked_out_by_hand(report):
    found = {(s.question_id, s.condition): s for s in report.scores}
    assert len(found) == 5  # the answer to a question of another set is passed over
    first = found["q1", "SS"]
    assert (first.exact, first.f1, first.contains) == (1, 1, 1)  # the better of two gold answers
    assert first.recall == {2: 0.5, 5: 0.5, 10: 0.5}  # d1 of d1 and d2
    assert first.retrieved == {2: 0.5, 5: 1.0, 10: 1.0}  # d9, d2, d1
    wrong = found["q2", "SS"]
    assert (wrong.exact, wrong.f1, wrong.contains) == (0, 0, 0)
    assert wrong.recall == {2: 0.0, 5: 1.0, 10: 1.0}
    refusal = found["q1", "C0"]
    assert (refusal.refused, refusal.exact, refusal.f1, refusal.contains) == (True, 0, 0, 0)
    assert refusal.retrieved is None


def test_null_questions_want_a_refusal_or_the_sets_own_words(report):
    found = {(s.question_id, s.condition): s for s in report.scores}
    assert (found["q3", "SS"].refused, found["q3", "SS"].exact) == (True, 1.0)
    assert (found["q3", "C0"].refused, found["q3", "C0"].exact) == (False, 1.0)
    assert found["q3", "SS"].recall is None


def test_the_answer_that_an_unanswerable_question_would_have_had_is_not_right():
    gold = GoldSet("musique", (GoldQuestion("q", "Who built it?", "2hop", ("Josiah Pryde",), (), null=True),))
    told, refusal = (row("q", name, text, cited) for name, text, cited in
                     (("TS", "Josiah Pryde [1]", ["d1"]), ("SS", "The chunks hold no answer.", [])))  # fmt: skip
    wrong, right = score_answers(gold, [told, refusal], stored, {}).scores
    assert (wrong.exact, wrong.f1, wrong.contains) == (0, 0, 0)
    assert (right.exact, right.f1, right.contains) == (1, 1, 1)


def test_means_by_kind_and_condition(report):
    assert list(report.means) == ["single", "none", "answerable", "null", "all"]
    ss, c0 = report.means["answerable"]["SS"], report.means["answerable"]["C0"]
    assert (ss.questions, ss.exact, ss.refused, ss.recall[5]) == (2, 0.5, 0.0, 0.75)
    assert (c0.questions, c0.exact, c0.refused) == (1, 0.0, 1.0)
    assert report.means["null"]["SS"].refused == 1.0
    assert report.means["all"]["SS"].exact == pytest.approx(2 / 3)


def test_gold_survives_the_questions_file(tmp_path):
    path = tmp_path / "questions.jsonl"
    write_rows(path, [{"id": "x", "question": "About what?"}, *gold_questions(GOLD)])
    back = questions_of(read_rows(path, "id", "question"))
    assert back.questions == GOLD.questions
    with pytest.raises(ConfigError, match='has an "answer"'):
        questions_of([{"id": "x", "question": "About what?"}])


# Readers, on the real files


def test_lihua_world(corpus):
    folder = corpus("lihua_world")
    gold = read_gold(folder)
    raw = json.loads((folder / "query_set.json").read_text(encoding="utf-8"))
    assert len(gold.questions) == len(raw)
    assert sum(q.null for q in gold.questions) == sum(e["type"] == "Null" for e in raw.values())
    by_id = {d.id: d for d in read_documents([folder / "chats"]).documents}
    question = next(q for q in gold.questions if q.id == "lihua-2")
    heads = [by_id[id_].text.split("\n")[0] for id_ in question.supporting]
    assert heads == ["Time: 20260123_17:00", "Time: 20260930_16:00"]
    named = sum(len(q.supporting) + q.lost for q in gold.questions)
    assert sum(q.lost for q in gold.questions) / named < 0.03
    assert all(q.supporting or q.lost for q in gold.questions if not q.null)


@pytest.mark.parametrize(("name", "count"), [("hotpot_100.jsonl", 10), ("musique_100.jsonl", 20)])
def test_multihop_passages_are_documents_once_indexed(corpus, tmp_path, name, count):
    gold = read_gold(corpus("multihop_qa") / name)
    assert len(gold.questions) == 100
    assert len(gold.passages) <= 100 * count
    write_passages(gold, tmp_path / "passages.jsonl")
    ids = {document.id for document in read_documents([tmp_path / "passages.jsonl"]).documents}
    lost = {id_ for question in gold.questions for id_ in question.supporting} - ids
    assert lost == set()
    assert all(len(question.supporting) >= 2 for question in gold.questions)


def test_a_folder_of_sets_is_one_set(corpus):
    gold = read_gold(corpus("multihop_qa"))
    assert len(gold.questions) == 200
    assert {q.kind for q in gold.questions} == {"bridge", "comparison", "2hop"}


def test_what_is_no_gold_set_is_refused(tmp_path):
    with pytest.raises(ConfigError, match="is no gold set"):
        read_gold(tmp_path)
    write_rows(tmp_path / "x.jsonl", [{"id": 1, "question": "?", "answer": "!"}])
    with pytest.raises(ConfigError, match="neither of HotpotQA's form"):
        read_gold(tmp_path)


# The command


def test_the_command_writes_questions_then_scores(tmp_path):
    paragraph = {"title": "Pier", "paragraph_text": "Pryde built it.", "is_supporting": True}
    entry = {"id": "2hop__1", "question": "Who?", "answer": "Pryde", "answer_aliases": [], "paragraphs": [paragraph]}
    write_rows(tmp_path / "set.jsonl", [entry])
    folder = tmp_path / "p"
    gold = ["--project", str(folder), "--gold", str(tmp_path / "set.jsonl")]
    run = CliRunner().invoke(app, ["evaluate", "qa", *gold, "--write-questions"])
    assert run.stdout == "1 questions added, 1 in all.\n"
    passages = read_rows(folder / "evaluation" / "set-passages.jsonl")
    assert passages == [{"title": "Pier", "text": "Pryde built it."}]
    supporting = document_id("Pryde built it.")
    write_rows(folder / "evaluation" / "answers.jsonl", [row("2hop__1", "TS", "Pryde did. [1]", [supporting])])
    with Store(folder / "index.db", writer="index") as store:
        empty = tables.Index((), (), tables.Graph((), (), ()), tables.Hierarchy(()), {})
        tables.save_index(store, empty, used={}, model="m", meta={})
    run = CliRunner().invoke(app, ["evaluate", "qa", "--project", str(folder)])
    assert run.exit_code == 0, run.output
    shown = [line.split() for line in run.stdout.splitlines()]
    # "pryde did" against "pryde": precision 1/2, recall 1
    assert ["all", "TS", "1", "0%", "0.67", "100%", "2:100%", "5:100%", "10:100%", "0%"] in shown
    written = json.loads((folder / "evaluation" / "qa.json").read_text(encoding="utf-8"))
    assert written["means"]["2hop"]["TS"]["f1"] == pytest.approx(2 / 3)
