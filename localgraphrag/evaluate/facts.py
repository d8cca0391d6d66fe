"""Answers scored against facts and themes that are known to be in the corpus; no judge is asked.

For a corpus with a key (the demo has one; `demo.facts` reads any file of its form). By name: does the answer say what
it must mention. By embedding: does one of its sentences come near the expected answer. A question that the corpus does
not answer is met by a refusal.
"""

from __future__ import annotations

import re
import unicodedata
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING

from localgraphrag.errors import ConfigError, explained
from localgraphrag.evaluate.records import Row, without_marks
from localgraphrag.sentences import sentences

if TYPE_CHECKING:
    from localgraphrag.demo import DemoFact, DemoFacts, DemoTheme
    from localgraphrag.embed import Embedder, Matrix

NEAR = 0.6
"""Cosine from which a sentence counts as saying the expected answer; `docs/economics.md` has how it was chosen."""

THEME_SHARE = 0.5
"""Share of a theme's terms from which one answer counts as showing the theme."""

_THOUSANDS = re.compile(r"(?<![\d.,])\d{1,3}(?:([,.' ])\d{3})(?:\1\d{3})*(?!\d)")


@dataclass(frozen=True)
class FactScore:
    """One answer to one question of the key.

    `found` of `groups` that it must mention; `missing`: the first string of each group that is not there. `sentence` is
    the nearest to the expected answer, at `cosine` (None without an embedder). `by_name` and `by_embedding` say whether
    the answer is right; for a question of kind "null" both say whether it was refused.
    """

    question_id: str
    condition: str
    answer_id: str
    kind: str
    found: int
    groups: int
    missing: tuple[str, ...]
    by_name: bool
    sentence: str
    cosine: float | None
    by_embedding: bool | None
    refused: bool


@dataclass(frozen=True)
class ThemeScore:
    """A theme under a condition: the answer that shows it best.

    The answer to `question_id` has most of the theme's terms, `found`; `by_name` where these are `THEME_SHARE` of them
    or more. That to `nearest_id` has the `sentence` nearest to the theme's line.
    """

    theme: str
    condition: str
    question_id: str
    found: tuple[str, ...]
    terms: int
    by_name: bool
    nearest_id: str
    sentence: str
    cosine: float | None
    by_embedding: bool | None


@dataclass(frozen=True)
class Share:
    """Over `questions` answers of one kind, or themes, from 0 to 1.

    `mentioned` is the mean share of what had to be mentioned, `cosine` the mean cosine of the sentence nearest to what
    was expected: 0 for a refusal, and questions of kind "null" have no part in it. `by_name` and `by_embedding` are the
    share that is right: all is mentioned, the cosine is `NEAR` or more. `refused` is the share of refusals, right or
    wrong.
    """

    questions: int
    mentioned: float
    by_name: float
    cosine: float | None
    by_embedding: float | None
    refused: float


@dataclass(frozen=True)
class FactsReport:
    """The whole score. `shares` by kind of question ("all" and "themes" among them), then by condition.

    `unanswered`: questions of the key without an answer, by condition. `others`: answers to questions not in the key.
    """

    embedder: str
    near: float
    shares: Mapping[str, Mapping[str, Share]]
    unanswered: Mapping[str, tuple[str, ...]]
    others: int
    scores: tuple[FactScore, ...]
    themes: tuple[ThemeScore, ...]


def read_key(path: Path | None = None) -> DemoFacts:
    """A key from a file of the demo's form, or the demo's.

    Raises ConfigError for one that cannot be read, or by which any answer to a question would be right.
    """
    from localgraphrag.demo import facts

    with explained(path or Path("facts.toml")):
        key = facts(path)
    open_to_all = [
        fact.id for fact in key.facts if fact.type != "null" and not (fact.must_mention and all(fact.must_mention))
    ]
    if open_to_all:
        raise ConfigError(
            f"The key {path or 'of the demo'} has nothing in must_mention, or an empty group, for "
            f"{', '.join(open_to_all)}. Give groups of the words that a right answer says, or the type null if the "
            "corpus does not answer the question."
        )
    return key


