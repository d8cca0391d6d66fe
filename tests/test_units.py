"""Units: addresses that change with every input, conversations that end in exactly one outcome."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from outlines.types import Regex

from localgraphrag.errors import ModelError
from localgraphrag.llm.scripted import ScriptedEngine
from localgraphrag.llm.types import Completion, Request, Usage
from localgraphrag.llm.units import ConversationError, EngineRunner, Unit, content_hash, converse, run_all

LETTERS = Regex("[a-z ]*")


@dataclass(frozen=True)
class Said:
    texts: tuple[str, ...]


def unit(name: str, *prompts: str, ask=None) -> Unit[Said]:
    def conversation():
        texts = []
        for prompt in prompts:
            completion = yield Request(prompt, LETTERS)
            texts.append(completion.text)
        return Said(tuple(texts))

    return Unit("test", 1, name, prompts, Said, ask or conversation)


def echo(messages, request) -> str:
    if "fail" in request.prompt:
        raise ModelError(f"no answer to {request.prompt}")
    return f"re {request.prompt}"


class Interleaving(ScriptedEngine):
    """Takes all requests at once and answers turn by turn, the last first, as a batched engine may."""

    def run(self, requests):
        talks = list(requests)
        while talks:
            request = talks.pop()
            completion = self._complete((), request)
            follow_up = request.then(completion) if request.then else None
            if follow_up is not None:
                talks.insert(0, follow_up)
            yield completion


@pytest.fixture(params=[ScriptedEngine, Interleaving])
def engine(request):
    return request.param(echo)


def test_a_conversation_gets_its_replies_and_gives_its_result(engine):
    (outcome,) = converse(engine, [unit("u", "one", "two")])
    assert outcome.ok
    assert outcome.value == Said(("re one", "re two"))
    assert outcome.usage.calls == 2
    assert not outcome.cached
    assert [r.key for r in engine.requests] == ["test u", "test u"]


def test_every_unit_ends_in_one_outcome(engine):
    units = [unit(str(i), *["a", "b", "c"][: i % 4]) for i in range(9)]
    outcomes = list(converse(engine, units))
    assert sorted(o.unit.name for o in outcomes) == [str(i) for i in range(9)]
    assert {len(o.value.texts) for o in outcomes} == {0, 1, 2, 3}


def test_outcomes_come_in_order_of_completion():
    units = [unit("long", "a", "b", "c"), unit("short", "a"), unit("none")]
    assert [o.unit.name for o in converse(ScriptedEngine(echo), units)] == ["long", "short", "none"]
    assert [o.unit.name for o in converse(Interleaving(echo), units)] == ["none", "short", "long"]
    runner = EngineRunner(Interleaving(echo))
    assert list(run_all(runner, units)) == ["long", "short", "none"]


def test_units_are_drawn_as_they_are_needed():
    drawn = []

    def units():
        for i in range(3):
            drawn.append(i)
            yield unit(str(i), "a")

    outcomes = converse(ScriptedEngine(echo), units())
    next(outcomes)
    assert drawn == [0]


def test_a_failed_turn_fails_its_unit_and_no_other(engine):
    outcomes = {o.unit.name: o for o in converse(engine, [unit("bad", "fail", "never"), unit("good", "one")])}
    assert outcomes["bad"].error == "no answer to fail"
    assert outcomes["bad"].value is None
    assert not outcomes["bad"].ok
    assert outcomes["bad"].usage.calls == 1
    assert outcomes["good"].ok


def test_a_conversation_may_recover_from_a_failed_turn(engine):
    def stubborn():
        try:
            yield Request("fail", LETTERS)
        except ConversationError as error:
            reason = str(error)
        completion = yield Request("easier", LETTERS)
        return Said((reason, completion.text))

    def content():
        try:
            yield Request("fail", LETTERS)
        except ConversationError:
            return Said(())

    outcomes = {o.unit.name: o for o in converse(engine, [unit("a", ask=stubborn), unit("b", ask=content)])}
    assert outcomes["a"].value == Said(("no answer to fail", "re easier"))
    assert outcomes["a"].usage.calls == 2
    assert outcomes["b"].value == Said(())


def test_a_bug_in_a_conversation_is_no_outcome(engine):
    def broken():
        yield Request("one", LETTERS)
        raise KeyError("bug")

    with pytest.raises(KeyError, match="bug"):
        list(converse(engine, [unit("u", ask=broken)]))


def test_a_request_keeps_the_key_its_caller_gave():
    def named():
        yield Request("one", LETTERS, key="mine")
        return Said(())

    engine = ScriptedEngine(echo)
    list(converse(engine, [unit("u", ask=named)]))
    assert engine.requests[0].key == "mine"


BASE = Unit("extract", 1, "chunk", ("prompt", "text"), Said, lambda: iter(()))


@pytest.mark.parametrize(
    "change",
    [
        {"stage": "report"},
        {"version": 2},
        {"inputs": ("prompt", "text ")},
        {"inputs": ("prompttext",)},
        {"inputs": ("text", "prompt")},
        {"inputs": ("prompt", "text", "")},
    ],
)
def test_the_address_changes_with_any_input(change):
    assert replace(BASE, **change).key("model") != BASE.key("model")


def test_the_address_depends_on_the_model_and_not_on_the_name():
    assert BASE.key("model") != BASE.key("other")
    assert replace(BASE, name="other", chunks=("c",)).key("model") == BASE.key("model")


@given(st.lists(st.text()), st.lists(st.text()))
def test_hashes_are_equal_only_for_equal_parts(left, right):
    assert (content_hash(*left) == content_hash(*right)) == (left == right)


def test_usage_adds_up_field_by_field():
    total = Usage(1, 2, 3, 4, 5, 6, 0.5) + Usage(10, 20, 30, 40, 50, 60, 1.0)
    assert total == Usage(11, 22, 33, 44, 55, 66, 1.5)
    assert Completion("k", "t").usage == Usage()
