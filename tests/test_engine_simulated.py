"""The engine over a made-up model, without llama.cpp: whatever is asked together is answered as it is alone.

The model's logits depend on every token of a stream, so that a token too many, too few or in the wrong place changes
what comes. A text differs in every byte from the next, sums are exact, and no tie can hide a fault.
"""

from __future__ import annotations

import random
import zlib
from collections import Counter
from types import SimpleNamespace

import numpy as np
import pytest
from llguidance import LLTokenizer
from outlines.types import CFG, Regex

from localgraphrag.errors import ModelError
from localgraphrag.llm import closing, heartbeat, llamacpp, output, streams
from localgraphrag.llm.llamacpp import LlamaCppEngine
from localgraphrag.llm.types import Completion, Message, Request

BYTES = LLTokenizer("byte")
SIZE, END = BYTES.vocab_size, BYTES.eos_token
TABLE = np.random.default_rng(0).standard_normal((4099, SIZE))
PLAIN = np.full(SIZE, -3.0)  # letters and what ends a string are likelier than the rest
PLAIN[ord("a") : ord("z") + 1], PLAIN[ord(" ")], PLAIN[ord('"')], PLAIN[ord("}")] = 2, 2, 2.5, 1

TEXT = {"type": "string", "maxLength": 40}
NOTE = output.schema({"note": TEXT})
YES_NO = Regex("yes|no")
LINES = CFG('start: "(" W (", " W){0,3} ")"\nW: /[a-z]{2,8}/')
TYPES = [
    NOTE,
    output.schema({"names": {"type": "array", "items": {"type": "string", "maxLength": 8}, "maxItems": 5}}),
    YES_NO,
    output.schema({"k": {"const": "forty-two is the answer"}}),
    Regex("[xyz]{60}"),
    LINES,
    CFG("start: nothing_of_this_name"),
    Regex("(aaaa|bbbb)( the long tail that is forced, and more of the same kind){1,3}[a-z]{0,5}\\."),
    output.schema({"k": {"enum": ["mill at the ford", "mill at the sea"]}, "why": TEXT}),
]
PREFIXES = [
    (Message("system", "Rule one. " * 3),),
    (Message("system", "Rule two. " * 9), Message("user", "q"), Message("assistant", "a")),
]


Batch = streams._Batch


class Model:
    """What the engine asks of a GGUF model, with bytes for tokens."""

    api, handle, path, on_gpu = SimpleNamespace(llama_get_memory=lambda _context: None), 1, None, False
    end_tokens, vocab_size, matcher_tokenizer, trained_context = frozenset([END]), SIZE, BYTES, 100_000

    def __init__(self, *, forgets: bool = True) -> None:
        self.forgets = forgets

    def encode(self, text: str) -> list[int]:
        return list(text.encode())

    def token_bytes(self, tokens) -> list[bytes]:
        return [bytes([token]) if token < 256 else b"" for token in tokens]

    def chat_segments(self, messages) -> list[list[int]]:
        if any("refused" in message.content for message in messages):
            raise ModelError("The chat template refuses the conversation.")
        parts = [part for message in messages for part in (f"|<{message.role}>", message.content)]
        return [list(part.encode()) for part in (*parts, "|<a>")]

    def close(self) -> None:
        pass


def logits(tokens) -> np.ndarray:
    whole = bytes(min(token, 255) for token in tokens)
    return (PLAIN + 2 * TABLE[zlib.crc32(whole[-2:]) % 4099] + 0.7 * TABLE[zlib.crc32(whole) % 4099]).astype(np.float32)


