"""Questions from a description alone: three steps, bounded lists, duplicates asked for again."""

from __future__ import annotations

import json
import os
import re
from dataclasses import replace
from pathlib import Path

import pytest

from localgraphrag.embed import HashEmbedder
from localgraphrag.errors import ConfigError, ModelError
from localgraphrag.evaluate.questions import (
    QUESTION,
    RETRY_TEMPERATURE,
    TRIES,
    Sizes,
    make_questions,
    read_description,
)
from localgraphrag.llm.output import check_reply, schema
from localgraphrag.llm.scripted import ScriptedEngine
from localgraphrag.llm.units import EngineRunner
from localgraphrag.prompts import Prompts

GOLDEN = Path(__file__).parent / "golden"
DESCRIPTION = "Letters of a harbour town, 1931 to 2023."
SMALL = Sizes(2, 2, 2)


def count_of(request) -> tuple[str, int]:
    ((what, declared),) = json.loads(request.output.schema)["properties"].items()
    return what, declared["minItems"]


class Planner:
    """Says something new each time, numbered; `repeating`: every question of a first try is the same."""

    def __init__(self, repeating: bool = False) -> None:
        self.said, self.repeating = 0, repeating

    def __call__(self, messages, request) -> str:
        what, count = count_of(request)
        lines = [self.line(what, request) for _ in range(count)]
        items = [{"who": line, "wants": f"To learn {line}"} for line in lines] if what == "personas" else lines
        return json.dumps({what: items}, separators=(",", ":"))

    def line(self, what, request) -> str:
        self.said += 1
        if what == "questions":
            stale = self.repeating and not request.temperature
            return "What has changed in the town?" if stale else f"Why number{self.said} and word{self.said * 7}?"
        return f"{what}{self.said} unlike{self.said * 3} others{self.said * 5}"


def make(answer, sizes=SMALL, **more):
    engine = ScriptedEngine(answer)
    made = make_questions(
        DESCRIPTION, sizes, prompts=Prompts(), runner=EngineRunner(engine), embedder=HashEmbedder(), **more
    )
    return made, engine


def test_as_many_as_asked_for_each_with_its_persona_and_task():
    made, engine = make(Planner(), Sizes(2, 3, 2))
    assert (len(made.rows), made.replaced, made.short, made.failed) == (12, 0, 0, 0)
    assert len({row["persona"] for row in made.rows}) == 2
    assert len({(row["persona"], row["task"]) for row in made.rows}) == 6
    assert len({row["id"] for row in made.rows}) == 12
    assert len(engine.requests) == 1 + 2 + 6
    assert all(DESCRIPTION in request.prompt for request in engine.requests)
    assert len({request.prefix for request in engine.requests}) == 1  # read once
    asked = [request.prompt for request in engine.requests[3:]]
    assert all(f"User: {row['persona']}\nTask: {row['task']}" in "\n".join(asked) for row in made.rows)


def test_the_same_again_is_the_same():
    assert make(Planner())[0] == make(Planner())[0]


def test_duplicates_are_asked_for_again_and_counted():
    made, engine = make(Planner(repeating=True))
    questions = [row["question"] for row in made.rows]
    assert len(questions) == len(set(questions)) == 8
    assert made.replaced == 7
    assert made.short == 0
    again = [request for request in engine.requests if request.temperature]
    assert [request.temperature for request in again] == [RETRY_TEMPERATURE] * 4
    assert all("- What has changed in the town?" in request.prompt for request in again)
    assert sorted(count_of(request)[1] for request in again) == [1, 2, 2, 2]


def test_what_stays_a_duplicate_is_missing_and_the_tries_are_bounded():
    def always(messages, request):
        what, count = count_of(request)
        items = {"who": "A clerk", "wants": "To know"} if what == "personas" else "What has changed in the town?"
        return json.dumps({what: [items] * count}, separators=(",", ":"))

    made, engine = make(always, Sizes(1, 1, 3))
    assert [row["question"] for row in made.rows] == ["What has changed in the town?"]
    assert (made.short, made.replaced) == (2, 2 + TRIES * 2 - 0)
    assert len(engine.requests) == 2 + 1 + TRIES
    assert len({request.seed for request in engine.requests[3:]}) == TRIES  # each try is another draw


def test_what_is_in_the_file_already_is_a_duplicate_but_not_the_very_same_words():
    made, engine = make(Planner(), Sizes(1, 1, 2))
    first, second = (row["question"] for row in made.rows)
    near = first.replace("?", " ?").lower()
    again, asked = make(Planner(), Sizes(1, 1, 2), there=[near, second])
    assert first not in [row["question"] for row in again.rows]
    assert second in [row["question"] for row in again.rows]
    assert again.replaced == 1
    assert f"- {near}" in asked.requests[-1].prompt
    # made again, with what it has added, it asks for the same
    added = [near, second, *(row["question"] for row in again.rows)]
    third, third_asked = make(Planner(), Sizes(1, 1, 2), there=added)
    assert third == again
    assert third_asked.requests == asked.requests
    assert make(Planner(), Sizes(1, 1, 2), there=[first, second])[1].requests == engine.requests


def test_failed_calls_are_counted_and_nothing_at_all_is_an_error():
    calls = iter(range(100))

    def flaky(messages, request):
        if next(calls) == 3:
            raise ModelError("out of order")
        return planner(messages, request)

    planner = Planner()
    made, _ = make(flaky)
    assert made.failed == 1
    assert len(made.rows) == 8  # it was asked again

    def never(messages, request):
        raise ModelError("out of order")

    with pytest.raises(ModelError, match="no question"):
        make(never)


