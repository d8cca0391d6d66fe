"""docs/store.md says what is in the file: every table, and queries that work."""

from __future__ import annotations

import re
import sqlite3
from pathlib import Path

import pytest
import workbench

from localgraphrag import schema
from localgraphrag.embed import HashEmbedder
from localgraphrag.llm.scripted import ScriptedEngine
from localgraphrag.project import Project

PAGE = (Path(__file__).parents[1] / "docs" / "store.md").read_text(encoding="utf-8")
QUERIES = re.findall(r"```sql\n(.*?)```", PAGE, re.DOTALL)


@pytest.fixture(scope="module")
def index(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("page")
    text = "It was said by Clara that letters from Newton about the weather always pleased Clara. " * 3
    (folder / "letter.txt").write_text(text, encoding="utf-8")
    with Project.open(folder / "p", engine=ScriptedEngine(workbench.reply), embedder=HashEmbedder(16)) as project:
        project.index(folder / "letter.txt")
        return project.index_path


def test_every_table_is_described_and_no_other(index):
    rows = re.findall(r"^\| (`.*?) \|", PAGE, re.MULTILINE)
    described = [name for cell in rows for name in re.findall(r"`(\w+)`", cell)]
    with sqlite3.connect(index) as database:
        there = {name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type IN ('table', 'view')")}
    assert set(described) == {name for name in there if not name.startswith("sqlite_")}
    assert len(described) == len(set(described))
    derived = PAGE.split("## Derived")[1]
    assert [name for name in schema.DERIVED if f"`{name}`" not in derived] == []


@pytest.mark.parametrize("query", QUERIES, ids=["links", "mentions", "reports"])
def test_its_queries_find_something(index, query):
    with sqlite3.connect(index) as database:
        assert database.execute(query).fetchall()


def test_a_mention_is_the_name_itself(index):
    with sqlite3.connect(index) as database:
        found = database.execute(QUERIES[1]).fetchall()
    assert {name for name, _, _ in found} == {words for _, _, words in found} == {"Clara", "Newton"}
