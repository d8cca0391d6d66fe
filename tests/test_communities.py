"""Leiden hierarchies: partitions, nesting, connectedness, gold communities, determinism."""

import os
import subprocess
import sys
import time
from itertools import pairwise
from pathlib import Path

import igraph
import leidenalg
import networkx as nx
import numpy as np
import pytest

from localgraphrag.communities import detect_communities, quality, write_graphml
from localgraphrag.errors import NotFoundError
from localgraphrag.graph import Edge, Graph, Node, Sourced, to_networkx, weighted_links


def as_graph(view, chunks=None):
    """A Graph like a networkx one. `chunks`: the chunk ids of each of its nodes."""
    number = {v: i for i, v in enumerate(view)}
    name = {v: f"e-{i:012x}" for v, i in number.items()}
    shared = chunks or {}
    nodes = [Node(name[v], str(v), str(v), "other", (), (), tuple(shared.get(v, ())), view.degree(v)) for v in view]
    edges = []
    for i, (u, v, data) in enumerate(e for e in view.edges(data=True) if e[0] != e[1]):
        source, target = sorted((name[u], name[v]))
        edges.append(Edge(f"r-{i:012x}", source, target, data.get("weight", 1), (), ()))
    return Graph(tuple(nodes), tuple(edges), ())


def lfr(seed):
    view = nx.LFR_benchmark_graph(250, 3, 1.5, 0.1, average_degree=5, min_community=20, max_community=60, seed=seed)
    gold = {v: min(data["community"]) for v, data in view.nodes(data=True)}
    return view, gold


def check_laws(graph, hierarchy, cooccurrence_weight=0.0):
    """Every level covers each node once, refines the one before, and holds connected communities only."""
    everything = sorted(n.id for n in graph.nodes)
    view = to_networkx(graph, cooccurrence_weight)
    for number, level in enumerate(hierarchy.levels):
        assert sorted(n for c in level for n in c.node_ids) == everything
        assert [(-len(c.node_ids), c.id) for c in level] == sorted((-len(c.node_ids), c.id) for c in level)
        for c in level:
            assert c.level == number and c.node_ids == tuple(sorted(c.node_ids))
            assert nx.is_connected(view.subgraph(c.node_ids))
    for coarse, fine in pairwise(hierarchy.levels):
        assert len(fine) > len(coarse)
        above = {c.id: c for c in coarse}
        for c in fine:
            assert set(c.node_ids) <= set(above[c.parent].node_ids) and c.id in above[c.parent].children
            assert (c.id == c.parent) == (c.node_ids == above[c.parent].node_ids)
        assert sorted(child for c in coarse for child in c.children) == sorted(c.id for c in fine)
    assert all(c.parent == "" for c in hierarchy.levels[0]) and not any(c.children for c in hierarchy.levels[-1])


def labels(level):
    found = {n: number for number, c in enumerate(level) for n in c.node_ids}
    return [found[n] for n in sorted(found)]


def nmi(one, other):
    return igraph.compare_communities(one, other, method="nmi")


def flat(graph):
    """What leidenalg itself finds."""
    links = weighted_links(graph)
    plain = igraph.Graph(len(graph.nodes), list(zip(links.sources.tolist(), links.targets.tolist(), strict=True)))
    weights = links.weights.tolist()
    return leidenalg.find_partition(plain, leidenalg.ModularityVertexPartition, weights=weights, seed=0).membership


@pytest.mark.parametrize("seed", [11, 12, 13])
def test_laws_and_gold_on_lfr_graphs(seed):
    view, gold = lfr(seed)
    graph = as_graph(view)
    hierarchy = detect_communities(graph, cooccurrence_weight=0)
    check_laws(graph, hierarchy)
    names = [gold[v] for v in view]
    assert nmi(labels(hierarchy.level(0)), names) >= nmi(flat(graph), names) > 0.6
    assert 2 <= len(hierarchy.levels) <= 4


@pytest.mark.parametrize("name", ["karate", "polbooks", "football", "eu-core"])
def test_laws_and_gold_on_known_graphs(corpus, name):
    view = nx.read_gml(corpus("community_graphs") / f"{name}.gml", label="id")
    graph = as_graph(view)
    hierarchy = detect_communities(graph, cooccurrence_weight=0)
    check_laws(graph, hierarchy)
    kinds = sorted({str(data["gt"]) for _, data in view.nodes(data=True)})
    gold = [kinds.index(str(data["gt"])) for _, data in view.nodes(data=True)]
    assert nmi(labels(hierarchy.level(0)), gold) >= nmi(flat(graph), gold) > 0.4


