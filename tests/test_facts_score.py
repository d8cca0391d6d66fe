"""The planted-facts score, on a key and answers worked out by hand."""

from __future__ import annotations

import errno
import json
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from localgraphrag.cli import app
from localgraphrag.config import Settings
from localgraphrag.demo import facts
from localgraphrag.errors import ConfigError
from localgraphrag.evaluate import measures
from localgraphrag.evaluate.facts import NEAR, key_questions, mentions, read_key, refused, score_facts
from localgraphrag.evaluate.records import read_json, read_rows, write_rows
from localgraphrag.llm.scripted import ScriptedEngine, WordTokenizer
from localgraphrag.llm.units import EngineRunner
from localgraphrag.project import Project
from localgraphrag.prompts import Prompts
from localgraphrag.search import text_search
from localgraphrag.search.vector import vector_search

KEY = """
title = "Harbour"
description = "A harbour, made up."
people = []
organizations = []
places = []
contradictions = []

[[themes]]
name = "Rust"
line = "Iron rusts in the water."
documents = ["a.txt"]
terms = ["iron", "rust", "bolt", "water"]
unsaid = []

[[facts]]
id = "men"
type = "fact"
question = "How many men built the pier, and when?"
answer = "Thirty-four men built the pier in 1931."
must_mention = [["thirty-four", "34"], ["1931"]]
documents = ["a.txt"]
evidence = ["34 men"]

[[facts]]
id = "cost"
type = "fact"
question = "What did it cost?"
answer = "It cost 3,800 crowns."
must_mention = [["3,800"]]
documents = ["a.txt"]
evidence = ["3,800"]

[[facts]]
id = "who"
type = "null"
question = "Who paid?"
answer = "The papers do not say."
must_mention = []
documents = []
evidence = []
"""


class Planes:
    """An embedder with three directions, by which word a text has."""

    identity = "planes"
    dimensions = 3

    def embed(self, texts):
        words = ("pier", "cost", "iron")
        rows = np.array([[word in text.lower() for word in words] for text in texts], np.float32)
        return rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1)


def answer(question: str, condition: str, text: str, *, cites: bool = True) -> dict[str, Any]:
    source = {"chunk_id": "c", "document_id": "d", "start": 0, "end": 1}
    citation = {"number": 1, "kind": "chunk", "id": "c", "title": "A", "records": [], "sources": [source]}
    return {
        "question_id": question, "condition": condition, "answer_id": "", "text": text,  # as where none could be kept
        "citations": [citation] if cites else [], "prompt_tokens": 10, "output_tokens": 5, "seconds": 1.0, "calls": 1,
        "cached": False,
    }  # fmt: skip


ANSWERS = [
    answer("men", "C0", "It stood at sea. The pier was built by 34 men. [1]"),  # one of two groups, and near
    answer("cost", "C0", "Iron bolts cost 3800 crowns, said the man. Rust took them. [1]"),  # right; half near
    answer("who", "C0", "None of the 3 chunks helps to answer this question.", cites=False),
    answer("men", "SS", "Thirty–four men built it in 1931 [1]"),  # right by name; no word of the embedder's
    answer("cost", "SS", "The 2 chunks nearest to the question hold no answer to it.", cites=False),
    answer("who", "SS", "Josiah paid for the iron. [1]"),
    answer("else", "SS", "Water, iron. [1]"),
]


@pytest.fixture
def key(tmp_path):
    path = tmp_path / "key.toml"
    path.write_text(KEY, encoding="utf-8")
    return path


@pytest.fixture
def report(key):
    return score_facts(facts(key), ANSWERS, Planes())


def test_each_answer_is_scored_as_worked_out_by_hand(report):
    found = {(s.question_id, s.condition): s for s in report.scores}
    men = found["men", "C0"]
    assert (men.found, men.groups, men.missing, men.by_name) == (1, 2, ("1931",), False)
    assert (men.sentence, men.cosine, men.by_embedding) == ("The pier was built by 34 men.", 1.0, True)
    cost = found["cost", "C0"]
    assert (cost.found, cost.by_name, cost.missing) == (1, True, ())
    assert cost.cosine == pytest.approx(1 / np.sqrt(2), abs=1e-4)  # cost and iron, against cost
    assert cost.by_embedding == (1 / np.sqrt(2) >= NEAR)
    assert (found["men", "SS"].by_name, found["men", "SS"].by_embedding) == (True, False)


def test_a_refusal_is_right_for_a_null_question_and_for_no_other(report):
    found = {(s.question_id, s.condition): s for s in report.scores}
    right, wrong = found["who", "C0"], found["who", "SS"]
    assert (right.refused, right.by_name, right.by_embedding) == (True, True, True)
    assert (wrong.refused, wrong.by_name, wrong.by_embedding) == (False, False, False)
    told = found["cost", "SS"]
    assert (told.refused, told.found, told.by_name, told.by_embedding) == (True, 0, False, False)
    assert told.missing == ("3,800",)


