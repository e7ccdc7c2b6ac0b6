"""Converts RocksDB's errors to errors of penstock, with the cause and a remedy."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rocksdict import DbClosedError

from penstock.errors import LogDamaged, SlotInUse, StorageError, StorageFull
from penstock.storage.log.damage import NO_MANIFEST, WALS, is_damage

_FULL = ("No space left on device", "Disk quota exceeded", "File too large")


@contextmanager
def failures_named(where: str, opened_as: Path | None = None) -> Iterator[None]:
    """Convert exceptions of a block; ``opened_as`` is the folder in RocksDB's paths."""
    # rocksdict raises bare Exception for everything RocksDB reports.
    try:
        yield
    except (SlotInUse, StorageError, GeneratorExit):
        raise
    except Exception as error:
        raise as_storage_error(where, error, opened_as) from error


def as_storage_error(where: str, error: Exception, opened_as: Path | None = None) -> StorageError:
    """The error of penstock for an exception of RocksDB."""
    if isinstance(error, DbClosedError):
        return StorageError(where, "was closed", "Open it again.")
    problem = " ".join(str(error).split())
    if any(sign in problem for sign in _FULL):
        return StorageFull(where, problem)
    if is_damage(problem):
        # Without folders: a reader's temporary one means nothing to users.
        if opened_as is not None:
            problem = re.sub(rf"{re.escape(str(opened_as))}/(view-[^/]*/)?", "", problem)
        problem = problem.replace(f"{where}/", "").rstrip(".")
        if NO_MANIFEST in problem:
            problem = f"CURRENT names {_current(Path(where))}, which is not there"
        if problem == "Corruption: checksum mismatch":  # the whole message for a write-ahead log
            problem += f" in {' or '.join(file.name for file in Path(where).glob(WALS))}"
        return LogDamaged(Path(where).name, where, problem)
    return StorageError(where, problem)


def _current(folder: Path) -> str:
    try:
        return (folder / "CURRENT").read_text(errors="replace").strip()
    except OSError:
        return "a MANIFEST"
