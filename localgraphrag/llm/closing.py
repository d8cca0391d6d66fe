"""Ending a reply early without breaking it: what the grammar cannot express.

A reply that nears its token cap, or repeats itself, is cut back to the last place where it makes sense (a whole list
item, the end of a sentence) and closed from there by the shortest way that the grammar allows.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from localgraphrag.sentences import sentences

SENTENCE_ENDS = (".", "!", "?", "。", "！", "？", "।", "؟", "…")
_UNSPACED = (("\u0e00", "\u0eff"), ("\u1000", "\u109f"), ("\u1780", "\u17ff"), ("\u3040", "\u9fff"))
"""Thai and Lao, Myanmar, Khmer, kana and Han: scripts that put no spaces between words."""
_UNSPACED_ENDS = ("。", "！", "？")
_AFTER_END = ("\\n", "\\t", "\\r", '\\"', "'", "”", "’", "»", ")", "]", "）", "」", "』")
"""What may follow the end of a sentence beside a space, as it stands in JSON."""
_LOOKED_AT = 200  # characters on either side of a mark
_LONGEST_PERIOD = 40  # tokens; longer loops are caught by the caps of the output type
LONGEST_WAY = 64  # tokens that closing may add

Encode = Callable[[str], list[int]]
Pieces = Callable[[Sequence[int]], list[bytes]]


def in_string(text: bytes) -> bool:
    r"""Whether a prefix of a JSON text ends inside a string.

    >>> in_string(b'{"a":"x'), in_string(b'{"a":"x\\""'), in_string(b'{"a"')
    (True, False, False)
    """
    inside = escaped = False
    for byte in text:
        if escaped:
            escaped = False
        elif byte == 0x5C:  # backslash
            escaped = inside
        elif byte == 0x22:  # quote
            inside = not inside
    return inside


def looping(tokens: Sequence[int]) -> int:
    """Tokens to drop if the end of `tokens` is one phrase three times over, else 0.

    >>> looping([7, 1, 2, 3, 4, 1, 2, 3, 4, 1, 2, 3, 4]), looping([1, 2, 3, 4])
    (8, 0)
    """
    for period in range(1, _LONGEST_PERIOD + 1):
        times = 3 if period >= 4 else 12 // period + 1  # short rhythms ("1, 1, 1") need more before they count
        if len(tokens) < period * times:
            continue
        tail = tokens[-period:]
        if all(tokens[-period * (i + 1) : len(tokens) - period * i] == tail for i in range(1, times)):
            return period * (times - 1)
    return 0


def close(matcher: Any, tokens: list[int], pieces: Pieces, encode: Encode) -> tuple[list[int], int] | None:
    """The shortest sensible end of a reply.

    Parameters
    ----------
    matcher : an `LLMatcher` that has consumed `tokens`.
    tokens : the reply so far; a list, since tails of it are compared.
    pieces, encode : the tokenizer's two ways.

    Returns
    -------
    The closing tokens and the number of reply tokens kept before them, or None if nothing could be closed (a grammar
    that is not JSON-like and nowhere complete).
    """
    bytes_of = pieces(tokens)

    def attempt(keep: int, *, invent: bool, words: bool = False) -> list[int] | None:
        text, rest = b"".join(bytes_of[:keep]), b"".join(bytes_of[keep:])
        if _sensible(text, rest) or (words and _between_words(text, rest)):
            return _way_out(_at(matcher, len(tokens) - keep), text, pieces, encode, invent=invent)
        return None

    everywhere, nearby = range(len(tokens), -1, -1), range(len(tokens), max(len(tokens) - 24, -1), -1)
    passes = ((everywhere, False, False), (nearby, False, True), (everywhere, True, False), (nearby, True, True))
    for places, invent, words in passes:
        for keep in places:
            way = attempt(keep, invent=invent, words=words)
            if way is not None:
                return way, keep
    return None


def _at(matcher: Any, back: int) -> Any:
    copy = matcher.deep_copy()
    if back:
        copy.rollback(back)
    return copy


def _sensible(text: bytes, rest: bytes) -> bool:
    if not in_string(text) or rest.startswith(b'"'):
        return True
    said = text.decode("utf-8", "replace")
    return said.endswith(SENTENCE_ENDS) and _ends_sentence(said, rest.decode("utf-8", "replace"))


def _ends_sentence(said: str, rest: str) -> bool:
    """Whether the mark at the end of `said`, in a string of JSON, ends a sentence and is no part of a number or name.

    >>> _ends_sentence("It rained.", " And th"), _ends_sentence("It cost 3.", "5 mill"), _ends_sentence("Dr.", " Lind")
    (True, False, False)
    """
    if said.endswith(_UNSPACED_ENDS):
        return True
    if rest and not (rest[0].isspace() or _unspaced(rest[0]) or rest.startswith(_AFTER_END)):
        return False
    if not said.endswith("."):
        return True
    if not rest and said[-2:-1].isdigit():  # the next token may have been a decimal
        return False
    string = re.split(r'(?<!\\)"', said[-_LOOKED_AT:])[-1]
    after = rest[:_LOOKED_AT] if rest.startswith(" ") and rest.strip() else " Xx"
    return any(sentence.end == len(string) for sentence in sentences(string + after))


def _between_words(text: bytes, rest: bytes) -> bool:
    """Whether a word ends with `text`. The last word of a reply may be unfinished, unless its script has no spaces."""
    last = text.decode("utf-8", "replace")[-1:]
    return rest.startswith(b" ") or _unspaced(last)


def _unspaced(character: str) -> bool:
    return any(low <= character <= high for low, high in _UNSPACED)


def _any_legal(matcher: Any) -> list[int]:
    legal = np.unpackbits(np.frombuffer(matcher.compute_bitmask(), dtype=np.uint8), bitorder="little")
    return [int(legal.argmax())] if legal.any() else []


def _way_out(matcher: Any, text: bytes, pieces: Pieces, encode: Encode, *, invent: bool) -> list[int] | None:
    """Tokens that complete the value. Only with `invent` may they hold more than quotes, brackets and forced tokens."""
    way: list[int] = []
    opened = in_string(text)
    while len(way) < LONGEST_WAY:
        if matcher.is_stopped() or matcher.is_accepting():
            return way
        step = list(matcher.compute_ff_tokens()) or encode(matcher.compute_ff_bytes().decode("utf-8", "ignore"))
        if not step:
            if in_string(text):
                # a string that was open may be closed; one that this way itself opened would be made up
                choices = ['"', "."] if invent else (['"'] if opened else [])
            else:
                choices = ["]", "}", "0", "false", "null", '"'] if invent else ["]", "}"]
            step = next((ids for ids in map(encode, choices) if matcher.validate_tokens(ids) == len(ids)), [])
            if not step and invent:
                step = _any_legal(matcher)  # one of several listed values, a word of a set form
        if not step or matcher.try_consume_tokens(step) != len(step):
            return None
        added = b"".join(pieces(step))
        if opened and b'"' in added:
            opened = False
        way += step
        text += added
    return None
