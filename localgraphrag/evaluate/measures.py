"""What is measured of a project's stored answers without asking a model: facts, gold answers, and the report."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from localgraphrag.errors import ModelError, NotFoundError
from localgraphrag.evaluate.facts import FactsReport, key_questions, read_key, score_facts
from localgraphrag.evaluate.gold import GoldSet, gold_questions, questions_of, read_gold, write_passages
from localgraphrag.evaluate.qa import QAReport, score_answers
from localgraphrag.evaluate.records import FOLDER, Row, read_rows, write_json, write_rows, write_text

if TYPE_CHECKING:
    from localgraphrag.embed import Embedder
    from localgraphrag.project import Project
    from localgraphrag.search.answer import Answer

ANSWER_KEYS = ("question_id", "condition", "answer_id", "text", "citations")
"""What a row of `answers.jsonl` must have to be scored."""


def folder_of(project: Project) -> Path:
    """The folder of the project's evaluation."""
    return project.folder / FOLDER


def measure_facts(project: Project, key: Path | None = None, *, by_embedding: bool = True) -> FactsReport:
    """Score the project's answers against a key (the demo's by default) and write `facts.json`.

    Without an embedder on this machine only what goes by name is scored. Raises ConfigError for a key or answers that
    cannot be read.
    """
    known, answers = read_key(key), read_rows(folder_of(project) / "answers.jsonl", *ANSWER_KEYS)
    embedder: Embedder | None = None
    if by_embedding:
        with suppress(ModelError):
            embedder = project.embedder
    report = score_facts(known, answers, embedder)
    write_json(folder_of(project) / "facts.json", report)
    return report


def write_key_questions(project: Project, key: Path | None = None) -> tuple[int, int]:
    """Add a key's questions to `questions.jsonl`; how many were added, and how many are there now."""
    return add_questions(project, key_questions(read_key(key)))


def measure_qa(project: Project, gold: Path | None = None) -> QAReport:
    """Score the project's answers against a gold set and write `qa.json`.

    `gold` as `read_gold` takes it; None uses the answers that stand in `questions.jsonl`. Raises ConfigError.
    """
    from localgraphrag import tables

    folder = folder_of(project)
    known = read_gold(gold) if gold else questions_of(read_rows(folder / "questions.jsonl", "id", "question"))
    answers = read_rows(folder / "answers.jsonl", *ANSWER_KEYS)
    with project.store() as store:

        def stored(answer_id: str) -> Answer | None:
            try:
                return tables.load_answer(store, answer_id)
            except NotFoundError:
                return None

        report = score_answers(known, answers, stored, tables.chunk_documents(store))
    write_json(folder / "qa.json", report)
    return report


def write_gold_questions(project: Project, gold: Path) -> tuple[int, int, Path | None]:
    """Add a gold set's questions to `questions.jsonl`, and write its passages, where it brings them, to be indexed.

    Returns how many questions were added, how many are there now, and the file of passages or None.
    """
    known: GoldSet = read_gold(gold)
    passages = folder_of(project) / f"{known.name}-passages.jsonl" if known.passages else None
    if passages:
        write_passages(known, passages)
    return *add_questions(project, gold_questions(known)), passages


def write_report(project: Project, target: Path | None = None) -> Path:
    """Write the report of everything measured so far as one HTML file; where it is.

    Raises ConfigError when there is nothing to report.
    """
    from localgraphrag.evaluate.report import REPORT_FILE, read_evaluation, report_html

    economics, spent = None, {}
    if project.index_path.exists():
        economics = project.economics()
        with project.store() as store:
            spent = store.spent("query")
    name = project.folder.resolve().name
    found = read_evaluation(folder_of(project))
    page = report_html(found, economics, title=f"Evaluation of {name}", spent=spent)
    path = target or folder_of(project) / REPORT_FILE
    write_text(path, page)
    return path


def add_questions(project: Project, rows: Iterable[Mapping[str, Any]]) -> tuple[int, int]:
    """Add questions to `questions.jsonl`, but those whose id is there; how many were added, and how many are there."""
    path = folder_of(project) / "questions.jsonl"
    there: list[Row] = read_rows(path, "id", "question", missing_ok=True)
    known = {str(row["id"]) for row in there}
    new = [dict(row) for row in rows if str(row["id"]) not in known]
    write_rows(path, [*there, *new])
    return len(new), len(there) + len(new)