class FakeStreams(streams.Streams):
    """Streams that hold their tokens in lists and refuse whatever llama.cpp would."""

    cuts = 10**9
    """How many times a stream can be cut."""

    def _make(self, count):
        self.held = [[] for _ in range(count)]
        self._api = SimpleNamespace(
            llama_memory_seq_rm=lambda _memory, stream, _first, _last: self.held[stream].clear(),
            llama_get_memory=lambda _context: None,
            llama_free=lambda _context: None,
        )
        return object()

    def copy(self, source, target):
        assert source != target
        self.held[target] = list(self.held[source])

    def cut(self, stream, keep):
        if 0 < keep < len(self.held[stream]):
            self.cuts -= 1
            if not self._model.forgets or self.cuts < 0:
                return False
        del self.held[stream][keep:]
        return True

    def decode(self, rows):
        assert 0 < len(rows) <= self._batch_size
        self.out = {}
        for row, (token, position, stream, wanted) in enumerate(rows):
            assert position == len(self.held[stream]), "a gap, or a token in another's place"
            assert position < self.cells, "past the end of the stream"
            self.held[stream].append(token)
            if wanted:
                self.out[row] = logits(self.held[stream])
        assert len(self.out) <= streams.most_rows(self.slots + streams.PREFIXES)

    def logits(self, row):
        return self.out[row]


