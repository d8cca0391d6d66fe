"""What the engine tells of its tokens is what it replied, and listening changes nothing."""

from __future__ import annotations

import pytest
from outlines.types import Regex

from localgraphrag.config import models_folder
from localgraphrag.llm import output
from localgraphrag.llm.gguf import GGUFModel
from localgraphrag.llm.llamacpp import LlamaCppEngine
from localgraphrag.llm.trace import Tracer
from localgraphrag.llm.types import Request

FILE = models_folder() / "SmolLM2-135M-Instruct.Q4_1.gguf"
pytestmark = [
    pytest.mark.model,
    pytest.mark.skipif(not FILE.exists(), reason=f"{FILE.name} is not in {FILE.parent}"),
]
NAMES = output.schema({"names": {"type": "array", "items": {"type": "string", "maxLength": 24}, "maxItems": 6}})
REQUESTS = [
    Request("Name three rivers.", NAMES, max_tokens=40, key="rivers"),
    Request("Name ten towns.", NAMES, max_tokens=14, key="towns"),  # is cut and closed
    Request("Is water wet?", Regex("yes|no"), max_tokens=4, key="wet"),
    Request("Write é ten times.", Regex("é{4,8}"), max_tokens=12, key="accents"),
    Request("Name a lake.", NAMES, max_tokens=24, key="warm", temperature=1.5, seed=3),
]


@pytest.fixture(scope="module")
def engine():
    made = LlamaCppEngine(GGUFModel(FILE, gpu_layers=0), identity="test", slots=4, cells=512, longest=1024, threads=1)
    yield made
    made.close()


def test_a_trace_is_the_reply_and_changes_nothing(engine):
    plain = {completion.key: completion for completion in engine.run(REQUESTS)}
    engine.trace = tracer = Tracer(engine.model, top=4)
    traced = {completion.key: completion for completion in engine.run(REQUESTS)}
    engine.trace = None
    turns = {turn.key: turn for turn in tracer.turns}
    assert turns.keys() == traced.keys() == plain.keys()
    for key, completion in traced.items():
        turn = turns[key]
        assert completion.text == plain[key].text == turn.text
        assert completion.finish == plain[key].finish
        ends = sum(not step.text for step in turn.steps[-1:])
        assert len(turn.steps) - ends == completion.usage.output_tokens
        for step in turn.steps:
            shares = [candidate.share for candidate in step.candidates]
            assert step.forced == (not step.candidates)
            assert shares[:4] == sorted(shares[:4], reverse=True) and sum(shares) <= 1.01
            assert step.forced or (step.candidates[step.chosen].legal and step.allowed >= 1)
        greedy = key != "warm"
        if greedy and completion.finish == "stop":
            assert sum(step.struck for step in turn.steps) == completion.usage.illegal
    assert traced["towns"].finish == "cap" and turns["towns"].steps[-1].forced


def test_nothing_is_told_when_nobody_listens(engine):
    assert engine.trace is None
    heard = []
    engine.trace = heard.append
    list(engine.run(REQUESTS[2:3]))
    engine.trace = None
    told = len(heard)
    list(engine.run(REQUESTS[2:3]))
    assert len(heard) == told > 0
