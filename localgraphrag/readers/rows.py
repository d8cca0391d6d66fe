"""CSV and JSONL: one document per row, text and title from named columns."""

from __future__ import annotations

import csv
import io
import json
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from localgraphrag.errors import ConfigError, DocumentError
from localgraphrag.readers.text import blank, clean, decode

_SHOWN_COLUMNS = 30


class NoColumnError(ConfigError):
    """The text column is not in the file; the message names those that are."""


@dataclass(frozen=True)
class Row:
    """A record: its number as a reader counts (rows below the header, or lines, from 1), its text and title."""

    number: int
    text: str
    title: str


def read_csv(data: bytes, text_column: str, title_column: str) -> tuple[list[Row], str]:
    """Rows of a CSV or TSV file that have text, and a sentence about those that have none (or "").

    The delimiter is that of comma, semicolon, tab and bar which the header uses most. Raises NoColumnError, or
    DocumentError if the file is not text.
    """
    content = decode(data)
    previous = csv.field_size_limit(sys.maxsize if sys.maxsize < 2**31 else 2**31 - 1)
    try:
        records = csv.reader(io.StringIO(content.lstrip("\n"), newline=""), delimiter=_delimiter(content))
        header = [name.strip() for name in next(records)]
        text_at, title_at = _column(header, text_column), _column(header, title_column)
        if text_at is None:
            raise NoColumnError(_missing(text_column, header))
        found = ((number, _cell(record, text_at), _cell(record, title_at)) for number, record in _numbered(records))
        return _rows(found)
    except csv.Error as error:
        raise DocumentError(f"is a broken CSV file ({error})") from error
    finally:
        csv.field_size_limit(previous)


def read_jsonl(data: bytes, text_column: str, title_column: str) -> tuple[list[Row], str]:
    """Rows of a JSONL file (one JSON object per line) that have text, and a sentence about those that have none.

    Raises NoColumnError if no line has the text column, or DocumentError if no line is an object.
    """
    fields: dict[str, None] = {}  # in order of appearance
    found: list[tuple[int, str, str]] = []
    broken: list[int] = []
    # Only "\n" ends a line: JSON strings may hold the other separators that str.splitlines knows.
    for number, line in enumerate(decode(data).split("\n"), 1):
        if not line.strip():
            continue
        record = _object(line)
        if record is None:
            broken.append(number)
            continue
        fields.update(dict.fromkeys(record))
        names = list(record)
        text_at, title_at = _column(names, text_column), _column(names, title_column)
        values = list(record.values())
        found.append((number, _string(values, text_at), _string(values, title_at)))
    if not fields:
        raise DocumentError("is a JSONL file in which no line is a JSON object")
    if _column(list(fields), text_column) is None:
        raise NoColumnError(_missing(text_column, list(fields)))
    rows, lacking = _rows(found)
    shown = f"lines that are no JSON objects: {len(broken)} (the first is line {broken[0]})" if broken else ""
    return rows, "; ".join(filter(None, (shown, lacking)))


def _numbered(records: Iterable[list[str]]) -> Iterator[tuple[int, list[str]]]:
    return enumerate((record for record in records if record), 1)


def _rows(found: Iterable[tuple[int, str, str]]) -> tuple[list[Row], str]:
    rows: list[Row] = []
    empty: list[int] = []
    for number, text, title in found:
        if not blank(text):
            rows.append(Row(number, clean(text), title))
        else:
            empty.append(number)
    if not rows:
        raise DocumentError("has no row with text")
    if not empty:
        return rows, ""
    return rows, f"{len(empty)} of {len(rows) + len(empty)} rows have no text (the first is row {empty[0]})"


def _delimiter(content: str) -> str:
    header = content.lstrip("\n").partition("\n")[0]
    return max(",;\t|", key=header.count)


def _column(names: list[str], wanted: str) -> int | None:
    """Position of a column: by its exact name, else regardless of case."""
    if wanted in names:
        return names.index(wanted)
    folded = [name.strip().casefold() for name in names]
    return folded.index(wanted.strip().casefold()) if folded.count(wanted.strip().casefold()) == 1 else None


def _missing(wanted: str, names: list[str]) -> str:
    shown = ", ".join(f"'{name}'" for name in names[:_SHOWN_COLUMNS])
    more = f" and {len(names) - _SHOWN_COLUMNS} more" if len(names) > _SHOWN_COLUMNS else ""
    return f"has no column '{wanted}'; its columns are {shown}{more}. Choose one with --text-column (text_column)"


def _cell(record: list[str], at: int | None) -> str:
    return record[at] if at is not None and at < len(record) else ""


def _object(line: str) -> dict[str, object] | None:
    """The line's JSON object, or None if it is anything else."""
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _string(values: list[object], at: int | None) -> str:
    value = values[at] if at is not None else ""
    return value if isinstance(value, str) else ""
