"""Graph to a hierarchy of communities by recursive Leiden (paper 3.1.4)."""

from __future__ import annotations

import random
import re
import threading
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING

from localgraphrag.errors import NotFoundError
from localgraphrag.graph import Graph, Links, to_networkx, weighted_links
from localgraphrag.llm.units import content_hash

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from localgraphrag.config import Settings

    Labels = NDArray[np.int64]  # one community number per node, in the order of `Graph.nodes`


@dataclass(frozen=True, slots=True)
class Community:
    """A set of nodes at one level.

    `id` is "c-" and 12 hex digits of the hash of its sorted node ids, so a community carried down undivided keeps its
    id (and so its report) on every level. `parent` is the id of the community one level up ("" at C0), `children` the
    ids one level down, largest first.
    """

    id: str
    level: int
    parent: str
    children: tuple[str, ...]
    node_ids: tuple[str, ...]


@dataclass(frozen=True)
class Hierarchy:
    """`levels[k]` is the partition Ck, each level a complete cover, largest community first (ties: id).

    A graph with a node has at least one level; there are no more levels than divisions.
    """

    levels: tuple[tuple[Community, ...], ...]

    def level(self, number: int) -> tuple[Community, ...]:
        """The partition C`number`. Raises NotFoundError that names the levels there are."""
        if not self.levels:
            raise NotFoundError(f"There is no level C{number}: the index holds no entities, and so no communities.")
        if not 0 <= number < len(self.levels):
            known = ", ".join(f"C{k}" for k in range(len(self.levels)))
            raise NotFoundError(f"There is no level C{number}. This index has {known}; the last is the finest.")
        return self.levels[number]

    def community(self, community_id: str) -> Community:
        """The community of that id, on the coarsest level that has it. Raises NotFoundError."""
        if community_id not in self._communities:
            raise NotFoundError(f"No community has the id '{community_id}'. The index holds {len(self._communities)}.")
        return self._communities[community_id]

    def path(self, node_id: str) -> tuple[Community, ...]:
        """The community of a node on each level, coarsest first. Raises NotFoundError."""
        if node_id not in self._paths:
            raise NotFoundError(f"No community holds an entity with the id '{node_id}'.")
        return self._paths[node_id]

    @cached_property
    def _communities(self) -> dict[str, Community]:
        return {c.id: c for level in reversed(self.levels) for c in level}

    @cached_property
    def _paths(self) -> dict[str, tuple[Community, ...]]:
        found: defaultdict[str, list[Community]] = defaultdict(list)
        for level in self.levels:
            for community in level:
                for node_id in community.node_ids:
                    found[node_id].append(community)
        return {node_id: tuple(communities) for node_id, communities in found.items()}


def detect_communities(
    graph: Graph,
    *,
    max_community_size: int = 10,
    max_levels: int = 4,
    cooccurrence_weight: float = 0.1,
    seed: int = 0,
) -> Hierarchy:
    """Leiden on the whole graph, then again inside every community that is too large (paper 3.1.4; arXiv 1810.08473).

    Parameters
    ----------
    max_community_size : a community with more nodes is divided on the next level, if Leiden finds a division.
    max_levels : at most so many levels; fewer when nothing is left to divide.
    cooccurrence_weight : what each chunk that two nodes share adds to their link, for clustering only.

    Returns
    -------
    Partitions of all nodes, each refining the one before. Every community is connected in the clustering graph; a node
    without a link is a community of its own. An empty graph has no level.
    """
    if not graph.nodes:
        return Hierarchy(())
    links = weighted_links(graph, cooccurrence_weight)
    return _hierarchy(graph, _partitions(len(graph.nodes), links, max_community_size, max_levels, seed))


def communities_of(graph: Graph, settings: Settings) -> Hierarchy:
    """The hierarchy of communities under the settings."""
    return detect_communities(
        graph,
        max_community_size=settings.max_community_size,
        max_levels=settings.max_levels,
        cooccurrence_weight=settings.cooccurrence_weight,
        seed=settings.seed,
    )


def levels_reported(hierarchy: Hierarchy, settings: Settings) -> list[int]:
    """The levels of it whose reports `index` writes under the settings."""
    return [k for k in range(len(hierarchy.levels)) if not settings.report_levels or k in settings.report_levels]


