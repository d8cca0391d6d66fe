"""What is printed stays on its line and is printed as it is."""

from __future__ import annotations

import sys

from localgraphrag import console
from localgraphrag.progress import Progress


def test_a_cell_is_one_line_without_control_characters(capsys):
    console.write_table(
        ("stage", "reason"), [("extract", "refused:\r\n  line 1\n\nline 2\x1b[2J\u2028end.\n"), ("a", "b")]
    )
    assert capsys.readouterr().out.splitlines() == [
        "stage    reason", "extract  refused: line 1 line 2�[2J end.", "a        b",
    ]  # fmt: skip


def test_a_failure_is_one_line_of_progress():
    told = Progress("extract", 1, 2, "c-1 failed: refused\nat line 1", 10, 1.0)
    assert console.pace(told) == "10 tokens/s, c-1 failed: refused at line 1"


def test_square_brackets_of_a_document_are_no_markup(capsys, monkeypatch):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    with console.ProgressView() as view:
        view.say("up to 2 reports [/]")
        view.update("report", 0, 2, "c-1 failed: [/x] [bold]")
    assert "[/x] [bold]" in capsys.readouterr().err
