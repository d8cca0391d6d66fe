"""An extraction token by token: what the grammar allowed, what it struck out, what each gleaning adds (paper 3.1.2)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import traitlets
from pydantic import TypeAdapter, ValidationError

from localgraphrag.chunks import Chunk
from localgraphrag.config import Settings
from localgraphrag.errors import ConfigError, ModelError
from localgraphrag.extract import Entity, Extraction, extraction_units
from localgraphrag.llm.llamacpp import LlamaCppEngine
from localgraphrag.llm.trace import Candidate, TokenStep, Tracer, Turn
from localgraphrag.llm.units import EngineRunner, run_all
from localgraphrag.notebook.base import Element, View, el, script, styles, within
from localgraphrag.notebook.palette import looks
from localgraphrag.prompts import Prompts

MOST_ROWS = 40
"""Most steps that the static form tells of a reply."""

END = "■"

_STEPS = {
    "names": "names and their types",
    "relationships": "relationships",
    "details": "descriptions",
    "missed": "were any missed?",
    "more": "gleaning: names not yet listed",
    "claims": "claims",
}


@dataclass(frozen=True)
class ExtractionTrace:
    """A chunk, the replies about it step by step, and what was read out of them."""

    chunk: Chunk
    turns: tuple[Turn, ...]
    extraction: Extraction

    def save(self, path: Path | str) -> None:
        """Write it as JSON."""
        Path(path).write_bytes(_FORM.dump_json(self) + b"\n")

    @staticmethod
    def load(path: Path | str) -> ExtractionTrace:
        """Read what `save` has written. Raises ConfigError for another file."""
        try:
            return _FORM.validate_json(Path(path).read_bytes())
        except ValidationError as error:
            raise ConfigError(f"{path} holds no trace of an extraction: {error.errors()[0]['msg']}.") from error

    @staticmethod
    def packaged() -> Path:
        """The file of the trace that comes with the package: a chunk of the demo corpus."""
        return Path(__file__).with_name("extraction_trace.json")


_FORM = TypeAdapter(ExtractionTrace)


def trace_extraction(
    chunk: Chunk, engine: LlamaCppEngine, settings: Settings, prompts: Prompts, *, top: int = 5
) -> ExtractionTrace:
    """Extract from a chunk, listening to the engine. Nothing is kept in any index.

    Raises ModelError if the extraction fails.
    """
    tracer = Tracer(engine.model, top=top)
    before, engine.trace = engine.trace, tracer
    try:
        outcome = run_all(EngineRunner(engine), extraction_units([chunk], settings, prompts))[chunk.id]
    finally:
        engine.trace = before
    if outcome.value is None:
        raise ModelError(f"The extraction from chunk {chunk.id} failed: {outcome.error}")
    return ExtractionTrace(chunk, tracer.turns, outcome.value)


class ExtractionStepper(View):
    """Steps through the tokens of an extraction, by slider, buttons or the arrow keys.

    Parameters
    ----------
    trace : of one extraction, from `trace_extraction` or `ExtractionTrace.load`.

    `step` counts the tokens of all replies together, from 0.
    """

    _esm = script("extraction_stepper.js")
    _css = styles("chunk_view.css", "extraction_stepper.css")
    data = traitlets.Dict().tag(sync=True)
    step = traitlets.Int(0).tag(sync=True)

    def __init__(self, trace: ExtractionTrace, **traits: Any) -> None:
        self.trace = trace
        self._steps = [(turn, step) for turn in trace.turns for step in turn.steps]
        super().__init__(data=self._data(), **traits)

    @property
    def current(self) -> TokenStep | None:
        """The token at `step`."""
        return self._steps[self.step][1] if self._steps else None

    @property
    def struck(self) -> tuple[int, ...]:
        """The steps at which the likeliest token was against the grammar."""
        return tuple(at for at, (_, step) in enumerate(self._steps) if step.struck)

    @traitlets.validate("step")
    def _known(self, proposal: Any) -> int:
        return within("step", proposal["value"], 0, max(len(self._steps) - 1, 0))

    def _data(self) -> dict[str, Any]:
        chunk = self.trace.chunk
        return {
            "title": f"{chunk.title}, chunk {chunk.ordinal}: {len(self._steps):,} tokens written",
            "turns": [
                {"name": _name(turn), "taken_back": turn.taken_back, "steps": [list(step) for step in turn.steps]}
                for turn in self.trace.turns
            ],
            "passes": [[_told(entity) for entity in found] for found in passes(self.trace.extraction)],
            "kinds": {name: found._asdict() for name, found in self._looks().items()},
        }

    def _looks(self) -> dict[str, Any]:
        return dict(looks(entity.type for entity in self.trace.extraction.entities))

    def picture(self) -> Element:
        """Each reply with its tokens marked, the steps at which the grammar struck something out, and the passes."""
        replies = (self._reply(number, turn) for number, turn in enumerate(self.trace.turns))
        return el("div", {}, el("h4", {}, self.data["title"]), _legend(), *replies, self._passes())

    def _reply(self, number: int, turn: Turn) -> Element:
        first = sum(len(before.steps) for before in self.trace.turns[:number])
        tokens = el("div", {"class": "lgr-code lgr-reply"})
        for at, step in enumerate(turn.steps, first):
            tokens.append(_token(step, chosen=at == self.step, last=step is turn.steps[-1]))
        forced = sum(step.forced for step in turn.steps)
        told = f"{_name(turn)}: {len(turn.steps)} tokens, {forced} of them forced"
        told += f", {turn.taken_back} taken back" if turn.taken_back else ""
        told_steps = [(at, s) for at, s in enumerate(turn.steps, first) if at == self.step or s.struck][:MOST_ROWS]
        rows = (el("tr", {}, *(el("td", {}, *cell) for cell in _row(at, step))) for at, step in told_steps)
        heads = ("step", "chosen", "tokens allowed", "likeliest before the grammar was asked")
        table = el("table", {}, el("tr", {}, *(el("th", {}, name) for name in heads)), *rows)
        struck = sum(step.struck for step in turn.steps)
        note = el("summary", {}, f"steps with the likeliest token struck out: {struck}")
        more = [el("details", {}, note, table)] if told_steps else []
        return el("div", {"class": "lgr-box"}, el("strong", {}, told), tokens, *more)

    def _passes(self) -> Element:
        box = el("div", {"class": "lgr-box"}, el("strong", {}, "What each pass found"))
        found = self._looks()
        for number, entities in enumerate(passes(self.trace.extraction)):
            names = (el("li", {}, f"{found[e.type].mark} {e.name} ({e.type})") for e in entities)
            box.append(el("div", {}, pass_name(number, len(entities))))
            box.append(el("ul", {"class": "lgr-legend"}, *names))
        return box


def passes(extraction: Extraction) -> list[tuple[Entity, ...]]:
    """The entities that the first pass found, then those that each gleaning added."""
    last = max((entity.gleaning for entity in extraction.entities), default=0)
    return [tuple(e for e in extraction.entities if e.gleaning == number) for number in range(last + 1)]


def pass_name(number: int, found: int) -> str:
    """What a pass is called.

    >>> pass_name(0, 9), pass_name(1, 1)
    ('first pass: 9 entities', 'gleaning 1 adds 1 entity')
    """
    many = f"{found} {'entity' if found == 1 else 'entities'}"
    return f"gleaning {number} adds {many}" if number else f"first pass: {many}"


def _name(turn: Turn) -> str:
    step = turn.key.rsplit(" ", 1)[-1]
    return _STEPS.get(step, step)


def _told(entity: Entity) -> list[str]:
    return [entity.name, entity.type]


def _token(step: TokenStep, *, chosen: bool, last: bool) -> Element:
    kind = " lgr-forced" if step.forced else " lgr-struck" if step.struck else ""
    now = " lgr-chosen" if chosen else ""
    told = "forced" if step.forced else f"{step.allowed:,} tokens allowed"
    return el("span", {"class": f"lgr-token{kind}{now}", "title": told}, step.text or (END if last else ""))


def _row(at: int, step: TokenStep) -> tuple[Sequence[Element | str], ...]:
    chosen = step.candidates[step.chosen].text if step.candidates else step.text
    allowed = "forced" if step.forced else f"{step.allowed:,}"
    return [str(at)], [el("code", {}, shown(chosen))], [allowed], [part for c in step.candidates for part in _put(c)]


def _put(candidate: Candidate) -> tuple[Element | str, ...]:
    text = el("code", {}, shown(candidate.text))
    return (text if candidate.legal else el("s", {}, text)), f" {candidate.share:.0%} "


def shown(text: str) -> str:
    """A token so that it can be seen.

    >>> shown(" mill"), shown("a" + chr(10)), shown("")
    ('␣mill', 'a⏎', 'end')
    """
    return text.replace(" ", "␣").replace("\n", "⏎").replace("\t", "⇥") or "end"


def _legend() -> Element:
    kinds = (
        ("lgr-token", "chosen by the model"),
        ("lgr-token lgr-forced", "forced by the grammar"),
        ("lgr-token lgr-struck", "chosen after the likeliest was struck out"),
    )
    return el("ul", {"class": "lgr-legend"}, *(el("li", {}, el("span", {"class": c}, told)) for c, told in kinds))
