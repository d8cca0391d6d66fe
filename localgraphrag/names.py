"""Which spans of a text name something."""

from __future__ import annotations

import re

from localgraphrag.grounding import stop_words

# words that join or point; "the mill" may begin with one of the first, and no common noun ends in any
_DETERMINERS = frozenset(("the", "an", "this", "that", "these", "those", "my", "your", "his", "her", "its", "our"))
_JOINING = frozenset(
    (
        "and", "as", "at", "be", "been", "but", "by", "for", "from", "had", "has", "in", "into", "is", "are", "was",
        "were", "nor", "of", "on", "or", "than", "to", "when", "where", "which", "who", "whose", "will", "with",
    )
)  # fmt: skip


# English words that do something or say how something is, unless an article or the like stands before them
_DOING = re.compile(r"(?:\w{2}ed|\w{2}ing|ly|ful|less|ive|ous|able|ible|al)$")
_DONE = frozenset(
    (
        "been", "begun", "bought", "built", "came", "caught", "done", "fell", "felt", "found", "gave", "given", "gone",
        "grew", "grown", "heard", "held", "kept", "knew", "known", "laid", "led", "left", "lost", "made", "meant",
        "met", "paid", "ran", "sat", "saw", "seen", "sent", "shown", "sold", "spent", "spoken", "stood", "taken",
        "told", "took", "understood", "went", "won", "written", "wrote",
    )
)  # fmt: skip
_COUNTING = frozenset(
    (
        "a", "another", "any", "both", "each", "every", "few", "five", "four", "last", "many", "more", "most", "much",
        "new", "no", "old", "one", "other", "several", "some", "such", "their", "three", "two", "what", "whose",
    )
)  # fmt: skip
_ENGLISH = 0.25  # share of English function words among the words of a text from which on it is taken for English


def is_name(name: str, text: str) -> bool:
    """Whether a name names anything: no torn-off piece of a sentence, nor, in English, a bare verb or adjective.

    Proper names always do. `text`: where it stands.

    >>> text = "Kept by the crew: it was moved when they left the building in May, as it is in the way of the trench."
    >>> [is_name(name, text) for name in ("Kept", "moved", "left", "them", "way of the", "in May")]
    [False, False, False, False, False, False]
    >>> [is_name(name, text) for name in ("crew", "building", "May", "The Who", "the mill of Ostrey")]
    [True, True, True, True, True]
    """
    words = name.split()
    if len(words) == 1 and (name.casefold() in _DONE or (name[:1].islower() and _DOING.search(name))):
        return not _english(text) or _noun(name, text)
    if not words or not name[:1].islower():
        return bool(words)
    torn = words[0] in _JOINING or words[-1] in _JOINING | _DETERMINERS
    return not torn and not all(word in stop_words() for word in words)


def _english(text: str) -> bool:
    words = re.findall(r"[^\W\d_]+", text)
    return sum(word.casefold() in stop_words() for word in words) >= _ENGLISH * len(words) > 0


def _noun(word: str, text: str) -> bool:
    """Whether the word once stands behind an article, a number, a possessive or the like.

    One word may stand between them ("the old building"), but not before what is most often a verb ("the boats moved").
    """
    between = "" if word.casefold() in _DONE or word.endswith("ed") else r"(?:[^\W\d_]+\s+)?"
    article = "|".join(sorted(_DETERMINERS | _COUNTING))
    before = rf"(?:\b(?:{article})|\d|['’]s?)\s+{between}"
    return bool(re.search(rf"{before}{re.escape(word)}(?![\w-])", text, re.IGNORECASE))
