"""Which of some texts says the same, by embedding."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from localgraphrag.embed import Embedder, Matrix


class Near:
    """Compares texts by the cosine of their vectors; each text is embedded once.

    >>> from localgraphrag.embed import HashEmbedder
    >>> near = Near(HashEmbedder())
    >>> near.twin("A dam burst.", ["Bread costs more.", "a dam burst"], 0.9)
    1
    """

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder
        self._vectors: dict[str, Matrix] = {}

    def cosines(self, text: str, others: Sequence[str]) -> list[float]:
        """The cosine of the text to each of the others."""
        new = [one for one in dict.fromkeys((text, *others)) if one not in self._vectors]
        if new:
            self._vectors |= dict(zip(new, self._embedder.embed(new), strict=True))
        return [float(self._vectors[text] @ self._vectors[other]) for other in others]

    def twin(self, text: str, others: Sequence[str], threshold: float) -> int | None:
        """Which of the others is nearest and at least as near as the threshold; None if none is."""
        cosines = self.cosines(text, others)
        best = max(range(len(others)), key=cosines.__getitem__, default=None)
        return best if best is not None and cosines[best] >= threshold else None
