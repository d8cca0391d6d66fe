"""The notebooks in JupyterLab, in a real browser: run from the menu, a slider moved, a node clicked, a citation opened.

The page may ask nothing but the server of the test, and no error may reach the console. Skipped where JupyterLab,
Playwright, a Chromium, or the recording is missing. With SCREENSHOTS=folder what is seen is also photographed.
"""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
import test_notebook_browser as shared

from localgraphrag import demo
from localgraphrag.config import models_folder
from localgraphrag.notebook import ExtractionTrace

playwright = pytest.importorskip("playwright.sync_api")
pytest.importorskip("jupyterlab")
SMALL_MODEL = models_folder() / "SmolLM2-135M-Instruct.Q4_1.gguf"
TOKEN = "only-for-this-test"
MINUTE = 60_000  # milliseconds
OWN = f"""
model = {json.dumps(str(SMALL_MODEL))}
embedder = "hash"
include = ["school-*"]
chunk_size = 150
chunk_overlap = 20
claims = false
"""
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not os.environ.get("JUPYTERLAB_TESTS"), reason="takes minutes; run `make lab-test`"),
    pytest.mark.skipif(shared.CHROMIUM is None, reason="no Chromium on this machine"),
    pytest.mark.skipif(
        not (demo.recording().exists() and ExtractionTrace.packaged().exists()), reason="the demo is not recorded"
    ),
]

SETTINGS = {  # without windowing mode, for cells out of sight are not on the page
    "@jupyterlab/notebook-extension/tracker.jupyterlab-settings": {"windowingMode": "none"},
}


@pytest.fixture(scope="module")
def lab(tmp_path_factory):
    """The address of a JupyterLab that `localgraphrag lab` serves."""
    folder = tmp_path_factory.mktemp("lab")
    for name, chosen in SETTINGS.items():
        file = folder / "settings" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(chosen))
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    (folder / "notebooks" / "my-corpus").mkdir(parents=True)
    (folder / "notebooks" / "my-corpus" / "localgraphrag.toml").write_text(OWN)  # of notebook 09 alone
    environment = os.environ | {
        "JUPYTER_TOKEN": TOKEN, "JUPYTERLAB_SETTINGS_DIR": str(folder / "settings"),
        "JUPYTERLAB_WORKSPACES_DIR": str(folder / "workspaces"), "JUPYTER_CONFIG_DIR": str(folder / "config"),
    }  # fmt: skip
    command = [
        sys.executable,
        "-m",
        "localgraphrag",
        "lab",
        str(folder / "notebooks"),
        "--no-browser",
        "--port",
        str(port),
    ]
    with (folder / "log").open("w") as log:
        server = subprocess.Popen(command, env=environment, stdout=log, stderr=log, cwd=folder)
        try:
            for _ in range(120):
                with socket.socket() as probe:
                    if probe.connect_ex(("127.0.0.1", port)) == 0:
                        break
                assert server.poll() is None, (folder / "log").read_text()
                time.sleep(0.5)
            yield f"http://127.0.0.1:{port}"
        finally:
            server.terminate()
            server.wait(30)


browser = shared.browser


