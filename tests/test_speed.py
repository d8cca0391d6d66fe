"""The probe of the machine, on machines made up: what it takes by their clock, and whether it finds their speed."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from types import SimpleNamespace

import pytest
import workbench

from localgraphrag import speed as probing
from localgraphrag.chunks import Chunk
from localgraphrag.errors import ModelError
from localgraphrag.llm.scripted import ScriptedEngine
from localgraphrag.llm.types import Completion, Message, Request, Usage
from localgraphrag.speed import speed

TEXT = " ".join(f"In the year {1800 + i} a letter was sent to the town." for i in range(100))


@dataclass
class Talk:
    """A request in work: seconds of its prompt that are left to read, and tokens that are left to write."""

    completion: Completion
    unread: float
    unwritten: int


class Machine(ScriptedEngine):
    """An engine as llama.cpp's is: one prompt after another is read, then all that are in work are written together.

    A token takes `read` seconds to be read; a step with 16 requests takes `step` seconds, and a fifth of that with one.
    A prompt that has been read gives the first token of the reply. Instructions are read once. The first request of all
    takes a second more.
    """

    def __init__(self, read: float, step: float, slots: int = 16) -> None:
        super().__init__(lambda *_: "")
        self.read, self.step, self.slots = read, step, slots
        self.now, self.most = 0.0, 0
        self._known: set[tuple[Message, ...]] = set()

    def run(self, requests: Iterable[Request]) -> Iterator[Completion]:
        source = iter(requests)
        active: list[Talk] = []
        while True:
            while len(active) < self.slots and (request := next(source, None)) is not None:
                active.append(self._admit(request))
            if not active:
                return
            self.most = max(self.most, len(active))
            unread = next((talk for talk in active if talk.unread), None)
            self.now += unread.unread if unread else self.step_seconds(len(active))
            for talk in [unread] if unread else list(active):
                talk.unread, talk.unwritten = 0, talk.unwritten - 1
                if not talk.unwritten:
                    active.remove(talk)
                    yield talk.completion

    def step_seconds(self, at_once: int) -> float:
        return self.step * (1 + at_once / 2.5) / 7.4

    def _admit(self, request: Request) -> Talk:
        self.requests.append(request)
        read = 5 + self.tokenizer.count(request.prompt) + (0 if request.prefix in self._known else 20)
        seconds = read * self.read + (0 if self._known else 1)
        self._known.add(request.prefix)
        declared = json.loads(request.output.schema)
        if declared["type"] == "object":
            text, chosen, forced = '{"yes":true}', 1, 5
        else:
            text = json.dumps(("the town by the sea " * 9)[: declared["minLength"]])
            chosen, forced = round(declared["minLength"] / 4.5), 2
        return Talk(
            Completion(request.key, text, "stop", Usage(1, read, read, chosen + forced, forced)), seconds, chosen
        )


def chunks(text: str = TEXT) -> list[Chunk]:
    tokens = ScriptedEngine(lambda *_: "").tokenizer.count(text)
    return [replace(CHUNK, text=text, end=len(text), tokens=tokens)] if text else []


CHUNK = Chunk("c", "d", "A letter", 0, 0, 0, 0, "")


@pytest.fixture
def on(monkeypatch):
    """`on(machine)` probes it by its own clock."""

    def probed(machine: Machine, text: str = TEXT) -> tuple[float, float]:
        monkeypatch.setattr(probing, "time", SimpleNamespace(monotonic=lambda: machine.now))
        return speed(machine, chunks(text))

    return probed


SLOW = [(0.025, 0.75), (0.015, 0.5), (0.01, 0.6), (0.004, 0.4)]


@pytest.mark.parametrize(("read", "step"), SLOW)
def test_a_slow_machine_is_probed_in_about_five_seconds(read, step, on):
    machine = Machine(read, step)
    reads, writes = on(machine)
    at_once = machine.most
    assert machine.now - 1 < 6.5
    assert reads == pytest.approx(1 / read, rel=0.05)
    assert writes == pytest.approx(at_once / machine.step_seconds(at_once), rel=0.15)


@pytest.mark.parametrize("slots", [4, 16, 32])
def test_a_fast_machine_reads_longer_texts_and_writes_with_as_many_at_once_as_it_can(slots, on):
    machine = Machine(0.0002, 0.03, slots)
    _reads, writes = on(machine)
    assert machine.most == slots
    assert writes == pytest.approx(slots / machine.step_seconds(slots), rel=0.15)
    assert max(map(len, (request.prompt for request in machine.requests))) > 1000
    assert machine.now < 4


def test_a_very_slow_machine_reads_and_writes_little(on):
    machine = Machine(0.2, 4)
    on(machine)
    assert len(machine.requests) == 2 + 4


def test_engines_that_take_one_request_at_a_time_have_a_speed(on):
    machine = Machine(0.01, 0.4, slots=1)
    reads, writes = on(machine)
    assert reads == pytest.approx(100, rel=0.05)
    assert 0 < writes < 1 / machine.step_seconds(1)
    assert all(rate > 0 for rate in speed(ScriptedEngine(workbench.reply), chunks()))


@pytest.mark.parametrize("text", ["", "Ostrey.", "漢" * 300])
def test_any_text_will_do(text, on):
    machine = Machine(0.004, 0.4)
    assert on(machine, text)[0] == pytest.approx(250, rel=0.05)


def test_a_model_that_fails_the_probe_says_so():
    def broken(*_arguments: object) -> str:
        raise ModelError("The grammar refused it.")

    with pytest.raises(ModelError, match="when its speed was measured: The grammar refused it"):
        speed(ScriptedEngine(broken), chunks())