def key_questions(key: DemoFacts) -> list[Row]:
    """The key's questions as rows of `questions.jsonl`, so that the grid can be run on them."""
    return [
        {
            "id": fact.id, "question": fact.question, "persona": "", "task": "", "kind": fact.type,
            "answer": fact.answer, "must_mention": [list(group) for group in fact.must_mention],
        }
        for fact in key.facts
    ]  # fmt: skip


def score_facts(key: DemoFacts, answers: Sequence[Row], embedder: Embedder | None) -> FactsReport:
    """Score stored answers against a key.

    Parameters
    ----------
    key : facts and themes.
    answers : rows of `answers.jsonl`; those to questions of the key are scored, all show themes.
    embedder : None leaves out what goes by embedding.
    """
    conditions = list(dict.fromkeys(row["condition"] for row in answers))
    by_id = {fact.id: fact for fact in key.facts}
    near = _Near(embedder, answers)
    scores = [_score(by_id[row["question_id"]], row, near) for row in answers if row["question_id"] in by_id]
    themes = [
        _theme(theme, name, [row for row in answers if row["condition"] == name], near)
        for theme in key.themes
        for name in conditions
    ]
    answered = {(score.question_id, score.condition) for score in scores}
    lacking = {name: tuple(id_ for id_ in by_id if (id_, name) not in answered) for name in conditions}
    return FactsReport(
        embedder.identity if embedder else "", NEAR, _shares(scores, themes),
        {name: ids for name, ids in lacking.items() if ids}, len(answers) - len(scores), tuple(scores), tuple(themes),
    )  # fmt: skip


def refused(row: Row) -> bool:
    """Whether a stored answer says that the corpus does not hold the answer.

    Told from the record, not from its words: every paragraph that a model writes cites something, by grammar, and
    the tool's own "nothing helps" cites nothing. So a refusal is an answer without text or without a citation. What a
    model says in cited prose ("the papers do not name her") is an answer.
    """
    return not str(row["text"]).strip() or not row["citations"]


def mentions(text: str, term: str) -> bool:
    """Whether `text` says `term`, whatever the case, hyphens, apostrophes, and marks between thousands.

    A term begins where a word begins, and one that ends in a figure ends there: "34" is not in "1934" nor in "340".
    In scripts without spaces it may stand anywhere. Marks of citation, `[3]`, are not read.

    >>> mentions("Thirty four men and 3,800 crowns [1]", "thirty-four"), mentions("built in 1934 [34]", "34")
    (True, False)
    """
    wanted, said = fold(term), f" {fold(text)} "
    if not wanted:
        return False
    for found in re.finditer(f"(?={re.escape(wanted)})", said):
        before, after = said[found.start() - 1], said[found.start() + len(wanted)]
        within = _in_a_word(before) and _in_a_word(wanted[0])
        if not within and not (wanted[-1].isdigit() and after.isdigit()):
            return True
    return False


def _in_a_word(character: str) -> bool:
    """Whether words are made of it: letters that have a case, and figures. Scripts without spaces have no case."""
    return character.islower() or character.isdigit()


def fold(text: str) -> str:
    """The text without case, marks of citation, kinds of hyphen and apostrophe, and marks between thousands."""
    plain = unicodedata.normalize("NFKC", without_marks(text)).casefold()
    plain = re.sub(r"[‘’ʼ`´]", "'", plain)
    plain = re.sub(r"[-‐‑‒–—]+", " ", plain)
    joined = _THOUSANDS.sub(lambda number: re.sub(r"\D", "", number.group()), plain)
    return " ".join(joined.split())


class _Near:
    """The sentence of an answer that is nearest to a text. Each sentence is embedded once."""

    def __init__(self, embedder: Embedder | None, answers: Iterable[Row]) -> None:
        self.embedder = embedder
        given = {str(row["text"]) for row in answers if not refused(row)}
        self.sentences = {text: [s.text for s in sentences(without_marks(text))] for text in sorted(given)}
        self.vectors = self._embedded(t for texts in self.sentences.values() for t in texts)

    def __call__(self, row: Row, wanted: str) -> tuple[str, float | None]:
        said = [] if refused(row) else self.sentences[str(row["text"])]
        if not said or self.embedder is None:
            return "", None
        if wanted not in self.vectors:
            self.vectors |= self._embedded([wanted])
        cosines = [float(self.vectors[sentence] @ self.vectors[wanted]) for sentence in said]
        best = max(range(len(said)), key=cosines.__getitem__)
        return said[best], round(cosines[best], 4)

    def _embedded(self, texts: Iterable[str]) -> dict[str, Matrix]:
        distinct = list(dict.fromkeys(texts))
        if self.embedder is None or not distinct:
            return {}
        return dict(zip(distinct, self.embedder.embed(distinct), strict=True))