class Notebook:
    """A notebook in the browser. What goes wrong on its page is in `wrong`."""

    def __init__(self, page, lab: str, name: str) -> None:
        self.page, self.name, self.wrong = page, name, []
        page.on("pageerror", lambda error: self.wrong.append(str(error)))
        page.on("console", lambda message: self.wrong.append(message.text) if message.type == "error" else None)
        page.route("**", lambda route: self.only_here(route, lab))
        page.goto(f"{lab}/lab/tree/{name}?token={TOKEN}&reset", timeout=MINUTE)
        page.wait_for_selector(".jp-Notebook .jp-CodeCell", timeout=MINUTE)
        page.wait_for_selector("text=/[|] Idle/", timeout=MINUTE)  # else it asks for a kernel to be selected

    def only_here(self, route, lab: str) -> None:
        if route.request.url.startswith((f"{lab}/", "data:", "blob:")):
            route.continue_()
        else:
            self.wrong.append(f"asked for {route.request.url}")
            route.abort()

    def run(self, minutes: float = 1) -> None:
        """Run all cells from the menu, and wait until they are done and none shows an error."""
        self.page.click(".lm-MenuBar-itemLabel >> text=/^Run$/")
        self.page.click(".lm-Menu-itemLabel >> text=/^Run All Cells$/")
        self.page.wait_for_function(
            "() => { const asked = [...document.querySelectorAll('.jp-CodeCell .jp-InputArea-prompt')];"
            " return asked.every((prompt) => /\\[\\d+\\]/.test(prompt.textContent)); }",
            timeout=minutes * MINUTE,
        )
        assert not self.page.locator("text=/Jupyter news/").count(), "it offers to ask the network"
        errors = self.page.locator("[data-mime-type='application/vnd.jupyter.error']")
        assert errors.all_inner_texts() == []
        self.photograph("run")

    def photograph(self, what: str) -> None:
        if folder := os.environ.get("SCREENSHOTS"):
            Path(folder).mkdir(parents=True, exist_ok=True)
            for number, cell in enumerate(self.page.locator(".jp-Cell").all()):
                if cell.locator(".jp-OutputArea-output").count():
                    cell.screenshot(path=Path(folder) / f"{self.name[:2]}-{what}-{number:02}.png")


@pytest.fixture
def opened(browser, lab):
    pages = []

    def open_(name: str) -> Notebook:
        page = browser.new_page(viewport={"width": 1300, "height": 1000})
        pages.append(Notebook(page, lab, name))
        return pages[-1]

    yield open_
    for notebook in pages:
        notebook.page.close()
    assert [wrong for notebook in pages for wrong in notebook.wrong] == []


def test_02_the_slider_steps_through_the_tokens(opened):
    notebook = opened("02_extraction.ipynb")
    notebook.run()
    slider = notebook.page.locator(".jp-OutputArea-output input[type=range]").first
    choices = notebook.page.locator(".lgr-choice").first
    before = choices.inner_text()
    slider.focus()
    for _ in range(3):
        notebook.page.keyboard.press("ArrowRight")
    playwright.expect(choices).not_to_have_text(before)
    notebook.photograph("stepped")


def test_04_a_node_is_clicked(opened):
    notebook = opened("04_communities.ipynb")
    notebook.run()
    canvas = notebook.page.locator("canvas").first
    canvas.scroll_into_view_if_needed()
    box = canvas.bounding_box()
    chosen = notebook.page.locator(".lgr-graph-side [aria-live]").first
    before = chosen.inner_text()
    for across in range(4, 17):
        for down in range(4, 17):
            notebook.page.mouse.click(box["x"] + box["width"] * across / 20, box["y"] + box["height"] * down / 20)
            if chosen.inner_text() not in ("Nothing is selected.", before):
                notebook.photograph("clicked")
                return
    pytest.fail("no click found a node")


def test_06_another_level_by_the_slider(opened):
    notebook = opened("06_global_search.ipynb")
    notebook.run()
    shown = notebook.page.locator(".jp-OutputArea-output", has=notebook.page.locator(".widget-interact")).first
    before = shown.inner_text()
    handle = shown.locator(".noUi-handle, input[type=range]").first
    handle.focus()
    notebook.page.keyboard.press("ArrowRight")
    notebook.page.wait_for_function(
        "([before]) => document.querySelector('.widget-interact').innerText !== before", arg=[before], timeout=MINUTE
    )
    assert re.search(r"\d+ batches", shown.inner_text())
    notebook.photograph("level")


@pytest.mark.model
def test_09_a_citation_is_opened(opened):
    if not SMALL_MODEL.exists():
        pytest.skip(f"needs the small model: put {SMALL_MODEL.name} into {models_folder()}")
    notebook = opened("09_your_corpus.ipynb")
    notebook.run(minutes=8)
    cites = notebook.page.locator("button[data-cite]")
    assert cites.count(), "an answer of quotations cites what it quotes"
    passages = notebook.page.locator(".lgr-opened")
    playwright.expect(passages.first).to_be_visible()  # the notebook has opened the first
    notebook.photograph("cited")
    cites.first.click()
    playwright.expect(passages).to_have_count(0)
    cites.first.click()
    playwright.expect(passages.first).to_be_visible()
