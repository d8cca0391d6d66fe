"""Sections of the report on the judge's verdicts and on claims; each with the records behind it.

They take the summaries as JSON has them (`verdicts.Judgements`, `claims_summary.ClaimsReport`), and the rows that these
were made of.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from localgraphrag.evaluate.page import Anchors, Figure, Link, Part, Section, Text, Words, linked, table
from localgraphrag.evaluate.records import Row
from localgraphrag.evaluate.report_sections import Cells, Made, Questions, percent, whole
from localgraphrag.evaluate.verdicts import round_scores
from localgraphrag.llm.catalog import model_name
from localgraphrag.plots import Bar, Cell, bar_chart, heat_map
from localgraphrag.search.question import CONDITIONS

Pair = frozenset[str]
"""Two conditions, in whatever order they were shown."""


def judged_section(
    judgements: Mapping[str, Any], verdicts: Sequence[Row], questions: Questions, anchors: Anchors
) -> Made:
    """Win rates of every pair by metric, how sure they are, and how far the judge can be trusted."""
    parts: list[Part] = [Text(f"Judge: {judgements['judge_name']}.")]
    parts += _left_out("verdicts", judgements)
    metrics = judgements["metrics"]
    said = _by_pair(verdicts)
    where = {
        metric: {sides: anchors("verdicts", metric, v[0]["first"], v[0]["second"]) for sides, v in pairs.items()}
        for metric, pairs in said.items()
    }
    if judgements.get("warning"):
        heard = sum(found["rounds"] for found in metrics.values())
        told = [str(heard), percent(judgements["position_bias"]), str(judgements["failed"])]
        warning = linked(judgements["warning"], [Link(figure, anchors("rounds")) for figure in told])
        parts.append(Text(warning, warning=True))
    if judgements.get("directness_check"):
        links = _control(metrics["directness"]["pairs"], where["directness"])
        parts.append(Text(linked(judgements["directness_check"], links)))
    records = [_rounds(said, where, anchors)]
    for metric, found in metrics.items():
        caption = _caption(metric, found, anchors("rounds", metric))
        parts.append(Figure(_wins(metric, found["pairs"], where[metric]), caption))
        parts.append(_tests(metric, found["pairs"], where[metric]))
        records += [_verdicts(metric, rows, questions, where[metric][sides]) for sides, rows in said[metric].items()]
    return Section("judged", "Head to head", tuple(parts)), records


def _by_pair(verdicts: Iterable[Row]) -> dict[str, dict[Pair, list[Row]]]:
    """The verdicts by measure and pair."""
    found: dict[str, dict[Pair, list[Row]]] = {}
    for row in verdicts:
        found.setdefault(row["metric"], {}).setdefault(frozenset((row["first"], row["second"])), []).append(row)
    return found


def _control(pairs: Sequence[Row], where: Mapping[Pair, str]) -> list[Link]:
    """How often SS wins directness, as it is told: each rate leads to its verdicts."""
    links = []
    for pair in (pair for pair in pairs if "SS" in (pair["first"], pair["second"])):
        rate = pair["rate"] if pair["first"] == "SS" else 1 - pair["rate"]
        links.append(Link(percent(rate), where[frozenset((pair["first"], pair["second"]))]))
    return links


def _caption(metric: str, found: Mapping[str, Any], rounds: str) -> Words:
    failed = (" ", Link(whole(found["failed"]), rounds), " calls of the judge failed and count for nothing.")
    return (
        f"{metric.capitalize()}: how often the answer of the row wins over that of the column, a tie counting a half, "
        "with the 95 % interval over questions. Verdicts that turned with the order of the answers: ",
        Link(percent(found["position_bias"]), rounds),
        ".",
        *(failed if found.get("failed") else ()),
    )


def _rounds(
    said: Mapping[str, Mapping[Pair, Sequence[Row]]], where: Mapping[str, Mapping[Pair, str]], anchors: Anchors
) -> Section:
    """What came of showing each pair in both orders: the position bias, pair by pair."""
    rows: list[Cells] = []
    for metric, pairs in said.items():
        ids = [anchors("rounds", metric)]
        for sides, verdicts in pairs.items():
            kinds = Counter(kind for played in round_scores(verdicts).values() for _, kind in played)
            figures = [kinds.total() - kinds["same"], *(kinds[kind] for kind in ("flipped", "agreed", "split", "same"))]
            figures.append(sum(bool(verdict["error"]) for verdict in verdicts))
            shown = (Link(whole(figure), where[metric][sides]) for figure in figures)
            rows.append((ids, [metric, " and ".join(sorted(sides)), *shown]))
            ids = []
    heads = ("measure", "pair", "rounds", "turned", "same verdict", "one a tie", "equal answers", "failed calls")
    caption = (
        "A round is two calls, one in each order. Turned: both named the same place, which is position bias. Equal "
        "answers tie without a call."
    )
    return Section(anchors("rounds"), "Verdicts in both orders", (table(heads, rows, range(2, 8), caption),))


def _wins(metric: str, pairs: Sequence[Row], where: Mapping[Pair, str]) -> str:
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


def _tests(metric: str, pairs: Sequence[Row], where: Mapping[Pair, str]) -> Part:
    rows = []
    for pair in pairs:
        href = where[frozenset((pair["first"], pair["second"]))]
        figures = [whole(pair["questions"]), percent(pair["rate"])]
        figures += [f"{percent(pair['low'])} to {percent(pair['high'])}", _p(pair["p"]), _p(pair["p_holm"])]
        rows.append(((), [pair["first"], pair["second"], *(Link(figure, href) for figure in figures)]))
    heads = ("first", "second", "questions", "first wins", "95 % interval", "p (Wilcoxon)", "p (Holm)")
    return table(heads, rows, range(2, 7), f"{metric.capitalize()}, pair by pair")


def _verdicts(metric: str, verdicts: Sequence[Row], questions: Questions, where: str) -> Section:
    def cells(verdict: Row) -> list[Link | str]:
        id_ = verdict["question_id"]
        shown = {side: verdict[side] for side in ("first", "second")}
        winner = shown.get(verdict["winner"], verdict["winner"])
        sides = [Link(name, questions.answer(id_, name)) for name in shown.values()]
        reason = verdict.get("error") or verdict.get("reason", "")
        return [questions.link(id_), *sides, Link(str(verdict.get("repeat", ""))), winner or "failed", reason]

    heads = ("question", "shown first", "shown second", "repeat", "winner", "reason")
    title = f"Verdicts on {metric}: {verdicts[0]['first']} and {verdicts[0]['second']}"
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
    if agreement := summary.get("agreement"):
        parts.append(Text(_agreement(agreement, anchors)))
    return Section("claims", "Claims", tuple(parts)), records


def _agreement(found: Mapping[str, Any], anchors: Anchors) -> Words:
    """How often claims and judge name the same answer, each figure leading to the verdicts of that measure."""
    pieces: list[Link | str] = ["Where judge and claims agree on the better answer: "]
    for metric, one in found.items():
        rounds = anchors("rounds", metric.split()[0])  # "diversity (clusters at 0.5)"
        pieces += [
            f"{metric} ",
            Link(percent(one["rate"]), rounds),
            " of ",
            Link(whole(one["pairs"]), rounds),
            " pairs, ",
        ]
    pieces[-1] = " pairs."
    return tuple(pieces)


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
        text = f"{summary['outdated']} {what} are left out: they are on answers that have changed since, and stand in "
        text += "the file alone."
        parts.append(Text(text, warning=True))
    if summary.get("others"):
        others = ", ".join(map(model_name, summary["others"]))
        parts.append(Text(f"The file keeps {what} of other models too, which are not in these figures: {others}."))
    return parts


def _p(value: float | None) -> str:
    return "-" if value is None else "< 0.001" if value < 0.001 else f"{value:.3f}"
