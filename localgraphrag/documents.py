"""Files to documents (paper 3.1.1)."""

from __future__ import annotations

import hashlib
import os
import re
import stat
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from localgraphrag.config import INDEX_FILE, PROMPTS_FOLDER, SETTINGS_FILE
from localgraphrag.errors import DocumentError, NoDocumentsError
from localgraphrag.readers import SUPPORTED, Content, read_file
from localgraphrag.readers.rows import NoColumnError
from localgraphrag.readers.titles import from_name, sensible

Progress = Callable[[int, int, str], None]
"""Called before each file is read with files done, files in all, and the file's source name."""

_LINK_OUT = "is a link that leads out of the folder; name its target to read it"
_LINK_HIDDEN = "is a link to a hidden file"
_NOT_FOLLOWED = (_LINK_OUT, _LINK_HIDDEN)

_CLUTTER = {"thumbs.db", "desktop.ini", "__macosx"}  # what operating systems leave in folders


@dataclass(frozen=True)
class Document:
    """A text with its origin.

    `id` is the sha256 of the text (hex); `title` comes from the file; `sources` are the paths (or path#row for CSV
    and JSONL) that hold this very text, sorted, relative to the folder given where there is one.
    """

    id: str
    title: str
    text: str
    sources: tuple[str, ...]


@dataclass(frozen=True)
class Skipped:
    """A file, or part of one, that was not read. `path` is named as a source is; `reason` continues it: "is empty".

    `deliberate` says that nothing went wrong: it is a link that is not followed, wherever it leads.
    """

    path: str
    reason: str
    deliberate: bool = False


@dataclass(frozen=True)
class Reading:
    """What a corpus gave: documents in order of their first source, and what was skipped, by path."""

    documents: tuple[Document, ...]
    skipped: tuple[Skipped, ...]


@dataclass(frozen=True)
class _File:
    path: Path
    source: str
    named: bool  # asked for by path or by an include glob


def read_documents(
    paths: Sequence[Path],
    *,
    include: Sequence[str] = (),
    exclude: Sequence[str] = (),
    text_column: str = "text",
    title_column: str = "title",
    progress: Progress | None = None,
    may_be_empty: bool = False,
) -> Reading:
    r"""Read files, and folders with all that is below them.

    Parameters
    ----------
    paths : files and folders. Sources are relative to a folder that is given alone; of several folders they begin
        with the folder's name; a file given by itself is named as given.
    include, exclude : globs (`*`, `?`, `[..]`, `**`) for files found in folders; they are compared without regard to
        case with the path below the folder, or where they hold no "/" with the name of the file or of any folder
        above it.
    text_column, title_column : columns of CSV files and fields of JSONL files.
    progress : see `Progress`.
    may_be_empty : that nothing readable is found is no error.

    Hidden files and folders, symbolic links out of the folder, and a project's own settings and index are not read.
    The text is the file's own but for newlines, which become `\n`, and byte order marks and NULs, which go; spans
    point into this text. The same text under several names is one document with several sources, titled by the first.

    Raises NoDocumentsError if a path does not exist or, unless it may be so, nothing readable is found, and ConfigError
    if a file given by its own path lacks the text column.
    """
    skipped: list[Skipped] = []
    files = _find(paths, include, exclude, skipped)
    texts: dict[str, str] = {}
    origins: dict[str, list[tuple[str, int, str]]] = {}  # text hash -> source, row, title
    for done, file in enumerate(files):
        if progress:
            progress(done, len(files), file.source)
        content = _read(file, text_column, title_column, skipped, alone=any(Path(path) == file.path for path in paths))
        for item in content.items:
            digest = hashlib.sha256(item.text.encode("utf-8")).hexdigest()
            texts.setdefault(digest, item.text)
            origins.setdefault(digest, []).append((file.source, item.row, item.title))
    documents = sorted((min(found)[:2], _document(digest, texts[digest], found)) for digest, found in origins.items())
    skipped.sort(key=lambda skip: (skip.path, skip.reason))
    if not documents and not may_be_empty:
        raise NoDocumentsError(_nothing(paths, include, exclude, skipped))
    return Reading(tuple(document for _origin, document in documents), tuple(skipped))


def _document(digest: str, text: str, origins: list[tuple[str, int, str]]) -> Document:
    origins = sorted(origins)
    source, row, title = origins[0]
    fallback = from_name(source) + (f", row {row}" if row else "")
    sources = tuple(f"{name}#{number}" if number else name for name, number, _title in origins)
    return Document(digest, sensible(title) or fallback, text, sources)


def _read(file: _File, text_column: str, title_column: str, skipped: list[Skipped], *, alone: bool) -> Content:
    try:
        content = read_file(file.path, text_column=text_column, title_column=title_column, named=file.named)
    except NoColumnError as error:
        if alone:
            raise NoColumnError(f"{file.source} {error}.") from error
        skipped.append(Skipped(file.source, str(error)))
        return Content(())
    except DocumentError as error:
        skipped.append(Skipped(file.source, str(error)))
        return Content(())
    if content.problem:
        skipped.append(Skipped(file.source, content.problem))
    return content


