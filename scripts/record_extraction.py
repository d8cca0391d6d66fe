"""Records an extraction token by token, for a notebook that shows the grammar at work without a model.

    python scripts/record_extraction.py [MODEL [DOCUMENT]]

Extracts from the first chunk of a document of the demo corpus (the first by name, or the one whose file name begins
with DOCUMENT) and writes the packaged trace. MODEL is a name of the catalogue; the settings' own if it is left out.
Run it again after a change to the prompts or grammars of extraction.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path


def main():
    from localgraphrag import Project, demo
    from localgraphrag.chunks import chunk_document
    from localgraphrag.documents import read_documents
    from localgraphrag.notebook import ExtractionTrace, trace_extraction

    chosen = {"model": sys.argv[1]} if len(sys.argv) > 1 else {}
    chosen["slots"] = 1
    beginning = sys.argv[2] if len(sys.argv) > 2 else ""
    paths = [path for path in sorted(demo.corpus_folder().iterdir()) if path.name.startswith(beginning)]
    document = read_documents(paths[:1]).documents[0]
    with tempfile.TemporaryDirectory() as folder, Project.open(Path(folder), **chosen) as project:
        settings = project.settings
        chunk, *_ = chunk_document(
            document, project.engine.tokenizer, size=settings.chunk_size, overlap=settings.chunk_overlap
        )
        trace = trace_extraction(chunk, project.engine, settings, project.prompts)
    trace.save(ExtractionTrace.packaged())
    for turn in trace.turns:
        struck = sum(step.struck for step in turn.steps)
        print(f"{turn.key}: {len(turn.steps)} tokens, {struck} struck out, {turn.taken_back} taken back\n{turn.text}")
    print(f"written: {ExtractionTrace.packaged()}")


if __name__ == "__main__":
    main()
