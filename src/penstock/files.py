"""Writes small files so that after a power cut each is complete, in its old or its new state.

A rename may reach the disk before the data of the renamed file, unless that is synced first; and a
name is on the disk only once its folder is synced. Every small file of penstock is written here.
"""

import fcntl
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_PARTIAL = re.compile(r"\..+\.\d+")


def make_folder(folder: Path) -> None:
    """Create a folder and its missing parents, each durable in its parent.

    Raises:
        OSError: it cannot be created.
    """
    missing = []
    while not folder.exists():
        missing.append(folder)
        folder = folder.parent
    for each in reversed(missing):
        each.mkdir(exist_ok=True)
        sync_folder(each.parent)


def sync_folder(folder: Path) -> None:
    """Make the names in a folder durable, where the file system supports that.

    Raises:
        OSError: they may not be durable.
    """
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def is_partial(name: str) -> bool:
    """Whether a file of this name was being written here: it stays only if the process is killed.

    The name ends with the id of that process.
    """
    return _PARTIAL.fullmatch(name) is not None


def replace_file(path: Path, data: bytes) -> None:
    """Write a complete file, replacing an existing one.

    Raises:
        OSError: it cannot be written; the old one is unchanged.
    """
    fresh = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        _write(fresh, data, 0o666, os.O_TRUNC)
        fresh.replace(path)
    except OSError:
        _remove(fresh)
        raise
    sync_folder(path.parent)


def create_file(path: Path, data: bytes, mode: int) -> None:
    """Write a file that must not exist yet.

    Raises:
        FileExistsError: it exists, and is unchanged.
        OSError: it cannot be written.
    """
    fresh = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        _write(fresh, data, mode, os.O_EXCL)
        os.link(fresh, path)
    finally:
        _remove(fresh)
    sync_folder(path.parent)


def overwrite_file(path: Path, data: bytes) -> None:
    """Write a file in place, reusing its blocks; only for a file that is not relied on yet.

    Raises:
        OSError: it cannot be written, or may be only in part.
    """
    with path.open("r+b" if path.exists() else "xb") as file:
        file.write(data)
        file.truncate()
        file.flush()
        os.fsync(file.fileno())


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold an exclusive lock on a folder, among all processes.

    Raises:
        OSError: the folder cannot be opened.
    """
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


@contextmanager
def locked_at_once(path: Path, *, create: bool = False) -> Iterator[int]:
    """Hold an exclusive lock on a folder or a file, or fail at once; yields its descriptor.

    The kernel releases it when this process ends. With ``create``, a missing file is created.

    Raises:
        BlockingIOError: another process holds it.
        OSError: it cannot be opened, or its file system has no locks.
    """
    how = os.O_RDWR | os.O_CREAT if create else os.O_RDONLY
    descriptor = os.open(path, how, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield descriptor
    finally:
        os.close(descriptor)


def _write(path: Path, data: bytes, mode: int, how: int) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | how, mode)
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(descriptor)


def _remove(path: Path) -> None:
    with suppress(OSError):
        path.unlink(missing_ok=True)
