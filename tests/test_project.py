import asyncio
import json
import subprocess
import sys
import threading
from dataclasses import asdict
from pathlib import Path

import pytest
import workbench as bench

import localgraphrag
from localgraphrag.config import Settings, load_settings, settings_text
from localgraphrag.errors import ConfigError, ModelMissingError, NoDocumentsError, NotFoundError, NotIndexedError
from localgraphrag.llm.scripted import ScriptedEngine
from localgraphrag.project import Project


@pytest.fixture
def docs(tmp_path: Path) -> Path:
    return bench.write_corpus(tmp_path / "docs")


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return bench.open_project(tmp_path / "project")


class TestPackage:
    def test_all_is_sorted_and_every_name_is_there(self):
        assert localgraphrag.__all__ == sorted(localgraphrag.__all__)
        for name in localgraphrag.__all__:
            assert getattr(localgraphrag, name).__name__ == name
        assert set(localgraphrag.__all__) <= set(dir(localgraphrag))
        with pytest.raises(AttributeError, match="it has Answer"):
            _ = localgraphrag.Nothing

    def test_importing_it_imports_nothing_else(self):
        script = (
            "import sys; before = set(sys.modules); import localgraphrag; print(*sorted(set(sys.modules) - before))"
        )
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
        ours = [name for name in done.stdout.split() if name.startswith("localgraphrag")]
        assert ours == ["localgraphrag"]
        assert not {"numpy", "pydantic", "torch", "llama_cpp", "outlines"} & set(done.stdout.split())

    def test_opening_a_project_loads_no_model_and_no_numbers(self, tmp_path: Path):
        script = (
            "import sys; from localgraphrag import Project; Project.open(sys.argv[1]);"
            "print(*(m for m in ('numpy', 'torch', 'llama_cpp', 'outlines', 'igraph', 'networkx') if m in sys.modules))"
        )
        done = subprocess.run([sys.executable, "-c", script, tmp_path], capture_output=True, text=True, check=True)
        assert done.stdout.split() == []


