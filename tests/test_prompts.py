"""A project's own prompts: they are what the model reads, and work done with others is done anew."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from localgraphrag import Project
from localgraphrag.embed import HashEmbedder
from localgraphrag.errors import ConfigError
from localgraphrag.llm.scripted import ScriptedEngine
from localgraphrag.prompts import PACKAGED, Prompts
from tests import workbench

MARK = "A line of the user's own."
SMALL = workbench.SETTINGS | {"context_window": 4000, "max_gleanings": 1}

EXTRACTION = ["extract_system", "extract_example", "extract_names", "extract_missed", "extract_more", "extract_claims"]
WRITTEN_EXTRACTION = [*EXTRACTION, "extract_relationships", "extract_details"]
REPORT = ["report_quotes", "report_quotes_system", "report_quotes_example", "report_quotes_example_reply"]
WRITTEN_REPORT = ["report", "report_system", "report_example", "report_example_reply"]
MAP = ["map", "map_system", "map_example", "map_example_reply"]
REDUCE = ["reduce", "reduce_system"]
ANSWER = ["answer", "answer_system"]


class Listener:
    """Answers as the workbench does, and keeps the stage and the messages of every call."""

    def __init__(self) -> None:
        self.heard: list[tuple[str, str]] = []

    def __call__(self, messages, request):
        self.heard.append((request.key.split()[0], "\n".join(message.content for message in messages)))
        return workbench.reply(messages, request)

    def marked(self) -> set[str]:
        return {stage for stage, text in self.heard if MARK in text}


def ask_everything(folder: Path, descriptions: str) -> Listener:
    """Index the letters beside the folder, and ask: globally and by vectors."""
    listener = Listener()
    engine = ScriptedEngine(listener, "listener")
    with Project.open(folder, engine=engine, embedder=HashEmbedder(16), descriptions=descriptions, **SMALL) as project:
        project.index(None if project.index_path.exists() else folder.parent / "letters")
        project.query("Who wrote to whom?")
        project.query("Who wrote to whom?", "ss")
    return listener


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """By how descriptions come about: a folder with letters and a project `p` that has nothing left to do."""
    folders = {}
    for descriptions in ("quoted", "written"):
        folders[descriptions] = tmp_path_factory.mktemp(descriptions)
        workbench.write_corpus(folders[descriptions] / "letters", 2, 4)
        assert not ask_everything(folders[descriptions] / "p", descriptions).marked()
        assert ask_everything(folders[descriptions] / "p", descriptions).heard == []
    return folders


CASES = [
    *(("quoted", name, "extract") for name in EXTRACTION),
    *(("written", name, "extract") for name in WRITTEN_EXTRACTION),
    *(("quoted", name, "report") for name in REPORT),
    *(("written", name, "report") for name in WRITTEN_REPORT),
    *((how, name, "map") for how in ("quoted", "written") for name in MAP),
    *(("written", name, "reduce") for name in REDUCE),
    *(("written", name, "answer") for name in ANSWER),
]


@pytest.mark.parametrize(("descriptions", "name", "stage"), CASES)
def test_a_prompt_of_the_projects_own_is_read_and_its_work_done_anew(tmp_path, finished, descriptions, name, stage):
    shutil.copytree(finished[descriptions], tmp_path, dirs_exist_ok=True)
    own = tmp_path / "p" / "prompts"
    own.mkdir()
    (own / f"{name}.j2").write_text((PACKAGED / f"{name}.j2").read_text(encoding="utf-8") + f"\n{MARK}\n", "utf-8")
    assert stage in ask_everything(tmp_path / "p", descriptions).marked()
    assert ask_everything(tmp_path / "p", descriptions).heard == []


def test_every_packaged_prompt_of_index_and_answers_is_tried_here():
    tried = {name for _descriptions, name, _stage in CASES}
    apart = {"describe", "reduce_example", "answer_example_reply"}
    packaged = {path.stem for path in PACKAGED.glob("*.j2") if not path.stem.startswith("evaluate_")}
    assert packaged - tried == apart


@pytest.mark.parametrize("text", ["{{ nothing_of_that_name }}", "{% if %}"])
def test_a_broken_prompt_is_named_with_its_remedy(tmp_path, text):
    (tmp_path / "extract_names.j2").write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError, match=r"'extract_names\.j2' cannot be used.*Mend it, or delete it"):
        Prompts(tmp_path).render("extract_names")
