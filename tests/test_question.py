"""What can be asked, and how a value is refused that cannot."""

from __future__ import annotations

from pathlib import Path

import pytest

from localgraphrag import Project
from localgraphrag.errors import ConfigError
from localgraphrag.search.question import conditions_named


@pytest.mark.parametrize(
    ("question", "options", "says"),
    [
        (None, {}, "question was given as None; it must be a text"),
        (b"Who?", {}, "it must be a text"),
        ("Who?", {"method": 3}, "no method 3. Methods: global, ts, ss"),
        ("Who?", {"level": "0"}, "level was given as '0'; it must be a whole number"),
        ("Who?", {"level": True}, "level was given as True"),
        ("Who?", {"level": None}, "level was given as None"),
        ("Who?", {"method": "ss", "level": 1.0}, "level was given as 1.0"),
        ("Who?", {"seed": -1}, "seed was given as -1; it must be a whole number, at least 0"),
        ("Who?", {"seed": "x"}, "seed was given as 'x'"),
    ],
)
def test_a_value_of_another_kind_is_named(tmp_path: Path, question, options, says):
    with pytest.raises(ConfigError, match=says):
        Project.open(tmp_path).query(question, **options)


@pytest.mark.parametrize("given", ["C0", [], 3, b"C0", [None]])
def test_conditions_that_name_none_list_those_there_are(tmp_path: Path, given):
    with pytest.raises(ConfigError, match="C0, C1, C2, C3, TS, SS"):
        Project.open(tmp_path).compare("Who?", given)


def test_a_seed_that_no_condition_takes_is_no_error_of_each(tmp_path: Path):
    with pytest.raises(ConfigError, match="The seed"):
        Project.open(tmp_path).compare("Who?", ["C0"], seed=-1)


def test_conditions_in_the_order_named():
    assert [found.name for found in conditions_named(("ss", " c0 "))] == ["SS", "C0"]
