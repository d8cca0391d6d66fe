"""The notebooks run from top to bottom without a model, and their exercises tell right answers from wrong ones.

Each is run in a kernel on the packaged recording, or where there is none, on answers recorded from a function.
"""

from __future__ import annotations

import json
import re
from itertools import pairwise
from pathlib import Path
from textwrap import indent

import nbformat
import pytest
import workbench
from views import trace

from localgraphrag import demo
from localgraphrag.config import models_folder
from localgraphrag.embed import HashEmbedder
from localgraphrag.llm.scripted import ScriptedEngine
from localgraphrag.notebook import ExtractionTrace
from scripts.record_demo import record
from scripts.render_notebooks import execute, page

for _needed in ("nbclient", "nbconvert", "ipykernel", "ipywidgets", "anywidget"):
    pytest.importorskip(_needed, reason="needs `pip install localgraphrag[dev,notebook]`")

REPO = Path(__file__).parents[1]
NOTEBOOKS = sorted((REPO / "notebooks").glob("*.ipynb"))
OWN = "09_your_corpus.ipynb"
"""The one that always uses the real model and leaves an index behind."""

LONGEST = 7
"""Lines of a cell, empty ones not counted."""

SMALL_MODEL = "SmolLM2-135M-Instruct.Q4_1.gguf"
BLANK = "mine = ...\n"
WRONG = (None, -1, "nothing")
"""Answers that no exercise takes."""

PREPARE = """
from localgraphrag import Project, RecordedEmbedder, RecordedEngine, demo, embed, llm
from localgraphrag.notebook import ExtractionTrace
from pathlib import Path

demo.recording = lambda: Path({recording!r})
ExtractionTrace.packaged = staticmethod(lambda: Path({trace!r}))
llm.load_engine = lambda *_: RecordedEngine(demo.recording())
Project._check_model = lambda _: None
embed.load_embedder = lambda *_: RecordedEmbedder(demo.recording())
"""


def named(path: Path) -> str:
    return path.name


def cells(path: Path, kind: str) -> list[str]:
    return [cell.source for cell in nbformat.read(path, as_version=4).cells if cell.cell_type == kind]


def exercises(path: Path) -> list[tuple[str, str]]:
    """The answer that stands folded above each exercise, and the exercise's cell."""
    notebook = nbformat.read(path, as_version=4).cells
    found = []
    for before, cell in pairwise(notebook):
        if cell.cell_type == "code" and cell.source.startswith(BLANK):
            found.append((before.source.split("```python\n")[1].split("\n```")[0], cell.source))
    return found


@pytest.fixture(scope="module")
def recorded(tmp_path_factory) -> tuple[Path, Path]:
    """A recording of the demo with a function for a model, and the trace of an extraction."""
    folder = tmp_path_factory.mktemp("recorded")
    record(ScriptedEngine(workbench.reply), HashEmbedder(), folder / "recorded.jsonl.gz", folder / "project")
    trace().save(folder / "trace.json")
    return folder / "recorded.jsonl.gz", folder / "trace.json"


@pytest.fixture(scope="module")
def preparing(request) -> str:
    """A first cell that makes the notebook take the packaged recording, or else one of a function."""
    if demo.recording().exists() and ExtractionTrace.packaged().exists():
        recording, tracing = demo.recording(), ExtractionTrace.packaged()
    else:
        recording, tracing = request.getfixturevalue("recorded")
    return PREPARE.format(recording=str(recording), trace=str(tracing))


@pytest.mark.parametrize("path", NOTEBOOKS, ids=named)
def test_it_runs_in_a_kernel_and_its_exercises_tell_right_from_wrong(path, preparing, tmp_path):
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    new = nbformat.v4.new_code_cell
    checked = [new(preparing)]
    answers = dict((source, answer) for answer, source in exercises(path))
    for cell in notebook.cells:
        checked.append(cell)
        if cell.cell_type == "code" and cell.source in answers:
            check = cell.source.removeprefix(BLANK)
            checked += [new(f"{answers[cell.source]}\n{check}"), new(refusal(check))]
    notebook.cells = checked
    execute(notebook, tmp_path)
    rendered = page(notebook, path.stem)
    assert "<script" not in rendered and "widget-view" not in rendered
    assert ("lgr-static" in rendered) == any("localgraphrag.notebook" in source for source in cells(path, "code"))
    left = {"my-corpus"} if path.name == OWN else set()
    assert {file.name for file in tmp_path.iterdir()} == left, "nothing else is left beside the notebook"


