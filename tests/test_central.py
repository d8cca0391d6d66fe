"""Which statements say most of what all say: LexRank against networkx's PageRank, and the laws of the choice."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from localgraphrag.central import FOLLOWING, LIKE, central, centrality


def directions(seed, n, dimensions=6):
    vectors = np.random.default_rng(seed).normal(size=(n, dimensions))
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)


@pytest.mark.parametrize("seed", range(5))
def test_standing_is_pagerank_over_likeness(seed):
    vectors = directions(seed, 20)
    likeness = np.asarray(vectors @ vectors.T, np.float64)
    graph = nx.Graph()
    graph.add_nodes_from(range(20))
    graph.add_weighted_edges_from((i, j, likeness[i, j]) for i in range(20) for j in range(i) if likeness[i, j] > LIKE)
    assert all(dict(graph.degree()).values())  # networkx gives the rank of a node without links to all others
    ranks = nx.pagerank(graph, alpha=FOLLOWING, tol=1e-12, max_iter=1000)
    expected = np.array([ranks[i] for i in range(20)])
    assert centrality(vectors) == pytest.approx(expected / expected.max(), rel=1e-6)


def test_a_statement_like_no_other_stands_lowest():
    vectors = np.array([[1, 0, 0], [0.9, 0.436, 0], [0.8, 0.6, 0], [0, 0, 1]], np.float32)
    assert centrality(vectors).argmin() == 3


def test_nothing_and_one_and_vectors_of_nothing():
    nothing = np.zeros((0, 4), np.float32)
    assert centrality(nothing).shape == (0,) and central(nothing, [], 9, 3, np.zeros(0)) == []
    assert central(np.zeros((1, 4), np.float32), [50], 9, 3, np.zeros(1)) == [0]
    assert central(np.zeros((3, 4), np.float32), [1, 1, 1], 9, 3, np.zeros(3)) == [0, 1, 2]


def test_a_repeated_statement_waits_behind_another_matter():
    same = np.array([[1, 0], [1, 0], [1, 0], [0.6, 0.8]], np.float32)
    assert central(same, [1] * 4, 9, 2, np.zeros(4)) == [0, 3]


def test_a_bonus_decides_among_equals():
    same = np.array([[1, 0], [1, 0], [1, 0]], np.float32)
    assert central(same, [1] * 3, 9, 1, np.array([0.0, 0.0, 0.2])) == [2]


def test_a_statement_too_long_gives_way_to_those_that_fit():
    vectors = np.array([[1, 0], [0.9, 0.436], [0.8, 0.6], [0.95, 0.312]], np.float32)
    assert centrality(vectors).argmax() in (1, 3)
    costs = [5, 50, 5, 50]
    assert sorted(central(vectors, costs, 12, 4, np.zeros(4))) == [0, 2]
    assert len(central(vectors, [50] * 4, 12, 4, np.zeros(4))) == 1


@given(st.integers(0, 200), st.integers(1, 30), st.integers(1, 8), st.integers(1, 60))
def test_the_choice_keeps_to_its_bounds(seed, n, most, room):
    vectors, costs = directions(seed, n), [1 + (7 * i) % 13 for i in range(n)]
    chosen = central(vectors, costs, room, most, np.zeros(n))
    assert 1 <= len(chosen) <= most and len(set(chosen)) == len(chosen)
    assert len(chosen) == 1 or sum(costs[i] for i in chosen) <= room
