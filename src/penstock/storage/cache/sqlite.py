"""Live values in a SQLite file, for all processes of one machine, with nothing to install or run.

The file is not that of the state store: ticks are written many times a second, and whoever writes
locks the whole file. It can be deleted while no process uses it. Ages are measured by the time
since boot, which is the same in every process and cannot be stepped; values of an earlier boot are
removed when the file is opened.

Every batch has the next sequence number. Who watches reads ``data_version``, which costs some
microseconds and changes with every write of others, and only then the values of newer batches.
"""

import asyncio
import sqlite3
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

from penstock.clock import BootClock, Clock, SystemBootClock
from penstock.errors import ConfigError
from penstock.storage.cache.values import LiveValue
from penstock.storage.cache.watching import Deliver
from penstock.storage.sqlite_file import as_storage_error, transaction, use_wal

T = TypeVar("T")

_POLL_S = 0.02
_SWEEP_MS = 60_000

# at_ms and expires_ms are times since boot.
_CREATE = """
CREATE TABLE IF NOT EXISTS live (
    space TEXT NOT NULL, key TEXT NOT NULL, line TEXT NOT NULL, number INTEGER NOT NULL,
    at_ms INTEGER NOT NULL, expires_ms INTEGER NOT NULL, batch INTEGER NOT NULL,
    value BLOB NOT NULL, PRIMARY KEY (space, key)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS live_by_batch ON live (space, batch);
CREATE TABLE IF NOT EXISTS boot (boot_id TEXT NOT NULL, batch INTEGER NOT NULL);
"""
# ``values.replaces``; what has expired is replaced by anything.
_PUT = """
INSERT INTO live VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (space, key) DO UPDATE SET
    line = excluded.line, number = excluded.number, at_ms = excluded.at_ms,
    expires_ms = excluded.expires_ms, batch = excluded.batch, value = excluded.value
WHERE live.expires_ms <= ? OR CASE
    WHEN excluded.line <> '' AND excluded.line = live.line THEN excluded.number >= live.number
    ELSE excluded.at_ms >= live.at_ms
END
"""
_READ = "SELECT key, value, expires_ms, at_ms, line, number FROM live WHERE space = ?"


def open_url(url: str, clock: Clock, timeout_s: float) -> "SqliteBackend":
    """``sqlite:FILE``, or ``sqlite:///FILE``."""
    path = url.removeprefix("sqlite:").removeprefix("///")
    if not path:
        raise ConfigError(url, problem="names no file: sqlite:FILE.", origin="live URL")
    return SqliteBackend(Path(path), clock, SystemBootClock(), timeout_s)


