"""Sentences of a text, with their character spans."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

_BULLET = r"\s*(?:[-*+•|>]|\d{1,3}[.)]\s|#)"
# "Foreman: Dace Orrell", "author: Ada"; of several words only with a capital, as a wrapped line may have a colon
_FIELD = r"\s*(?:[^\W\d_][\w']{0,30}|(?![a-zß-ÿ])[^\W\d_][\w' ]{0,30}):(?:\s|$)"
_NEW_LINE = re.compile(rf"\n(?={_BULLET}|{_FIELD})")
_CLAUSED = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff"  # scripts that mark the end of a clause by a space, and no other way
)
_LINE = re.compile(rf"\n|(?<=[{_CLAUSED}]) +(?=[{_CLAUSED}])")
_UNSPACED = f"{_CLAUSED}\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af"
_LEAST_WORDS, _LEAST_CHARACTERS = 5, 8
_FEW_WORDS = 8
ENDS = (".", "!", "?", "…", "।", "。", "！", "？", "؟", "።", "။", "។")
_SHORT_LINE = 50  # characters; prose is wrapped at more
_ASKS, _OPENS, _GOES_ON = ("?", "？", "؟"), ('"', "'", "“", "‘", "«", "„"), (",", ";", ":", ")")
_QUOTES = "\"'“”‘’«»()"
_MARKS = re.compile(r"^[\s#*_>|•+-]+(?=\S)|[\s*_|]+$")


class Sentence(NamedTuple):
    """A sentence and its span; `text` has its white space folded."""

    text: str
    start: int
    end: int


def sentences(text: str) -> list[Sentence]:
    r"""The sentences of a text in any language, in order. Headings, items and fields count as sentences.

    >>> [s.text for s in sentences("Dr. Lind came\nat noon. He left.\n- one thing\n- another")]
    ['Dr. Lind came at noon.', 'He left.', 'one thing', 'another']
    >>> [s.text for s in sentences("Crew of the long and open boat of Ness\nForeman: Ada Lind\nLength of it: 9 m")]
    ['Crew of the long and open boat of Ness', 'Foreman: Ada Lind', 'Length of it: 9 m']
    >>> [s.text for s in sentences("We have pared this down to the very least there is\nto do: a council and rules.")]
    ['We have pared this down to the very least there is to do: a council and rules.']
    >>> [s.text for s in sentences("All had gone but the two\n'prentices, who slept.")]
    ["All had gone but the two 'prentices, who slept."]
    """
    from sentencex import segment

    found = []
    at = 0
    for part in segment("en", text):
        for start, end in _lines(part):
            piece = part[start:end]
            shown = _MARKS.sub("", piece)
            if any(letter.isalnum() for letter in shown):
                begin = at + start + piece.index(shown)
                found.append(Sentence(" ".join(shown.split()), begin, begin + len(shown)))
        at += len(part)
    return found


def whole_sentences(text: str, around: tuple[str, str]) -> list[Sentence]:
    """The sentences of a text that stands between two others, without those that run over its edges.

    If none is whole, all pieces.

    >>> [s.text for s in whole_sentences("so Jacob left. Ada stayed. The next", ("He said ", " day it rained."))]
    ['Ada stayed.']
    """
    before, after = around
    first, last = len(before), len(before) + len(text)
    found = sentences(before + text + after) if before or after else []
    inside = [s._replace(start=s.start - first, end=s.end - first) for s in found if first <= s.start and s.end <= last]
    return inside or sentences(text)


def is_statement(text: str) -> bool:
    """Whether a sentence says something by itself, as headings, fields of a form, questions and fragments do not.

    >>> said = ["The dam was built in 1912.", "To the council of Aldane", "Fog.", "Was it built in 1912 or not?"]
    >>> [is_statement(text) for text in said], is_statement("น้ำในเมืองมีรสเหล็กมาสองปีแล้ว")
    ([True, False, False, False], True)
    """
    long_enough = len(text.split()) >= _LEAST_WORDS or bool(re.search(f"[{_UNSPACED}]{{{_LEAST_CHARACTERS}}}", text))
    bare = text.strip(_QUOTES)
    asks = text.endswith(_ASKS) or (bare.endswith(_ASKS) and text[:1] in _OPENS)
    return long_enough and has_end(text) and not asks and text[:1] not in _GOES_ON


def has_end(text: str) -> bool:
    """Whether a sentence comes to its end, with a mark where its script has such marks.

    >>> has_end("The dam was built."), has_end('He said: "No."'), has_end("The dam was built in the")
    (True, True, False)
    """
    bare = text.rstrip().rstrip(_QUOTES)
    return bare.endswith(ENDS) or bool(re.search(f"[{_CLAUSED}]$", bare))


def is_brief(text: str) -> bool:
    """Whether a sentence has few words: "Kept by Ada Brook, harbour master." says little of what went on.

    >>> is_brief("Kept by Ada Brook, harbour master."), is_brief("The sluice of the old mill broke in the night.")
    (True, False)
    """
    return len(text.split()) < _FEW_WORDS and not re.search(f"[{_UNSPACED}]{{{2 * _LEAST_CHARACTERS}}}", text)


def fold(text: str) -> str:
    r"""Text on one line, so that a line of a document cannot pass for a line of a prompt.

    >>> fold("Two\n7. lines ")
    'Two 7. lines'
    """
    return " ".join(text.split())


def whole(text: str, limit: int) -> str:
    """A reply's string on one line. One that ran into its limit ends at its last whole sentence, or else word.

    >>> whole("It rained. The bridge fel", 25), whole("The bridge fel", 14), whole("It rained.", 10)
    ('It rained.', 'The bridge …', 'It rained.')
    """
    folded = fold(text)
    if len(text) < limit or folded.endswith(ENDS):
        return folded
    end = max(folded.rfind(mark) for mark in (". ", "! ", "? ", "। ", "。", "！", "？")) + 1
    if end > len(folded) // 3:
        return folded[:end]
    return f"{folded[: folded.rindex(' ')]} …" if " " in folded else folded


def _lines(part: str) -> Iterator[tuple[int, int]]:
    """Spans of a sentence's lines that do not run on into each other: items, fields of a form, short lines."""
    start = 0
    for found in _LINE.finditer(part):
        line, after = part[start : found.start()], part[found.end() :].lstrip()
        goes_on = after.lstrip(_QUOTES)[:1].islower()
        short = len(line) < _SHORT_LINE and line.strip() and not goes_on
        ended = short or found.group() != "\n"
        if ended or _NEW_LINE.match(part, found.start()):
            yield start, found.start()
            start = found.end()
    yield start, len(part)
