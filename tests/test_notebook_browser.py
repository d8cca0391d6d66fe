"""The views in a real browser: what is clicked and typed comes to Python, what Python sets is drawn, no text runs.

Skipped where Playwright or a Chromium is not installed. With SCREENSHOTS=folder every view is also photographed.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from views import views

playwright = pytest.importorskip("playwright.sync_api")
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine")

DARK = {"--jp-layout-color1": "#111", "--jp-content-font-color1": "#eee", "--jp-brand-color1": "#56b4e9"}
SHOW = """
async ([esm, css, state]) => {
  document.body.replaceChildren();
  const style = document.createElement("style");
  style.textContent = css;
  const root = document.createElement("div");
  document.body.append(style, root);
  const listeners = {};
  window.saved = 0;
  window.model = {
    get: (name) => state[name],
    set: (name, value) => { state[name] = value; (listeners[`change:${name}`] ?? []).forEach((call) => call()); },
    on: (event, call) => (listeners[event] ??= []).push(call),
    off: (event, call) => { listeners[event] = listeners[event].filter((other) => other !== call); },
    save_changes: () => { window.saved += 1; },
  };
  const url = URL.createObjectURL(new Blob([esm], { type: "text/javascript" }));
  const { default: widget } = await import(url);
  window.end = await widget.render({ model: window.model, el: root });
  window.listening = () => Object.values(listeners).flat().length;
}
"""


@pytest.fixture(scope="module")
def browser():
    with playwright.sync_playwright() as driver:
        started = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield started
        started.close()


@pytest.fixture
def page(browser):
    """A page on which an error, or a request, fails the test."""
    opened = browser.new_page(viewport={"width": 1000, "height": 900})
    wrong = []
    opened.on("pageerror", lambda error: wrong.append(str(error)))
    opened.on("console", lambda message: wrong.append(message.text) if message.type in ("error", "warning") else None)
    opened.on("request", lambda request: None if request.url.startswith("blob:") else wrong.append(request.url))
    opened.set_content("<!doctype html><title>still</title><body></body>")
    yield opened
    assert opened.title() == "still", "a text has run"
    opened.close()
    assert wrong == []


class Shown:
    """A view on a page, with its Python side kept in step by hand, as the kernel does it."""

    def __init__(self, page, name: str) -> None:
        self.page, self.name, self.view = page, name, views()[name]
        state = {n: getattr(self.view, n) for n in self.view.trait_names(sync=True) if not n.startswith("_")}
        plain = {n: v for n, v in state.items() if isinstance(v, (str, int, list, dict))}
        page.evaluate(SHOW, [self.view._esm, self.view._css, plain])

    def get(self, trait: str):
        """The trait in the browser, which Python must accept."""
        value = self.page.evaluate(f"model.get('{trait}')")
        self.view.set_trait(trait, value)
        return value

    def set(self, trait: str, value) -> None:
        self.view.set_trait(trait, value)
        self.page.evaluate("([trait, value]) => model.set(trait, value)", [trait, value])

    def photograph(self, more: str = "") -> None:
        if folder := os.environ.get("SCREENSHOTS"):
            self.page.screenshot(path=Path(folder) / f"{self.name}{more}.png", full_page=True)


@pytest.mark.parametrize("name", views())
def test_a_view_is_drawn_in_both_themes_and_leaves_nothing_behind(page, name):
    shown = Shown(page, name)
    assert "<script>document.title" in page.inner_text("body")
    shown.photograph()
    page.evaluate("(all) => Object.entries(all).forEach(([n, v]) => document.body.style.setProperty(n, v))", DARK)
    page.evaluate("document.body.style.background = '#111'; document.body.style.color = '#eee'")
    shown.photograph("-dark")
    page.evaluate("end()")
    assert page.evaluate("listening()") == 0


@pytest.mark.parametrize("name", views())
def test_the_static_form_shows_without_any_script(page, name):
    page.set_content(f"<!doctype html><title>still</title><body>{views()[name].static()}</body>")
    assert "<script>document.title" in page.inner_text("body")
    if folder := os.environ.get("SCREENSHOTS"):
        page.screenshot(path=Path(folder) / f"{name}-static.png", full_page=True)


def test_spans_are_selected_by_click_and_by_keys(page):
    shown = Shown(page, "chunk")
    page.click(".lgr-text")
    page.keyboard.press("Escape")
    page.keyboard.press("ArrowRight")
    assert shown.get("selected") == 0 and shown.view.selected_span.label == "Ines Falk"
    assert "Ines Falk (person), characters 0 to 9" in page.inner_text(".lgr-about")
    page.keyboard.press("End")
    place = shown.get("selected")
    page.locator(f"[data-span='{place}']").last.click()  # the one below it is next
    assert shown.get("selected") != place
    shown.set("selected", 1)
    assert page.locator(".lgr-chosen").count() == page.locator("[data-span='1']").count()
    page.keyboard.press("Escape")
    assert shown.get("selected") == -1
    page.click(".lgr-legend button >> nth=0")
    assert shown.get("hidden") == ["person"]
    assert page.locator("[data-span='0']").count() == 0
    assert page.evaluate("saved") > 4


def test_tokens_are_stepped_through(page):
    shown = Shown(page, "stepper")
    page.focus(".lgr-reply")
    page.keyboard.press("ArrowRight")
    assert shown.get("step") == 1
    page.click("text=next ✗")
    assert shown.get("step") == 3
    assert page.locator(".lgr-choice s").first.inner_text() == "␣mill"
    shown.photograph("-struck")
    shown.set("step", 9)
    assert page.locator(".lgr-reply .lgr-token").count() == 2  # the second reply has two tokens
    page.fill("input[type=range]", "4")
    assert shown.get("step") == 4
    page.click(".lgr-reply .lgr-token >> nth=0")
    assert shown.get("step") == 0 and "one way on" in page.inner_text(".lgr-steps")


def test_the_packing_goes_back_and_on(page):
    shown = Shown(page, "packing")
    assert f"in the context ({len(shown.view.frame.shown)})" in page.inner_text(".lgr-columns")
    page.focus("text=◀")
    page.keyboard.press("Home")
    assert shown.get("step") == 0 and "in the context (0)" in page.inner_text(".lgr-columns")
    page.keyboard.press("ArrowRight")
    assert "give way to its report" in page.inner_text(".lgr-why") and "replaced by a report (1)" in page.inner_text(
        "body"
    )
    shown.photograph("-first")
    shown.set("step", 4)
    assert page.locator(".lgr-packed > i").count() == len(shown.view.frame.shown) == 2
    page.click("text=▶ play")
    page.wait_for_function(f"model.get('step') === {len(shown.view.packed.steps)}")


def test_a_point_leads_to_its_passages_and_to_what_became_of_it(page):
    shown = Shown(page, "map_reduce")
    page.click("[data-point='1.1'] >> nth=0")
    assert shown.get("selected") == "1.1"
    assert page.locator(".lgr-from").count() == 2  # its passage, and the paragraph that rests on it
    shown.photograph("-selected")
    page.focus("text=◀")
    page.keyboard.press("Home")
    assert shown.get("stage") == 0 and page.locator("[data-point]").count() == 0
    shown.set("stage", 2)
    assert page.locator(".lgr-fates .lgr-dropped").count() == 2
    shown.set("stage", 3)
    page.click(".lgr-written button")
    assert shown.get("selected") == ""  # it was selected: once more lets go
