"""The benchmarks: the floor, the score, the tables; and each once, as small as can be, on the smallest model."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from benchmarks import __main__ as every
from benchmarks import common, extraction_quality, throughput
from benchmarks.extraction_quality import Document, Names, key, prose, score
from benchmarks.throughput import Rates, floor
from localgraphrag.config import models_folder
from localgraphrag.llm.types import Usage

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
    found |= {"ratio": 2.0, "a": found["c"]}
    assert "| (a) " in throughput.table(found) and "2.0 times" in throughput.table(found)


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


# All together


def test_one_file_of_all_tables_and_a_failure_is_named(tmp_path, monkeypatch):
    def done(command, **_options):
        failed = "memory" in command[2]
        return subprocess.CompletedProcess(command, int(failed), f"| {command[2]} |\n")

    monkeypatch.setattr(every.subprocess, "run", done)
    monkeypatch.setattr(every, "machine", lambda: "A machine.")
    monkeypatch.setattr(sys, "argv", ["benchmarks", "--to", str(tmp_path / "b" / "b.md")])
    assert every.main() == 1
    text = (tmp_path / "b" / "b.md").read_text()
    assert text.startswith("# Benchmarks\n\nA machine.\n\n## Seconds per chunk")
    assert "| benchmarks.graph |" in text and "Failed with exit code 1." in text
    assert every.TITLES.keys() == {path.stem for path in (REPO / "benchmarks").glob("*.py")} - {
        "__init__",
        "__main__",
        "common",
    }


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
        "60",
        "--documents",
        "0",
        "--json",
    ]
    found = json.loads(run(*command))["requests"]
    assert found["failed"] == 0 and len(found["resident_mb"]) == 10
    assert found["growth_mb"] < 30
