"""GraphRAG that runs wholly on your own machine.

>>> import localgraphrag
>>> "Project" in localgraphrag.__all__
True
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from localgraphrag.config import Settings, load_settings
    from localgraphrag.errors import LocalGraphRAGError
    from localgraphrag.llm.recorded import RecordedEngine
    from localgraphrag.llm.recorded_vectors import RecordedEmbedder
    from localgraphrag.llm.scripted import ScriptedEngine
    from localgraphrag.pipeline import IndexSummary
    from localgraphrag.progress import Progress
    from localgraphrag.project import Project
    from localgraphrag.search.answer import Answer, Citation, Source

__version__ = "0.1.0"

__all__ = [
    "Answer",
    "Citation",
    "IndexSummary",
    "LocalGraphRAGError",
    "Progress",
    "Project",
    "RecordedEmbedder",
    "RecordedEngine",
    "ScriptedEngine",
    "Settings",
    "Source",
    "load_settings",
]

_HOMES = {
    "Answer": "search.answer",
    "Citation": "search.answer",
    "IndexSummary": "pipeline",
    "LocalGraphRAGError": "errors",
    "Progress": "progress",
    "Project": "project",
    "RecordedEmbedder": "llm.recorded_vectors",
    "RecordedEngine": "llm.recorded",
    "ScriptedEngine": "llm.scripted",
    "Settings": "config",
    "Source": "search.answer",
    "load_settings": "config",
}  # imported when first used, so that `import localgraphrag` and the command line start at once


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'localgraphrag' has no attribute '{name}'; it has {', '.join(__all__)}")
    value = getattr(import_module(f"localgraphrag.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