def levels_unknown(hierarchy: Hierarchy, settings: Settings) -> list[str]:
    """A warning where reports are wanted of levels that are not there: clustering decides how many there are."""
    levels = len(hierarchy.levels)
    unknown = [f"C{level}" for level in settings.report_levels if not 0 <= level < levels]
    if not unknown:
        return []
    there = f"the levels {', '.join(f'C{level}' for level in range(levels))}" if levels else "no levels"
    return [
        f"No reports were written for {', '.join(unknown)}: this index has {there}. Name levels that it has, with "
        "--levels or the setting report_levels."
    ]


def _partitions(size: int, links: Links, max_size: int, max_levels: int, seed: int) -> list[Labels]:
    """Labels of every node on each level, coarsest first."""
    import numpy as np

    levels = [_leiden(size, links, seed)]
    settled = np.zeros(size, bool)  # nodes of communities in which Leiden found nothing to divide
    while len(levels) < max_levels:
        finer = _divide(levels[-1], links, max_size, seed, settled)
        if finer is None:
            break
        levels.append(finer)
    return levels


def _divide(labels: Labels, links: Links, max_size: int, seed: int, settled: NDArray[np.bool_]) -> Labels | None:
    """Leiden inside each community larger than `max_size`; None if nothing divides. Marks what does not in `settled`.

    Nodes and links are sorted by community once, so that each community is a slice: the cost is that of the sort, not
    of a pass over the graph for each community.
    """
    import numpy as np

    sizes = np.bincount(labels)
    ends = np.cumsum(sizes)
    members = np.argsort(labels, kind="stable")
    position = np.empty_like(labels)
    position[members] = np.arange(len(labels)) - np.repeat(ends - sizes, sizes)
    inside = np.flatnonzero(labels[links.sources] == labels[links.targets])
    inside = inside[np.argsort(labels[links.sources[inside]], kind="stable")]
    link_ends = np.cumsum(np.bincount(labels[links.sources[inside]], minlength=len(sizes)))
    finer, fresh = labels.copy(), len(sizes)
    for label in np.flatnonzero(sizes > max_size):
        nodes = members[ends[label] - sizes[label] : ends[label]]
        if settled[nodes[0]]:
            continue
        own = inside[link_ends[label - 1] if label else 0 : link_ends[label]]
        part = Links(position[links.sources[own]], position[links.targets[own]], links.weights[own])
        division = _leiden(len(nodes), part, seed)
        settled[nodes] = not division.any()
        finer[nodes[division > 0]] = division[division > 0] + (fresh - 1)
        fresh += division.max()
    return finer if fresh > len(sizes) else None


_RANDOM = threading.Lock()  # igraph has one generator for the whole process


@contextmanager
def seeded_igraph(seed: int) -> Iterator[None]:
    """What igraph draws at random within comes from the seed; other threads wait for their turn."""
    import igraph

    with _RANDOM:
        igraph.set_random_number_generator(random.Random(seed))  # noqa: S311
        try:
            yield
        finally:
            igraph.set_random_number_generator(random)  # as igraph has it by default


def _leiden(size: int, links: Links, seed: int) -> Labels:
    """Leiden by modularity, igraph's; labels count from 0. Two iterations, as leidenalg's default."""
    import igraph
    import numpy as np

    if not len(links.weights):
        return np.arange(size)
    ends = np.column_stack((links.sources, links.targets))
    graph, weights = igraph.Graph(size, ends), links.weights.tolist()
    with seeded_igraph(seed):
        found = graph.community_leiden("modularity", weights=weights, n_iterations=2)
    labels = np.asarray(found.membership)
    del graph, weights, found  # of a large corpus, a gigabyte
    # Leiden promises connected communities once it has converged; after two iterations this makes sure.
    kept = ends[labels[links.sources] == labels[links.targets]]
    return np.asarray(igraph.Graph(size, kept).connected_components().membership)


