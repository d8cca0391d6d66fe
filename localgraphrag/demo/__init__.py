"""The demo corpus, written for this project, and the key to it: what is in it, and questions with known answers.

The key describes the corpus well enough to make questions from (paper 3.2 starts from a short description of it), and
holds what a reader would have to find. Nothing in the pipeline reads the key.
"""

from __future__ import annotations

import atexit
import shutil
import tempfile
import tomllib
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, get_args

from localgraphrag.errors import ConfigError

if TYPE_CHECKING:
    from localgraphrag.documents import Document
    from localgraphrag.project import Project

FactType = Literal["fact", "multi_hop", "comparison", "null", "global"]

RECORDED_SETTINGS: MappingProxyType[str, Any] = MappingProxyType({"report_levels": []})
"""Settings that the recorded answers depend on and that a user may have changed for other projects."""

RECORDED_CONDITIONS = ("C0", "C1", "TS", "SS")
"""The conditions under which the demo's question is answered in the recording."""

JUDGED_CONDITIONS = ("C0", "SS")
"""Those whose answers are compared in it, by every metric, once in each order (`evaluate.judge_answers`, 2 repeats)."""

LONG_CHUNK = 2400
"""Tokens of the larger chunks of which extractions are recorded; the paper compares 600 with 2,400."""

_LONG = ("council-minutes-2023-05-09.txt", "oral-history-edda-quillan.md", "packet-2023-03-24.html")


@dataclass(frozen=True)
class DemoName:
    """A person, organization or place that recurs, other names for it, and a line on who or what it is."""

    name: str
    aliases: tuple[str, ...]
    note: str


@dataclass(frozen=True)
class DemoTheme:
    """A theme that no single document states.

    `documents` show it together; a good answer names some of `terms`; no document says any of `unsaid` (beginnings
    of words or phrases) nor the theme's `name`.
    """

    name: str
    line: str
    documents: tuple[str, ...]
    terms: tuple[str, ...]
    unsaid: tuple[str, ...]


@dataclass(frozen=True)
class DemoContradiction:
    """Two statements of different documents that cannot both be true, planted on purpose."""

    claim: str
    against: str
    documents: tuple[str, ...]


@dataclass(frozen=True)
class DemoFact:
    """A question with a known answer.

    `must_mention` is a tuple of groups of alternatives, each string found in `documents`. A question of type "null" has
    neither: the corpus does not answer it. `evidence` quotes from each of `documents` in turn the words that bear the
    answer; it is empty for "null" and "global", whose answers lie in no one sentence.
    """

    id: str
    type: FactType
    question: str
    answer: str
    must_mention: tuple[tuple[str, ...], ...]
    documents: tuple[str, ...]
    evidence: tuple[str, ...]

    def answered_by(self, text: str) -> bool:
        """Whether `text` holds at least one string of every group, whatever the case. Always true for "null".

        >>> fact = DemoFact("f", "fact", "When?", "In 1958.", (("1958", "fifty-eight"), ("chapel",)), ("a.txt",), ())
        >>> fact.answered_by("In the Chapel, in 1958."), fact.answered_by("In 1958.")
        (True, False)
        """
        folded = text.casefold()
        return all(any(word.casefold() in folded for word in group) for group in self.must_mention)


@dataclass(frozen=True)
class DemoFacts:
    """The whole key. Documents are named by file within `corpus_folder()`."""

    title: str
    description: str
    people: tuple[DemoName, ...]
    organizations: tuple[DemoName, ...]
    places: tuple[DemoName, ...]
    themes: tuple[DemoTheme, ...]
    contradictions: tuple[DemoContradiction, ...]
    facts: tuple[DemoFact, ...]

    def of_type(self, kind: FactType) -> tuple[DemoFact, ...]:
        """The questions of one type, in the order of the file."""
        return tuple(fact for fact in self.facts if fact.type == kind)


def corpus_folder() -> Path:
    """The folder with the demo's documents."""
    return Path(__file__).parent / "corpus"


def question() -> str:
    """The question that the demo asks: a global one, which no single document answers."""
    return facts().of_type("global")[0].question


def long_document() -> Document:
    """The three longest papers as one, to be cut into chunks of `LONG_CHUNK` tokens."""
    from localgraphrag.documents import Document, read_documents
    from localgraphrag.llm.units import content_hash

    papers = read_documents([corpus_folder() / name for name in _LONG]).documents
    text = "\n\n".join(paper.text for paper in papers)
    return Document(content_hash(text), "Three papers from Ostrey", text, _LONG)


def open_project(folder: Path | str | None = None, *, real_model: bool = False) -> Project:
    """The demo's project as the notebooks use it; index `corpus_folder()` with it.

    Parameters
    ----------
    folder : by default one that is gone when Python ends; with `real_model` it is `ostrey` in the current folder, so
        that what one notebook has had indexed is there for the next.
    real_model : False answers from the recording, which has the vectors of texts as well: no model file is needed, and
        nothing can be asked but what was recorded. True takes the models that the settings name.

    Raises ModelMissingError without a recording.
    """
    from localgraphrag.llm.recorded import RecordedEngine
    from localgraphrag.llm.recorded_vectors import RecordedEmbedder
    from localgraphrag.project import Project

    if real_model:
        return Project.open(folder or "ostrey", **RECORDED_SETTINGS)
    engine = RecordedEngine(recording())
    if folder is None:
        folder = tempfile.mkdtemp(prefix="ostrey-")
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Project.open(folder, engine=engine, embedder=RecordedEmbedder(recording()), **RECORDED_SETTINGS)


def recording() -> Path:
    """Where the default model's recorded answers to the demo are; `scripts/record_demo.py` makes them."""
    return Path(__file__).parent / "recorded.jsonl.gz"


def facts(path: Path | None = None) -> DemoFacts:
    """Read the key (or another file of its form, for a corpus of one's own).

    Raises ConfigError when the file is not TOML, or an entry lacks a field, has one too many or an unknown type.
    """
    path = path or Path(__file__).parent / "facts.toml"
    try:
        raw = tomllib.loads(path.read_text(encoding="utf-8"))
        names = {kind: _read(DemoName, raw.pop(kind)) for kind in ("people", "organizations", "places")}
        key = DemoFacts(
            title=raw.pop("title"),
            description=" ".join(raw.pop("description").split()),
            **names,
            themes=_read(DemoTheme, raw.pop("themes")),
            contradictions=_read(DemoContradiction, raw.pop("contradictions")),
            facts=_read(DemoFact, raw.pop("facts")),
        )
    except (tomllib.TOMLDecodeError, KeyError, TypeError) as error:
        raise ConfigError(f"{path} is not a key to a corpus: {error}. Compare the demo's facts.toml.") from error
    unknown = sorted({fact.type for fact in key.facts} - set(get_args(FactType)))
    if unknown:
        known = ", ".join(get_args(FactType))
        raise ConfigError(f"{path} has questions of type {', '.join(unknown)}; types are {known}. Change the type.")
    return key


def _read(kind: Any, entries: list[dict[str, Any]]) -> Any:
    return tuple(kind(**{field: _frozen(value) for field, value in entry.items()}) for entry in entries)


def _frozen(value: Any) -> Any:
    return tuple(map(_frozen, value)) if isinstance(value, list) else value
