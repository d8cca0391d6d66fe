"""What a report is made from: a community's element summaries, packed under a token budget (paper 3.1.5).

A report that is written has its author read all of it; one of quotations is of the most central of its sentences.

Pure: no model is called here. A community whose elements fit is shown whole. One that does not fit has the elements
of its largest sub-communities replaced, one sub-community after another, by those sub-communities' reports.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Literal, NamedTuple

from localgraphrag.communities import Community, Hierarchy
from localgraphrag.graph import Edge, Graph, GraphClaim, Node
from localgraphrag.sentences import fold
from localgraphrag.spacing import spaced

if TYPE_CHECKING:
    from localgraphrag.summaries import Report

Kind = Literal["entity", "relationship", "claim", "report"]


class Record(NamedTuple):
    """A numbered line of a context: `label` is what the model sees, `id` the node, edge, claim or community behind it.

    `also`: ids of the others that rest on the same words, which are shown once. `names`: the entities they are about
    (of a report, its title), as a reader knows them.
    """

    label: int
    id: str
    kind: Kind
    names: tuple[str, ...]
    also: tuple[str, ...] = ()


class Step(NamedTuple):
    """One decision of the packing, in order.

    `substitute`: a sub-community's elements (`freed` tokens) give way to its report (`tokens`). `keep`: its elements
    stay, because there is no report shorter than they are. `add`: a record enters the context. `join`: one that says
    nothing new joins the record that says it. `drop`: one does not enter.
    """

    action: Literal["substitute", "keep", "add", "join", "drop"]
    id: str
    tokens: int
    freed: int
    reason: str


@dataclass(frozen=True)
class PackedContext:
    """A context and how it came about.

    `tokens` of `text` never exceed `budget`; `whole` is what all element summaries together would have taken.
    `substituted`: sub-communities shown by their report, largest first. `dropped`: ids of records for which there was
    no room. `chunk_ids`: where the records shown come from, each once. `told`: of each record the sentence that it
    quotes, "" if it is put in other words.
    """

    text: str
    records: tuple[Record, ...]
    substituted: tuple[str, ...]
    dropped: tuple[str, ...]
    chunk_ids: tuple[str, ...]
    tokens: int
    whole: int
    budget: int
    steps: tuple[Step, ...]
    told: tuple[str, ...] = ()


class Element(NamedTuple):
    """A summary that can become a record: its line without the label, and the tokens of that line.

    The line is `head`, a colon and `texts`; or `texts` alone, where `head` is empty.
    """

    id: str
    kind: Kind
    names: tuple[str, ...]
    head: str
    texts: tuple[str, ...]
    line: str
    tokens: int
    chunk_ids: tuple[str, ...]
    ends: tuple[str, ...]  # the nodes it belongs to: itself, a claim's subject, an edge's two ends


class Size(NamedTuple):
    """Number and tokens of a community's element summaries, labels not counted."""

    records: int
    tokens: int


def pack_context(
    community: Community,
    graph: Graph,
    hierarchy: Hierarchy,
    reports: Mapping[str, Report],
    count_tokens: Callable[[str], int],
    budget: int,
    *,
    quoted: bool = False,
) -> PackedContext:
    """Pack one community's context; for many communities of one graph make one `Packer`.

    Parameters
    ----------
    reports : by community id. Only those of sub-communities matter, and only where the elements do not fit.
    count_tokens : tokens of a text, the running model's.
    budget : tokens that the context may take.
    quoted : see `Packer`.
    """
    return Packer(graph, hierarchy, count_tokens, quoted=quoted).pack(community.id, reports, budget)


