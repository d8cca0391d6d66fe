"""Output types become grammars, and what is not valid under them is found."""

from __future__ import annotations

import json

import pydantic
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from outlines.types import CFG, Regex

from localgraphrag.errors import ModelError
from localgraphrag.llm import output

TAGS = {"type": "array", "items": {"enum": ["a", "b"]}}
NOTE = output.schema({"note": {"type": "string", "maxLength": 8}, "tags": TAGS})


class Answer(pydantic.BaseModel):
    text: str
    score: int


@pytest.mark.parametrize(
    ("declared", "text"),
    [
        (NOTE, '{"note":"x","tags":["a","b","a"]}'),
        (NOTE, '{"note":"Zoë \\"q\\"","tags":[]}'),
        (NOTE, '{"note":"日本語の文です！","tags":[]}'),
        (Answer, '{"text":"t","score":3}'),
        (Regex("yes|no"), "no"),
        (CFG('start: "(" WORD ")"\nWORD: /[a-z]+/'), "(word)"),
    ],
)
def test_a_valid_reply_passes(declared, text):
    output.check_reply(declared, text)


@pytest.mark.parametrize(
    ("declared", "text"),
    [
        (NOTE, ""),
        (NOTE, '{"note":"x","tags":["a"]'),
        (NOTE, '{"note":"x","tags":["c"]}'),
        (NOTE, '{"note":"far too long","tags":[]}'),
        (NOTE, '{"tags":[],"note":"x"}'),
        (NOTE, '{"note":"x"}'),
        (NOTE, '{"note":"x","tags":[],"more":1}'),
        (NOTE, '{"note": "x", "tags": []}'),
        (NOTE, '{"note":"x","tags":[]} '),
        (NOTE, 'Sure! {"note":"x","tags":[]}'),
        (Answer, '{"text":"t","score":"3"}'),
        (Regex("yes|no"), "maybe"),
        (Regex("yes|no"), "ye"),
        (CFG('start: "(" WORD ")"\nWORD: /[a-z]+/'), "(WORD)"),
    ],
)
def test_an_invalid_reply_is_refused_with_its_text(declared, text):
    with pytest.raises(ModelError, match="not valid under its output type at byte") as caught:
        output.check_reply(declared, text)
    assert repr(text[:400]) in str(caught.value)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=8), st.lists(st.sampled_from("ab")))
def test_whatever_json_dumps_writes_compactly_is_valid(note, tags):
    text = json.dumps({"note": note, "tags": tags}, ensure_ascii=False, separators=(",", ":"))
    output.check_reply(NOTE, text.replace("\x7f", "\\u007f"))


def test_only_output_types_are_taken():
    with pytest.raises(TypeError, match="pydantic model or JsonSchema"):
        output.grammar({"type": "string"})


def test_an_object_is_closed_and_keeps_its_order():
    declared = output.object_schema({"b": {"type": "null"}, "a": {"type": "null"}})
    assert declared["required"] == ["b", "a"]
    assert declared["additionalProperties"] is False
    assert output.schema({"b": {"type": "null"}}) == output.schema({"b": {"type": "null"}})
