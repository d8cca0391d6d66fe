"""Documents to chunks: windows of tokens with exact character spans (paper 3.1.1)."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from localgraphrag.documents import Document
from localgraphrag.errors import ConfigError, ModelError
from localgraphrag.llm.types import Tokenizer
from localgraphrag.llm.units import content_hash

AROUND = 300
"""Characters of the neighbouring text that a chunk knows: enough to tell whether a sentence runs over its edge."""

_BLOCK = 8192  # characters given to the tokenizer at once; some take time that grows with the square of a text
_LONGEST_SEQUENCE = 32  # tokens to go back for the start of a combining sequence before cutting through it
_CONTINUATION = bytes(range(0x80, 0xC0))
_JOINERS = frozenset("\u200c\u200d")


@dataclass(frozen=True)
class Chunk:
    """A window of a document: `document.text[start:end] == text`.

    `id` is a hash of document id and span; `ordinal` counts from 0 within the document; `tokens` is the
    window's length in the model's tokens. `title` is the document's. `around`: what stands in the document before and
    behind it, up to `AROUND` characters each, where the neighbouring chunk shares text with this one: a sentence that
    runs over that edge is whole in the neighbour.
    """

    id: str
    document_id: str
    title: str
    ordinal: int
    start: int
    end: int
    text: str
    tokens: int
    around: tuple[str, str] = ("", "")

    @classmethod
    def row(cls, document: Document, spans: Sequence[tuple[str, int, int, int]]) -> list[Chunk]:
        """The chunks of a document, given id, start, end and tokens of each, in order."""
        text = document.text
        made, ended = [], 0
        for ordinal, (name, start, end, tokens) in enumerate(spans):
            before = text[max(start - AROUND, 0) : start] if start < ended else ""
            begins = spans[ordinal + 1][1] if ordinal + 1 < len(spans) else end
            behind = text[end : end + AROUND] if begins < end else ""
            ended = end
            around = before, behind
            made.append(cls(name, document.id, document.title, ordinal, start, end, text[start:end], tokens, around))
        return made


def chunk_document(
    document: Document, tokenizer: Tokenizer, *, size: int = 600, overlap: int = 100
) -> tuple[Chunk, ...]:
    """Windows of `size` tokens, each sharing `overlap` tokens with the one before it (paper 3.1.1).

    A window begins and ends between characters, and between combining sequences where those are short, so that it may
    fall a few tokens below `size` and share a few more than `overlap`. The last window may be short; none lies wholly
    inside its predecessor.

    A window of nothing but white space is not made. The joined spans therefore cover all of the text but for
    stretches of white space longer than a window less its overlap. A text without a visible character gives no chunk.

    Long texts are given to the tokenizer in blocks, cut before white space where there is any, so that token counts may
    differ by one or two per block from those of the text as a whole.

    Raises ConfigError if `overlap` is not below `size`, and ModelError if the tokenizer does not give back the text's
    bytes.
    """
    if size < 1 or not 0 <= overlap < size:
        raise ConfigError(
            f"chunk_size {size} and chunk_overlap {overlap} do not go together: "
            "the overlap must be at least 0 and below the size."
        )
    text = document.text
    positions, cuts = _token_positions(text, tokenizer)
    spans: list[tuple[str, int, int, int]] = []
    covered = 0
    for first, last in _windows(cuts, size, overlap):
        start, end = positions[first], positions[last]
        if end <= covered:  # where a character takes more tokens than a window, several windows end in it
            continue
        covered = end
        if not text[start:end].isspace():
            name = "t-" + content_hash(document.id, str(start), str(end))[:16]
            spans.append((name, start, end, last - first))
    return tuple(Chunk.row(document, spans))


def _token_positions(text: str, tokenizer: Tokenizer) -> tuple[list[int], list[int]]:
    """Where each token begins, and how good a place that is to cut.

    Both lists have one entry more than there are tokens. Positions count characters; a token that begins inside a
    character has the position of that character. A cut is 0 inside a character, 1 inside a combining sequence, 2
    between sequences.
    """
    positions, cuts = [0], [2]
    for start, end in _blocks(text):
        block = text[start:end]
        pieces = [piece for piece in tokenizer.token_bytes(tokenizer.encode(block)) if piece]
        if b"".join(pieces) != block.encode("utf-8", "surrogatepass"):
            raise ModelError(
                f"The model's tokenizer does not give back the text it was given ({block[:40]!r}..), so that chunks "
                "would have no exact place in their document. Use another model."
            )
        position = start
        for piece, following in pairwise([*pieces, b"."]):
            position += len(piece.translate(None, _CONTINUATION))  # characters that begin in the token
            inside = 0x80 <= following[0] < 0xC0
            positions.append(position - inside)
            cuts.append(0 if inside else 2 if _separable(text, position) else 1)
    return positions, cuts


def _separable(text: str, position: int) -> bool:
    """Whether no combining sequence runs across the position."""
    if not 0 < position < len(text):
        return True
    after = text[position]
    if after.isascii():
        return True
    joined = after in _JOINERS or text[position - 1] in _JOINERS or "\U0001f3fb" <= after <= "\U0001f3ff"
    return not (joined or "\u1160" <= after <= "\u11ff" or unicodedata.category(after).startswith("M"))


def _blocks(text: str) -> Iterator[tuple[int, int]]:
    """Spans that cover the text, cut before a run of white space if there is one, else between combining sequences."""
    start = 0
    while len(text) - start > _BLOCK:
        limit = start + _BLOCK
        end = next((at for at in range(limit, start, -1) if text[at].isspace() and not text[at - 1].isspace()), 0)
        end = end or next((at for at in range(limit, limit - _LONGEST_SEQUENCE, -1) if _separable(text, at)), limit)
        yield start, end
        start = end
    if start < len(text):
        yield start, len(text)


def _windows(cuts: list[int], size: int, overlap: int) -> Iterator[tuple[int, int]]:
    """First token and the token after the last one of each window."""
    total = len(cuts) - 1
    first = end = 0
    while end < total:
        last = total if first + size >= total else _cut(cuts, first + size, floor=first)
        if last <= end:  # all of it is in the window before: begin a token later
            first += 1
            continue
        yield first, last
        end = last
        first = _cut(cuts, max(end - overlap, first + 1), floor=first) if overlap else end


def _cut(cuts: list[int], wanted: int, floor: int) -> int:
    """The best cut near `wanted` and behind `floor`:

    back to the start of a short sequence, else of a character, else there.
    """
    for quality in (2, 1):
        for at in range(wanted, max(floor, wanted - _LONGEST_SEQUENCE), -1):
            if cuts[at] >= quality:
                return at
    return wanted