class Packer:
    """Packs the communities of one graph. Each element is counted once, whatever the number of levels.

    Parameters
    ----------
    quoted : the descriptions are sentences of the documents, which say themselves what they are about: each is a
        record of its own, shown as it stands. Else a record is all the descriptions of an element behind its name.
    most_quoted : tokens of the sentences of one element; of more, evenly spaced ones are shown.
    """

    def __init__(
        self,
        graph: Graph,
        hierarchy: Hierarchy,
        count_tokens: Callable[[str], int],
        *,
        quoted: bool = False,
        most_quoted: int = 300,
    ) -> None:
        self.count_tokens = count_tokens
        self.quoted, self.most_quoted = quoted, most_quoted
        self.communities = {c.id: c for level in hierarchy.levels for c in level}
        # A community carried down undivided stands on several levels under one id, and is its own only child there.
        self.parts = {
            c.id: c.children for level in hierarchy.levels for c in level if c.children and c.children != (c.id,)
        }
        self._graph = graph
        self._elements: dict[str, tuple[Element, ...]] = {}
        self._line_tokens: dict[str, int] = {}
        self._sizes: dict[str, Size] = {}
        self._labels = [0]  # tokens of the labels 1..n together, at index n

    def size(self, community_id: str) -> Size:
        """Number and tokens of all element summaries of a community."""
        if community_id not in self._sizes:
            tokens = [element.tokens for element in self.told_once(self.elements(community_id))]
            self._sizes[community_id] = Size(len(tokens), sum(tokens))
        return self._sizes[community_id]

    def elements(self, community_id: str) -> list[Element]:
        """All element summaries of a community, in the order in which they are shown.

        Edges inside it come in decreasing combined degree of source and target (ties: id); with each its source, its
        target, itself, and the claims about the two, each once. Nodes without an edge inside follow by degree. A claim
        belongs to its subject.
        """
        items = self._ordered(self.communities[community_id].node_ids)
        return [element for item in items for element in self._elements_of(item)]

    def report_tokens(self, community_id: str, reports: Mapping[str, Report]) -> int | None:
        """Tokens of a sub-community's report as a record, or None where none was written.

        A report that is only its community's element summaries again is not counted as one: it saves nothing.
        """
        report = reports.get(community_id)
        return sum(element.tokens for element in self._reported(report)) if report and report.written else None

    def substitutions(self, community_id: str, budget: int, report_tokens: Callable[[str], int | None]) -> list[Step]:
        """Which sub-communities give way to their reports so that all fits `budget`, largest first.

        `report_tokens` gives the tokens of a sub-community's report as a record, None where it has none. Nothing is
        replaced where all fits. Replacing ends when all fits, or when the reports alone fill the budget: from there on
        nothing further would be shown.
        """
        records, tokens = self.size(community_id)
        steps: list[Step] = []
        spent = 0
        for part in sorted(self.parts.get(community_id, ()), key=lambda p: (-self.size(p).tokens, p)):
            if tokens + self._label_tokens(records) <= budget or spent >= budget:
                break
            size, shorter = self.size(part), report_tokens(part)
            if shorter is None:
                steps.append(Step("keep", part, size.tokens, 0, "it has no report"))
            elif shorter >= size.tokens:
                steps.append(Step("keep", part, size.tokens, 0, f"its report of {shorter} tokens is not shorter"))
            else:
                reason = f"all together take {tokens + self._label_tokens(records)} tokens, the budget is {budget}"
                steps.append(Step("substitute", part, shorter, size.tokens, reason))
                records += 1 - size.records
                tokens += shorter - size.tokens
                spent += shorter
        return steps

    def pack(self, community_id: str, reports: Mapping[str, Report], budget: int) -> PackedContext:
        """The context from which this community's report is written; see `pack_context`."""
        steps = self.substitutions(community_id, budget, lambda part: self.report_tokens(part, reports))
        replaced = [step.id for step in steps if step.action == "substitute"]
        home = {node_id: part for part in replaced for node_id in self.communities[part].node_ids}
        kept = (e for e in self.elements(community_id) if not _inside_one(e, home))
        made = (e for part in replaced for e in self._reported(reports[part]))
        shown, filling = self._fill(chain(made, kept), budget)
        text = _join(shown)
        while shown and (tokens := self.count_tokens(text)) > budget:
            # Joined lines can take a token more than the lines did one by one.
            last, *_ = shown.pop()
            reason = f"the joined text takes {tokens} tokens, the budget is {budget}"
            filling.append(Step("drop", last.id, last.tokens, 0, reason))
            text = _join(shown)
        size = self.size(community_id)
        elements = list(chain.from_iterable(shown))
        return PackedContext(
            text=text,
            records=tuple(_record(label, same) for label, same in enumerate(shown, 1)),
            substituted=tuple(dict.fromkeys(element.id for element in elements if element.kind == "report")),
            dropped=tuple(step.id for step in filling if step.action == "drop"),
            chunk_ids=tuple(dict.fromkeys(chunk_id for element in elements for chunk_id in element.chunk_ids)),
            tokens=self.count_tokens(text),
            whole=size.tokens + self._label_tokens(size.records),
            budget=budget,
            steps=(*steps, *filling),
            told=tuple("" if element.head else " ".join(element.texts) for element, *_ in shown),
        )

    def _fill(self, candidates: Iterator[Element], budget: int) -> tuple[list[list[Element]], list[Step]]:
        """Add in order until one does not fit; one that is longer than the whole budget alone ends nothing.

        Returns a list per record: the element shown, then those that rest on the same words; and the steps.
        """
        shown: list[list[Element]] = []
        steps: list[Step] = []
        where: dict[str, int] = {}  # texts, and the label of the record that shows them
        used, full = 0, False
        for element in candidates:
            if self._is_told(element, where):
                label = where[element.texts[0]]
                shown[label - 1].append(element)
                steps.append(Step("join", element.id, 0, 0, f"record {label} says it"))
                continue
            label = len(shown) + 1
            cost = element.tokens + self._label_tokens(label) - self._label_tokens(label - 1)
            if not full and used + cost <= budget:
                used += cost
                shown.append([element])
                where |= dict.fromkeys(element.texts, label)
                steps.append(Step("add", element.id, cost, 0, f"{used} of {budget} tokens used"))
            elif element.tokens + self._label_tokens(1) > budget:
                steps.append(Step("drop", element.id, element.tokens, 0, f"alone longer than the budget of {budget}"))
            else:
                full = True
                steps.append(Step("drop", element.id, element.tokens, 0, f"full at {used} of {budget} tokens"))
        return shown, steps

    def _ordered(self, node_ids: tuple[str, ...]) -> Iterator[Node | Edge | GraphClaim]:
        inside = {node_id: self._graph.node(node_id) for node_id in node_ids}
        edges = [e for i in node_ids for e in self._graph.edges_of(i) if e.source == i and e.target in inside]
        edges.sort(key=lambda e: (-inside[e.source].degree - inside[e.target].degree, e.id))
        for edge in edges:
            ends = [inside.pop(i) for i in (edge.source, edge.target) if i in inside]
            yield from ends
            yield edge
            for node in ends:
                yield from self._graph.claims_of(node.id)
        for node in sorted(inside.values(), key=lambda n: (-n.degree, n.id)):
            yield node
            yield from self._graph.claims_of(node.id)

    def _elements_of(self, item: Node | Edge | GraphClaim) -> tuple[Element, ...]:
        if item.id not in self._elements:
            whole = self._described(item)
            if self.quoted and whole.texts:
                apart = [self._made(whole._replace(head="", texts=(text,))) for text in whole.texts]
                self._elements[item.id] = tuple(spaced([(part, part.tokens) for part in apart], self.most_quoted))
            else:
                self._elements[item.id] = (self._made(whole),)
        return self._elements[item.id]

    def _described(self, item: Node | Edge | GraphClaim) -> Element:
        """What there is to say of an item, not yet measured."""
        if isinstance(item, Node):
            name = fold(item.name)
            head = f"{name} ({fold(item.type)})"
            return Element(item.id, "entity", (name,), head, _texts(item), "", 0, item.chunk_ids, (item.id,))
        if isinstance(item, Edge):
            ends = (item.source, item.target)
            names = self._names(ends)
            return Element(item.id, "relationship", names, " — ".join(names), _texts(item), "", 0, item.chunk_ids, ends)
        names = self._names((item.subject, item.object))
        dates = " to ".join(dict.fromkeys(fold(date) for date in (item.start_date, item.end_date) if date))
        traits = ", ".join(trait for trait in (fold(item.type), item.status, dates) if trait)
        head = f"Claim about {' — '.join(names)} ({traits})"
        texts = (fold(item.description),) if item.description else ()
        return Element(item.id, "claim", names, head, texts, "", 0, (item.chunk_id,), (item.subject,))

    def _names(self, node_ids: Iterable[str]) -> tuple[str, ...]:
        return tuple(fold(self._graph.node(node_id).name) for node_id in node_ids if node_id)

    def _reported(self, report: Report) -> list[Element]:
        return self._quotations(report) if self.quoted else [self._report(report)]

    def _quotations(self, report: Report) -> list[Element]:
        """A quoted report as elements: its title, then each of its quotations."""
        whole = Element(report.community_id, "report", (report.title,), "", (), "", 0, report.chunk_ids, ())
        said = [self._made(whole._replace(texts=(fold(finding.summary),))) for finding in report.findings]
        return [self._made(whole._replace(head=f"Report on {fold(report.title)}")), *said]

    def _report(self, report: Report) -> Element:
        _title, _, body = report.text.partition("\n")
        head = f"Report on {fold(report.title)}"
        texts = (fold(body),)
        return self._made(
            Element(report.community_id, "report", (report.title,), head, texts, "", 0, report.chunk_ids, ())
        )

    def _made(self, element: Element) -> Element:
        """The element with its line and what that takes."""
        told = " ".join(element.texts)
        line = f"{element.head}: {told}" if element.head and told else element.head or told
        return element._replace(line=line, tokens=self._count(line))

    def told_once(self, elements: Iterable[Element]) -> Iterator[Element]:
        """The elements, of quotations each sentence once: it can be about many entities."""
        shown: set[str] = set()
        for element in elements:
            if not self._is_told(element, shown):
                yield element
                shown.update(element.texts)

    def _is_told(self, element: Element, shown: Container[str]) -> bool:
        """Whether an element quotes a sentence that is shown already."""
        return self.quoted and bool(element.texts) and element.texts[0] in shown

    def _count(self, line: str) -> int:
        if line not in self._line_tokens:
            self._line_tokens[line] = self.count_tokens(f"{line}\n")
        return self._line_tokens[line]

    def _label_tokens(self, records: int) -> int:
        while len(self._labels) <= records:
            self._labels.append(self._labels[-1] + self.count_tokens(f"{len(self._labels)}. "))
        return self._labels[records]


def _texts(described: Node | Edge) -> tuple[str, ...]:
    texts = (described.summary,) if described.summary else tuple(d.text for d in described.descriptions)
    return tuple(dict.fromkeys(fold(text) for text in texts if text.strip()))


def _join(shown: list[list[Element]]) -> str:
    return "\n".join(f"{label}. {element.line}" for label, (element, *_) in enumerate(shown, 1))


def _record(label: int, same: list[Element]) -> Record:
    """The record of an element that is shown and of those that rest on the same words."""
    first = same[0]
    names = tuple(dict.fromkeys(name for element in same for name in element.names))
    also = tuple(dict.fromkeys(element.id for element in same if element.id != first.id))
    return Record(label, first.id, first.kind, names, also)


def _inside_one(element: Element, home: Mapping[str, str]) -> bool:
    """Whether an element lies wholly within one replaced sub-community."""
    homes = [home.get(node_id, "") for node_id in element.ends]
    return bool(homes[0]) and all(h == homes[0] for h in homes)
