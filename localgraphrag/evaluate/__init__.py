"""The paper's evaluation: answers under several conditions, measured (sections 3 to 5).

In this order: `write_questions`, `run`, then any of `judge_answers`, `measure_claims`, `measure_facts` and
`measure_qa`, and `write_report`. Each takes a `Project` and leaves its files in the project's folder `evaluation/`.

>>> from localgraphrag import evaluate
>>> "judge_answers" in evaluate.__all__
True
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from localgraphrag.evaluate.measures import measure_facts, measure_qa, write_report
    from localgraphrag.evaluate.questions import Sizes
    from localgraphrag.evaluate.steps import judge_answers, measure_claims, run, write_questions

__all__ = [
    "Sizes",
    "judge_answers",
    "measure_claims",
    "measure_facts",
    "measure_qa",
    "run",
    "write_questions",
    "write_report",
]

_HOMES = {
    "Sizes": "questions",
    "judge_answers": "steps",
    "measure_claims": "steps",
    "measure_facts": "measures",
    "measure_qa": "measures",
    "run": "steps",
    "write_questions": "steps",
    "write_report": "measures",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'localgraphrag.evaluate' has no attribute '{name}'; it has {', '.join(__all__)}")
    return getattr(import_module(f"localgraphrag.evaluate.{_HOMES[name]}"), name)
