"""What is not code: metadata, environment.yml, licence, make targets, and the walls around the tests."""

from __future__ import annotations

import itertools
import os
import re
import socket
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

REPO = Path(__file__).parents[1]
PYPROJECT = tomllib.loads((REPO / "pyproject.toml").read_text(encoding="utf-8"))
PROJECT = PYPROJECT["project"]
CONDA_NAMES = {"igraph": "python-igraph", "torch": "pytorch"}
IMPORT_NAMES = {
    "beautifulsoup4": "bs4", "llama-cpp-python": "llama_cpp", "python-docx": "docx",
    "jupyterlab": "jupyterlab.labapp",
}  # fmt: skip

USED_UNIMPORTED = {
    "cryptography": "pypdf, to open PDF files with an empty password",
    "ipywidgets": "anywidget, in JupyterLab",
    "tiktoken": "a test, which skips without it",
    "torch": "sentence-transformers",
}
"""Packages that are required and that no line imports, and what uses them."""


def conda_lines() -> list[str]:
    lines = (REPO / "environment.yml").read_text(encoding="utf-8").split("dependencies:")[1].splitlines()
    items = [line.strip().removeprefix("- ") for line in lines if line.strip().startswith("- ")]
    return [item for item in items if item not in ("pip", "pip:")]


def test_environment_yml_says_what_pyproject_says():
    wanted = [*PROJECT["dependencies"], *itertools.chain(*PROJECT["optional-dependencies"].values())]
    ours = {CONDA_NAMES.get(r.name, r.name): r.specifier for r in map(Requirement, wanted)}
    conda = {r.name: r.specifier for r in map(Requirement, conda_lines())}
    assert str(conda.pop("python")) == PROJECT["requires-python"]
    assert conda == ours


def test_every_package_that_is_required_is_imported():
    places = [*(REPO / "localgraphrag").rglob("*.py"), *(REPO / "tests").glob("*.py")]
    code = "\n".join(path.read_text(encoding="utf-8") for path in places)
    wanted = [
        Requirement(line).name for line in [*PROJECT["dependencies"], *PROJECT["optional-dependencies"]["notebook"]]
    ]
    modules = {name: IMPORT_NAMES.get(name, name.replace("-", "_")) for name in wanted}
    imported = {n for n, m in modules.items() if re.search(rf"^\s*(import|from) {re.escape(m)}\b", code, re.MULTILINE)}
    assert set(wanted) - imported == set(USED_UNIMPORTED)


def test_the_licence_is_whole():
    text = (REPO / "LICENSE").read_text(encoding="utf-8")
    assert "Apache License" in text
    assert "END OF TERMS AND CONDITIONS" in text
    assert PROJECT["license"] == "Apache-2.0"


def test_the_package_carries_its_data():
    root = REPO / "localgraphrag"
    patterns = PYPROJECT["tool"]["setuptools"]["package-data"]["localgraphrag"]
    carried = {path for pattern in patterns for path in root.glob(pattern)}
    for name in ("py.typed", "llm/catalog.toml", "demo/facts.toml", "demo/corpus/council-minutes-2023-05-09.txt"):
        assert root / name in carried
    assert set(root.rglob("*.j2")) <= carried


def test_every_make_target_is_a_verb_of_the_setup_script():
    makefile = (REPO / "Makefile").read_text(encoding="utf-8")
    targets = makefile.split(".PHONY:")[1].splitlines()[0].split()
    script = subprocess.run([sys.executable, "scripts/setup.py"], cwd=REPO, capture_output=True, text=True, check=False)
    assert script.returncode == 1
    assert [t for t in targets if t != "help" and t not in script.stderr] == []


def test_ci_runs_make_test():
    assert os.access(REPO / ".ci/run", os.X_OK)
    assert "make test" in (REPO / ".ci/run").read_text(encoding="utf-8")


def test_setup_needs_no_third_party_package():
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", "import runpy; runpy.run_path('scripts/setup.py')['dependencies_hash']()"],
        cwd=REPO, check=False,
    )  # fmt: skip
    assert done.returncode == 0


def test_the_readme_names_every_file_of_the_package():
    tree = (REPO / "README.md").read_text(encoding="utf-8").split("```\nlocalgraphrag/\n")[1].split("```")[0]
    named = {line.split()[0].rstrip("/") for line in tree.splitlines() if line.startswith("  ")}
    there = {p.name for p in (REPO / "localgraphrag").iterdir() if p.suffix == ".py" or p.is_dir()}
    assert there - {"__init__.py", "__main__.py", "__pycache__"} == named


# The walls around the tests


def test_the_network_is_forbidden_here():
    with socket.socket() as connection, pytest.raises(OSError, match="forbidden"):
        connection.connect(("192.0.2.1", 80))
    with pytest.raises(OSError, match="forbidden"):
        socket.create_connection(("example.org", 80))


def test_the_network_is_forbidden_to_child_processes_too():
    code = "import urllib.request as u; u.urlopen('http://example.org')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "the network is forbidden in tests" in done.stderr


def test_the_home_is_empty():
    assert Path.home().name.startswith("empty-home-")
