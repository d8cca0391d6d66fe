"""The sums behind verdicts and claims, held to scipy, statsmodels and rouge-score."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rouge_score.rouge_scorer import RougeScorer
from scipy.cluster.hierarchy import fcluster, linkage
from scipy.stats import wilcoxon
from statsmodels.stats.multitest import multipletests

from localgraphrag.evaluate.statistics import clusters, holm, rouge_l, signed_rank, win_rate, words

FEW = settings(deadline=None, max_examples=40)  # imports and exact tests take their time
SCORES = st.lists(st.sampled_from([0.0, 0.25, 0.5, 0.75, 1.0]), min_size=1, max_size=30)
WORDS = [
    "the",
    "a",
    "pier",
    "lease",
    "council",
    "was",
    "closed",
    "1931",
    "Morrow's",
    "boat-builder",
    "debt_fund",
    "Ostrey",
]


def texts(count: int, seed: int) -> list[str]:
    chance = random.Random(seed)
    return [" ".join(chance.choices(WORDS, k=chance.randint(0, 12))) for _ in range(count)]


@FEW
@given(SCORES)
def test_a_rate_lies_in_its_interval_and_turns_with_the_sides(scores):
    found, other = win_rate(scores), win_rate([1 - score for score in scores])
    assert 0 <= found.low <= found.rate + 1e-12
    assert found.rate <= found.high + 1e-12 <= 1 + 1e-9
    assert other.rate == pytest.approx(1 - found.rate)
    assert (other.low, other.high) == pytest.approx((1 - found.high, 1 - found.low))


def test_more_questions_make_an_interval_narrower_and_few_never_make_it_nothing():
    few, many = win_rate([1.0] * 4), win_rate([1.0] * 40)
    assert few.rate == many.rate == 1.0
    assert few.low < many.low < 1.0
    share, count, z = 4.5 / 6, 6, 1.959964
    centre = (share + z * z / (2 * count)) / (1 + z * z / count)
    half = z / (1 + z * z / count) * (share * (1 - share) / count + z * z / (4 * count * count)) ** 0.5
    found = win_rate([1, 0, 1, 1, 0.5, 1])
    assert (found.low, found.high) == pytest.approx((centre - half, centre + half), abs=1e-5)


@FEW
@given(SCORES)
def test_signed_rank_is_scipys(scores):
    decided = [score - 0.5 for score in scores if score != 0.5]
    expected = wilcoxon(decided).pvalue if decided else 1.0
    assert signed_rank(scores) == pytest.approx(expected)
    assert signed_rank([1 - score for score in scores]) == pytest.approx(signed_rank(scores))


def test_nothing_decided_is_no_difference():
    assert signed_rank([0.5, 0.5]) == 1.0
    assert signed_rank([]) == 1.0


@FEW
@given(st.lists(st.floats(0, 1), max_size=15))
def test_holm_is_statsmodels(p_values):
    expected = multipletests(p_values, method="holm")[1].tolist() if p_values else []
    assert holm(p_values) == pytest.approx(expected)


def test_holm_by_hand():
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])


def test_rouge_l_is_rouge_scores_on_a_hundred_pairs():
    scorer = RougeScorer(["rougeL"])
    for one, other in zip(texts(100, 1), texts(100, 2), strict=True):
        assert rouge_l(one, other) == scorer.score(one, other)["rougeL"].fmeasure


def test_rouge_l_reads_other_scripts():
    assert rouge_l("Причал закрыт с 1931 года", "причал закрыт с 1931 года.") == 1.0
    assert rouge_l("Причал закрыт", "Хлеб подорожал") == 0.0


def test_rouge_l_takes_characters_where_a_script_has_no_spaces():
    # 9 and 10 characters, 9 of them shared in order
    assert rouge_l("桥在一九三一年塌了。", "桥在一九三一年倒塌了。") == pytest.approx(2 * 9 / (9 + 10))
    assert rouge_l("桥塌了", "面包贵") == 0
    assert rouge_l("น้ำในเมือง", "น้ำในบ้าน") > 0.4


def test_vowel_signs_belong_to_their_word():
    assert words("नदी में बाढ़ आई।") == ["नदी", "में", "बाढ़", "आई"]
    assert rouge_l("की", "का") == 0  # "of", in two genders


@pytest.mark.parametrize("seed", range(5))
def test_clusters_are_scipys_complete_linkage(seed):
    said = texts(12, seed)
    scorer = RougeScorer(["rougeL"])
    apart = np.array([1 - scorer.score(a, b)["rougeL"].fmeasure for i, a in enumerate(said) for b in said[i + 1 :]])
    tree = linkage(apart, "complete")
    levels = [0.5, 0.6, 0.7, 0.8]
    assert clusters(said, levels) == [fcluster(tree, t, "distance").max() for t in levels]


@FEW
@given(st.integers(0, 1000), st.integers(0, 8))
def test_higher_thresholds_never_give_more_clusters(seed, count):
    found = clusters(texts(count, seed), [0.5, 0.6, 0.7, 0.8])
    assert found == sorted(found, reverse=True)
    assert all(min(count, 1) <= number <= count for number in found)
