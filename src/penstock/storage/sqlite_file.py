"""What all stores in SQLite files share: transactions, and errors in penstock's terms."""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager

from penstock.errors import StorageError, StorageFull, StoreUnreachable

_ATTEMPTS = 10


@contextmanager
def transaction(database: sqlite3.Connection) -> Iterator[sqlite3.Connection]:
    """A transaction, with the file locked for writing from the start."""
    database.execute("BEGIN IMMEDIATE")
    try:
        yield database
    except BaseException:
        if database.in_transaction:  # a full disk has ended it already
            database.execute("ROLLBACK")
        raise
    database.execute("COMMIT")


def use_wal(database: sqlite3.Connection) -> None:
    """Have the file written by way of a write-ahead log, as all its processes do.

    Raises:
        sqlite3.OperationalError: another process keeps it locked.
    """
    for attempt in range(_ATTEMPTS):
        try:
            database.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError:
            if attempt == _ATTEMPTS - 1:
                raise
            # Another process changes the mode of a new file. Only a transaction waits for it.
            with transaction(database):
                pass


def as_storage_error(where: str, error: sqlite3.Error | OSError) -> StorageError:
    """The error to raise for one of SQLite or of the file system."""
    match getattr(error, "sqlite_errorcode", 0) & 0xFF:
        case sqlite3.SQLITE_BUSY | sqlite3.SQLITE_LOCKED:
            return StoreUnreachable(where, "another process keeps it locked")
        case sqlite3.SQLITE_FULL:
            return StorageFull(where, str(error))
        case _:
            return StorageError(where, str(error))