def refusal(check: str) -> str:
    """A cell that fails if a check takes a wrong answer."""
    tried = f"try:\n{indent(check, '    ')}\nexcept Exception:\n    continue\nraise SystemError(f'{{mine!r}} is taken')"
    return f"for mine in {WRONG!r}:\n{indent(tried, '    ')}"


def test_an_error_in_a_widget_is_seen(tmp_path):
    source = "from ipywidgets import interact\n\n@interact(a=(0, 1))\ndef shown(a=0):\n    return 1 / a"
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source)])
    with pytest.raises(RuntimeError, match="ZeroDivisionError"):
        execute(notebook, tmp_path)


def test_a_page_shows_what_a_widget_has_put_out(tmp_path):
    source = "from ipywidgets import interact\n\n@interact(a=(0, 1))\ndef shown(a=1):\n    return '<i>' + 'o' * 9"
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source)])
    assert "&lt;i&gt;ooooooooo" in page(execute(notebook, tmp_path), "A page")


@pytest.mark.model
@pytest.mark.slow
def test_your_own_corpus_runs_with_a_real_model(tmp_path, monkeypatch):
    model = models_folder() / SMALL_MODEL
    if not model.exists():
        pytest.skip(f"needs the small model: put {SMALL_MODEL} into {models_folder()}")
    settings = {"MODEL": str(model), "EMBEDDER": "hash", "INCLUDE": '["school-*"]', "CHUNK_SIZE": "150"}
    for name, value in (settings | {"CHUNK_OVERLAP": "20", "CLAIMS": "false"}).items():
        monkeypatch.setenv(f"LOCALGRAPHRAG_{name}", value)
    execute(nbformat.read(REPO / "notebooks" / OWN, as_version=4), tmp_path)
    assert {"index.db", "graph.graphml", "answers.html"} <= {file.name for file in (tmp_path / "my-corpus").iterdir()}


def test_there_are_ten():
    assert [path.name[:2] for path in NOTEBOOKS] == [f"{number:02}" for number in range(10)]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=named)
def test_it_is_kept_without_outputs_and_in_short_cells(path):
    notebook = json.loads(path.read_text(encoding="utf-8"))
    code = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert [cell for cell in code if cell["outputs"] or cell["execution_count"]] == []
    assert "widgets" not in notebook["metadata"]
    lines = [[line for line in cell["source"] if line.strip()] for cell in code]
    assert [cell for cell in lines if len(cell) > LONGEST] == []
    assert len(cells(path, "markdown")) >= len(code) / 2, "what each stage takes and gives is said in words"


@pytest.mark.parametrize("path", NOTEBOOKS, ids=named)
def test_it_has_what_a_lesson_needs(path):
    told, code = cells(path, "markdown"), cells(path, "code")
    assert len(exercises(path)) == 3
    assert sum("## A question to close with" in text and "<summary>An answer</summary>" in text for text in told) == 1
    if not path.name.startswith("00"):
        assert "**Takes**" in told[0] and "**Gives**" in told[0]
        assert re.search(r"\((\d\.\d|\d)", told[0]) or path.name == OWN, "names the paper's section"
    lesson = [source for source in code if not source.startswith(BLANK)]
    assert any(re.search(r"\w+View|Stepper|interactive", source) for source in lesson)
    assert any("\nassert" in source for source in lesson), "a view is driven from a cell, and what it gives is asserted"
    switches = [source for source in code if source.startswith("REAL_MODEL")]
    assert switches == ([] if path.name == OWN else ["REAL_MODEL = False"])
    assert any("## Which model" in text for text in told) or path.name == OWN, "errors of a recording name this cell"


@pytest.mark.parametrize("path", NOTEBOOKS, ids=named)
def test_it_defines_nothing_that_is_the_library_s(path):
    """A notebook shows the library at work; what it defines itself is for its widgets and stays a few lines."""
    code = "\n".join(cells(path, "code"))
    assert "class " not in code
    assert len(re.findall(r"^ *def ", code, re.MULTILINE)) <= 2
