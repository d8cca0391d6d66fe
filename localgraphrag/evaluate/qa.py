"""Answers scored against a gold set: exact match, token F1, recall of supporting documents, refusals.

Exact match and token F1 are SQuAD's (arXiv 1606.05250), by which HotpotQA and MuSiQue are scored too.
"""

from __future__ import annotations

import string
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from localgraphrag.evaluate.facts import refused
from localgraphrag.evaluate.gold import LIHUA_NULL, GoldQuestion, GoldSet
from localgraphrag.evaluate.records import Row, without_marks
from localgraphrag.search.answer import Answer

CUTS = (2, 5, 10)
"""The k of recall@k."""


@dataclass(frozen=True)
class QAScore:
    """One answer against gold. All from 0 to 1.

    `exact` and `f1` compare the whole answer; `contains` asks whether a gold answer stands in it, word for word, which
    is fairer to answers in sentences. `recall` is the share of supporting documents among the first k that the answer
    cites, by k; `retrieved` the same of what vector search put before the model, None for other methods. None too where
    nothing supports.
    """

    question_id: str
    condition: str
    answer_id: str
    kind: str
    null: bool
    refused: bool
    exact: float
    f1: float
    contains: float
    recall: Mapping[int, float] | None
    retrieved: Mapping[int, float] | None


@dataclass(frozen=True)
class QASummary:
    """Means over the answers of one kind; `refused` is the share refused, which is right for null questions only."""

    questions: int
    exact: float
    f1: float
    contains: float
    recall: Mapping[int, float] | None
    retrieved: Mapping[int, float] | None
    refused: float


@dataclass(frozen=True)
class QAReport:
    """The whole score: means by kind ("all", "answerable" and "null" among them), then by condition."""

    name: str
    means: Mapping[str, Mapping[str, QASummary]]
    scores: tuple[QAScore, ...]


def normalized(text: str) -> list[str]:
    """The words of an answer as SQuAD compares them: no case, punctuation, articles or marks of citation.

    >>> normalized("The Long Pier, 1931. [2]")
    ['long', 'pier', '1931']
    """
    plain = "".join(" " if c in "-–—" else c for c in without_marks(text).casefold())
    words = "".join(c for c in plain if c not in string.punctuation and c not in "’‘“”").split()
    return [word for word in words if word not in ("a", "an", "the")]


def exact_match(text: str, gold: str) -> float:
    """1 where the two are the same words, else 0."""
    return float(normalized(text) == normalized(gold))


def token_f1(text: str, gold: str) -> float:
    """F1 over the words they share. With an answer of yes or no it is exact match, as HotpotQA has it.

    >>> round(token_f1("the Long Pier of Ostrey", "Long Pier"), 2)  # precision 2/4, recall 2/2
    0.67
    """
    said, wanted = normalized(text), normalized(gold)
    if not said or not wanted or {*map(tuple, (said, wanted))} & {("yes",), ("no",)}:
        return float(said == wanted)
    shared = sum((Counter(said) & Counter(wanted)).values())
    return 2 * shared / (len(said) + len(wanted))


def contains(text: str, gold: str) -> float:
    """1 where the gold answer's words stand in the text one after another, else 0.

    >>> contains("It was the Long Pier.", "Long Pier"), contains("A pier, and long.", "Long Pier")
    (1.0, 0.0)
    """
    said, wanted = f" {' '.join(normalized(text))} ", f" {' '.join(normalized(gold))} "
    return float(bool(wanted.strip()) and wanted in said)


def recall_at(ranked: Sequence[str], supporting: Sequence[str]) -> dict[int, float] | None:
    """Share of the supporting ids among the first k distinct of `ranked`, by k; None where nothing supports.

    >>> recall_at(["a", "a", "b", "c"], ["b", "x"])
    {2: 0.5, 5: 0.5, 10: 0.5}
    """
    if not supporting:
        return None
    distinct = list(dict.fromkeys(ranked))
    return {k: len({*distinct[:k]} & {*supporting}) / len({*supporting}) for k in CUTS}


def score_answers(
    gold: GoldSet, answers: Iterable[Row], stored: Callable[[str], Answer | None], documents: Mapping[str, str]
) -> QAReport:
    """Score stored answers against gold.

    Parameters
    ----------
    gold : questions; answers to others are passed over.
    answers : rows of `answers.jsonl`.
    stored : the recorded answer of an id, or None; what vector search retrieved is in its record.
    documents : the document id of each chunk id.
    """
    by_id = {question.id: question for question in gold.questions}
    scores = []
    for row in answers:
        question = by_id.get(str(row["question_id"]))
        if question is not None:
            retrieved = _retrieved(stored(row["answer_id"]), documents)
            scores.append(_score(question, row, retrieved))
    return QAReport(gold.name, _means(scores), tuple(scores))


def _score(question: GoldQuestion, row: Row, retrieved: Sequence[str] | None) -> QAScore:
    no = refused(row)
    measures = {"exact": exact_match, "f1": token_f1, "contains": contains}
    # Of a null question only a refusal is right, and the words that LiHua-World has for one; MuSiQue gives the answer
    # that the question would have had.
    right = [gold for gold in question.answers if not question.null or gold.strip().casefold() == LIHUA_NULL]
    if no:
        best = dict.fromkeys(measures, float(question.null))
    else:
        best = {n: max((measure(row["text"], g) for g in right), default=0.0) for n, measure in measures.items()}
    cited = [source["document_id"] for citation in row["citations"] for source in citation["sources"]]
    return QAScore(
        question.id, row["condition"], row["answer_id"], question.kind, question.null, no, **best,
        recall=recall_at(cited, question.supporting),
        retrieved=None if retrieved is None else recall_at(retrieved, question.supporting),
    )  # fmt: skip


def _retrieved(answer: Answer | None, documents: Mapping[str, str]) -> list[str] | None:
    """Documents that vector search showed the model, nearest first; None for other methods."""
    if answer is None or answer.method != "ss":
        return None
    shown = [chunk for batch in answer.record.get("batches", ()) for chunk in batch["ids"]]
    return [documents[chunk] for chunk in shown if chunk in documents]


def _means(scores: Sequence[QAScore]) -> dict[str, dict[str, QASummary]]:
    groups: defaultdict[str, defaultdict[str, list[QAScore]]] = defaultdict(lambda: defaultdict(list))
    for score in scores:
        for kind in dict.fromkeys((score.kind, "null" if score.null else "answerable", "all")):
            groups[kind][score.condition].append(score)
    last = ("answerable", "null", "all")
    order = [*(kind for kind in groups if kind not in last), *(kind for kind in last if kind in groups)]
    return {kind: {name: _mean(found) for name, found in groups[kind].items()} for kind in order}


def _mean(scores: Sequence[QAScore]) -> QASummary:
    return QASummary(
        len(scores),
        fmean(score.exact for score in scores),
        fmean(score.f1 for score in scores),
        fmean(score.contains for score in scores),
        _recall_mean([score.recall for score in scores]),
        _recall_mean([score.retrieved for score in scores]),
        fmean(score.refused for score in scores),
    )


def _recall_mean(found: Sequence[Mapping[int, float] | None]) -> dict[int, float] | None:
    known = [each for each in found if each is not None]
    return {k: fmean(each[k] for each in known) for k in CUTS} if known else None
