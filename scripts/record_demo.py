"""Records what the default model says to the demo corpus, for notebooks that run without a model.

    python scripts/record_demo.py [TARGET]

Indexes the corpus with the reports of C0 alone, asks the demo's question at C0, TS and SS, and writes TARGET (the
packaged recording by default): more than ten minutes on two cores. Run it again after a change to a prompt, a grammar
or a stage. Vectors are those of `HashEmbedder`, as in the notebook.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

CONDITIONS = ["C0", "TS", "SS"]


def record(engine, target, folder, progress=None):
    """Let an engine do the notebook's work in a new project, and keep its replies in `target`. Returns the answers."""
    from localgraphrag import Project, demo
    from localgraphrag.embed import HashEmbedder
    from localgraphrag.llm.recorded import RecordingEngine

    recording = RecordingEngine(engine, target)
    with Project.open(folder, engine=recording, embedder=HashEmbedder(), **demo.RECORDED_SETTINGS) as project:
        summary = project.index(demo.corpus_folder(), progress=progress)
        answers = project.compare(demo.question(), CONDITIONS, progress=progress)
    if summary.failures or answers.errors:
        sys.exit(f"Nothing is recorded, because something failed: {summary.failures} {answers.errors}")
    recording.save()
    return answers


def main():
    from localgraphrag import Project, demo

    target = Path(sys.argv[1]) if len(sys.argv) > 1 else demo.recording()
    with tempfile.TemporaryDirectory() as folder, Project.open(folder) as model:
        answers = record(model.engine, target, Path(folder) / "project", show)
    for name, answer in answers.answers.items():
        print(f"\n{name}: {answer.text}")
    print(f"\nwrote {target}, {target.stat().st_size / 1000:.0f} kB", file=sys.stderr)


def show(progress):
    print(f"{progress.stage} {progress.done}/{progress.total} {progress.detail}"[:110], file=sys.stderr)


if __name__ == "__main__":
    main()
