"""Gold sets: questions whose right answers and supporting passages others have written down.

Readers for LiHua-World (MiniRAG, arXiv 2501.06713), HotpotQA (arXiv 1809.09600) and MuSiQue (arXiv 2108.00573).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from localgraphrag.errors import ConfigError
from localgraphrag.evaluate.records import Row, read_json, read_rows, write_rows

LIHUA_NULL = "insufficient information"
"""The gold answer of LiHua-World's questions that its chats do not answer."""


@dataclass(frozen=True)
class GoldQuestion:
    """A question, every answer that counts as right, and the ids of the documents that support it.

    `kind` is the set's own: "Single", "bridge", "2hop" and so on. `null`: there is no answer, and a refusal is right.
    `lost`: supporting passages that the set names and does not hold.
    """

    id: str
    question: str
    kind: str
    answers: tuple[str, ...]
    supporting: tuple[str, ...]
    null: bool = False
    lost: int = 0


@dataclass(frozen=True)
class GoldSet:
    """Questions, and the passages to index for them as rows of title and text; none where the files are the corpus."""

    name: str
    questions: tuple[GoldQuestion, ...]
    passages: tuple[tuple[str, str], ...] = ()


def read_gold(path: Path) -> GoldSet:
    """A gold set: LiHua-World's folder, a JSON Lines file of HotpotQA's or MuSiQue's form, or a folder of such.

    Raises ConfigError when it is none of these.
    """
    if (path / "query_set.json").is_file():
        return read_lihua(path)
    files = [path] if path.is_file() else sorted(path.glob("*.jsonl"))
    sets = [read_multihop(file) for file in files]
    if not sets:
        raise ConfigError(
            f"{path} is no gold set: it holds neither query_set.json (LiHua-World) nor *.jsonl files of HotpotQA or "
            "MuSiQue. Give the folder of one of them."
        )
    passages = dict.fromkeys(passage for each in sets for passage in each.passages)
    return GoldSet(path.stem, tuple(q for each in sets for q in each.questions), tuple(passages))


def read_lihua(folder: Path) -> GoldSet:
    """LiHua-World: `query_set.json`, whose evidence are the times that its chats begin with. Index `chats/` for it.

    A chat is known by the sha256 of its text, which is a document's id.
    """
    from localgraphrag.documents import read_documents

    chats: dict[str, list[str]] = {}
    for document in read_documents([folder / "chats"], include=["*.txt"]).documents:
        first = document.text.split("\n", 1)[0]
        chats.setdefault(first.removeprefix("Time:").strip(), []).append(document.id)
    entries = read_json(folder / "query_set.json")
    return GoldSet("lihua_world", tuple(_lihua(id_, entry, chats) for id_, entry in entries.items()))


def _lihua(id_: str, entry: Mapping[str, Any], chats: Mapping[str, Sequence[str]]) -> GoldQuestion:
    stamps = [s.strip() for s in entry["evidence"].split("<and>") if s.strip() not in ("", "N/A")]
    null = entry["answer"].strip().casefold() == LIHUA_NULL
    supporting = dict.fromkeys(document for stamp in stamps for document in chats.get(stamp, ()))
    lost = sum(stamp not in chats for stamp in stamps)
    answers, supports = (entry["answer"],), () if null else tuple(supporting)
    return GoldQuestion(f"lihua-{id_}", entry["question"], entry["type"], answers, supports, null, lost)


def read_multihop(path: Path) -> GoldSet:
    """A JSON Lines file of HotpotQA or MuSiQue: each question brings its own paragraphs, relevant and not.

    The paragraphs of all questions together are the corpus; write them with `write_passages`.
    """
    questions: list[GoldQuestion] = []
    passages: dict[tuple[str, str], None] = {}
    for row in read_rows(path, "question", "answer"):
        paragraphs, supporting = _hotpot(row) if "supporting_facts" in row else _musique(row, path)
        passages |= dict.fromkeys(paragraphs)
        kind = row.get("type") or str(row.get("id", "")).split("_")[0] or "multihop"
        questions.append(
            GoldQuestion(
                str(row.get("_id") or row["id"]), row["question"], kind,
                (row["answer"], *row.get("answer_aliases", ())),
                tuple(dict.fromkeys(document_id(text) for text in supporting)), not row.get("answerable", True),
            )
        )  # fmt: skip
    return GoldSet(path.stem, tuple(questions), tuple(passages))


def _hotpot(row: Row) -> tuple[list[tuple[str, str]], list[str]]:
    paragraphs = [(title, "".join(said)) for title, said in row["context"]]
    wanted = {title for title, _ in row["supporting_facts"]}
    return paragraphs, [text for title, text in paragraphs if title in wanted]


def _musique(row: Row, path: Path) -> tuple[list[tuple[str, str]], list[str]]:
    if "paragraphs" not in row:
        raise ConfigError(f"{path} is neither of HotpotQA's form (supporting_facts) nor of MuSiQue's (paragraphs).")
    found = [(p["title"], p["paragraph_text"], p["is_supporting"]) for p in row["paragraphs"]]
    return [(title, text) for title, text, _ in found], [text for _, text, supports in found if supports]


def document_id(text: str) -> str:
    """The id that the text has as a document."""
    return hashlib.sha256(text.encode("utf-8")).hexdigest()


def write_passages(gold: GoldSet, path: Path) -> None:
    """Write the set's passages as a JSON Lines file that `index` reads, one document a line."""
    write_rows(path, ({"title": title, "text": text} for title, text in gold.passages))


def gold_questions(gold: GoldSet) -> list[Row]:
    """The set's questions as rows of `questions.jsonl`, with what `score_answers` needs of them."""
    return [
        {
            "id": q.id, "question": q.question, "persona": "", "task": "", "kind": q.kind,
            "answer": q.answers[0], "answers": list(q.answers), "supporting": list(q.supporting), "null": q.null,
        }
        for q in gold.questions
    ]  # fmt: skip


def questions_of(rows: Iterable[Row], name: str = "questions.jsonl") -> GoldSet:
    """The gold set within a questions file: those questions that have "answers" or an "answer".

    Raises ConfigError when there is none.
    """
    found = [
        GoldQuestion(
            str(row["id"]), row["question"], row.get("kind", "question"), tuple(row.get("answers") or (row["answer"],)),
            tuple(row.get("supporting", ())), bool(row.get("null", row.get("kind") == "null")),
        )
        for row in rows
        if row.get("answers") or row.get("answer")
    ]  # fmt: skip
    if not found:
        raise ConfigError(
            f'No question of {name} has an "answer". Write the questions of a gold set first: '
            "`localgraphrag evaluate qa --gold FOLDER --write-questions`."
        )
    return GoldSet(name, tuple(found))
