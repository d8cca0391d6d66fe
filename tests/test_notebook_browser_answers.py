"""`GraphView`, `CompareView` and `ProgressView` in a real browser, watched as the other views are."""

from __future__ import annotations

import os
from contextlib import nullcontext
from pathlib import Path

import pytest
import test_notebook_browser as shared
from test_notebook_compare import HOSTILE
from test_notebook_graph import graph_of, rings

from localgraphrag.communities import detect_communities
from localgraphrag.llm.types import Usage
from localgraphrag.notebook.compare_view import CompareView
from localgraphrag.notebook.graph_view import GraphView
from localgraphrag.notebook.progress_view import ProgressView
from localgraphrag.progress import Progress
from localgraphrag.project import Comparison
from localgraphrag.search.answer import Answer, Citation, Source
from localgraphrag.show import Passage

pytestmark = shared.pytestmark
browser, page = shared.browser, shared.page

STARS = graph_of(
    [f"Harbour {HOSTILE}"],
    [("Ada", "Byron"), ("Ada", "Clara"), ("Ada", "Dickens"), ("Byron", f"Harbour {HOSTILE}"), ("Emma", "Faraday")],
)


class Shown:
    """A view on a page, with its Python side kept in step by hand, as the kernel does it."""

    def __init__(self, page, view, name: str) -> None:
        self.page, self.view, self.name = page, view, name
        state = {n: getattr(view, n) for n in view.trait_names(sync=True) if not n.startswith("_")}
        plain = {n: v for n, v in state.items() if isinstance(v, (str, int, list, dict))}
        page.evaluate(shared.SHOW, [view._esm, view._css, plain])
        page.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")

    def get(self, trait: str):
        """The trait in the browser, which Python must accept."""
        value = self.page.evaluate(f"model.get('{trait}')")
        self.view.set_trait(trait, value)
        return value

    def set(self, trait: str, value) -> None:
        self.view.set_trait(trait, value)
        self.page.evaluate("([trait, value]) => model.set(trait, value)", [trait, getattr(self.view, trait)])

    def photograph(self, more: str = "") -> None:
        if folder := os.environ.get("SCREENSHOTS"):
            self.page.screenshot(path=Path(folder) / f"{self.name}{more}.png", full_page=True)

    def darken(self) -> None:
        dark = "(all) => Object.entries(all).forEach(([n, v]) => document.body.style.setProperty(n, v))"
        self.page.evaluate(dark, shared.DARK)
        self.page.evaluate("document.body.style.background = '#111'; document.body.style.color = '#eee'")
        self.page.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")

    def end(self) -> None:
        self.page.evaluate("end()")
        assert self.page.evaluate("listening()") == 0


def spot(page, view: GraphView, name: str) -> tuple[float, float]:
    """Where a node is on the page while all of the graph is shown."""
    box = page.locator("canvas").bounding_box()
    wide, high = (max(at[axis] for at in view.places) or 1 for axis in (0, 1))
    scale = min((box["width"] - 70) / wide, (box["height"] - 60) / high)
    x, y = view.places[view.data["names"].index(name)]
    left, top = box["x"] + (box["width"] - wide * scale) / 2, box["y"] + (box["height"] - high * scale) / 2
    return left + x * scale, top + y * scale


def colours(page) -> int:
    """How many points of the canvas are not empty."""
    return page.evaluate(
        "(() => { const c = document.querySelector('canvas'); const d = c.getContext('2d')"
        ".getImageData(0, 0, c.width, c.height).data; let n = 0; for (let i = 3; i < d.length; i += 4) n += d[i] > 0;"
        " return n; })()"
    )


