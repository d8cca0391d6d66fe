"""How long a reply may be, and whether the model came to its end.

A reply that is cut at its cap, or for going round in circles, is closed by whatever its form allows: a verdict or a
claim that the model never gave. Such a reply counts as a failed call.
"""

from __future__ import annotations

from localgraphrag.llm.types import Completion
from localgraphrag.llm.units import ConversationError


def cap(shown: str, plain: int, other: int) -> int:
    """`plain` tokens where all letters of what is shown are ASCII, else `other`.

    A reply is in the script of what it is about. In plain letters a token has some four characters; in other scripts
    a character may take several tokens. A cap that fits all would leave room for fewer calls side by side.

    >>> cap("The pier is closed – or was.", 100, 800), cap("नदी", 100, 800)
    (100, 800)
    """
    return plain if all(letter.isascii() for letter in shown if letter.isalpha()) else other


def ended(completion: Completion) -> None:
    """Raise ConversationError for a reply that the model has not ended itself."""
    if completion.finish == "stop":
        return
    why = "reached its cap" if completion.finish == "cap" else "repeated itself"
    raise ConversationError(
        f"The reply {why} after {completion.usage.output_tokens} tokens and was cut, so its end is not the model's. "
        "The call counts as failed; the next run makes it again. Should it fail each time, use another model."
    )
