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
from localgraphrag.evaluate import measures, report_judged
from localgraphrag.evaluate.page import Anchors
from localgraphrag.evaluate.records import read_json, read_rows, write_json, write_rows
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
        "seconds": 2.5, "calls": 3, "cached": False, **({} if i else {"read_tokens": 700}),
    }  # fmt: skip


def verdict(metric: str, first: str, second: str, winner: str, **more: Any) -> dict[str, Any]:
    ids = {name: f"a-men-{i}" for i, name in enumerate(CONDITIONS)}
    return {
        "question_id": "men", "metric": metric, "first": first, "second": second, "repeat": 1, "winner": winner,
        "reason": f"{first} says more than {second}.", "judge": "m", "error": "",
        "first_answer": ids[first], "second_answer": ids[second], **more,
    }  # fmt: skip


def claims_of(condition: str, claims: list[dict[str, Any]], error: str = "") -> dict[str, Any]:
    clusters = {"0.5": 1, "0.6": 1, "0.7": 1, "0.8": 1}
    return {
        "question_id": "men", "condition": condition, "answer_id": f"a-men-{CONDITIONS.index(condition)}",
        "claims": claims, "error": error, "failed": int(bool(error)), "extracted": 4, "exact": len(claims) + 4,
        "sentences": 2, "clusters": clusters, "model": "r", "embedder": "e",
    }  # fmt: skip


