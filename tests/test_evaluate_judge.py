"""Verdicts: both orders, flips, identical answers, failed calls, and what they all come to."""

from __future__ import annotations

import itertools
import json
import os
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from localgraphrag.errors import ConfigError, ModelError
from localgraphrag.evaluate.judge import (
    METRICS,
    REASON,
    REFUSAL,
    TEMPERATURE,
    comparisons,
    judge_units,
    shown,
    verdict_rows,
)
from localgraphrag.evaluate.verdicts import of_judge, round_scores, summarize
from localgraphrag.llm.scripted import ScriptedEngine
from localgraphrag.llm.units import EngineRunner, content_hash, run_all
from localgraphrag.prompts import Prompts

GOLDEN = Path(__file__).parent / "golden"
QUESTIONS = [{"id": f"q{i}", "question": f"What became of house {i}?"} for i in range(4)]
TEXTS = {
    "C0": "It burned, was sold and was built anew. [1][2]",
    "TS": "It burned and was sold. [1]",
    "SS": "It burned. [3]",
}


def answer(question: str, condition: str, text: str) -> dict:
    return {
        "question_id": question, "condition": condition, "answer_id": f"a-{question}-{condition}", "text": text,
        "citations": [{"number": 1}] if "[" in text else [],
    }  # fmt: skip


def answers(texts=None) -> list[dict]:
    return [answer(q["id"], c, text) for q in QUESTIONS for c, text in (texts or TEXTS).items()]


def sides(messages) -> tuple[str, str]:
    read = messages[1].content
    first, second = read.split("First answer:\n")[1].split("\n\nSecond answer:\n")
    return first.strip(), second.strip()


def says(choose):
    """A judge that chooses by (first, second) and the request."""

    def reply(messages, request):
        return json.dumps(
            {"reason": "It says more.", "winner": choose(*sides(messages), request)}, separators=(",", ":")
        )

    return reply


def longer(first, second, request=None) -> str:
    return "tie" if len(first) == len(second) else "first" if len(first) > len(second) else "second"


def judged(choose, given=None, reply=None, **options):
    calls = comparisons(QUESTIONS, given or answers(), **options)
    engine = ScriptedEngine(reply or says(choose))
    outcomes = run_all(EngineRunner(engine), judge_units(calls, Prompts()))
    return verdict_rows(calls, outcomes, engine.identity), engine


def test_every_pair_in_both_orders_so_many_times():
    calls = comparisons(QUESTIONS, answers(), repeats=6)
    assert len(calls) == 4 * 3 * 6 * len(METRICS)
    assert len({call.name for call in calls}) == len(calls)
    orders = Counter((c.question_id, c.metric, frozenset((c.first, c.second)), c.first) for c in calls)
    assert set(orders.values()) == {3}
    # the first round is the model's best guess, the others are drawn, each with a seed of its own
    asked = judge_units(calls, Prompts())
    assert len({unit.key("m") for unit in asked}) == len(calls)


def test_calls_on_the_same_answers_follow_each_other_and_share_what_is_read():
    _, engine = judged(longer, repeats=4)
    prefixes = [request.prefix for request in engine.requests]
    runs = [len(list(group)) for _, group in itertools.groupby(prefixes)]
    assert set(runs) == {2 * len(METRICS)}
    assert {(r.seed, r.temperature) for r in engine.requests} == {(1, 0.0), (2, TEMPERATURE)}


def test_a_consistent_judge_decides():
    rows, _ = judged(longer)
    found = summarize(rows, "m")
    for metric in METRICS:
        assert found.rates[metric]["C0"] == {"TS": 1.0, "SS": 1.0}
        assert found.rates[metric]["SS"] == {"C0": 0.0, "TS": 0.0}
        assert found.metrics[metric].position_bias == 0
        assert found.metrics[metric].agreed == 1
    pair = found.metrics["diversity"].pairs[0]
    assert (pair.first, pair.second, pair.questions, pair.high) == ("C0", "TS", 4, 1.0)
    assert 0.4 < pair.low < 0.6  # four questions do not make certain
    assert pair.p == pytest.approx(0.125)  # exact: all four of one sign
    assert pair.p_holm == pytest.approx(0.375)
    assert "does not" in found.directness_check


@pytest.mark.parametrize("position", ["first", "second"])
def test_a_judge_that_names_a_position_yields_half_everywhere_and_full_bias(position):
    rows, _ = judged(lambda *_: position)
    found = summarize(rows, "m")
    assert found.position_bias == 1
    for metric in METRICS:
        assert found.metrics[metric].position_bias == 1
        assert {pair.rate for pair in found.metrics[metric].pairs} == {0.5}
        assert {pair.p_holm for pair in found.metrics[metric].pairs} == {1.0}
    assert "100 %" in found.warning


