"""Sections of the report on answers, planted facts, gold answers and economics; each with the records behind it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from statistics import fmean
from typing import TYPE_CHECKING, Any

from localgraphrag.economics import PAPER, cumulative_plot, percent_of
from localgraphrag.evaluate.facts import refused
from localgraphrag.evaluate.page import Anchors, AnswerPart, Figure, Link, Part, Section, Table, Text, Words, table
from localgraphrag.evaluate.records import Row
from localgraphrag.plots import Bar, bar_chart

if TYPE_CHECKING:
    from localgraphrag.economics import Economics, StageCost
    from localgraphrag.llm.types import Usage

Made = tuple[Section, list[Section]]
"""A section, and those of its records."""

Cells = tuple[Sequence[str], Sequence[Link | str]]
"""Anchors and cells of a row."""

KINDS = {
    "fact": "facts of one place", "multi_hop": "facts of several places", "comparison": "comparisons",
    "null": "not in the corpus (a refusal is right)", "global": "of the whole corpus", "all": "all questions",
    "themes": "themes shown by any answer",
}  # fmt: skip


def percent(share: float | None) -> str:
    """A share from 0 to 1 as a percentage; a dash for None."""
    return "-" if share is None else f"{100 * share:.0f} %"


def whole(value: float | None) -> str:
    """A number without decimals, its thousands marked; a dash for None."""
    return "-" if value is None else f"{value:,.0f}"


class Questions:
    """What the questions say, and where each question and answer stands in the page."""

    def __init__(self, questions: Iterable[Row], answers: Iterable[Row], anchors: Anchors) -> None:
        self.by_id = {str(row["id"]): row for row in questions}
        # of two answers to one question under one condition, the later counts
        self.answers = list({(str(row["question_id"]), row["condition"]): row for row in answers}.values())
        for row in self.answers:
            self.by_id.setdefault(str(row["question_id"]), {"question": str(row["question_id"])})
        self._anchors = anchors
        self._there = {(str(row["question_id"]), row["condition"]) for row in self.answers}

    def link(self, question_id: str) -> Link:
        """The question's words, leading to its answers."""
        known = self.by_id.get(str(question_id))
        if known is None:
            return Link(str(question_id))
        return Link(known["question"], self.anchor(question_id) if self.answers else "")  # shown with their answers

    def anchor(self, question_id: str) -> str:
        """Where the question stands."""
        return self._anchors("question", str(question_id))

    def answer(self, question_id: str, condition: str) -> str:
        """Where the answer stands; "" if there is none."""
        known = (str(question_id), condition) in self._there
        return self._anchors("answer", str(question_id), condition) if known else ""


def answers_section(questions: Questions, conditions: Sequence[str], anchors: Anchors) -> Made:
    """Tokens and time by condition; the answers themselves are the records."""
    by_condition = {name: [row for row in questions.answers if row["condition"] == name] for name in conditions}
    rows: list[Cells] = []
    bars, records = [], []
    for name, found in by_condition.items():
        where = anchors("answers", name)
        read, written = fmean(r["prompt_tokens"] for r in found), fmean(r["output_tokens"] for r in found)
        figures = [
            whole(len(found)), whole(sum(map(refused, found))), whole(read), _read_anew(found), whole(written),
            f"{fmean(r['calls'] for r in found):.1f}", f"{fmean(r['seconds'] for r in found):.1f}",
            f"{fmean(len(r['citations']) for r in found):.1f}",
        ]  # fmt: skip
        rows.append(((), [name, *(Link(figure, where) for figure in figures)]))
        bars.append(Bar(name, read + written, whole(read + written), "#" + where))
        records.append(Section(where, f"Answers under {name}", (_answer_costs(found, questions),)))
    heads = ("condition", "answers", "refused", "tokens in", "read anew", "tokens out", "calls", "seconds", "citations")
    parts = (
        table(heads, rows, range(1, 9), "Means per answer; answers and refusals are counts."),
        Figure(
            bar_chart("Tokens per answer", [("", bars)]),
            "Tokens that an answer took, in and out, on average. They are counted as a service without memory would.",
        ),
    )
    return Section("answers", "Answers: tokens and time", parts), [*records, *_texts(questions)]


def _answer_costs(rows: Sequence[Row], questions: Questions) -> Table:
    def cells(row: Row) -> list[Link]:
        where = questions.answer(row["question_id"], row["condition"])
        figures = [whole(row["prompt_tokens"]), _read_anew([row]), whole(row["output_tokens"]), whole(row["calls"])]
        figures += [f"{row['seconds']:.1f}", whole(len(row["citations"]))]
        return [questions.link(row["question_id"]), *(Link(figure, where) for figure in figures)]

    heads = ("question", "tokens in", "read anew", "tokens out", "calls", "seconds", "citations")
    return table(heads, (((), cells(row)) for row in rows), range(1, 7))


