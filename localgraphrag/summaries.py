"""Hierarchy to a report per community, bottom-up under a token budget (paper 3.1.5).

What it is made from is packed by `localgraphrag.packing`; here the model is asked, and its reply becomes a `Report`.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from localgraphrag import quoted_reports
from localgraphrag.attribution import entirely, supports
from localgraphrag.chunks import Chunk
from localgraphrag.communities import Community, Hierarchy
from localgraphrag.embed import Embedder, HashEmbedder, Remembering
from localgraphrag.errors import ContextError, NotFoundError
from localgraphrag.graph import Graph
from localgraphrag.grounding import Grounding
from localgraphrag.llm.output import object_schema, schema
from localgraphrag.llm.types import Completion, Engine, Message, Request
from localgraphrag.llm.units import Conversation, Outcome, Runner, Unit
from localgraphrag.packing import PackedContext, Packer, Record
from localgraphrag.sentences import fold, sentences, whole

if TYPE_CHECKING:
    from localgraphrag.config import Settings
    from localgraphrag.prompts import Prompts

VERSION = 6
"""Of the code behind a report. Raise it when the same reply would become another report."""

OF_ONE_RECORD = 0.7
"""Share of the content of a summary's sentence that one record must hold, where descriptions are quoted."""

MIN_CONTEXT = 200
"""Tokens of records below which a report is not worth asking for."""

MARGIN = 8
"""Tokens kept free: a context set into its prompt can take a few more than it does alone."""

CHARACTERS_PER_TOKEN = 3.2
"""Measured on English prose rich in names and figures. In denser scripts the engine closes the reply at its cap."""


QUOTED_PROMPTS = ("report_quotes_system", "report_quotes", "report_quotes_example", "report_quotes_example_reply")


@dataclass(frozen=True)
class Finding:
    """One finding of a report. `records`: ids of the nodes, edges, claims or child communities it rests on."""

    summary: str
    explanation: str
    records: tuple[str, ...]


@dataclass(frozen=True)
class Report:
    """What a community is about.

    `rating` 0-10 says how much it matters, `rating_reason` why. `written` is False where the community's own element
    summaries are the report and no model was called; it then has no findings. `text` is the report as later prompts
    show it. `chunk_ids`: the chunks its records come from.
    """

    community_id: str
    title: str
    summary: str
    rating: int
    rating_reason: str
    findings: tuple[Finding, ...]
    written: bool
    text: str
    chunk_ids: tuple[str, ...]


