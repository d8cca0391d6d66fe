"""The report: one file that needs nothing else, in which every figure leads to its records."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from test_economics import hand_made
from test_facts_score import KEY
from typer.testing import CliRunner

from localgraphrag.cli import app
from localgraphrag.errors import ConfigError
from localgraphrag.evaluate import measures
from localgraphrag.evaluate.page import Anchors
from localgraphrag.evaluate.records import write_json, write_rows
from localgraphrag.evaluate.report import Evaluation, report_html
from localgraphrag.project import Project

CONDITIONS = ("C0", "SS", 'Own <way> & "more"')
QUESTIONS = [
    {"id": "men", "question": "How many men built the pier, & when?", "persona": "A historian", "task": "Dates"},
    {"id": "who", "question": "Who paid <b>?", "kind": "null", "answer": "Nobody knows.", "answers": ["Nobody knows."]},
]


def answer(question: str, condition: str, i: int) -> dict[str, Any]:
    source = {"chunk_id": "chunk1", "document_id": "d" * 64, "start": 0, "end": 5}
    citation = {"number": 1, "kind": "chunk", "id": "chunk1", "title": "Letter", "records": [], "sources": [source]}
    return {
        "question_id": question, "condition": condition, "answer_id": f"a-{question}-{i}",
        "text": f"Thirty-four men <script>alert({i})</script> in 1931. [1]" if question == "men" else "Nothing helps.",
        "citations": [citation] if question == "men" else [], "prompt_tokens": 1000 * (i + 1), "output_tokens": 50,
        "seconds": 2.5, "calls": 3, "cached": False,
    }  # fmt: skip


def verdict(metric: str, first: str, second: str, winner: str, **more: Any) -> dict[str, Any]:
    return {
        "question_id": "men", "metric": metric, "first": first, "second": second, "repeat": 1, "winner": winner,
        "reason": f"{first} says more than {second}.", "judge": "m", "error": "", **more,
    }  # fmt: skip


def write_evaluation(folder: Path) -> Path:
    """A project with every file an evaluation can leave."""
    hand_made(folder)
    evaluation = folder / "evaluation"
    write_rows(evaluation / "questions.jsonl", QUESTIONS)
    answers = [answer(q["id"], c, i) for q in QUESTIONS for i, c in enumerate(CONDITIONS)]
    write_rows(evaluation / "answers.jsonl", answers)
    verdicts = [verdict("comprehensiveness", "C0", "SS", "first"), verdict("comprehensiveness", "SS", "C0", "second")]
    verdicts.append(verdict("comprehensiveness", "C0", "SS", "", error="It did not answer.", repeat=2))
    write_rows(evaluation / "verdicts.jsonl", verdicts)
    pair = {"first": "C0", "second": "SS", "questions": 1, "rate": 0.8, "low": 0.55, "high": 1.0, "p": 0.04}
    metric = {"position_bias": 0.25, "failed": 1, "pairs": [{**pair, "p_holm": 0.0001}]}
    told = {"judge": "m", "warning": "A small judge.", "directness_check": "SS wins directness: yes."}
    write_json(evaluation / "judgements.json", {**told, "metrics": {"comprehensiveness": metric}})
    claim = {"text": "Men built it.", "sentence": 0, "supported": True}
    claims = [{"question_id": "men", "condition": "C0", "claims": [claim, {**claim, "supported": False}], "error": ""}]
    claims.append({"question_id": "men", "condition": "SS", "claims": [], "error": "No claims came back."})
    write_rows(evaluation / "claims.jsonl", claims)
    conditions = {
        "C0": {"answers": 1, "claims": 2.0, "clusters": {"0.5": 1.0, "0.8": 2.0}, "faithfulness": 0.5, "failed": 0},
        "SS": {"answers": 1, "claims": 0.0, "clusters": {"0.5": 0.0, "0.8": 0.0}, "faithfulness": None, "failed": 1},
    }
    agreement = {"comprehensiveness": {"rate": 1.0, "pairs": 1}}
    write_json(evaluation / "claims.json", {"conditions": conditions, "agreement": agreement})
    (folder / "key.toml").write_text(KEY, encoding="utf-8")
    project = Project.open(folder)
    measures.measure_facts(project, folder / "key.toml", by_embedding=False)
    measures.measure_qa(project)
    return folder


class Reader(HTMLParser):
    """Ids, links, tags, and the cells of figures with where each leads and in which section."""

    void = {"meta", "br"}

    def __init__(self, page: str) -> None:
        super().__init__()
        self.ids: list[str] = []
        self.hrefs: list[str] = []
        self.tags: list[str] = []
        self.open: list[str] = []
        self.figures: list[tuple[str, str, str]] = []
        self._section, self._cell = "", None
        self.records = False
        self.feed(page)
        self.close()

    def handle_starttag(self, tag, attributes):
        found = dict(attributes)
        self.tags.append(tag)
        if tag not in self.void:
            self.open.append(tag)
        if "id" in found:
            self.ids.append(found["id"])
            self.records |= found["id"] == "records"
        if tag == "section":
            self._section = "" if self.records else found["id"]
        if found.get("href"):
            self.hrefs.append(found["href"])
        if tag == "td" and found.get("class") == "n":
            self._cell = ["", ""]
        if tag == "a" and self._cell is not None:
            self._cell[1] = found["href"]

    def handle_endtag(self, tag):
        assert self.open.pop() == tag
        if tag == "td" and self._cell is not None:
            self.figures.append((self._section, *self._cell))
            self._cell = None

    def handle_data(self, data):
        if self._cell is not None:
            self._cell[0] += data


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    folder = write_evaluation(tmp_path_factory.mktemp("report") / "harbour")
    path = measures.write_report(Project.open(folder))
    assert path == folder / "evaluation" / "report.html"
    return path.read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def read(page):
    return Reader(page)


def test_it_is_one_well_formed_file_that_fetches_nothing(page, read):
    assert read.open == []
    assert not {"script", "link", "img", "iframe", "object"} & set(read.tags)
    assert all(href.startswith("#") for href in read.hrefs)
    assert not re.search(r"url\(|@import|src=", page)
    assert "default-src 'none'" in page


def test_every_link_leads_to_one_place_in_it(read):
    assert len(read.ids) == len(set(read.ids))
    assert {href.removeprefix("#") for href in read.hrefs} <= set(read.ids)


def test_every_figure_leads_to_its_records(read):
    figures = [figure for figure in read.figures if figure[0]]
    assert {section for section, *_ in figures} == {"judged", "claims", "facts", "gold", "economics", "answers"}
    assert [text for _, text, href in figures if not href] == []


def test_figures_are_those_of_the_files(read):
    shown = {(section, text) for section, text, _ in read.figures}
    assert ("judged", "80 %") in shown
    assert ("judged", "55 % to 100 %") in shown
    assert ("judged", "< 0.001") in shown
    assert ("claims", "50 %") in shown
    assert ("economics", "240") not in shown  # a sum, told in the caption
    assert ("economics", "24") in shown  # pays after so many questions
    assert {("answers", "1,000"), ("answers", "2,000"), ("answers", "3,000")} <= shown


def test_texts_are_shown_and_never_run(page):
    assert "&lt;script&gt;alert(0)&lt;/script&gt;" in page
    assert "<script" not in page
    assert "Who paid &lt;b&gt;?" in page
    assert "Own &lt;way&gt; &amp; &#34;more&#34;" in page


def test_both_cells_of_a_pair_are_drawn_and_lead_to_its_verdicts(page):
    heat = page.split("Win rates, comprehensiveness")[1].split("</svg>")[0]
    assert re.findall(r">(\d+ %)<", heat) == ["80 %", "20 %"]
    assert re.findall(r">(\d+ to \d+)<", heat) == ["55 to 100", "0 to 45"]
    assert heat.count('href="#verdicts-comprehensiveness-C0-SS"') == 2
    verdicts = page.split('id="verdicts-comprehensiveness-C0-SS"')[1].split("</section>")[0]
    assert verdicts.count("<tr>") == 4  # its head and three verdicts
    assert "It did not answer." in verdicts


def test_it_is_the_same_every_time(tmp_path, page):
    folder = write_evaluation(tmp_path / "harbour")
    assert measures.write_report(Project.open(folder)).read_text(encoding="utf-8") == page


def test_what_was_not_run_is_left_out(tmp_path):
    folder = hand_made(tmp_path / "harbour")
    run = CliRunner().invoke(app, ["evaluate", "report", "--project", str(folder), "--out", str(tmp_path / "r.html")])
    assert run.exit_code == 0, run.output
    read = Reader((tmp_path / "r.html").read_text(encoding="utf-8"))
    assert {section for section, *_ in read.figures if section} == {"economics"}


def test_without_the_answers_nothing_leads_astray(tmp_path):
    folder = write_evaluation(tmp_path / "harbour")
    (folder / "evaluation" / "answers.jsonl").unlink()
    read = Reader(measures.write_report(Project.open(folder)).read_text(encoding="utf-8"))
    assert {href.removeprefix("#") for href in read.hrefs} <= set(read.ids)


def test_nothing_at_all_is_said(tmp_path):
    with pytest.raises(ConfigError, match="nothing to report"):
        report_html(Evaluation(), None, title="x")
    with pytest.raises(ConfigError, match="nothing to report"):
        measures.write_report(Project.open(tmp_path))


def test_anchors_of_different_things_differ():
    anchors = Anchors()
    names = [anchors("answer", q, c) for q in ("a b", "a-b", "北京", "") for c in ("C0", "C 0", "<>")]
    assert len(set(names)) == len(names)
    assert all(re.fullmatch(r"[\w-]+", name, re.ASCII) for name in names)
    assert anchors("answer", "a b", "C0") == names[0]