class Cut(ScriptedEngine):
    """Its greedy replies about one thing were cut and closed, as a real engine does at the cap or on going in circles.

    `always`: so are those of asking again.
    """

    def __init__(self, what, finish, always=False):
        super().__init__(Planner())
        self.what, self.why, self.always = what, finish, always
        self.cut = []

    def _complete(self, history, request):
        reply = super()._complete(history, request)
        if count_of(request)[0] != self.what or (request.temperature and not self.always):
            return reply
        self.cut.append(reply.text)
        return replace(reply, finish=self.why)


def make_with(engine, sizes=SMALL):
    return make_questions(DESCRIPTION, sizes, prompts=Prompts(), runner=EngineRunner(engine), embedder=HashEmbedder())


@pytest.mark.parametrize("finish", ["cap", "repeat"])
@pytest.mark.parametrize(("what", "calls"), [("personas", 1), ("tasks", 2), ("questions", 4)])
def test_nothing_is_read_of_a_reply_that_was_cut(what, calls, finish):
    """It is closed by items that the model never gave; it counts as failed, and is asked for again."""
    engine = Cut(what, finish)
    made = make_with(engine)
    assert (made.failed, made.short, len(made.rows)) == (calls, 0, 8)
    closed = [item for reply in engine.cut for item in json.loads(reply)[what]]
    closed = [item["who"] if what == "personas" else item for item in closed]
    assert len(closed) == 2 * calls
    assert not [item for item in closed if item in json.dumps(made.rows)]
    assert len([request for request in engine.requests if request.temperature]) == calls


def test_a_model_whose_replies_are_all_cut_is_told_of():
    with pytest.raises(ModelError, match=r"no question.*; 4 calls failed, the last with: .*was cut.*another model"):
        make_with(Cut("personas", "cap", always=True))


def test_a_question_that_ran_into_its_limit_is_asked_for_again_and_counted():
    """There the form leaves nothing but a question mark, wherever the sentence was."""

    class Long(Planner):
        def line(self, what, request):
            line = super().line(what, request)
            return f"{line[:-1]} {'x' * QUESTION}"[: QUESTION - 1] + "?" if self.is_long(what, request) else line

        def is_long(self, what, request):
            return what == "questions" and not request.temperature and self.said % 2

    made, engine = make(Long(), Sizes(1, 1, 4))
    assert (made.cut, made.short, made.failed, len(made.rows)) == (2, 0, 0, 4)
    assert all(len(row["question"]) < QUESTION for row in made.rows)
    assert count_of(engine.requests[-1]) == ("questions", 2)


def test_other_scripts_may_take_more_tokens():
    plain = make(Planner(), Sizes(1, 1, 2))[1].requests
    engine = ScriptedEngine(Planner())
    make_questions(
        "Письма портового города.", Sizes(1, 1, 2), prompts=Prompts(), runner=EngineRunner(engine),
        embedder=HashEmbedder(),
    )  # fmt: skip
    assert [request.max_tokens for request in plain] == [120, 100, 200]
    assert [request.max_tokens for request in engine.requests] == [280, 200, 520]


def test_what_a_question_may_be():
    from localgraphrag.evaluate import questions

    output = schema({"one": questions._question()})
    check_reply(output, '{"one":"Why did the pier close?"}')
    check_reply(output, '{"one":"为什么码头在一九八八年关闭了？"}')
    for wrong in ("Why did the pier close", "Why? Because it was old?", "A?", "W" * QUESTION + "?", "See [1] there?"):
        with pytest.raises(ModelError):
            check_reply(output, json.dumps({"one": wrong}, separators=(",", ":"), ensure_ascii=False))


def test_sizes_and_descriptions_that_cannot_be(tmp_path):
    with pytest.raises(ConfigError, match="tasks"):
        Sizes(5, 0, 5)
    with pytest.raises(ConfigError, match="empty"):
        make_questions(
            " \n", SMALL, prompts=Prompts(), runner=EngineRunner(ScriptedEngine(Planner())), embedder=HashEmbedder()
        )
    with pytest.raises(ConfigError, match="not both"):
        read_description("A town.", tmp_path / "town.txt")
    with pytest.raises(ConfigError, match="give its text"):
        read_description(None)
    for name in ("town.txt", "town.toml"):
        with pytest.raises(ConfigError, match=rf"{name} cannot be read: No such file"):
            read_description(None, tmp_path / name)
    (tmp_path / "town.txt").write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigError, match="Give a text file in UTF-8"):
        read_description(None, tmp_path / "town.txt")


def test_a_description_comes_from_a_file_or_a_key(tmp_path):
    from localgraphrag.demo import facts

    (tmp_path / "town.txt").write_text("A town.\n", encoding="utf-8")
    assert read_description(None, tmp_path / "town.txt").strip() == "A town."
    key = Path(facts.__code__.co_filename).parent / "facts.toml"
    assert read_description(None, key) == facts().description


def test_what_the_model_is_asked_is_as_written_down():
    _, engine = make(Planner(repeating=True), Sizes(1, 1, 2))
    turns = ["\n".join(message.content for message in engine.requests[0].prefix)]
    turns += [re.sub(r"\n{3,}", "\n\n", request.prompt) for request in engine.requests]
    text = "\n=====\n".join(turns) + "\n"
    path = GOLDEN / "evaluate_questions.txt"
    if os.environ.get("WRITE_GOLDEN"):
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8")