def _read_anew(rows: Sequence[Row]) -> str:
    """The mean of tokens that the model read anew; a dash where rows of an earlier version do not tell."""
    known = [row["read_tokens"] for row in rows if "read_tokens" in row]
    return whole(fmean(known)) if len(known) == len(rows) else "-"


def _texts(questions: Questions) -> list[Section]:
    sections = []
    for id_, question in questions.by_id.items():
        about = ", ".join(f"{k}: {question[k]}" for k in ("persona", "task", "kind", "answer") if question.get(k))
        answers = [row for row in questions.answers if str(row["question_id"]) == id_]
        parts: list[Part] = [Text(about)] if about else []
        parts += [_answer(row, questions.answer(id_, row["condition"])) for row in answers]
        sections.append(Section(questions.anchor(id_), question["question"], tuple(parts)))
    return sections


def _answer(row: Row, where: str) -> AnswerPart:
    note = f"{row['answer_id']}, {whole(row['prompt_tokens'] + row['output_tokens'])} tokens, {row['calls']} calls"
    citations = tuple(
        f"[{c['number']}] {c['title']} ({c['kind']} {c['id'][:16]}, {len(c['sources'])} passages)"
        for c in row["citations"]
    )
    return AnswerPart(where, row["condition"], note, row["text"] or "(no text)", citations)


def facts_section(facts: Mapping[str, Any], questions: Questions, anchors: Anchors) -> Made:
    """The share of planted facts and themes that each condition covers."""
    names = list(dict.fromkeys(s["condition"] for s in [*facts["scores"], *facts["themes"]]))
    rows: list[Cells] = []
    groups = []
    for kind, shares in facts["shares"].items():
        bars = []
        for name in (name for name in names if name in shares):
            share, where = shares[name], anchors("facts", kind, name)
            figures = [whole(share["questions"]), percent(share["mentioned"]), percent(share["by_name"])]
            figures += [_cosine(share.get("cosine")), percent(share["by_embedding"]), percent(share["refused"])]
            rows.append(((), [KINDS.get(kind, kind), name, *(Link(figure, where) for figure in figures)]))
            bars.append(Bar(name, share["by_name"], percent(share["by_name"]), "#" + where))
        groups.append((KINDS.get(kind, kind), bars))
    by_embedding = f"right by embedding, from {facts['near']}"
    heads = ("kind", "condition", "answers", "mentioned", "right by name", "cosine", by_embedding, "refused")
    parts: list[Part] = [
        Text(_facts_read(facts["near"], facts["embedder"])),
        table(heads, rows, range(2, 8)),
        Figure(bar_chart("Planted facts covered", groups, most=1), "Share that is right by name."),
    ]
    records = []
    if facts["unanswered"]:
        pieces: list[Link | str] = ["Questions of the key without an answer, which are not counted: "]
        for name, ids in facts["unanswered"].items():
            pieces += [f"{name}: ", Link(whole(len(ids)), anchors("facts", "unanswered", name)), "; "]
        parts.append(Text((*pieces[:-1], "."), warning=True))
        records += [_lacking(name, ids, questions, anchors) for name, ids in facts["unanswered"].items()]
    records += [_fact_records(name, facts["scores"], questions, anchors) for name in names]
    records += [_theme_records(name, facts["themes"], questions, anchors) for name in names]
    return Section("facts", "Planted facts and themes", tuple(parts)), records


def _facts_read(near: float, embedder: str) -> str:
    """How the figures of planted facts are to be read."""
    by_name = "By name: mentioned is the mean share of what an answer must say; right is one that says all of it."
    if not embedder:
        return f"No judge is asked. {by_name} Nothing was scored by embedding, for want of an embedder."
    return (
        f"No judge is asked. {by_name} By embedding ({embedder[:12]}): cosine is the mean of that of each answer's "
        "sentence nearest to the expected answer, 0 for a refusal, without the questions that the corpus does not "
        f"answer; right is an answer whose cosine is {near} or more. To those questions a refusal is right."
    )


def _lacking(condition: str, ids: Sequence[str], questions: Questions, anchors: Anchors) -> Section:
    """The questions of the key that a condition has not answered."""
    rows: list[Cells] = [((), [questions.link(id_)]) for id_ in ids]
    return Section(
        anchors("facts", "unanswered", condition), f"Questions of the key without an answer under {condition}",
        (table(("question",), rows),),
    )  # fmt: skip


