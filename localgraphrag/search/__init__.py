"""Ways to answer a question, all returning the same `Answer`."""

from localgraphrag.search.answer import Answer, Citation, Source
from localgraphrag.search.global_ import global_search
from localgraphrag.search.question import CONDITIONS, Condition, condition
from localgraphrag.search.sources import Evidence, resolve_sources
from localgraphrag.search.text import text_search
from localgraphrag.search.vector import vector_search

__all__ = [
    "CONDITIONS",
    "Answer",
    "Citation",
    "Condition",
    "Evidence",
    "Source",
    "condition",
    "global_search",
    "resolve_sources",
    "text_search",
    "vector_search",
]
