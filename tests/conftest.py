"""Shared fixtures, and the walls around every test: no network, and a home that is empty but for the model files.

Real corpora are read from the folder LOCALGRAPHRAG_TEST_DATA, by default `shared/data` next to
the repository's; tests that need one are skipped where it is absent.
"""

from __future__ import annotations

import os
import runpy
import tempfile
from pathlib import Path

import pytest
from hypothesis import settings

from localgraphrag.config import models_folder

DATA = Path(os.environ.get("LOCALGRAPHRAG_TEST_DATA", Path(__file__).parents[2] / "shared" / "data"))
OFFLINE = Path(__file__).parent / "offline"
HOME = tempfile.TemporaryDirectory(prefix="empty-home-")

_models = models_folder()
for _name in [n for n in os.environ if n.startswith(("LOCALGRAPHRAG_", "XDG_"))]:
    del os.environ[_name]  # a developer's own settings decide nothing here
os.environ |= {
    "HOME": HOME.name,
    "USERPROFILE": HOME.name,
    "LOCALGRAPHRAG_MODELS": str(_models),
    "PYTHONPATH": os.pathsep.join(filter(None, [str(OFFLINE), os.environ.get("PYTHONPATH")])),
}
runpy.run_path(str(OFFLINE / "sitecustomize.py"))


# a clean clone is judged by the same examples every time; a developer's runs look for new ones
settings.register_profile("ci", derandomize=True)
if os.environ.get("CI"):
    settings.load_profile("ci")


@pytest.fixture
def corpus():
    """`corpus("peps")` is the folder of that data set; the test is skipped where it is absent."""

    def folder(name: str) -> Path:
        path = DATA / name
        if not path.exists():
            pytest.skip(f"data set '{name}' is not at {path}; set LOCALGRAPHRAG_TEST_DATA")
        return path

    return folder
