"""How results look in a terminal: answers, comparisons, the status of an index, one thing of it, the end of a run."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any

from localgraphrag.console import duration, one_line, write, write_marked, write_table

if TYPE_CHECKING:
    from localgraphrag.documents import Document
    from localgraphrag.estimate import Estimate
    from localgraphrag.llm.types import Usage
    from localgraphrag.pipeline import IndexSummary, StageSummary
    from localgraphrag.project import Comparison
    from localgraphrag.runner import Failure
    from localgraphrag.search.answer import Answer
    from localgraphrag.show import Shown, Status
    from localgraphrag.summaries import Coverage

LINKS = 25
"""Most links of one kind that are printed of one thing; a list is printed whole, and JSON has them all."""

PASSAGES = 3
"""Most passages printed of one thing, and of one citation."""

FAILURES = 20
"""Most failures printed one by one."""

_WIDTH = 100


def print_answer(answer: Answer, documents: Mapping[str, Document], *, record: bool = False) -> None:
    """An answer, its citations down to the words of the documents, and what it cost."""
    write(wrapped(answer.text))
    if any(line.startswith("(") and line.endswith(")") for line in answer.text.splitlines()):
        write("\nA heading in round brackets is the model's own reading of what stands below it.")
    if answer.citations:
        write("\nSources")
    for citation in answer.citations:
        write(f"[{citation.number}] {citation.kind} {citation.id}: {citation.title}")
        for source in citation.sources[:PASSAGES]:
            document = documents.get(source.document_id)
            if document is not None:
                words = excerpt(document.text[source.start : source.end])
                write(f"    {document.sources[0]}, characters {source.start:,} to {source.end:,}: {words}")
        if len(citation.sources) > PASSAGES:
            write(f"    and {len(citation.sources) - PASSAGES} more (--json shows all)")
    write(f"\n{condition_name(answer)}: {cost(answer)}" + _shown_by(answer))
    if record:
        write("\nRecord\n" + json.dumps(answer.record, ensure_ascii=False, indent=2, default=str))


def print_comparison(comparison: Comparison) -> None:
    """The answers of every condition, then a table of what each took."""
    write(comparison.question)
    for name, answer in comparison.answers.items():
        write(f"\n{name}\n{wrapped(answer.text)}")
    for name, error in comparison.errors.items():
        write(f"\n{name}\nNo answer: {error}")
    rows = [
        (
            name, a.usage.calls, a.usage.prompt_tokens, a.usage.read_tokens, a.usage.output_tokens,
            round(a.seconds, 1), len(a.citations),
        )
        for name, a in comparison.answers.items()
    ]  # fmt: skip
    write()
    write_table(("", "calls", "tokens in", "read anew", "written", "seconds", "citations"), rows)


def print_status(status: Status) -> None:
    """What an index holds, level by level, what failed and what it cost."""
    from localgraphrag.show import left_out

    write_table(
        ("", ""),
        [
            ("index", f"{status.path}, {status.bytes / 1e6:.1f} MB"), ("documents of", ", ".join(status.paths)),
            ("model", status.model), ("documents", status.documents), ("chunks", status.chunks),
            ("entities", status.entities), ("relationships", status.relationships), ("claims", status.claims),
            ("vectors", status.vectors), ("answers", status.answers),
        ],
    )  # fmt: skip
    write()
    print_levels(status.communities, status.coverage, status.reports)
    if status.at_work:
        write(f"\n`localgraphrag index` is at work on it, {status.at_work}: what it makes is shown when it has ended.")
    elif status.unfinished:
        write(f"\n{status.unfinished} documents were begun and not finished. Run `localgraphrag index` again to go on.")
    if status.ungrounded:
        write(f"\n{left_out(status.ungrounded)}")
    print_failures(status.failures)
    write("\nTokens by stage, over all runs")
    print_costs(status.spent)
    write("\nTokens by stage, of what this index rests on")
    print_costs(status.index_cost)


def print_levels(communities: Sequence[int], coverage: Sequence[Coverage], reports: Sequence[int] = ()) -> None:
    """Communities, reports and coverage of each level."""
    rows = [
        (
            f"C{level}", communities[level], *([reports[level]] if reports else []),
            _share(reach.covered_entities, reach.entities), _share(reach.covered_chunks, reach.chunks),
            reach.bare_chunks,
        )
        for level, reach in enumerate(coverage)
    ]  # fmt: skip
    heads = ["level", "communities", "reports", "entities covered", "chunks covered", "bare chunks"]
    write_table(heads if reports else [head for head in heads if head != "reports"], rows)


def print_costs(costs: Mapping[str, Usage]) -> None:
    """Calls and tokens by stage, with their sum."""
    rows = [(stage, u.calls, u.prompt_tokens, u.read_tokens, u.output_tokens) for stage, u in costs.items()]
    if len(rows) > 1:
        rows.append(("together", *(sum(row[i] for row in rows) for i in range(1, 5))))  # type: ignore[arg-type,misc]
    write_table(("stage", "calls", "tokens in", "read anew", "written"), rows)


def print_failures(failures: Sequence[Failure]) -> None:
    """What failed and why; the next run tries it again."""
    if failures:
        write(f"\n{len(failures)} failed; the next `localgraphrag index` tries them again.")
        write_table(("stage", "name", "reason"), [(f.stage, f.name, f.reason) for f in failures[:FAILURES]])


def print_summary(summary: IndexSummary) -> None:
    """The end of an index run: what there is now, what each stage did, what was skipped and what failed."""
    changed = f"{summary.added} added, {summary.removed} removed"
    write(
        f"{summary.documents:,} documents ({changed}), {summary.chunks:,} chunks, {summary.entities:,} entities, "
        f"{summary.relationships:,} relationships, {summary.claims:,} claims, in {duration(summary.seconds)}."
    )
    write()
    rows = [(s.stage, *_work(s), round(s.seconds, 1)) for s in summary.stages]
    if rows:  # an index that was made empty has none, and no levels
        write_table(("stage", "units", "stored", "failed", "calls", "read", "written", "seconds"), rows)
        write()
        print_levels(summary.communities, summary.coverage)
    if summary.skipped:
        write(f"\n{len(summary.skipped)} files were skipped.")
        write_table(("file", "reason"), [(s.path, s.reason) for s in summary.skipped])
    print_failures(summary.failures)
    for warning in summary.warnings:
        write(f"\n{warning}")


def print_estimate(estimate: Estimate) -> None:
    """What an index run would take, and what the figures rest on."""
    stored = f" ({estimate.stored:,} of them done already)" if estimate.stored else ""
    about = "about " if estimate.stored < estimate.chunks else ""
    write(
        f"{estimate.documents:,} documents, {estimate.chunks:,} chunks{stored}, {about}{estimate.reports:,} reports to "
        f"write: about {estimate.calls:,} calls of the model, {estimate.read_tokens:,} tokens to read and "
        f"{estimate.output_tokens:,} to write.\n"
        f"About {duration(estimate.seconds)} at {estimate.read_rate:,.0f} tokens/s read and "
        f"{estimate.write_rate:,.0f} tokens/s written, as this machine did just now."
    )
    basis = "chunks of this project that are done" if estimate.measured else "other texts; yours may differ by half"
    write(f"Tokens per chunk are those of {basis}.")
    if 0 < estimate.stored < estimate.chunks:
        write("Reports that are there and that the new chunks change are written anew; how many is not known before.")
    if estimate.skipped:
        write(f"\n{len(estimate.skipped)} files would be skipped.")
        write_table(("file", "reason"), [(s.path, s.reason) for s in estimate.skipped])


def print_shown(shown: Shown) -> None:
    """One thing of the index: what it is, what links to it, and its source text with the spans marked."""
    write(f"{shown.title}\n{shown.kind} {shown.id}")
    facts = [f"{name} {_fact(value)}" for name, value in shown.fields.items() if value not in ("", [], None)]
    if known := "; ".join(fact for fact in facts if len(fact) < _WIDTH):
        write(known)
    own_text = [p for p in shown.passages if p.text == shown.text]
    if shown.text and not own_text:
        write(f"\n{wrapped(shown.text)}")
    for kind, group in groupby(sorted(shown.links, key=lambda link: _ORDER.index(link.kind)), lambda link: link.kind):
        links = list(group)
        write(f"\n{_PLURAL[kind]} ({len(links)})")
        most = len(links) if shown.kind == "list" else LINKS
        for link in links[:most]:
            write(f"  {one_line(link.title)} ({one_line(link.relation)})  [{link.id}]")
        if len(links) > most:
            write(f"  and {len(links) - most} more (--json shows all)")
    for passage in shown.passages[:PASSAGES]:
        write(f"\n{', '.join(passage.sources)}  [{passage.chunk_id}]")
        write_marked(passage.text, passage.spans, around=None if own_text else 160)
    if len(shown.passages) > PASSAGES:
        write(f"\nand {len(shown.passages) - PASSAGES} more passages (--json shows all)")


_PLURAL = {
    "entity": "Entities", "relationship": "Relationships", "claim": "Claims", "community": "Communities",
    "chunk": "Chunks", "document": "Documents", "answer": "Answers",
}  # fmt: skip
_ORDER = list(_PLURAL)


def condition_name(answer: Answer) -> str:
    """The paper's name of the way an answer was found: C0 to C3, TS or SS."""
    return f"C{answer.level}" if answer.level is not None else answer.method.upper()


