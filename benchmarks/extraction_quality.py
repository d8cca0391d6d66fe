"""What extraction finds and misses, against the gold annotations of Re-DocRED.

    python -m benchmarks.extraction_quality [--documents 40] [--systems b one many] [--keep FOLDER] [--json]

Systems: (b) a reused Outlines Generator with a pydantic schema, everything in one object of at most 1,000 tokens;
`one`, this engine with one conversation at a time; `many`, with as many as this machine takes. Each document is one
chunk. The engine runs with its default settings, without claims. `--keep` stores what each system found for each
document and takes it from there the next time, so that a run can be done in parts.

Matching. Names are compared by their words: case, punctuation and spaces do not count, nor a leading "the". A gold
entity is a cluster of mentions; a found name is right if it equals one of them. Clusters of time and number are not
asked for: a name that equals one of their mentions counts neither for nor against (`all types` takes them as gold
too). Precision is right names over found names, where several names of one cluster are each right; recall is clusters
found over clusters; both over all documents together. A gold pair is two clusters with at least one relation, in
either direction; it is found if a relationship links a name of the one with a name of the other. An output that is
not valid finds nothing.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks.common import Plain, arguments, corpus, evenly, parse, say

NAMED = {"PER": "persons", "ORG": "organizations", "LOC": "places", "MISC": "other things"}
NEAR = "a name that holds it, or a part of it, was found"
SYSTEMS = {
    "b": "(b) reused Outlines Generator, pydantic",
    "one": "this engine, one at a time",
    "many": "this engine, many at once",
}


@dataclass(frozen=True)
class Document:
    """A document with its gold clusters (names of mentions, type) and the pairs of them that are related."""

    title: str
    text: str
    clusters: tuple[tuple[frozenset[str], str], ...]
    pairs: frozenset[tuple[int, int]]


@dataclass(frozen=True)
class Names:
    """What a system found in a document."""

    names: tuple[str, ...]
    pairs: tuple[tuple[str, str], ...]
    valid: bool = True


def main() -> None:
    parser = arguments("extraction_quality", __doc__)
    parser.add_argument("--documents", type=int, default=40, help="the first so many")
    parser.add_argument("--systems", nargs="+", choices=list(SYSTEMS), default=list(SYSTEMS))
    parser.add_argument("--descriptions", choices=["quoted", "written"], default="quoted", help="of the engine")
    parser.add_argument("--keep", type=Path, help="folder for what was found, taken from there the next time")
    options = parser.parse_args()
    documents = load(options.documents)
    found = {}
    for system in options.systems:
        say(f"{system} ...")
        names = kept(options.keep, f"{options.descriptions}-{system}", options.model, documents)
        missing = [document for document in documents if document.title not in names]
        for document, result in run(system, missing, options.model, options.slots, options.descriptions):
            names[document.title] = result
            keep(options.keep, f"{options.descriptions}-{system}", options.model, document, result)
        found[system] = score(documents, [names[document.title] for document in documents])
    report = {"model": options.model, "documents": len(documents), "systems": found}
    print(json.dumps(report, indent=2, ensure_ascii=False) if options.json else table(report))


# -- gold --------------------------------------------------------------------------------------------------------------


def load(count: int) -> list[Document]:
    """The first documents of Re-DocRED."""
    raw = json.loads((corpus("redocred") / "dev_100.json").read_text(encoding="utf-8"))
    return [_document(item) for item in raw[:count]]


def _document(item: dict[str, Any]) -> Document:
    clusters = tuple(
        (frozenset(key(m["name"]) for m in mentions), mentions[0]["type"]) for mentions in item["vertexSet"]
    )
    pairs = frozenset((min(x["h"], x["t"]), max(x["h"], x["t"])) for x in item["labels"] if x["h"] != x["t"])
    return Document(item["title"], " ".join(map(prose, item["sents"])), clusters, pairs)


def prose(tokens: Sequence[str]) -> str:
    """Words as a text would have them: no space before punctuation, none inside brackets.

    >>> prose(["He", "(", "b.", "1963", ")", "left", ",", "it", "'s", "said", "."])
    "He (b. 1963) left, it's said."
    """
    text = re.sub(r" ([,.;:!?)\]%]|'s\b|n't\b)", r"\1", " ".join(tokens))
    return re.sub(r"([(\[]) ", r"\1", text)


def key(name: str) -> str:
    """The words of a name, for comparing.

    >>> key('The "Willi" Schneider') == key("willi schneider")
    True
    """
    words = re.findall(r"\w+", name.casefold())
    return " ".join(words[1:] if len(words) > 1 and words[0] == "the" else words)


# -- what systems find -------------------------------------------------------------------------------------------------


def run(system: str, documents: Sequence[Document], model: str, slots: int, descriptions: str) -> Iterable[Any]:
    """Each document with what the system finds in it, as it is found."""
    if not documents:
        return
    if system == "b":
        from localgraphrag.llm.catalog import resolve_model

        with Plain(resolve_model(model).path) as plain:
            ask = plain.outlines()
            for number, document in enumerate(documents, 1):
                found = parse(ask(document.title, document.text))
                say(f"  {number} of {len(documents)}: {'valid' if found else 'not valid'}")
                yield document, _of_object(found)
        return
    yield from _engine(documents, model, 1 if system == "one" else slots, descriptions)


def _of_object(found: Any) -> Names:
    if found is None:
        return Names((), (), valid=False)
    return Names(tuple(e.name for e in found.entities), tuple((r.source, r.target) for r in found.relationships))


def _engine(
    documents: Sequence[Document], model: str, slots: int, descriptions: str
) -> Iterable[tuple[Document, Names]]:
    from localgraphrag.chunks import Chunk
    from localgraphrag.config import Settings
    from localgraphrag.extract import extraction_units
    from localgraphrag.llm import load_engine
    from localgraphrag.llm.units import EngineRunner
    from localgraphrag.prompts import Prompts

    settings = Settings(model=model, slots=slots, claims=False, descriptions=descriptions)
    engine = load_engine(settings)
    count = engine.tokenizer.count
    chunks = [Chunk(str(i), str(i), d.title, 0, 0, len(d.text), d.text, count(d.text)) for i, d in enumerate(documents)]
    for outcome in EngineRunner(engine).run(extraction_units(chunks, settings, Prompts(None))):
        found = outcome.value
        names = Names((), (), valid=False)
        if found is not None:
            names = Names(
                tuple(e.name for e in found.entities), tuple((r.source, r.target) for r in found.relationships)
            )
        yield documents[int(outcome.unit.name)], names
    engine.close()


def kept(folder: Path | None, system: str, model: str, documents: Sequence[Document]) -> dict[str, Names]:
    """What an earlier run stored of these documents."""
    path = _path(folder, system, model)
    if path is None or not path.exists():
        return {}
    titles = {document.title for document in documents}
    found = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        item = json.loads(line)
        pairs = tuple((source, target) for source, target in item["pairs"])
        if item["title"] in titles:
            found[item["title"]] = Names(tuple(item["names"]), pairs, item["valid"])
    return found


def keep(folder: Path | None, system: str, model: str, document: Document, names: Names) -> None:
    path = _path(folder, system, model)
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a", encoding="utf-8") as stream:
            stream.write(json.dumps({"title": document.title} | asdict(names), ensure_ascii=False) + "\n")


def _path(folder: Path | None, system: str, model: str) -> Path | None:
    return folder / f"{Path(model).stem}-{system}.jsonl" if folder else None


# -- the score ---------------------------------------------------------------------------------------------------------


def score(documents: Sequence[Document], found: Sequence[Names]) -> dict[str, Any]:
    """Precision, recall and F1 of entities, recall of pairs, and what was missed."""
    missed: Counter[str] = Counter()
    examples: dict[str, list[str]] = {}
    for document, names in zip(documents, found, strict=True):
        said = {key(name) for name in names.names}
        for mentions, kind in document.clusters:
            if kind in NAMED and not mentions & said:
                missed[kind] += 1
                near = any(_within(m, s) or _within(s, m) for m in mentions for s in said)
                missed[NEAR] += near
                examples.setdefault(kind, []).append(max(mentions, key=len))
    return {
        "valid_share": round(sum(names.valid for names in found) / max(len(found), 1), 3),
        "entities": _entities(documents, found, NAMED),
        "entities_all_types": _entities(documents, found, None),
        "pairs": _pairs(documents, found, NAMED),
        "pairs_all_types": _pairs(documents, found, None),
        "missed": dict(missed),
        "missed_examples": {kind: evenly(names, 8) for kind, names in examples.items()},
    }


def _within(part: str, whole: str) -> bool:
    return f" {part} " in f" {whole} "


def _entities(documents: Sequence[Document], found: Sequence[Names], kinds: Sequence[str] | None) -> dict[str, Any]:
    right = listed = hit = gold = 0
    for document, names in zip(documents, found, strict=True):
        wanted = [mentions for mentions, kind in document.clusters if kinds is None or kind in kinds]
        beside = {m for mentions, kind in document.clusters if kinds and kind not in kinds for m in mentions}
        known = {m for mentions in wanted for m in mentions}
        said = {key(name) for name in names.names} - {""}
        right += len(said & known)
        listed += len(said - (beside - known))
        hit += sum(bool(mentions & said) for mentions in wanted)
        gold += len(wanted)
    precision, recall = right / max(listed, 1), hit / max(gold, 1)
    f1 = 2 * precision * recall / (precision + recall) if precision + recall else 0.0
    shares = {"precision": round(precision, 3), "recall": round(recall, 3), "f1": round(f1, 3)}
    return shares | {"found": listed, "right": right, "gold": gold, "gold_found": hit}


def _pairs(documents: Sequence[Document], found: Sequence[Names], kinds: Sequence[str] | None) -> dict[str, Any]:
    hit = gold = listed = 0
    for document, names in zip(documents, found, strict=True):
        of = [mentions for mentions, _ in document.clusters]
        wanted = [p for p in document.pairs if kinds is None or all(document.clusters[i][1] in kinds for i in p)]
        said = {frozenset((key(source), key(target))) for source, target in names.pairs}
        linked = {
            (min(a, b), max(a, b))
            for one, other in (tuple(s) for s in said if len(s) == 2)
            for a in range(len(of)) if one in of[a]
            for b in range(len(of)) if other in of[b]
        }  # fmt: skip
        hit += sum(pair in linked for pair in wanted)
        gold += len(wanted)
        listed += len(said)
    return {"recall": round(hit / max(gold, 1), 3), "found": listed, "gold": gold, "gold_found": hit}


def table(report: dict[str, Any]) -> str:
    """The results in Markdown."""
    lines = [
        "| system | valid | entities found | P | R | F1 | pairs found | recall of gold pairs | F1, all types |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for name, result in report["systems"].items():
        entities, pairs = result["entities"], result["pairs"]
        cells = [SYSTEMS[name], f"{result['valid_share']:.0%}", entities["found"]]
        cells += [entities["precision"], entities["recall"], entities["f1"]]
        cells += [pairs["found"], f"{pairs['recall']} ({pairs['gold_found']} of {pairs['gold']})"]
        cells += [result["entities_all_types"]["f1"]]
        lines.append("| " + " | ".join(map(str, cells)) + " |")
    lines += ["", f"{report['model']}, the first {report['documents']} documents of Re-DocRED."]
    for name, result in report["systems"].items():
        missed = result["missed"]
        lines += ["", f"Missed by {SYSTEMS[name]}{':' if missed else ': nothing.'}", ""]
        for kind in [kind for kind in NAMED if kind in missed]:
            shown = "; ".join(result["missed_examples"][kind])
            lines.append(f"- {missed[kind]} {NAMED[kind]}, among them {shown}")
        if missed:
            lines.append(f"- of all these {missed[NEAR]} where {NEAR}")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
