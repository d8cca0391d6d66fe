"""Units run once, each result kept before it is told."""

from __future__ import annotations

import dataclasses
import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from localgraphrag.errors import ModelError, StoreError
from localgraphrag.llm.output import schema
from localgraphrag.llm.scripted import ScriptedEngine
from localgraphrag.llm.types import Request, Usage
from localgraphrag.llm.units import Conversation, Unit, run_all
from localgraphrag.runner import StoredRunner
from localgraphrag.store import Store


@dataclass(frozen=True)
class Said:
    text: str


def question(name: str, text: str, *chunks: str) -> Unit[Said]:
    def ask() -> Conversation[Said]:
        reply = yield Request(text, schema({"text": {"type": "string"}}))
        return Said(json.loads(reply.text)["text"])

    return Unit("ask", 1, name, (text,), Said, ask, chunks)


def echo(_messages, request: Request) -> str:
    if "fail" in request.prompt:
        raise ModelError("no answer")
    return json.dumps({"text": request.prompt}, separators=(",", ":"))


class TestStoredRunner:
    @pytest.fixture
    def store(self, tmp_path: Path) -> Iterator[Store]:
        with Store(tmp_path / "index.db", writer="index") as store:
            yield store

    def test_stored_units_are_not_asked_again_and_tell_what_they_cost(self, store: Store):
        engine = ScriptedEngine(echo)
        first = run_all(StoredRunner(engine, store), [question("a", "one"), question("b", "two")])
        runner = StoredRunner(engine, store)
        again = run_all(runner, [question("a", "one"), question("b", "two"), question("c", "three")])
        assert len(engine.requests) == 3
        assert [(o.value, o.cached) for o in again.values()] == [
            (Said("one"), True), (Said("two"), True), (Said("three"), False),
        ]  # fmt: skip
        assert again["a"].usage == first["a"].usage != Usage()
        assert runner.counts == Counter({("ask", "units"): 3, ("ask", "cached"): 2})
        assert runner.usage["ask"] == again["c"].usage

    def test_another_model_is_another_key(self, store: Store):
        run_all(StoredRunner(ScriptedEngine(echo, "one"), store), [question("a", "one")])
        other = ScriptedEngine(echo, "other")
        run_all(StoredRunner(other, store), [question("a", "one")])
        assert len(other.requests) == 1
        assert store.scalar("SELECT count(*) FROM units") == 2

    def test_failures_are_recorded_counted_and_tried_again(self, store: Store):
        engine = ScriptedEngine(echo)
        runner = StoredRunner(engine, store)
        outcomes = run_all(runner, [question("a", "fail"), question("b", "two")])
        assert (outcomes["a"].error, outcomes["b"].value) == ("no answer", Said("two"))
        assert [dataclasses.astuple(f) for f in runner.failures] == [("ask", "a", "no answer")]
        engine.answer = lambda m, r: json.dumps({"text": "mended"}, separators=(",", ":"))
        again = run_all(StoredRunner(engine, store), [question("a", "fail"), question("b", "two")])
        assert (again["a"].value, again["b"].cached) == (Said("mended"), True)
        assert store.rows("SELECT * FROM failures") == []

    @pytest.mark.parametrize("text", ["same", "fail"])
    def test_the_same_unit_twice_in_flight_is_asked_once(self, store: Store, text: str):
        class AllAtOnce(ScriptedEngine):
            def run(self, requests):
                yield from super().run(list(requests))

        engine = AllAtOnce(echo)
        runner = StoredRunner(engine, store, documents={"t-1": "d", "t-2": "d"})
        with store.transaction() as database:
            database.execute("INSERT INTO documents VALUES ('d', '', '')")
        outcomes = run_all(runner, [question("b", text, "t-1"), question("a", text, "t-2")])
        assert len(engine.requests) == 1
        assert outcomes["a"].value == outcomes["b"].value
        assert list(runner.used.values()) == [("a", ("t-1", "t-2"))]

    def test_steps_that_cannot_be_recorded_are_warned_of_once(self, store: Store, monkeypatch, caplog):
        def refused(*_arguments: object) -> int:
            raise StoreError("index.db is read-only.")

        monkeypatch.setattr(store, "start_run", refused)
        runner = StoredRunner(ScriptedEngine(echo), store, purpose="query")
        outcomes = run_all(runner, [question(name, name) for name in "abc"])
        assert [outcome.value for outcome in outcomes.values()] == [Said("a"), Said("b"), Said("c")]
        (record,) = caplog.records
        assert "cannot be recorded: index.db is read-only." in record.getMessage()

    def test_units_stream(self, store: Store):
        drawn = 0

        def units():
            nonlocal drawn
            for n in range(1000):
                drawn += 1
                yield question(str(n), f"text {n}")

        for count, _outcome in enumerate(StoredRunner(ScriptedEngine(echo), store).run(units()), 1):
            assert drawn <= count + 1
            if count == 20:
                break
        assert store.scalar("SELECT count(*) FROM units") == 20

    def test_each_result_is_stored_before_it_is_told(self, store: Store, tmp_path: Path):
        for count, _outcome in enumerate(
            StoredRunner(ScriptedEngine(echo), store).run(question(str(n), f"text {n}") for n in range(5)), 1
        ):
            with Store(tmp_path / "index.db") as reader:
                assert reader.scalar("SELECT count(*) FROM units") == count

    def test_a_bug_in_a_conversation_is_raised_and_what_was_done_stays(self, store: Store):
        def broken() -> Conversation[Said]:
            yield Request("x", schema({"text": {"type": "string"}}))
            raise ZeroDivisionError

        units = [question("a", "one"), Unit("ask", 1, "b", ("b",), Said, broken), question("c", "three")]
        with pytest.raises(ZeroDivisionError):
            list(StoredRunner(ScriptedEngine(echo), store).run(units))
        assert store.rows("SELECT name FROM units") == [("a",)]
