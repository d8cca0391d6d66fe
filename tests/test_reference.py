"""The engine and the plain path through Outlines, side by side on the smallest model."""

from __future__ import annotations

import pytest
from test_llamacpp import FILE, NAMES, NOTE, PREFIX, SCORE, TRIAGE, YES_NO, ask, pytestmark  # noqa: F401  skips here too

from localgraphrag.llm import output
from localgraphrag.llm.gguf import GGUFModel
from localgraphrag.llm.llamacpp import LlamaCppEngine
from localgraphrag.llm.reference import ReferenceEngine
from localgraphrag.llm.types import Engine

SUBJECTS = ["the river", "a mill", "the old road", "two towns", "a market", "the ferry"]
REQUESTS = [
    ask(f"{question} {subject}.", declared, max_tokens=cap, key=f"{question} {subject}", prefix=prefix)
    for question, declared, cap, prefix in [
        ("Describe", NOTE, 20, ()),
        ("Where is", NOTE, 12, PREFIX),
        ("Name people of", NAMES, 20, PREFIX),
        ("Sort and explain", TRIAGE, 20, ()),
    ]
    for subject in SUBJECTS
] + [ask("Is water wet?", YES_NO, key="wet"), ask("Rate the bridge.", SCORE, key="rate")]


class Watched(LlamaCppEngine):
    """Keeps the tokens of every reply."""

    replies: dict[str, tuple[int, ...]]

    def _finish(self, talk, waiting):
        self.replies[talk.request.key] = tuple(talk.tokens[talk.start :])
        return super()._finish(talk, waiting)


@pytest.fixture(scope="module")
def sides():
    """(key, text, tokens, finish) of every request from both engines, read one at a time."""
    sizes = {"slots": 1, "cells": 1024, "longest": 1024, "threads": 1}
    engine = Watched(GGUFModel(FILE, gpu_layers=0), identity="test", flash=True, **sizes)
    engine.replies = {}
    ours = {c.key: c for c in engine.run(REQUESTS)}
    engine.close()
    reference = ReferenceEngine(FILE, identity="test", context_tokens=1024, threads=1)
    assert isinstance(reference, Engine)
    theirs = {c.key: c for c in reference.run(REQUESTS)}
    tokens = dict(zip(theirs, reference.replies, strict=True))
    reference.close()
    reference.close()
    return engine.replies, ours, tokens, theirs


def test_both_say_the_same(sides):
    tokens, ours, reference_tokens, theirs = sides
    for request in REQUESTS:
        assert not theirs[request.key].error
        output.check_reply(request.output, theirs[request.key].text)
        assert ours[request.key].usage.prompt_tokens == theirs[request.key].usage.prompt_tokens
    compared = [r.key for r in REQUESTS if ours[r.key].finish != "repeat"]  # the reference looks for no repeats
    assert len(compared) >= 20
    assert {key: tokens[key] for key in compared} == {key: reference_tokens[key] for key in compared}
    assert [ours[key].text for key in compared] == [theirs[key].text for key in compared]


def test_a_second_turn_and_a_refused_one_are_alike():
    second = ask("Is it far?", YES_NO, key="second")
    asked = ask("Where is the mill?", key="first", then=lambda c: second if c.key == "first" else None)
    long = ask("word " * 400, key="long")
    found = []
    sizes = {"slots": 1, "cells": 256, "longest": 400, "threads": 1}
    for engine in (
        LlamaCppEngine(GGUFModel(FILE, gpu_layers=0), identity="test", flash=True, **sizes),
        ReferenceEngine(FILE, identity="test", context_tokens=400, threads=1),
    ):
        found.append([(c.key, c.text, c.finish, c.usage.prompt_tokens) for c in engine.run([asked, long])])
        engine.close()
    assert found[0] == found[1]
    assert [key for key, *_ in found[0]] == ["first", "second", "long"]