@settings(deadline=None, max_examples=10)
@given(st.randoms(use_true_random=False))
def test_swapping_the_answers_swaps_the_verdict_or_leaves_a_tie(random):
    rows, _ = judged(lambda *_: random.choice(["first", "second", "tie"]), repeats=2, metrics=["diversity"])
    names = {"C0": "SS", "SS": "C0", "TS": "TS"}
    swapped = [{**row, "first": names[row["first"]], "second": names[row["second"]]} for row in rows]
    one, other = summarize(rows, "m"), summarize(swapped, "m")
    before, after = one.rates["diversity"], other.rates["diversity"]
    for a, b in itertools.permutations(names, 2):
        assert before[a][b] == pytest.approx(1 - before[b][a])
        assert before[a][b] == pytest.approx(after[names[a]][names[b]])
    shuffled = summarize(random.sample(rows, len(rows)), "m").rates["diversity"]
    assert all(shuffled[a][b] == pytest.approx(before[a][b]) for a, b in itertools.permutations(names, 2))


@settings(deadline=None, max_examples=10)
@given(st.integers())
def test_swapping_the_texts_shown_swaps_the_rates(salt):
    def whim(first, second, request):
        return ("first", "second", "tie")[int(content_hash(str(salt), first, second, request.prompt), 16) % 3]

    texts = {"C0": TEXTS["C0"], "SS": TEXTS["SS"]}
    one = summarize(judged(whim, answers(texts), repeats=2)[0], "m")
    other = summarize(judged(whim, answers({"C0": texts["SS"], "SS": texts["C0"]}), repeats=2)[0], "m")
    for metric in METRICS:
        assert one.rates[metric]["C0"]["SS"] == pytest.approx(other.rates[metric]["SS"]["C0"])
        assert one.metrics[metric].position_bias == other.metrics[metric].position_bias


def test_a_verdict_says_which_answers_it_is_on():
    given = answers({"C0": TEXTS["C0"], "SS": TEXTS["SS"]})
    rows, engine = judged(longer, given, repeats=2)
    assert all(row["first_answer"] == f"a-{row['question_id']}-{row['first']}" for row in rows)
    assert of_judge(rows, given, engine.identity) == (rows, 0)
    changed = [{**row, "answer_id": "new"} if row["question_id"] == "q0" else row for row in given]
    left, outdated = of_judge(rows, changed, engine.identity)
    assert {row["question_id"] for row in left} == {"q1", "q2", "q3"}
    assert outdated == len(rows) - len(left) == 2 * len(METRICS)
    old = [{key: value for key, value in row.items() if not key.endswith("_answer")} for row in rows]
    assert of_judge(old, given, engine.identity) == ([], len(old))  # nobody knows what these were on
    own = [{**row, "answer_id": "", "text": "My own."} for row in given]
    assert of_judge(judged(longer, own, repeats=2)[0], own, engine.identity)[1] == 0


@pytest.mark.parametrize(
    ("forth", "back", "score", "kind"),
    [
        ("first", "second", 1.0, "agreed"), ("second", "first", 0.0, "agreed"), ("tie", "tie", 0.5, "agreed"),
        ("first", "first", 0.5, "flipped"), ("second", "second", 0.5, "flipped"),
        ("first", "tie", 0.5, "split"), ("tie", "first", 0.5, "split"),
    ],
)  # fmt: skip
def test_both_orders_must_name_the_same_answer(forth, back, score, kind):
    row = {"question_id": "q", "metric": "directness", "repeat": 1, "error": ""}
    rows = [
        {**row, "first": "C0", "second": "SS", "winner": forth},
        {**row, "first": "SS", "second": "C0", "winner": back},
    ]
    assert round_scores(rows) == {("directness", "C0", "SS", "q"): [(score, kind)]}


def test_identical_answers_tie_without_a_call():
    same = {"C0": "It burned. [1]", "SS": "It  burned. [2][7]"}
    rows, engine = judged(lambda *_: "first", answers(same))
    assert engine.requests == []
    assert {(row["winner"], row["error"], row["called"]) for row in rows} == {("tie", "", False)}
    found = summarize(rows, "m")
    assert found.position_bias == 0
    assert {pair.rate for one in found.metrics.values() for pair in one.pairs} == {0.5}
    assert "not heard" in found.warning