def test_every_community_too_large_is_divided_if_it_can_be():
    view, _ = lfr(13)
    graph = as_graph(view)
    deep = detect_communities(graph, max_levels=8, cooccurrence_weight=0)
    for c in deep.levels[-1]:
        if len(c.node_ids) > 10:  # Leiden finds nothing inside
            inner = as_graph(to_networkx(graph).subgraph(c.node_ids).copy())
            assert len(set(flat(inner))) == 1
    coarse = detect_communities(graph, max_community_size=1000, cooccurrence_weight=0)
    assert [c.id for c in coarse.level(0)] == [c.id for c in deep.level(0)] and len(coarse.levels) == 1


def test_the_number_of_levels_is_respected_and_deeper_levels_refine_the_same_start():
    graph = as_graph(lfr(13)[0])
    members = {}
    for most in (1, 2, 3):
        levels = detect_communities(graph, max_levels=most, cooccurrence_weight=0).levels
        assert len(levels) == most
        members[most] = [[c.node_ids for c in level] for level in levels]
    assert members[3][:2] == members[2] and members[2][:1] == members[1]


def test_an_undivided_community_is_carried_down_under_its_id():
    view = nx.disjoint_union(nx.complete_graph(4), nx.connected_caveman_graph(6, 5))
    graph = as_graph(view)
    hierarchy = detect_communities(graph, max_community_size=4, cooccurrence_weight=0)
    small = hierarchy.path(graph.nodes[0].id)
    assert {c.id for c in small} == {small[0].id} and [c.level for c in small] == list(range(len(hierarchy.levels)))
    assert hierarchy.community(small[0].id) is small[0]
    assert all(c.parent == c.id for c in small[1:]) and all(c.children == (c.id,) for c in small[:-1])


# Small graphs


@pytest.mark.parametrize(
    ("view", "sizes"),
    [
        (nx.empty_graph(1), [1]),
        (nx.empty_graph(3), [1, 1, 1]),
        (nx.path_graph(2), [2]),
        (nx.star_graph(30), [31]),
        (nx.complete_graph(12), [12]),
        (nx.disjoint_union(nx.complete_graph(5), nx.complete_graph(4)), [5, 4]),
        (nx.disjoint_union(nx.complete_graph(5), nx.empty_graph(1)), [5, 1]),
    ],
    ids=["one node", "no edge", "one edge", "star", "clique", "two components", "isolated node"],
)
def test_small_graphs(view, sizes):
    graph = as_graph(view)
    hierarchy = detect_communities(graph)
    check_laws(graph, hierarchy)
    assert [len(c.node_ids) for c in hierarchy.level(0)] == sizes and len(hierarchy.levels) == 1


def test_an_empty_graph_has_no_level():
    hierarchy = detect_communities(Graph((), (), ()))
    assert hierarchy.levels == () and quality(Graph((), (), ()), hierarchy) == ()
    with pytest.raises(NotFoundError, match="no entities"):
        hierarchy.level(0)


def test_what_there_is_not_is_said():
    hierarchy = detect_communities(as_graph(lfr(13)[0]), max_levels=2)
    for number in (2, -1):
        with pytest.raises(NotFoundError, match="C0, C1"):
            hierarchy.level(number)
    with pytest.raises(NotFoundError, match="'c-1'"):
        hierarchy.community("c-1")
    with pytest.raises(NotFoundError, match="'e-x'"):
        hierarchy.path("e-x")


def test_shared_chunks_join_pieces_for_clustering_only():
    view = nx.disjoint_union_all([nx.path_graph(2)] * 60)
    graph = as_graph(view, {v: [f"chunk {v // 6}"] for v in view})  # six nodes a chunk: three pieces each
    assert len(detect_communities(graph, cooccurrence_weight=0).level(0)) == 60
    joined = detect_communities(graph, cooccurrence_weight=0.1)
    check_laws(graph, joined, cooccurrence_weight=0.1)
    assert [len(c.node_ids) for c in joined.level(0)] == [6] * 20
    assert len(graph.edges) == 60


