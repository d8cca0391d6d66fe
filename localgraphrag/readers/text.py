"""Bytes to text: which encoding it is, and whether it is text at all."""

from __future__ import annotations

import codecs
import re
import unicodedata

from localgraphrag.errors import DocumentError
from localgraphrag.readers.guess import guess

_MARKS = (  # the UTF-32 mark begins with the UTF-16 one, so it is asked first
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
    (b"\x84\x31\x95\x33", "gb18030"),
)
_CONTROLS = bytes(byte for byte in range(32) if byte not in b"\t\n\x0b\x0c\r\x1b") + b"\x7f"
_ASCII_LETTERS = b" " + bytes(range(65, 91)) + bytes(range(97, 123))
_MOST_CONTROLS = 0.05  # a larger share of control characters is not text
_FEW_CONTROLS = 4  # so few are forgiven in a short text
_UNSEEN = {"Zs", "Zl", "Zp", "Cc", "Cf"}  # categories of characters that show nothing
_NEWLINE = re.compile(r"\r[\n\x85]?|\x85")
_LONE_SURROGATE = re.compile("[\ud800-\udfff]")
_SIGNATURES = (
    (b"\x89PNG", "a PNG image"),
    (b"\xff\xd8\xff", "a JPEG image"),
    (b"GIF8", "a GIF image"),
    (b"II*\x00", "a TIFF image"),
    (b"MM\x00*", "a TIFF image"),
    (b"PK\x03\x04", "a ZIP archive"),
    (b"PK\x05\x06", "an empty ZIP archive"),
    (b"\x1f\x8b", "a gzip archive"),
    (b"7z\xbc\xaf", "a 7z archive"),
    (b"BZh", "a bzip2 archive"),
    (b"\xfd7zXZ", "an xz archive"),
    (b"Rar!", "a RAR archive"),
    (b"\x7fELF", "a program"),
    (b"MZ\x90\x00", "a program"),
    (b"SQLite format 3\x00", "an SQLite database"),
    (b"RIFF", "audio or video"),
    (b"ID3", "audio"),
    (b"OggS", "audio or video"),
    (b"GGUF", "a model file"),
    (b"wOFF", "a font"),
    (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "an old Office file or an encrypted one"),
)
# What pages call ISO-8859-1 browsers read as Windows-1252, and so on: the second holds the first.
_WIDER = {
    "ascii": "cp1252", "iso8859-1": "cp1252", "iso8859-9": "cp1254", "tis-620": "cp874", "iso8859-11": "cp874",
    "gb2312": "gb18030", "gbk": "gb18030", "shift_jis": "cp932", "euc_kr": "cp949", "big5": "big5hkscs",
}  # fmt: skip


def clean(text: str) -> str:
    r"""The text as it is stored: newlines are `\n`, no BOM, no NUL; half a surrogate pair becomes U+FFFD. Nothing
    else changes.

    >>> clean("\ufeffone\r\ntwo\x00\rthree")
    'one\ntwo\nthree'
    """
    text = _NEWLINE.sub("\n", text.replace("\0", ""))
    return _LONE_SURROGATE.sub("\ufffd", text.removeprefix("\ufeff"))


def blank(text: str) -> bool:
    r"""Whether a text shows nothing: it has white space, and characters of no width as joiners and soft hyphens, only.

    >>> blank(" \u200b\u00ad\ufeff\n"), blank("\u200bword")
    (True, False)
    """
    return all(unicodedata.category(character) in _UNSEEN for character in text)


def decode(data: bytes, declared: str = "", sample: bytes | None = None) -> str:
    """Text of a file whose encoding is not known for certain.

    Parameters
    ----------
    data : the whole file.
    declared : the encoding the file claims for itself; believed only where the bytes do not contradict it.
    sample : the bytes to guess from, where parts of `data` (markup) would mislead.

    A byte order mark decides. Without one: UTF-16 and UTF-32 by their control bytes, UTF-8 if valid (which other
    encodings hardly ever are) or nearly so, ISO-2022 by its escapes, then `declared`, EBCDIC by its spaces, and for the
    rest charset-normalizer.

    Raises DocumentError if the file is empty or is not text.
    """
    if not data.strip(b" \t\r\n\x0b\x0c"):
        raise DocumentError("is empty" if not data else "holds only white space")
    if not data.strip(b"\0"):
        raise DocumentError("holds only NUL bytes")
    text = clean(_decode(data, declared, data if sample is None else sample))
    if blank(text):
        raise DocumentError("holds only white space" + ("" if text.isspace() else " and characters of no width"))
    if not _are_few(_unprintable(text) * len(text), len(text)):
        raise DocumentError("is not text: too many control or undefined characters")
    return text