class TestSettings:
    def test_init_writes_every_setting_with_its_default_and_why(self, tmp_path: Path):
        project = Project.init(tmp_path / "new")
        text = (tmp_path / "new" / "localgraphrag.toml").read_text(encoding="utf-8")
        for name, field in Settings.model_fields.items():
            assert f"\n{name} = " in text
            assert field.description.split()[0] in text
        assert load_settings(tmp_path / "new") == Settings() == project.settings

    def test_settings_survive_the_file(self, tmp_path: Path):
        given = {"model": r"C:\models\qu\"ote.gguf", "entity_types": ["лицо", "場所", "a#b", "x\x7fy"], "claims": False,
                 "cooccurrence_weight": 1e-05, "report_levels": [0, 2], "seed": 7}  # fmt: skip
        Project.init(tmp_path / "new", **given)
        assert load_settings(tmp_path / "new") == Settings(**given)
        assert "Default: true" in settings_text(given)

    def test_init_overwrites_nothing(self, tmp_path: Path):
        Project.init(tmp_path)
        with pytest.raises(ConfigError, match="there already"):
            Project.init(tmp_path)

    def test_overrides_win_and_wrong_ones_are_named(self, tmp_path: Path):
        Project.init(tmp_path, seed=1)
        assert Project.open(tmp_path, seed=2, model=None).settings.seed == 2
        with pytest.raises(ConfigError, match="max_gleanings"):
            Project.open(tmp_path, max_gleanings=99)

    def test_index_writes_the_defaults_where_there_are_no_settings(self, project: Project, docs: Path, monkeypatch):
        monkeypatch.setenv("LOCALGRAPHRAG_SEED", "4")
        project.index(docs)
        monkeypatch.delenv("LOCALGRAPHRAG_SEED")
        assert load_settings(project.folder) == Settings() != project.settings

    def test_init_writes_what_is_given_and_nothing_of_the_environment(self, tmp_path, monkeypatch):
        monkeypatch.setenv("LOCALGRAPHRAG_SEED", "4")
        assert Project.init(tmp_path, max_gleanings=2, model=None).settings.seed == 4
        monkeypatch.delenv("LOCALGRAPHRAG_SEED")
        assert load_settings(tmp_path) == Settings(max_gleanings=2)

    @pytest.mark.parametrize(
        ("name", "value", "says"),
        [
            ("INCLUDE", "*.pdf", """LOCALGRAPHRAG_INCLUDE='["*.pdf"]'"""),
            ("INCLUDE", "*.pdf, *.md", """LOCALGRAPHRAG_INCLUDE='["*.pdf", "*.md"]'"""),
            ("REPORT_LEVELS", "0,1", "LOCALGRAPHRAG_REPORT_LEVELS='[0, 1]'"),
            ("SEED", "abc", "LOCALGRAPHRAG_SEED='abc' (the environment) was given; it must be a whole number"),
        ],
    )
    def test_a_wrong_variable_is_named(self, tmp_path, monkeypatch, name, value, says):
        Project.init(tmp_path)
        monkeypatch.setenv(f"LOCALGRAPHRAG_{name}", value)
        with pytest.raises(ConfigError) as caught:
            load_settings(tmp_path)
        assert says in str(caught.value)
        assert "localgraphrag.toml" not in str(caught.value)

    @pytest.mark.parametrize(
        ("line", "says"),
        [
            ("chunk_size = 5", "chunk_size = 5 ({path}) was given; it must be a whole number from 20 to 8000."),
            ("claims = 3", "claims = 3 ({path}) was given; it must be true or false."),
            ("include = ['a', 1]", 'include = ["a", 1] ({path}) was given; it must be a list of texts.'),
            ("descriptions = 'x'", 'descriptions = "x" ({path}) was given; it must be "quoted" or "written".'),
            ("cooccurrence_weight = -1", "must be a number, at least 0."),
            ("color = 1", "There is no setting 'color' ({path}). Known settings: model,"),
            ('seed = "\xff"', "cannot be read"),
        ],
    )
    def test_a_wrong_line_of_the_file_is_named(self, tmp_path, line, says):
        path = tmp_path / "localgraphrag.toml"
        path.write_text(line, encoding="latin-1")
        with pytest.raises(ConfigError) as caught:
            load_settings(tmp_path)
        assert says.format(path=path) in str(caught.value)

    def test_an_override_wins_over_the_environment_and_that_over_the_file(self, tmp_path, monkeypatch):
        Project.init(tmp_path, seed=1)
        monkeypatch.setenv("LOCALGRAPHRAG_SEED", "2")
        assert load_settings(tmp_path).seed == 2
        assert load_settings(tmp_path, seed=3).seed == 3

    def test_an_overlap_must_be_below_the_size_of_a_chunk(self, tmp_path, monkeypatch):
        with pytest.raises(ConfigError, match=r"chunk_overlap = 100 \(the default\) and chunk_size = 100 do not go"):
            load_settings(tmp_path, chunk_size=100)
        monkeypatch.setenv("LOCALGRAPHRAG_CHUNK_SIZE", "50")
        with pytest.raises(ConfigError, match=r"LOCALGRAPHRAG_CHUNK_SIZE='50' \(the environment\) do not go together"):
            load_settings(tmp_path)
        assert load_settings(tmp_path, chunk_overlap=49).chunk_size == 50