def _hierarchy(graph: Graph, partitions: list[Labels]) -> Hierarchy:
    """Communities with ids, parents and children from the labels of each level."""
    import numpy as np

    node_ids = [node.id for node in graph.nodes]
    groups: list[list[tuple[str, ...]]] = []
    firsts: list[list[int]] = []
    for labels in partitions:
        members = np.argsort(labels, kind="stable")  # within a community nodes stay sorted by id
        parts = np.split(members, np.cumsum(np.bincount(labels))[:-1])
        groups.append([tuple(node_ids[i] for i in part.tolist()) for part in parts])
        firsts.append([int(part[0]) for part in parts])
    ids = [["c-" + content_hash(*group)[:12] for group in level] for level in groups]
    levels = []
    for k, labels in enumerate(partitions):
        parents = [ids[k - 1][partitions[k - 1][first]] for first in firsts[k]] if k else [""] * len(groups[k])
        children: list[list[tuple[int, str]]] = [[] for _ in groups[k]]
        for finer, first in enumerate(firsts[k + 1] if k + 1 < len(partitions) else ()):
            children[labels[first]].append((-len(groups[k + 1][finer]), ids[k + 1][finer]))
        found = [
            Community(ids[k][i], k, parents[i], tuple(child for _, child in sorted(children[i])), groups[k][i])
            for i in range(len(groups[k]))
        ]
        levels.append(tuple(sorted(found, key=lambda c: (-len(c.node_ids), c.id))))
    return Hierarchy(tuple(levels))


@dataclass(frozen=True)
class LevelQuality:
    """How good the partition of one level is.

    `modularity` is weighted; `coverage` is the share of links inside communities; `conductance` the mean over
    communities of the share of their link ends that lead out; both count links. `sizes`: (nodes, communities of that
    size), ascending. `stability`: mean pairwise normalized mutual information of the level under several seeds; 1 is
    the same partition each time.
    """

    level: int
    communities: int
    modularity: float
    coverage: float
    conductance: float
    sizes: tuple[tuple[int, int], ...]
    stability: float


def quality(
    graph: Graph,
    hierarchy: Hierarchy,
    *,
    max_community_size: int = 10,
    max_levels: int = 4,
    cooccurrence_weight: float = 0.1,
    seeds: int = 5,
) -> tuple[LevelQuality, ...]:
    """Measures of every level on the clustering graph, by cdlib; the settings are those of `detect_communities`.

    Stability runs Leiden again with the seeds 0 to `seeds` - 1 (at least 2); a run with fewer levels gives its finest.
    """
    from cdlib import NodeClustering, evaluation

    view = to_networkx(graph, cooccurrence_weight)
    stability = _stability(graph, hierarchy, max_community_size, max_levels, cooccurrence_weight, max(seeds, 2))
    measured = []
    for number, level in enumerate(hierarchy.levels):
        clusters = NodeClustering([list(c.node_ids) for c in level], view, "leiden")
        links = view.number_of_edges()
        inside = sum(evaluation.edges_inside(view, clusters, summary=False))
        measured.append(
            LevelQuality(
                level=number,
                communities=len(level),
                modularity=float(evaluation.newman_girvan_modularity(view, clusters).score) if links else 0.0,
                coverage=inside / links if links else 1.0,
                conductance=float(evaluation.conductance(view, clusters).score),
                sizes=tuple(sorted(Counter(len(c.node_ids) for c in level).items())),
                stability=stability[number],
            )
        )
    return tuple(measured)


def _stability(
    graph: Graph, hierarchy: Hierarchy, max_size: int, max_levels: int, cooccurrence_weight: float, seeds: int
) -> list[float]:
    import igraph

    if not graph.nodes:
        return []
    links = weighted_links(graph, cooccurrence_weight)
    runs = [_partitions(len(graph.nodes), links, max_size, max_levels, seed) for seed in range(seeds)]
    scores = []
    for number in range(len(hierarchy.levels)):
        labels = [run[min(number, len(run) - 1)].tolist() for run in runs]
        pairs = [igraph.compare_communities(a, b, method="nmi") for a, b in combinations(labels, 2)]
        scores.append(sum(pairs) / len(pairs))
    return scores


_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def write_graphml(graph: Graph, hierarchy: Hierarchy, path: Path) -> None:
    """Write the graph for other tools (Gephi, Cytoscape, igraph): GraphML, with each node's community on each level."""
    import networkx as nx

    view = to_networkx(graph)
    for node_id in view:
        communities = hierarchy.path(node_id) if hierarchy.levels else ()
        view.nodes[node_id].update({f"C{c.level}": c.id for c in communities})
    for values in (*dict(view.nodes(data=True)).values(), *(data for _, _, data in view.edges(data=True))):
        values.update({name: _NOT_XML.sub("", value) for name, value in values.items() if isinstance(value, str)})
    nx.write_graphml_xml(view, path)