def binary_kind(data: bytes) -> str:
    """What a well-known binary format is called, or "" for anything else."""
    head = data[:512]
    if len(head) == len(head.translate(None, _CONTROLS)):
        return ""  # "ID3 tags explained" is a text
    return next((kind for start, kind in _SIGNATURES if head.startswith(start)), "")


def _decode(data: bytes, declared: str, sample: bytes) -> str:
    for mark, encoding in _MARKS:
        if data.startswith(mark) and (text := _with_mark(data[len(mark) :], encoding)) is not None:
            return text
    bare = data.rstrip(b"\0")
    if (escaped := _escaped(bare)) is not None:
        return escaped
    controls = len(bare) - len(bare.translate(None, _CONTROLS))
    few = _are_few(controls, len(bare))
    utf8 = _strict(bare, "utf-8")
    if utf8 is not None and few:
        return utf8
    if (mainframe := _ebcdic(bare)) is not None:
        return mainframe
    if controls and (wide := _wide(data)) is not None:
        return wide
    if not few:
        raise DocumentError("is filled with NUL bytes" if bare.count(0) > 0.3 * len(bare) else "is binary, not text")
    return _nearly_utf8(bare) or _strict(bare, _wider(declared)) or guess(bare, sample)


def _are_few(controls: float, length: int) -> bool:
    """Whether so many control or undefined characters are an accident in a text of that length."""
    return controls <= max(_MOST_CONTROLS * length, min(_FEW_CONTROLS, length // 4))


def _with_mark(data: bytes, encoding: str) -> str | None:
    """Text behind a byte order mark; None if the mark was a coincidence. A cut-off last character is forgiven."""
    text = data.decode(encoding, "replace")
    return text if text.count("\ufffd") <= 1 + len(text) // 100 else None


def _strict(data: bytes, encoding: str) -> str | None:
    """The text if the bytes are valid in the encoding and it is one."""
    try:
        return data.decode(encoding) if encoding else None
    except (UnicodeDecodeError, LookupError):
        return None


def _wider(declared: str) -> str:
    """The encoding meant by a declared name; "" for names that cannot be right for bytes that got this far."""
    try:
        name = codecs.lookup(declared.strip()).name
    except (LookupError, ValueError):
        return ""
    return "" if name.startswith(("utf", "unicode", "raw")) else _WIDER.get(name, name)


def _escaped(data: bytes) -> str | None:
    """ISO-2022 text, which is all ASCII with escape sequences."""
    if b"\x1b$" not in data or not data.isascii():
        return None
    return _strict(data, "iso2022_kr" if b"\x1b$)C" in data else "iso2022_jp_2")


def _wide(data: bytes) -> str | None:
    """UTF-16 or UTF-32 without a mark. Its zero and control bytes led here; the decoded text must look like writing."""
    if len(data) - len(data.translate(None, _ASCII_LETTERS)) > 0.6 * len(data):
        return None  # plain text with a few control characters: pairs of letters would pass for Chinese
    found = []
    for encoding in ("utf-32-le", "utf-32-be", "utf-16-le", "utf-16-be"):
        text = _strict(data, encoding)
        if text is None or _unprintable(text) > _MOST_CONTROLS:
            continue
        scripts = len({_script(character) for character in text})
        if scripts <= 3 + len(text) // 10:
            found.append((scripts / len(text), encoding, text))
    return min(found)[2] if found else None


def _script(character: str) -> int:
    """A rough number for the script of a character: its block of 256, East Asian ideographs and syllables as one."""
    code = ord(character)
    return 0x4E if 0x3000 <= code <= 0xD7A3 or 0xF900 <= code <= 0xFAFF or 0xFF00 <= code <= 0xFFEF else code >> 8


def _unprintable(text: str) -> float:
    """Share of characters that no text has: controls, private use, undefined, replaced."""
    sample = text if len(text) <= 65536 else text[:32768] + text[-32768:]
    bad = sum(unicodedata.category(c) in ("Cc", "Cn", "Co", "Cs") and c not in "\t\n\x0b\x0c\r\x1b\x85" for c in sample)
    return (bad + sample.count("\ufffd")) / len(sample) if sample else 0.0


def _nearly_utf8(data: bytes) -> str | None:
    """UTF-8 with a few broken places, shown as U+FFFD: four good multi-byte characters for each bad one."""
    text = data.decode("utf-8", "replace")
    bad = text.count("\ufffd")
    good = sum(not c.isascii() for c in text) - bad
    return text if good >= 4 * bad else None


def _ebcdic(data: bytes) -> str | None:
    """Text of IBM mainframes, whose space is 0x40. Its letters are where other encodings have accents."""
    if data.count(b"\x40") < 0.05 * len(data) or data.count(b" ") > 0.01 * len(data):
        return None
    text = data.decode("cp500")
    return text if sum(c.isascii() and (c.isalpha() or c.isspace()) for c in text) > 0.8 * len(text) else None
