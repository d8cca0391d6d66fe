"""The engine and the plain path through Outlines, side by side on the smallest model.

The engine reads several tokens at once where the plain path reads one. With flash attention a row's sums do not depend
on those beside it, and every token must be the same. Without it, as the engine is shipped for processors, they do, and
where the two likeliest tokens are as good as equal either may be taken.
"""

from __future__ import annotations

import numpy as np
import pytest
from test_llamacpp import FILE, NAMES, NOTE, PREFIX, SCORE, TRIAGE, YES_NO, ask, pytestmark  # noqa: F401  skips here too

from localgraphrag.llm import output
from localgraphrag.llm.gguf import GGUFModel
from localgraphrag.llm.llamacpp import LlamaCppEngine, common
from localgraphrag.llm.reference import ReferenceEngine
from localgraphrag.llm.types import Engine

SUBJECTS = ["the river", "a mill", "the old road", "two towns", "a market", "the ferry", "a bridge", "the inn"]
TIE = 0.25  # of a logit, between the likeliest token and another: so much do sums of other rows differ (docs/log.md)
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
    """Keeps the tokens of every reply, and for each that was chosen those that were as good."""

    def __init__(self, *parts, **options):
        super().__init__(*parts, **options)
        self.replies: dict[str, tuple[int, ...]] = {}
        self.ties: dict[tuple[str, int], set[int]] = {}
        self.trace = self._note

    def _note(self, choice):
        if choice.logits is not None:
            near = choice.legal & (choice.logits >= choice.logits[choice.token] - TIE)
            self.ties[choice.key, choice.position] = set(np.flatnonzero(near).tolist())

    def _finish(self, talk, waiting):
        self.replies[talk.request.key] = tuple(talk.tokens[talk.start :])
        return super()._finish(talk, waiting)


@pytest.mark.parametrize("flash", [None, True])
def test_both_say_the_same(flash):
    sizes = {"slots": 1, "cells": 1024, "longest": 1024, "threads": 1}
    engine = Watched(GGUFModel(FILE, gpu_layers=0), identity="test", flash=flash, **sizes)
    ours = {c.key: c for c in engine.run(REQUESTS)}
    engine.close()
    reference = ReferenceEngine(FILE, identity="test", context_tokens=1024, threads=1, flash=bool(flash))
    assert isinstance(reference, Engine)
    theirs = {c.key: c for c in reference.run(REQUESTS)}
    tokens = dict(zip(theirs, reference.replies, strict=True))
    reference.close()
    reference.close()
    for request in REQUESTS:
        assert not theirs[request.key].error
        output.check_reply(request.output, theirs[request.key].text)
        assert ours[request.key].usage.prompt_tokens == theirs[request.key].usage.prompt_tokens
    compared = [r.key for r in REQUESTS if ours[r.key].finish != "repeat"]  # the reference looks for no repeats
    same = [key for key in compared if engine.replies[key] == tokens[key]]
    assert len(same) >= 20 and (not flash or same == compared)
    assert [ours[key].text for key in same] == [theirs[key].text for key in same]
    for key in set(compared) - set(same):
        parted = common(engine.replies[key], tokens[key])
        assert tokens[key][parted] in engine.ties[key, parted], "they differ where there is no tie"


def test_a_second_turn_and_a_refused_one_are_alike():
    second = ask("Is it far?", YES_NO, key="second")
    asked = ask("Where is the mill?", key="first", then=lambda c: second if c.key == "first" else None)
    long = ask("word " * 400, key="long")
    found = []
    sizes = {"slots": 1, "cells": 256, "longest": 400, "threads": 1}
    for engine in (
        LlamaCppEngine(GGUFModel(FILE, gpu_layers=0), identity="test", **sizes),
        ReferenceEngine(FILE, identity="test", context_tokens=400, threads=1),
    ):
        found.append([(c.key, c.text, c.finish, c.usage.prompt_tokens) for c in engine.run([asked, long])])
        engine.close()
    assert found[0] == found[1]
    assert [key for key, *_ in found[0]] == ["first", "second", "long"]
