"""The lock by which a data folder has one supervisor."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from penstock.errors import StorageError, SupervisorRunning
from penstock.files import make_folder

_FILE = "up.lock"


@contextmanager
def only_supervisor(folder: Path) -> Iterator[None]:
    """Hold the lock of a data folder; the kernel releases it when this process ends.

    Raises:
        SupervisorRunning: another process holds it.
        StorageError: the folder cannot be created or written.
    """
    try:
        make_folder(folder)
        descriptor = os.open(folder / _FILE, os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise StorageError(str(folder), error.strerror or str(error)) from error
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            holder = os.read(descriptor, 20).decode(errors="replace").strip()
            raise SupervisorRunning(str(folder), holder) from error
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, str(os.getpid()).encode(), 0)
        yield
    finally:
        os.close(descriptor)
