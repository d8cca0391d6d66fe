"""The encoding of bytes that say nothing about it:

charset-normalizer's candidates, ranked by what their letters are.
"""

from __future__ import annotations

import re

from localgraphrag.errors import DocumentError

# Languages of the Latin script have few letters beyond ASCII, and all of them are listed; of the other scripts the
# commonest are, with the share of all letters that they make up. On short texts this separates encodings that give
# plausible nonsense.
_LATIN = (
    "àâæçéèêëîïôœùûü äöüß áéíóúüñ áâãàçéêíóôõúü àèéìòóù éëïöüè åäöé æøåé áéíóúýþæöð ąćęłńóśźż áčďéěíňóřšťúůýž "
    "áäčďéíĺľňóôŕšťúýž áéíóöőúüű čćđšž ăâîşţșț çğıöşüâîûİ ąčęėįšųūž āčēģīķļņšūž äõöüšž"
)
_OTHERS = [
    ("оеаинтсрвлкдпм", 0.78),
    ("αοιετσνηυρπκμλςίόάέήύώ", 0.9),
    ("יוהלארתבשמנ", 0.72),
    ("اليمونرتبةعدسفهكق", 0.8),
    ("านรอกเงมยลวดทตสปะัิี่้", 0.75),
    ("".join(map(chr, range(0x3041, 0x3094))), 0.5),  # hiragana
    ("이다는의에가을를한고로은하도지나사서기", 0.28),
    ("的一是不了在人有我他这中大来上国", 0.13),
    ("的一是不了在人有我他這中大來上國", 0.13),
]
_LANGUAGES = [(letters, 1.0) for letters in _LATIN.split()] + _OTHERS
_LETTER_SETS = [(frozenset(letters), share) for letters, share in _LANGUAGES]
_SAMPLE = 4000  # non-ASCII letters are looked at
_CANDIDATES = 12


def guess(data: bytes, sample: bytes) -> str:
    """Text of bytes in an unknown 8-bit or multi-byte encoding, judged by `sample`.

    Raises DocumentError if they fit none.
    """
    from charset_normalizer import from_bytes

    high = re.findall(rb"[\x80-\xff]+", sample)
    if len(high) < 5 and all(len(run) == 1 for run in high):
        return data.decode("cp1252", "replace")  # lone signs and accents: too few for statistics
    matches = list(from_bytes(sample))[:_CANDIDATES]
    if not matches:
        raise DocumentError("is not text in any known encoding")
    names = [match.encoding for match in matches]
    for name in ("cp1252", "iso8859_2", "cp1255", "euc_jp", "cp932"):  # often left out for a likeness
        if name not in names and _decodes(sample, name):
            names.append(name)
    best = max(names, key=lambda name: round(_likelihood(sample.decode(name, "replace")), 1))  # the first of equals
    return data.decode(best, "replace")


def _decodes(data: bytes, encoding: str) -> bool:
    try:
        data.decode(encoding)
    except UnicodeDecodeError:
        return False
    return True


def _likelihood(text: str) -> float:
    """How well the letters beyond ASCII fit the best language: 0 to 1.

    A capital inside a word and a sign between two letters count against it: they are what a wrong encoding shows.
    """
    letters: list[str] = []
    misfits = 0
    for before, character, after in zip(" " + text, text, text[1:] + " ", strict=False):
        if character.isascii():
            continue
        if not character.isalpha() and not "\u0e00" <= character <= "\u0e7f":
            misfits += before.isalpha() and after.isalpha() and character not in "’·–—、。，・"
        elif character.isupper() and before.islower():
            misfits += 1
        else:
            letters.append(character.lower() if character.isupper() and not before.isalpha() else character)
        if len(letters) >= _SAMPLE:
            break
    if not letters:
        return 0.0
    fits = max(
        min(1.0, sum(letter in known for letter in letters) / len(letters) / share) for known, share in _LETTER_SETS
    )
    return fits * len(letters) / (len(letters) + misfits)