class Failing(FakeStreams):
    """Streams of which some steps fail half way, with a part of their rows in place, as llama.cpp may leave them."""

    fails = staticmethod(lambda _streams, _rows: False)

    def decode(self, rows):
        if self.fails(self, rows):
            for token, _, stream, _ in rows[: len(rows) // 2]:
                self.held[stream].append(token)
            raise ModelError("llama.cpp could not decode (status -3).")
        super().decode(rows)


class Watched(LlamaCppEngine):
    """An engine whose streams must hold what it believes, before every step."""

    def _step(self):
        for talk in self._active:
            assert self._streams.held[talk.stream] == talk.tokens[: talk.cached]
            assert talk.pending and talk.keys == [self._key(token) for token in talk.tokens[: len(talk.keys)]]
        super()._step()


@pytest.fixture(autouse=True)
def fake(monkeypatch):
    monkeypatch.setattr(llamacpp, "Streams", FakeStreams)
    monkeypatch.setattr(streams, "_Batch", lambda *_: SimpleNamespace(free=lambda: None))


def make(*, forgets: bool = True, **options) -> LlamaCppEngine:
    return Watched(Model(forgets=forgets), identity="made up", **({"threads": 1} | options))


def results(engine: LlamaCppEngine, requests) -> dict[str, tuple]:
    """What came of each request, but for what it cost to read."""

    def told(c: Completion) -> tuple:
        usage = c.usage
        return c.text, c.finish, usage.prompt_tokens, usage.output_tokens, usage.forced_tokens, usage.illegal

    return {c.key: told(c) for c in engine.run(requests)}


def conversation(turns: list[dict], at: int = 0) -> Request:
    more = at + 1 < len(turns)
    return Request(**turns[at], then=(lambda _completion: conversation(turns, at + 1)) if more else None)


def drawn(draw: random.Random) -> list[Request]:
    """Conversations of one to four turns, about two passages, some of them refused, capped or closed early."""
    passages = ["".join(draw.choices(["ab ", "cd ", "the mill "], k=draw.randint(40, 120))) for _ in range(2)]
    requests = []
    for number in range(draw.randint(3, 12)):
        turns = []
        for turn in range(draw.randint(1, 4)):
            passage = draw.choice(passages) if turn == 0 or draw.random() < 0.15 else ""
            prompt = passage[: draw.choice([len(passage), len(passage) // 2])] + draw.choice([" who", " what is it"])
            kind = draw.random()
            options = {
                "prompt": "long " * 400 if kind < 0.05 else "refused" if kind < 0.08 else prompt + str(turn),
                "output": draw.choice(TYPES),
                "prefix": draw.choice(PREFIXES) if turn == 0 else (),
                "max_tokens": draw.choice([1, 4, 12, 30, 60]),
                "seed": draw.randint(0, 3),
                "temperature": draw.choice([0, 0, 0, 1.0]),
                "key": f"{number}.{turn}",
                "repeats": (lambda text: text.count('"') >= 6) if draw.random() < 0.3 else None,
            }
            turns.append(options)
        requests.append(conversation(turns))
    return requests


@pytest.mark.parametrize("forgets", [True, False])
def test_whatever_is_asked_together_is_answered_as_it_is_alone(forgets, monkeypatch):
    monkeypatch.setattr(llamacpp, "_WORTH_COPYING", 8)  # or borrowing would be rare
    finishes, borrowed, guessed = Counter(), 0, 0
    for seed in range(10):
        draw = random.Random(seed)
        requests = drawn(draw)
        sizes = {"slots": draw.choice([2, 3, 5, 9]), "cells": draw.choice([512, 1024])}
        sizes |= {"longest": draw.choice([1024, 2500]), "batch": draw.choice([16, 64, 256])}
        monkeypatch.setattr(FakeStreams, "cuts", draw.choice([10**9, 10**9, 10**9, draw.randint(0, 40)]))
        together = make(forgets=forgets, **sizes)
        begin = together._cut

        def cut(talk, keep, begin=begin, together=together):
            nonlocal borrowed
            borrowed += keep > talk.cached
            begin(talk, keep)

        together._cut = cut
        found = results(together, requests)
        guessed += together.guessed_right
        alone = {}
        with monkeypatch.context() as patch:
            patch.setattr(llamacpp, "rows_each", lambda _active: 1)  # no guesses
            for request in requests:
                alone |= results(make(forgets=forgets, **(sizes | {"slots": 1})), [request])
        assert found == alone, f"seed {seed}, {sizes}"
        finishes.update(told[1] for told in found.values())
    assert min(finishes[finish] for finish in ("stop", "cap", "error", "repeat")) > 1
    assert bool(borrowed) == bool(guessed) == forgets


@pytest.mark.parametrize("batch", [1, 7, 512])
def test_prompts_are_read_in_parts_of_any_size(batch):
    requests = drawn(random.Random(3))
    sizes = {"slots": 3, "cells": 1024, "longest": 2500}
    engine, read = make(batch=batch, **sizes), []
    decode = engine._streams.decode
    engine._streams.decode = lambda rows: (read.append(len(rows)), decode(rows))
    assert results(engine, requests) == results(make(batch=256, **sizes), requests)
    # beside parts of prompts there are steps that write
    assert max(read) <= max(batch, streams.most_rows(3 + streams.PREFIXES)) and (batch == 1 or batch in read)


def ask(prompt: str, declared=NOTE, **options) -> Request:
    return Request(prompt, declared, **({"max_tokens": 20, "key": prompt} | options))


def errors(engine: LlamaCppEngine, *requests: Request) -> dict[str, str]:
    return {c.key: c.error for c in engine.run(requests)}


def test_a_type_that_dictates_more_than_there_is_room_for_is_refused_alone():
    engine = make(slots=2, cells=256, longest=512, batch=64)
    found = errors(engine, ask("bad", Regex("(na ){300}[ab]")), ask("good", YES_NO))
    assert "dictates 900 tokens" in found["bad"] and "`max_tokens` (20)" in found["bad"] and not found["good"]


@pytest.mark.parametrize("length", range(60, 90))
def test_a_dictated_beginning_of_any_length_stays_in_the_stream(length):
    engine = make(slots=1, cells=256, longest=512, batch=64)
    prompt = "x" * (256 - closing.LONGEST_WAY - 20 - len("|<user>|<a>"))  # the turn may come to take all 256
    assert not errors(engine, ask(prompt, YES_NO, key="fits"))["fits"] and engine._streams.cells == 256
    found = errors(engine, ask(prompt, Regex(f"a{{{length}}}[bc]{{0,200}}"), key="dictated"))["dictated"]
    assert bool(found) == (length + 4 > 20 + closing.LONGEST_WAY)


def test_a_dictated_text_in_the_middle_of_a_reply_is_cut_back_before_it_is_closed(monkeypatch):
    after = len("|<user>q|<a>")
    wanted = lambda tokens: "abababababc"[(len(tokens) - after) % 11]  # noqa: E731
    monkeypatch.setattr(f"{__name__}.logits", lambda tokens: np.eye(SIZE, dtype=np.float32)[ord(wanted(tokens))])
    tail = " and so on without an end" * 8
    (found,) = make(slots=1, cells=256, longest=1024).run(
        [ask("q", Regex(f"[ab]{{0,18}}(c{tail}[de]{{0,9}})?"), max_tokens=20)]
    )
    assert (found.text, found.finish) == ("ababababab", "cap")


def test_a_conversation_that_the_chat_format_refuses_is_an_error_of_its_own():
    instead = ask("good", key="instead")
    refused = ask("x", prefix=(Message("system", "refused"),), key="refused")
    later = ask("refused", key="later", then=lambda _completion: instead)
    engine = make(slots=2, cells=256, longest=512, batch=64)
    found = errors(engine, refused, later, ask("good"))
    assert "refuses" in found.pop("refused") and "refuses" in found.pop("later")
    assert found == {"instead": "", "good": ""}


def test_a_copy_that_cannot_be_cut_is_read_from_the_prefix_on(monkeypatch):
    monkeypatch.setattr(FakeStreams, "cuts", 0)
    passage = "the mill at the ford, " * 20
    requests = [ask(f"{passage}{question}", YES_NO, prefix=PREFIXES[0], key=question) for question in ("who", "what")]
    engine = make(slots=2, cells=1024, longest=1024, batch=256)
    found = {c.key: c.usage for c in engine.run(requests)}
    shared = len("|<system>") + len("Rule one. " * 3) + len("|<user>")
    assert found["what"].read_tokens == found["what"].prompt_tokens - shared


def test_few_tokens_left_to_read_are_compared_with_nothing(monkeypatch):
    compared = []
    common = llamacpp.common
    monkeypatch.setattr(llamacpp, "common", lambda *both: (compared.append(both), common(*both))[1])
    list(make(slots=4, cells=512, longest=512).run(ask(f"{i}?", YES_NO, key=str(i)) for i in range(4)))
    assert not compared


def test_every_token_is_compared_by_its_text_once_and_again_only_after_a_cut():
    looked_up = Counter()

    class Counting(LlamaCppEngine):
        def _key(self, token):
            looked_up[token] += 1
            return super()._key(token)

    engine = Counting(Model(), identity="made up", slots=2, cells=1024, longest=1024, threads=1)
    found = list(engine.run(ask("the mill " * 40 + str(i), max_tokens=60, key=str(i)) for i in range(2)))
    tokens = sum(c.usage.prompt_tokens + c.usage.output_tokens for c in found)
    assert tokens / 2 < looked_up.total() <= tokens


def test_more_rows_than_a_batch_holds_are_refused_before_llama_cpp_aborts():
    import llama_cpp

    batch = Batch(llama_cpp, 4)
    rows = [(token, token + 10, token % 2, token == 3) for token in range(5)]
    batch.fill(rows[:4])
    filled = [(batch.native.token[i], batch.native.pos[i], batch.native.seq_id[i][0]) for i in range(4)]
    assert filled == [row[:3] for row in rows[:4]] and batch.native.n_tokens == 4
    assert [bool(batch.native.logits[i]) for i in range(4)] == [False, False, False, True]
    with pytest.raises(ModelError, match="5 rows.*4"):
        batch.fill(rows)
    assert batch.native.n_tokens == 4
    batch.free()


def test_signs_of_life_while_instructions_are_read(monkeypatch):
    monkeypatch.setattr(heartbeat, "_HEARTBEAT_SECONDS", 0.0)
    reading, beats = [], []
    engine = make(slots=1, cells=1024, longest=1024, batch=64, on_heartbeat=beats.append)
    step = engine._step
    engine._step = lambda: (reading.append(len(beats)), step())
    list(engine.run([ask("who", YES_NO, prefix=(Message("system", "Be brief. " * 40),))]))
    assert reading[0] >= 400 // 64


def test_a_reply_that_goes_round_in_circles_is_ended(monkeypatch):
    monkeypatch.setattr(f"{__name__}.logits", lambda tokens: np.eye(SIZE, dtype=np.float32)[b"abcd"[len(tokens) % 4]])
    sing = ask("Sing.", output.schema({"note": {"type": "string"}}), max_tokens=150)
    (found,) = make(slots=1, cells=512, longest=512).run([sing])
    assert found.finish == "repeat" and found.usage.output_tokens < 40


# Steps that llama.cpp fails


@pytest.fixture
def failing(monkeypatch):
    """Have the steps fail of which a function of streams and rows says so."""
    monkeypatch.setattr(llamacpp, "Streams", Failing)
    return lambda fails: monkeypatch.setattr(Failing, "fails", staticmethod(fails))


@pytest.mark.parametrize("forgets", [True, False])
def test_steps_that_fail_now_and_then_change_no_reply(failing, forgets):
    for seed in range(6):
        draw, failed, calm = random.Random(seed), 0, 0
        failing(lambda _streams, _rows: False)
        sizes = {"slots": draw.choice([1, 3, 9]), "cells": 512, "longest": 1024, "batch": draw.choice([16, 64])}
        expected = results(make(forgets=forgets, **sizes), drawn(random.Random(seed)))

        def fails(_streams, rows, draw=draw):
            nonlocal failed, calm
            calm -= 1
            if calm >= 0 or draw.random() < (0.7 if forgets else 0.98):  # where nothing is cut, much is read anew
                return False
            failed, calm = failed + 1, len({stream for _, _, stream, _ in rows})  # what is tried again goes well
            return True

        failing(fails)
        assert results(make(forgets=forgets, **sizes), drawn(random.Random(seed))) == expected
        assert failed


BAD = 7  # a byte of the prompt that llama.cpp cannot bear


@pytest.mark.parametrize("when", ["read", "written"])
def test_a_conversation_that_fails_by_itself_leaves_the_others_alone(failing, when, caplog):
    def fails(held, rows):
        if when == "read":
            return any(token == BAD for token, *_ in rows)
        return any(BAD in held.held[stream] for _, _, stream, _ in rows)

    failing(fails)
    good = [ask(f"{i}. where is the mill?", prefix=PREFIXES[i % 2], key=str(i)) for i in range(6)]
    alone = {}
    for request in good:
        alone |= results(make(slots=1, cells=512, longest=1024), [request])
    again = ask("again", key="again")
    bad = ask(
        "the mill \a at the ford", key="bad", prefix=PREFIXES[0], then=lambda c: again if c.key == "bad" else None
    )
    engine = make(slots=4, cells=512, longest=1024, batch=32)
    found = {c.key: c for c in engine.run([good[0], bad, *good[1:]])}
    assert (found["bad"].text, found["bad"].finish) == ("", "error") and "status -3" in found["bad"].error
    assert {key: found[key].text for key in alone} == {key: told[0] for key, told in alone.items()}
    shown = ask("again", key="again", prefix=PREFIXES[0])  # the failed turn left nothing behind
    assert found["again"].text == next(iter(engine.run([shown]))).text
    assert "Trying again" in caplog.text


def test_failures_apart_do_not_end_a_run(failing):
    failing(lambda _streams, rows: any(token == BAD for token, *_ in rows))
    requests = [ask(str(i) + "\a" * (i % 2), key=str(i)) for i in range(10)]
    found = errors(make(slots=1, cells=512, longest=512), *requests)
    assert [bool(found[str(i)]) for i in range(10)] == [False, True] * 5


def test_a_run_ends_where_one_conversation_fails_after_another(failing):
    failing(lambda _streams, _rows: True)
    requests = [ask(str(i), prefix=PREFIXES[0]) for i in range(8)]
    engine = make(slots=4, cells=512, longest=512)
    assert [c.finish for c in engine.run(requests[:2])] == ["error"] * 2
    ended = []
    with pytest.raises(ModelError, match=r"status -3.*3 conversations in a row.*`slots`"):
        for completion in engine.run(requests[2:6] + requests[:2]):
            ended.append(completion)
    assert [completion.finish for completion in ended] == ["error"] * 2
    failing(lambda _streams, _rows: False)
    assert {c.finish for c in engine.run(requests)} <= {"stop", "cap"}