class TestIndex:
    def test_nothing_to_read_makes_nothing(self, project: Project, tmp_path: Path):
        (tmp_path / "empty").mkdir()
        for paths in (tmp_path / "empty", tmp_path / "missing", []):
            with pytest.raises(NoDocumentsError):
                project.index(paths)
        assert not project.folder.exists()

    def test_a_missing_model_makes_nothing(self, docs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
        def none(_settings: Settings, *_folder: Path) -> None:
            raise ModelMissingError("no such model")

        monkeypatch.setattr("localgraphrag.llm.load_engine", none, raising=False)
        monkeypatch.setattr(Project, "_check_model", lambda _project: None)
        with pytest.raises(ModelMissingError):
            Project.open(tmp_path / "project").index(docs)
        assert not (tmp_path / "project").exists()

    def test_a_missing_model_is_told_before_anything_is_read(self, docs: Path, tmp_path: Path, monkeypatch):
        def read(*_arguments: object, **_options: object) -> None:
            raise AssertionError("a document was read")

        monkeypatch.setattr("localgraphrag.documents.read_documents", read)
        project = Project.open(tmp_path / "project", model="no-such-model")
        for verb in (project.index, project.estimate):
            with pytest.raises(ModelMissingError, match="There is no model 'no-such-model'"):
                verb(docs)
        assert not project.folder.exists()

    def test_without_an_embedder_all_but_vector_search_works(
        self, docs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ):
        def none(_settings: Settings, *_folder: Path) -> None:
            raise ModelMissingError("There is no embedder here. Run `localgraphrag models pull`.")

        monkeypatch.setattr("localgraphrag.embed.load_embedder", none)
        project = Project.open(tmp_path / "project", engine=ScriptedEngine(bench.reply), **bench.SETTINGS)
        summary = project.index(docs)
        assert "models pull" in summary.warnings[0]
        assert summary.complete
        assert project.query("Who?").text
        with pytest.raises(ModelMissingError, match="models pull"):
            project.query("Who?", "ss")
        compared = project.compare("Who?")
        assert list(compared.answers) == ["C0", "C1", "C2", "TS"]
        assert list(compared.errors) == ["SS"]

    def test_without_paths_it_reads_those_of_the_last_run(self, tmp_path: Path):
        project = bench.open_project(tmp_path / "project")
        with pytest.raises(NoDocumentsError, match="No paths were given"):
            project.index()
        inside = bench.write_corpus(project.folder / "docs", documents=2)
        project.index(inside)
        with project.store() as store:
            assert store.get("paths") == ["docs"]
        moved = project.folder.rename(tmp_path / "moved")
        (moved / "docs" / "more.txt").write_text("Pascal met Ohm.")
        summary = bench.open_project(moved).index()
        assert (summary.documents, summary.added, summary.removed) == (3, 1, 0)

    def test_documents_that_are_gone_are_dropped_and_so_are_paths(self, project: Project, docs: Path, tmp_path: Path):
        other = bench.write_corpus(tmp_path / "other", documents=1, sentences=2)
        (other / "letter00.txt").write_text("Tesla met Watt.")
        project.index([docs, other])
        (other / "letter00.txt").unlink()
        other.rmdir()
        with pytest.raises(ConfigError, match="gone or empty.*--drop"):
            project.index()
        other.mkdir()  # as the folder of a drive that is not mounted
        with pytest.raises(ConfigError, match="gone or empty"):
            project.index()
        assert project.status().documents == 5
        summary = project.index(drop=True)
        assert (summary.documents, summary.removed) == (4, 1)

    @pytest.mark.parametrize("how", ["emptied", "gone", "named", "unreadable", "a file"])
    def test_with_drop_nothing_left_to_read_makes_the_index_empty(self, project: Project, tmp_path: Path, how: str):
        docs = bench.write_corpus(tmp_path / "docs", documents=1)
        project.index(docs / "letter00.txt" if how == "a file" else docs)
        for method in ("global", "ts", "ss"):
            project.query("Who wrote?", method)
        (docs / "letter00.txt").unlink()
        if how == "gone":
            docs.rmdir()
        elif how == "unreadable":
            (docs / "scan.txt").write_bytes(bytes(range(256)) * 8)
        named = docs if how in ("named", "unreadable") else None
        with pytest.raises((ConfigError, NoDocumentsError)):
            project.index(named)
        assert project.status().documents == 1
        summary = project.index(named, drop=True)
        assert (summary.documents, summary.removed, summary.complete) == (0, 1, how != "unreadable")
        assert project.status().documents == project.status().answers == 0
        assert project.verify() == []
        for file in project.folder.glob("index.db*"):
            assert not any(name.encode() in file.read_bytes() for name in bench.NAMES)
        with pytest.raises(NotIndexedError, match="is empty"):
            project.query("Who wrote?")
        with pytest.raises(NoDocumentsError):
            project.index(named)
        bench.write_corpus(docs, documents=1)
        assert project.index().documents == 1

    def test_a_path_that_is_not_there_empties_no_index(self, project: Project, docs: Path, tmp_path: Path):
        project.index(docs)
        with pytest.raises(NoDocumentsError, match="no file or folder"):
            project.index(tmp_path / "dcos", drop=True)
        assert project.status().documents == 4

    def test_text_of_a_run_that_did_not_end_is_dropped_too(self, docs: Path, tmp_path: Path):
        project = bench.open_project(tmp_path / "project", bench.stopping())
        with pytest.raises(KeyboardInterrupt):
            project.index(docs)
        assert b"In the year" in b"".join(file.read_bytes() for file in project.folder.glob("index.db*"))
        for path in docs.iterdir():
            path.unlink()
        project.index(docs, drop=True)
        assert b"In the year" not in b"".join(file.read_bytes() for file in project.folder.glob("index.db*"))

    def test_a_first_run_that_did_not_end_goes_on_without_its_paths(self, docs: Path, tmp_path: Path):
        with pytest.raises(KeyboardInterrupt):
            bench.open_project(tmp_path / "project", bench.stopping(after=3)).index(docs)
        assert bench.open_project(tmp_path / "project").index().documents == 4

    def test_an_empty_path_is_no_folder(self, project: Project):
        with pytest.raises(ConfigError, match="An empty path was given"):
            project.index("")

    def test_one_place_spelt_in_two_ways_is_one_place(self, project: Project, docs: Path, tmp_path: Path):
        (tmp_path / "sub").mkdir()
        project.index(tmp_path / "sub" / ".." / "docs")
        assert project.index(docs).documents == 4
        (tmp_path / "link").symlink_to(docs)
        assert project.index(tmp_path / "link").documents == 4
        assert project.index([docs, tmp_path / "sub" / ".." / "docs"]).documents == 4
        (tmp_path / "elsewhere" / "inner").mkdir(parents=True)
        bench.write_corpus(tmp_path / "elsewhere" / "docs", documents=1)
        (tmp_path / "to").symlink_to(tmp_path / "elsewhere" / "inner")
        assert project.index(tmp_path / "to" / ".." / "docs", drop=True).documents == 1

    def test_a_file_that_was_named_and_is_deleted_is_dropped(self, project: Project, docs: Path):
        files = sorted(docs.iterdir())
        project.index(files)
        files[0].unlink()
        summary = project.index()
        assert (summary.documents, summary.removed) == (3, 1)

    def test_paths_that_are_still_there_are_not_dropped_for_others(self, project: Project, docs: Path, tmp_path: Path):
        other = bench.write_corpus(tmp_path / "other", documents=1, sentences=2)
        (other / "letter00.txt").write_text("Tesla met Watt.")
        project.index(sorted(docs.iterdir()))
        with pytest.raises(ConfigError, match=r"holds documents of .*letter03.txt as well.*drop"):
            project.index(other)
        assert project.index([docs, other]).documents == 5  # the folder holds the files named before
        assert project.index(other, drop=True).documents == 1

    def test_a_file_that_cannot_be_read_is_named_and_the_others_finish(self, project: Project, docs: Path):
        (docs / "blob.txt").write_bytes(bytes(range(256)) * 8)
        (docs / "empty.txt").write_text("  \n")
        summary = project.index(docs)
        assert summary.documents == 4
        assert {s.path for s in summary.skipped} == {"blob.txt", "empty.txt"}
        assert not summary.complete


class TestQuestions:
    def test_a_question_before_an_index(self, project: Project):
        with pytest.raises(NotIndexedError, match="localgraphrag index"):
            project.query("Who?")
        assert not project.folder.exists()

    def test_wrong_use_is_named(self, project: Project, docs: Path):
        project.index(docs)
        with pytest.raises(ConfigError, match="Methods: global, ts, ss"):
            project.query("Who?", "guess")
        with pytest.raises(ConfigError, match="levels 0"):
            project.query("Who?", level=9)
        with pytest.raises(ConfigError, match="empty"):
            project.query("  ")

    @pytest.mark.parametrize("method", ["global", "ts", "ss"])
    def test_citations_resolve_to_the_text(self, project: Project, docs: Path, method: str):
        project.index(docs)
        answer = project.query("Who wrote?", method)
        assert answer.citations
        texts = {link: project.show(link).text for link in {s.document_id for c in answer.citations for s in c.sources}}
        for citation in answer.citations:
            for source in citation.sources:
                assert texts[source.document_id][source.start : source.end].strip()
        shown = project.show(answer.record["id"])
        assert shown.text == answer.text
        assert json.loads(json.dumps(asdict(answer)))["record"] == answer.record
        assert project.verify() == []

    def test_asking_again_calls_no_model(self, project: Project, docs: Path):
        project.index(docs)
        first = project.query("Who wrote?")
        calls = len(project.engine.requests)
        again = project.query("Who wrote?")
        assert len(project.engine.requests) == calls
        assert (again.text, again.citations, again.usage) == (first.text, first.citations, first.usage)
        assert project.status().answers == 1

    def test_compare_has_every_condition_the_index_has(self, project: Project, docs: Path):
        project.index(docs)
        compared = project.compare("Who?")
        assert list(compared.answers) == ["C0", "C1", "C2", "TS", "SS"]
        assert compared.errors == {}
        chosen = project.compare("Who?", ["ts", "C3"])
        assert list(chosen.answers) == ["TS"]
        assert "level" in chosen.errors["C3"]
        with pytest.raises(ConfigError, match="Conditions: C0"):
            project.compare("Who?", ["C9"])

    def test_it_works_inside_a_running_event_loop(self, project: Project, docs: Path):
        async def cell() -> str:
            project.index(docs)
            return project.query("Who?").text

        assert asyncio.run(cell())

    def test_several_threads_read_while_one_asks(self, project: Project, docs: Path):
        project.index(docs)
        found: list[object] = []

        def read(n: int) -> None:
            found.append(project.query(f"Who number {n}?").text if n % 3 == 0 else project.status().entities)
            found.append(project.show("Ada").id)

        threads = [threading.Thread(target=read, args=(n,)) for n in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(found) == 12
        assert project.verify() == []


class TestShow:
    def test_each_kind_by_id_and_what_has_a_name_by_name(self, project: Project, docs: Path):
        project.index(docs)
        ada = project.show("  aDA ")
        assert ada.kind == "entity"
        for passage in ada.passages:
            assert {passage.text[s:e] for s, e in passage.spans} == {"Ada"}
        kinds = {ada.kind}
        for link in ada.links:
            shown = project.show(link.id)
            assert (shown.kind, shown.id) == (link.kind, link.id)
            assert shown.passages and all(passage.spans for passage in shown.passages)
            kinds.add(shown.kind)
        assert kinds == {"entity", "relationship", "claim", "community"}
        chunk = project.show(ada.passages[0].chunk_id)
        assert (chunk.kind, chunk.passages[0].text) == ("chunk", chunk.text)
        assert "Ada" in [link.title for link in chunk.links]
        document = project.show(ada.passages[0].sources[0])
        assert (document.kind, document.id) == ("document", ada.passages[0].document_id)
        assert project.show(document.title) == document
        json.dumps(asdict(ada))

    def test_lists(self, project: Project, docs: Path):
        (docs / "log.csv").write_text("text\nAda met Faraday.\nOhm met Volta.\n")
        summary = project.index(docs)
        entities = project.show("entities")
        assert (entities.kind, len(entities.links)) == ("list", summary.entities)
        degrees = [int(link.relation.split(", ")[1].split()[0]) for link in entities.links]
        assert degrees == sorted(degrees, reverse=True)
        assert len(project.show("documents").links) == summary.documents == 6
        assert [link.relation for link in project.show("log.csv").links] == ["log.csv#1", "log.csv#2"]
        by_level = [[link.id for link in project.show(f"C{k}").links] for k in (0, 1)]
        assert [len(ids) for ids in by_level] == list(summary.communities)
        once = list(dict.fromkeys([*by_level[0], *by_level[1]]))
        assert [link.id for link in project.show("communities").links] == once
        with pytest.raises(NotFoundError, match="show entities"):
            project.show("rows.csv")

    def test_a_community_shows_report_members_and_evidence(self, project: Project, docs: Path):
        project.index(docs)
        community = next(link for link in project.show("Ada").links if link.kind == "community")
        shown = project.show(community.id)
        relations = {link.relation for link in shown.links}
        assert {"member", "evidence"} <= relations
        assert shown.fields["levels"][0] == 0

    def test_what_is_not_there_gets_what_comes_near(self, project: Project, docs: Path):
        project.index(docs)
        with pytest.raises(NotFoundError, match="Near to it: .*Faraday"):
            project.show("Faradey")
        with pytest.raises(NotFoundError, match="There is no answer"):
            project.show("a-000000000000")


def test_status_tells_what_there_is_and_what_it_cost(project: Project, docs: Path):
    summary = project.index(docs)
    status = project.status()
    assert (status.documents, status.chunks, status.entities) == (summary.documents, summary.chunks, summary.entities)
    assert status.coverage == summary.coverage
    assert status.reports == status.communities == summary.communities
    assert status.spent == status.index_cost == {s.stage: s.usage for s in summary.stages if s.usage.calls}
    assert (status.vectors, status.unfinished, status.failures) == (status.chunks, 0, ())
    project.query("Who?")
    assert set(project.status().spent) == {"extract", "report", "map", "reduce"}
    assert set(project.status().index_cost) == {"extract", "report"}
    json.dumps(asdict(project.status()))
