"""Commands that measure without asking a model: `economics`, and `evaluate facts`, `qa` and `report`."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from localgraphrag import console
from localgraphrag.cli import JsonOption, ProjectOption, _open
from localgraphrag.errors import ConfigError, explained

if TYPE_CHECKING:
    from localgraphrag.economics import Economics

WriteOption = Annotated[bool, typer.Option("--write-questions", help="Add its questions to questions.jsonl; no score.")]


def register(app: typer.Typer, evaluate: typer.Typer) -> None:
    """Add the commands to the program and to its sub-command `evaluate`."""
    app.command()(economics)
    for command in (facts, qa, report):
        evaluate.command()(command)


def economics(
    project: ProjectOption = Path(),
    plot: Annotated[Path | None, typer.Option(metavar="FILE.svg", help="Write the plot over questions here.")] = None,
    as_json: JsonOption = False,
) -> None:
    """What the index cost and when it pays.

    Units and tokens of every level and of all texts (TS), as in the paper's Table 2; what each stage of indexing took;
    and after how many questions the index has cost less than TS would have.
    """
    from localgraphrag.economics import cumulative_plot

    found = _open(project).economics()
    if plot:
        with explained(plot.parent, "made a folder"):
            plot.parent.mkdir(parents=True, exist_ok=True)
        with explained(plot, "written"):
            plot.write_text(cumulative_plot(found), encoding="utf-8")
        console.note(f"The plot is in {plot}.")
    console.write_json(found) if as_json else _print_economics(found)


def _print_economics(found: Economics) -> None:
    rows = [
        (
            level.name, level.units, level.tokens, "" if level.percent is None else f"{level.percent:.1f}%",
            "" if level.break_even is None else level.break_even, f"{level.missing:,}" if level.missing else "",
        )
        for level in found.levels
    ]  # fmt: skip
    console.write("Tokens of the texts that a question reads")
    console.write_table(("condition", "units", "tokens", "of TS", "pays after questions", "not written"), rows)
    console.write("\nWhat the index cost")
    stages = [
        (stage.stage, len(stage.units), u.calls, u.prompt_tokens, u.read_tokens, u.output_tokens, stage.minutes)
        for stage in found.stages
        for u in [stage.usage]
    ]
    heads = ("stage", "units", "calls", "tokens in", "read anew", "written", "minutes")
    console.write_table(heads, stages)
    console.write(
        f"\n{found.index_tokens:,} tokens read and written, in {found.minutes:.1f} minutes; a service without memory "
        f"would have counted {found.billed_tokens:,}."
    )
    if any(level.missing for level in found.levels):
        console.note("Reports that are not written count for nothing; a question at that level writes them.")
    if not found.counted:
        console.note("The model of this index is not at hand: tokens of reports are estimated from their length.")


def facts(
    project: ProjectOption = Path(),
    key: Annotated[
        Path | None, typer.Option(metavar="FILE", help="A key to the corpus; the demo's by default.")
    ] = None,
    write_questions: WriteOption = False,
    embedding: Annotated[bool, typer.Option("--embedding/--no-embedding", help="Score by embedding as well.")] = True,
    as_json: JsonOption = False,
) -> None:
    """Score answers against planted facts and themes.

    No judge is asked: the share of each question's facts that the answer says, by name and by embedding, per kind of
    question; to a question that the corpus does not answer, a refusal is right. Writes evaluation/facts.json.
    """
    from localgraphrag.evaluate import measures

    opened = _open(project)
    if write_questions:
        _say_added(*measures.write_key_questions(opened, key), opened.folder)
        return
    found = measures.measure_facts(opened, key, by_embedding=embedding)
    if as_json:
        console.write_json(found)
        return
    rows = [
        (
            kind, name, s.questions, *map(_percent, (s.mentioned, s.by_name)),
            "" if s.cosine is None else f"{s.cosine:.2f}", *map(_percent, (s.by_embedding, s.refused)),
        )
        for kind, shares in found.shares.items()
        for name, s in shares.items()
    ]  # fmt: skip
    heads = ("kind", "condition", "answers", "mentioned", "right by name", "cosine", "right by embedding", "refused")
    console.write_table(heads, rows)
    if embedding and not found.embedder:
        console.note("There is no embedder on this machine, so nothing was scored by embedding.")
    for name, ids in found.unanswered.items():
        console.note(f"{name}: {len(ids)} questions of the key have no answer yet.")


def qa(
    project: ProjectOption = Path(),
    gold: Annotated[
        Path | None, typer.Option(metavar="PATH", help="LiHua-World's folder, or files of HotpotQA or MuSiQue.")
    ] = None,
    write_questions: WriteOption = False,
    as_json: JsonOption = False,
) -> None:
    """Score answers against gold answers.

    Exact match, token F1, whether the gold answer stands in the text, recall of the supporting documents, refusals.
    Without --gold, the answers that stand in questions.jsonl are taken. Writes evaluation/qa.json.
    """
    from localgraphrag.evaluate import measures

    opened = _open(project)
    if write_questions:
        if gold is None:
            raise ConfigError("--write-questions needs --gold PATH, the set whose questions are to be written.")
        added, there, passages = measures.write_gold_questions(opened, gold)
        _say_added(added, there, opened.folder)
        if passages:
            console.note(f"Its passages are in {passages}: index them with `localgraphrag index {passages}`.")
        return
    found = measures.measure_qa(opened, gold)
    if as_json:
        console.write_json(found)
        return
    rows = [
        (
            kind, name, m.questions, _percent(m.exact), f"{m.f1:.2f}", _percent(m.contains), _recall(m.recall),
            _recall(m.retrieved), _percent(m.refused),
        )
        for kind, means in found.means.items()
        for name, m in means.items()
    ]  # fmt: skip
    heads = ("kind", "condition", "answers", "exact", "F1", "contains", "cited, recall@k", "retrieved", "refused")
    console.write_table(heads, rows)


def report(
    project: ProjectOption = Path(),
    out: Annotated[Path | None, typer.Option(metavar="FILE.html", help="Write it here.")] = None,
) -> None:
    """Write one HTML file with everything measured so far.

    Tables, plots, and every record behind them; it needs no network. By default evaluation/report.html.
    """
    from localgraphrag.evaluate import measures

    console.write(str(measures.write_report(_open(project), out)))


def _say_added(added: int, there: int, folder: Path) -> None:
    console.write(f"{added} questions added, {there} in all.")
    console.note(f"Next: localgraphrag evaluate run --project {shlex.quote(str(folder))}")


def _percent(share: float | None) -> str:
    return "" if share is None else f"{100 * share:.0f}%"


def _recall(found: Mapping[int, float] | None) -> Any:
    return "" if found is None else " ".join(f"{k}:{100 * share:.0f}%" for k, share in found.items())
