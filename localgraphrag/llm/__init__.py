"""The model seam: types, units of work, engines, the model catalogue."""

from __future__ import annotations

import contextlib
import logging
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from localgraphrag.config import Settings
    from localgraphrag.llm.types import Engine

log = logging.getLogger(__name__)


def load_engine(settings: Settings, beside: Path | None = None) -> Engine:
    """The llama.cpp engine for the settings' model, sized for this machine.

    Slots and batch are those set, or else measured. Where memory is short, slots are fewer, and a measured batch is no
    larger than the default.

    Parameters
    ----------
    beside : a project folder whose `models/` is looked in as well.

    Raises ModelMissingError, ModelBrokenError, or ModelError if the context does not fit into memory.
    """
    from localgraphrag.llm import plan
    from localgraphrag.llm.catalog import resolve_model
    from localgraphrag.llm.gguf import GGUFModel, slow_build_warning, system_info
    from localgraphrag.llm.llamacpp import LlamaCppEngine

    file = resolve_model(settings.model, beside=beside)
    if slow := slow_build_warning(system_info()):
        log.warning("%s", slow)
    longest = settings.context_window + plan.MARGIN
    rooms = plan.rooms(settings.gpu_layers)
    with contextlib.closing(GGUFModel(file.path, vocab_only=True)) as header:
        layers, slots, batch, threads = settings.gpu_layers, settings.slots, settings.batch, settings.threads

        def fitting(slots: int, batch: int) -> int:
            for room in rooms:
                slots = plan.slots_that_fit(header, slots, longest, room.free, layers, batch, on_card=room.on_card)
            return slots

        fitting(1, batch or plan.BATCH)
        model = GGUFModel(file.path, gpu_layers=layers)
        if not (slots and batch):
            found = plan.choose(model, file.sha256, threads=threads, gpu_layers=layers)
            slots, batch, threads = slots or found.slots, batch or found.batch, found.threads
            needed = [plan.memory_needed(header, slots, longest, layers, batch, on_card=r.on_card) for r in rooms]
            if any(need.total > room.free for need, room in zip(needed, rooms, strict=True)):
                batch = settings.batch or min(batch, plan.BATCH)  # conversations come before a larger batch
        slots = fitting(slots, batch)
    return LlamaCppEngine(
        model,
        identity=file.sha256,
        slots=slots,
        cells=plan.TOKENS_PER_SLOT,
        longest=longest,
        threads=threads,
        batch=batch,
    )