@dataclass(frozen=True)
class Limits:
    """The most characters of each part of a reply, such that a whole reply stays within `cap` tokens."""

    title: int
    summary: int
    rating_reason: int
    findings: int  # how many
    finding: int
    explanation: int

    @classmethod
    def of(cls, cap: int) -> Limits:
        """Share a cap of tokens out: JSON's own, then a third for title, summary and reason, the rest to findings.

        >>> Limits.of(500).findings, Limits.of(100).findings
        (4, 1)
        """
        findings = min(5, max(1, cap // 125))
        left = (cap - 30 - 25 * findings) * CHARACTERS_PER_TOKEN
        each = left * 2 / 3 / findings
        title, summary, reason = (int(left * part) for part in (0.06, 0.20, 0.07))
        return cls(title, summary, reason, findings, int(each / 3), int(each * 2 / 3))

    def properties(self, labels: int) -> dict[str, Any]:
        """The JSON schema of a reply on a context with records 1 to `labels`; findings can cite no other.

        What a statement rests on comes before it: a small model that has named its records keeps to them, and one that
        has given its reason rates by it. Left alone it stops at one finding, so more records ask for more.
        """
        record = {"enum": list(range(1, labels + 1))}
        finding = {
            "records": {"type": "array", "minItems": 1, "maxItems": 4, "items": record},
            "summary": _string(self.finding),
            "explanation": _string(self.explanation),
        }
        least = min(self.findings, 3, 1 + labels // 6)
        findings = {"type": "array", "minItems": least, "maxItems": self.findings, "items": object_schema(finding)}
        return {
            "title": _string(self.title),
            "summary": _string(self.summary),
            "rating_reason": _string(self.rating_reason),
            "rating": {"type": "integer", "minimum": 0, "maximum": 10},
            "findings": findings,
        }


@dataclass(frozen=True)
class Coverage:
    """What the reports of one level reach.

    An entity is covered if its community has a report, a chunk if an entity that it names is. `bare_chunks` name no
    entity and can be in no report. `shown_chunks` are those whose records were among what a report was made from:
    where a budget was full, fewer than covered.
    """

    entities: int
    covered_entities: int
    chunks: int
    covered_chunks: int
    shown_chunks: int
    bare_chunks: int

    @property
    def entity_share(self) -> float:
        """Covered entities of all, 0 to 1; 1 where there are none."""
        return self.covered_entities / self.entities if self.entities else 1.0

    @property
    def chunk_share(self) -> float:
        """Covered chunks of all, 0 to 1; 1 where there are none."""
        return self.covered_chunks / self.chunks if self.chunks else 1.0


def write_reports(
    graph: Graph,
    hierarchy: Hierarchy,
    levels: Sequence[int],
    settings: Settings,
    prompts: Prompts,
    runner: Runner,
    on_outcome: Callable[[Outcome[Report]], None] | None = None,
    embedder: Embedder | None = None,
    written: Mapping[str, Report] = MappingProxyType({}),
) -> dict[str, Report]:
    """Write the reports of some levels, and those of finer levels that they need.

    A report waits only for those that take its sub-communities' place in its context; all that wait for nothing run
    as one batch. A community carried down through several levels has one report.

    Parameters
    ----------
    on_outcome : called with every outcome of model work, also a stored one. A failed community has no report, and its
        parent is written from its elements.
    embedder : of the sentences that may be findings, where they are quoted; None compares their words alone.
    written : reports there are already, by community id; they are not written again.

    Returns
    -------
    Reports by community id, coarsest level first.

    Raises
    ------
    ContextError
        When the context cannot hold instructions, output, and a useful number of records.
    NotFoundError
        For a level that the hierarchy does not have.
    """
    budget = context_budget(settings, prompts, runner.engine)
    packer = _packer(graph, hierarchy, settings, runner.engine)
    reports = dict(written)
    failed: set[str] = set()
    comparing = Remembering(embedder or HashEmbedder())  # a sentence is met on every level

    def units(ready: Iterable[str]) -> list[Unit[Report]]:
        """Largest context first: an engine works on contexts of about one size together."""
        found = []
        for community_id in ready:
            packed = None if _is_own(packer, community_id, settings) else packer.pack(community_id, reports, budget)
            if packed and packed.records:
                unit = report_unit(packer.communities[community_id], packed, settings, prompts, comparing)
                found.append((packed.tokens, unit))
            else:
                reports[community_id] = own_report(community_id, graph, packer)
        return [unit for _, unit in sorted(found, key=lambda sized: -sized[0])]

    waiting = [i for i in _asked(hierarchy, levels) if i not in reports]
    while waiting:
        needs = {i: _lacking(packer, i, budget, settings, reports, failed) for i in waiting}
        for outcome in runner.run(units([i for i in waiting if not needs[i]])):
            if on_outcome:
                on_outcome(outcome)
            if outcome.value is None:
                failed.add(outcome.unit.name)
            else:
                reports[outcome.unit.name] = replace(outcome.value, chunk_ids=outcome.unit.chunks)
        blocked = [i for i in waiting if needs[i]]
        waiting = list(dict.fromkeys([*(part for i in blocked for part in needs[i]), *blocked]))
        waiting = [i for i in waiting if i not in reports and i not in failed]
    return {c.id: reports[c.id] for level in hierarchy.levels for c in level if c.id in reports}


def _packer(graph: Graph, hierarchy: Hierarchy, settings: Settings, engine: Engine) -> Packer:
    quoted = settings.descriptions == "quoted"
    most = max(settings.description_budget, settings.min_report_tokens)  # what is its own report loses nothing
    return Packer(graph, hierarchy, engine.tokenizer.count, quoted=quoted, most_quoted=most)


def plan_reports(
    graph: Graph,
    hierarchy: Hierarchy,
    levels: Sequence[int],
    settings: Settings,
    prompts: Prompts,
    engine: Engine,
    reports: Mapping[str, Report],
) -> tuple[str, ...]:
    """Ids of the communities for whose reports `write_reports` would call the model, given those already there.

    An estimate where parents need reports not yet written: each is taken to fill its cap, or to halve the elements
    it replaces if that is less. Raises as `write_reports` does.
    """
    budget = context_budget(settings, prompts, engine)
    packer = _packer(graph, hierarchy, settings, engine)

    def expected(part: str) -> int | None:
        if part in reports or _is_own(packer, part, settings):
            return packer.report_tokens(part, reports)
        return min(settings.report_tokens, packer.size(part).tokens // 2)

    asked = _asked(hierarchy, levels)
    planned: dict[str, None] = {}
    while asked:
        community_id = asked.pop()
        if community_id not in reports and community_id not in planned and not _is_own(packer, community_id, settings):
            planned[community_id] = None
            steps = packer.substitutions(community_id, budget, expected)
            asked += [step.id for step in steps if step.action == "substitute"]
    return tuple(planned)


def report_unit(
    community: Community,
    packed: PackedContext,
    settings: Settings,
    prompts: Prompts,
    embedder: Embedder | None = None,
) -> Unit[Report]:
    """The unit of work that writes one report: one request, with a prefix that all reports share.

    The unit's report has no `chunk_ids`: where records come from is a fact of the graph and not of the model, so a
    document that moved does not call for another report. `write_reports` adds them from the unit's own `chunks`.
    """
    if settings.descriptions == "quoted":
        return _quoted_unit(community, packed, settings, prompts, embedder or HashEmbedder())
    prefix = report_prefix(prompts)
    prompt = prompts.render("report", context=packed.text)
    limits = Limits.of(settings.report_tokens)
    properties = limits.properties(len(packed.records))

    def ask() -> Conversation[Report]:
        request = Request(prompt, schema(properties), prefix, max_tokens=settings.report_tokens)
        reply: Completion = yield request
        return _report(community.id, packed, json.loads(reply.text), limits)

    inputs = (
        *(message.content for message in prefix), prompt, json.dumps(properties), str(settings.report_tokens), "greedy",
        community.id, *(i for record in packed.records for i in record_ids(record)),
    )  # fmt: skip
    return Unit("report", VERSION, community.id, inputs, Report, ask, packed.chunk_ids)


def _quoted_unit(
    community: Community, packed: PackedContext, settings: Settings, prompts: Prompts, embedder: Embedder
) -> Unit[Report]:
    def ask() -> Conversation[Report]:
        findings = quoted_reports.findings(packed, embedder, settings.report_tokens)
        reply = yield from quoted_reports.ask(packed, findings, prompts, settings.report_tokens)
        example = "\n".join(message.content for message in quoted_reports.prefix(prompts)[1:])
        return _quoted_report(community.id, packed, findings, reply, example)

    inputs = (
        prompts.digest(*QUOTED_PROMPTS), packed.text, str(settings.report_tokens), "greedy", embedder.identity,
        community.id, *(i for record in packed.records for i in record_ids(record)), *packed.told,
    )  # fmt: skip
    return Unit("report", VERSION, community.id, inputs, Report, ask, packed.chunk_ids)


def report_prefix(prompts: Prompts) -> tuple[Message, ...]:
    """What every written report's prompt begins with: instructions, and one example as a finished exchange."""
    return (
        Message("system", prompts.render("report_system")),
        Message("user", prompts.render("report", context=prompts.render("report_example"))),
        Message("assistant", prompts.render("report_example_reply")),
    )


def context_budget(settings: Settings, prompts: Prompts, engine: Engine) -> int:
    """Tokens left for a report's records beside prompt and output. Raises ContextError when that is too little."""
    window = min(settings.context_window, engine.context_tokens)
    if settings.descriptions == "quoted":
        prompt, prefix = prompts.render("report_quotes", context=""), quoted_reports.prefix(prompts)
    else:
        prompt, prefix = prompts.render("report", context=""), report_prefix(prompts)
    output = settings.report_tokens
    taken = engine.prompt_tokens(Request(prompt, None, prefix))
    budget = window - taken - output - MARGIN
    if budget < MIN_CONTEXT:
        raise ContextError(
            f"A context of {window} tokens leaves {max(budget, 0)} for a report's records beside {taken} of "
            f"instructions and {output} of output; at least {MIN_CONTEXT} are needed. Lower "
            "`report_tokens`, or raise `context_window` if the model allows more."
        )
    return budget


def own_report(community_id: str, graph: Graph, packer: Packer) -> Report:
    """The report of a community whose element summaries are shown as they are: no model is called, nothing is lost."""
    elements = packer.elements(community_id)
    nodes = sorted(map(graph.node, packer.communities[community_id].node_ids), key=lambda n: (-n.degree, n.id))
    named = sorted((fold(node.name) for node in nodes[:6]), key=lambda name: name[:1].islower())  # proper names first
    title = ", ".join(named[:3])
    return Report(
        community_id=community_id,
        title=title,
        summary=next((fold(node.description) for node in nodes if node.description.strip()), title),
        rating=0,
        rating_reason="not rated: too little text for a written report",
        findings=(),
        written=False,
        text="\n".join([title, *(f"- {element.line}" for element in packer.told_once(elements))]),
        chunk_ids=tuple(dict.fromkeys(chunk_id for element in elements for chunk_id in element.chunk_ids)),
    )


def coverage(
    level: int, hierarchy: Hierarchy, reports: Mapping[str, Report], graph: Graph, chunks: Iterable[Chunk]
) -> Coverage:
    """How many entities and chunks the reports of one level reach. Raises NotFoundError for a level there is not."""
    ids = [chunk.id for chunk in chunks]
    reported = [community_id for community_id in _asked(hierarchy, [level]) if community_id in reports]
    level_communities = hierarchy.levels[level] if reported else ()
    members = {node_id for c in level_communities if c.id in reports for node_id in c.node_ids}
    named = {chunk_id for node in graph.nodes for chunk_id in node.chunk_ids}
    covered = {chunk_id for node in graph.nodes if node.id in members for chunk_id in node.chunk_ids}
    shown = {chunk_id for community_id in reported for chunk_id in reports[community_id].chunk_ids}
    return Coverage(
        entities=len(graph.nodes),
        covered_entities=len(members),
        chunks=len(ids),
        covered_chunks=sum(chunk_id in covered for chunk_id in ids),
        shown_chunks=sum(chunk_id in shown for chunk_id in ids),
        bare_chunks=sum(chunk_id not in named for chunk_id in ids),
    )


def _asked(hierarchy: Hierarchy, levels: Sequence[int]) -> list[str]:
    """Ids of the communities of some levels, finest level first, each once."""
    if not hierarchy.levels:
        return []
    for level in levels:
        if not 0 <= level < len(hierarchy.levels):
            finest = len(hierarchy.levels) - 1
            raise NotFoundError(f"There is no level {level}: the hierarchy has levels 0 to {finest}.")
    finest_first = sorted(dict.fromkeys(levels), reverse=True)
    return list(dict.fromkeys(community.id for level in finest_first for community in hierarchy.levels[level]))


def _is_own(packer: Packer, community_id: str, settings: Settings) -> bool:
    return packer.size(community_id).tokens < settings.min_report_tokens


def _lacking(
    packer: Packer, community_id: str, budget: int, settings: Settings, reports: Mapping[str, Report], failed: set[str]
) -> list[str]:
    """Sub-communities whose reports are certainly needed and not there yet.

    A report not yet written counts as empty, so that none is written in vain; once it is there, its true size may
    call for more of its sisters.
    """

    def at_least(part: str) -> int | None:
        if part in reports or part in failed or _is_own(packer, part, settings):
            return packer.report_tokens(part, reports)
        return 0

    steps = packer.substitutions(community_id, budget, at_least)
    return [step.id for step in steps if step.action == "substitute" and step.id not in reports]


def _report(community_id: str, packed: PackedContext, reply: dict[str, Any], limits: Limits) -> Report:
    said: dict[tuple[str, str], list[Record]] = {}  # a finding that is repeated word for word counts once
    for given in reply["findings"]:
        labels = dict.fromkeys(given["records"])
        words = whole(given["summary"], limits.finding), whole(given["explanation"], limits.explanation)
        if any(words) and words not in said:
            said[words] = [packed.records[label - 1] for label in labels]
    title, summary = whole(reply["title"], limits.title), whole(reply["summary"], limits.summary)
    title = title or ", ".join(packed.records[0].names)
    lines = []
    for words, cited in said.items():
        about = ", ".join(dict.fromkeys(name for record in cited for name in record.names))
        lines.append(f"- {_sentence(*words)} ({about})")
    return Report(
        community_id=community_id,
        title=title,
        summary=summary,
        rating=reply["rating"],
        rating_reason=whole(reply["rating_reason"], limits.rating_reason),
        findings=tuple(
            Finding(*words, tuple(dict.fromkeys(i for record in cited for i in record_ids(record))))
            for words, cited in said.items()
        ),
        written=True,
        text="\n".join([title, *([summary] if summary else []), *lines]),
        chunk_ids=(),
    )


def record_ids(record: Record) -> tuple[str, ...]:
    """Ids of all that rests on a record's words."""
    return (record.id, *record.also)


def _quoted_report(
    community_id: str, packed: PackedContext, findings: Mapping[str, int], reply: dict[str, Any], example: str
) -> Report:
    """As later prompts show it, it is its title and its quotations: nothing that a model put in its own words.

    Of the summary those sentences stay that a single record bears out (small models mix up who did what when they put
    two together); with none the first finding stands in. A title with words that no record has gives way to the names
    most often spoken of. A reason for the rating of which the records do not have half the words, or that names
    something of the prompt's worked example, is left out.
    """
    title = whole(reply["title"], quoted_reports.TITLE_CHARACTERS)
    names = [name for record in packed.records for name in record.names]
    if not entirely(title, [*packed.told, *names]):
        title = _names_as_title(packed, findings.values())
    summary = whole(reply["summary"], quoted_reports.SUMMARY_CHARACTERS)
    borne_out = [s.text for s in sentences(summary) if supports(s.text, packed.told, most=1, least=OF_ONE_RECORD)]
    summary = " ".join(dict.fromkeys(borne_out)) or next(iter(findings), "")
    reason = whole(reply["rating_reason"], quoted_reports.REASON_CHARACTERS)
    borne_out_reason = Grounding("\n".join([*packed.told, *names]), "", example).holds(reason)
    return Report(
        community_id=community_id,
        title=title,
        summary=summary,
        rating=reply["rating"],
        rating_reason=reason if borne_out_reason else "",
        findings=tuple(Finding(quote, "", record_ids(packed.records[label - 1])) for quote, label in findings.items()),
        written=True,
        text="\n".join([title, *(f"- {quote}" for quote in findings)]),
        chunk_ids=(),
    )


def _names_as_title(packed: PackedContext, labels: Iterable[int]) -> str:
    """Up to three names that the findings' records speak of most, proper names first, within a title's length."""
    records = [packed.records[label - 1] for label in labels] or list(packed.records)
    names = Counter(name for record in records if record.kind != "report" for name in record.names)
    names = names or Counter(record.names[0] for record in records)
    often = sorted((name for name, _ in names.most_common()), key=lambda name: name[:1].islower())[:3]
    return whole(", ".join(often), quoted_reports.TITLE_CHARACTERS)


def _sentence(summary: str, explanation: str) -> str:
    return f"{summary.rstrip('.:。')}: {explanation}" if summary and explanation else summary or explanation


def _string(limit: int) -> dict[str, Any]:
    return {"type": "string", "minLength": 1, "maxLength": limit}
