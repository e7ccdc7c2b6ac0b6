"""The lock by which a data folder has one supervisor."""

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from penstock.errors import StorageError, SupervisorRunning
from penstock.files import locked_at_once, make_folder

_FILE = "up.lock"


@contextmanager
def only_supervisor(folder: Path) -> Iterator[None]:
    """Hold the lock of a data folder; the kernel releases it when this process ends.

    Raises:
        SupervisorRunning: another process holds it.
        StorageError: the folder cannot be created, or the file not locked.
    """
    with ExitStack() as stack:
        try:
            make_folder(folder)
            descriptor = stack.enter_context(locked_at_once(folder / _FILE, create=True))
        except BlockingIOError as error:
            raise SupervisorRunning(str(folder), _holder(folder / _FILE)) from error
        except OSError as error:
            raise StorageError(str(folder), error.strerror or str(error)) from error
        # For error messages only: a full disk must not stop the supervisor from starting.
        with suppress(OSError):
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, str(os.getpid()).encode(), 0)
        yield


def _holder(file: Path) -> str:
    try:
        return file.read_bytes()[:20].decode(errors="replace").strip()
    except OSError:
        return ""
