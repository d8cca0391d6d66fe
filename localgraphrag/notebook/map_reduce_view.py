"""A map-reduce answer from its record: batches, scores, what was dropped and why, what was written (paper 3.1.6)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import traitlets

from localgraphrag.notebook.base import Element, View, el, script, styles, within
from localgraphrag.search.answer import Answer

STAGES = (
    "shuffled and packed into batches",
    "map: every batch is asked",
    "filter: points by score, until the budget is full",
    "reduce: one call writes the answer",
)


class MapReduceView(View):
    """The stages of a global or TS answer. Selecting a point shows where it comes from and what became of it.

    Parameters
    ----------
    answer : its `record` is shown. Raises ValueError if it was not made by map-reduce.
    titles : of reports or chunks, by id; those that the answer cites are known without.

    `stage` is 0 to 3 (`STAGES`), the last at first. `selected` names a point as "batch.point", both from 1, or is "".
    """

    _esm = script("map_reduce_view.js")
    _css = styles("map_reduce_view.css")
    data = traitlets.Dict().tag(sync=True)
    stage = traitlets.Int(len(STAGES) - 1).tag(sync=True)
    selected = traitlets.Unicode("").tag(sync=True)

    def __init__(self, answer: Answer, titles: Mapping[str, str] | None = None, **traits: Any) -> None:
        if "batches" not in answer.record:
            raise ValueError(
                f"The record of this {answer.method} answer has no batches: it was not made by map-reduce. "
                "Give an answer of the method 'global' or 'ts'."
            )
        self.answer = answer
        self._titles = {citation.id: citation.title for citation in answer.citations} | dict(titles or {})
        data = self._data()
        self._points = {point["key"]: point for batch in data["batches"] for point in batch["points"]}
        super().__init__(data=data, **traits)

    @property
    def selected_point(self) -> dict[str, Any] | None:
        """The point that is selected: key, text, score, ids of its sources, and its fate."""
        return self._points.get(self.selected)

    @traitlets.validate("stage")
    def _known_stage(self, proposal: Any) -> int:
        return within("stage", proposal["value"], 0, len(STAGES) - 1)

    @traitlets.validate("selected")
    def _known_point(self, proposal: Any) -> str:
        key = str(proposal["value"])
        if key and key not in self._points:
            raise traitlets.TraitError(f"There is no point {key!r}; points are {', '.join(self._points) or 'none'}.")
        return key

    def _data(self) -> dict[str, Any]:
        record = self.answer.record
        fates = {_key(point): {"taken": point["number"]} for point in record["taken"]}
        fates |= {_key(point): {"reason": point["reason"]} for point in record["dropped"]}
        what = "chunks" if self.answer.level is None else f"reports at level C{self.answer.level}"
        paragraphs = record.get("reply", {}).get("paragraphs", [])
        return {
            "title": self.answer.question,
            "told": f"{what}, seed {record['seed']}",
            "stages": list(STAGES),
            "budgets": record["budgets"],
            "batches": [self._batch(number, batch, fates) for number, batch in enumerate(record["batches"], 1)],
            "taken": [_key(point) for point in record["taken"]],
            "dropped": [_key(point) for point in record["dropped"]],
            "paragraphs": [{"heading": p["heading"], "text": p["text"], "cites": list(p["cites"])} for p in paragraphs],
            "text": self.answer.text,
        }

    def _batch(self, number: int, batch: Mapping[str, Any], fates: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
        found = [(f"{number}.{i}", point, point["sources"]) for i, point in enumerate(batch["points"], 1)]
        # near to the question though the model did not choose them: behind the batch's own
        over = [point for point in self.answer.record.get("passed_over", ()) if point["batch"] == number]
        found += [(_key(point), point, point["ids"]) for point in over]
        points = []
        for key, point, ids in found:
            told = {"key": key, "text": point["text"], "score": point["score"], "ids": list(ids)}
            points.append({**told, "taken": 0, "reason": "", **fates.get(key, {})})
        passages = [[id_, self._titles.get(id_, id_)] for id_ in batch["ids"]]
        return {"passages": passages, "score": batch["score"], "error": batch["error"], "points": points}

    def picture(self) -> Element:
        """Everything up to `stage`."""
        data = self.data
        head = el("div", {}, f"{data['told']}: {len(data['batches'])} batches. {STAGES[self.stage]}")
        batches = (self._batch_box(number, batch) for number, batch in enumerate(data["batches"], 1))
        body = [el("div", {"class": "lgr-batches"}, *batches)]
        if self.stage >= 2:
            body.append(self._table("the reduce call reads, best first", data["taken"], "taken"))
            body.append(self._table("dropped", data["dropped"], "reason"))
        if self.stage >= 3:
            body.append(self._written())
        return el("div", {}, el("h4", {}, data["title"]), head, *body)

    def _batch_box(self, number: int, batch: Mapping[str, Any]) -> Element:
        score = batch["error"] or ("not read" if batch["score"] is None else f"score {batch['score']}")
        told = f"batch {number}" + (f": {score}, {len(batch['points'])} points" if self.stage else "")
        passages = (el("li", {}, title) for _, title in batch["passages"])
        return el("div", {"class": "lgr-box"}, el("strong", {}, told), el("ul", {}, *passages))

    def _table(self, name: str, keys: list[str], fate: str) -> Element:
        rows = []
        for key in keys:
            point = self._points.get(key, {"score": "", "text": "", fate: ""})
            chosen = {"class": "lgr-chosen"} if key == self.selected else {}
            cells = (key, str(point["score"]), point["text"], str(point[fate]))
            rows.append(el("tr", chosen, *(el("td", {}, cell) for cell in cells)))
        heads = ("point", "score", "text", "number" if fate == "taken" else "why")
        table = el("table", {}, el("tr", {}, *(el("th", {}, head) for head in heads)), *rows)
        return el("details", {"open": "open"}, el("summary", {}, f"{name} ({len(rows)})"), table)

    def _written(self) -> Element:
        box = el("div", {"class": "lgr-box"}, el("strong", {}, "the answer, and the numbers of the points it rests on"))
        for paragraph in self.data["paragraphs"]:
            cites = "".join(f" [{number}]" for number in paragraph["cites"])
            heading = (el("strong", {}, paragraph["heading"]), " ") if paragraph["heading"] else ()
            box.append(el("p", {"dir": "auto"}, *heading, paragraph["text"], cites))
        if not self.data["paragraphs"]:
            box.append(el("p", {"dir": "auto"}, self.data["text"]))
        return box


def _key(point: Mapping[str, Any]) -> str:
    return f"{point['batch']}.{point['point']}"
