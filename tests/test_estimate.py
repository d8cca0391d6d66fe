"""What `index` would take, told beforehand: held against what it then takes."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import workbench as bench

from localgraphrag import estimate as estimating
from localgraphrag.embed import HashEmbedder
from localgraphrag.errors import ConfigError, ContextError, ModelMissingError, NoDocumentsError, StoreError
from localgraphrag.llm.scripted import ScriptedEngine
from localgraphrag.pipeline import IndexSummary
from localgraphrag.project import Project


@pytest.fixture
def docs(tmp_path: Path) -> Path:
    return bench.write_corpus(tmp_path / "docs", documents=6, sentences=6)


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return open_project(tmp_path)


def open_project(tmp_path: Path, answer: Any = bench.reply, **settings: Any) -> Project:
    return bench.open_project(tmp_path / "project", answer, **settings)


def calls(summary: IndexSummary) -> dict[str, int]:
    return {stage.stage: stage.usage.calls for stage in summary.stages if stage.units}


class TestWhatIsToDo:
    def test_of_documents_that_are_new(self, project: Project, docs: Path):
        told = project.estimate(docs)
        assert told.chunks > told.stored == 0
        assert told.reports == round(told.chunks * estimating.REPORTS_PER_CHUNK)
        assert told.calls >= told.chunks + told.reports
        assert told.seconds > 0
        assert not told.measured

    def test_of_an_index_that_is_complete_nothing(self, project: Project, docs: Path):
        summary = project.index(docs)
        told = project.estimate()
        assert (told.chunks, told.stored) == (summary.chunks, summary.chunks)
        assert (told.reports, told.calls, told.read_tokens, told.seconds) == (0, 0, 0, 0)

    @pytest.mark.parametrize("descriptions", ["quoted", "written"])
    def test_of_reports_that_are_missing_their_number(self, descriptions: str, docs: Path, tmp_path: Path):
        settings = {"descriptions": descriptions, "description_budget": 50}
        first = open_project(tmp_path, report_levels=[0], **settings)
        assert first.index(docs).complete
        assert first.estimate().calls == 0
        whole = open_project(tmp_path, **settings)
        told = whole.estimate()
        assert (told.stored, told.reports) == (told.chunks, told.calls)
        assert 0 < told.calls == calls(whole.index())["report"]

    def test_of_reports_that_an_interrupted_run_did_not_come_to(self, docs: Path, tmp_path: Path):
        with pytest.raises(KeyboardInterrupt):
            open_project(tmp_path, bench.stopping("report", after=3)).index(docs)
        project = open_project(tmp_path)
        told = project.estimate()
        assert told.stored == told.chunks
        assert 0 < told.calls == told.reports == calls(project.index())["report"]

    def test_of_descriptions_that_the_model_merges_their_number_as_well(self, tmp_path: Path):
        docs = tmp_path / "docs"
        docs.mkdir()
        told_of = " ".join(f"In the year {1800 + i} Ada wrote to Byron of the work of Clara." for i in range(20))
        (docs / "letter.txt").write_text(told_of)
        settings = {"descriptions": "written", "description_budget": 50}

        def answer(messages: Any, request: Any) -> str:
            if request.key.startswith("describe"):
                raise KeyboardInterrupt
            year = re.findall(r"18\d\d", " ".join(message.content for message in messages))[-1]
            return bench.reply(messages, request).replace("Wrote of the work", f"Wrote in the year {year} of the work")

        with pytest.raises(KeyboardInterrupt):
            open_project(tmp_path, answer, **settings).index(docs)
        project = open_project(tmp_path, **settings)
        told = project.estimate()
        made = calls(project.index())
        assert told.calls - told.reports == made["describe"] > 0
        assert told.reports == made["report"]

    def test_of_an_interrupted_extraction_the_rest(self, docs: Path, tmp_path: Path):
        with pytest.raises(KeyboardInterrupt):
            open_project(tmp_path, bench.stopping("extract", after=60)).index(docs)
        project = open_project(tmp_path)
        told = project.estimate()
        made = calls(project.index())
        assert estimating.ENOUGH_UNITS < told.stored < told.chunks
        assert told.measured
        assert told.calls == pytest.approx(sum(made.values()), rel=0.3)

    def test_of_a_new_document_its_own_chunks(self, project: Project, docs: Path):
        summary = project.index(docs)
        (docs / "new.txt").write_text("Pascal met Ohm.")
        told = project.estimate()
        assert (told.chunks, told.stored, told.measured) == (summary.chunks + 1, summary.chunks, True)
        each = {stage.stage: stage.usage.calls / stage.units for stage in summary.stages if stage.units}
        reports = calls(summary)["report"] / summary.chunks
        assert told.calls == round(each["extract"] + reports)

    def test_of_a_deleted_document_the_reports_that_it_changes(self, project: Project, docs: Path):
        project.index(docs)
        next(docs.iterdir()).unlink()
        told = project.estimate()
        assert told.stored == told.chunks
        assert 0 < told.reports == calls(project.index())["report"]

    def test_of_the_same_passage_in_two_places_one(self, tmp_path: Path):
        passage = " ".join(bench.sentence(i) for i in range(12))
        for place in ("one", "another"):
            (tmp_path / place).mkdir()
            (tmp_path / place / "letter.txt").write_text(f"{passage} Then she went to {place}.")
        project = open_project(tmp_path, chunk_overlap=0, report_levels=[9])
        told = project.estimate([tmp_path / "one", tmp_path / "another"])
        alone = project.estimate(tmp_path / "one")
        assert told.chunks == 2 * alone.chunks > 10
        assert told.calls < 1.3 * alone.calls


class TestWhatItGoesBy:
    def test_options(self, docs: Path, tmp_path: Path):
        def told(**settings: Any) -> int:
            return open_project(tmp_path, **settings).estimate(docs).calls

        usual = told()
        assert told(max_gleanings=3) > usual > told(max_gleanings=0)
        assert told(claims=False) < usual
        assert told(report_levels=[0]) < usual
        assert told(descriptions="written") > usual

    def test_other_options_than_those_of_the_index(self, project: Project, docs: Path, tmp_path: Path):
        project.index(docs)
        assert open_project(tmp_path, report_levels=[0]).estimate().calls == 0
        other = open_project(tmp_path, claims=False).estimate()
        assert (other.stored, other.measured) == (0, False)
        longer = open_project(tmp_path, report_tokens=200)
        told = longer.estimate()
        assert told.stored == told.chunks
        assert 0 < told.calls == calls(longer.index())["report"]

    def test_another_model(self, project: Project, docs: Path, tmp_path: Path):
        project.index(docs)
        told = bench.open_project(tmp_path / "project", name="another").estimate()
        assert (told.stored, told.measured) == (0, False)
        assert told.calls > told.chunks

    def test_the_embedder_that_index_would_have(self, project: Project, docs: Path, tmp_path: Path, monkeypatch):
        project.index(docs)
        another = Project.open(tmp_path / "project", engine=project.engine, embedder=HashEmbedder(8), **bench.SETTINGS)
        assert another.estimate().calls == another.estimate().reports > 0

        def none(*_arguments: object) -> None:
            raise ModelMissingError("There is no embedder here.")

        monkeypatch.setattr("localgraphrag.embed.load_embedder", none)
        without = Project.open(tmp_path / "project", engine=project.engine, **bench.SETTINGS)
        told = without.estimate()
        assert told.calls == calls(without.index())["report"]

    def test_the_chunks_that_are_left_are_short_ones(self, docs: Path, tmp_path: Path):
        (docs / "long.txt").write_text(" ".join(bench.sentence(i) for i in range(60, 200)))
        settings = {"chunk_size": 400, "chunk_overlap": 0, "report_levels": [9]}
        with pytest.raises(KeyboardInterrupt):
            open_project(tmp_path, bench.stopping("extract", after=25), **settings).index(docs)
        project = open_project(tmp_path, **settings)
        told = project.estimate()
        with project.store() as store:
            each = store.scalar("SELECT avg(read_tokens) FROM units JOIN unit_costs USING (key)")
        assert told.measured
        assert told.stored < told.chunks
        assert told.read_tokens < (told.chunks - told.stored) * (each - 50)


class TestWhatCannotBeTold:
    def test_nothing_to_read(self, project: Project, tmp_path: Path):
        with pytest.raises(NoDocumentsError, match="this project has none from before"):
            project.estimate()
        with pytest.raises(NoDocumentsError):
            project.estimate(tmp_path / "nowhere")
        with pytest.raises(ConfigError, match="An empty path was given"):
            project.estimate("")
        with pytest.raises(ConfigError, match="A path was given as 3"):
            project.estimate(3)  # type: ignore[arg-type]

    def test_an_index_that_is_empty_or_not_begun(self, project: Project, docs: Path, tmp_path: Path):
        fresh = project.estimate(docs).calls
        project.folder.mkdir()
        project.index_path.touch()
        assert project.estimate(docs).calls == fresh
        project.index_path.unlink()
        project.index(docs)
        (tmp_path / "away").mkdir()
        docs.rename(tmp_path / "away" / "docs")
        docs.mkdir()
        project.index(docs, drop=True)
        with pytest.raises(NoDocumentsError):
            project.estimate()
        assert project.estimate(tmp_path / "away").calls == fresh

    def test_an_index_that_is_broken(self, project: Project, docs: Path):
        project.folder.mkdir()
        project.index_path.write_bytes(b"no index" * 1000)
        with pytest.raises(StoreError, match="damaged or not an index"):
            project.estimate(docs)

    @pytest.mark.parametrize("tokens", [900, 1100])  # too few for a report, and for a chunk
    def test_what_does_not_fit_the_context(self, tokens: int, docs: Path, tmp_path: Path):
        engine = ScriptedEngine(bench.reply, context_tokens=tokens)
        project = Project.open(tmp_path / "project", engine=engine, embedder=HashEmbedder(16), **bench.SETTINGS)
        with pytest.raises(ContextError) as told:
            project.estimate(docs)
        with pytest.raises(ContextError) as refused:
            project.index(docs)
        assert str(told.value) == str(refused.value)


def test_it_writes_nothing(project: Project, docs: Path, tmp_path: Path):
    project.estimate(docs)
    assert not project.folder.exists()
    project.index(docs)

    def held() -> dict[Path, bytes]:
        return {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}

    before = held()
    (docs / "new.txt").write_text("Pascal met Ohm.")
    assert project.estimate().calls > 0
    (docs / "new.txt").unlink()
    assert held() == before
