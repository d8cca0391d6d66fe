"""A model that is a function and speaks through the package's own extraction: for whole runs on real text."""

from __future__ import annotations

import json
import re

import workbench

from localgraphrag.llm.types import Message, Request


def reply(messages: tuple[Message, ...], request: Request) -> str:
    """Capitalized words are the names, clustered by the chunks they share; the rest is the least that may be said."""
    stage, *_, step = request.key.split()
    if stage != "extract":
        return workbench.reply(messages, request)
    texts = [m.content for m in messages if m.role == "user" and "Passage:" in m.content]
    text = texts[-1].split("Passage:")[1]
    names = list(dict.fromkeys(re.findall(r"(?<=[a-z] )[A-Z][a-z]{3,}\b", text)))[:8]
    if step == "names":
        return compact({"entities": dict.fromkeys(names, "person")})
    if step == "details":  # of one entity at the least
        return compact({step: [[names[0], f"{names[0]} is told of."]]})
    return "no" if step == "missed" else compact({step: []})


def compact(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
