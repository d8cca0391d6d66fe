"""Records what the default model says to the demo corpus, for notebooks that run without a model.

    python scripts/record_demo.py [TARGET]

Indexes the corpus with the reports of all levels, extracts from the longest papers in chunks of two sizes, asks the
demo's question at C0, C1, TS and SS, has two of the answers judged, and writes TARGET (the packaged recording by
default): about 25 minutes on two cores. Run it again after a change to a prompt, a grammar or a stage. The vectors that
the embedder makes of the texts are recorded as well.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path


def record(engine, embedder, target, folder, progress=None):
    """Let models do the notebooks' work in a new project, and keep what they say in `target`. Returns the answers."""
    from localgraphrag import Project, demo, evaluate
    from localgraphrag.evaluate.facts import key_questions
    from localgraphrag.evaluate.measures import add_questions
    from localgraphrag.llm.recorded import RecordingEngine
    from localgraphrag.llm.recorded_vectors import RecordingEmbedder

    recording = RecordingEngine(engine, target)
    hearing = RecordingEmbedder(embedder, recording)
    with Project.open(folder, engine=recording, embedder=hearing, **demo.RECORDED_SETTINGS) as project:
        summary = project.index(demo.corpus_folder(), progress=progress)
        answers = project.compare(demo.question(), demo.RECORDED_CONDITIONS, progress=progress)
        failures = [*summary.failures, *answers.errors.items(), *extract_long(project)]
        add_questions(project, [row for row in key_questions(demo.facts()) if row["question"] == demo.question()])
        grid = evaluate.run(project, conditions=demo.RECORDED_CONDITIONS, progress=progress)
        judged = evaluate.judge_answers(project, conditions=demo.JUDGED_CONDITIONS, repeats=2, progress=progress)
        pack_otherwise(project)
    failures += [*grid.unanswered, *["a verdict"] * judged.failed]
    if failures:
        sys.exit(f"Nothing is recorded, because something failed: {failures}")
    recording.save()
    return answers


def extract_long(project):
    """Extract from the long document in chunks of both sizes; what failed."""
    from localgraphrag import demo
    from localgraphrag.chunks import chunk_document
    from localgraphrag.extract import extraction_units
    from localgraphrag.llm.units import EngineRunner, run_all

    settings, failed = project.settings, []
    for size in (settings.chunk_size, demo.LONG_CHUNK):
        chunks = chunk_document(
            demo.long_document(), project.engine.tokenizer, size=size, overlap=settings.chunk_overlap
        )
        outcomes = run_all(EngineRunner(project.engine), extraction_units(chunks, settings, project.prompts))
        failed += [(name, outcome.error) for name, outcome in outcomes.items() if not outcome.ok]
    return failed


def pack_otherwise(project):
    """Pack reports and batches as the notebooks do beside what the pipeline needs, so that the tokens are counted."""
    from localgraphrag import demo, tables
    from localgraphrag.llm.units import EngineRunner
    from localgraphrag.packing import Packer
    from localgraphrag.search.mapreduce import MapReduce
    from localgraphrag.search.passages import report_passage
    from localgraphrag.search.sources import Provenance
    from localgraphrag.summaries import context_budget

    settings = project.settings
    with project.store() as store:
        index = tables.load_index(store)
    packer = Packer(
        index.graph, index.hierarchy, project.engine.tokenizer.count, quoted=settings.descriptions == "quoted"
    )
    whole = context_budget(settings, project.prompts, project.engine)
    for community in index.hierarchy.level(0):
        needed = packer.pack(community.id, index.reports, whole).whole
        for budget in (needed // 2, 2 * needed, *range(60, 1501, 60)):
            packer.pack(community.id, index.reports, budget)
    level = index.hierarchy.level(min(1, len(index.hierarchy.levels) - 1))
    known = Provenance(index.hierarchy, index.reports, index.graph, index.chunks)
    runner = EngineRunner(project.engine)
    search = MapReduce("global", 1, "reports of C1", settings.seed, settings, project.prompts, runner, known)
    ordered = sorted(level, key=lambda community: (community.parent, community.id))
    search.packed(demo.question(), [report_passage(index.reports[community.id]) for community in ordered])


def main():
    from localgraphrag import Project, demo

    target = Path(sys.argv[1]) if len(sys.argv) > 1 else demo.recording()
    begun = time.monotonic()
    with tempfile.TemporaryDirectory() as folder, Project.open(folder) as model:
        answers = record(model.engine, model.embedder, target, Path(folder) / "project", show)
    for name, answer in answers.answers.items():
        print(f"\n{name}: {answer.text}")
    minutes = (time.monotonic() - begun) / 60
    print(f"\nwrote {target}, {target.stat().st_size / 1000:.0f} kB, in {minutes:.1f} minutes", file=sys.stderr)


def show(progress):
    print(f"{progress.stage} {progress.done}/{progress.total} {progress.detail}"[:110], file=sys.stderr)


if __name__ == "__main__":
    main()
