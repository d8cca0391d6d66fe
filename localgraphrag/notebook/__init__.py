"""What notebooks show: views of each stage of the method, of an answer and of its sources.

They need the notebook extra: `pip install -e '.[notebook]'`. Each also has a static form, `view.static()`.
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from localgraphrag.notebook.base import View
    from localgraphrag.notebook.chunk_view import ChunkView, Span
    from localgraphrag.notebook.compare_view import CompareView
    from localgraphrag.notebook.extraction_stepper import ExtractionStepper, ExtractionTrace, trace_extraction
    from localgraphrag.notebook.graph_view import GraphView
    from localgraphrag.notebook.map_reduce_view import MapReduceView
    from localgraphrag.notebook.packing_view import PackingView
    from localgraphrag.notebook.progress_view import ProgressView

__all__ = [
    "ChunkView",
    "CompareView",
    "ExtractionStepper",
    "ExtractionTrace",
    "GraphView",
    "MapReduceView",
    "PackingView",
    "ProgressView",
    "Span",
    "View",
    "trace_extraction",
]

_HOMES = {
    "ChunkView": "chunk_view",
    "CompareView": "compare_view",
    "ExtractionStepper": "extraction_stepper",
    "ExtractionTrace": "extraction_stepper",
    "GraphView": "graph_view",
    "MapReduceView": "map_reduce_view",
    "PackingView": "packing_view",
    "ProgressView": "progress_view",
    "Span": "chunk_view",
    "View": "base",
    "trace_extraction": "extraction_stepper",
}  # imported when first used, so that what needs no widget does without the notebook extra


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'localgraphrag.notebook' has no attribute '{name}'; it has {', '.join(__all__)}")
    if find_spec("anywidget") is None:
        raise ImportError("The views need anywidget: `pip install -e '.[notebook]'`, in the folder of the source.")
    value = getattr(import_module(f"localgraphrag.notebook.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
