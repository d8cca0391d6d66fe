"""Texts to vectors, from a local model and never from the network."""

from __future__ import annotations

import hashlib
import os
import re
import unicodedata
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from localgraphrag.config import Settings, models_folder
from localgraphrag.errors import ModelBrokenError, ModelMissingError

Matrix = NDArray[np.float32]


@runtime_checkable
class Embedder(Protocol):
    """Anything that makes vectors of texts."""

    @property
    def identity(self) -> str:
        """Names the model; vectors of different identities are never compared."""

    @property
    def dimensions(self) -> int:
        """Numbers per vector."""

    def embed(self, texts: Sequence[str]) -> Matrix:
        """Vectors of the texts: float32 of shape (n, d), each row of length 1. Nothing is kept."""


class HashEmbedder:
    """Bags of hashed words: deterministic, without a model; for tests, and where there is no model.

    Texts that share words are near to each other, and nothing more is understood. A text without a word gets the
    zero vector, which is near to nothing.

    >>> one, two, three = HashEmbedder().embed(["the dam burst", "a dam burst", "poetry"])
    >>> bool(one @ two > one @ three)
    True
    """

    def __init__(self, dimensions: int = 256) -> None:
        self.dimensions = dimensions
        self.identity = f"hash:{dimensions}"

    def embed(self, texts: Sequence[str]) -> Matrix:
        """See `Embedder.embed`."""
        matrix = np.zeros((len(texts), self.dimensions), np.float32)
        for row, text in zip(matrix, texts, strict=True):
            for word in re.findall(r"\w+", unicodedata.normalize("NFKC", text).casefold()):
                number = int.from_bytes(hashlib.sha256(word.encode("utf-8", "replace")).digest()[:8], "big")
                row[number // 2 % self.dimensions] += 1 if number % 2 else -1
        return _unit_length(matrix)


class SentenceTransformerEmbedder:
    """A sentence-transformers model from a local folder.

    Such models read a window of tokens (256 for all-minilm-l6-v2) and ignore the rest, which is less than half of a
    600-token chunk. Here a longer text is read in windows that end between words, and its vector is the mean of
    theirs, each weighted by its tokens, so that nothing is lost.

    Only the windows of one text share a batch: in a larger one the last digits of a vector would depend on its
    neighbours, and a chunk must get the same vector in an update as in a new index.

    Parameters
    ----------
    folder : holds `modules.json` or `config.json`, the weights and the tokenizer.
    device : as torch names it.

    Raises
    ------
    ModelMissingError
        The folder or a file of the model is not there.
    ModelBrokenError
        The files cannot be loaded.
    """

    def __init__(self, folder: Path, device: str = "cpu") -> None:
        self.folder = folder
        _check(folder)
        self._weights = weights(folder)
        # Read when huggingface_hub is first imported; where that has happened, `local_files_only` keeps it offline.
        os.environ["HF_HUB_OFFLINE"] = os.environ["TRANSFORMERS_OFFLINE"] = "1"
        from sentence_transformers import SentenceTransformer
        from transformers.utils import logging as chatter

        chatter.disable_progress_bar()  # type: ignore[no-untyped-call]
        try:
            self._model: Any = SentenceTransformer(str(folder), device=device, local_files_only=True)
        except Exception as error:  # the loaders raise what they like: OSError, ValueError, SafetensorError, KeyError
            raise ModelBrokenError(
                f"The embedder in {folder} cannot be loaded: {error}. Delete the folder and run "
                f"`localgraphrag models pull {folder.name}`."
            ) from error
        # The method that tells the dimensions changed its name between releases; a vector tells them in all.
        self._dimensions = int(self._model.encode("", show_progress_bar=False).shape[0])

    @cached_property
    def identity(self) -> str:
        """The sha256 of the weights."""
        digests = [_sha256(path) for path in self._weights]
        return digests[0] if len(digests) == 1 else hashlib.sha256("".join(digests).encode()).hexdigest()

    @property
    def dimensions(self) -> int:
        """Numbers per vector."""
        return self._dimensions

    def embed(self, texts: Sequence[str]) -> Matrix:
        """See `Embedder.embed`."""
        matrix = np.zeros((len(texts), self.dimensions), np.float32)
        for row, text in zip(matrix, texts, strict=True):
            windows, tokens = zip(*self.windows(text), strict=True)
            vectors = self._model.encode(list(windows), show_progress_bar=False, normalize_embeddings=True)
            row += np.asarray(tokens, np.float32) @ vectors
        return _unit_length(matrix)

    def windows(self, text: str) -> list[tuple[str, int]]:
        """The text cut into what the model can read at once, and the tokens of each. Joined, they are the text."""
        encoded = self._model.tokenizer(
            text, add_special_tokens=False, truncation=False, return_offsets_mapping=True, verbose=False
        )
        starts = [start for start, _ in encoded["offset_mapping"]]
        words = encoded.word_ids()
        most = self._model.max_seq_length - 2  # two special tokens frame a text
        windows, first = [], 0
        while len(starts) - first > most:
            cut = first + most
            while cut > first + 1 and words[cut] == words[cut - 1]:  # a word cut in two would be other tokens
                cut -= 1
            windows.append((text[starts[first] if first else 0 : starts[cut]], cut - first))
            first = cut
        windows.append((text[starts[first] if first else 0 :], max(len(starts) - first, 1)))
        return windows


class Remembering:
    """Passes texts on to an embedder, each once, and keeps the vectors as long as it lives."""

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder
        self.identity, self.dimensions = embedder.identity, embedder.dimensions
        self._known: dict[str, Matrix] = {}

    def embed(self, texts: Sequence[str]) -> Matrix:
        """See `Embedder.embed`; each text is embedded by itself."""
        for text in texts:
            if text not in self._known:
                self._known[text] = self._embedder.embed([text])[0]
        return np.stack([self._known[text] for text in texts]) if texts else self._embedder.embed([])


def load_embedder(settings: Settings, project: Path | None = None) -> Embedder:
    """The embedder that the settings name: `hash`, a folder, or a model in the models folder of project or machine.

    Raises ModelMissingError or ModelBrokenError, with the path looked at and the command that helps.
    """
    if settings.embedder == "hash":
        return HashEmbedder()
    beside = [project / "models" / settings.embedder] if project else []
    folders = [Path(settings.embedder), *beside]
    there = next((folder for folder in folders if folder.is_dir()), models_folder() / settings.embedder)
    return SentenceTransformerEmbedder(there)


def weights(folder: Path) -> list[Path]:
    """The weight files in an embedder's folder, sorted."""
    return sorted(folder.glob("*.safetensors")) or sorted(folder.glob("pytorch_model*.bin"))


def lacking(folder: Path) -> list[str]:
    """What an embedder is made of and the folder does not hold."""
    missing = [name for name in ("config.json", "tokenizer.json") if not (folder / name).is_file()]
    return missing + ([] if weights(folder) else ["model.safetensors"])


def _check(folder: Path) -> None:
    """Raise ModelMissingError naming what is not there."""
    if missing := lacking(folder):
        what = f"lacks {', '.join(missing)}" if folder.is_dir() else "is not there"
        raise ModelMissingError(
            f"There is no embedder '{folder.name}' on this machine: {folder} {what}. "
            f"Run `localgraphrag models pull {folder.name}`; with the network off, copy its folder there."
        )


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _unit_length(matrix: Matrix) -> Matrix:
    lengths = np.linalg.norm(matrix, axis=1, keepdims=True)
    return (matrix / np.where(lengths == 0, 1, lengths)).astype(np.float32)