def test_failed_calls_are_counted_and_never_scored():
    def reply(messages, request):
        first, second = sides(messages)
        if "Directness" in request.prompt or "house 0" in messages[1].content:
            raise ModelError("out of order")
        return json.dumps({"reason": "x", "winner": longer(first, second)}, separators=(",", ":"))

    rows, _ = judged(None, answers({"C0": TEXTS["C0"], "SS": TEXTS["SS"]}), reply)
    found = summarize(rows, "m")
    assert found.metrics["directness"].pairs == ()
    assert found.metrics["directness"].failed == 16
    assert found.directness_check == ""
    (pair,) = found.metrics["diversity"].pairs
    assert (pair.questions, pair.rate) == (3, 1.0)
    assert found.failed == 16 + 3 * 4
    assert all(row["winner"] == "" for row in rows if row["error"])
    # one order lost is the whole round lost
    half = [row for row in rows if row["metric"] == "diversity" and row["question_id"] == "q1"][:1]
    assert summarize(half, "m").metrics["diversity"].pairs == ()


class Cut(ScriptedEngine):
    """Its replies about some metric were cut and closed, as a real engine does at the cap or on going in circles."""

    def __init__(self, answer, metric, finish):
        super().__init__(answer)
        self.metric, self.why = metric, finish

    def _complete(self, history, request):
        reply = super()._complete(history, request)
        return replace(reply, finish=self.why) if self.metric in request.prompt else reply


@pytest.mark.parametrize("finish", ["cap", "repeat"])
def test_a_reply_that_was_cut_names_no_winner_and_counts_as_failed(finish):
    calls = comparisons(QUESTIONS, answers(), repeats=2)
    engine = Cut(says(longer), "Diversity", finish)
    rows = verdict_rows(calls, run_all(EngineRunner(engine), judge_units(calls, Prompts())), engine.identity)
    cut = [row for row in rows if row["metric"] == "diversity"]
    assert {row["winner"] for row in cut} == {""}
    assert all("was cut" in row["error"] for row in cut)
    found = summarize(rows, "m")
    assert (found.failed, found.metrics["diversity"].failed) == (len(cut), len(cut))
    assert found.metrics["diversity"].pairs == ()
    assert found.metrics["empowerment"].failed == 0


@pytest.mark.parametrize("script", ["न", "ទ", "桥", "𞤀"])  # the last takes four bytes
def test_a_reason_of_any_script_fits_the_cap(script):
    texts = {"C0": script * 20, "SS": script * 30}
    _, engine = judged(longer, answers(texts), repeats=2)
    longest = json.dumps({"reason": script * REASON, "winner": "second"}, ensure_ascii=False)
    assert all(request.max_tokens >= len(longest.encode()) for request in engine.requests)


def test_in_plain_letters_the_cap_is_the_one_that_replies_were_recorded_with():
    """A recording and the index file know a call by its cap, too."""
    assert {request.max_tokens for request in judged(longer, repeats=2)[1].requests} == {100}


def test_the_control_is_checked():
    rows, _ = judged(lambda a, b, r: longer(b, a), metrics=["directness"])
    assert summarize(rows, "m").directness_check.startswith("SS wins directness, as it should: 100 % against C0")


def test_the_judge_sees_no_marks_of_the_method():
    refusal = answer("q0", "C0", "None of the 9 reports at level C0 helps to answer this question.")
    assert shown(refusal) == REFUSAL
    _, engine = judged(longer, [refusal, answer("q0", "SS", TEXTS["SS"])])
    assert engine.requests
    for request in engine.requests:
        told = request.prompt + "".join(message.content for message in request.prefix)
        assert not any(word in told for word in ("C0", "SS", "report", "[3]"))


def test_what_cannot_be_judged_is_refused():
    with pytest.raises(ConfigError, match="even"):
        comparisons(QUESTIONS, answers(), repeats=3)
    with pytest.raises(ConfigError, match="no metric beauty"):
        comparisons(QUESTIONS, answers(), metrics=["beauty"])
    with pytest.raises(ConfigError, match="two conditions"):
        comparisons(QUESTIONS, answers(), conditions=["C0"])
    with pytest.raises(ConfigError, match="There are: C0, TS, SS"):
        comparisons(QUESTIONS, answers(), conditions=["C0", "C9"])
    assert {c.metric for c in comparisons(QUESTIONS, answers(), metrics=["Diversity"])} == {"diversity"}


def test_what_the_judge_is_asked_is_as_written_down():
    _, engine = judged(longer, answers()[:3], metrics=["empowerment"], repeats=2)
    first = engine.requests[0]
    text = "\n=====\n".join([*(message.content for message in first.prefix), first.prompt]) + "\n"
    path = GOLDEN / "evaluate_judge.txt"
    if os.environ.get("WRITE_GOLDEN"):
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8")
