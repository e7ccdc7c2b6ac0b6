"""Errors of the lake's libraries as errors of penstock."""

import re
from collections.abc import Iterator
from contextlib import contextmanager

from deltalake.exceptions import DeltaError
from pyarrow import ArrowException

from penstock.errors import StorageError, StorageFull, StoreUnreachable

_FULL = (
    "No space left on device", "os error 28", "Disk quota exceeded", "os error 122",
    "File too large", "os error 27",
)  # fmt: skip
_READ_ONLY = ("Read-only file system", "os error 30")
_FORBIDDEN = ("Permission denied", "os error 13", "Operation not permitted")
_UNCHANGED = "Nothing was changed; the log keeps its records."
_UNREACHABLE = ("error sending request", "Connection refused", "timed out", "dns error")
_LONGEST = 500
_ARROW = re.compile(r"\s*(?:\x1b\[[0-9;]*m)?↳(?:\x1b\[[0-9;]*m)?\s*")
"""Between a message of the libraries and its cause."""


@contextmanager
def lake_errors(where: str) -> Iterator[None]:
    """Raise a StorageError for any failure of the libraries within the block."""
    try:
        yield
    except (OSError, DeltaError, ArrowException) as error:
        raise _named(where, " ".join(_ARROW.sub(": ", str(error)).split())) from error


def _named(where: str, problem: str) -> StorageError:
    said = problem if len(problem) <= _LONGEST else problem[:_LONGEST] + "…"
    if any(sign in problem for sign in _FULL):
        return StorageFull(where, "the disk is full")
    if any(sign in problem for sign in _READ_ONLY):
        remedy = f"Mount it so that it can be written, or set storage.lake_url. {_UNCHANGED}"
        return StorageError(where, "the file system is read-only", remedy)
    if any(sign in problem for sign in _FORBIDDEN):
        return StorageError(where, said, f"Check its permissions. {_UNCHANGED}")
    if any(sign in problem for sign in _UNREACHABLE):
        return StoreUnreachable(where, said)
    return StorageError(where, said, f"Check the lake and its settings. {_UNCHANGED}")
