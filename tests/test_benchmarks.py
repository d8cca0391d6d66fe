"""The benchmarks: the floor, the score, the tables; and each once, as small as can be, on the smallest model."""

from __future__ import annotations

import json
import os
import runpy
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from outlines.types import Regex

from benchmarks import __main__ as every
from benchmarks import common, extraction_quality, graph, index_run, memory, throughput, valid
from benchmarks.extraction_quality import Document, Names, key, prose, score
from benchmarks.throughput import Rates, floor
from localgraphrag.config import models_folder
from localgraphrag.llm.scripted import ScriptedEngine
from localgraphrag.llm.types import Completion, Request, Usage

REPO = Path(__file__).parents[1]
FILE = models_folder() / "SmolLM2-135M-Instruct.Q4_1.gguf"
with_model = pytest.mark.skipif(not FILE.exists(), reason=f"{FILE.name} is not in {FILE.parent}")


def run(*command: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", *command],
        cwd=REPO,
        env=os.environ | {"LOCALGRAPHRAG_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


# Throughput


def test_the_floor_is_what_its_formula_says():
    usage = Usage(calls=4, read_tokens=900, output_tokens=150, forced_tokens=50)
    measured = [Rates(100.0, {1: 0.1, 4: 0.2}), Rates(90.0, {1: 0.1, 4: 0.2})]
    found = floor(usage, 20.0, Counter({4: 20, 1: 20}), measured, slots=4)
    read, write, full = 95.0, (20 * 4 + 20) / (20 * 0.2 + 20 * 0.1), 4 / 0.2
    assert found["rates"]["read_tokens_per_second"] == read
    assert found["rates"]["write_tokens_per_second"] == pytest.approx(write, abs=0.1)
    assert found["floor_seconds"] == pytest.approx((900 + 50) / read + 100 / write, abs=0.1)
    assert found["share_of_floor"] == pytest.approx(((900 + 50) / read + 100 / write) / 20, abs=0.001)
    assert found["share_of_full_floor"] == pytest.approx(((900 + 50) / read + 100 / full) / 20, abs=0.001)
    assert found["share_of_bare_floor"] == pytest.approx((900 / read + 100 / full) / 20, abs=0.001)


def test_the_table_tells_both_floors_and_what_the_engine_quotes():
    rates = [Rates(100.0, {1: 0.1, 4: 0.2})]
    floors = floor(Usage(read_tokens=900, output_tokens=90), 20.0, Counter({4: 20}), rates, slots=4)
    way = dict.fromkeys(("chunks", "seconds_per_chunk", "output_tokens_per_chunk", "entities_per_chunk"), 1)
    way |= {"valid_share": 1.0, "chunks_per_minute": 7.5}
    found = {"model": "m", "slots": 4, "a": way, "c": way | {"descriptions": "quoted"}, "ratio": 2.0} | floors
    text = throughput.table(found | {"written": floors | {"c": way | {"descriptions": "written"}, "ratio": 1.5}})
    assert "| (a) " in text and "7.5" in text and "2.0 times" in text and "1.5 times" in text
    assert f"{floors['share_of_floor']:.0%}" in text and f"{floors['share_of_bare_floor']:.0%}" in text
    assert "(c) quotes descriptions and relationships from the chunk." in text and text.count("written |") == 1
    assert "quotes" not in throughput.table(found | {"c": way | {"descriptions": "written"}})


def test_steps_between_the_measured_numbers_of_rows_are_taken_from_the_line():
    usage = Usage(output_tokens=30)
    found = floor(usage, 1.0, Counter({3: 10}), [Rates(1e9, {1: 0.1, 4: 0.4})], slots=4)
    assert found["rates"]["write_tokens_per_second"] == pytest.approx(10.0)


def test_items_are_spread_evenly_and_the_same_every_time():
    assert common.evenly(range(10), 5) == [0, 2, 4, 6, 8]
    assert common.evenly(range(3), 9) == [0, 1, 2] and common.evenly([], 4) == []


def test_only_what_the_schema_allows_is_valid():
    whole = {"entities": [{"name": "a", "type": "person", "description": ""}], "relationships": []}
    assert common.parse(json.dumps(whole)).entities[0].name == "a"
    whole["entities"][0]["type"] = "ship"
    assert common.parse(json.dumps(whole)) is None and common.parse('{"entities": [') is None


@pytest.mark.model
@with_model
def test_throughput_on_the_smallest_model(corpus):
    corpus("peps")
    command = ["benchmarks.throughput", "--model", str(FILE), "--slots", "2", "--json"]
    found = json.loads(run(*command, "--chunks", "1", "--baseline-chunks", "0"))
    assert found["c"]["chunks"] == 1 and found["c"]["valid_share"] == 1.0 and found["ratio"] is None
    assert 0.3 < found["share_of_floor"] < 2.5  # guessed tokens may get below the floor of one token at a time
    assert found["share_of_full_floor"] <= found["share_of_floor"] * 1.05
    assert found["c"]["read_tokens_per_chunk"] > 500 and sum(found["steps_by_conversations"].values()) > 0
    assert found["share_of_bare_floor"] <= found["share_of_full_floor"]
    assert found["c"]["chunks_per_minute"] == pytest.approx(60 / found["c"]["seconds_per_chunk"], rel=0.02)


# Quality


ENTITIES = (
    (frozenset({"ada brook", "brook"}), "PER"),
    (frozenset({"mill"}), "LOC"),
    (frozenset({"1901"}), "TIME"),
    (frozenset({"guild"}), "ORG"),
)
GOLD = Document("t", "", ENTITIES, frozenset({(0, 1), (0, 2), (1, 3)}))


def test_a_perfect_answer_scores_one():
    names = Names(("Ada Brook", "The Mill", "guild"), (("Brook", "mill"), ("guild", "mill")))
    found = score([GOLD], [names])
    assert (found["entities"]["precision"], found["entities"]["recall"], found["entities"]["f1"]) == (1, 1, 1)
    assert (found["pairs"]["recall"], found["pairs_all_types"]["recall"]) == (1.0, 0.667)
    assert found["missed"] == {} and found["valid_share"] == 1
    text = extraction_quality.table({"model": "m", "documents": 1, "systems": {"one": found}})
    assert "| 2 | 1.0 (2 of 2) |" in text and "one at a time: nothing." in text


def test_wrong_double_and_missed_names_count_as_they_should():
    names = Names(("Ada Brook", "Brook", "1901", "millers", "Old Guild"), (("Ada Brook", "Ada Brook"),))
    found = score([GOLD], [names])["entities"]
    # the date counts neither way; both names of Ada are right; of four listed two are wrong
    assert (found["found"], found["right"], found["gold"], found["gold_found"]) == (4, 2, 3, 1)
    assert (found["precision"], found["recall"], found["f1"]) == (0.5, 0.333, 0.4)
    every_type = score([GOLD], [names])["entities_all_types"]
    assert (every_type["found"], every_type["right"], every_type["gold"], every_type["gold_found"]) == (5, 3, 4, 2)
    missed = score([GOLD], [names])["missed"]
    assert missed == {"LOC": 1, "ORG": 1, "a name that holds it, or a part of it, was found": 1}
    text = extraction_quality.table({"model": "m", "documents": 1, "systems": {"many": score([GOLD], [names])}})
    assert "- 1 places, among them mill" in text and "- 1 organizations, among them guild" in text
    assert text.endswith("- of all these 1 where a name that holds it, or a part of it, was found")


def test_an_output_that_is_not_valid_finds_nothing():
    found = score([GOLD, GOLD], [Names((), (), valid=False), Names(("mill",), ())])
    assert found["valid_share"] == 0.5 and found["entities"]["gold_found"] == 1 and found["pairs"]["recall"] == 0


@pytest.mark.parametrize(
    ("name", "words"),
    [('"Willi" Schneider', "willi schneider"), ("The Mill", "mill"), ("The", "the"), ("U.S.", "u s"), ("—", "")],
)
def test_names_are_compared_by_their_words(name, words):
    assert key(name) == words


def test_words_become_prose():
    words = ["He", "(", "b.", "1963", ")", "left", ",", "it", "'s", "said", "."]
    assert prose(words) == "He (b. 1963) left, it's said."


def test_the_gold_texts_hold_their_names(corpus):
    corpus("redocred")
    documents = extraction_quality.load(40)
    assert len(documents) == 40 and all(document.pairs for document in documents)
    names = [(m, d) for d in documents for mentions, _ in d.clusters for m in mentions]
    held = sum(extraction_quality._within(m, key(d.text)) for m, d in names)
    assert held / len(names) > 0.97


def test_what_was_found_is_kept_and_read_again(tmp_path):
    names = Names(("a", "東京"), (("a", "b"),), valid=True)
    for _ in range(2):
        extraction_quality.keep(tmp_path, "one", "x/model.gguf", GOLD, names)
    assert extraction_quality.kept(tmp_path, "one", "model.gguf", [GOLD]) == {"t": names}
    assert extraction_quality.kept(tmp_path, "many", "model.gguf", [GOLD]) == {}
    assert extraction_quality.kept(None, "one", "model.gguf", [GOLD]) == {}


@pytest.mark.model
@with_model
def test_quality_on_the_smallest_model(monkeypatch, capsys):
    document = Document(
        "The mill", "Ada Brook built the mill of Aldane in 1901. The guild paid her.", GOLD.clusters, GOLD.pairs
    )
    monkeypatch.setenv("LOCALGRAPHRAG_THREADS", "1")
    monkeypatch.setattr(extraction_quality, "load", lambda count: [document][:count])
    monkeypatch.setattr(sys, "argv", ["", "--model", str(FILE), "--systems", "one", "--slots", "1", "--json"])
    extraction_quality.main()
    found = json.loads(capsys.readouterr().out)
    assert found["documents"] == 1 and found["systems"]["one"]["valid_share"] == 1.0
    assert found["systems"]["one"]["entities"]["gold"] == 3


# A whole index, and replies that can be read


@pytest.mark.model
@with_model
def test_an_index_run_on_the_smallest_model(tmp_path, monkeypatch):
    (tmp_path / "operation_dulce").mkdir()
    text = "Ada Brook built the mill of Aldane in 1901. The guild of Aldane paid Ada Brook for the mill. " * 40
    (tmp_path / "operation_dulce" / "story.md").write_text(text)
    monkeypatch.setattr(common, "DATA", tmp_path)
    monkeypatch.setenv("LOCALGRAPHRAG_EMBEDDER", "hash")
    monkeypatch.setenv("LOCALGRAPHRAG_THREADS", "1")
    found = index_run.measure(str(FILE), 2, 400)
    assert (found["characters"], found["chunks"]) == (400, 1) and found["seconds"] > 0
    assert found["failures"] == 0 and found["entities"] > 0
    assert f"| {found['entities']} | {found['relationships']} |" in index_run.table(found)


@pytest.mark.model
@with_model
def test_unparsable_replies_are_counted(monkeypatch, corpus):
    corpus("peps")
    monkeypatch.setenv("LOCALGRAPHRAG_THREADS", "1")
    found = valid.measure(str(FILE), 2, 1)
    assert found["replies"] > 2 and (found["unparsable"], found["failed_chunks"]) == (0, 0)
    assert "| 1 | " in valid.table([found])


def test_what_breaks_its_type_is_unparsable():
    good, bad = Request("q", Regex("yes|no"), key="good"), Request("q", Regex("yes|no"), key="bad")
    listening = common.Listening(ScriptedEngine(lambda _messages, _request: "yes"))
    list(listening.run([good]))
    listening.heard.append((bad, Completion("bad", "perhaps")))
    assert listening.invalid() == ["bad"]


# Work without a model


def test_growth_is_told_of_time_and_memory(monkeypatch):
    for name, small in {"CHUNKS": 40, "NODES": 120, "EDGES": 200}.items():
        monkeypatch.setattr(graph, name, small)
    runs = [graph.measure(scale) for scale in (1, 2)]
    assert (runs[1]["nodes"], runs[1]["edges"], runs[1]["chunks"]) == (240, 400, 80) and runs[0]["contexts"] > 1
    runs[0]["peak_mb"]["packing"], runs[1]["peak_mb"]["packing"] = 10**6, 2_500_000
    text = graph.table(runs, [graph.compare(*runs)])
    assert "peak memory x 2.5" in text and "--scale 1 10 100" in text
    assert "--scale" not in graph.table([runs[0] | {"scale": 100}], [])


# All together


def run_all(monkeypatch, file: Path, *options: str, failing: str = "none", table: str = "| {} |") -> int:
    def done(command, **_options):
        return subprocess.CompletedProcess(command, int(failing in command[2]), table.format(command[2]) + "\n")

    monkeypatch.setattr(every.subprocess, "run", done)
    monkeypatch.setattr(every, "machine", lambda: "a machine.")
    monkeypatch.setattr(every, "WHOLE", file)
    monkeypatch.setattr(sys, "argv", ["benchmarks", *options])
    return every.main()


def test_one_file_of_all_tables(tmp_path, monkeypatch):
    file = tmp_path / "b" / "b.md"
    assert run_all(monkeypatch, file) == 0
    text = file.read_text()
    assert text.startswith("# Benchmarks\n\n## Seconds per chunk\n\n`python -m benchmarks.throughput --written`, 20")
    assert text.count("a machine.\n\n| benchmarks.") == len(every.TITLES)
    assert every.TITLES.keys() == {path.stem for path in (REPO / "benchmarks").glob("*.py")} - {
        "__init__",
        "__main__",
        "common",
    }


def test_a_part_takes_the_place_of_what_the_file_said_of_it_unless_it_fails(tmp_path, monkeypatch, capsys):
    file = tmp_path / "b.md"
    run_all(monkeypatch, file, "--only", "graph", "memory")
    assert (
        run_all(monkeypatch, file, "--only", "throughput", "graph", "memory", failing="memory", table="| new {} |") == 1
    )
    text = file.read_text()
    assert "| benchmarks.graph |" not in text and text.count("| benchmarks.memory |") == 1
    assert (
        text.index("| new benchmarks.throughput |")
        < text.index("| benchmarks.memory |")
        < text.index("| new benchmarks.graph |")
    )
    assert "memory failed with exit code 1" in capsys.readouterr().err


def test_a_quick_try_is_printed(tmp_path, monkeypatch, capsys):
    assert run_all(monkeypatch, tmp_path / "b.md", "--quick") == 0
    assert not (tmp_path / "b.md").exists()
    assert "| benchmarks.graph |" in capsys.readouterr().out


@pytest.mark.parametrize("model", ["", "other.gguf"])
def test_make_bench_fetches_the_models_first(monkeypatch, model):
    done = []
    setup = runpy.run_path(str(REPO / "scripts" / "setup.py"))
    for name in ("install", "pull", "run"):
        monkeypatch.setitem(setup["bench"].__globals__, name, lambda *given, name=name: done.append((name, *given)))
    setup["bench"](["--quick", *(["--model", model] if model else [])])
    assert [step[0] for step in done] == ["install", "pull", "run"]
    assert done[1][1:] == (model or "qwen2.5-coder-1.5b", "all-minilm-l6-v2", "smollm2-135m")


@pytest.mark.parametrize("name", ["__main__", *every.TITLES])
def test_help_answers(name):
    module = "benchmarks" if name == "__main__" else f"benchmarks.{name}"
    assert "--" in run(module, "--help")


@pytest.mark.model
@with_model
def test_memory_does_not_grow_with_requests():
    command = [
        "benchmarks.memory",
        "--model",
        str(FILE),
        "--slots",
        "4",
        "--requests",
        "40",
        "--documents",
        "0",
        "--json",
    ]
    found = json.loads(run(*command))["requests"]
    assert found["failed"] == 0 and len(found["resident_mb"]) == 10
    assert found["growth_mb"] < 30


def test_the_table_of_memory_says_whether_the_index_was_whole():
    found = {"count": 5, "failed": 1, "loaded_mb": 1, "peak_mb": 2, "resident_mb": [1, 2], "growth_mb": 1}
    run = {"documents": 1, "chunks": 2, "complete": False, "failures": 3, "peak_mb": 9}
    text = memory.table({"model": "m", "requests": found, "index": run})
    assert "1 of which failed" in text and "not complete, 3 failures | 9 |" in text
    assert "2 chunks, complete |" in memory.table({"model": "m", "requests": found, "index": run | {"complete": True}})
