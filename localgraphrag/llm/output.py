"""Output types: what a reply may be. Outlines types in, llguidance grammars out.

Every reply of a model is declared as an Outlines type. Stages mostly use `outlines.types.JsonSchema` with `maxLength`,
`maxItems` and `enum`, or `outlines.types.CFG` with llguidance's Lark syntax where the reply points into a text.
"""

from __future__ import annotations

import json
from functools import lru_cache
from typing import Any

from localgraphrag.errors import ModelError


def schema(properties: dict[str, Any]) -> Any:
    """An Outlines JSON schema of an object with exactly these properties, in this order.

    >>> import json
    >>> json.loads(schema({"yes": {"type": "boolean"}}).schema)["required"]
    ['yes']
    """
    from outlines.types import JsonSchema

    return JsonSchema(object_schema(properties))


def object_schema(properties: dict[str, Any]) -> dict[str, Any]:
    """The JSON schema of a closed object: all properties required, none other allowed."""
    return {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}


def grammar(output: Any) -> str:
    """The llguidance grammar of an Outlines type. JSON comes out compact: no free white space.

    Raises TypeError for anything that is not an Outlines type or a pydantic model.
    """
    from llguidance import LLMatcher
    from outlines.types import CFG, JsonSchema, Regex

    if isinstance(output, CFG):
        return str(LLMatcher.grammar_from_lark(output.definition))
    if isinstance(output, Regex):
        return str(LLMatcher.grammar_from_regex(output.pattern))
    if isinstance(output, JsonSchema):
        declared = output.schema
    elif hasattr(output, "model_json_schema"):
        declared = json.dumps(output.model_json_schema())
    else:
        raise TypeError(
            f"{output!r} is not an output type; give a pydantic model or JsonSchema, Regex or CFG of outlines.types"
        )
    return str(
        LLMatcher.grammar_from_json_schema(
            declared, defaults={"whitespace_flexible": False, "item_separator": ",", "key_separator": ":"}
        )
    )


def matcher(tokenizer: Any, grammar_text: str) -> Any:
    """A matcher that follows a grammar. Names held to a long text take more work than its limits foresee."""
    from llguidance import LLMatcher, LLParserLimits

    limits = LLParserLimits(initial_lexer_fuel=20_000_000, step_lexer_fuel=20_000_000, verbose_errors=False)
    return LLMatcher(tokenizer, grammar_text, limits=limits)


def check_reply(output: Any, text: str) -> None:
    """Raise ModelError unless `text` is complete and valid under the output type."""
    checking = _byte_matcher(grammar(output)).deep_copy()  # compiling one takes longer than reading most replies
    data = text.encode()
    taken = checking.try_consume_tokens(list(data))
    if taken < len(data) or not checking.is_accepting():
        raise ModelError(f"The reply is not valid under its output type at byte {taken} of {len(data)}: {text[:400]!r}")


@lru_cache(maxsize=1024)
def _byte_matcher(grammar_text: str) -> Any:
    return matcher(_byte_tokenizer(), grammar_text)


@lru_cache(maxsize=1)
def _byte_tokenizer() -> Any:
    from llguidance import LLTokenizer

    return LLTokenizer("byte")