def _nothing(paths: Sequence[Path], include: Sequence[str], exclude: Sequence[str], skipped: Sequence[Skipped]) -> str:
    """One sentence: what was looked at, and why nothing came of it."""
    if not paths:
        return "No file or folder was given; name those that hold the documents."
    where = ", ".join(f"'{path}'" for path in paths)
    if not skipped:
        globs = " that the include and exclude globs leave" if include or exclude else ""
        return f"There is no document in {where}{globs}; supported are {SUPPORTED}."
    shown = "; ".join(f"{skip.path} {skip.reason}" for skip in skipped[:3])
    more = f"; and {len(skipped) - 3} more" if len(skipped) > 3 else ""
    return f"Nothing in {where} could be read: {shown}{more}."


def _find(paths: Sequence[Path], include: Sequence[str], exclude: Sequence[str], skipped: list[Skipped]) -> list[_File]:
    """The files to read, each once, in order of their sources."""
    found: dict[Path, _File] = {}
    folders = [path for path in map(Path, paths) if path.is_dir()]
    for path in map(Path, paths):
        if not path.exists():
            raise NoDocumentsError(f"There is no file or folder at '{path}'; check the path.")
        if not path.is_dir():
            found.setdefault(_place(path), _File(path, path.as_posix(), named=True))
            continue
        prefix = "" if len(folders) == 1 else _prefix(path, folders)
        for file, below in _walk(path, prefix, skipped):
            if (not include or _matches(below, include)) and not _matches(below, exclude):
                found.setdefault(_place(file), _File(file, prefix + below, named=bool(include)))
    return sorted(found.values(), key=lambda file: file.source)


def _place(path: Path) -> Path:
    """Where a file really stands. Its own name is not resolved: a link to a file is a second name for it."""
    return path.parent.resolve() / path.name


def _prefix(folder: Path, folders: Sequence[Path]) -> str:
    """What tells the sources of several folders apart: the folder's name, or its whole path where names repeat."""
    names = [other.resolve().name for other in folders]
    name = folder.resolve().name
    return f"{name}/" if name and names.count(name) == 1 else f"{folder.as_posix().rstrip('/')}/"


def _walk(folder: Path, prefix: str, skipped: list[Skipped]) -> Iterator[tuple[Path, str]]:
    """Regular files below a folder with their paths below it. Linked folders are not entered, so there are no loops."""
    root = folder.resolve()

    def denied(error: OSError) -> None:
        skipped.append(Skipped(_below(Path(error.filename), folder, prefix), f"cannot be opened ({error.strerror})"))

    for place, folders, names in os.walk(folder, onerror=denied):
        own = {SETTINGS_FILE, INDEX_FILE, PROMPTS_FOLDER} if SETTINGS_FILE in names else set()
        links = [name for name in folders if (Path(place) / name).is_symlink() and not _hidden(name)]
        folders[:] = sorted(name for name in folders if not _hidden(name) and name not in own and name not in links)
        for name in [*links, *names]:
            path = Path(place) / name
            if _hidden(name) or re.sub(r"(-wal|-shm|\.lock)$", "", name) in own:
                continue
            reason = _unfit(path, root)
            if reason:
                skipped.append(Skipped(_below(path, folder, prefix), reason, deliberate=reason in _NOT_FOLLOWED))
            elif name not in links:
                yield path, _below(path, folder, "")


def _below(path: Path, folder: Path, prefix: str) -> str:
    # A name that is not UTF-8 holds lone surrogates, which no database or terminal takes
    return (prefix + path.relative_to(folder).as_posix()).encode("utf-8", "replace").decode()


def _unfit(path: Path, root: Path) -> str:
    """Why a directory entry is not opened, or "". Opening a pipe would wait for ever."""
    try:
        if path.is_symlink():
            target = path.resolve(strict=True)
            if not target.is_relative_to(root):
                return _LINK_OUT
            if any(_hidden(part) for part in target.relative_to(root).parts):
                return _LINK_HIDDEN
        mode = path.stat().st_mode
    except (OSError, RuntimeError):  # RuntimeError: a link to itself
        return "is a link that leads nowhere" if path.is_symlink() else "cannot be opened"
    return "" if stat.S_ISREG(mode) or stat.S_ISDIR(mode) else "is not a regular file"


def _hidden(name: str) -> bool:
    return name.startswith((".", "~$")) or name.lower() in _CLUTTER


def _matches(below: str, globs: Sequence[str]) -> bool:
    parts = below.split("/")
    heads = ["/".join(parts[:length]) for length in range(1, len(parts) + 1)]
    return any(
        any(_glob(pattern).fullmatch(candidate) for candidate in (heads if "/" in pattern.rstrip("/") else parts))
        for pattern in globs
    )


def _glob(pattern: str) -> re.Pattern[str]:
    """A glob as a regular expression; `**/` stands for any folders, or none."""
    pieces = re.findall(r"\*\*/?|\*|\?|\[!?[^\]]+\]|[^*?\[]+|\[", pattern.rstrip("/").removeprefix("./"))
    known = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]", "[": r"\["}
    regex = "".join(
        known.get(piece)
        or (piece.replace("[!", "[^", 1).replace("\\", r"\\") if piece.startswith("[") else re.escape(piece))
        for piece in pieces
    )
    return re.compile(regex, re.IGNORECASE | re.DOTALL)
