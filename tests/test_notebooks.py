"""The notebooks run from top to bottom, on recorded answers and with nothing else."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import spoken

from localgraphrag import demo
from localgraphrag.llm.scripted import ScriptedEngine

REPO = Path(__file__).parents[1]
NOTEBOOKS = sorted((REPO / "notebooks").glob("*.ipynb"))
LONGEST = 10
"""Lines of a cell."""


def cells(path: Path, kind: str) -> list[str]:
    notebook = json.loads(path.read_text(encoding="utf-8"))
    return ["".join(cell["source"]) for cell in notebook["cells"] if cell["cell_type"] == kind]


@pytest.fixture(scope="module")
def recorded(tmp_path_factory) -> Path:
    """A recording of the demo with a function for a model."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(REPO / "scripts"))
        import record_demo

    folder = tmp_path_factory.mktemp("recorded")
    record_demo.record(ScriptedEngine(spoken.reply), folder / "recorded.jsonl.gz", folder / "project")
    return folder / "recorded.jsonl.gz"


def test_the_demo_runs_on_whatever_was_recorded(recorded, monkeypatch, capsys):
    monkeypatch.setattr(demo, "recording", lambda: recorded)
    names: dict[str, object] = {}
    for source in cells(REPO / "notebooks/00_demo.ipynb", "code"):
        exec(compile(source, "00_demo.ipynb", "exec"), names)
    shown = capsys.readouterr().out
    assert shown.rstrip().endswith("[]"), "the index is sound"
    assert demo.question() in shown
    for condition in ("C0: ", "TS: ", "SS: "):
        assert condition in shown


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.name)
def test_it_runs_in_a_kernel(path, tmp_path):
    if not demo.recording().exists():
        pytest.skip("the demo's answers are not recorded yet; run `python scripts/record_demo.py`")
    nbclient = pytest.importorskip("nbclient", reason="needs `pip install localgraphrag[dev]`")
    pytest.importorskip("ipykernel", reason="needs `pip install localgraphrag[dev]`")
    import nbformat

    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    client = nbclient.NotebookClient(notebook, timeout=600, resources={"metadata": {"path": str(tmp_path)}})
    client.execute()
    assert list(tmp_path.iterdir()) == [], "nothing is left beside the notebook"


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.name)
def test_it_is_kept_without_outputs_and_in_short_cells(path):
    notebook = json.loads(path.read_text(encoding="utf-8"))
    code = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert [cell for cell in code if cell["outputs"] or cell["execution_count"]] == []
    assert [cell["source"] for cell in code if len(cell["source"]) > LONGEST] == []
    assert len(cells(path, "markdown")) >= len(code) / 2, "what each stage takes and gives is said in words"
