"""The scripted engine holds its scripts to what a real engine would say."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st
from outlines.types import Regex

from localgraphrag.errors import DocumentError
from localgraphrag.llm.scripted import ScriptedEngine, WordTokenizer
from localgraphrag.llm.types import Engine, Message, Request, Tokenizer

ASK = Request("Where is the mill?", Regex("[a-z ]+"), prefix=(Message("system", "Be brief."),), max_tokens=20, key="k")


def test_it_is_an_engine():
    engine = ScriptedEngine(lambda messages, request: "x", name="a")
    assert isinstance(engine, Engine)
    assert isinstance(engine.tokenizer, Tokenizer)
    assert engine.identity == "scripted:a"
    engine.close()
    engine.close()


def test_the_script_sees_the_whole_conversation():
    seen = []

    def answer(messages, request):
        seen.append(tuple((m.role, m.content) for m in messages))
        return "by the river" if len(seen) == 1 else "yes"

    follow_up = Request("Sure?", Regex("yes|no"), key="again")
    engine = ScriptedEngine(answer)
    found = list(engine.run([replace(ASK, then=lambda c: follow_up if c.key == "k" else None)]))
    assert [(c.key, c.text, c.finish) for c in found] == [("k", "by the river", "stop"), ("again", "yes", "stop")]
    assert seen[0] == (("system", "Be brief."), ("user", "Where is the mill?"))
    assert seen[1] == (*seen[0], ("assistant", "by the river"), ("user", "Sure?"))
    assert [r.key for r in engine.requests] == ["k", "again"]


def test_a_reply_no_model_could_give_is_an_error():
    (completion,) = ScriptedEngine(lambda messages, request: "BY THE RIVER").run([ASK])
    assert completion.finish == "error"
    assert completion.text == ""
    assert "not valid under its output type" in completion.error


def test_an_error_of_ours_is_a_completion_and_a_bug_is_not():
    def ours(messages, request):
        raise DocumentError("told")

    def bug(messages, request):
        raise ZeroDivisionError

    assert next(ScriptedEngine(ours).run([ASK])).error == "told"
    try:
        list(ScriptedEngine(bug).run([ASK]))
    except ZeroDivisionError:
        return
    raise AssertionError("the bug was swallowed")


def test_a_prompt_too_long_is_refused_with_the_numbers():
    engine = ScriptedEngine(lambda messages, request: "x", context_tokens=30)
    (completion,) = engine.run([ASK])
    shown = engine.prompt_tokens(ASK)
    assert completion.finish == "error"
    assert all(str(number) in completion.error for number in (shown, 20, 30))
    assert not next(ScriptedEngine(lambda messages, request: "x", context_tokens=shown + 20).run([ASK])).error


def test_usage_counts_the_prompt_and_the_reply():
    engine = ScriptedEngine(lambda messages, request: "by the river")
    usage = next(engine.run([ASK])).usage
    assert usage.calls == 1
    assert usage.prompt_tokens == engine.prompt_tokens(ASK)
    assert usage.output_tokens == engine.tokenizer.count("by the river") == 5


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_tokens_give_back_their_text(text):
    tokenizer = WordTokenizer()
    tokens = tokenizer.encode(text)
    assert b"".join(tokenizer.token_bytes(tokens)).decode() == text
    assert tokenizer.count(text) == len(tokens)
    assert tokenizer.encode(text) == tokens
