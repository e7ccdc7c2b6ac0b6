"""Copies a SQLite file for a reader or a backup, without creating or changing any file beside it.

A file that is being written has a log (``-wal``) and an index of that (``-shm``) beside it. SQLite
reads them even without write permission, if both exist. Without a log no process writes, and the
file is complete: it is opened as immutable, since otherwise SQLite would create the two. In the
remaining case (a log without an index, in a read-only folder) the files are copied to a temporary
folder first.
"""

import shutil
import sqlite3
import tempfile
from contextlib import closing
from pathlib import Path
from urllib.parse import quote

_TRIES = 5


def copy_to_memory(path: Path, timeout_s: float) -> sqlite3.Connection:
    """A private copy of a database; an empty one if there is no such file.

    Raises:
        sqlite3.Error, OSError: it cannot be read.
    """
    memory = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
    try:
        if path.exists():
            copy_database(path, memory, timeout_s)
    except BaseException:
        memory.close()
        raise
    return memory


def copy_database(path: Path, copy: sqlite3.Connection, timeout_s: float) -> None:
    """Copy a database as it is now, while others may write to it.

    Raises:
        sqlite3.Error, OSError: it cannot be read, or the copy cannot be written.
    """
    for _ in range(_TRIES):
        before = _state(path)
        if before[0]:
            try:
                return _backup(path, "mode=ro", copy, timeout_s)
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode & 0xFF not in _CANNOT_MAKE_INDEX:
                    raise
                with tempfile.TemporaryDirectory(prefix="penstock-reader-") as folder:
                    for suffix in ("", _LOG):
                        shutil.copy(f"{path}{suffix}", Path(folder, f"{path.name}{suffix}"))
                    return _backup(Path(folder, path.name), "mode=rw", copy, timeout_s)
        _backup(path, "mode=ro&immutable=1", copy, timeout_s)
        if _state(path) == before:
            return None
    raise sqlite3.OperationalError("it is changed again and again while it is read")


_LOG = "-wal"
_CANNOT_MAKE_INDEX = (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY)


def _state(path: Path) -> tuple[bool, int, int]:
    """Whether there is a log, and values that change with every write to the file itself."""
    log, file = Path(f"{path}{_LOG}"), path.stat()
    return log.exists() and log.stat().st_size > 0, file.st_mtime_ns, file.st_size


def _backup(path: Path, how: str, copy: sqlite3.Connection, timeout_s: float) -> None:
    uri = f"file:{quote(str(path.absolute()))}?{how}"
    with closing(sqlite3.connect(uri, uri=True, timeout=timeout_s)) as source:
        source.backup(copy)
