"""Recorded vectors: what an embedder made of texts, kept in the file of the recorded answers (`llm.recorded`).

Numbers are kept with 16 bits. They are rounded while they are recorded, so that all that is chosen by comparing vectors
comes out the same without the model.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from localgraphrag.embed import Embedder, Matrix
from localgraphrag.errors import ModelBrokenError, ModelMissingError
from localgraphrag.llm.recorded import RecordingEngine, read_recording
from localgraphrag.llm.units import content_hash


class RecordingEmbedder:
    """Passes texts on to an embedder, and notes the vectors in the recording of an engine, which writes the file."""

    def __init__(self, embedder: Embedder, recording: RecordingEngine) -> None:
        self._embedder, self._recording = embedder, recording
        self.identity, self.dimensions = embedder.identity, embedder.dimensions
        recording.note("embedder", "identity", embedder.identity)

    def embed(self, texts: Sequence[str]) -> Matrix:
        """See `Embedder.embed`; rounded to 16 bits."""
        rounded = np.asarray(self._embedder.embed(texts), "<f2")
        for text, row in zip(texts, rounded, strict=True):
            self._recording.note("vector", content_hash(text), b64encode(row.tobytes()).decode())
        return _of_length_1(rounded)


class RecordedEmbedder:
    """Vectors from a recording.

    Parameters
    ----------
    path : the recording.

    Raises ModelMissingError when it is not there or a text is not in it, ModelBrokenError when it is not a recording.
    """

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)
        _, rows = read_recording(self.path)
        self._vectors = rows["vector"]
        lengths = {len(b64decode(vector)) // 2 for vector in self._vectors.values()} or {0}
        if len(lengths) > 1:
            raise ModelBrokenError(f"{self.path} has vectors of different lengths. Record it anew.")
        self.identity, self.dimensions = f"recorded:{rows['embedder'].get('identity', '')}", lengths.pop()

    def embed(self, texts: Sequence[str]) -> Matrix:
        """See `Embedder.embed`."""
        rows = np.zeros((len(texts), self.dimensions), "<f2")
        for row, text in zip(rows, texts, strict=True):
            known = self._vectors.get(content_hash(text))
            if known is None:
                raise ModelMissingError(
                    f"“{text[:60]}” is not among the {len(self._vectors)} texts whose vectors are in {self.path.name}. "
                    "To have other texts compared, set `REAL_MODEL = True` in the notebook's cell “Which model” and "
                    "run from there; elsewhere open the project without `embedder`."
                )
            row[:] = np.frombuffer(b64decode(known), "<f2")
        return _of_length_1(rows)


def _of_length_1(rounded: np.ndarray) -> Matrix:
    matrix = rounded.astype(np.float32)
    lengths = np.linalg.norm(matrix, axis=1, keepdims=True)
    return np.asarray(matrix / np.where(lengths == 0, 1, lengths), np.float32)