def test_shares_by_kind_and_condition(report):
    shares = report.shares
    assert list(shares) == ["fact", "null", "all", "themes"]
    c0, ss = shares["fact"]["C0"], shares["fact"]["SS"]
    assert (c0.questions, c0.mentioned, c0.by_name, c0.by_embedding, c0.refused) == (2, 0.75, 0.5, 1.0, 0.0)
    assert (ss.questions, ss.mentioned, ss.by_name, ss.by_embedding, ss.refused) == (2, 0.5, 0.5, 0.0, 0.5)
    assert (shares["null"]["C0"].by_name, shares["null"]["SS"].by_name) == (1.0, 0.0)
    assert shares["all"]["C0"].by_name == pytest.approx(2 / 3)
    # graded: the mean cosine of the nearest sentences, 0 of a refusal, without null questions
    assert c0.cosine == pytest.approx((1 + 1 / np.sqrt(2)) / 2, abs=1e-4)
    assert ss.cosine == 0.0
    assert shares["null"]["C0"].cosine is None
    assert shares["all"]["C0"].cosine == c0.cosine
    assert shares["themes"]["SS"].cosine == pytest.approx(1)
    assert report.near == NEAR
    assert report.others == 1
    assert report.unanswered == {}


def test_a_theme_is_shown_by_the_answer_with_most_of_its_terms(report):
    by_condition = {theme.condition: theme for theme in report.themes}
    c0, ss = by_condition["C0"], by_condition["SS"]
    assert (c0.question_id, c0.found, c0.by_name) == ("cost", ("iron", "rust", "bolt"), True)
    assert (ss.question_id, ss.found, ss.by_name) == ("else", ("iron", "water"), True)  # half is enough
    assert (ss.nearest_id, ss.sentence, ss.by_embedding) == ("who", "Josiah paid for the iron.", True)
    assert report.shares["themes"]["C0"].mentioned == 0.75


def test_what_has_no_answer_is_told_and_not_counted(key):
    report = score_facts(facts(key), [row for row in ANSWERS if row["question_id"] != "men"], None)
    assert report.unanswered == {"C0": ("men",), "SS": ("men",)}
    assert report.shares["fact"]["C0"].questions == 1


def test_without_an_embedder_only_names_are_scored(key):
    report = score_facts(facts(key), ANSWERS, None)
    assert report.embedder == ""
    assert {s.by_embedding for s in report.scores if s.kind != "null"} == {None}
    assert report.shares["fact"]["C0"].by_embedding is None
    assert {share.cosine for shares in report.shares.values() for share in shares.values()} == {None}
    assert report.shares["fact"]["C0"].by_name == 0.5


# What counts as saying it


@pytest.mark.parametrize(
    ("text", "term", "said"),
    [
        ("Thirty four men", "thirty-four", True),
        ("thirty‑four men", "thirty-four", True),
        ("34 men", "34", True),
        ("in 1934", "34", False),
        ("340 men", "34", False),
        ("It rests on [34]", "34", False),
        ("3 800 crowns, or 3.800, or 3800", "3,800", True),
        ("13,800 crowns", "3,800", False),
        ("in 2019 412 were there", "2019", True),
        ("1.5 m", "15", False),
        ("the Boatmen’s Fund", "Boatmen's Fund", True),
        ("hulls", "hull", True),
        ("a screw", "crew", False),
        ("ΑΘΗΝΑ", "αθηνα", True),
        ("他在北京工作", "北京", True),
        ("第34号", "34", True),
        ("anything", "", False),
    ],
)
def test_terms_are_found_as_a_reader_would(text, term, said):
    assert mentions(text, term) is said


@given(
    st.text(max_size=20), st.sampled_from(["34", "Tanner's Row", "thirty-four", "3,800", "北京"]), st.text(max_size=20)
)
def test_a_term_between_spaces_is_always_found(before, term, after):
    assert mentions(f"{before} ; {term} ; {after}", term)


def test_every_planted_answer_of_the_demo_says_what_it_must():
    """The evidence quoted in the key, or the expected answer, mentions every group: the score can reach 100 %."""
    for fact in facts().facts:
        shown = " ".join([fact.answer, *fact.evidence])
        if fact.type != "global":
            missing = [g for g in fact.must_mention if not any(mentions(shown, term) for term in g)]
            assert missing == [], fact.id


# Refusals are told from the record: the tool's own are made here by the tool itself


def engine(reply: str) -> ScriptedEngine:
    return ScriptedEngine(lambda _messages, _request: reply)


def stored(found) -> dict[str, Any]:
    return {"text": found.text, "citations": list(found.citations)}


def test_the_tools_own_refusals_are_recognised():
    from localgraphrag.chunks import chunk_document
    from localgraphrag.documents import Document

    chunks = chunk_document(Document("d" * 64, "A", "The pier is old. " * 5, ("a.txt",)), WordTokenizer())
    given: dict[str, Any] = {"settings": Settings(context_window=4000), "prompts": Prompts()}
    useless = EngineRunner(engine('{"points":[]}'))
    assert refused(stored(text_search("Who?", chunks=chunks, runner=useless, **given)))
    assert refused(stored(text_search("Who?", chunks=[], runner=useless, **given)))
    vectors = ([chunk.id for chunk in chunks], Planes().embed([chunk.text for chunk in chunks]))
    for reply, no in (
        ('{"answer":[]}', True),
        ('{"answer":[{"heading":"The pier","text":"The pier is old."}]}', False),
    ):
        found = vector_search(
            "Who?", chunks=chunks, vectors=vectors, embedder=Planes(), runner=EngineRunner(engine(reply)), **given
        )
        assert refused(stored(found)) is no
    assert refused({"text": " ", "citations": [1]})


