"""Shared fixtures. Real corpora are read from LOCALGRAPHRAG_TEST_DATA (default ../shared/data beside the checkout)."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

DATA = Path(os.environ.get("LOCALGRAPHRAG_TEST_DATA", Path(__file__).parents[2] / "shared" / "data"))


@pytest.fixture
def corpus():
    """`corpus("peps")` is the folder of that data set; the test is skipped where it is absent."""

    def folder(name: str) -> Path:
        path = DATA / name
        if not path.exists():
            pytest.skip(f"data set '{name}' is not at {path}; set LOCALGRAPHRAG_TEST_DATA")
        return path

    return folder
