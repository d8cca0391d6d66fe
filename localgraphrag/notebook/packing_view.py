"""How a report's context is packed: what gets in, what gives way to a report, what is left out (paper 3.1.5)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import traitlets

from localgraphrag.graph import Graph
from localgraphrag.notebook.base import Element, View, el, script, styles, within
from localgraphrag.notebook.palette import KINDS, MARKS
from localgraphrag.packing import PackedContext

if TYPE_CHECKING:
    from localgraphrag.summaries import Report

Look = tuple[str, str]  # of a kind of record: colour and mark

LOOKS: dict[str, Look] = {kind: (colour, MARKS[at]) for at, (kind, colour) in enumerate(KINDS.items())}


class Frame(NamedTuple):
    """What holds after a number of steps: numbers of steps in `packed.steps`, and tokens.

    `shown`: the steps that added what is in the context now. `replaced`: the sub-communities that gave way to their
    reports. `out`: what was left out or taken out again. `used`: tokens in the context. `planned`: tokens that
    everything would take, as far as it has been decided; it falls with every report put in.
    """

    shown: tuple[int, ...]
    replaced: tuple[int, ...]
    out: tuple[int, ...]
    used: int
    planned: int


def frames(packed: PackedContext) -> list[Frame]:
    """The frame before the first step and after each one."""
    evicting = evictions(packed)
    frame = Frame((), (), (), 0, packed.whole)
    found = [frame]
    for at, step in enumerate(packed.steps):
        if step.action == "substitute":
            planned = frame.planned - step.freed + step.tokens
            frame = frame._replace(replaced=(*frame.replaced, at), planned=planned)
        elif step.action == "add":
            frame = frame._replace(shown=(*frame.shown, at), used=frame.used + step.tokens)
        elif at in evicting:
            *kept, last = frame.shown
            used = frame.used - packed.steps[last].tokens
            frame = frame._replace(shown=tuple(kept), out=(*frame.out, at), used=used)
        elif step.action == "drop":
            frame = frame._replace(out=(*frame.out, at))
        found.append(frame)
    return found


def evictions(packed: PackedContext) -> frozenset[int]:
    """The steps that took out what was in: they come last, since only whole texts can be measured as they are."""
    added = sum(step.action == "add" for step in packed.steps)
    dropping = [at for at, step in enumerate(packed.steps) if step.action == "drop"]
    return frozenset(dropping[len(dropping) - (added - len(packed.records)) :])


class PackingView(View):
    """The packing of one community's context, decision by decision.

    Parameters
    ----------
    packed : from `Packer.pack` or `pack_context`.
    graph : gives entities, relationships and claims their names; without it those left out go by their ids.
    reports : by community id; they give sub-communities their titles.
    title : of the community.

    `step` counts the decisions taken, from 0 to all of them, with which the view begins.
    """

    _esm = script("packing_view.js")
    _css = styles("packing_view.css")
    data = traitlets.Dict().tag(sync=True)
    step = traitlets.Int(0).tag(sync=True)

    def __init__(
        self,
        packed: PackedContext,
        graph: Graph | None = None,
        reports: Mapping[str, Report] | None = None,
        *,
        title: str = "",
        **traits: Any,
    ) -> None:
        self.packed, self.frames = packed, frames(packed)
        data = self._data(_names(packed, graph, reports or {}), title)
        super().__init__(data=data, **({"step": len(packed.steps)} | traits))

    @property
    def frame(self) -> Frame:
        """What holds at `step`."""
        return self.frames[self.step]

    @traitlets.validate("step")
    def _known(self, proposal: Any) -> int:
        return within("step", proposal["value"], 0, len(self.packed.steps))

    def _data(self, names: Mapping[str, Look], title: str) -> dict[str, Any]:
        packed, evicting = self.packed, evictions(self.packed)
        lines = iter(packed.text.split("\n"))
        steps = []
        for at, step in enumerate(packed.steps):
            name, kind = names.get(step.id, (step.id, "report" if step.action in ("substitute", "keep") else "entity"))
            line = next(lines, "") if step.action == "add" else ""
            told = {"action": "evict" if at in evicting else step.action, "name": name, "kind": kind, "line": line}
            steps.append({**told, "tokens": step.tokens, "freed": step.freed, "reason": step.reason})
        return {
            "title": title or "A context, packed",
            "budget": packed.budget,
            "steps": steps,
            "frames": [list(frame) for frame in self.frames],
            "looks": {kind: list(look) for kind, look in LOOKS.items()},
        }

    def picture(self) -> Element:
        """The context at `step`, what was replaced and left out, and all decisions so far."""
        frame, budget = self.frame, self.packed.budget
        told = f"{self.step} of {len(self.packed.steps)} decisions"
        whole = f"all that is to be told: {frame.planned:,} tokens, budget {budget:,}"
        used = f"in the context: {frame.used:,} of {budget:,} tokens"
        columns = el(
            "div",
            {"class": "lgr-columns"},
            self._column("in the context", frame.shown),
            self._column("replaced by a report", frame.replaced),
            self._column("left out", frame.out),
        )
        bars = (_bar(whole, frame.planned, budget), _bar(used, frame.used, budget))
        return el("div", {}, el("h4", {}, self.data["title"]), el("div", {}, told), *bars, columns, self._listing())

    def _column(self, name: str, numbers: Iterable[int]) -> Element:
        items = [el("li", {}, *self._item(self.data["steps"][at])) for at in numbers]
        return el("div", {"class": "lgr-box"}, el("strong", {}, f"{name} ({len(items)})"), el("ol", {}, *items))

    def _item(self, step: Mapping[str, Any]) -> tuple[Element | str, ...]:
        colour, mark = LOOKS[step["kind"]]
        return el("span", {"style": f"color:{colour}"}, mark), f" {step['name']}: {amount(step)}"

    def _listing(self) -> Element:
        rows = (
            el("tr", {}, *(el("td", {}, cell) for cell in (str(at), s["action"], s["name"], amount(s), s["reason"])))
            for at, s in enumerate(self.data["steps"][: self.step], 1)
        )
        heads = (el("th", {}, name) for name in ("", "decision", "on", "tokens", "why"))
        table = el("table", {}, el("tr", {}, *heads), *rows)
        return el("details", {}, el("summary", {}, "every decision"), table)


def amount(step: Mapping[str, Any]) -> str:
    """The tokens of a step in words.

    >>> amount({"action": "substitute", "freed": 1200, "tokens": 90}), amount({"action": "add", "tokens": 12})
    ('1,200 → 90 tokens', '12 tokens')
    """
    return f"{step['freed']:,} → {step['tokens']:,} tokens" if step.get("freed") else f"{step['tokens']:,} tokens"


def _bar(told: str, tokens: int, budget: int) -> Element:
    share = 100 * tokens / max(tokens, budget, 1)
    return el("div", {}, told, el("div", {"class": "lgr-bar"}, el("i", {"style": f"width:{share:.1f}%"})))


def _names(packed: PackedContext, graph: Graph | None, reports: Mapping[str, Report]) -> dict[str, tuple[str, str]]:
    """What each id is called, and its kind."""
    found: dict[str, tuple[str, str]] = {id_: (report.title, "report") for id_, report in reports.items()}
    if graph is not None:
        names = {node.id: node.name for node in graph.nodes}
        found |= {id_: (name, "entity") for id_, name in names.items()}
        for edge in graph.edges:
            found[edge.id] = (f"{names[edge.source]} — {names[edge.target]}", "relationship")
        for claim in graph.claims:
            about = " — ".join(names[id_] for id_ in (claim.subject, claim.object) if id_)
            found[claim.id] = (f"{about}: {claim.type}", "claim")
    return found | {record.id: (" — ".join(record.names), record.kind) for record in packed.records}
