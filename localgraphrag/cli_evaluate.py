"""Commands of the evaluation that ask a model: `evaluate questions`, `run`, `judge` and `claims`."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from localgraphrag import console
from localgraphrag.cli import JsonOption, ModelOption, ProjectOption, _at_work, _into, _names, _open

if TYPE_CHECKING:
    from localgraphrag.evaluate.claims_summary import ClaimsReport
    from localgraphrag.evaluate.ledger import Took
    from localgraphrag.evaluate.verdicts import Judgements

ConditionsOption = Annotated[
    str | None, typer.Option(metavar="C0,..,TS,SS", help="Which; all that there are by default.")
]


def register(evaluate: typer.Typer) -> None:
    """Add the commands to the sub-command `evaluate`."""
    for command in (questions, run, judge, claims):
        evaluate.command()(command)


def questions(
    project: ProjectOption = Path(),
    description: Annotated[
        str | None, typer.Option(metavar="TEXT", help="What the corpus is, in a few sentences.")
    ] = None,
    file: Annotated[
        Path | None, typer.Option(metavar="FILE", help="A text file that says so, or a key like the demo's.")
    ] = None,
    demo: Annotated[bool, typer.Option("--demo", help="The demo corpus, by its own description.")] = False,
    personas: Annotated[int, typer.Option(min=1, help="People who would use the corpus.")] = 5,
    tasks: Annotated[int, typer.Option(min=1, help="Tasks of each.")] = 5,
    per_task: Annotated[int, typer.Option(min=1, help="Questions for each task.")] = 5,
    model: ModelOption = None,
    as_json: JsonOption = False,
) -> None:
    """Make questions from a description of the corpus.

    From the description alone, never from the texts: who would use the corpus, for which tasks, and what they would
    ask. Adds them to evaluation/questions.jsonl, which can be edited.
    """
    from localgraphrag.demo import facts
    from localgraphrag.evaluate.questions import Sizes, read_description
    from localgraphrag.evaluate.steps import write_questions

    given = read_description(facts().description if demo and description is None else description, file)
    with _open(project, model=model) as opened, _at_work() as view:
        made, added, there = write_questions(opened, given, Sizes(personas, tasks, per_task), progress=_into(view))
    if as_json:
        console.write_json({"made": made, "added": added, "there": there})
        return
    console.write_table(("id", "question", "task"), [(row["id"], row["question"], row["task"]) for row in made.rows])
    _print_took(made.took)
    console.write(
        f"\n{added} questions added, {there} in all; {made.replaced} near-duplicates and {made.cut} cut short "
        "were asked for again."
    )
    if made.short or made.failed:
        console.note(f"{made.short} fewer than wanted, since nothing new came; {made.failed} calls failed.")
    console.note(f"Next: localgraphrag evaluate run --project {shlex.quote(str(project))}")


def run(
    project: ProjectOption = Path(),
    questions: Annotated[
        Path | None, typer.Option("--questions", metavar="FILE", help="Your own questions, JSON Lines.")
    ] = None,
    conditions: ConditionsOption = None,
    model: ModelOption = None,
    as_json: JsonOption = False,
) -> None:
    """Answer all questions under all conditions.

    Writes evaluation/answers.jsonl, condition by condition. Stop it at any moment and run it again: it goes on.
    """
    from localgraphrag import evaluate

    with _open(project, model=model) as opened, _at_work() as view:
        found = evaluate.run(opened, questions, _conditions(conditions), progress=_into(view))
    if as_json:
        console.write_json(found)
    else:
        heads = ("condition", "answers", "as before", "failed", "calls", "tokens in", "read", "written", "minutes")
        rows = [
            (
                name, one.answers, one.cached, one.failed, one.calls, one.prompt_tokens, one.read_tokens,
                one.output_tokens, one.seconds / 60,
            )
            for name, one in found.conditions.items()
        ]  # fmt: skip
        console.write_table(heads, rows)
    for lost in found.unanswered[:5]:
        console.note(f"{lost.question_id} under {lost.condition}: {lost.reason}")
    if len(found.unanswered) > 5:
        console.note(f"and {len(found.unanswered) - 5} more without an answer")
    if not any(one.answers for one in found.conditions.values()):
        raise typer.Exit(2)


def judge(
    project: ProjectOption = Path(),
    conditions: ConditionsOption = None,
    metrics: Annotated[
        str | None, typer.Option(metavar="NAME,..", help="Of comprehensiveness, diversity, empowerment, directness.")
    ] = None,
    repeats: Annotated[int, typer.Option(min=2, help="Calls for each pair and measure, half in each order.")] = 4,
    judge_model: Annotated[
        str | None, typer.Option(metavar="NAME|FILE", help="The judge, if not the project's model.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Compare answers two by two.

    A model says which of two answers is better by each measure; every pair is shown in both orders, and a verdict that
    turns with the order is a tie. Writes evaluation/verdicts.jsonl and judgements.json.
    """
    from localgraphrag.evaluate.judge import METRICS
    from localgraphrag.evaluate.steps import judge_answers

    chosen, measures = _conditions(conditions), _names("--metrics", metrics, METRICS)
    with _open(project, model=judge_model) as opened, _at_work() as view:
        found = judge_answers(opened, conditions=chosen, metrics=measures, repeats=repeats, progress=_into(view))
    console.write_json(found) if as_json else _print_judgements(found)


