"""What the claims of all answers come to (paper 5.2): how many, how different, how faithful, and against the judge."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from types import MappingProxyType
from typing import Any

from localgraphrag.evaluate.claims import Claim, Spoken, Stated, Support
from localgraphrag.evaluate.ledger import Took
from localgraphrag.evaluate.records import Row, answer_mark, answer_marks
from localgraphrag.evaluate.statistics import clusters
from localgraphrag.evaluate.verdicts import round_scores
from localgraphrag.llm.units import Outcome

THRESHOLDS = (0.5, 0.6, 0.7, 0.8)
"""Distances, 1 - ROUGE-L, up to which claims are of one cluster (paper 5.2)."""


@dataclass(frozen=True)
class ConditionClaims:
    """Means per answer of one condition.

    `claims` are different by word and by embedding, `exact` by word alone, `extracted` all. `clusters` by threshold.
    `faithfulness`: the share, of all `checked` claims, that the cited passages bear out; None where none was checked.
    `failed` counts calls; answers with a failed call are not in the means.
    """

    answers: int
    claims: float
    exact: float
    extracted: float
    clusters: Mapping[str, float]
    faithfulness: float | None
    checked: int
    unchecked: int
    failed: int


@dataclass(frozen=True)
class Agreement:
    """Of `pairs` of answers that both tell apart, the share in which claims and judge name the same as better."""

    rate: float | None
    pairs: int


@dataclass(frozen=True)
class ClaimsReport:
    """All conditions; `agreement` by the judge's metric, for diversity by threshold. `model` found the claims.

    `outdated` rows are on answers that have changed since, and `others` are models whose claims are in the file as
    well; none of these count. `took`: the last run.
    """

    model: str
    embedder: str
    conditions: Mapping[str, ConditionClaims]
    agreement: Mapping[str, Agreement]
    model_name: str = ""
    outdated: int = 0
    others: tuple[str, ...] = ()
    took: Took | None = None


def made_by(summary: Mapping[str, Any]) -> ClaimsReport:
    """The report of `claims.json` without its figures: who made the claims, and what that took."""
    spent = summary.get("took")
    model, embedder, name = (str(summary.get(key, "")) for key in ("model", "embedder", "model_name"))
    return ClaimsReport(model, embedder, {}, {}, name, took=Took(**spent) if spent else None)


def claim_row(
    answer: Row,
    said: Sequence[Spoken],
    stated: Mapping[str, Outcome[Stated]],
    extracted: int,
    exact: int,
    checked: Sequence[tuple[Claim, Outcome[Support] | None]],
) -> Row:
    """A row of `claims.jsonl`: the different claims of an answer, each with what its check came to, or None."""
    failed = [outcome.error for one in said if (outcome := stated[one.name]).error]
    claims = [
        {"text": claim.text, "sentence": claim.spoken.text, "supported": found.value.supported}
        if found is not None and found.value is not None
        else {"text": claim.text, "sentence": claim.spoken.text, "supported": None}
        for claim, found in checked
    ]
    return {
        "question_id": str(answer["question_id"]),
        "condition": answer["condition"],
        "answer_id": answer_mark(answer),
        "claims": claims,
        "sentences": len(said),
        "extracted": extracted,
        "exact": exact,
        "clusters": dict(zip(map(str, THRESHOLDS), clusters([c.text for c, _ in checked], THRESHOLDS), strict=True)),
        "failed": len(failed) + sum(found is not None and not found.ok for _, found in checked),
        "error": f"{len(failed)} of {len(said)} sentences could not be read: {failed[0]}" if failed else "",
    }


def summarize_claims(rows: Sequence[Row], verdicts: Sequence[Row], model: str, embedder: str) -> ClaimsReport:
    """From rows of `claims.jsonl` and `verdicts.jsonl`; without verdicts there is no agreement to tell."""
    names = list(dict.fromkeys(row["condition"] for row in rows))
    conditions = {name: _condition([row for row in rows if row["condition"] == name]) for name in names}
    counted = {(str(row["question_id"]), row["condition"]): row for row in rows if not row["error"]}
    agreement = {"comprehensiveness": _agreement("comprehensiveness", counted, verdicts, None)}
    for threshold in map(str, THRESHOLDS):
        agreement[f"diversity (clusters at {threshold})"] = _agreement("diversity", counted, verdicts, threshold)
    judged = {metric: found for metric, found in agreement.items() if found.pairs}
    return ClaimsReport(model, embedder, conditions, MappingProxyType(judged))


def of_model(rows: Sequence[Row], answers: Sequence[Row], model: str, embedder: str) -> tuple[list[Row], int]:
    """The rows made by a model and an embedder of the answers as they are now; and how many are of earlier answers."""
    now = answer_marks(answers)
    its = [row for row in rows if (row.get("model"), row.get("embedder")) == (model, embedder)]
    current = [row for row in its if now.get((str(row["question_id"]), row["condition"]), "") == row.get("answer_id")]
    return current, len(its) - len(current)


def summarize_model(
    rows: Sequence[Row], answers: Sequence[Row], verdicts: Sequence[Row], made_by: ClaimsReport
) -> ClaimsReport:
    """`summarize_claims` over `of_model`, from all rows of `claims.jsonl` and `answers.jsonl`.

    `verdicts` are those that count; `made_by` has the model, the embedder and what they took.
    """
    current, outdated = of_model(rows, answers, made_by.model, made_by.embedder)
    others = tuple(sorted({str(row.get("model", "")) for row in rows} - {made_by.model}))
    found = summarize_claims(current, verdicts, made_by.model, made_by.embedder)
    return replace(found, model_name=made_by.model_name, outdated=outdated, others=others, took=made_by.took)


def _condition(rows: Sequence[Row]) -> ConditionClaims:
    whole = [row for row in rows if not row["error"]]
    checked = [claim["supported"] for row in rows for claim in row["claims"] if claim["supported"] is not None]
    unchecked = sum(claim["supported"] is None for row in rows for claim in row["claims"])

    def mean(values: Sequence[float]) -> float:
        return fmean(values) if values else 0.0

    return ConditionClaims(
        len(whole),
        mean([len(row["claims"]) for row in whole]),
        mean([row["exact"] for row in whole]),
        mean([row["extracted"] for row in whole]),
        {str(t): mean([row["clusters"][str(t)] for row in whole]) for t in THRESHOLDS},
        fmean(checked) if checked else None,
        len(checked),
        unchecked,
        sum(row["failed"] for row in rows),
    )


def _agreement(
    metric: str, counted: Mapping[tuple[str, str], Row], verdicts: Sequence[Row], threshold: str | None
) -> Agreement:
    def measure(question: str, condition: str) -> int | None:
        row = counted.get((question, condition))
        if row is None:
            return None
        return len(row["claims"]) if threshold is None else int(row["clusters"][threshold])

    agreed = []
    for (name, first, second, question), rounds in round_scores(verdicts).items():
        score = fmean(score for score, _ in rounds)
        ours, theirs = measure(question, first), measure(question, second)
        if name == metric and score != 0.5 and ours is not None and theirs is not None and ours != theirs:
            agreed.append((score > 0.5) == (ours > theirs))
    return Agreement(fmean(agreed) if agreed else None, len(agreed))