def _score(fact: DemoFact, row: Row, near: _Near) -> FactScore:
    no = refused(row)
    absent = [group for group in fact.must_mention if no or not any(mentions(row["text"], term) for term in group)]
    sentence, cosine = near(row, fact.answer)
    null, groups = fact.type == "null", len(fact.must_mention)
    by_name = no if null else not absent and not no
    if null:
        by_embedding: bool | None = no
    else:
        by_embedding = None if near.embedder is None else (cosine or 0) >= NEAR
    return FactScore(
        fact.id, row["condition"], row["answer_id"], fact.type, groups - len(absent), groups,
        tuple(group[0] for group in absent), by_name, sentence, cosine, by_embedding, no,
    )  # fmt: skip


def _theme(theme: DemoTheme, condition: str, rows: Sequence[Row], near: _Near) -> ThemeScore:
    given = {str(row["question_id"]): row for row in rows if not refused(row)}
    named = {id_: tuple(t for t in theme.terms if mentions(row["text"], t)) for id_, row in given.items()}
    best = max(named, key=lambda id_: len(named[id_]), default="")
    found = named.get(best, ())
    nearest = {id_: near(row, theme.line) for id_, row in given.items()}
    closest = max(nearest, key=lambda id_: nearest[id_][1] or 0, default="")
    sentence, cosine = nearest.get(closest, ("", None))
    return ThemeScore(
        theme.name, condition, best, found, len(theme.terms),
        bool(found) and len(found) >= THEME_SHARE * len(theme.terms), closest, sentence, cosine,
        None if near.embedder is None else (cosine or 0) >= NEAR,
    )  # fmt: skip


def _shares(scores: Sequence[FactScore], themes: Sequence[ThemeScore]) -> dict[str, dict[str, Share]]:
    groups: defaultdict[tuple[str, str], list[FactScore]] = defaultdict(list)
    for score in scores:
        groups[score.kind, score.condition].append(score)
        groups["all", score.condition].append(score)
    order: Callable[[tuple[str, str]], tuple[bool, str]] = lambda pair: (pair[0] == "all", "")  # noqa: E731
    shares: defaultdict[str, dict[str, Share]] = defaultdict(dict)
    for kind, condition in sorted(groups, key=order):
        shares[kind][condition] = _share(groups[kind, condition])
    for condition in dict.fromkeys(theme.condition for theme in themes):
        shares["themes"][condition] = _theme_share([theme for theme in themes if theme.condition == condition])
    return dict(shares)


def _share(scores: Sequence[FactScore]) -> Share:
    near = [score.by_embedding for score in scores if score.by_embedding is not None]
    mentioned = [score.found / score.groups if score.groups else float(score.by_name) for score in scores]
    cosines = [score.cosine or 0.0 for score in scores if score.kind != "null" and score.by_embedding is not None]
    return Share(
        len(scores),
        fmean(mentioned),
        fmean(score.by_name for score in scores),
        fmean(cosines) if cosines else None,
        fmean(near) if len(near) == len(scores) else None,
        fmean(score.refused for score in scores),
    )


def _theme_share(themes: Sequence[ThemeScore]) -> Share:
    near = [theme.by_embedding for theme in themes if theme.by_embedding is not None]
    mentioned = [len(theme.found) / theme.terms if theme.terms else 0.0 for theme in themes]
    cosines = [theme.cosine or 0.0 for theme in themes if theme.by_embedding is not None]
    return Share(
        len(themes),
        fmean(mentioned),
        fmean(theme.by_name for theme in themes),
        fmean(cosines) if cosines else None,
        fmean(near) if len(near) == len(themes) else None,
        0.0,
    )
