"""Every error a user can meet, in one tree.

    LocalGraphRAGError
    ├── ConfigError            a setting or option that cannot be used
    ├── DocumentError          one file that cannot be read (the others go on)
    ├── NoDocumentsError       nothing readable at all
    ├── ModelError             the model file or its use
    │   ├── ModelMissingError  not on this machine; the message says how to get it
    │   ├── ModelBrokenError   truncated, wrong hash, or not a model
    │   └── ContextError       prompt and output do not fit the context
    ├── EmptyExtractionError   the first chunks all came back empty
    ├── StoreError             the index file
    │   ├── StoreLockedError   another process is writing
    │   ├── StoreVersionError  written by a newer version
    │   └── StoreFullError     the disk is full
    ├── NotFoundError          a name or id the index does not hold
    └── NotIndexedError        a question before there is an index

A message says what was given, what was expected or exists, and what to do.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


class LocalGraphRAGError(Exception):
    """Base of all errors raised on purpose by this package."""


class ConfigError(LocalGraphRAGError):
    """A setting or option cannot be used."""


class DocumentError(LocalGraphRAGError):
    """One file cannot be read as text."""


class NoDocumentsError(LocalGraphRAGError):
    """No readable document was given."""


class ModelError(LocalGraphRAGError):
    """The model cannot be loaded or used."""


class ModelMissingError(ModelError):
    """The model is not on this machine."""


class ModelBrokenError(ModelError):
    """The model file is truncated, has a wrong hash, or is not a model."""


class ContextError(ModelError):
    """Prompt and output together do not fit the model's context."""


class EmptyExtractionError(LocalGraphRAGError):
    """The first chunks all came back without a single entity."""


class StoreError(LocalGraphRAGError):
    """The index file cannot be read or written."""


class StoreLockedError(StoreError):
    """Another process is writing to this index."""


class StoreVersionError(StoreError):
    """The index was written by a newer version of this package."""


class StoreFullError(StoreError):
    """The disk is full; what was stored before is intact."""


class NotFoundError(LocalGraphRAGError):
    """The index holds nothing of that name or id."""


class NotIndexedError(LocalGraphRAGError):
    """The project has no index yet."""


@contextmanager
def explained(path: Path, done: str = "read") -> Iterator[None]:
    """What the file system says of a file becomes one sentence.

    Raises StoreFullError where there is no room, else ConfigError. The errors of a write name no file themselves.
    """
    try:
        yield
    except OSError as error:
        reason = f"{path.absolute()} cannot be {done}: {error.strerror or error}."
        if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            remedy = "What was there before is intact. Free some space and run the same command again."
            raise StoreFullError(f"{reason} {remedy}") from error
        raise ConfigError(f"{reason} See what is there, and who may read it and write to it.") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path.absolute()} cannot be read: {error}. Give a text file in UTF-8.") from error
