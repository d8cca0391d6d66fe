"""Sentences and quotations: spans that are exact, names found in them, long ones cut around what they are about."""

from __future__ import annotations

from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from localgraphrag.extract_grammar import openings
from localgraphrag.quotes import QUOTE_CHARACTERS, descriptions, links, quotes
from localgraphrag.sentences import sentences, whole_sentences


def spans_hold(text: str) -> list[str]:
    found = sentences(text)
    at = 0
    for sentence in found:
        assert at <= sentence.start < sentence.end
        assert " ".join(text[sentence.start : sentence.end].split()) == sentence.text
        at = sentence.end
    return [sentence.text for sentence in found]


@given(st.text(alphabet='aB.!? \n-*#:"1۔。张ก|\t\u2028\r', max_size=80))
@settings(max_examples=200, deadline=None)
def test_spans_are_exact_whatever_the_text(text):
    shown = spans_hold(text)
    kept = "".join(filter(str.isalnum, text))
    assert "".join(filter(str.isalnum, "".join(shown))) == kept, "no word is lost"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Mr. Lind paid 3.5 crowns. He left!", ["Mr. Lind paid 3.5 crowns.", "He left!"]),
        ("The council met\nin the hall, and the vote that the chair had called for was\nput off.",
         ["The council met in the hall, and the vote that the chair had called for was put off."]),
        ("MEMO\nFrom: Ada Brook\nTo: all\nWe met.", ["MEMO", "From: Ada Brook", "To: all", "We met."]),
        ("- one\n- two\n1. three", ["one", "two", "1. three"]),
        ("# Head\n\n**Bold.** Text.", ["Head", "Bold.", "Text."]),
        ("他来了。她走了！", ["他来了。", "她走了！"]),
        ("...\n---\n***", []),
        ("", []),
    ],
)  # fmt: skip
def test_sentences_are_what_a_reader_would_take_for_them(text, expected):
    assert spans_hold(text) == expected


@pytest.mark.parametrize("language", ["arb", "cmn_hans", "eng", "fra", "heb", "hin", "jpn", "rus", "spa", "tha"])
def test_sentences_of_every_script(corpus, language):
    text = (corpus("udhr") / f"{language}.txt").read_text(encoding="utf-8")
    shown = spans_hold(text)
    assert len(shown) > 30
    assert "".join("".join(shown).split()).count("1") == "".join(text.split()).count("1")


@given(*[st.text(alphabet="aB. \n-,ก。", max_size=40)] * 3)
@settings(max_examples=200, deadline=None)
def test_whole_sentences_are_those_of_the_longer_text_that_lie_inside(text, before, after):
    found = whole_sentences(text, (before, after))
    assert all(" ".join(text[s.start : s.end].split()) == s.text for s in found)
    inside = [s for s in sentences(before + text + after) if len(before) <= s.start and s.end <= len(before + text)]
    assert [s.text for s in found] == [s.text for s in inside or sentences(text)]


@pytest.mark.parametrize(
    ("text", "around", "expected"),
    [
        ("people maintain it. It is old. The next", ("Few ", " one fell."), ["It is old."]),
        ("Jacob,' said Ada. 'Go!'", ("'But, ", ""), ["'Go!'"]),
        ("It is old.", ("Few came. ", " It fell."), ["It is old."]),
        ("and on and on", ("It went ", " and on."), ["and on and on"]),  # none is whole
        ("- two\n- thr", ("- one\n", "ee\n"), ["two"]),
        ("了。她走了！", ("他来", ""), ["她走了！"]),
        ("", ("It ", "fell."), []),
    ],
)
def test_a_sentence_cut_at_the_edge_is_not_whole(text, around, expected):
    assert [s.text for s in whole_sentences(text, around)] == expected


def test_a_cut_sentence_is_not_quoted():
    said = quotes("Bea left Cid. Ada met Bea. Ada saw", ["Ada", "Bea", "Cid"], ("When ", " Cid go."))
    assert [quote.sentence.text for quote in said] == ["Ada met Bea."]
    assert said[0].sentence.start == len("Bea left Cid. ")


def test_a_surname_stands_for_its_bearer_unless_it_is_shared():
    text = "Ines Falk came. Falk left. Oskar Falk stayed."
    assert [q.names for q in quotes(text, ["Ines Falk"])] == [("Ines Falk",)] * 3
    assert [q.names for q in quotes(text, ["Ines Falk", "Oskar Falk"])] == [("Ines Falk",), ("Oskar Falk",)]


def test_a_name_within_a_longer_one_is_not_meant():
    (quote,) = quotes("The Low Mill Trust met at noon.", ["Low Mill", "Low Mill Trust"])
    assert quote.names == ("Low Mill Trust",)


def test_names_run_over_line_ends_and_other_scripts():
    (quote,) = quotes("They saw that Ada\nBrook was in the hall of Low Mill again.", ["Ada Brook", "Low Mill"])
    assert quote.names == ("Ada Brook", "Low Mill")
    (quote,) = quotes("張三在北京大學教授數學。", ["北京大學", "張三"])
    assert quote.names == ("張三", "北京大學")


def test_every_two_of_a_few_names_are_linked_and_a_long_row_by_its_first():
    few, many = ["Ada", "Bea", "Cid"], ["Ada", "Bea", "Cid", "Dov", "Eva", "Fay"]
    of_few = quotes("Ada, Bea and Cid came.", few)
    assert [(a, b) for a, b, _ in links(of_few)] == list(combinations(few, 2))
    of_many = [{a, b} for a, b, _ in links(quotes(", ".join(many) + " came.", many))]
    assert of_many == [{"Ada", n} for n in many[1:]] + [{"Bea", "Cid"}, {"Cid", "Dov"}, {"Dov", "Eva"}, {"Eva", "Fay"}]


def test_a_pair_is_linked_once_by_its_first_sentence():
    found = quotes("Ada met Bea. Bea paid Ada.", ["Ada", "Bea"])
    assert list(links(found)) == [("Ada", "Bea", "Ada met Bea.")]


def test_an_entity_is_described_where_it_comes_first():
    told = descriptions(quotes("The mill was Bea's. Bea sold it to Cid.", ["mill", "Bea", "Cid"]))
    assert told == {"mill": "The mill was Bea's.", "Bea": "Bea sold it to Cid.", "Cid": "Bea sold it to Cid."}


@pytest.mark.parametrize("gap", [10, 60, 200])
def test_a_long_sentence_is_cut_around_its_names(gap):
    text = "word " * gap + "Ada Brook met Tom Vale " + "again " * 100 + "."
    (quote,) = quotes(text, ["Ada Brook", "Tom Vale"])
    ((_, _, shown),) = links([quote])
    assert "Ada Brook met Tom Vale" in shown
    assert len(shown) <= QUOTE_CHARACTERS + 4
    assert shown.endswith(" …")
    inner = shown.removeprefix("… ").removesuffix(" …")
    assert f" {inner} " in f" {quote.sentence.text} "


def test_sentences_with_equal_beginnings_are_told_apart_to_their_last_word():
    text = "The pier at the end was closed in May. The pier at the end was closed in June."
    found = quotes(text, ["pier"])
    assert [quote.sentence.text for quote in openings(found).values()] == [quote.sentence.text for quote in found]
