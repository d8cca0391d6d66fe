"""What a judge's verdicts come to (paper 4.1): win rates, how sure they are, and how far the judge can be trusted.

Both calls of a round, one in each order, must name the same answer for it to win. A small judge often names the
position rather than the answer; that is a tie here, and counted.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean

from localgraphrag.evaluate.ledger import Took
from localgraphrag.evaluate.records import Row, answer_marks
from localgraphrag.evaluate.statistics import holm, signed_rank, win_rate

SIDES = ("first", "second")


@dataclass(frozen=True)
class Pair:
    """How often the answer of `first` wins over that of `second`, over `questions`; see `statistics`."""

    first: str
    second: str
    questions: int
    rate: float
    low: float
    high: float
    p: float
    p_holm: float


@dataclass(frozen=True)
class MetricSummary:
    """All pairs by one metric.

    Of `rounds` in which the model was asked twice and answered twice, the share `position_bias` named one position in
    both orders; the share `agreed` named the same answer, or a tie, in both. `failed` counts calls.
    """

    position_bias: float
    agreed: float
    rounds: int
    failed: int
    pairs: tuple[Pair, ...]


@dataclass(frozen=True)
class Judgements:
    """What the verdicts of one judge come to. `rates`: by metric, then row and column, how often the row wins.

    `outdated` verdicts are on answers that have changed since, and `others` are judges whose verdicts are in the file
    as well; none of these count. `took`: the last run.
    """

    judge: str
    judge_name: str
    questions: int
    verdicts: int
    failed: int
    position_bias: float
    warning: str
    directness_check: str
    metrics: Mapping[str, MetricSummary]
    rates: Mapping[str, Mapping[str, Mapping[str, float]]]
    outdated: int = 0
    others: tuple[str, ...] = ()
    took: Took | None = None


def of_judge(verdicts: Iterable[Row], answers: Iterable[Row], judge: str) -> tuple[list[Row], int]:
    """The verdicts of a judge on the answers as they are now; and how many of its verdicts are on earlier answers."""
    now = answer_marks(answers)
    its = [row for row in verdicts if row.get("judge") == judge]
    current = [
        row
        for row in its
        if all(now.get((str(row["question_id"]), row[side]), "") == row.get(f"{side}_answer") for side in SIDES)
    ]
    return current, len(its) - len(current)


def summarize_judge(
    verdicts: Sequence[Row], answers: Iterable[Row], judge: str, judge_name: str, took: Took | None = None
) -> Judgements:
    """`summarize` over `of_judge`, from all rows of `verdicts.jsonl` and `answers.jsonl`."""
    current, outdated = of_judge(verdicts, answers, judge)
    others = tuple(sorted({str(row.get("judge", "")) for row in verdicts} - {judge}))
    return replace(summarize(current, judge, judge_name), outdated=outdated, others=others, took=took)


def round_scores(verdicts: Iterable[Row]) -> dict[tuple[str, str, str, str], list[tuple[float, str]]]:
    """The rounds of each metric, pair (in the order first met) and question: the score of the first, and what it was.

    1 where both orders name the first, 0 where both name the second, a half otherwise; with "same" (no call made),
    "agreed", "flipped" (one position in both) or "split" (one of the calls says tie). A failed call undoes its round.
    """
    halves: dict[tuple[str, str, str, str, int], dict[str, Row]] = {}
    pair_of: dict[frozenset[str], tuple[str, str]] = {}
    for row in verdicts:
        first, second = pair_of.setdefault(frozenset((row["first"], row["second"])), (row["first"], row["second"]))
        key = (row["metric"], first, second, str(row["question_id"]), row["repeat"])
        halves.setdefault(key, {})[row["first"]] = row
    found: defaultdict[tuple[str, str, str, str], list[tuple[float, str]]] = defaultdict(list)
    for (metric, first, second, question, _), by_first in halves.items():
        forth, back = by_first.get(first), by_first.get(second)
        if forth and back and forth["winner"] and back["winner"]:
            found[metric, first, second, question].append(_round(forth, back))
    return dict(found)


def _round(forth: Row, back: Row) -> tuple[float, str]:
    if not forth.get("called", True):
        return 0.5, "same"
    if forth["winner"] == back["winner"]:
        return 0.5, "agreed" if forth["winner"] == "tie" else "flipped"
    if "tie" in (forth["winner"], back["winner"]):
        return 0.5, "split"
    return (1.0 if forth["winner"] == "first" else 0.0), "agreed"


def summarize(verdicts: Sequence[Row], judge: str, judge_name: str = "") -> Judgements:
    """Win rates, tests, position bias, and the check by directness, from rows of `verdicts.jsonl`."""
    scores = round_scores(verdicts)
    metrics = {
        metric: _metric(metric, scores, [row for row in verdicts if row["metric"] == metric])
        for metric in dict.fromkeys(row["metric"] for row in verdicts)
    }
    kinds = [kind for rounds in scores.values() for _, kind in rounds if kind != "same"]
    bias = kinds.count("flipped") / len(kinds) if kinds else 0.0
    rates: dict[str, dict[str, dict[str, float]]] = {}
    for metric, found in metrics.items():
        matrix: defaultdict[str, dict[str, float]] = defaultdict(dict)
        for pair in found.pairs:
            matrix[pair.first][pair.second], matrix[pair.second][pair.first] = pair.rate, 1 - pair.rate
        rates[metric] = dict(matrix)
    failed = sum(bool(row["error"]) for row in verdicts)
    questions = len({str(row["question_id"]) for row in verdicts})
    return Judgements(
        judge, judge_name or judge, questions, len(verdicts), failed, bias, _warning(bias, len(kinds), failed),
        _directness(metrics.get("directness")), metrics, rates,
    )  # fmt: skip


def _metric(
    metric: str, scores: Mapping[tuple[str, str, str, str], list[tuple[float, str]]], verdicts: Sequence[Row]
) -> MetricSummary:
    by_pair: defaultdict[tuple[str, str], list[float]] = defaultdict(list)
    kinds: list[str] = []
    for (name, first, second, _question), played in scores.items():
        if name == metric:
            by_pair[first, second].append(fmean(score for score, _ in played))
            kinds += [kind for _, kind in played if kind != "same"]
    p_values = [signed_rank(found) for found in by_pair.values()]
    pairs = []
    for ((first, second), found), p, corrected in zip(by_pair.items(), p_values, holm(p_values), strict=True):
        rate = win_rate(found)
        pairs.append(Pair(first, second, len(found), rate.rate, rate.low, rate.high, p, corrected))
    flipped, agreed = (kinds.count(kind) / len(kinds) if kinds else 0.0 for kind in ("flipped", "agreed"))
    return MetricSummary(flipped, agreed, len(kinds), sum(bool(row["error"]) for row in verdicts), tuple(pairs))


def _warning(bias: float, rounds: int, failed: int) -> str:
    if not rounds:
        return "The judge was not heard on a single pair of answers in both orders, so nothing here tells them apart."
    flips = f"Of {rounds} times that it saw two answers in both orders it named the same position both times in"
    lost = f" {failed} of its calls failed and count for nothing." if failed else ""
    return (
        f"The judge is a language model. {flips} {100 * bias:.0f} %; these count as ties and draw every rate towards "
        f"50 %.{lost} A judge of a few billion parameters or less is swayed by order, length and tone more than by "
        "what is true; read its reasons, and trust planted facts and claims before its verdicts."
    )


def _directness(found: MetricSummary | None) -> str:
    """Whether vector search wins the control, as it should (paper 4.1); "" where that was not judged."""
    rates = {pair.second if pair.first == "SS" else pair.first: pair.rate if pair.first == "SS" else 1 - pair.rate
             for pair in (found.pairs if found else ()) if "SS" in (pair.first, pair.second)}  # fmt: skip
    if not rates:
        return ""
    won = [name for name, rate in rates.items() if rate > 0.5]
    told = ", ".join(f"{100 * rate:.0f} % against {name}" for name, rate in rates.items())
    verdict = "SS wins directness, as it should" if len(won) == len(rates) else "SS should win directness and does not"
    if won and len(won) < len(rates):
        verdict = f"SS should win directness and does so against {', '.join(won)} only"
    return f"{verdict}: {told}."
