"""A project: one folder with its settings and its index, and everything that can be done with them."""

from __future__ import annotations

import json
import logging
import textwrap
import threading
from collections.abc import Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from localgraphrag.config import INDEX_FILE, PROMPTS_FOLDER, SETTINGS_FILE, Settings, load_settings
from localgraphrag.errors import (
    ConfigError,
    ModelError,
    NoDocumentsError,
    NotIndexedError,
    StoreError,
    StoreLockedError,
    StoreVersionError,
)

log = logging.getLogger(__name__)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from localgraphrag.documents import Reading
    from localgraphrag.economics import Economics
    from localgraphrag.embed import Embedder
    from localgraphrag.estimate import Estimate
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
        """The project in `folder`, which need not exist yet.

        Parameters
        ----------
        engine, embedder : in place of those that the settings name; the caller closes them.
        overrides : settings in place of those in the file; None means not given.

        Raises ConfigError for a setting that cannot be used.
        """
        path = Path(folder)
        return cls(path, load_settings(path, **overrides), engine=engine, embedder=embedder)

    @classmethod
    def init(cls, folder: StrPath, **overrides: Any) -> Project:
        """Make the folder with a settings file that names every setting. Raises ConfigError if there is one already."""
        path = Path(folder)
        if (path / SETTINGS_FILE).exists():
            raise ConfigError(f"{path / SETTINGS_FILE} is there already. Edit it, or delete it to start from defaults.")
        project = cls.open(path, **overrides)
        path.mkdir(parents=True, exist_ok=True)
        (path / SETTINGS_FILE).write_text(settings_text(project.settings), encoding="utf-8")
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
            are gone or empty, as a drive is that is not mounted.
        progress : called with a `Progress` whenever there is something to tell.

        Raises
        ------
        ConfigError
            Without `drop`: whole paths of the last run would be lost; nothing has been changed then.
        NoDocumentsError
            Nothing readable; nothing has been made then.
        StoreLockedError
            Another run is at work.
        ModelError
            The model is missing, broken, or too small; nothing has been made then.
        EmptyExtractionError, StoreFullError
            See `index_project`; what was done is kept.
        """
        from localgraphrag.pipeline import index_project
        from localgraphrag.store import Store

        given = self._paths(paths, drop)
        reading = self._read(given, progress)
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
                    (self.folder / SETTINGS_FILE).write_text(settings_text(self.settings), encoding="utf-8")
                meta = {"paths": [self._portable(path) for path in given], "settings": self.settings.model_dump()}
                return index_project(
                    store, self.settings, engine, embedder, self.prompts, reading,
                    meta=meta, progress=progress, warnings=warnings,
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
            No index, or no reports of that level.
        ConfigError
            No such method or level, or an empty question.
        ModelError
            No model, or all its calls failed; for "ss" also no embedder.
        """
        from localgraphrag.search.question import check_level, check_question

        if method not in ("global", "ts", "ss"):
            raise ConfigError(f"There is no method '{method}'. Methods: global, ts, ss.")
        check_question(question)
        if method == "global":  # before a model is loaded
            with self.store() as store:
                check_level(level, store.scalar("SELECT count(DISTINCT level) FROM community_levels"))
        with self.asking(embedding=True if method == "ss" else None, progress=progress) as asking:
            return asking.answer(question, method, level, self.settings.seed if seed is None else seed)

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
        """
        from localgraphrag.errors import LocalGraphRAGError
        from localgraphrag.search.question import check_question, condition

        check_question(question)
        answers: dict[str, Answer] = {}
        errors: dict[str, str] = {}
        for chosen in [condition(name) for name in (self.conditions() if conditions is None else conditions)]:
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

        with self.store() as store:
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

        `reference` is an id (of an entity, relationship, claim, community, chunk, document or answer), the name of an
        entity, or the path of a document. Raises NotFoundError naming what comes near.
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
        """What indexing `paths` would take on this machine, by a probe of a few seconds; nothing is written."""
        from localgraphrag.estimate import estimate

        reading = self._read(self._paths(paths), progress)
        with self._model_at_work:
            if not self.index_path.exists():
                return estimate(None, self.settings, self.engine, self.prompts, reading)
            with self.store() as store:
                return estimate(store, self.settings, self.engine, self.prompts, reading)

    @contextmanager
    def store(self) -> Iterator[Store]:
        """The index, open to read. Raises NotIndexedError."""
        from localgraphrag.store import Store

        with Store(self.index_path) as store:
            yield store

    def _paths(self, paths: StrPath | Sequence[StrPath] | None, drop: bool = True) -> list[Path]:
        """The paths given, or those remembered that are still there.

        Raises ConfigError, unless they may be dropped, where documents would be lost that nobody has deleted.
        """
        known, files = self._remembered()
        if paths is not None:
            named = [paths] if isinstance(paths, (str, Path)) else paths
            given = [Path(path).expanduser().absolute() for path in named]
            left_out = [path for path in known if _holds_something(path) and not {path, *path.parents} & set(given)]
            if left_out and not drop:
                raise ConfigError(
                    f"The index holds documents of {_named(left_out)} as well, and is of those paths alone that are "
                    f"named last. Name {'these' if len(left_out) > 1 else 'it'} too to keep the documents, or say "
                    "--drop (in Python, drop=True) to drop them with all that was made of them. Nothing has been "
                    "changed."
                )
            return given
        if not known:
            raise NoDocumentsError("No paths were given, and this project has none from before. Name files or folders.")
        there = [path for path in known if _holds_something(path)]
        folders = [path for path in known if path not in there and path.name not in files]
        if there and folders and not drop:
            raise ConfigError(
                f"{_named(folders)}, indexed before, {'are' if len(folders) > 1 else 'is'} gone or empty. If a drive "
                "is not mounted, mount it and run again; to drop these documents with all that was made of them, say "
                "--drop (in Python, drop=True). Nothing has been changed."
            )
        return there or known

    def _remembered(self) -> tuple[list[Path], set[str]]:
        """The paths of the last run, and the file names among the sources of documents."""
        try:
            with self.store() as store:
                paths = store.get("paths") or []
                sources = [source for (source,) in store.rows("SELECT path FROM sources")]
        except NotIndexedError:
            return [], set()
        return [self.folder.absolute() / path for path in paths], {Path(s.split("#")[0]).name for s in sources}

    def _portable(self, path: Path) -> str:
        """A path inside the project's folder is kept relative to it: the folder may move."""
        folder = self.folder.absolute()
        return path.relative_to(folder).as_posix() if path.is_relative_to(folder) else str(path)

    def _read(self, paths: Sequence[Path], progress: OnProgress | None) -> Reading:
        from localgraphrag.documents import read_documents
        from localgraphrag.progress import Progress

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
        )


def _holds_something(path: Path) -> bool:
    """Whether there is a file, or a folder that is not empty: a drive's folder stays when the drive is gone."""
    return path.is_file() or (path.is_dir() and any(path.iterdir()))


def _named(paths: Sequence[Path]) -> str:
    return ", ".join(map(str, paths))


def settings_text(settings: Settings) -> str:
    """A settings file that names every setting, with its default and its line of why.

    >>> from localgraphrag.config import Settings
    >>> 'max_gleanings = 1' in settings_text(Settings())
    True
    """
    lines = ["# Settings of this project. LOCALGRAPHRAG_NAME in the environment wins over this file.", ""]
    for name, field in Settings.model_fields.items():
        default = _toml(field.get_default())
        why = f"{field.description} Default: {default}"
        lines += [f"# {line}" for line in textwrap.wrap(why, 110, break_long_words=False, break_on_hyphens=False)]
        lines += [f"{name} = {_toml(getattr(settings, name))}", ""]
    return "\n".join(lines)


def _toml(value: Any) -> str:
    # JSON's strings, numbers, booleans and lists of them are TOML's too, but for one control character.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
