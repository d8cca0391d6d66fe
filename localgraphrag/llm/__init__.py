"""The model seam: types, units of work, engines, the model catalogue."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from localgraphrag.config import Settings
    from localgraphrag.llm.types import Engine


def load_engine(settings: Settings, beside: Path | None = None) -> Engine:
    """The llama.cpp engine for the settings' model, sized for this machine.

    Slots are those set, or else measured, and fewer where memory is short.

    Parameters
    ----------
    beside : a project folder whose `models/` is looked in as well.

    Raises ModelMissingError, ModelBrokenError, or ModelError if the context does not fit into memory.
    """
    import psutil

    from localgraphrag.llm import plan
    from localgraphrag.llm.catalog import resolve_model
    from localgraphrag.llm.gguf import GGUFModel, offloading
    from localgraphrag.llm.llamacpp import LlamaCppEngine

    file = resolve_model(settings.model, beside=beside)
    longest = settings.context_window + plan.MARGIN
    available = psutil.virtual_memory().available
    on_card = offloading(settings.gpu_layers)  # so are the weights and the cache
    with contextlib.closing(GGUFModel(file.path, vocab_only=True)) as header:
        if not on_card:
            plan.slots_that_fit(header, 1, longest, available)
        model = GGUFModel(file.path, gpu_layers=settings.gpu_layers)
        slots, threads = settings.slots, settings.threads
        if not slots:
            slots, threads = plan.choose(model, file.sha256, threads=threads, gpu_layers=settings.gpu_layers)
        if not on_card:
            slots = plan.slots_that_fit(header, slots, longest, available)
    return LlamaCppEngine(
        model,
        identity=file.sha256,
        slots=slots,
        cells=plan.TOKENS_PER_SLOT,
        longest=longest,
        threads=threads,
        batch=plan.BATCH,
    )