def test_a_node_is_selected_by_click_and_from_python(page):
    shown = Shown(page, GraphView(STARS, detect_communities(STARS, max_community_size=2)), "graph")
    assert colours(page) > 500
    page.mouse.move(*spot(page, shown.view, "Byron"))
    assert page.get_attribute("canvas", "title") == "Byron (person, 2 neighbours)"
    page.mouse.click(*spot(page, shown.view, "Byron"))
    assert shown.get("selected") and shown.view.node.name == "Byron"
    assert f"Harbour {HOSTILE}" in page.inner_text(".lgr-graph-near")
    shown.photograph("-selected")
    page.click(".lgr-graph-near button >> text=Ada")
    assert shown.get("selected") and shown.view.node.name == "Ada"
    shown.set("selected", "Emma")
    assert page.inner_text(".lgr-graph-side h4 >> nth=0") == "Emma"
    page.fill("input[type=search]", "clara")
    page.press("input[type=search]", "Tab")
    assert shown.get("selected") and shown.view.node.name == "Clara"
    shown.darken()
    shown.photograph("-dark")
    shown.end()


def test_arrow_keys_go_to_neighbours_only(page):
    shown = Shown(page, GraphView(STARS), "graph")
    page.focus("canvas")
    page.keyboard.press("Home")
    assert shown.get("selected") and shown.view.node.name == "Ada"
    before, moves = shown.view.selected, 0
    for key in ["ArrowLeft", "ArrowUp", "ArrowRight", "ArrowDown"] * 5:
        page.keyboard.press(key)
        after = shown.get("selected")
        assert after == before or after in {node.id for node in STARS.neighbours(before)}
        before, moves = after, moves + (after != before)
    assert moves > 2
    page.keyboard.press("Escape")
    assert shown.get("selected") == ""


def test_it_zooms_by_keys_and_wheel_and_moves_by_dragging(page):
    shown = Shown(page, GraphView(rings(4), None), "graph")
    still = page.screenshot()
    box = page.locator("canvas").bounding_box()
    middle = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    page.mouse.move(box["x"] + 5, box["y"] + 5)
    page.mouse.wheel(0, -200)
    page.wait_for_timeout(60)
    assert page.screenshot() == still, "without focus the wheel is the page's"
    page.focus("canvas")
    for act in (
        lambda: page.keyboard.press("+"),
        lambda: page.mouse.wheel(0, -200),
        lambda: (
            page.mouse.move(*middle),
            page.mouse.down(),
            page.mouse.move(middle[0] + 90, middle[1]),
            page.mouse.up(),
        ),
    ):
        before = page.screenshot()
        act()
        page.wait_for_timeout(60)
        assert page.screenshot() != before
    assert shown.get("selected") == "", "a drag selects nothing"


def test_the_slider_and_python_agree_on_the_level(page):
    graph = rings(4)
    hierarchy = detect_communities(graph, max_community_size=3)
    shown = Shown(page, GraphView(graph, hierarchy), "graph")
    page.focus("input[type=range]")
    page.keyboard.press("ArrowRight")
    assert shown.get("level") == 1
    assert page.inner_text(".lgr-told") == f"level C1: {len(hierarchy.levels[1])} communities"
    shown.set("level", 0)
    assert page.input_value("input[type=range]") == "0"
    page.click(".lgr-graph-legend button >> nth=1")
    assert shown.get("highlighted") == hierarchy.levels[0][1].id
    shown.photograph("-highlighted")


def test_three_thousand_nodes_stay_fluid(page):
    graph = rings(300, 10)
    shown = Shown(page, GraphView(graph, detect_communities(graph), selected="Name7"), "graph-large")
    page.focus("canvas")
    milliseconds = page.evaluate(
        """async () => {
          const canvas = document.querySelector("canvas");
          const frame = () => new Promise(requestAnimationFrame);
          await frame();
          const started = performance.now();
          for (let i = 0; i < 20; i++) {
            const deltaY = i % 2 ? 30 : -30;
            canvas.dispatchEvent(new WheelEvent("wheel", { deltaY, clientX: 200, clientY: 200, cancelable: true }));
            await frame();
          }
          return (performance.now() - started) / 20;
        }"""
    )
    shown.photograph()
    assert milliseconds < 250, "on two busy cores without a graphics card"
    print(f"{milliseconds:.1f} ms a frame")  # noqa: T201


TEXT = f"The mill on the Ness {HOSTILE} burned in 1931, and Ines Falk 😀 left. " * 6


