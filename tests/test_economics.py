"""Token economics: the paper's figures, laws of breaking even, and a small index worked out by hand."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
import workbench
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from localgraphrag import tables
from localgraphrag.chunks import Chunk
from localgraphrag.cli import app
from localgraphrag.communities import Community, Hierarchy
from localgraphrag.documents import Document
from localgraphrag.economics import (
    PAPER,
    affordable_index,
    at_work,
    break_even,
    cumulative_plot,
    economics,
    percent_of,
    vocabulary,
)
from localgraphrag.graph import Graph, Node
from localgraphrag.llm.scripted import WordTokenizer
from localgraphrag.plots import Bar, Cell, bar_chart, heat_map, short, ticks
from localgraphrag.store import Store
from localgraphrag.summaries import Report

# The paper (Table 2, 5.1)


def test_the_papers_percentages():
    assert round(percent_of(26_657, 1_014_611), 2) == 2.63
    assert round(percent_of(39_770, 1_707_694), 2) == 2.33
    shown = {"Podcast": [2.6, 22.2, 55.8, 73.5, 100.0], "News": [2.3, 20.7, 57.4, 66.8, 100.0]}
    for corpus, percents in shown.items():
        rows = PAPER[corpus]
        found = [percent_of(tokens, rows["TS"][1]) for _, tokens in rows.values()]
        assert found == pytest.approx(percents, abs=0.051)  # printed with one decimal; 22.25 as 22.2


def test_the_papers_savings():
    news = PAPER["News"]
    assert news["TS"][1] - news["C0"][1] == 1_667_924
    assert affordable_index(100, news["TS"][1], news["C0"][1]) == 166_792_400
    assert break_even(166_792_400, news["TS"][1], news["C0"][1]) == 100
    assert break_even(166_792_401, news["TS"][1], news["C0"][1]) == 101
    times = [rows["TS"][1] / rows["C0"][1] for rows in PAPER.values()]
    assert all(38 < ratio < 43 for ratio in times)  # "9x-43x fewer" over root levels; over 97 % fewer
    fewer = [1 - rows["C3"][1] / rows["TS"][1] for rows in PAPER.values()]
    assert [round(100 * share) for share in fewer] == [26, 33]


# Laws


@given(st.integers(0, 10**9), st.integers(1, 10**7), st.integers(0, 10**7))
def test_break_even_is_the_first_question_that_pays(index, ts, tokens):
    queries = break_even(index, ts, tokens)
    if tokens >= ts:
        assert queries is None
    else:
        assert index + queries * tokens <= queries * ts
        assert queries == 0 or index + (queries - 1) * tokens > (queries - 1) * ts


@given(st.lists(st.tuples(st.integers(0, 60), st.integers(0, 20)), max_size=12))
def test_time_at_work_counts_each_moment_once(spans):
    spans = [(start, start + length) for start, length in spans]
    assert at_work(spans) == len({moment for start, end in spans for moment in range(start, end)})


@given(st.floats(1e-3, 1e12))
def test_ticks_are_few_and_within(highest):
    marks = ticks(highest)
    assert marks[0] == 0
    assert 3 <= len(marks) <= 9
    assert marks[-1] <= highest * (1 + 1e-9)


def test_numbers_are_short():
    assert [short(n) for n in (999, 1000, 1500, 99_999, 1_000_000)] == ["999", "1 k", "1.5 k", "100 k", "1 M"]


# An index worked out by hand: two chunks of 6 and 9 tokens; one community above two, one of them without a report


def hand_made(folder: Path) -> Path:
    text = "Ada met Byron. Clara wrote to Dickens of it."
    document = Document("d" * 64, "Letter", text, ("letter.txt",))
    chunks = (
        Chunk("chunk1", document.id, "Letter", 0, 0, 14, text[:14], 6),
        Chunk("chunk2", document.id, "Letter", 1, 15, len(text), text[15:], 9),
    )
    names = ("Ada", "Clara")
    nodes = tuple(
        Node(f"n{i}", name.lower(), name, "person", (), (), (chunks[i].id,), 0, "") for i, name in enumerate(names)
    )
    levels = (
        (Community("top", 0, "", ("left", "right"), ("n0", "n1")),),
        (Community("left", 1, "top", (), ("n0",)), Community("right", 1, "top", (), ("n1",))),
    )
    reports = {
        "top": Report("top", "Letters", "", 5, "", (), True, "Ada and Clara", ("chunk1", "chunk2")),
        "left": Report("left", "Ada", "", 5, "", (), False, "Ada", ("chunk1",)),
    }
    index = tables.Index((document,), chunks, Graph(nodes, (), ()), Hierarchy(levels), reports)
    with Store(folder / "index.db", writer="index") as store:
        tables.save_index(store, index, used={}, model="m", meta={})
        units = [  # key, stage, name, purpose, seconds, end; two extractions side by side, 10 s and 12 s, 14 s in all
            ("u0", "extract", "chunk1", "index", 99.0, "2025-12-31T00:00:10+00:00"),  # under other settings, now idle
            ("u1", "extract", "chunk1", "index", 10.0, "2026-01-01T00:00:10+00:00"),
            ("u2", "extract", "chunk2", "index", 12.0, "2026-01-01T00:00:14+00:00"),
            ("u3", "report", "top", "query", 6.0, "2026-01-01T00:10:06+00:00"),
            ("u4", "report", "gone", "query", 6.0, "2026-01-01T00:20:06+00:00"),  # of a community that is no more
            ("u5", "map", "C0 batch 1 of 1", "query", 6.0, "2026-01-01T00:30:06+00:00"),
        ]
        with store.transaction() as database:
            for key, stage, name, purpose, seconds, end in units:
                database.execute(
                    "INSERT INTO units VALUES (?, ?, ?, 'm', ?, '{}', ?)", (key, stage, name, purpose, key == "u0")
                )
                cost = (key, end, 1, 100, 60, 20, 0, 0, seconds)
                database.execute(f"INSERT INTO unit_costs VALUES ({', '.join('?' * 9)})", cost)
            database.execute(
                "INSERT INTO units VALUES ('other', 'extract', 'chunk1', 'another model', 'index', '{}', 0)"
            )
    return folder


def test_an_index_worked_out_by_hand(tmp_path):
    with Store(hand_made(tmp_path) / "index.db") as store:
        found = economics(store, WordTokenizer())
    c0, c1, ts = found.levels
    # "Ada and Clara" is 5 of the tokenizer's tokens: three words, two spaces
    assert (c0.name, c0.units, c0.tokens, c0.missing) == ("C0", 1, 5, 0)
    assert c0.percent == pytest.approx(100 * 5 / 15)
    assert (c1.name, c1.units, c1.tokens, c1.missing) == ("C1", 2, 1, 1)
    assert (c1.percent, c1.break_even) == (None, None)
    assert (ts.name, ts.units, ts.tokens, ts.percent, ts.break_even) == ("TS", 2, 15, 100.0, None)
    assert [id_ for id_, *_ in ts.items] == ["chunk2", "chunk1"]
    # three units at 60 read and 20 written; each question at C0 saves 10 tokens
    assert (found.index_tokens, found.billed_tokens) == (240, 360)
    assert c0.break_even == 24
    assert [(s.stage, [u.name for u in s.units]) for s in found.stages] == [
        ("extract", ["chunk1", "chunk2"]),
        ("report", ["top"]),
    ]
    assert [s.minutes for s in found.stages] == pytest.approx([14 / 60, 6 / 60])
    assert found.counted


def test_without_the_model_tokens_are_estimated_from_the_chunks(tmp_path):
    with Store(hand_made(tmp_path) / "index.db") as store:
        found = economics(store, None)
    # 15 tokens in 43 characters of chunks; the report has 13 characters
    assert found.levels[0].tokens == round(13 * 15 / 43)
    assert not found.counted


def test_a_made_index_agrees_with_its_ledger(tmp_path):
    with workbench.open_project(tmp_path / "p") as project:
        project.index(workbench.write_corpus(tmp_path / "corpus", documents=2))
        found = project.economics()
        with project.store() as store:
            cost = store.index_cost()
            chunks = tables.load_chunks(store)
    assert {stage.stage: stage.usage for stage in found.stages} == cost
    assert found.levels[-1].tokens == sum(chunk.tokens for chunk in chunks)
    assert [level.missing for level in found.levels] == [0] * len(found.levels)
    assert found.counted


def test_another_models_vocabulary_is_not_used(tmp_path):
    with workbench.open_project(tmp_path / "p") as project:
        assert vocabulary(project.settings, project.folder, "another model") is None


# The plot


def test_the_plot_begins_at_what_the_index_cost_and_crosses_where_it_pays(tmp_path):
    with Store(hand_made(tmp_path) / "index.db") as store:
        found = economics(store, WordTokenizer())
    svg = ET.fromstring(cumulative_plot(found))
    space = "{http://www.w3.org/2000/svg}"
    lines = [
        [tuple(map(float, point.split(","))) for point in line.get("points").split()]
        for line in svg.iter(f"{space}polyline")
    ]
    assert len(lines) == 2  # C1 lacks a report, so what it costs is not known
    (c0_start, c0_end), (ts_start, ts_end) = lines
    # drawn to 36 questions (half as many again as 24); they cross at two thirds of the way
    assert ts_start[1] > c0_start[1]  # y grows downwards
    gap = [(c0_start[1] - ts_start[1]), (c0_end[1] - ts_end[1])]
    assert gap[0] / (gap[0] - gap[1]) == pytest.approx(24 / 36, abs=0.01)


def test_plots_are_xml_that_escapes_names():
    svg = bar_chart("a < b", [("x & y", [Bar("<C0>", 1.0, "1 & only", "#r"), Bar("SS", None, "-")])])
    assert "<C0>" not in svg
    assert ET.fromstring(svg).find(".//{http://www.w3.org/2000/svg}a").get("href") == "#r"
    names = ["C0", "SS"]
    cells = {("C0", "SS"): Cell(0.75, "75 %", "60-90", "#v"), ("SS", "C0"): Cell(0.25, "25 %")}
    heat = ET.fromstring(heat_map("wins", names, cells))
    assert [t.text for t in heat.iter("{http://www.w3.org/2000/svg}text")].count("75 %") == 1
    fills = [r.get("fill") for r in heat.iter("{http://www.w3.org/2000/svg}rect")]
    assert fills == ["currentColor", "#0072b2", "#d55e00", "currentColor"]


# The command


def test_the_command_prints_and_plots(tmp_path):
    folder = hand_made(tmp_path)
    plot = tmp_path / "plot.svg"
    run = CliRunner().invoke(app, ["economics", "--project", str(folder), "--plot", str(plot)])
    assert run.exit_code == 0, run.output
    lines = [line.split() for line in run.stdout.splitlines()]
    assert ["TS", "2", "15", "100.0%"] in lines
    assert ["report", "1", "1", "100", "60", "20", "0.1"] in lines
    assert ET.parse(plot).getroot().tag.endswith("svg")
    as_json = CliRunner().invoke(app, ["economics", "--project", str(folder), "--json"])
    assert '"break_even"' in as_json.stdout
