"""Extraction by a real model, the smallest there is: it tries the grammars harder than a good one."""

from __future__ import annotations

import pytest

from benchmarks.common import Listening
from localgraphrag.chunks import chunk_document
from localgraphrag.config import Settings, models_folder
from localgraphrag.demo import corpus_folder
from localgraphrag.documents import read_documents
from localgraphrag.extract import extraction_units
from localgraphrag.llm import load_engine
from localgraphrag.llm.units import EngineRunner, run_all
from localgraphrag.prompts import Prompts

FILE = models_folder() / "SmolLM2-135M-Instruct.Q4_1.gguf"


@pytest.mark.model
@pytest.mark.skipif(not FILE.exists(), reason=f"{FILE.name} is not in {FILE.parent}")
def test_every_reply_parses_on_fifty_chunks():
    """Short ones, since a processor reads and writes few tokens a second; `benchmarks.valid` takes whole ones."""
    settings = Settings(model=str(FILE), slots=16, batch=256, context_window=2000)
    engine = load_engine(settings)
    listening = Listening(engine)
    documents = read_documents([corpus_folder()]).documents
    chunks = [c for d in documents for c in chunk_document(d, engine.tokenizer, size=40, overlap=0)][::3][:50]
    outcomes = run_all(EngineRunner(listening), extraction_units(chunks, settings, Prompts()))
    engine.close()
    assert len(outcomes) == 50
    assert {name: outcome.error for name, outcome in outcomes.items() if not outcome.ok} == {}
    assert listening.invalid() == []
    assert {request.key.split()[-1] for request, _ in listening.heard} == {"names", "missed", "more", "claims"}
