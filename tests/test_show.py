"""Lists, the beginnings of ids, an index without documents, and one whose first run has not ended."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
import workbench as bench

from localgraphrag import Project
from localgraphrag.errors import NotFoundError, NotIndexedError

LISTS = ["documents", "entities", "relationships", "claims", "communities", "reports", "answers"]


@pytest.fixture
def docs(tmp_path: Path) -> Path:
    return bench.write_corpus(tmp_path / "docs")


@pytest.fixture
def project(tmp_path: Path, docs: Path) -> Project:
    project = bench.open_project(tmp_path / "project")
    project.summary = project.index(docs)
    return project


class TestLists:
    def test_each_holds_all_and_each_entry_can_be_shown(self, project: Project):
        project.query("Who wrote?")
        project.query("Who wrote?", "ts")
        status = project.status()
        with project.store() as store:
            reports = store.scalar("SELECT count(*) FROM reports")
        wanted = {
            "documents": status.documents, "entities": status.entities, "relationships": status.relationships,
            "claims": status.claims, "reports": reports, "answers": 2,
        }  # fmt: skip
        assert {name: len(project.show(name).links) for name in wanted} == wanted
        for name in LISTS:
            link = project.show(name).links[0]
            assert project.show(link.id).kind == link.kind

    def test_the_heaviest_relationships_come_first_and_claims_by_their_subject(self, project: Project):
        weights = [int(link.relation.split()[1]) for link in project.show("Relationships").links]
        assert weights == sorted(weights, reverse=True)
        subjects = [link.relation.split(":")[0] for link in project.show("claims").links]
        assert subjects == sorted(subjects)

    def test_reports_tell_how_much_they_matter(self, project: Project, docs: Path):
        assert {link.relation.rpartition(", ")[2] for link in project.show("reports").links} == {"rating 5"}
        bench.open_project(project.folder, min_report_tokens=400).index(docs)  # a small community is its own report
        assert {link.relation.rpartition(", ")[2] for link in project.show("reports").links} == {"not rated"}

    def test_a_community_on_several_levels_is_listed_once_with_them(self, project: Project):
        links = project.show("communities").links
        found = Counter(link.id for level in range(4) for link in _level(project, level))
        assert max(found.values()) > 1
        assert {link.id: link.relation.count("C") for link in links} == found
        carried = next(link for link in links if found[link.id] > 1)
        levels = ", ".join(f"C{k}" for k in project.show(carried.id).fields["levels"])
        assert carried.relation.startswith(f"{levels}, ")

    def test_of_an_index_without_documents_they_are_empty(self, project: Project, docs: Path):
        for path in docs.iterdir():
            path.unlink()
        project.index(drop=True)
        for name in LISTS:
            shown = project.show(name)
            assert (shown.links, shown.title, shown.text) == ((), f"0 of {name}", "The index holds no documents.")

    def test_one_that_is_empty_beside_others_says_so(self, project: Project):
        assert project.show("answers").text == "There are none."


def _level(project: Project, level: int):
    return project.show(f"C{level}").links if level < len(project.status().communities) else ()


class TestIds:
    def test_an_answer_by_the_beginning_of_its_id(self, project: Project):
        answer = project.query("Who wrote?")
        assert project.show(answer.record["id"][:9]).text == answer.text
        with pytest.raises(NotFoundError, match=f"no answer 'a-000000'. The latest: {answer.record['id']}"):
            project.show("a-000000")

    def test_too_little_of_one_and_a_level_that_is_not_there(self, project: Project):
        for id_ in ("t-0", "e-"):
            with pytest.raises(NotFoundError, match=f"'{id_}' is too little of an id: give at least 4 characters"):
                project.show(id_)
        last = len(project.status().communities) - 1
        assert last > 0
        with pytest.raises(NotFoundError, match=f"no level 'C9'; the index has levels 0 to {last}"):
            project.show("C9")

    def test_a_name_that_begins_as_an_answers_id_is_a_name(self, project: Project, docs: Path):
        (docs / "a-plan.txt").write_text("In the year 1900 Ada wrote a plan.", encoding="utf-8")
        project.index(docs)
        assert project.show("a-plan.txt").kind == "document"


class TestFirstRun:
    """While it is at work, and after it was stopped, there is something in the file that is not the index yet."""

    def asked(self, project: Project) -> str:
        """What every question says, which must be the same."""
        said = set()
        for ask in (lambda: project.query("Who?"), lambda: project.show("entities"), lambda: project.compare("Who?")):
            with pytest.raises(NotIndexedError) as caught:
                ask()
            said.add(str(caught.value))
        (one,) = said
        return one

    def test_at_work(self, tmp_path: Path, docs: Path):
        said = []

        def reply(messages, request):
            if not said:
                reader = bench.open_project(tmp_path / "project")
                said.extend([self.asked(reader), reader.status()])
            return bench.reply(messages, request)

        project = bench.open_project(tmp_path / "project", reply)
        project.index(docs)
        assert "is finished yet: its first run is at work, process" in said[0]
        assert "Wait for it to end" in said[0] and "PATHS" not in said[0]
        assert said[1].unfinished == 4 and "(index, since" in said[1].at_work
        assert project.status().at_work == ""

    def test_stopped(self, tmp_path: Path, docs: Path):
        project = bench.open_project(tmp_path / "project", bench.stopping())
        with pytest.raises(KeyboardInterrupt):
            project.index(docs)
        said = self.asked(project)
        assert "its first run was stopped before the end" in said and "PATHS" not in said
        assert f"Run `localgraphrag index --project {tmp_path / 'project'}` again" in said
        assert project.status().unfinished == 4

    def test_of_a_later_run_the_index_before_it_is_shown(self, project: Project, docs: Path):
        (docs / "new.txt").write_text("In the year 1900 Ada wrote to Ohm.", encoding="utf-8")
        again = bench.open_project(project.folder, bench.stopping())
        with pytest.raises(KeyboardInterrupt):
            again.index(docs)
        assert len(project.show("documents").links) == 4
        assert project.query("Who wrote?").text


def test_what_the_model_wrote_and_the_texts_do_not_bear_out_is_told(tmp_path: Path, docs: Path):
    def reply(messages, request):
        return bench.reply(messages, request).replace("Wrote of the work.", "Tamed seven purple dragons.")

    project = bench.open_project(tmp_path / "project", reply, descriptions="written")
    summary = project.index(docs)
    left_out = project.status().ungrounded
    assert left_out > 0
    assert (
        f"{left_out} descriptions that the model wrote were left out: the texts do not bear them out."
        in summary.warnings
    )
    assert project.index(docs).warnings == summary.warnings


def test_of_quotations_nothing_is_left_out(project: Project):
    assert project.status().ungrounded == 0
    assert project.summary.warnings == ()
