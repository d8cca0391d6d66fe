"""What an index remembers of its last run: the paths it is of, and its model where the settings file names another."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from localgraphrag.config import INDEX_FILE, expanded, model_in_file
from localgraphrag.errors import ConfigError, NoDocumentsError, NotIndexedError, StoreError
from localgraphrag.store import Store

ONE_OFF_MODEL = "one_off_model"
"""Where the index file keeps what `one_off_model` tells."""


@dataclass(frozen=True)
class LastRun:
    """Paths of the last run, and the file names among the sources of its documents.

    `has_text` says whether there is text in the index file, be it of a run that did not come to its end.
    """

    paths: tuple[Path, ...]
    files: frozenset[str]
    has_text: bool


def last_run(folder: Path) -> LastRun:
    """What the index of the project in `folder` says of its last run; of none if there is no index."""
    try:
        with Store(folder / INDEX_FILE) as store:
            paths = store.get("paths") or []
            sources = [source for (source,) in store.rows("SELECT path FROM sources")]
            has_text = bool(store.scalar("SELECT count(*) FROM documents"))
    except NotIndexedError:
        return LastRun((), frozenset(), has_text=False)
    whole = normal(folder)
    files = frozenset(Path(source.split("#")[0]).name for source in sources)
    return LastRun(tuple(normal(whole / path) for path in paths), files, has_text)


def remember(store: Store, meta: Mapping[str, Any]) -> None:
    """Keep at the beginning of a run what the next one needs to go on, should this one not come to its end."""
    with store.transaction():
        for name in {"paths", ONE_OFF_MODEL} & set(meta):
            store.put(name, meta[name])


# Paths


def choose_paths(given: Sequence[str | Path] | None, last: LastRun, *, drop: bool) -> list[Path]:
    """The paths given, or those of the last run that are still there; all of them, if none is.

    Raises ConfigError, unless they may be dropped, where documents would be lost that nobody has deleted; and
    NoDocumentsError where there are no paths at all.
    """
    if given is not None:
        return _named_now(given, last, drop=drop)
    if not last.paths:
        raise NoDocumentsError("No paths were given, and this project has none from before. Name files or folders.")
    there = [path for path in last.paths if holds_something(path)]
    # A file that is gone has been deleted, as long as it is not all that there was.
    gone = [path for path in last.paths if path not in there and (path.name not in last.files or not there)]
    if last.files and gone and not drop:
        raise ConfigError(
            f"{listed(gone)}, indexed before, {'are' if len(gone) > 1 else 'is'} gone or empty. If a drive "
            "is not mounted, mount it and run again; to drop these documents with all that was made of them, say "
            "--drop (in Python, drop=True). Nothing has been changed."
        )
    return there or list(last.paths)


def _named_now(given: Sequence[str | Path], last: LastRun, *, drop: bool) -> list[Path]:
    if any(str(path) == "" for path in given):  # Path("") is the current folder, which nobody named
        raise ConfigError("An empty path was given, as an unset variable does. Name files or folders.")
    chosen = list(dict.fromkeys(normal(Path(path)) for path in given))
    places = {path.resolve() for path in chosen}  # links, and other spellings of a place, are that place
    left_out = [path for path in last.paths if holds_something(path) and not _within(path.resolve(), places)]
    if left_out and not drop:
        raise ConfigError(
            f"The index holds documents of {listed(left_out)} as well, and is of those paths alone that are "
            f"named last. Name {'these' if len(left_out) > 1 else 'it'} too to keep the documents, or say "
            "--drop (in Python, drop=True) to drop them with all that was made of them. Nothing has been "
            "changed."
        )
    return chosen


def normal(path: Path) -> Path:
    """The path from the root, without `..`. Links stay as they are, since they may come to lead elsewhere.

    Links are resolved only where a `..` goes up from the target of one: leaving out both would be another place.
    """
    whole = expanded(path).absolute()
    short = Path(os.path.normpath(whole))
    return short if short.resolve() == whole.resolve() else whole.resolve()


def portable(path: Path, folder: Path) -> str:
    """A path inside the project's folder is kept relative to it: the folder may move."""
    whole = normal(folder)
    return path.relative_to(whole).as_posix() if path.is_relative_to(whole) else str(path)


def holds_something(path: Path) -> bool:
    """Whether there is a file, or a folder that is not empty: a drive's folder stays when the drive is gone."""
    return path.is_file() or (path.is_dir() and any(path.iterdir()))


def listed(paths: Sequence[Path]) -> str:
    """The paths in a sentence."""
    return ", ".join(map(str, paths))


def _within(path: Path, places: Collection[Path]) -> bool:
    return any(place in places for place in (path, *path.parents))


# The model


def one_off_model(model: str, folder: Path) -> dict[str, str] | None:
    """What the index is to remember of the model that makes it: nothing, if it is the one that the file names.

    A path is kept whole, since the next command may run in another folder.
    """
    named = model_in_file(folder)
    path = expanded(Path(model))
    return None if model == named else {"used": str(path.absolute()) if path.is_file() else model, "named": named}


def model_of_index(folder: Path) -> str | None:
    """The model that an option or variable named when the index was made; None where it was the file's.

    None also where the file names another by now than it did then, which is the latest word.
    """
    if not (folder / INDEX_FILE).exists():
        return None
    try:
        with Store(folder / INDEX_FILE) as store:
            kept = store.get(ONE_OFF_MODEL)
    except (NotIndexedError, StoreError):  # what is wrong with the index is told by the verb that needs it
        return None
    return kept["used"] if kept and kept["named"] == model_in_file(folder) else None
