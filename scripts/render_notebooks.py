"""Runs the notebooks on the packaged recording and writes each, with what it shows, as a page into docs/notebooks.

    python scripts/render_notebooks.py [FOLDER]

The pages need neither Jupyter nor script nor network: views are in their static form. The notebook that always uses
the real model is rendered as it stands. Run it after `record_demo.py`, and after a change to a notebook.
"""

from __future__ import annotations

import html
import sys
import tempfile
from pathlib import Path

REPO = Path(__file__).resolve().parents[1]
TARGET = REPO / "docs" / "notebooks"
NEEDS_MODEL = "09"
"""How the name of the notebook that always uses the real model begins."""

WIDGET = "application/vnd.jupyter.widget-view+json"
STATE = "application/vnd.jupyter.widget-state+json"

STYLE = """
:root { color-scheme: light dark; }
body { max-width: 62rem; margin: 2rem auto; padding: 0 1rem; font: 16px/1.5 system-ui, sans-serif; }
pre { overflow-x: auto; white-space: pre-wrap; } code, pre { font: 14px/1.4 ui-monospace, monospace; }
.jp-CodeCell .highlight, .highlight { padding: .1rem .8rem; border-left: 3px solid #0072b2; }
.jp-OutputArea-output { margin: .5rem 0 .5rem 1rem; } .jp-Prompt, .anchor-link { display: none; }
table { border-collapse: collapse; } td, th { padding: .2rem .6rem; text-align: left; }
"""


def execute(notebook, folder, timeout=300):
    """Run a notebook in a kernel of its own, in a folder. Raises for an error in a cell or in an Output widget."""
    from nbclient import NotebookClient

    resources = {"metadata": {"path": str(folder)}}
    NotebookClient(notebook, timeout=timeout, resources=resources, store_widget_state=True).execute()
    wrong = widget_errors(notebook)
    if wrong:
        raise RuntimeError(f"A widget shows an error: {'; '.join(wrong)}")
    return notebook


def models(notebook):
    """The widgets of a notebook that was run: their state by id."""
    kept = notebook.metadata.get("widgets", {}).get(STATE, {"state": {}})
    return {name: model["state"] for name, model in kept["state"].items()}


def widget_errors(notebook):
    """What went wrong in functions that a widget called. A widget shows such an error, and the run goes on."""
    outputs = [output for state in models(notebook).values() for output in state.get("outputs", ())]
    return [f"{output['ename']}: {output['evalue']}" for output in outputs if output["output_type"] == "error"]


def page(notebook, title):
    """The notebook as one HTML page."""
    from nbconvert import HTMLExporter

    plain = without_widgets(notebook)
    body, _ = HTMLExporter(template_name="basic").from_notebook_node(plain)
    head = f"<meta charset='utf-8'><title>{html.escape(title)}</title><style>{STYLE}</style>"
    return f"<!doctype html>\n<html lang='en'><head>{head}</head><body>\n{body}\n</body></html>\n"


def without_widgets(notebook):
    """A copy in which each view is its static form, and each other widget what it has put out."""
    import copy

    plain, states = copy.deepcopy(notebook), models(notebook)
    plain.metadata.pop("widgets", None)
    for cell in plain.cells:
        if cell.cell_type == "code":
            cell.outputs = [shown for output in cell.outputs for shown in static(output, states)]
    return plain


def static(output, states):
    """The outputs that stand for one output where there is no widget."""
    from nbformat import from_dict

    data = output.get("data", {})
    if WIDGET not in data:
        return [output]
    if "text/html" in data:
        output["data"] = {"text/html": data["text/html"]}
        return [output]
    inner = outputs_below(data[WIDGET]["model_id"], states)
    return [shown for one in inner for shown in static(from_dict(one), states)]


def outputs_below(model, states):
    """What the Output widgets within a widget hold."""
    state = states.get(model, {})
    below = [child.removeprefix("IPY_MODEL_") for child in state.get("children", ())]
    return [*state.get("outputs", ()), *(output for child in below for output in outputs_below(child, states))]


def main():
    import nbformat

    target = Path(sys.argv[1]) if len(sys.argv) > 1 else TARGET
    target.mkdir(parents=True, exist_ok=True)
    for path in sorted((REPO / "notebooks").glob("*.ipynb")):
        notebook = nbformat.read(path, as_version=4)
        with tempfile.TemporaryDirectory() as folder:
            if not path.name.startswith(NEEDS_MODEL):
                execute(notebook, folder)
        written = target / f"{path.stem}.html"
        shown = page(notebook, f"{path.stem} · localgraphrag")
        for mine, everybodys in ((tempfile.gettempdir(), ""), (str(Path.home()), "~")):
            shown = shown.replace(mine, everybodys)
        written.write_text(shown, encoding="utf-8")
        print(f"wrote {written}, {written.stat().st_size / 1000:.0f} kB", file=sys.stderr)


if __name__ == "__main__":
    main()
