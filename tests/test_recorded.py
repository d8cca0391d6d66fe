"""Recorded answers: what comes out of a recording is what went in, and nothing else comes out of it."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import workbench
from hypothesis import given, settings
from hypothesis import strategies as st
from outlines.types import Regex

from localgraphrag import demo
from localgraphrag.embed import HashEmbedder
from localgraphrag.errors import ModelBrokenError, ModelMissingError
from localgraphrag.llm import output
from localgraphrag.llm.recorded import RecordedEngine, RecordedTokenizer, RecordingEngine
from localgraphrag.llm.recorded_vectors import RecordedEmbedder, RecordingEmbedder
from localgraphrag.llm.scripted import ScriptedEngine
from localgraphrag.llm.types import Completion, Engine, Message, Request, Usage
from localgraphrag.llm.units import content_hash
from localgraphrag.project import Project

WORD = Regex("[a-z]{1,20}")
SYSTEM = (Message("system", "Be short."),)


class Letters:
    """A tokenizer unlike the one recordings fall back on: two bytes each, so that characters are cut through."""

    def encode(self, text: str) -> list[int]:
        data = text.encode()
        return [int.from_bytes(b"\x01" + data[at : at + 2], "big") for at in range(0, len(data), 2)]

    def count(self, text: str) -> int:
        return len(self.encode(text))

    def token_bytes(self, tokens: list[int]) -> list[bytes]:
        return [token.to_bytes(3, "big").lstrip(b"\0")[1:] for token in tokens]


def echo(messages: tuple[Message, ...], request: Request) -> str:
    return f"{'x' * len(messages)}{request.prompt}"


def recorded(path: Path, requests: list[Request], answer=echo) -> tuple[list[Completion], RecordedEngine]:
    recording = RecordingEngine(ScriptedEngine(answer), path)
    heard = list(recording.run(requests))
    recording.close()
    return heard, RecordedEngine(path)


def talk(*prompts: str) -> Request:
    """A conversation: each turn asks the next prompt."""
    turns = [Request(prompt, WORD, key=f"turn {prompt}") for prompt in prompts]
    for i in reversed(range(len(turns) - 1)):
        turns[i] = replace(turns[i], then=lambda _reply, following=turns[i + 1]: following)
    return replace(turns[0], prefix=SYSTEM)


def test_a_recording_says_again_what_was_said(tmp_path):
    asked = [talk("one", "two", "three"), talk("four"), talk("one", "five")]
    heard, engine = recorded(tmp_path / "r.jsonl.gz", asked)
    assert list(engine.run(asked)) == heard
    assert [c.text for c in heard] == ["xxone", "xxxxtwo", "xxxxxxthree", "xxfour", "xxone", "xxxxfive"]
    assert heard[0].usage.prompt_tokens > 0
    assert isinstance(engine, Engine)


def test_its_identity_is_the_models_with_a_prefix(tmp_path):
    _, engine = recorded(tmp_path / "r.jsonl.gz", [])
    assert engine.identity == "recorded:scripted:test"
    assert engine.context_tokens == ScriptedEngine(echo).context_tokens


@pytest.mark.parametrize(
    "other",
    [
        {"prompt": "other"},
        {"prefix": ()},
        {"output": Regex("[a-z]{1,21}")},
        {"max_tokens": 511},
        {"temperature": 0.5},
    ],
    ids=lambda change: next(iter(change)),
)
def test_another_request_is_not_answered(tmp_path, other):
    _, engine = recorded(tmp_path / "r.jsonl.gz", [talk("one", "two")])
    (completion,) = engine.run([replace(talk("one"), key="map 3", **other)])
    assert (completion.finish, completion.text) == ("error", "")
    assert "map 3 is not among the 2 answers in r.jsonl.gz" in completion.error
    assert "REAL_MODEL = True" in completion.error


def test_a_later_turn_belongs_to_what_was_said_before(tmp_path):
    _, engine = recorded(tmp_path / "r.jsonl.gz", [talk("one", "two")])
    assert [c.finish for c in engine.run([talk("one", "two")])] == ["stop", "stop"]
    assert [c.finish for c in engine.run([talk("two")])] == ["error"]


def test_the_seed_counts_where_something_is_drawn(tmp_path):
    cold, warm = talk("one"), replace(talk("one"), temperature=1.0)
    _, engine = recorded(tmp_path / "r.jsonl.gz", [cold, warm])
    finishes = [c.finish for c in engine.run([replace(cold, seed=7), warm, replace(warm, seed=7)])]
    assert finishes == ["stop", "stop", "error"]


def test_failures_and_ends_are_recorded_too(tmp_path):
    class Closing(ScriptedEngine):
        def _complete(self, history, request):
            return Completion(request.key, "cut", "cap", Usage(1, 2, 3, 4, 5, 6, 7.5))

    recording = RecordingEngine(Closing(echo), tmp_path / "r")
    capped = list(recording.run([talk("one")]))
    recording.close()
    assert list(RecordedEngine(tmp_path / "r").run([talk("one")])) == capped

    heard, engine = recorded(tmp_path / "e", [talk("two")], answer=lambda *_: "NOT A WORD")
    assert heard[0].finish == "error"
    assert [c.error for c in engine.run([talk("two")])] == [heard[0].error]


def test_turns_that_come_in_any_order_are_told_apart(tmp_path):
    class Together(ScriptedEngine):
        """Takes all conversations at once and answers one turn of each in turn, the last one first."""

        def run(self, requests):
            talks = [(request, request.prefix) for request in requests]
            while talks:
                request, before = talks.pop()
                history = (*before, Message("user", request.prompt))
                completion = self._complete(history, request)
                yield completion
                following = request.then(completion)
                if following:
                    talks.insert(0, (following, (*history, Message("assistant", completion.text))))

    def everything(messages, _request):
        return "".join(m.content for m in messages if m.role == "user")

    asked = [talk("one", "two"), talk("three", "two", "four")]
    recording = RecordingEngine(Together(everything), tmp_path / "r")
    heard = [c.text for c in recording.run(asked)]
    recording.close()
    assert heard == ["three", "one", "threetwo", "onetwo", "threetwofour"]
    assert sorted(c.text for c in RecordedEngine(tmp_path / "r").run(asked)) == sorted(heard)


@given(st.lists(st.text(), min_size=1, max_size=4))
@settings(deadline=None)
def test_texts_are_cut_as_the_model_cut_them(texts):
    lengths = {content_hash(t): [len(p) for p in Letters().token_bytes(Letters().encode(t))] for t in texts}
    tokenizer = RecordedTokenizer(lengths, {})
    for text in texts:
        tokens = tokenizer.encode(text)
        assert tokenizer.token_bytes(tokens) == Letters().token_bytes(Letters().encode(text))
        assert tokenizer.count(text) == Letters().count(text) == len(tokens)


def test_an_unknown_text_is_cut_into_words():
    tokenizer = RecordedTokenizer({}, {content_hash("known"): 9})
    assert tokenizer.count("known") == 9
    assert tokenizer.count("a few words") == len(tokenizer.encode("a few words")) == 5
    assert b"".join(tokenizer.token_bytes(tokenizer.encode("a few wörds"))) == "a few wörds".encode()


def test_a_project_comes_out_the_same_without_the_model(tmp_path):
    """Another tokenizer, counts and all: chunks, reports and answers are those of the recording."""
    corpus = workbench.write_corpus(tmp_path / "corpus")
    engine = ScriptedEngine(workbench.reply)
    engine.tokenizer = Letters()  # type: ignore[assignment]
    recording = RecordingEngine(engine, tmp_path / "r.jsonl.gz")
    told: list[tuple[object, ...]] = []
    for folder, speaker in (("with", recording), ("without", None)):
        chosen = speaker or RecordedEngine(tmp_path / "r.jsonl.gz")
        chosen_settings = workbench.SETTINGS | {"chunk_size": 60, "context_window": 6000, "map_budget": 900}
        with Project.open(tmp_path / folder, engine=chosen, embedder=HashEmbedder(16), **chosen_settings) as project:
            summary = project.index(corpus)
            assert summary.failures == ()
            answers = project.compare("Who wrote to whom?", ["C0", "TS", "SS"])
            assert answers.errors == {}
            rows = workbench.tables_of(project.index_path)
        told.append((summary.chunks, rows["chunks"], rows["nodes"], rows["reports"]))
        told.append(tuple((a.text, a.citations, a.usage.prompt_tokens) for a in answers.answers.values()))
        if speaker:
            speaker.close()
    assert told[:2] == told[2:]
    assert told[0][0] > 8, "two-byte tokens make more chunks than words would"


def test_saving_twice_writes_the_same_file(tmp_path):
    one, two = tmp_path / "one.gz", tmp_path / "two.gz"
    for path in (one, two):
        recorded(path, [talk("one", "two")])
    assert one.read_bytes() == two.read_bytes()
    assert [p.name for p in sorted(tmp_path.iterdir())] == ["one.gz", "two.gz"]


def test_no_prompt_is_in_the_file(tmp_path):
    recorded(tmp_path / "r.gz", [talk("secret", "two")], answer=lambda *_: "reply")
    text = gzip.decompress((tmp_path / "r.gz").read_bytes()).decode()
    assert "reply" in text
    assert "Be short" not in text


def test_a_missing_recording_says_how_one_is_made(tmp_path):
    with pytest.raises(ModelMissingError, match="record_demo"):
        RecordedEngine(tmp_path / "none.jsonl.gz")


def broken_files() -> Iterator[bytes]:
    whole = gzip.compress(json.dumps({"format": 1, "model": "m", "context_tokens": 9}).encode() + b"\n")
    yield b""
    yield b"not gzip at all"
    yield whole[:-9]
    yield gzip.compress(b'{"format":2}\n')
    yield gzip.compress(b"[]\n")
    yield gzip.compress(gzip.decompress(whole) + b'{"song":"x","is":1}\n')


@pytest.mark.parametrize("data", list(broken_files()), ids=["empty", "plain", "cut", "newer", "no head", "unknown row"])
def test_a_broken_recording_is_refused(tmp_path, data):
    path = tmp_path / "r.jsonl.gz"
    path.write_bytes(data)
    with pytest.raises(ModelBrokenError, match="Record it anew"):
        RecordedEngine(path)


def test_heartbeats_are_passed_on():
    engine = ScriptedEngine(echo)
    recording = RecordingEngine(engine, "unused")
    recording.on_heartbeat = print
    assert engine.on_heartbeat is print is recording.on_heartbeat  # type: ignore[attr-defined]


def test_counting_a_prompt_needs_no_grammar(tmp_path):
    request = Request("how long is this", None, SYSTEM)
    recording = RecordingEngine(ScriptedEngine(echo), tmp_path / "r")
    recording.engine.prompt_tokens = lambda _request: 1234  # type: ignore[method-assign]
    assert recording.prompt_tokens(request) == 1234
    recording.close()
    engine = RecordedEngine(tmp_path / "r")
    assert engine.prompt_tokens(request) == 1234
    assert engine.prompt_tokens(replace(request, prompt="another")) < 100


def test_the_digest_reads_every_kind_of_output(tmp_path):
    declared = output.schema({"yes": {"type": "boolean"}})
    asked = [Request("sure?", declared, SYSTEM, key="q")]
    heard, engine = recorded(tmp_path / "r", asked, answer=lambda *_: '{"yes":true}')
    assert list(engine.run(asked)) == heard


def test_the_demo_is_recorded_whole(tmp_path, monkeypatch):
    """The script that records the demo, with a function for a model; what it writes is enough for the demo."""
    monkeypatch.syspath_prepend(str(Path(__file__).parents[1] / "scripts"))
    import record_demo

    target = tmp_path / "recorded.jsonl.gz"
    answers = record_demo.record(ScriptedEngine(workbench.reply), HashEmbedder(), target, tmp_path / "with")
    assert list(answers.answers) == list(demo.RECORDED_CONDITIONS)
    monkeypatch.setattr(demo, "recording", lambda: target)
    with demo.open_project(tmp_path / "without") as project:
        assert project.index(demo.corpus_folder()).complete
        again = project.compare(demo.question(), demo.RECORDED_CONDITIONS)
    texts = [{name: a.text for name, a in found.answers.items()} for found in (answers, again)]
    assert texts[0] == texts[1]


class Sloping:
    """An embedder whose numbers 16 bits cannot hold."""

    identity, dimensions = "sloping", 3

    def embed(self, texts):
        rows = np.array([[len(text) / 7, 1 / 3, text.count("e")] for text in texts], np.float32)
        return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def test_vectors_come_out_as_they_were_recorded(tmp_path):
    recording = RecordingEngine(ScriptedEngine(workbench.reply), tmp_path / "r.gz")
    hearing = RecordingEmbedder(Sloping(), recording)
    heard = hearing.embed(["one", "three", "one"])
    recording.close()
    recorded_ones = RecordedEmbedder(tmp_path / "r.gz")
    assert (recorded_ones.embed(["three", "one"]) == heard[1:]).all()
    assert heard == pytest.approx(Sloping().embed(["one", "three", "one"]), abs=1e-3)
    assert np.linalg.norm(heard, axis=1) == pytest.approx(1, abs=1e-6)
    assert (recorded_ones.dimensions, recorded_ones.embed([]).shape) == (3, (0, 3))
    with pytest.raises(ModelMissingError, match="“four” is not among the 2 texts"):
        recorded_ones.embed(["one", "four"])
    assert recorded_ones.identity == "recorded:sloping"
    with pytest.raises(ModelMissingError, match="record_demo"):
        RecordedEmbedder(tmp_path / "nowhere.gz")
    recording.note("vector", "odd", "AAA=")
    recording.save()
    with pytest.raises(ModelBrokenError, match="different lengths"):
        RecordedEmbedder(tmp_path / "r.gz")


def test_what_a_project_compares_is_recorded_with_it(tmp_path):
    corpus = workbench.write_corpus(tmp_path / "corpus")
    recording = RecordingEngine(ScriptedEngine(workbench.reply), tmp_path / "r.gz")
    texts = []
    for folder in ("with", "without"):
        engine = recording if folder == "with" else RecordedEngine(tmp_path / "r.gz")
        hearing = RecordingEmbedder(Sloping(), recording)
        embedder = hearing if folder == "with" else RecordedEmbedder(tmp_path / "r.gz")
        with Project.open(tmp_path / folder, engine=engine, embedder=embedder, **workbench.SETTINGS) as project:
            assert project.index(corpus).complete
            found = project.compare("Who wrote to whom?", ["C0", "TS", "SS"])
        assert found.errors == {}
        texts.append([answer.text for answer in found.answers.values()])
        recording.save()
    assert texts[0] == texts[1]
