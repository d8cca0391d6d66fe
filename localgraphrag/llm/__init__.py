"""The model seam: types, units of work, engines, the model catalogue."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from localgraphrag.config import Settings
    from localgraphrag.llm.types import Engine

DEFAULT_SLOTS = 16
TOKENS_PER_SLOT = 2048
"""Cells set aside per conversation: instructions, a chunk of 600 tokens, its questions and its replies."""


def load_engine(settings: Settings, beside: Path | None = None) -> Engine:
    """The llama.cpp engine for the settings' model.

    Parameters
    ----------
    beside : a project folder whose `models/` is looked in as well.

    Raises ModelMissingError, ModelBrokenError, or ModelError if the context does not fit into memory.
    """
    from localgraphrag.llm.catalog import resolve_model
    from localgraphrag.llm.gguf import GGUFModel
    from localgraphrag.llm.llamacpp import LlamaCppEngine

    file = resolve_model(settings.model, beside=beside)
    model = GGUFModel(file.path, gpu_layers=settings.gpu_layers)
    slots = settings.slots or DEFAULT_SLOTS
    return LlamaCppEngine(
        model,
        identity=file.sha256,
        slots=slots,
        cells=TOKENS_PER_SLOT,
        longest=settings.context_window + 512,
        threads=settings.threads,
    )