def test_heavier_edges_bind():
    view = nx.cycle_graph(4)
    view.edges[0, 1]["weight"] = view.edges[2, 3]["weight"] = 9
    found = detect_communities(as_graph(view), cooccurrence_weight=0).level(0)
    assert sorted(c.node_ids for c in found) == [tuple(f"e-{i:012x}" for i in pair) for pair in ((0, 1), (2, 3))]


# Determinism and speed


SCRIPT = """
import sys; sys.path[:0] = [{tests!r}, {root!r}]
from test_communities import as_graph, lfr
from localgraphrag.communities import detect_communities
print([[c.id for c in level] for level in detect_communities(as_graph(lfr(11)[0]), seed=3).levels])
"""


def test_same_seed_same_result_in_another_process():
    here = [[c.id for c in level] for level in detect_communities(as_graph(lfr(11)[0]), seed=3).levels]
    tests = Path(__file__).parent
    script = SCRIPT.format(tests=str(tests), root=str(tests.parent))
    environment = {**os.environ, "PYTHONHASHSEED": "77"}
    run = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True)
    assert run.stdout.strip() == str(here)


@pytest.mark.slow
def test_a_hundred_thousand_edges_take_seconds():
    random = np.random.default_rng(0)
    nodes, block, edges = 20_000, 100, 110_000  # some edges are drawn twice
    sources = random.integers(0, nodes, edges)
    near = sources - sources % block + random.integers(0, block, edges)
    targets = np.where(random.random(edges) < 0.9, near, random.integers(0, nodes, edges))
    view = nx.Graph()
    view.add_nodes_from(range(nodes))
    view.add_edges_from(zip(sources.tolist(), targets.tolist(), strict=True))
    graph = as_graph(view)
    assert len(graph.edges) > 100_000
    start = time.process_time()
    hierarchy = detect_communities(graph, cooccurrence_weight=0)
    assert time.process_time() - start < 20
    gold = [node // block for node in view]
    assert max(nmi(labels(level), gold) for level in hierarchy.levels) > 0.9


# Measures and exports


def test_quality_of_a_graph_that_is_all_clear():
    view = nx.disjoint_union(nx.complete_graph(5), nx.complete_graph(4))
    graph = as_graph(view)
    (level,) = quality(graph, detect_communities(graph))
    assert (level.level, level.communities, level.sizes) == (0, 2, ((4, 1), (5, 1)))
    assert (level.coverage, level.conductance, level.stability) == (1.0, 0.0, pytest.approx(1.0))
    assert level.modularity == pytest.approx(1 - (10 / 16) ** 2 - (6 / 16) ** 2)


def test_quality_agrees_with_networkx():
    view, _ = lfr(12)
    graph = as_graph(view)
    hierarchy = detect_communities(graph, cooccurrence_weight=0)
    measured = quality(graph, hierarchy, cooccurrence_weight=0, seeds=3)
    plain = to_networkx(graph)
    for level, found in zip(hierarchy.levels, measured, strict=True):
        parts = [set(c.node_ids) for c in level]
        assert found.modularity == pytest.approx(nx.community.modularity(plain, parts))
        assert found.coverage == pytest.approx(nx.community.partition_quality(plain, parts)[0])
        assert sum(size * count for size, count in found.sizes) == len(graph.nodes)
        assert 0.5 < found.stability <= 1
    assert measured[0].modularity > measured[-1].modularity
    assert measured[0].conductance < measured[-1].conductance


def test_quality_without_an_edge():
    graph = as_graph(nx.empty_graph(3))
    (level,) = quality(graph, detect_communities(graph))
    assert (level.modularity, level.coverage, level.sizes) == (0.0, 1.0, ((1, 3),))


def test_graphml_can_be_read_back(tmp_path):
    graph = as_graph(nx.path_graph(3))
    odd = Node("e-" + "f" * 12, "x", "bell \a & <b> 東京", "other", (Sourced("\x00zero", "k"),), (), (), 0)
    graph = Graph((*graph.nodes, odd), graph.edges, ())
    hierarchy = detect_communities(graph)
    path = tmp_path / "graph.graphml"
    write_graphml(graph, hierarchy, path)
    view = nx.read_graphml(path)
    assert set(view) == {n.id for n in graph.nodes} and view.number_of_edges() == 2
    assert view.nodes[odd.id]["name"] == "bell  & <b> 東京" and view.nodes[odd.id]["description"] == "zero"
    assert view.nodes[odd.id]["C0"] == hierarchy.path(odd.id)[0].id
