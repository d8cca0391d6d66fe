"""The graph, coloured by community, level by level."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import traitlets

from localgraphrag.communities import Community, Hierarchy
from localgraphrag.graph import Graph, Node, normalize_name
from localgraphrag.notebook.base import Element, View, el, script, styles, within
from localgraphrag.notebook.graph_layout import place
from localgraphrag.notebook.palette import look
from localgraphrag.summaries import Report

Shape = tuple[tuple[float, float], ...]  # corners around the middle, about one unit away; none: a circle

_LOOKS = 56  # that differ
_LEGEND = 12
_LABELS = 14
_ABOUT = 400  # characters of a description that are sent to the browser
_TITLED = 400  # most nodes that each say their name in the static form; larger graphs are one path a community
_WIDTH, _HEIGHT, _MARGIN = 760, 520, 24


def _regular(corners: int, turn: float = -0.25, inner: float = 1.0) -> Shape:
    """A polygon on a circle of 1.15; with `inner`, every other corner lies so far inside."""
    radii = [1.15 * (inner if i % 2 else 1) for i in range(corners)] if inner < 1 else [1.15] * corners
    angles = [2 * math.pi * (i / corners + turn) for i in range(corners)]
    return tuple((round(r * math.cos(a), 3), round(r * math.sin(a), 3)) for r, a in zip(radii, angles, strict=True))


_CROSS = ((-1, -3), (1, -3), (1, -1), (3, -1), (3, 1), (1, 1), (1, 3), (-1, 3), (-1, 1), (-3, 1), (-3, -1), (-1, -1))
SHAPES: dict[str, Shape] = {
    "●": (), "▲": _regular(3), "■": _regular(4, 0.125), "◆": _regular(4), "★": _regular(10, inner=0.45),
    "▼": _regular(3, 0.25), "✚": tuple((x / 2.6, y / 2.6) for x, y in _CROSS), "⬟": _regular(5),
}  # fmt: skip


class GraphView(View):
    """Entities and their relationships. Click one, or go from neighbour to neighbour with the arrow keys.

    Parameters
    ----------
    hierarchy : gives the colours; without one all nodes look the same and there is no level to choose.
    reports : by community id; their titles name the communities. Others are named by their best-linked entities.
    cooccurrence_weight, seed : of the layout; see `place`.

    `level` is the level whose communities are shown. `selected` is the id of an entity, or ""; a name may be assigned,
    and becomes the id. `highlighted` is the id of a community of the level, or "".

    >>> view = GraphView(graph, hierarchy)  # doctest: +SKIP
    >>> view.selected = "Silka Morrow"  # doctest: +SKIP
    >>> view.node.degree, view.community.id  # doctest: +SKIP
    """

    _esm = script("graph_view.js")
    _css = styles("graph_view.css")
    data = traitlets.Dict().tag(sync=True)
    level = traitlets.Int(0).tag(sync=True)
    selected = traitlets.Unicode("").tag(sync=True)
    highlighted = traitlets.Unicode("").tag(sync=True)

    def __init__(
        self,
        graph: Graph,
        hierarchy: Hierarchy | None = None,
        reports: Mapping[str, Report] | None = None,
        *,
        cooccurrence_weight: float = 0.1,
        seed: int = 0,
        **traits: Any,
    ) -> None:
        self.graph, self.hierarchy, self._reports = graph, hierarchy or Hierarchy(()), reports or {}
        self.places = place(graph, cooccurrence_weight=cooccurrence_weight, seed=seed)
        self._spots = _fitted(self.places)
        super().__init__(data=self._data(), **traits)

    @property
    def node(self) -> Node | None:
        """The entity that is selected."""
        return self.graph.node(self.selected) if self.selected else None

    @property
    def community(self) -> Community | None:
        """The community, on the level shown, of the entity that is selected."""
        return self.hierarchy.path(self.selected)[self.level] if self.selected and self.hierarchy.levels else None

    @traitlets.validate("level")
    def _known_level(self, proposal: Any) -> int:
        return within("level", proposal["value"], 0, max(len(self.hierarchy.levels) - 1, 0))

    @traitlets.validate("selected")
    def _known_node(self, proposal: Any) -> str:
        given = proposal["value"]
        named = self.graph.nodes_by_key.get(normalize_name(given))
        if not given or any(node.id == given for node in self.graph.nodes):
            return str(given)
        if named is None:
            raise traitlets.TraitError(f"The graph has no entity {given!r} among its {len(self.graph.nodes)}.")
        return named.id

    @traitlets.validate("highlighted")
    def _known_community(self, proposal: Any) -> str:
        given = str(proposal["value"])
        if given and not any(community.id == given for level in self.hierarchy.levels for community in level):
            raise traitlets.TraitError(f"There is no community {given!r}; ids are those of the hierarchy given.")
        return given

    @traitlets.observe("level")
    def _on_level(self, _change: Any) -> None:
        """What was highlighted may not be there on another level."""
        if self.highlighted not in [community.id for community in self._communities()]:
            self.highlighted = ""

    def _communities(self) -> tuple[Community, ...]:
        return self.hierarchy.levels[self.level] if self.hierarchy.levels else ()

    def _title(self, community: Community) -> str:
        if community.id in self._reports:
            return self._reports[community.id].title
        best = sorted((self.graph.node(id_) for id_ in community.node_ids), key=lambda n: (-n.degree, n.name))[:2]
        return ", ".join(node.name for node in best) + (" …" if len(community.node_ids) > 2 else "")

    def _data(self) -> dict[str, Any]:
        nodes, index = self.graph.nodes, {node.id: i for i, node in enumerate(self.graph.nodes)}
        levels = []
        for level in self.hierarchy.levels:
            of = [0] * len(nodes)
            for number, community in enumerate(level):
                for node_id in community.node_ids:
                    of[index[node_id]] = number
            shown = [{"id": c.id, "title": self._title(c), "nodes": len(c.node_ids)} for c in level]
            levels.append({"of": of, "communities": shown})
        looks = [look(i) for i in range(_LOOKS)]
        return {
            "ids": [node.id for node in nodes],
            "names": [node.name for node in nodes],
            "types": [node.type for node in nodes],
            "about": [_cut(node.description, _ABOUT) for node in nodes],
            "places": [list(at) for at in self.places],
            "degrees": [node.degree for node in nodes],
            "links": [[index[edge.source], index[edge.target], edge.weight] for edge in self.graph.edges],
            "levels": levels,
            "looks": [{"colour": one.colour, "mark": one.mark, "shape": SHAPES[one.mark]} for one in looks],
            "legend": _LEGEND,
        }

    def picture(self) -> Element:
        """The whole graph at the level shown, with the names of the best-linked entities and of what is selected."""
        title = f"{len(self.graph.nodes)} entities, {len(self.graph.edges)} relationships"
        if self.hierarchy.levels:
            title += f", {len(self._communities())} communities on level C{self.level}"
        size = {"viewBox": f"0 0 {_WIDTH} {_HEIGHT}", "role": "img", "aria-label": title, "class": "lgr-graph-static"}
        drawn = el("svg", size, self._lines(), *self._marks(), *self._names())
        return el("div", {}, el("div", {"class": "lgr-muted"}, title), drawn, self._legend(), *self._chosen())

    def _lines(self) -> Element:
        at = self._spots
        path = "".join(f"M{at[s][0]} {at[s][1]}L{at[t][0]} {at[t][1]}" for s, t, _ in self.data["links"])
        return el("path", {"d": path, "fill": "none", "stroke": "currentColor", "stroke-opacity": "0.18"})

    def _marks(self) -> Iterator[Element]:
        """A group for each community."""
        of = self.data["levels"][self.level]["of"] if self.hierarchy.levels else [0] * len(self.places)
        members: dict[int, list[int]] = {}
        for number, community in enumerate(of):
            members.setdefault(community, []).append(number)
        communities = self._communities()
        for community, numbers in sorted(members.items()):
            colour, mark, _ = look(community)
            faded = self.highlighted and communities[community].id != self.highlighted
            style = {"fill": colour, "stroke": "currentColor", "stroke-width": "0.6", "stroke-opacity": "0.7"}
            group = el("g", {**style, "opacity": "0.2" if faded else "1"})
            paths = [(self._mark(number, SHAPES[mark]), self.data["names"][number]) for number in numbers]
            if len(self.places) > _TITLED:
                paths = [
                    ("".join(path for path, _ in paths), self._title(communities[community]) if communities else "")
                ]
            group.extend(el("path", {"d": path}, el("title", {}, name)) for path, name in paths)
            yield group

    def _mark(self, number: int, shape: Shape) -> str:
        x, y = self._spots[number]
        crowd = min(1.0, max(0.4, 12 / math.sqrt(len(self.places))))
        radius = round(min(3 + 1.5 * math.sqrt(self.data["degrees"][number]), 13) * crowd, 1)
        if not shape:
            around = f"a{radius} {radius} 0 1 0 "
            return f"M{x - radius:.1f} {y}{around}{2 * radius} 0{around}{-2 * radius} 0z"
        return "M" + "L".join(f"{x + radius * dx:.1f} {y + radius * dy:.1f}" for dx, dy in shape) + "z"

    def _names(self) -> Iterator[Element]:
        """Names of what is selected and then of the best-linked, where there is room for them."""
        degrees = self.data["degrees"]
        chosen = [i for i, id_ in enumerate(self.data["ids"]) if id_ == self.selected]
        taken: list[tuple[float, float, float]] = []
        for number in dict.fromkeys([*chosen, *sorted(range(len(degrees)), key=lambda i: (-degrees[i], i))]):
            (x, y), name = self._spots[number], _cut(self.data["names"][number], 40)
            half = 3.4 * len(name)
            if len(taken) == _LABELS or any(abs(x - a) < half + b and abs(y - c) < 13 for a, b, c in taken):
                continue
            taken.append((x, half, y))
            place_ = {"x": str(x), "y": str(y - 9), "text-anchor": "middle", "font-size": "12", "fill": "currentColor"}
            if number in chosen:
                ring = {"r": "15", "fill": "none", "stroke": "currentColor", "stroke-width": "2.5"}
                yield el("circle", {"cx": str(x), "cy": str(y), **ring})
                place_ |= {"y": str(y - 20), "font-weight": "bold"}
            yield el("text", place_, name)

    def _legend(self) -> Element:
        communities = self._communities()
        entries = []
        for number, community in enumerate(communities[:_LEGEND]):
            colour, mark, _ = look(number)
            chosen = {"class": "lgr-chosen"} if community.id == self.highlighted else {}
            told = f" {self._title(community)} ({len(community.node_ids)})"
            entries.append(
                el("li", chosen, el("span", {"style": f"color:{colour}", "aria-hidden": "true"}, mark), told)
            )
        if len(communities) > _LEGEND:
            entries.append(el("li", {}, f"and {len(communities) - _LEGEND} smaller"))
        return el("ul", {"class": "lgr-legend"}, *entries)

    def _chosen(self) -> Iterator[Element]:
        node = self.node
        if node is not None:
            named = f"{node.type}, {node.degree} neighbour{'' if node.degree == 1 else 's'}"
            near = ", ".join(other.name for other in self.graph.neighbours(node.id))
            told = (el("strong", {}, node.name), f" {named}. ", _cut(node.description, _ABOUT))
            yield el("div", {"class": "lgr-box"}, el("p", {"dir": "auto"}, *told), el("p", {}, f"Beside it: {near}"))


def _fitted(places: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """The places in the middle of the static picture, as large as it allows."""
    wide = max((x for x, _ in places), default=1) or 1
    high = max((y for _, y in places), default=1) or 1
    scale = min((_WIDTH - 2 * _MARGIN) / wide, (_HEIGHT - 2 * _MARGIN) / high)
    left, top = (_WIDTH - wide * scale) / 2, (_HEIGHT - high * scale) / 2
    return [(round(left + x * scale, 1), round(top + y * scale, 1)) for x, y in places]


def _cut(text: str, longest: int) -> str:
    return text if len(text) <= longest else f"{text[: longest - 2]} …"