def _fact_records(condition: str, scores: Sequence[Row], questions: Questions, anchors: Anchors) -> Section:
    rows: list[Cells] = []
    met: set[str] = set()
    for score in (s for s in scores if s["condition"] == condition):
        where = [anchors("facts", score["kind"], condition)] if score["kind"] not in met else []
        met.add(score["kind"])
        answer = questions.answer(score["question_id"], condition)
        figures = [f"{score['found']} of {score['groups']}", _yes(score["by_name"]), _yes(score["by_embedding"])]
        figures += [_cosine(score["cosine"]), _yes(score["refused"])]
        missing = "; ".join(score["missing"])
        row = [score["kind"], questions.link(score["question_id"]), *(Link(f, answer) for f in figures)]
        rows.append((where, [*row, missing, score["sentence"]]))
    heads = ("kind", "question", "mentioned", "by name", "by embedding", "cosine", "refused", "not said", "nearest")
    return Section(anchors("facts", "all", condition), f"Facts under {condition}", (table(heads, rows, range(2, 7)),))


def _theme_records(condition: str, themes: Sequence[Row], questions: Questions, anchors: Anchors) -> Section:
    def cells(score: Row) -> list[Link | str]:
        named, near = (questions.answer(score[id_], condition) for id_ in ("question_id", "nearest_id"))
        figures = [Link(f"{len(score['found'])} of {score['terms']}", named), Link(_yes(score["by_name"]), named)]
        figures += [Link(_yes(score["by_embedding"]), near), Link(_cosine(score["cosine"]), near)]
        return [score["theme"], *figures, "; ".join(score["found"]), score["sentence"]]

    heads = ("theme", "terms", "by name", "by embedding", "cosine", "said", "nearest")
    rows = (((), cells(score)) for score in themes if score["condition"] == condition)
    return Section(
        anchors("facts", "themes", condition), f"Themes under {condition}", (table(heads, rows, range(1, 5)),)
    )


def qa_section(qa: Mapping[str, Any], questions: Questions, anchors: Anchors) -> Made:
    """Answers against a gold set."""
    rows: list[Cells] = []
    for kind, means in qa["means"].items():
        for name, mean in means.items():
            where = anchors("gold", kind, name)
            figures = [whole(mean["questions"]), percent(mean["exact"]), f"{mean['f1']:.2f}", percent(mean["contains"])]
            figures += [_recalls(mean["recall"]), _recalls(mean["retrieved"]), percent(mean["refused"])]
            rows.append(((), [kind, name, *(Link(figure, where) for figure in figures)]))
    heads = ("kind", "condition", "answers", "exact", "F1", "contains", "cited, recall@k", "retrieved", "refused")
    names = list(dict.fromkeys(score["condition"] for score in qa["scores"]))
    text = Text(
        "Exact match and F1 compare the whole answer with the gold one, so answers in sentences score low; “contains” "
        "asks whether the gold answer stands in it. Recall is given as k: share of the supporting documents."
    )
    records = [_qa_records(name, qa["scores"], questions, anchors) for name in names]
    return Section("gold", f"Gold answers: {qa['name']}", (text, table(heads, rows, range(2, 9)))), records


def _qa_records(condition: str, scores: Sequence[Row], questions: Questions, anchors: Anchors) -> Section:
    rows: list[Cells] = []
    met: set[str] = set()
    for score in sorted((s for s in scores if s["condition"] == condition), key=lambda s: (s["null"], s["kind"])):
        side = "null" if score["null"] else "answerable"
        first = [kind for kind in dict.fromkeys((score["kind"], side)) if kind not in met]
        met |= {score["kind"], side}
        answer = questions.answer(score["question_id"], condition)
        figures = [f"{score[name]:.2f}" for name in ("exact", "f1", "contains")]
        figures += [_recalls(score["recall"]), _recalls(score["retrieved"]), _yes(score["refused"])]
        ids = [anchors("gold", kind, condition) for kind in first]
        row = [Link(score["kind"]), questions.link(score["question_id"]), *(Link(figure, answer) for figure in figures)]
        rows.append((ids, row))
    heads = ("kind", "question", "exact", "F1", "contains", "cited, recall@k", "retrieved", "refused")
    return Section(
        anchors("gold", "all", condition), f"Gold answers under {condition}", (table(heads, rows, range(2, 8)),)
    )


STAGES = {"questions": ("questions",), "judge": ("judge",), "claims": ("claims", "support")}
"""Steps of the evaluation, and the stages whose units they make."""


