import re
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
import workbench as bench

from localgraphrag.errors import NotIndexedError, StoreError, StoreVersionError
from localgraphrag.project import Project


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sound")
    project = bench.open_project(folder / "project")
    project.index(bench.write_corpus(folder / "docs"))
    project.query("Who wrote?")
    project.query("Who wrote?", "ts")
    return folder / "project"


@pytest.fixture
def project(sound: Path, tmp_path: Path) -> Project:
    shutil.copytree(sound, tmp_path / "project")
    return bench.open_project(tmp_path / "project")


def test_a_sound_index_has_no_problem(project: Project):
    assert project.verify() == []


CHUNK = "(SELECT min(id) FROM chunks)"
SECOND = "(SELECT community_id FROM community_levels WHERE level = 0 AND rank = 1)"


@pytest.mark.parametrize(
    ("damage", "told"),
    [
        ("UPDATE documents SET text = text || ' More.'", "its text is not the one"),
        ("DELETE FROM chunks WHERE ordinal = 1", "not in order|text in neither"),
        ("DELETE FROM chunks WHERE document_id = (SELECT min(id) FROM documents)", "has no chunks"),
        ("UPDATE chunks SET stop = 100000", "not within its document"),
        ("UPDATE chunks SET start = start + 60 WHERE ordinal = 1", "not within chunk|text in neither"),
        ("UPDATE node_mentions SET start = 0, stop = 9999", "a mention at 0-9999"),
        ("UPDATE node_mentions SET stop = stop - 1 WHERE node_id = (SELECT id FROM nodes WHERE key = 'ada')",
         "a mention at .* is 'Ad', not 'Ada'"),
        ("UPDATE nodes SET name = 'Nobody' WHERE key = 'ada'", "'Nobody' does not belong"),
        ("UPDATE nodes SET degree = 77", "has degree 77"),
        ("UPDATE edges SET weight = weight + 1", "weight 2; by what was extracted it is 1"),
        ("DELETE FROM edges WHERE id = (SELECT min(id) FROM edges)", "was extracted, and is not there"),
        ("UPDATE node_descriptions SET text = 'A man of means.'", "e-.* words that do not stand in chunk t-.*means"),
        ("UPDATE edge_descriptions SET text = text || ' …more'", "r-.* words that do not stand in chunk t-"),
        ("UPDATE units SET idle = 1 WHERE stage = 'extract'", "was read by no extraction"),
        ("DELETE FROM edge_chunks", "in 0 chunks"),
        ("DELETE FROM node_chunks", "is in no chunk"),
        ("DELETE FROM community_nodes WHERE ordinal = 0", "is in no community of level C0"),
        (f"UPDATE community_nodes SET node_id = (SELECT min(id) FROM nodes) WHERE community_id = {SECOND}",
         r"is in \d communities of level"),
        ("DELETE FROM community_levels", "no communities"),
        (f"UPDATE community_levels SET parent_id = {SECOND}", "is not within its parent"),
        ("UPDATE finding_records SET record_id = 'e-000000000000'", "rests on e-000000000000"),
        (f"UPDATE vectors SET vector = x'0000c07f' WHERE chunk_id = {CHUNK}", "differ in length"),
        ("UPDATE vectors SET vector = x'0000c07f'", "numbers that are none"),
        ("UPDATE units SET value = 'nonsense'", "is not JSON"),
        (f"UPDATE unit_chunks SET chunk_id = 't-0000' WHERE chunk_id = {CHUNK}", "has seen chunk t-0000"),
        ("UPDATE answers SET answer = replace(answer, '\"end\":', '\"end\":9')", "is not within a document"),
        ("UPDATE answers SET answer = replace(answer, '\"id\":\"c-', '\"id\":\"c-x')", "report c-x.* is not there"),
        ("UPDATE answers SET answer = replace(answer, '\"chunk\",\"id\":\"t-', '\"chunk\",\"id\":\"t-x')",
         "chunk t-x.* is not there"),
        ("DELETE FROM nodes WHERE key = 'ada'", "Table .*, row"),
        ("UPDATE answers SET answer = '{}'", "Answer a-.* cannot be read"),
        ("UPDATE vectors SET vector = x'00'", "vector of chunk t-.* is no row of float32"),
        ("UPDATE meta SET value = '{' WHERE name = 'model'", "meta, 'model': its value is not JSON"),
        ("DELETE FROM sources", "could not go on"),
    ],
)  # fmt: skip
def test_each_damage_is_told(project: Project, damage: str, told: str):
    database = sqlite3.connect(project.index_path)  # no foreign keys: whatever a careless tool may do
    database.execute(f"PRAGMA foreign_keys = {damage.startswith(('DELETE FROM chunks', 'DELETE FROM edges'))}")
    with database:
        assert database.execute(damage).rowcount
    database.close()
    problems = project.verify()
    assert problems
    assert any(re.search(told, problem) for problem in problems), problems


def test_what_is_damaged_is_told_in_words_where_it_is_needed(project: Project):
    with closing(sqlite3.connect(project.index_path)) as database, database:
        (answer,) = database.execute("SELECT min(id) FROM answers").fetchone()
        database.execute("UPDATE answers SET answer = '{}'")
    with pytest.raises(StoreError, match=rf"The answer {answer} is damaged. `localgraphrag verify`"):
        project.show(answer)
    with closing(sqlite3.connect(project.index_path)) as database, database:
        database.execute("UPDATE meta SET value = '{' WHERE name = 'model'")
    with pytest.raises(StoreError, match=r"The value of 'model' .* is damaged. `localgraphrag verify`"):
        project.status()


def test_bytes_that_rot_are_told(project: Project):
    data = bytearray(project.index_path.read_bytes())
    data[4096 * 20 : 4096 * 40] = b"\xa5" * (4096 * 20)
    project.index_path.write_bytes(data)
    assert any("damaged" in problem or "cannot be read" in problem for problem in project.verify())


def test_what_is_no_index_is_told(project: Project):
    project.index_path.write_bytes(b"not a database at all" * 300)
    assert "damaged or not an index" in project.verify()[0]


def test_what_cannot_be_judged_is_an_error(project: Project, tmp_path: Path):
    with pytest.raises(NotIndexedError):
        Project.open(tmp_path / "nowhere").verify()
    database = sqlite3.connect(project.index_path)
    database.execute("PRAGMA user_version = 99")
    database.close()
    with pytest.raises(StoreVersionError):
        project.verify()
