"""What notebooks show: views of each stage of the method, of an answer and of its sources.

They need the notebook extra: `pip install localgraphrag[notebook]`. Each also has a static form, `view.static()`.
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from localgraphrag.notebook.base import View

__all__ = ["View"]

_HOMES = {"View": "base"}  # imported when first used, so that what needs no widget does without the notebook extra


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'localgraphrag.notebook' has no attribute '{name}'; it has {', '.join(__all__)}")
    if find_spec("anywidget") is None:
        raise ImportError("The views need anywidget. Install it with `pip install localgraphrag[notebook]`.")
    value = getattr(import_module(f"localgraphrag.notebook.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
