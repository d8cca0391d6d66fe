"""Where the nodes of a graph are drawn: a force-directed layout by igraph, the same for the same seed."""

from __future__ import annotations

from localgraphrag.communities import seeded_igraph
from localgraphrag.graph import Graph, weighted_links

_STEPS = 500
_LARGE = 1000  # nodes above which the forces of Fruchterman and Reingold reach only the near, and all becomes one ball
_HOLD = 0.1  # what ties a node to the middle, so that parts without a link between them do not drift apart


def place(graph: Graph, *, cooccurrence_weight: float = 0.1, seed: int = 0) -> tuple[tuple[float, float], ...]:
    """A place for each node, in the order of `Graph.nodes`, by igraph.

    Up to 1,000 nodes by Fruchterman and Reingold (1991); more by DrL (Martin et al. 2011), which takes some seconds.

    Parameters
    ----------
    cooccurrence_weight : as in `detect_communities`, so that nodes clustered together also lie together.

    Returns
    -------
    (x, y) from 0 to 1, y downwards, to four digits; the longer side of the picture is 1, both begin at 0.
    """
    import igraph
    import numpy as np

    size = len(graph.nodes)
    if size < 2:
        return ((0.5, 0.5),) * size
    links = weighted_links(graph, cooccurrence_weight)
    ends = np.column_stack((links.sources, links.targets)).tolist()
    spokes = [(i, size) for i in range(size)]
    weights = [*links.weights.tolist(), *[_HOLD] * size]
    with seeded_igraph(seed):
        drawn = igraph.Graph(size + 1, [*ends, *spokes])
        if size > _LARGE:
            found = drawn.layout_drl(weights=weights, options="coarsen")
        else:
            found = drawn.layout_fruchterman_reingold(weights=weights, niter=_STEPS)
    places = np.asarray(found.coords)[:size]
    places -= places.min(axis=0)
    return tuple((float(x), float(y)) for x, y in (places / (places.max() or 1)).round(4))
