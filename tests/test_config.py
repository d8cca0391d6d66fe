"""Paths as they are given. Settings are tested with the project that reads them (`test_project.py`)."""

from __future__ import annotations

from pathlib import Path

import pytest

from localgraphrag import Project
from localgraphrag.config import paths_given, project_folder
from localgraphrag.errors import ConfigError, ModelMissingError


def test_a_tilde_is_the_home_and_that_of_nobody_a_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    assert Project.open("~/x").folder == tmp_path / "x"
    assert Project.init(Path("~/y")).folder == tmp_path / "y"
    assert project_folder("~nobody-of-this-name/x") == Path("~nobody-of-this-name/x")
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "a.txt").write_text("Ada wrote.")
    with pytest.raises(ModelMissingError, match="There is no model"):  # the path was found
        Project.open("z", model="~nobody-of-this-name/m.gguf").index("~/docs")


@pytest.mark.parametrize("given", [None, b"x", 3])
def test_a_folder_that_is_no_path_is_named(given):
    for make in (Project.open, Project.init):
        with pytest.raises(ConfigError, match="project's folder was given as .*; it must be a path"):
            make(given)


def test_a_name_in_place_of_an_engine_is_named(tmp_path: Path):
    for given in ({"engine": "smollm2-135m"}, {"embedder": "hash"}):
        with pytest.raises(ConfigError, match="these are objects. Name a model with `model`"):
            Project.open(tmp_path, **given)


def test_a_file_in_place_of_the_folder_is_named(tmp_path: Path):
    (tmp_path / "taken").write_text("")
    for make in (Project.open, Project.init):
        for given in (tmp_path / "taken", tmp_path / "taken" / "new"):
            with pytest.raises(ConfigError, match="taken is a file; name a folder"):
                make(given)


def no_drive(path: Path, **_options: object) -> None:
    """In place of `Path.stat`: a drive of Windows that is not there."""
    raise FileNotFoundError(path)


def test_a_folder_that_cannot_be_is_named(monkeypatch: pytest.MonkeyPatch):
    for given, why in (("x" * 300, "File name too long"), ("a\0b", "embedded null byte")):
        with pytest.raises(ConfigError, match=f"project's folder was given as .* cannot be used: .*{why}"):
            Project.open(given)
    monkeypatch.setattr(Path, "stat", no_drive)
    with pytest.raises(ConfigError, match="is not there. Name a folder on a drive of this machine"):
        Project.open("x")


@pytest.mark.parametrize("given", [b"x", 3, ["a", None], [b"x"], {1: 2}])
def test_what_is_no_path_is_named_before_anything_is_done(given, tmp_path: Path):
    for verb in (Project.open(tmp_path / "p").index, Project.open(tmp_path / "p").estimate):
        with pytest.raises(ConfigError, match="A path was given as .*; it must be a text or a Path"):
            verb(given)
    assert not (tmp_path / "p").exists()


def test_one_path_or_several():
    assert paths_given(None) is None
    assert paths_given("a") == ["a"]
    assert paths_given(path for path in ("a", Path("b"))) == ["a", Path("b")]
