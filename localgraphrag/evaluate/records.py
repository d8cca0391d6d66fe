"""The files of an evaluation: JSON Lines and JSON in the project's folder `evaluation/`, to be read and edited."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from localgraphrag.errors import ConfigError, explained
from localgraphrag.llm.units import content_hash
from localgraphrag.search.reply import APART

FOLDER = "evaluation"

_WRITTEN_BY = {
    "questions.jsonl": "questions",
    "answers.jsonl": "run",
    "verdicts.jsonl": "judge",
    "claims.jsonl": "claims",
}

_MARK = re.compile(r"\s*\[\d+\]")

Row = dict[str, Any]
"""A line of a file, as it stands there."""


def _text(path: Path) -> str | None:
    """The text of a file, or None if there is none."""
    with explained(path):
        try:
            return path.read_text(encoding="utf-8")
        except FileNotFoundError:
            return None


def read_rows(path: Path, *needed: str, missing_ok: bool = False) -> list[Row]:
    """The objects of a JSON Lines file, in order; blank lines are skipped. `missing_ok`: a missing file has none.

    Raises ConfigError naming the line that is no object or lacks one of the `needed` keys, or a file that is missing or
    cannot be read.
    """
    text = _text(path)
    if text is None and not missing_ok:
        raise ConfigError(f"There is no {path}. {_made_by(path)}")
    rows: list[Row] = []
    # Only "\n" ends a line: strings may hold the other separators that str.splitlines knows.
    for number, line in enumerate((text or "").split("\n"), 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except json.JSONDecodeError as error:
            raise ConfigError(f"{path}, line {number}, is not JSON: {error}. Mend the line, or delete it.") from error
        lacking = [key for key in needed if not isinstance(row, dict) or key not in row]
        if lacking or not isinstance(row, dict):
            raise ConfigError(
                f"{path}, line {number}, must be an object with {', '.join(needed) or 'keys'}; "
                f"it lacks {', '.join(lacking) or 'them'}."
            )
        rows.append(row)
    return rows


def _made_by(path: Path) -> str:
    """What to do about a file that is missing."""
    command = _WRITTEN_BY.get(path.name)
    if command is None or path.parent.name != FOLDER:
        return "Give the path of a file of JSON objects, one a line."
    return f"Make it with `localgraphrag evaluate {command} --project {path.absolute().parent.parent}`."


def answer_mark(answer: Mapping[str, Any]) -> str:
    """What tells an answer from a later one to the same question: its id, or the hash of a text without one."""
    return str(answer["answer_id"] or f"text-{content_hash(str(answer['text']))[:16]}")


def answer_marks(answers: Iterable[Mapping[str, Any]]) -> dict[tuple[str, str], str]:
    """The marks of answers by question and condition."""
    return {(str(row["question_id"]), str(row["condition"])): answer_mark(row) for row in answers}


def merged(earlier: Iterable[Row], new: Iterable[Row], *keys: str) -> list[Row]:
    """Earlier rows and new ones; of those that are alike in `keys` the new one, in the place of the earlier.

    >>> merged([{"id": 1, "of": "a"}, {"id": 2, "of": "b"}], [{"id": 1, "of": "c"}], "id")
    [{'id': 1, 'of': 'c'}, {'id': 2, 'of': 'b'}]
    """
    return list({tuple(str(row.get(key)) for key in keys): row for row in (*earlier, *new)}.values())


def write_rows(path: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    """Write a JSON Lines file, one object a line, in one step: a reader sees the old file or the new one."""
    write_text(path, "".join(json.dumps(plain(row), ensure_ascii=False) + "\n" for row in rows))


def write_json(path: Path, value: Any) -> None:
    """Write a JSON file; dataclasses become objects."""
    write_text(path, json.dumps(plain(value), ensure_ascii=False, indent=2) + "\n")


def read_json(path: Path) -> Any:
    """What a JSON file holds, or None if it is not there. Raises ConfigError if it cannot be read or is not JSON."""
    text = _text(path)
    try:
        return None if text is None else json.loads(text)
    except json.JSONDecodeError as error:
        raise ConfigError(f"{path} is not JSON: {error}. Mend it, or have it written again.") from error


def plain(value: Any) -> Any:
    """Dataclasses, mappings and tuples as JSON has them."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    return [plain(item) for item in value] if isinstance(value, (list, tuple)) else value


def without_marks(text: str) -> str:
    r"""The text of an answer without its marks: of citation, and between what has a heading and what has none.

    >>> without_marks("The pier is closed. [1][3]\n\n* * *\n\nIt rained. [2]").split("\n\n")
    ['The pier is closed.', 'It rained.']
    """
    return _MARK.sub("", text.replace(f"\n\n{APART}\n\n", "\n\n"))


def write_text(path: Path, text: str) -> None:
    """Write a file in one step: killed half way, it leaves what was there.

    Raises StoreFullError when the disk is full, ConfigError when the file cannot be written.
    """
    with explained(path.parent, "made a folder"):
        path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(path.name + ".new")
    with explained(path, "written"):
        try:
            beside.write_text(text, encoding="utf-8")
            beside.replace(path)
        except OSError:
            with suppress(OSError):  # half a file is of no use, and takes the room that is lacking
                beside.unlink()
            raise
