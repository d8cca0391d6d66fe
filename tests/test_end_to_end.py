"""The real thing: the default model indexes three documents of the demo corpus and answers over them."""

from __future__ import annotations

import shutil

import pytest

from localgraphrag import Project, tables
from localgraphrag.config import Settings, models_folder
from localgraphrag.demo import corpus_folder
from localgraphrag.embed import HashEmbedder
from localgraphrag.llm.catalog import find_entry

DOCUMENTS = ("Letter-from-Ottoline-Reeve-2021.txt", "clinic-report-2022.md", "school-notice-2022.md")
NAMES = ("Ostrey Packet", "Quay Street", "Nuala Brisco", "Ostrey Clinic", "Ostrey School", "Perrin Doule")


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    name = Settings().model
    if not find_entry(name).path(models_folder()).exists():
        pytest.skip(f"the default model {name} is not here; `localgraphrag models pull {name}` fetches it")
    folder = tmp_path_factory.mktemp("real")
    papers = folder / "papers"
    papers.mkdir()
    for document in DOCUMENTS:
        shutil.copy(corpus_folder() / document, papers)
    # cheap enough for a test: no gleaning, no claims, and one report over everything, written by the model
    settings = {"max_gleanings": 0, "claims": False, "slots": 4, "max_community_size": 100}
    with Project.open(folder / "project", embedder=HashEmbedder(), min_report_tokens=50, **settings) as project:
        project.summary = project.index(papers)
        yield project


@pytest.mark.model
@pytest.mark.slow
@pytest.mark.timeout(360)  # about two minutes on two cores; one that takes six has something wrong with it
def test_index_and_answer_with_the_default_model(project):
    summary = project.summary
    assert summary.complete, summary.failures
    assert summary.chunks == len(DOCUMENTS)
    with project.store() as store:
        index = tables.load_index(store)
    found = {node.name for node in index.graph.nodes}
    assert sum(any(name in f for f in found) for name in NAMES) >= 4, found
    assert any(report.written for report in index.reports.values())

    answer = project.query("What is wrong with the children of Ostrey School?", level=0)
    assert "rash" in answer.text or "stomach" in answer.text, answer.text
    assert answer.citations
    chunks = {chunk.id: chunk for chunk in index.chunks}
    documents = {document.id: document for document in index.documents}
    cited = []
    for citation in answer.citations:
        assert f"[{citation.number}]" in answer.text
        assert citation.id in index.reports and citation.sources
        for source in citation.sources:
            chunk = chunks[source.chunk_id]
            assert chunk.document_id == source.document_id and chunk.start <= source.start < source.end <= chunk.end
            cited.append(documents[source.document_id].text[source.start : source.end])
    assert any("rash" in text or "stomach" in text for text in cited), cited
    assert project.verify() == []
