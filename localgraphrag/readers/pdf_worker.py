"""Reads one PDF in a process of its own and writes a JSON line per page.

Run as a script by `localgraphrag.readers.pdf`; it imports nothing of the package, so that it starts fast. Lines:
{"title", "pages"}, then {"text"} or {"error"} for each page, then {"end"}; or {"failed"} if the file cannot be
opened.
"""

from __future__ import annotations

import json
import logging
import sys
from pathlib import Path
from typing import Any

_MEMORY = 3 << 30  # bytes; a stream of a kilobyte can unpack to more than the machine has


def main() -> None:
    """Read the PDF named by the first argument."""
    out, sys.stdout = sys.stdout, sys.stderr
    logging.disable(logging.CRITICAL)  # pypdf logs every oddity it forgives

    def emit(**line: Any) -> None:
        out.write(json.dumps(line) + "\n")  # ASCII, so that a lone surrogate gets through
        out.flush()

    try:
        _limit_memory()
        _read(Path(sys.argv[1]), emit)
    except Exception as error:  # whatever is wrong with the file, the caller wants a reason
        emit(failed=f"is a broken PDF ({type(error).__name__}: {error})")


def _read(path: Path, emit: Any) -> None:
    from pypdf import PdfReader

    reader = PdfReader(path)
    if reader.is_encrypted and not reader.decrypt(""):  # many files open with an empty password
        emit(failed="is encrypted; save a copy without a password")
        return
    pages = len(reader.pages)
    emit(title=_title(reader), pages=pages)
    for number in range(pages):
        try:
            emit(text=reader.pages[number].extract_text())
        except Exception as error:  # one bad page does not cost the others
            emit(error=f"{type(error).__name__}: {error}")
    emit(end=True)


def _title(reader: Any) -> str:
    try:
        return str(reader.metadata.title or "") if reader.metadata else ""
    except Exception:  # a broken information dictionary says nothing about the pages
        return ""


def _limit_memory() -> None:
    try:
        import resource
    except ImportError:  # Windows has no such limit
        return
    _soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY if hard == resource.RLIM_INFINITY else min(_MEMORY, hard), hard))


if __name__ == "__main__":
    main()