TOOK = {
    "units": 9, "stored": 0, "failed": 1, "calls": 4321, "prompt_tokens": 1, "read_tokens": 1, "output_tokens": 1,
    "seconds": 60.0,
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
    write_json(evaluation / "judgements.json", {"judge": "m", "judge_name": "A small judge", "took": TOOK})
    claim = {"text": "Men built it.", "sentence": 0, "supported": True}
    claims = [claims_of("C0", [claim, {**claim, "supported": False}, {**claim, "supported": None}])]
    claims.append(claims_of("SS", [claim]))
    claims.append(claims_of(CONDITIONS[2], [], "No claims came back."))
    write_rows(evaluation / "claims.jsonl", claims)
    write_json(evaluation / "claims.json", {"model": "r", "embedder": "e", "model_name": "A reader", "took": TOOK})
    write_json(evaluation / "questions.json", {"took": TOOK})
    (folder / "key.toml").write_text(KEY, encoding="utf-8")
    project = Project.open(folder)
    measures.measure_facts(project, folder / "key.toml", by_embedding=False)
    measures.measure_qa(project)
    return folder


class Reader(HTMLParser):
    """Ids, links, tags, and the cells of figures with where each leads and in which section.

    `running` is the text above the records that leads nowhere: of paragraphs, captions and plots.
    """

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
        self.running: list[str] = []
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
        elif not self.records and "body" in self.open and not {"a", "th", "td", "h1"} & set(self.open):
            self.running.append(data)


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
    assert {section for section, *_ in figures} == {"judged", "claims", "facts", "gold", "economics", "answers", "took"}
    assert [text for _, text, href in figures if not href] == []


def test_figures_in_running_text_lead_to_their_records_too(read):
    texts = [text for text in read.running if "paper" not in text]  # its figures have no records here
    plot, end = (texts.index(text) for text in ("Tokens spent over questions asked, index included", "tokens spent"))
    del texts[plot:end]  # the marks of its axes
    figures = [found for text in texts for found in re.findall(r"(?<!\w)\d[\d,.]*(?: %)?", text)]
    assert set(figures) == {"95 %", "50 %"}  # the interval, and what a tie comes to


def test_running_text_leads_to_what_it_was_made_of(page):
    head = page.split("<nav>")[0]
    assert re.search(r'<a href="#units-TS">\d+ chunks</a>, model', head)
    judged = page.split('<section id="judged">')[1].split("</section>")[0]
    assert 'Of <a href="#rounds">1</a> times' in judged
    assert 'both times in <a href="#rounds">0 %</a>; these' in judged
    assert '<a href="#rounds">1</a> of its calls failed' in judged
    assert 'order of the answers: <a href="#rounds-comprehensiveness">0 %</a>.' in judged
    rounds = page.split('<section id="rounds">')[1].split("</section>")[0]
    assert re.findall(r'<td class="n"><a href="#verdicts-comprehensiveness-C0-SS">(.*?)</a>', rounds) == list("101001")
    economics = page.split('<section id="economics">')[1].split("</section>")[0]
    assert re.search(r'What the index cost: <a href="#stage-\w+">[\d,]+</a> tokens', economics)


def test_directness_leads_to_its_verdicts_and_a_pair_that_only_failed_is_there(tmp_path):
    folder = write_evaluation(tmp_path / "harbour")
    said = [verdict("directness", "C0", "SS", "second"), verdict("directness", "SS", "C0", "first")]
    said.append(verdict("directness", "C0", CONDITIONS[2], "", error="It did not answer."))
    write_rows(folder / "evaluation" / "verdicts.jsonl", said)
    page = measures.write_report(Project.open(folder)).read_text(encoding="utf-8")
    assert '<p>SS wins directness, as it should: <a href="#verdicts-directness-C0-SS">100 %</a> against C0.</p>' in page
    assert page.count("Verdicts on directness: C0 and Own &lt;way&gt;") == 1


def test_questions_without_an_answer_are_named(tmp_path):
    folder = write_evaluation(tmp_path / "harbour")
    page = measures.write_report(Project.open(folder)).read_text(encoding="utf-8")
    assert 'C0: <a href="#facts-unanswered-C0">1</a>; SS: ' in page
    lacking = page.split('<section id="facts-unanswered-C0">')[1].split("</section>")[0]
    assert lacking.count("<tr>") == 2
    assert "cost" in lacking


def test_what_counts_by_embedding_is_told(tmp_path):
    folder = write_evaluation(tmp_path / "harbour")
    path = folder / "evaluation" / "facts.json"
    facts = {**read_json(path), "embedder": "planes"}
    facts["shares"]["fact"]["C0"] |= {"cosine": 0.4321, "by_embedding": 0.25}
    write_json(path, facts)
    page = measures.write_report(Project.open(folder)).read_text(encoding="utf-8")
    shown = page.split('<section id="facts">')[1].split("</section>")[0]
    assert "By embedding (planes): cosine is the mean" in shown
    assert "right is an answer whose cosine is 0.6 or more" in shown
    assert "right by embedding, from 0.6</th>" in shown
    assert ("facts", "0.43") in {(section, text) for section, text, _ in Reader(page).figures}
    for shares in facts["shares"].values():
        for share in shares.values():
            del share["cosine"]  # as an earlier version left it
    write_json(path, facts)
    measures.write_report(Project.open(folder))


def test_figures_are_those_of_the_records(read):
    shown = {(section, text) for section, text, _ in read.figures}
    assert ("judged", "100 %") in shown
    assert ("judged", "21 % to 100 %") in shown
    assert ("judged", "1.000") in shown
    assert report_judged._p(0.0001) == "< 0.001"
    assert ("claims", "50 %") in shown
    cells = [text for section, text, _ in read.figures if section == "claims"]
    assert cells[:10] == ["1", "3.0", "7.0", "1.0", "1.0", "1.0", "1.0", "50 %", "2", "1"]
    assert [text for section, text, _ in read.figures if section == "took"].count("4,321") == 3
    assert ("economics", "240") not in shown  # a sum, told in the caption
    assert ("economics", "24") in shown  # pays after so many questions
    assert {("answers", "1,000"), ("answers", "2,000"), ("answers", "3,000")} <= shown
    assert {("answers", "700"), ("answers", "-")} <= shown  # read anew; of an earlier version's rows that is not known


def test_texts_are_shown_and_never_run(page):
    assert "&lt;script&gt;alert(0)&lt;/script&gt;" in page
    assert "<script" not in page
    assert "Who paid &lt;b&gt;?" in page
    assert "Own &lt;way&gt; &amp; &#34;more&#34;" in page


def test_both_cells_of_a_pair_are_drawn_and_lead_to_its_verdicts(page):
    heat = page.split("Win rates, comprehensiveness")[1].split("</svg>")[0]
    assert re.findall(r">(\d+ %)<", heat) == ["100 %", "0 %"]
    assert re.findall(r">(\d+ to \d+)<", heat) == ["21 to 100", "0 to 79"]
    assert heat.count('href="#verdicts-comprehensiveness-C0-SS"') == 2
    verdicts = page.split('id="verdicts-comprehensiveness-C0-SS"')[1].split("</section>")[0]
    assert verdicts.count("<tr>") == 4  # its head and three verdicts
    assert "It did not answer." in verdicts


def test_judge_and_reader_are_named(page):
    assert "Judge: A small judge." in page
    assert "Claims found and checked by A reader." in page


def test_the_agreement_is_there_whichever_command_was_run_first(page):
    """claims.json has none here, as when `claims` was run before `judge`."""
    told = re.findall(r"comprehensiveness (<a.*?>100 %</a>) of (<a.*?>1</a>) pairs", page)
    assert [re.findall(r'href="#(.*?)"', " ".join(both)) for both in told] == [["rounds-comprehensiveness"] * 2]


@pytest.mark.parametrize(
    "title",
    ["Win rates, comprehensiveness", "Claims per answer", "Planted facts covered", "Tokens per answer"],
)
def test_each_plot_is_there(page, title):
    assert page.count(f"<title>{title}</title>") == 1


def test_the_plot_of_costs_is_there(page):
    economics = page.split('<section id="economics">')[1].split("</section>")[0]
    assert economics.count("<svg") == 1


def test_it_can_be_printed(page):
    printed = page.split("@media print {")[1].split("</style>")[0]
    assert re.search(r"tr, figure, h2, h3 \{ break-inside: avoid; \}", printed)
    assert "thead { display: table-header-group; }" in printed
    assert "nav { display: none; }" in printed


def test_what_is_said_of_earlier_answers_and_by_others_is_left_out_and_counted(tmp_path):
    folder = write_evaluation(tmp_path / "harbour")
    rows = read_rows(folder / "evaluation" / "answers.jsonl")
    write_rows(
        folder / "evaluation" / "answers.jsonl",
        [{**row, "answer_id": "new"} if row["answer_id"] == "a-men-1" else row for row in rows],
    )
    verdicts = read_rows(folder / "evaluation" / "verdicts.jsonl")
    other = verdict("directness", "C0", CONDITIONS[2], "first", judge="another")
    write_rows(folder / "evaluation" / "verdicts.jsonl", [*verdicts, other])
    page = measures.write_report(Project.open(folder)).read_text(encoding="utf-8")
    assert "3 verdicts are left out" in page
    assert "1 answers&#39; claims are left out" in page
    assert "Win rates" not in page
    assert "not in these figures: another." in page
    assert "C0 says more than SS" not in page
    claims = [text for section, text, _ in Reader(page).figures if section == "claims"]
    assert len(claims) == 2 * 11  # of SS there are none


def test_a_page_is_written_whole_or_not_at_all(tmp_path, monkeypatch):
    folder = write_evaluation(tmp_path / "harbour")
    path = measures.write_report(Project.open(folder))
    before = path.read_text(encoding="utf-8")
    write = Path.write_text

    def killed(self, text, **more):
        write(self, text[: len(text) // 2], **more)
        raise KeyboardInterrupt

    monkeypatch.setattr(Path, "write_text", killed)
    with pytest.raises(KeyboardInterrupt):
        measures.write_report(Project.open(folder))
    assert path.read_text(encoding="utf-8") == before


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