def took_section(
    last: Mapping[str, Mapping[str, Any] | None], spent: Mapping[str, Usage], there: Sequence[str]
) -> Section | None:
    """What the steps that ask a model took, in their last run and in all; None if there is nothing to tell.

    `there`: ids of the sections of the page.
    """
    where = {"questions": "answers", "judge": "judged", "claims": "claims"}
    rows: list[Cells] = []
    for step, stages in STAGES.items():
        href = where[step] if where[step] in there else ""
        found = last.get(step)
        used = [spent[stage] for stage in stages if stage in spent]
        if found:
            rows.append(((), [step, "last", *(Link(figure, href) for figure in _took(found))]))
        if used:
            everything = asdict(sum(used[1:], used[0]))
            rows.append(((), [step, "all", *(Link(figure, href) for figure in _took(everything))]))
    heads = ("step", "runs", "calls", "tokens in", "read anew", "written", "minutes")
    caption = (
        "Minutes of the last run are by the clock; those of all runs are those of every call, which are made side by "
        "side, and so add up to more. Answers have figures of their own."
    )
    return Section("took", "What the evaluation took", (table(heads, rows, range(2, 7), caption),)) if rows else None


def _took(found: Mapping[str, Any]) -> list[str]:
    figures = [whole(found[name]) for name in ("calls", "prompt_tokens", "read_tokens", "output_tokens")]
    return [*figures, f"{found['seconds'] / 60:.1f}"]


def economics_section(found: Economics, anchors: Anchors) -> Made:
    """Table 2 for this index, what it cost, and when it pays."""
    rows: list[Cells] = []
    for level in found.levels:
        where = anchors("units", level.name)
        share = "-" if level.percent is None else f"{level.percent:.1f} %"
        figures = [whole(level.units), whole(level.missing), whole(level.tokens), share, whole(level.break_even)]
        rows.append(((), [level.name, *(Link(figure, where) for figure in figures)]))
    heads = ("condition", "units", "not written", "tokens", "of TS", "pays after questions")
    parts: list[Part] = [
        table(heads, rows, range(1, 6), "Tokens of the texts that a question reads (the paper's Table 2)."),
        Figure(
            cumulative_plot(found),
            (
                "All tokens spent: ",
                Link(whole(found.index_tokens), _index_work(found, anchors)),
                " for the index, and with each question those of the table above.",
            ),
        ),
        _stages(found, anchors),
    ]
    if not found.counted:
        parts.append(Text("The model of this index is not at hand, so tokens of reports are estimated.", True))
    paper = ", ".join(f"{name} {percent_of(rows['C0'][1], rows['TS'][1]):.1f} %" for name, rows in PAPER.items())
    parts.append(Text(f"In the paper a question at level C0 reads, of the tokens under TS: {paper}."))
    records = [
        Section(
            anchors("units", level.name), f"Texts read under {level.name}",
            (table(("id", "title", "tokens"), (((), [i, t, whole(n)]) for i, t, n in level.items), [2]),),
        )
        for level in found.levels
    ]  # fmt: skip
    return Section("economics", "Economics", tuple(parts)), [*records, *(_units(s, anchors) for s in found.stages)]


def _stages(found: Economics, anchors: Anchors) -> Table:
    rows: list[Cells] = []
    for stage in found.stages:
        usage, where = stage.usage, anchors("stage", stage.stage)
        figures = [whole(len(stage.units)), whole(usage.calls), whole(usage.prompt_tokens), whole(usage.read_tokens)]
        figures += [whole(usage.output_tokens), f"{stage.minutes:.1f}"]
        rows.append(((), [stage.stage, *(Link(figure, where) for figure in figures)]))
    first = _index_work(found, anchors)
    caption: Words = (
        "What the index cost: ", Link(whole(found.index_tokens), first), " tokens read and written in ",
        Link(f"{found.minutes:.1f}", first), " minutes; a service would have counted ",
        Link(whole(found.billed_tokens), first), ".",
    )  # fmt: skip
    heads = ("stage", "units", "calls", "tokens in", "read anew", "written", "minutes")
    return table(heads, rows, range(1, 7), caption)


def _index_work(found: Economics, anchors: Anchors) -> str:
    """Where the work of the first stage stands, which that of the others follows; "" if there is none."""
    return anchors("stage", found.stages[0].stage) if found.stages else ""


def _units(stage: StageCost, anchors: Anchors) -> Section:
    def cells(name: str, numbers: Sequence[float]) -> list[str]:
        return [name, *map(whole, numbers[:-1]), f"{numbers[-1]:.1f}"]

    rows = (
        ((), cells(unit.name, (u.calls, u.prompt_tokens, u.read_tokens, u.output_tokens, u.seconds)))
        for unit in stage.units
        for u in [unit.usage]
    )
    heads = ("unit", "calls", "tokens in", "read anew", "written", "seconds")
    return Section(anchors("stage", stage.stage), f"Work of stage {stage.stage}", (table(heads, rows, range(1, 6)),))


def _yes(value: bool | None) -> str:
    return "-" if value is None else "yes" if value else "no"


def _cosine(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def _recalls(found: Mapping[str, float] | None) -> str:
    return "-" if not found else ", ".join(f"{k}: {100 * share:.0f} %" for k, share in found.items())
