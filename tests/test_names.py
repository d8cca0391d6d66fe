"""Which spans of a text are names."""

from __future__ import annotations

import pytest

from localgraphrag.names import is_name

ENGLISH = (
    "Kept by the harbour master. When the boats moved in, it was taken for granted that the last of them was left. "
    "The briefing of the unknown was in an old building, well kept, as it had been for years; it was trivial, and "
    "inactive members of the council were not asked. Lind's lodging is old, and pytest is used. Left Bank is a place."
)


@pytest.mark.parametrize("name", ["Kept", "moved", "taken", "left", "trivial", "inactive", "granted"])
def test_bare_verbs_and_adjectives_are_no_names(name):
    assert not is_name(name, ENGLISH)


@pytest.mark.parametrize(
    "name", ["briefing", "unknown", "building", "lodging", "boats", "pytest", "council", "Left Bank", "harbour master"]
)
def test_nouns_and_names_are(name):
    assert is_name(name, ENGLISH)


def test_an_article_before_it_makes_a_word_a_noun_and_a_full_stop_between_them_does_not():
    assert is_name("left", f"{ENGLISH} He was of the left.")
    assert not is_name("left", f"{ENGLISH} It was the one. left")


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("hospital", "Hospital general de la ciudad: el médico del hospital dijo que no había agua en toda la ciudad."),
        ("signal", "Le signal rouge, et signal vert de la gare; il est en panne depuis des mois."),
        ("moved", "moved 3, taken 4, left 5"),  # a table
        ("張三", "張三在北京大學教授數學。"),
        ("building", ""),
    ],
)
def test_the_rule_is_of_english_alone(name, text):
    assert is_name(name, text)


@pytest.mark.parametrize("name", ["", "them", "trench at the", "in May", "of it"])
def test_torn_off_pieces_are_no_names(name):
    assert not is_name(name, ENGLISH)
