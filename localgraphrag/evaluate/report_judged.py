"""Sections of the report on the judge's verdicts and on claims; each with the records behind it.

They take the summaries as JSON has them (`verdicts.Judgements`, `claims_summary.ClaimsReport`), and the rows that these
were made of.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from localgraphrag.evaluate.page import Anchors, Figure, Link, Part, Section, Text, table
from localgraphrag.evaluate.records import Row
from localgraphrag.evaluate.report_sections import Made, Questions, percent, whole
from localgraphrag.llm.catalog import model_name
from localgraphrag.plots import Bar, Cell, bar_chart, heat_map
from localgraphrag.search.question import CONDITIONS


def judged_section(
    judgements: Mapping[str, Any], verdicts: Sequence[Row], questions: Questions, anchors: Anchors
) -> Made:
    """Win rates of every pair by metric, how sure they are, and how far the judge can be trusted."""
    parts: list[Part] = [Text(f"Judge: {judgements['judge_name']}.")]
    parts += _left_out("verdicts", judgements)
    if judgements.get("warning"):
        parts.append(Text(judgements["warning"], warning=True))
    if judgements.get("directness_check"):
        parts.append(Text(judgements["directness_check"]))
    records = []
    for metric, found in judgements["metrics"].items():
        where = {frozenset((p["first"], p["second"])): anchors("verdicts", metric, p["first"], p["second"])
                 for p in found["pairs"]}  # fmt: skip
        parts.append(Figure(_wins(metric, found["pairs"], where), _caption(metric, found)))
        parts.append(_tests(metric, found["pairs"], where))
        for pair in found["pairs"]:
            sides = {pair["first"], pair["second"]}
            rows = [v for v in verdicts if v["metric"] == metric and {v["first"], v["second"]} == sides]
            records.append(_verdicts(metric, pair, rows, questions, where[frozenset(sides)]))
    return Section("judged", "Head to head", tuple(parts)), records


def _caption(metric: str, found: Mapping[str, Any]) -> str:
    failed = f" {found['failed']} calls of the judge failed and count for nothing." if found.get("failed") else ""
    return (
        f"{metric.capitalize()}: how often the answer of the row wins over that of the column, a tie counting a half, "
        f"with the 95 % interval over questions. Verdicts that turned with the order of the answers: "
        f"{percent(found['position_bias'])}.{failed}"
    )


def _wins(metric: str, pairs: Sequence[Row], where: Mapping[frozenset[str], str]) -> str:
    met = dict.fromkeys(name for pair in pairs for name in (pair["first"], pair["second"]))
    names = [*(name for name in CONDITIONS if name in met), *(name for name in met if name not in CONDITIONS)]
    cells = {}
    for pair in pairs:
        first, second = pair["first"], pair["second"]
        href = "#" + where[frozenset((first, second))]
        for row, column, rate, low, high in (
            (first, second, pair["rate"], pair["low"], pair["high"]),
            (second, first, 1 - pair["rate"], 1 - pair["high"], 1 - pair["low"]),
        ):
            cells[row, column] = Cell(rate, percent(rate), f"{100 * low:.0f} to {100 * high:.0f}", href)
    return heat_map(f"Win rates, {metric}", names, cells)


def _tests(metric: str, pairs: Sequence[Row], where: Mapping[frozenset[str], str]) -> Part:
    rows = []
    for pair in pairs:
        href = where[frozenset((pair["first"], pair["second"]))]
        figures = [whole(pair["questions"]), percent(pair["rate"])]
        figures += [f"{percent(pair['low'])} to {percent(pair['high'])}", _p(pair["p"]), _p(pair["p_holm"])]
        rows.append(((), [pair["first"], pair["second"], *(Link(figure, href) for figure in figures)]))
    heads = ("first", "second", "questions", "first wins", "95 % interval", "p (Wilcoxon)", "p (Holm)")
    return table(heads, rows, range(2, 7), f"{metric.capitalize()}, pair by pair")


def _verdicts(metric: str, pair: Row, verdicts: Sequence[Row], questions: Questions, where: str) -> Section:
    def cells(verdict: Row) -> list[Link | str]:
        id_ = verdict["question_id"]
        shown = {side: verdict[side] for side in ("first", "second")}
        winner = shown.get(verdict["winner"], verdict["winner"])
        sides = [Link(name, questions.answer(id_, name)) for name in shown.values()]
        reason = verdict.get("error") or verdict.get("reason", "")
        return [questions.link(id_), *sides, Link(str(verdict.get("repeat", ""))), winner or "failed", reason]

    heads = ("question", "shown first", "shown second", "repeat", "winner", "reason")
    title = f"Verdicts on {metric}: {pair['first']} and {pair['second']}"
    return Section(where, title, (table(heads, (((), cells(verdict)) for verdict in verdicts), [3]),))


def claims_section(summary: Mapping[str, Any], claims: Sequence[Row], questions: Questions, anchors: Anchors) -> Made:
    """Claims per answer, how many kinds of them there are, and how many their sources bear out."""
    rows, bars, records = [], [], []
    parts: list[Part] = [Text(f"Claims found and checked by {summary['model_name'] or summary['model']}.")]
    parts += _left_out("answers' claims", summary)
    thresholds = list(dict.fromkeys(t for found in summary["conditions"].values() for t in found["clusters"]))
    for name, found in summary["conditions"].items():
        where = anchors("claims", name)
        figures = [whole(found["answers"]), f"{found['claims']:.1f}", f"{found['exact']:.1f}"]
        figures += [f"{found['clusters'][t]:.1f}" if t in found["clusters"] else "-" for t in thresholds]
        figures += [percent(found["faithfulness"]), *(whole(found[n]) for n in ("checked", "unchecked", "failed"))]
        rows.append(((), [name, *(Link(figure, where) for figure in figures)]))
        bars.append(Bar(name, found["claims"], f"{found['claims']:.1f}", "#" + where))
        records.append(_claims(name, [row for row in claims if row["condition"] == name], questions, where))
    clusters = (f"clusters at {t}" for t in thresholds)
    heads = ("condition", "answers", "claims", "by word", *clusters, "faithful", "of", "not checked", "failed")
    caption = (
        "Means per answer: claims that differ by word and meaning, and by word alone. Faithful: of so many claims that "
        "were checked, the share that the cited sources bear out; a claim without a citation is not checked."
    )
    if rows:
        parts.append(table(heads, rows, range(1, len(heads)), caption))
        parts.append(Figure(bar_chart("Claims per answer", [("", bars)]), "Different claims per answer, on average."))
    agreement = ", ".join(
        f"{metric} {percent(found['rate'])} of {found['pairs']} pairs"
        for metric, found in summary.get("agreement", {}).items()
    )
    parts += [Text(f"Where judge and claims agree on the better answer: {agreement}.")] if agreement else []
    return Section("claims", "Claims", tuple(parts)), records


def _claims(condition: str, rows: Sequence[Row], questions: Questions, where: str) -> Section:
    def cells(row: Row, claim: Mapping[str, Any]) -> list[Link | str]:
        answer = questions.answer(row["question_id"], condition)
        supported = {True: "yes", False: "no"}.get(claim.get("supported"), "-")  # type: ignore[arg-type]
        return [questions.link(row["question_id"]), claim["text"], Link(supported, answer)]

    found = [((), cells(row, claim)) for row in rows for claim in row["claims"]]
    failed = [((), [questions.link(row["question_id"]), row["error"], ""]) for row in rows if row.get("error")]
    return Section(where, f"Claims under {condition}", (table(("question", "claim", "supported"), [*found, *failed]),))


def _left_out(what: str, summary: Mapping[str, Any]) -> list[Part]:
    """What is in the file and not in the figures."""
    parts: list[Part] = []
    if summary.get("outdated"):
        text = f"{summary['outdated']} {what} are left out: they are on answers that have changed since."
        parts.append(Text(text, warning=True))
    if summary.get("others"):
        others = ", ".join(map(model_name, summary["others"]))
        parts.append(Text(f"The file keeps {what} of other models too, which are not in these figures: {others}."))
    return parts


def _p(value: float | None) -> str:
    return "-" if value is None else "< 0.001" if value < 0.001 else f"{value:.3f}"