class Stored:
    """A project whose index holds one chunk."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        where = ((TEXT.index("burned"), TEXT.index("burned") + 14),)
        passage = Passage("t-1", "d-1", f"Letters {HOSTILE}", ("letters.txt",), TEXT, where)
        patch.setattr(
            "localgraphrag.notebook.compare_view.cited", lambda _store, citations: tuple((passage,) for _ in citations)
        )

    def store(self):
        return nullcontext()


@pytest.fixture
def compared(monkeypatch) -> CompareView:
    def answer(name: str, level: int | None, count: int) -> Answer:
        marks = [
            Citation(n, "report", f"c-{n}", f"The mill {HOSTILE}", (), (Source("t-1", "d-1", 0, 4),))
            for n in range(1, count)
        ]
        text = f"What became of the mill\nThe mill {HOSTILE} burned. [1][2]\n\nNobody built it up again. [2]"
        return Answer("What burned?", name, level, text, tuple(marks), Usage(7, 12345, 2345, 678, seconds=91.2), {})

    answers = {"C0": answer("global", 0, 4), "C1": answer("global", 1, 3), "TS": answer("ts", None, 3)}
    comparison = Comparison(f"What burned? {HOSTILE}", answers, {"SS": f"There is no embedder. {HOSTILE}"})
    return CompareView(comparison, Stored(monkeypatch))


def test_a_citation_opens_its_source_with_the_words_marked(page, compared):
    shown = Shown(page, compared, "compare")
    shown.photograph()
    page.click("article >> nth=1 >> button[data-cite='C1:2'] >> nth=0")
    assert shown.get("opened") == "C1:2"
    assert page.inner_text(".lgr-opened mark") == "burned in 1931"
    assert HOSTILE in page.inner_text(".lgr-opened")
    shown.photograph("-opened")
    shown.set("opened", "C0:1")
    assert page.locator("article >> nth=0 >> .lgr-opened").count() == page.locator(".lgr-opened").count() == 1
    assert page.get_attribute("button[data-cite='C0:1'] >> nth=0", "aria-expanded") == "true"
    page.focus(".lgr-opened-words")
    page.keyboard.press("Escape")
    assert shown.get("opened") == ""
    assert page.evaluate("document.activeElement.dataset.cite") == "C0:1", "the focus is where it came from"
    page.keyboard.press("Enter")
    assert shown.get("opened") == "C0:1"
    shown.darken()
    shown.photograph("-dark")
    shown.end()


def test_progress_follows_and_the_button_stops(page):
    view = ProgressView(f"Index {HOSTILE}", every=0)
    shown = Shown(page, view, "progress")
    assert "not begun" in page.inner_text("body")
    view(Progress("read", 4, 4, "done", seconds=1.2))
    view(Progress("extract", 3, 9, f"t-3 failed: {HOSTILE}", tokens=900, seconds=30.0, eta_seconds=75.0))
    view(Progress("summaries", 0, 0, "c-1: 900 tokens read, 12 written, 4 at once"))
    for trait in ("data", "state"):
        shown.set(trait, getattr(view, trait))
    assert "t-3 failed: " in page.inner_text("body")
    assert page.get_attribute("[role=progressbar] >> nth=0", "aria-valuenow") == "100"
    shown.photograph()
    page.click("text=stop")
    assert shown.get("stopping") is True
    assert page.is_disabled("button")
    view._end("failed", f"The disk is full. {HOSTILE}")
    for trait in ("data", "state", "stopping"):
        shown.set(trait, getattr(view, trait))
    assert "It ended with an error: The disk is full." in page.inner_text("[role=alert]")
    assert page.is_hidden("button")
    shown.darken()
    shown.photograph("-failed")
    shown.end()


@pytest.mark.parametrize("name", ["graph", "compare"])
def test_the_static_form_shows_without_any_script(page, compared, name):
    graph = GraphView(STARS, detect_communities(STARS, max_community_size=2), selected="Byron")
    view = {"graph": graph, "compare": compared}[name]
    page.set_content(f"<!doctype html><title>still</title><body>{view.static()}</body>")
    assert HOSTILE in page.inner_text("body")
    if folder := os.environ.get("SCREENSHOTS"):
        page.screenshot(path=Path(folder) / f"{name}-static.png", full_page=True)