def cost(answer: Answer) -> str:
    """What a question took, in one line."""
    usage = answer.usage
    return (
        f"{usage.calls} calls, {usage.prompt_tokens:,} tokens in ({usage.read_tokens:,} read anew), "
        f"{usage.output_tokens:,} out, {duration(answer.seconds)}"
    )


def excerpt(text: str, length: int = 160) -> str:
    """The beginning of a text on one line, in quotation marks."""
    return f"“{textwrap.shorten(text, length, placeholder=' …')}”"


def wrapped(text: str) -> str:
    """A text in lines of readable length; its own line breaks stay."""
    return "\n".join(textwrap.fill(line, _WIDTH, break_long_words=False) for line in text.splitlines())


def _work(stage: StageSummary) -> tuple[Any, ...]:
    """What a stage did with a model: units, those found stored, those failed, calls, tokens. Blank if it asks none."""
    if not stage.units:
        return ("",) * 6
    usage = stage.usage
    return stage.units, stage.cached, stage.failed, usage.calls, usage.read_tokens, usage.output_tokens


def _share(part: int, whole: int) -> str:
    return f"{part:,} of {whole:,}" + (f" ({part / whole:.0%})" if whole else "")


def _fact(value: Any) -> str:
    return ", ".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)


def _shown_by(answer: Answer) -> str:
    id_ = answer.record.get("id")
    return f". `localgraphrag show {id_}` shows all its evidence." if id_ else "."