class SqliteBackend:
    """One file. Values are written in one thread and read in another, which waits for no writer."""

    def __init__(self, path: Path, clock: Clock, boot: BootClock, timeout_s: float) -> None:
        self._path, self._clock, self._boot, self._timeout_s = path, clock, boot, timeout_s
        self._writing = ThreadPoolExecutor(1, thread_name_prefix="penstock-live-writer")
        self._reading = ThreadPoolExecutor(1, thread_name_prefix="penstock-live-reader")
        self._opened: list[sqlite3.Connection] = []
        self._swept_ms = 0

    @property
    def where(self) -> str:
        return f"sqlite:{self._path}"

    async def open(self) -> None:
        await self._in(self._writing, self._open)

    def _open(self) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._writer = self._connect()
        use_wal(self._writer)
        # A crash of the machine may lose values, which are outdated after it, but not the file.
        self._writer.execute("PRAGMA synchronous = NORMAL")
        with transaction(self._writer) as database:
            for statement in _CREATE.split(";"):
                database.execute(statement)
            found = database.execute("SELECT boot_id FROM boot").fetchall()
            if found != [(self._boot.boot_id(),)]:
                database.execute("DELETE FROM live")
                database.execute("DELETE FROM boot")
                database.execute("INSERT INTO boot VALUES (?, 0)", (self._boot.boot_id(),))
        self._reader = self._connect()

    def _connect(self) -> sqlite3.Connection:
        database = sqlite3.connect(
            self._path, timeout=self._timeout_s, isolation_level=None, check_same_thread=False
        )
        self._opened.append(database)
        return database

    async def put(self, space: str, values: Sequence[LiveValue]) -> int:
        return await self._in(self._writing, self._put, space, values)

    def _put(self, space: str, values: Sequence[LiveValue]) -> int:
        with transaction(self._writer) as database:
            # Read under the lock: a process that waited long must not write with an old time.
            now_ms = self._now_ms()
            [(batch,)] = database.execute("UPDATE boot SET batch = batch + 1 RETURNING batch")
            if now_ms - self._swept_ms >= _SWEEP_MS:
                self._swept_ms = now_ms
                database.execute("DELETE FROM live WHERE expires_ms <= ?", (now_ms,))
            rows = (
                (
                    space, value.key, value.line, value.number, now_ms - value.age_ms,
                    now_ms - value.age_ms + value.ttl_ms, batch, value.value, now_ms,
                )
                for value in values
            )  # fmt: skip
            return database.executemany(_PUT, rows).rowcount

    async def get(self, space: str, keys: Sequence[str]) -> list[LiveValue | None]:
        return await self._in(self._reading, self._get, space, keys)

    def _get(self, space: str, keys: Sequence[str]) -> list[LiveValue | None]:
        found = (self._read("AND key = ?", space, key) for key in keys)
        return [values[0] if values else None for values in found]

    async def find(self, space: str) -> list[LiveValue]:
        return await self._in(self._reading, self._read, "", space)

    def _read(self, where: str, *arguments: str | int) -> list[LiveValue]:
        rows = self._reader.execute(f"{_READ} {where}", arguments).fetchall()
        # After the rows, for a value's age must not be less than it is.
        now_ms = self._now_ms()
        found = (
            LiveValue(key, value, expires_ms - at_ms, now_ms - at_ms, line, number)
            for key, value, expires_ms, at_ms, line, number in rows
        )
        return [value for value in found if not value.expired]

    async def remove(self, space: str, keys: Sequence[str]) -> None:
        await self._in(self._writing, self._remove, space, keys)

    def _remove(self, space: str, keys: Sequence[str]) -> None:
        with transaction(self._writer) as database:
            removed = ((space, key) for key in keys)
            database.executemany("DELETE FROM live WHERE space = ? AND key = ?", removed)

    async def now_ms(self) -> int:
        return self._now_ms()

    def _now_ms(self) -> int:
        return self._boot.since_boot_ns() // 1_000_000

    async def watch(self, space: str, deliver: Deliver) -> None:
        version, batch = -1, -1
        while True:
            found = await self._in(self._reading, self._changes, space, version, batch)
            if found is not None:
                version, batch, values = found
                deliver(values)
            await self._clock.sleep(_POLL_S)

    def _changes(
        self, space: str, version: int, batch: int
    ) -> tuple[int, int, list[LiveValue]] | None:
        [(found,)] = self._reader.execute("PRAGMA data_version")
        if found == version:
            return None
        # Its batch before the values: a batch that is written in between is read again.
        [(latest,)] = self._reader.execute("SELECT batch FROM boot")
        return found, latest, self._read("AND batch > ?", space, batch)

    async def close(self) -> None:
        for thread in (self._writing, self._reading):
            await asyncio.to_thread(thread.shutdown)
        for database in self._opened:
            database.close()

    async def _in(self, thread: ThreadPoolExecutor, call: Callable[..., T], *given: Any) -> T:
        loop = asyncio.get_running_loop()
        try:
            return await loop.run_in_executor(thread, lambda: call(*given))
        except (sqlite3.Error, OSError) as error:
            raise as_storage_error(self.where, error) from error
