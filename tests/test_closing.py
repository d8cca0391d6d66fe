"""Replies ended early: complete, valid, and cut where a reader would cut."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from llguidance import LLMatcher, LLTokenizer
from outlines.types import CFG, Regex

from localgraphrag.llm import closing, output

BYTES = LLTokenizer("byte")
TEXT = {"type": "string", "maxLength": 200}
NOTE = output.schema({"note": TEXT})
LIST = output.schema({"items": {"type": "array", "items": TEXT, "maxItems": 9}})
CHOICE = output.schema({"note": TEXT, "kind": {"enum": ["road", "mill"]}})
SOURCES = {"type": "array", "items": {"enum": ["R1", "R2"]}}
REPORT = output.schema(
    {
        "title": {"type": "string", "maxLength": 40},
        "summary": {"type": "string", "minLength": 1, "maxLength": 200},
        "rating": {"type": "integer", "minimum": 0, "maximum": 10},
        "findings": {
            "type": "array",
            "maxItems": 3,
            "items": output.object_schema({"point": TEXT, "sources": SOURCES}),
        },
    }
)


def pieces(tokens) -> list[bytes]:
    return [bytes([token]) for token in tokens]


def encode(text: str) -> list[int]:
    return list(text.encode())


def closed(declared: Any, begun: str | bytes) -> str:
    tokens = list(begun.encode() if isinstance(begun, str) else begun)
    matcher = LLMatcher(BYTES, output.grammar(declared))
    assert matcher.try_consume_tokens(tokens) == len(tokens), f"{begun!r} is no beginning of a reply"
    found = closing.close(matcher, tokens, pieces, encode)
    assert found is not None
    way, keep = found
    return bytes(tokens[:keep] + way).decode()


@pytest.mark.parametrize(
    ("declared", "begun", "expected"),
    [
        (NOTE, '{"note":"One. Two is not do', '{"note":"One."}'),
        (NOTE, '{"note":"A single long sentence', '{"note":"A single long"}'),
        (NOTE, '{"note":"She said \\"no\\" to th', '{"note":"She said \\"no\\" to"}'),
        (NOTE, '{"note":"It cost 3.5 mill', '{"note":"It cost 3.5"}'),
        (NOTE, '{"note":"All is well. It cost 3.', '{"note":"All is well."}'),
        (NOTE, '{"note":"It was built in 1912. Th', '{"note":"It was built in 1912."}'),
        (NOTE, '{"note":"Dr. Smith wen', '{"note":"Dr. Smith"}'),
        (NOTE, '{"note":"He left. So did Dr. Smith wen', '{"note":"He left."}'),
        (NOTE, '{"note":"www.example.org for mo', '{"note":"www.example.org for"}'),
        (NOTE, '{"note":"He is (so) old.\\nThe', '{"note":"He is (so) old."}'),
        (NOTE, '{"note":"(He left.) An', '{"note":"(He left."}'),
        (NOTE, '{"note":"वह आया। और फि', '{"note":"वह आया।"}'),
        (NOTE, '{"note":"完了。次の文は途', '{"note":"完了。"}'),
        (NOTE, '{"note":"完了.次の文は途', '{"note":"完了."}'),
        (NOTE, '{"note":"次の文は途', '{"note":"次の文は途"}'),
        (NOTE, '{"note":"Unfinishedw', '{"note":""}'),
        (NOTE, '{"no', '{"note":""}'),
        (LIST, '{"items":["Ada","Bo', '{"items":["Ada"]}'),
        (LIST, '{"items":["Ada","Bob"', '{"items":["Ada","Bob"]}'),
        (LIST, '{"items":["Ada",', '{"items":["Ada"]}'),
        (LIST, '{"items":["A', '{"items":[]}'),
        (CHOICE, '{"note":"Whole.', '{"note":"Whole.","kind":"mill"}'),
        (
            REPORT,
            '{"title":"T","summary":"All is well. And th',
            '{"title":"T","summary":"All is well.","rating":0,"findings":[]}',
        ),
    ],
)
def test_a_reply_is_cut_where_a_reader_would_cut(declared, begun, expected):
    assert closed(declared, begun) == expected


def test_whole_items_before_an_unfinished_one_are_kept():
    begun = '{"title":"T","summary":"S.","rating":7,"findings":[{"point":"Whole.","sources":["R1"]},{"point":"Half of'
    reply = json.loads(closed(REPORT, begun))
    assert reply["rating"] == 7
    assert reply["findings"] == [{"point": "Whole.", "sources": ["R1"]}]


def test_a_complete_reply_gets_nothing_added():
    assert closed(Regex("yes|no"), "yes") == "yes"
    assert closed(NOTE, '{"note":"x"}') == '{"note":"x"}'


def test_a_grammar_that_dictates_the_rest_is_followed():
    assert closed(CFG('start: "[" ("alpha" | "beta") "; end of the line]"'), "[al") == "[alpha; end of the line]"


def test_what_cannot_be_closed_is_told():
    matcher = LLMatcher(BYTES, output.grammar(Regex("[xyz]{90}")))
    tokens = encode("xyz")
    assert matcher.try_consume_tokens(tokens) == 3
    assert closing.close(matcher, tokens, pieces, encode) is None


WHOLE = json.dumps(
    {
        "title": "Ünïcode “title”",
        "summary": 'First sentence. "Quoted" second; a \\ and a\nline. 第三句。',
        "rating": 10,
        "findings": [{"point": "One is here.", "sources": ["R1", "R2"]}, {"point": "Two 🌊 there", "sources": []}],
    },
    ensure_ascii=False,
    separators=(",", ":"),
).encode()


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.integers(0, len(WHOLE)))
def test_any_beginning_can_be_closed_and_stays_a_beginning(end):
    text = closed(REPORT, WHOLE[:end])
    output.check_reply(REPORT, text)
    json.loads(text)


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])  # a busy machine is no failure
@given(st.lists(st.integers(0, 3), max_size=8), st.lists(st.integers(), min_size=4, max_size=20, unique=True))
def test_a_phrase_three_times_over_is_a_loop_and_one_of_it_stays(before, phrase):
    tokens = before + phrase * 3
    drop = closing.looping(tokens)
    assert tokens[: len(tokens) - drop] == before + phrase


@given(st.lists(st.integers(), unique=True, max_size=60))
def test_what_never_repeats_is_no_loop(tokens):
    assert closing.looping(tokens) == 0


def test_short_rhythms_need_more_repeats():
    assert closing.looping([1] * 8) == 0
    assert closing.looping([1] * 13) > 0
    assert closing.looping([1, 2] * 3) == 0
    assert closing.looping([5, 6, 7, 8] * 2) == 0
