"""A project: one folder with its settings and its index, and everything that can be done with them."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from localgraphrag.config import (
    INDEX_FILE,
    PROMPTS_FOLDER,
    SETTINGS_FILE,
    Settings,
    in_environment,
    load_settings,
    paths_given,
    project_folder,
    settings_text,
)
from localgraphrag.errors import (
    ConfigError,
    ModelError,
    NotIndexedError,
    StoreError,
    StoreLockedError,
    StoreVersionError,
)

log = logging.getLogger(__name__)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from localgraphrag.doctor import Check
    from localgraphrag.documents import Reading
    from localgraphrag.economics import Economics
    from localgraphrag.embed import Embedder
    from localgraphrag.estimate import Estimate
    from localgraphrag.llm.fetch import Progress as Bytes
    from localgraphrag.llm.types import Engine
    from localgraphrag.pipeline import IndexSummary
    from localgraphrag.progress import OnProgress
    from localgraphrag.prompts import Prompts
    from localgraphrag.questions import Asking
    from localgraphrag.search import Answer
    from localgraphrag.search.question import Method
    from localgraphrag.show import Shown, Status
    from localgraphrag.store import Store

StrPath = str | Path


@dataclass(frozen=True)
class Comparison:
    """Answers to one question side by side; `errors` says of a condition why it has none."""

    question: str
    answers: dict[str, Answer]
    errors: dict[str, str]


class Project:
    """A folder with `localgraphrag.toml` and `index.db`.

    Make one with `Project.open`. All methods are synchronous and work inside a running event loop. Several threads may
    use one project; work of the model waits its turn.

    >>> from localgraphrag import Project
    >>> project = Project.open("demo")  # nothing is made or loaded before it is needed
    """

    def __init__(
        self, folder: Path, settings: Settings, *, engine: Engine | None = None, embedder: Embedder | None = None
    ) -> None:
        self.folder = folder
        self.settings = settings
        self._engine = engine
        self._engine_is_ours = engine is None
        self._embedder = embedder
        self._model_at_work = threading.RLock()

    @classmethod
    def open(
        cls, folder: StrPath, *, engine: Engine | None = None, embedder: Embedder | None = None, **overrides: Any
    ) -> Project:
        """The project in `folder`, which need not exist yet; `~` is the home.

        Parameters
        ----------
        engine, embedder : in place of those that the settings name; the caller closes them.
        overrides : settings in place of those in the file, for this project object alone; None means not given.

        An index that was made with a model named by an override or a variable goes on with it: another one could not
        add to it. Naming a model again, or changing it in the file, is what chooses another.

        Raises ConfigError for a setting that cannot be used, or a file in place of the folder.
        """
        path = project_folder(folder)
        if isinstance(engine, (str, Path)) or isinstance(embedder, (str, Path)):
            raise ConfigError(
                f"engine={engine!r}, embedder={embedder!r} was given; these are objects. Name a model with `model`, "
                "and an embedder in localgraphrag.toml or in LOCALGRAPHRAG_EMBEDDER."
            )
        if engine is None and overrides.get("model") is None and not in_environment("model"):
            from localgraphrag.remembered import model_of_index

            overrides["model"] = model_of_index(path)
        return cls(path, load_settings(path, **overrides), engine=engine, embedder=embedder)

    @classmethod
    def init(cls, folder: StrPath, **overrides: Any) -> Project:
        """Make the folder with a settings file that names every setting: the overrides, and for the rest the defaults.

        Raises ConfigError if there is a file already.
        """
        path = project_folder(folder)
        if (path / SETTINGS_FILE).exists():
            raise ConfigError(f"{path / SETTINGS_FILE} is there already. Edit it, or delete it to start from defaults.")
        project = cls.open(path, **overrides)
        path.mkdir(parents=True, exist_ok=True)
        given = {name: getattr(project.settings, name) for name, value in overrides.items() if value is not None}
        (path / SETTINGS_FILE).write_text(settings_text(given), encoding="utf-8")
        return project

    @property
    def index_path(self) -> Path:
        """Where the index is, or will be."""
        return self.folder / INDEX_FILE

    @property
    def engine(self) -> Engine:
        """The model, loaded when first needed. Raises ModelError."""
        with self._model_at_work:
            if self._engine is None:
                from localgraphrag.llm import load_engine

                self._engine = load_engine(self.settings, self.folder)
            return self._engine

    @property
    def embedder(self) -> Embedder:
        """The embedding model, loaded when first needed. Raises ModelError."""
        with self._model_at_work:
            if self._embedder is None:
                from localgraphrag.embed import load_embedder

                self._embedder = load_embedder(self.settings, self.folder)
            return self._embedder

    @property
    def prompts(self) -> Prompts:
        """The project's prompts, where it has its own; else the packaged ones."""
        from localgraphrag.prompts import Prompts

        own = self.folder / PROMPTS_FOLDER
        return Prompts(own if own.is_dir() else None)

    def close(self) -> None:
        """Free the model. Safe to call twice; a project can be used again afterwards."""
        with self._model_at_work:
            if self._engine is not None and self._engine_is_ours:
                self._engine.close()
                self._engine = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.close()

    def index(
        self,
        paths: StrPath | Sequence[StrPath] | None = None,
        *,
        drop: bool = False,
        progress: OnProgress | None = None,
    ) -> IndexSummary:
        """Make the index hold exactly the documents that `paths` hold, doing only what is missing.

        Parameters
        ----------
        paths : files and folders; None means those of the last run. Documents that are in the index and not (or no
            longer) there are dropped from it, with all that was made of them.
        drop : also documents of paths of the last run that are still there and named no more, and those of folders that
            are gone or empty, as a drive is that is not mounted. If nothing is left to read, the index is made empty.
        progress : called with a `Progress` whenever there is something to tell.

        Raises
        ------
        ConfigError
            Without `drop`: whole paths of the last run would be lost; nothing has been changed then. Or paths that are
            none.
        NoDocumentsError
            Nothing readable, and no index to empty; nothing has been made then.
        StoreLockedError
            Another run is at work; nothing has been read then.
        ModelError
            The model is missing, broken, or too small; nothing has been made then. A missing one is told before
            anything is read.
        EmptyExtractionError, StoreFullError
            See `index_project`; what was done is kept.
        """
        from localgraphrag.lock import check_free
        from localgraphrag.pipeline import index_project
        from localgraphrag.remembered import ONE_OFF_MODEL, choose_paths, last_run, one_off_model, portable
        from localgraphrag.show import left_out, ungrounded
        from localgraphrag.store import Store

        named = paths_given(paths)
        with self._model_at_work:  # a run of another thread is waited for; one of another process refuses this one
            check_free(self.index_path)
        last = last_run(self.folder)
        given = choose_paths(named, last, drop=drop)
        may_empty = drop and last.has_text
        # Those of last time may all be gone; one that is named now and is not there is a mistake.
        there = [path for path in given if path.exists()] if may_empty and named is None else given
        reading = self._read(there, progress, may_be_empty=may_empty)
        if not reading.documents:
            return self._empty(given, reading)
        with self._model_at_work:
            if not self.index_path.exists():
                _ = self.engine  # if it cannot be loaded, no file is made
            with Store(self.index_path, writer="index") as store:
                engine, warnings = self.engine, []
                try:
                    embedder = self.embedder
                except ModelError as error:
                    embedder = None
                    warnings.append(
                        "No vectors were made, so vector search (ss) will not work, and reports compare sentences by "
                        f"their words alone: {error}"
                    )
                if not (self.folder / SETTINGS_FILE).exists():
                    (self.folder / SETTINGS_FILE).write_text(settings_text(), encoding="utf-8")
                meta = {
                    "paths": [portable(path, self.folder) for path in given],
                    "settings": self.settings.model_dump(),
                    ONE_OFF_MODEL: one_off_model(self.settings.model, self.folder),
                }
                summary = index_project(
                    store, self.settings, engine, embedder, self.prompts, reading,
                    meta=meta, progress=progress, warnings=warnings,
                )  # fmt: skip
                refused = left_out(ungrounded(store))
        return replace(summary, warnings=(*summary.warnings, *filter(None, [refused])))

    def _check_model(self) -> None:
        """Raise ModelError if the model is missing or broken. No weights are loaded."""
        if self._engine is None:
            from localgraphrag.llm.catalog import resolve_model

            model = resolve_model(self.settings.model, beside=self.folder)
            if model.entry is None:  # no hash to compare with: see whether llama.cpp can read its header
                from localgraphrag.llm.gguf import GGUFModel

                GGUFModel(model.path, vocab_only=True).close()

    def _empty(self, paths: Sequence[Path], reading: Reading) -> IndexSummary:
        """Make the state of the index one without documents, and forget all that was made of those there were."""
        from localgraphrag import tables
        from localgraphrag.communities import Hierarchy
        from localgraphrag.graph import Graph
        from localgraphrag.pipeline import IndexSummary
        from localgraphrag.remembered import listed, portable
        from localgraphrag.store import Store

        started = time.monotonic()
        with Store(self.index_path, writer="index") as store:
            removed = store.scalar("SELECT count(DISTINCT document_id) FROM sources")
            nothing = tables.Index((), (), Graph((), (), ()), Hierarchy(()), {})
            meta = {"paths": [portable(path, self.folder) for path in paths]}
            tables.save_index(store, nothing, used={}, model=store.get("model") or "", meta=meta)
        warning = f"The index is empty now: {listed(paths)} held nothing to read, and what there was has been dropped."
        return IndexSummary(
            documents=0, chunks=0, entities=0, relationships=0, claims=0, communities=(), coverage=(), added=0,
            removed=removed, stages=(), failures=(), skipped=reading.skipped, warnings=(warning,),
            seconds=time.monotonic() - started,
        )  # fmt: skip

    def query(
        self,
        question: str,
        method: Method = "global",
        *,
        level: int = 0,
        seed: int | None = None,
        progress: OnProgress | None = None,
    ) -> Answer:
        """Answer a question, with citations, and record how.

        Parameters
        ----------
        method : "global" (map-reduce over reports), "ts" (over all chunks) or "ss" (over the nearest chunks).
        level : of the reports, 0 the coarsest. Reports not written yet are written first.
        seed : of the shuffle; the settings' by default.

        Raises
        ------
        NotIndexedError
            No index, an empty one, one whose first run has not ended, or no reports of that level.
        ConfigError
            No such method or level, an empty question, or a value of another kind.
        ModelError
            No model, or all its calls failed; for "ss" also no embedder.
        """
        from localgraphrag.search.question import check_level, check_method, check_number, check_question
        from localgraphrag.show import check_filled

        seed = self.settings.seed if seed is None else seed
        check_method(method)
        check_question(question)
        check_number("level", level)
        check_number("seed", seed)
        with self.store() as store:  # before a model is loaded
            check_filled(store)
            if method == "global":
                check_level(level, store.scalar("SELECT count(DISTINCT level) FROM community_levels"))
        with self.asking(embedding=True if method == "ss" else None, progress=progress) as asking:
            return asking.answer(question, method, level, seed)

    @contextmanager
    def asking(
        self, *, engine: Engine | None = None, embedding: bool | None = False, progress: OnProgress | None = None
    ) -> Iterator[Asking]:
        """The index and the model, held for many questions or for other work on what is stored.

        Parameters
        ----------
        engine : in place of the project's own.
        embedding : whether the embedder is needed; None: it is used if it can be loaded.

        Raises NotIndexedError or ModelError.
        """
        from localgraphrag.questions import Asking

        with self.store() as store, self._model_at_work:
            embedder = self.embedder if embedding else None
            if embedding is None and self.settings.descriptions == "quoted":
                try:
                    embedder = self.embedder
                except ModelError as error:
                    log.warning("Points and findings are not compared by their meaning: %s", error)
            yield Asking(store, self.settings, engine or self.engine, self.prompts, embedder, progress)

    def compare(
        self,
        question: str,
        conditions: Sequence[str] | None = None,
        *,
        seed: int | None = None,
        progress: OnProgress | None = None,
    ) -> Comparison:
        """Answers to one question under several conditions: C0..C3, TS, SS (paper 4.1).

        By default all that this index has. One that fails, as for want of an embedder, does not stop the others.

        Raises NotIndexedError for an index without documents; ConfigError where no condition is named, or one that
        there is not.
        """
        from localgraphrag.errors import LocalGraphRAGError
        from localgraphrag.search.question import check_number, check_question, conditions_named

        check_question(question)
        check_number("seed", self.settings.seed if seed is None else seed)
        answers: dict[str, Answer] = {}
        errors: dict[str, str] = {}
        for chosen in conditions_named(self.conditions() if conditions is None else conditions):
            try:
                answers[chosen.name] = self.query(
                    question, chosen.method, level=chosen.level or 0, seed=seed, progress=progress
                )
            except LocalGraphRAGError as error:
                errors[chosen.name] = str(error)
        return Comparison(question, answers, errors)

    def conditions(self) -> list[str]:
        """The names of the conditions that this index can answer under. Raises NotIndexedError."""
        from localgraphrag.search.question import CONDITIONS
        from localgraphrag.show import check_filled

        with self.store() as store:
            check_filled(store)
            levels = store.scalar("SELECT count(DISTINCT level) FROM community_levels")
        return [name for name, c in CONDITIONS.items() if c.level is None or c.level < levels]

    def status(self) -> Status:
        """What the index holds, what failed, what it has cost. Raises NotIndexedError."""
        from localgraphrag.show import status

        with self.store() as store:
            return status(store)

    def economics(self) -> Economics:
        """What the index cost, what a question at each level reads, and when the index pays. Raises NotIndexedError."""
        from localgraphrag.economics import economics, vocabulary

        with self.store() as store:
            made_by = store.get("model") or ""
            if self._engine is not None and self._engine.identity == made_by:
                return economics(store, self._engine.tokenizer)
            return economics(store, vocabulary(self.settings, self.folder, made_by))

    def show(self, reference: str) -> Shown:
        """One thing of the index, what links to it, and the text it comes from with the spans that matter.

        `reference` is an id (of an entity, relationship, claim, community, chunk, document or answer) or its beginning,
        the name of an entity, the title of a report, or the path of a document; or it names a list: "documents",
        "entities", "relationships", "claims", "communities", "reports", "answers", a level ("C0"), the path of a table.

        Raises NotFoundError naming what comes near; ConfigError where nothing is named.
        """
        from localgraphrag.show import show

        with self.store() as store:
            return show(store, reference)

    def verify(self) -> list[str]:
        """Everything that is wrong with the index, in words; empty when it is sound."""
        from localgraphrag.verify import verify

        try:
            with self.store() as store:
                return verify(store)
        except (StoreVersionError, StoreLockedError):
            raise
        except StoreError as error:
            return [str(error)]

    def estimate(
        self, paths: StrPath | Sequence[StrPath] | None = None, *, progress: OnProgress | None = None
    ) -> Estimate:
        """What indexing `paths` would take on this machine, by a probe of a few seconds; nothing is written.

        What is stored already costs nothing. Raises what `index` raises where there is nothing to read or the model
        cannot be used; that `index` would drop documents is no reason to refuse.
        """
        from localgraphrag.estimate import estimate
        from localgraphrag.remembered import choose_paths, last_run

        reading = self._read(choose_paths(paths_given(paths), last_run(self.folder), drop=True), progress)
        with self._model_at_work, ExitStack() as opened:
            store = embedder = None
            with suppress(NotIndexedError):  # then all is to do
                store = opened.enter_context(self.store())
            if store is not None and self.settings.descriptions == "quoted":
                with suppress(ModelError):  # then `index` would write reports without one
                    embedder = self.embedder
            return estimate(store, self.settings, self.engine, self.prompts, reading, embedder)

    def doctor(self, progress: Bytes | None = None) -> tuple[Check, ...]:
        """What this machine can do for the project, and remedies; see `doctor.examine`. The models are hashed anew."""
        from localgraphrag.doctor import examine

        return tuple(examine(self.settings, self.folder, progress))

    @contextmanager
    def store(self) -> Iterator[Store]:
        """The index, open to read. Raises NotIndexedError."""
        from localgraphrag.store import Store

        with Store(self.index_path) as store:
            yield store

    def _read(self, paths: Sequence[Path], progress: OnProgress | None, *, may_be_empty: bool = False) -> Reading:
        """Read the documents; first, if there are files, see whether the model is there: reading can take long."""
        from localgraphrag.documents import read_documents
        from localgraphrag.progress import Progress
        from localgraphrag.remembered import holds_something

        if any(map(holds_something, paths)):
            self._check_model()

        def told(done: int, total: int, source: str) -> None:
            if progress:
                progress(Progress("read", done, total, source))

        return read_documents(
            paths,
            include=self.settings.include,
            exclude=self.settings.exclude,
            text_column=self.settings.text_column,
            title_column=self.settings.title_column,
            progress=told,
            may_be_empty=may_be_empty,
        )
