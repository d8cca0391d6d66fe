"""The steps of an evaluation that ask a model: questions, answers, verdicts, claims; each goes on where it stopped.

Their model work is kept unit by unit in the project's index file. The files in `evaluation/` are written from it, so
that a step that is run again costs nothing for what was done before.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from localgraphrag.errors import ConfigError, ModelError
from localgraphrag.evaluate import claims as taking_apart
from localgraphrag.evaluate.claims_summary import ClaimsReport, claim_row, made_by, summarize_model
from localgraphrag.evaluate.grid import Answered, Ledger, Unanswered, answer_all
from localgraphrag.evaluate.judge import chosen, comparisons, judge_units, verdict_rows
from localgraphrag.evaluate.ledger import took
from localgraphrag.evaluate.measures import ANSWER_KEYS, add_questions, folder_of
from localgraphrag.evaluate.near import Near
from localgraphrag.evaluate.questions import QuestionSet, Sizes, make_questions
from localgraphrag.evaluate.records import FOLDER, Row, merged, read_json, read_rows, write_json, write_rows
from localgraphrag.evaluate.verdicts import Judgements, of_judge, summarize_judge
from localgraphrag.llm.catalog import model_name
from localgraphrag.llm.units import Outcome, Unit, content_hash, run_all

if TYPE_CHECKING:
    from localgraphrag.llm.types import Engine
    from localgraphrag.progress import OnProgress
    from localgraphrag.project import Project
    from localgraphrag.questions import Asking
    from localgraphrag.search.question import Condition
    from localgraphrag.store import Store

T = TypeVar("T")

CALL_KEYS = ("question_id", "metric", "first", "second", "repeat", "judge")
CLAIM_KEYS = ("question_id", "condition", "model", "embedder")
"""What tells rows of `verdicts.jsonl` and of `claims.jsonl` apart: those of other conditions or models stay."""


@dataclass(frozen=True)
class GridReport:
    """What a run of the grid has answered: ledgers by condition, and what could not be answered."""

    questions: int
    conditions: Mapping[str, Ledger]
    unanswered: tuple[Unanswered, ...]


def write_questions(
    project: Project, description: str, sizes: Sizes | None = None, *, progress: OnProgress | None = None
) -> tuple[QuestionSet, int, int]:
    """Make questions from a description of the corpus and add them to `questions.jsonl`.

    Returns the questions, how many of them are new to the file, and how many are in it now. Raises what
    `make_questions` raises, and NotIndexedError: an evaluation is of an index.
    """
    begun = time.monotonic()
    path = folder_of(project) / "questions.jsonl"
    there = [row["question"] for row in read_questions(path, missing_ok=True)]
    with project.asking(embedding=True, progress=progress) as asking:
        assert asking.embedder is not None
        with asking.reporter.stage("questions") as stage:
            asking.runner.stage = stage
            made = make_questions(
                description, sizes or Sizes(), prompts=project.prompts, runner=asking.runner,
                embedder=asking.embedder, seed=project.settings.seed, there=there,
            )  # fmt: skip
        asking.runner.finish()
        made = replace(made, took=took(asking.runner, time.monotonic() - begun))
    added, now = add_questions(project, made.rows)
    counts = {"replaced": made.replaced, "cut": made.cut, "short": made.short, "failed": made.failed}
    write_json(
        folder_of(project) / "questions.json", {"made": len(made.rows), "added": added, **counts, "took": made.took}
    )
    return made, added, now


def read_questions(path: Path, *, missing_ok: bool = False) -> list[Row]:
    """The questions of a file; one without an id gets a hash of its words. Raises ConfigError for an id used twice."""
    found = read_rows(path, "question", missing_ok=missing_ok)
    rows = [{"id": f"q-{content_hash(str(row['question']))[:8]}", **row} for row in found]
    twice = [id_ for id_, count in Counter(str(row["id"]) for row in rows).items() if count > 1]
    if twice:
        raise ConfigError(f"{path} has more than one question with the id {', '.join(twice)}. Give each its own.")
    return rows


def run(
    project: Project,
    questions: Path | None = None,
    conditions: Sequence[str] | None = None,
    *,
    progress: OnProgress | None = None,
) -> GridReport:
    """Answer questions under conditions and write `answers.jsonl`, condition by condition.

    Parameters
    ----------
    questions : a file of one's own, whose questions are added to `questions.jsonl`; None takes what is there.
    conditions : by name; None takes all that this index has.

    Answers under other conditions stay in the file, those to questions no longer asked in these words do not.

    Raises ConfigError for a file without questions, or one that has other words under an id than `questions.jsonl`,
    or an unknown condition; NotIndexedError, ModelError.
    """
    from localgraphrag.search.question import condition

    there = project.conditions()
    wanted = [condition(name) for name in (there if conditions is None else conditions)]
    absent = [c.name for c in wanted if c.name not in there]
    if absent:
        raise ConfigError(f"This index has no {', '.join(absent)}. It has {', '.join(there)}.")
    if questions is not None:
        _check_words(project, questions)
        add_questions(project, read_questions(questions))
    asked = read_questions(questions or folder_of(project) / "questions.jsonl")
    if not asked:
        raise ConfigError("There is no question in the file. `localgraphrag evaluate questions` makes some.")
    done = []
    for one in dict.fromkeys(wanted):
        untried = _not_askable(project, one, asked)
        done.append(untried or _answered(project, one, asked, progress))
        if untried is None:
            _write_answers(project, done[-1])
    return GridReport(
        len(asked), {one.condition: one.ledger for one in done}, tuple(u for one in done for u in one.unanswered)
    )


def _check_words(project: Project, given: Path) -> None:
    """Raise ConfigError where a file has other words for a question than `questions.jsonl`.

    The answers would be to the one, and the judge would read the other.
    """
    path = folder_of(project) / "questions.jsonl"
    words = {str(row["id"]): row["question"] for row in read_questions(path, missing_ok=True)}
    other = [
        str(row["id"]) for row in read_questions(given) if words.get(str(row["id"]), row["question"]) != row["question"]
    ]
    if other:
        raise ConfigError(
            f"{given} asks {', '.join(sorted(other))} in other words than {path}. Give a question that has changed an "
            f"id of its own, or change or delete its line in {path.name}."
        )


def _not_askable(project: Project, condition: Condition, questions: Sequence[Row]) -> Answered | None:
    """What comes of a condition that this machine cannot answer under at all; None if it can."""
    if condition.method != "ss":
        return None
    try:
        _ = project.embedder
    except ModelError as error:
        lost = tuple(Unanswered(str(row["id"]), condition.name, str(error)) for row in questions)
        return Answered(condition.name, (), Ledger(0, 0, len(lost), 0, 0, 0, 0, 0.0), lost)
    return None


def _answered(
    project: Project, condition: Condition, questions: Sequence[Row], progress: OnProgress | None
) -> Answered:
    with project.asking(embedding=True if condition.method == "ss" else None, progress=progress) as asking:
        found = answer_all(asking, condition, questions, project.settings.seed)
        asking.runner.finish()
    return found


def _write_answers(project: Project, new: Answered) -> None:
    """Put the answers of a condition in the place of its earlier ones."""
    folder = folder_of(project)
    path = folder / "answers.jsonl"
    asked = {str(row["id"]): row["question"] for row in read_questions(folder / "questions.jsonl")}
    fresh = {(row["question_id"], row["condition"]) for row in new.rows}
    lost = {(one.question_id, one.condition) for one in new.unanswered}
    earlier = [
        row
        for row in read_rows(path, *ANSWER_KEYS, missing_ok=True)
        if (str(row["question_id"]), row["condition"]) not in fresh | lost
        and str(row["question_id"]) in asked
        and row.get("question", asked[str(row["question_id"])]) == asked[str(row["question_id"])]
    ]
    write_rows(path, [*earlier, *new.rows])


def judge_answers(
    project: Project,
    *,
    conditions: Sequence[str] | None = None,
    metrics: Sequence[str] | None = None,
    repeats: int = 4,
    engine: Engine | None = None,
    progress: OnProgress | None = None,
) -> Judgements:
    """Compare the answers in `answers.jsonl` two by two; write `verdicts.jsonl` and `judgements.json`.

    Verdicts of other conditions, metrics, rounds and judges stay in the file. The summary is of this judge, over all
    its verdicts on the answers as they are now; where there are claims, they are compared with these.

    Parameters
    ----------
    conditions, metrics : None takes all there are.
    repeats : calls for each question, pair and metric; half in each order.
    engine : the judge, in place of the project's model.

    Raises ConfigError for what cannot be judged, ModelError when every call failed.
    """
    begun, folder = time.monotonic(), folder_of(project)
    questions, answers = _read_answers(project)
    with project.asking(engine=engine, progress=progress) as asking:
        seen = _chunks_seen(asking.store, answers)
        calls = comparisons(
            questions, answers, conditions=conditions, metrics=metrics, repeats=repeats, chunks=seen
        )  # fmt: skip
        if not calls:
            raise ConfigError(
                "No question is answered under two of these conditions. Run `localgraphrag evaluate run`."
            )
        outcomes = _batch(asking, "judge", judge_units(calls, project.prompts))
        asking.runner.finish()
        judge, spent = asking.runner.engine.identity, took(asking.runner, time.monotonic() - begun)
    _check(outcomes.values(), "judge")
    rows = merged(_there(folder, "verdicts"), verdict_rows(calls, outcomes, judge), *CALL_KEYS)
    found = summarize_judge(rows, answers, judge, model_name(judge), spent)
    write_rows(folder / "verdicts.jsonl", rows)
    write_json(folder / "judgements.json", found)
    if known := read_json(folder / "claims.json"):
        by = made_by(known)
        write_json(
            folder / "claims.json",
            summarize_model(_there(folder, "claims"), answers, of_judge(rows, answers, judge)[0], by),
        )
    return found


def measure_claims(
    project: Project,
    *,
    conditions: Sequence[str] | None = None,
    engine: Engine | None = None,
    progress: OnProgress | None = None,
) -> ClaimsReport:
    """Take the answers in `answers.jsonl` apart into claims and check these; write `claims.jsonl` and `claims.json`.

    Parameters as for `judge_answers`. Claims of other conditions and models stay in the file. Where there are verdicts,
    the claims are compared with those of the last judge. Raises ConfigError, and ModelError when every call failed or
    there is no embedder.
    """
    begun, folder = time.monotonic(), folder_of(project)
    questions, answers = _read_answers(project)
    there = list(dict.fromkeys(row["condition"] for row in answers))
    wanted = chosen("condition with answers", conditions, there)
    words = {str(row["id"]): row["question"] for row in questions}
    taken = [row for row in answers if row["condition"] in wanted and str(row["question_id"]) in words]
    if not taken:
        raise ConfigError(
            f"No question of questions.jsonl has an answer under {', '.join(wanted) or 'any condition'}. Run "
            "`localgraphrag evaluate run` first."
        )
    with project.asking(engine=engine, embedding=True, progress=progress) as asking:
        assert asking.embedder is not None
        model, near = asking.runner.engine.identity, Near(asking.embedder)
        seen = _chunks_seen(asking.store, answers)
        said = [taking_apart.spoken(words[str(r["question_id"])], r, seen.get(r["answer_id"], ())) for r in taken]
        units = taking_apart.claim_units((one for parts in said for one in parts), project.prompts)
        stated = _batch(asking, "claims", units)
        _check(stated.values(), "claims")
        embedder = asking.embedder.identity
        made = _claim_rows(asking, taken, said, stated, near)
        rows = merged(
            _there(folder, "claims"), [{**row, "model": model, "embedder": embedder} for row in made], *CLAIM_KEYS
        )
        asking.runner.finish()
        spent = took(asking.runner, time.monotonic() - begun)
    judge = (read_json(folder / "judgements.json") or {}).get("judge", "")
    verdicts, _ = of_judge(_there(folder, "verdicts"), answers, judge)
    by = ClaimsReport(model, embedder, {}, {}, model_name(model), took=spent)
    found = summarize_model(rows, answers, verdicts, by)
    write_rows(folder / "claims.jsonl", rows)
    write_json(folder / "claims.json", found)
    return found


def _there(folder: Path, name: str) -> list[Row]:
    """The rows of a file, which may not be there yet."""
    return read_rows(folder / f"{name}.jsonl", missing_ok=True)


def _claim_rows(
    asking: Asking,
    answers: Sequence[Row],
    said: Sequence[Sequence[taking_apart.Spoken]],
    stated: Mapping[str, Outcome[taking_apart.Stated]],
    near: Near,
) -> list[Row]:
    """One row per answer: its claims, each checked against the passages that its paragraph cites."""
    chunks = {chunk.id: chunk for chunk in asking.index.chunks}
    found = [taking_apart.claims_found(parts, stated) for parts in said]
    unique = [taking_apart.unique_claims(claims, near) for claims in found]
    units: list[Unit[taking_apart.Support]] = []
    names: list[list[str]] = []
    for answer, (claims, _) in zip(answers, unique, strict=True):
        names.append([f"{answer['question_id']} {answer['condition']} claim {i}" for i in range(1, len(claims) + 1)])
        for name, claim in zip(names[-1], claims, strict=True):
            passages = taking_apart.evidence(claim.spoken, answer["citations"], chunks, near)
            if passages:
                units.append(taking_apart.support_unit(name, claim, passages, asking.prompts))
    checked = _batch(asking, "support", units)
    _check(checked.values(), "support")
    return [
        claim_row(
            answer, parts, stated, len(everything), exact,
            [(claim, checked.get(name)) for claim, name in zip(claims, known, strict=True)],
        )
        for answer, parts, everything, (claims, exact), known in zip(answers, said, found, unique, names, strict=True)
    ]  # fmt: skip


def _batch(asking: Asking, name: str, units: Sequence[Unit[T]]) -> dict[str, Outcome[Any]]:
    with asking.reporter.stage(name, len(units)) as stage:
        asking.runner.stage = stage
        return run_all(asking.runner, units)


def _check(outcomes: Iterable[Outcome[Any]], what: str) -> None:
    """Raise ModelError where every single call has failed."""
    failed = list(outcomes)
    if failed and not any(outcome.ok for outcome in failed):
        raise ModelError(
            f"All {len(failed)} calls for {what} failed, the first with: {failed[0].error}. Nothing was written. See "
            "`localgraphrag doctor` for the model, and run it again."
        )


def _read_answers(project: Project) -> tuple[list[Row], list[Row]]:
    """Questions and their answers. Raises ConfigError for files that cannot be read."""
    folder = folder_of(project)
    return read_questions(folder / "questions.jsonl"), read_rows(folder / "answers.jsonl", *ANSWER_KEYS)


def _chunks_seen(store: Store, answers: Iterable[Row]) -> dict[str, tuple[str, ...]]:
    """For each answer a chunk of every document that it was written from: so that what is made of it goes with these.

    Raises ConfigError when an answer is no longer in the index, because a document it was written from has left it.
    """
    known = {id_ for (id_,) in store.rows("SELECT id FROM answers")}
    gone = [row for row in answers if row["answer_id"] and row["answer_id"] not in known]
    if gone:
        raise ConfigError(
            f"{len(gone)} of the answers in {FOLDER}/answers.jsonl are no longer in the index: documents have changed "
            "since. Run `localgraphrag evaluate run` again."
        )
    seen: dict[str, tuple[str, ...]] = {}
    for id_, chunk in store.rows("SELECT answer_id, min(chunk_id) FROM answer_chunks GROUP BY answer_id, document_id"):
        seen[id_] = (*seen.get(id_, ()), chunk)
    return seen
