"""What scripts/setup.py passes on, and how it ends."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[1] / "scripts" / "setup.py"


@pytest.fixture
def setup(monkeypatch):
    """The names of the script, with nothing installed; `setup["ran"]` is what would have been run, and pulled."""
    names = runpy.run_path(str(SCRIPT))
    inside = names["demo"].__globals__
    ran = []
    monkeypatch.setitem(inside, "install", lambda: None)
    monkeypatch.setitem(inside, "pull", lambda *models: ran.append(models))
    monkeypatch.setitem(inside, "run", lambda *command: ran.append(command))
    return {**names, "ran": ran}


@pytest.mark.parametrize(
    ("codes", "code"), [((0, 0, 0), 0), ((0, -9, 0), 1), ((0, 0, -15), 1), ((1, 0, 0), 1), ((0, 0, 5), 1)]
)
def test_a_step_that_failed_or_was_killed_fails_the_whole(setup, monkeypatch, codes, code):
    left = list(codes)
    monkeypatch.setattr(setup["subprocess"], "call", lambda *_command, **_options: left.pop(0))
    with pytest.raises(SystemExit) as stopped:
        setup["test"]([])
    assert (stopped.value.code, left) == (code, [])


@pytest.mark.parametrize(
    ("arguments", "environment", "model", "others"),
    [
        ([], None, "qwen2.5-coder-1.5b", []),
        ([], "smollm2-135m", "smollm2-135m", []),
        (["--model", "qwen3-4b"], "smollm2-135m", "qwen3-4b", []),
        (["--json", "--model=qwen3-4b", "-p", "here"], None, "qwen3-4b", ["--json", "-p", "here"]),
    ],
)
def test_the_demo_fetches_and_runs_one_model(setup, monkeypatch, arguments, environment, model, others):
    monkeypatch.delenv("LOCALGRAPHRAG_MODEL", raising=False)
    if environment:
        monkeypatch.setenv("LOCALGRAPHRAG_MODEL", environment)
    setup["demo"](arguments)
    pulled, command = setup["ran"]
    assert pulled[0] == model
    assert command == ("-m", "localgraphrag", "demo", "--model", model, *others)
