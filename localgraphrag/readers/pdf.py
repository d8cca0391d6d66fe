"""PDF to text, through a process that may hang or die without taking this one along."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

from localgraphrag.errors import DocumentError
from localgraphrag.readers.text import blank, clean

PAGE_SECONDS = 60.0
"""A page that takes longer ends the reading of its file. Ordinary pages take milliseconds."""

_HYPHEN = re.compile(r"\b(\w+)[-\u2010]\n{1,2}(\w+)")
_HIDDEN_HYPHEN = re.compile(r"\u00ad\n?")


def read_pdf(path: Path) -> tuple[str, str, str]:
    """Text, title, and a sentence about pages that could not be read (or "").

    Raises DocumentError if the file is broken, encrypted, or has no text (scanned pages).
    """
    lines, ending = _run(_command(path))
    opened = next((line for line in lines if "pages" in line), None)
    failed = next((line["failed"] for line in lines if "failed" in line), "")
    if opened is None or (failed and not any("text" in line for line in lines)):
        raise DocumentError(failed or f"is a broken PDF (the reader {ending})")
    pages = [line for line in lines if "text" in line or "error" in line]
    problem = _problem(pages, opened["pages"], ending)
    text = clean(join_pages([line.get("text", "") for line in pages]))
    if blank(text):
        raise DocumentError(problem or _no_text(opened["pages"]))
    return text, opened["title"], problem


def join_pages(pages: list[str]) -> str:
    r"""Pages as one text, with words that were divided at a line's end whole again.

    A hyphen at a line's end stays where the text elsewhere has the hyphenated word within a line, or where what
    follows is not a lower-case letter; else the parts are joined.

    >>> join_pages(["a well-known exam-\nple of well-\nknown ways"])
    'a well-known example of well-known ways\n'
    """
    stripped = (re.sub(r"(?<![ \t])[ \t]+$", "", page, flags=re.MULTILINE).strip("\n") for page in pages)
    text = "\n\n".join(page for page in stripped if page)
    text = _HIDDEN_HYPHEN.sub("", text)
    whole = {match.casefold() for match in re.findall(r"\b\w+-\w+", text)}

    def join(match: re.Match[str]) -> str:
        first, second = match.groups()
        if f"{first}-{second}".casefold() in whole:
            return f"{first}-{second}"
        return first + second if first[-1].isalpha() and second[0].islower() else match[0]

    return _HYPHEN.sub(join, text).strip("\n") + "\n"


def _no_text(pages: int) -> str:
    return f"is a PDF without text ({pages} page{'s' * (pages != 1)}, perhaps scanned); run OCR on it first"


def _problem(pages: list[dict[str, Any]], expected: int, ending: str) -> str:
    bad = [number for number, line in enumerate(pages, 1) if "error" in line]
    if len(pages) < expected:
        stop = f"at page {len(pages) + 1} the reader {ending or 'stopped'}"
        return f"only {len(pages)} of {expected} pages could be read: {stop}"
    if bad:
        return f"{len(bad)} of {expected} pages could not be read (page {bad[0]}: {pages[bad[0] - 1]['error']})"
    return ""


def _command(path: Path) -> list[str]:
    # -P: the script's own folder must not come first on the path of the modules it imports
    return [sys.executable, "-P", str(Path(__file__).with_name("pdf_worker.py")), str(path.absolute())]


def _run(command: list[str]) -> tuple[list[dict[str, Any]], str]:
    """The lines a worker wrote, and how it ended if it did not end well. Silence of PAGE_SECONDS ends it."""
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join(entry for entry in sys.path if entry),
        "PYTHONIOENCODING": "utf-8",
    }
    lines: list[dict[str, Any]] = []
    late = threading.Event()
    with subprocess.Popen(  # noqa: S603  (our own script under our own interpreter)
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment
    ) as process:
        assert process.stdout is not None

        def stop() -> None:
            late.set()
            process.kill()

        watchdog = _start_watchdog(stop)
        try:
            for raw in process.stdout:
                watchdog.cancel()
                watchdog = _start_watchdog(stop)
                if raw.endswith(b"\n"):  # a worker killed in mid-line leaves half of one
                    lines.append(json.loads(raw))
        finally:
            watchdog.cancel()
            process.kill()
    if lines and ("end" in lines[-1] or "failed" in lines[-1]):
        return lines, ""
    return lines, f"took more than {PAGE_SECONDS:.0f} s" if late.is_set() else "ended without a word"


def _start_watchdog(stop: Any) -> threading.Timer:
    timer = threading.Timer(PAGE_SECONDS, stop)
    timer.daemon = True
    timer.start()
    return timer
