"""The report of an evaluation: one HTML file with tables, plots, and every record that a figure was made of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from localgraphrag.errors import ConfigError
from localgraphrag.evaluate import report_judged, report_sections
from localgraphrag.evaluate.claims_summary import made_by, of_model, summarize_model
from localgraphrag.evaluate.page import Anchors, Link, Section, Words, render
from localgraphrag.evaluate.records import FOLDER, Row, plain, read_json, read_rows
from localgraphrag.evaluate.verdicts import of_judge, summarize_judge
from localgraphrag.search.question import CONDITIONS

if TYPE_CHECKING:
    from localgraphrag.economics import Economics
    from localgraphrag.llm.types import Usage

REPORT_FILE = "report.html"


@dataclass(frozen=True)
class Evaluation:
    """What an evaluation has left in its files so far; of what was not run there is nothing."""

    questions: tuple[Row, ...] = ()
    answers: tuple[Row, ...] = ()
    verdicts: tuple[Row, ...] = ()
    claims: tuple[Row, ...] = ()
    judgements: Mapping[str, Any] | None = None
    claims_summary: Mapping[str, Any] | None = None
    facts: Mapping[str, Any] | None = None
    qa: Mapping[str, Any] | None = None
    made_questions: Mapping[str, Any] | None = None

    @property
    def conditions(self) -> list[str]:
        """The conditions answered under, the paper's first and in its order."""
        found = dict.fromkeys(row["condition"] for row in self.answers)
        return [*(name for name in CONDITIONS if name in found), *(name for name in found if name not in CONDITIONS)]


def read_evaluation(folder: Path) -> Evaluation:
    """The files of an evaluation. Raises ConfigError for one that cannot be read."""

    def rows(name: str, *needed: str) -> tuple[Row, ...]:
        return tuple(read_rows(folder / name, *needed, missing_ok=True))

    answered = ("question_id", "condition", "answer_id", "text", "citations")
    spent = ("prompt_tokens", "output_tokens", "seconds", "calls")
    return Evaluation(
        rows("questions.jsonl", "id", "question"),
        rows("answers.jsonl", *answered, *spent),
        rows("verdicts.jsonl", "question_id", "metric", "first", "second", "winner"),
        rows("claims.jsonl", "question_id", "condition", "claims"),
        *(read_json(folder / f"{name}.json") for name in ("judgements", "claims", "facts", "qa", "questions")),
    )


def counted(found: Evaluation) -> Evaluation:
    """Without verdicts and claims on answers that have changed since, or of other models than the last.

    The summaries are made anew from what is left, so that it does not matter which command was run first.
    """
    verdicts, claims = found.verdicts, found.claims
    judgements, summary = found.judgements, found.claims_summary
    if judgements:
        judge, name = judgements["judge"], judgements.get("judge_name", "")
        last = judgements.get("took")
        judgements = plain(summarize_judge(verdicts, found.answers, judge, name)) | {"took": last}
        verdicts = tuple(of_judge(verdicts, found.answers, judge)[0])
    if summary:
        by = made_by(summary)
        summary = plain(summarize_model(claims, found.answers, verdicts if judgements else (), by))
        claims = tuple(of_model(claims, found.answers, by.model, by.embedder)[0])
    return replace(found, verdicts=verdicts, claims=claims, judgements=judgements, claims_summary=summary)


def report_html(
    evaluation: Evaluation,
    economics: Economics | None,
    *,
    title: str,
    spent: Mapping[str, Usage] = MappingProxyType({}),
) -> str:
    """The report as one HTML file that needs no network and no script.

    Parameters
    ----------
    evaluation : what there is; sections of what was not run are left out.
    economics : of the index, or None where there is none.
    title : at its head.
    spent : by stage, what questions and the evaluation took in all runs (`Store.spent`).

    Raises ConfigError when there is nothing at all to report.
    """
    evaluation = counted(evaluation)
    anchors = Anchors()
    questions = report_sections.Questions(evaluation.questions, evaluation.answers, anchors)
    made: list[report_sections.Made] = []
    if evaluation.judgements:
        made.append(report_judged.judged_section(evaluation.judgements, evaluation.verdicts, questions, anchors))
    if evaluation.claims_summary:
        made.append(report_judged.claims_section(evaluation.claims_summary, evaluation.claims, questions, anchors))
    if evaluation.facts:
        made.append(report_sections.facts_section(evaluation.facts, questions, anchors))
    if evaluation.qa:
        made.append(report_sections.qa_section(evaluation.qa, questions, anchors))
    if economics is not None:
        made.append(report_sections.economics_section(economics, anchors))
    if evaluation.answers:
        made.append(report_sections.answers_section(questions, evaluation.conditions, anchors))
    last = {
        "questions": (evaluation.made_questions or {}).get("took"),
        "judge": (evaluation.judgements or {}).get("took"),
        "claims": (evaluation.claims_summary or {}).get("took"),
    }
    if took := report_sections.took_section(last, spent, [section.id for section, _ in made]):
        made.append((took, []))
    if not made:
        raise ConfigError(
            f"There is nothing to report yet: no index, and no answers in {FOLDER}/. Run `localgraphrag index` and "
            "`localgraphrag evaluate run` first."
        )
    records: list[Section] = [record for _, found in made for record in found]
    subtitle: Words = "No index"
    if economics is not None:
        chunks = economics.levels[-1]
        figure = Link(f"{len(chunks.items):,} chunks", anchors("units", chunks.name))
        subtitle = (figure, f", model {economics.model[:12]}")
    return render(title, subtitle, [section for section, _ in made], records)