# The files and the command


def test_questions_of_the_key_are_added_to_those_that_are_there(tmp_path, key):
    project = Project.open(tmp_path / "p")
    path = tmp_path / "p" / "evaluation" / "questions.jsonl"
    write_rows(path, [{"id": "mine", "question": "What else?", "mark": "é\u2028"}])
    assert measures.write_key_questions(project, key) == (3, 4)
    assert measures.write_key_questions(project, key) == (0, 4)
    rows = read_rows(path, "id", "question")
    assert rows[0] == {"id": "mine", "question": "What else?", "mark": "é\u2028"}
    assert rows[1]["must_mention"] == [["thirty-four", "34"], ["1931"]]
    assert (rows[3]["kind"], rows[3]["persona"], rows[3]["task"]) == ("null", "", "")


def test_the_demo_key_gives_all_its_questions():
    rows = key_questions(facts())
    assert len({row["id"] for row in rows}) == len(facts().facts)
    assert {row["kind"] for row in rows} == {"fact", "multi_hop", "comparison", "null", "global"}


def test_the_command_scores_and_writes_facts_json(tmp_path, key):
    folder = tmp_path / "p"
    write_rows(folder / "evaluation" / "answers.jsonl", ANSWERS)
    arguments = ["evaluate", "facts", "--project", str(folder), "--key", str(key), "--no-embedding"]
    run = CliRunner().invoke(app, arguments)
    assert run.exit_code == 0, run.output
    assert ["fact", "C0", "2", "75%", "50%", "0%"] in [line.split() for line in run.stdout.splitlines()]
    written = json.loads((folder / "evaluation" / "facts.json").read_text(encoding="utf-8"))
    assert written["shares"]["fact"]["SS"]["by_name"] == 0.5
    assert len(written["scores"]) == 6


def test_a_broken_file_is_named_with_its_line(tmp_path):
    path: Path = tmp_path / "answers.jsonl"
    path.write_text('{"question_id": "a", "text": ""}\n\n{"question_id"', encoding="utf-8")
    with pytest.raises(ConfigError, match="line 3, is not JSON"):
        read_rows(path)
    path.write_text('{"question_id": "a"}\n', encoding="utf-8")
    with pytest.raises(ConfigError, match=r"line 1, must be an object with question_id, text; it lacks text"):
        read_rows(path, "question_id", "text")
    path.write_text("[1]\n", encoding="utf-8")
    with pytest.raises(ConfigError, match="line 1"):
        read_rows(path)
    with pytest.raises(ConfigError, match="There is no"):
        read_rows(tmp_path / "no.jsonl")


def test_what_the_file_system_says_is_one_sentence(tmp_path, monkeypatch):
    """One of ours, that names the file, whatever was in the way."""
    folder = tmp_path / "answers.jsonl"
    folder.mkdir()
    (tmp_path / "latin.jsonl").write_bytes('{"text": "é"}'.encode("latin-1"))
    (tmp_path / "file").write_text("", encoding="utf-8")
    reading = [
        (read_rows, folder),
        (read_json, folder),
        (read_rows, tmp_path / "file" / "rows.jsonl"),
        (read_key, folder),
    ]
    for read, path in [*reading, (read_rows, tmp_path / "latin.jsonl"), (read_key, tmp_path / "no.toml")]:
        with pytest.raises(ConfigError, match=f"{path.name} cannot be read: .*\\. [SG]"):
            read(path)
    with pytest.raises(ConfigError, match=r"answers.jsonl cannot be written: .*who may read it and write to it"):
        write_rows(folder, [])
    with pytest.raises(ConfigError, match="file cannot be made a folder"):
        write_rows(tmp_path / "file" / "rows.jsonl", [])
    monkeypatch.setattr(Path, "write_text", Mock(side_effect=OSError(errno.EIO, "Input/output error")))
    with pytest.raises(ConfigError, match="rows.jsonl cannot be written: Input/output error"):
        write_rows(tmp_path / "rows.jsonl", [])
    assert list(tmp_path.glob("*.new")) == []


def test_a_key_by_which_any_answer_is_right_is_refused(tmp_path):
    read_key()  # the demo's is none
    for empty in ("[]", '[["3,800"], []]'):
        path = tmp_path / "key.toml"
        path.write_text(KEY.replace('[["3,800"]]', empty), encoding="utf-8")
        with pytest.raises(ConfigError, match="nothing in must_mention, or an empty group, for cost"):
            measures.measure_facts(Project.open(tmp_path), path)
        with pytest.raises(ConfigError, match="type null"):
            measures.write_key_questions(Project.open(tmp_path), path)