def _print_judgements(found: Judgements) -> None:
    rows = [
        (
            metric, pair.first, pair.second, pair.questions, f"{100 * pair.rate:.0f}%",
            f"{100 * pair.low:.0f} to {100 * pair.high:.0f}", f"{pair.p:.3f}", f"{pair.p_holm:.3f}",
        )
        for metric, one in found.metrics.items()
        for pair in one.pairs
    ]  # fmt: skip
    console.write_table(("measure", "first", "second", "questions", "first wins", "95 %", "p", "p (Holm)"), rows)
    console.write()
    bias = [
        (metric, one.rounds, f"{100 * one.agreed:.0f}%", f"{100 * one.position_bias:.0f}%", one.failed)
        for metric, one in found.metrics.items()
    ]
    console.write_table(("measure", "shown both ways", "same verdict", "turned with the order", "failed"), bias)
    if found.directness_check:
        console.write(f"\n{found.directness_check}")
    _print_took(found.took)
    console.note(f"Judge: {found.judge_name}. {found.warning}")
    _note_left_out("verdicts", found.outdated, found.others)


def claims(
    project: ProjectOption = Path(),
    conditions: ConditionsOption = None,
    model: ModelOption = None,
    as_json: JsonOption = False,
) -> None:
    """Take answers apart into claims and check them.

    How many different claims an answer makes, how many kinds of them, and how many of them the passages it cites bear
    out; and whether that agrees with the judge. Writes evaluation/claims.jsonl and claims.json.
    """
    from localgraphrag.evaluate.steps import measure_claims

    with _open(project, model=model) as opened, _at_work() as view:
        found = measure_claims(opened, conditions=_conditions(conditions), progress=_into(view))
    console.write_json(found) if as_json else _print_claims(found)


def _print_claims(found: ClaimsReport) -> None:
    thresholds = list(next(iter(found.conditions.values())).clusters)
    rows = [
        (
            name, one.answers, one.claims, one.exact, *(one.clusters[t] for t in thresholds),
            "" if one.faithfulness is None else f"{100 * one.faithfulness:.0f}%",
            one.checked, one.unchecked, one.failed,
        )
        for name, one in found.conditions.items()
    ]  # fmt: skip
    clusters = (f"clusters at {t}" for t in thresholds)
    heads = ("condition", "answers", "claims", "by word", *clusters, "borne out", "of", "not checked", "failed")
    console.write_table(heads, rows)
    for metric, one in found.agreement.items():
        share = "" if one.rate is None else f"{100 * one.rate:.0f} % of "
        console.write(f"Judge and claims agree on {metric} in {share}{one.pairs} pairs that both tell apart.")
    _print_took(found.took)
    console.note(f"Claims found and checked by {found.model_name}.")
    _note_left_out("answers' claims", found.outdated, found.others)


def _print_took(took: Took | None) -> None:
    if took is None:
        return
    console.write("\nWhat this run took")
    heads = ("units", "as before", "failed", "calls", "tokens in", "read", "written", "minutes")
    tokens = took.prompt_tokens, took.read_tokens, took.output_tokens
    console.write_table(heads, [(took.units, took.stored, took.failed, took.calls, *tokens, took.seconds / 60)])


def _note_left_out(what: str, outdated: int, others: Sequence[str]) -> None:
    if outdated:
        console.note(f"{outdated} {what} are left out: they are on answers that have changed since.")
    if others:
        console.note(f"The file keeps those of {len(others)} other models as well, which are not in these figures.")


def _conditions(given: str | None) -> list[str] | None:
    from localgraphrag.search.question import CONDITIONS

    return _names("--conditions", given, CONDITIONS)
