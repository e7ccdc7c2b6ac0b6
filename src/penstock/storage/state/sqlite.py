"""State in a SQLite file, for all processes of one machine, with nothing to install or run.

SQLite allows one process to write at a time, and the others wait. Documents are written with
``synchronous=FULL``: what was acknowledged survives a power cut. Budgets are written with NORMAL,
which survives a crash of any process; after a crash of the machine they count as used up, since
they are marked with the boot in which they were written.

The clock is the time since boot: see ``sqlite_clock``.
"""

import asyncio
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Literal, TypeVar

import msgspec
from msgspec.structs import replace

from penstock.clock import BootClock, Clock, SystemBootClock
from penstock.errors import ConfigError, NewerStore
from penstock.storage.sqlite_file import as_storage_error, transaction, use_wal
from penstock.storage.state.budget import (
    Budget,
    LeaseReply,
    LeaseRequest,
    Use,
    lease,
    unblocked,
    whole_block,
)
from penstock.storage.state.documents import (
    Claim,
    Condition,
    Counts,
    Document,
    Query,
    Write,
    expected,
    patched,
)
from penstock.storage.state.schema import Schema, Table, index_name, pinned_index
from penstock.storage.state.sql import SqlDialect, Statement, body
from penstock.storage.state.sqlite_clock import Boot, correct_boot, find_boot
from penstock.storage.state.sqlite_copy import copy_to_memory
from penstock.storage.state.sqlite_tables import create, field

T = TypeVar("T")

# A lease takes some 30 µs, less than passing it to a thread: it is tried at once. If other
# processes hold the file, it is passed to a thread, which waits.
_BUSY_AT_ONCE_S = 0.002

_encode, _decode = msgspec.json.encode, msgspec.json.decode
_decode_budget = msgspec.json.Decoder(Budget).decode


def open_url(url: str, clock: Clock, timeout_s: float) -> "SqliteBackend":  # noqa: ARG001
    """``sqlite:FILE``, or ``sqlite:///FILE``."""
    path = url.removeprefix("sqlite:").removeprefix("///")
    if not path:
        raise ConfigError(url, problem="names no file: sqlite:FILE.", origin="state URL")
    return SqliteBackend(Path(path), SystemBootClock(), timeout_s)


def open_copy(url: str, clock: Clock, timeout_s: float) -> "SqliteBackend":
    """A copy of the present contents in memory, for readers."""
    backend = open_url(url, clock, timeout_s)
    backend.is_copy = True
    return backend


_DIALECT = SqlDialect(field=field, parameter=lambda _: "?", now="")


class SqliteBackend:
    """One file. Documents are written in a separate thread, which may wait for the lock."""

    def __init__(self, path: Path, clock: BootClock, timeout_s: float) -> None:
        self._path, self._clock, self._timeout_s = path, clock, timeout_s
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="penstock-state")
        self._boot = Boot("", 0)
        self._opened: list[sqlite3.Connection] = []
        self.is_copy = False
        """Whether a copy in memory is used, and the file is not changed."""

    @property
    def where(self) -> str:
        return f"sqlite:{self._path}"

    async def prepare(self, schema: Schema, known: int | None = None) -> int:
        return await self._in_thread(self._prepare, schema, known or len(schema))

    def _prepare(self, schema: Schema, known: int) -> int:
        is_open = bool(self._opened)
        if not is_open:
            self._open()
        with transaction(self._documents) as database:
            database.execute("CREATE TABLE IF NOT EXISTS version (version INTEGER)")
            found: int = database.execute("SELECT max(version) FROM version").fetchone()[0] or 0
            if found > known:
                raise NewerStore(self.where, found, known)
            for step in schema[found:]:
                for table in step:
                    create(database, table)
            database.execute("DELETE FROM version")
            database.execute("INSERT INTO version VALUES (?)", (max(found, len(schema)),))
            database.execute(
                "CREATE TABLE IF NOT EXISTS budgets (key TEXT PRIMARY KEY, budget BLOB NOT NULL,"
                " more INTEGER NOT NULL) WITHOUT ROWID"
            )
            self._boot = find_boot(database, self._clock)
        if not is_open:
            self._budgets, self._patient_budgets = (
                _Budgets(self._connect("NORMAL", busy_s), self._now_ms, self._boot.id)
                for busy_s in (_BUSY_AT_ONCE_S, self._timeout_s)
            )
        return found

    def _open(self) -> None:
        if not self.is_copy:
            self._path.parent.mkdir(parents=True, exist_ok=True)
        self._documents = self._connect("FULL", self._timeout_s)
        if not self.is_copy:
            correct_boot(self._documents, self._clock, self._timeout_s)

    async def version(self) -> int:
        return await self._in_thread(self._version)

    def _version(self) -> int:
        version: int = self._documents.execute("SELECT max(version) FROM version").fetchone()[0]
        return version

    def _connect(self, synchronous: str, busy_s: float) -> sqlite3.Connection:
        if self.is_copy:
            if not self._opened:
                self._opened.append(copy_to_memory(self._path, busy_s))
            return self._opened[0]
        database = sqlite3.connect(
            self._path, timeout=busy_s, isolation_level=None, check_same_thread=False
        )
        self._opened.append(database)
        use_wal(database)
        database.execute(f"PRAGMA synchronous = {synchronous}")
        return database

    async def now_ms(self) -> int:
        return self._now_ms()

    def _now_ms(self) -> int:
        return (self._boot.began_at_ns + self._clock.since_boot_ns()) // 1_000_000

    async def find(
        self, table: Table, query: Query, order: Sequence[str], limit: int
    ) -> list[Document]:
        return await self._in_thread(self._find, table, query, order, limit)

    def _find(self, table: Table, query: Query, order: Sequence[str], limit: int) -> list[Document]:
        statement = Statement(_DIALECT, table, self._now_ms())
        rows = self._documents.execute(
            f"SELECT id, version, document FROM {table.name} {_pinned(table, query, order)}"  # noqa: S608
            f" WHERE {statement.where(query)} ORDER BY {statement.order(order)}"
            f" LIMIT {statement.value(limit)}",
            statement.values,
        )
        return [{**_decode(text), "id": id_, "version": version} for id_, version, text in rows]

    async def firsts(
        self, table: Table, queries: Sequence[Query], order: Sequence[str]
    ) -> list[Document]:
        return await self._in_thread(self._firsts, table, queries, order)

    def _firsts(
        self, table: Table, queries: Sequence[Query], order: Sequence[str]
    ) -> list[Document]:
        return [found for query in queries for found in self._find(table, query, order, 1)]

    async def counts(self, table: Table) -> Counts:
        return await self._in_thread(self._counts, table)

    def _counts(self, table: Table) -> Counts:
        query = f"SELECT key, count FROM {table.name}_counts WHERE count > 0"  # noqa: S608
        return {tuple(_decode(key)): count for key, count in self._documents.execute(query)}

    async def insert(self, table: Table, document: Document) -> bool:
        return await self._in_thread(self._insert, table, document)

    def _insert(self, table: Table, document: Document) -> bool:
        # Covers the unique indexes as well as the id; OR IGNORE would apply in triggers too.
        done = self._documents.execute(
            f"INSERT INTO {table.name} VALUES (?, 1, ?) ON CONFLICT DO NOTHING",  # noqa: S608
            (document["id"], body(document)),
        )
        return done.rowcount == 1

    async def replace(
        self, table: Table, document: Document
    ) -> Literal["written", "changed", "rival"]:
        return await self._in_thread(self._replace, table, document)

    def _replace(self, table: Table, document: Document) -> Literal["written", "changed", "rival"]:
        try:
            return "written" if self._put(table, document, document["version"]) else "changed"
        except sqlite3.IntegrityError:
            return "rival"

    def _put(self, table: Table, document: Document, version: int) -> bool:
        done = self._documents.execute(
            f"UPDATE {table.name} SET version = version + 1, document = ?"  # noqa: S608
            " WHERE id = ? AND version = ?",
            (body(document), document["id"], version),
        )
        return done.rowcount == 1

    async def remove(self, table: Table, id_: str, expect: Mapping[str, str | int]) -> bool:
        return await self._in_thread(self._remove, table, id_, expect)

    def _remove(self, table: Table, id_: str, expect: Mapping[str, str | int]) -> bool:
        with transaction(self._documents) as database:
            found = self._find(table, [[Condition("id", "=", id_)]], (), 1)
            if not found or not expected(found[0], expect):
                return False
            database.execute(f"DELETE FROM {table.name} WHERE id = ?", (id_,))  # noqa: S608
            return True

    async def claim(self, table: Table, claim: Claim) -> list[Document]:
        return await self._in_thread(self._claim, table, claim)

    def _claim(self, table: Table, claim: Claim) -> list[Document]:
        with transaction(self._documents):
            now_ms = self._now_ms()
            return [
                self._patched(table, found, patched(found, claim.patch, now_ms))
                for found in self._find(table, claim.query, claim.order, claim.most)
            ]

    def _patched(self, table: Table, found: Document, changed: Document) -> Document:
        self._put(table, changed, found["version"])
        return {**changed, "version": found["version"] + 1}

    async def write(self, table: Table, writes: Sequence[Write]) -> list[Document | None]:
        return await self._in_thread(self._write, table, writes)

    def _write(self, table: Table, writes: Sequence[Write]) -> list[Document | None]:
        with transaction(self._documents):
            now_ms = self._now_ms()
            asked = [[Condition("id", "in", tuple(write.id for write in writes))]]
            there = {found["id"]: found for found in self._find(table, asked, (), len(writes))}
            return [
                self._patched(table, found, patched(found, write.patch, now_ms))
                if (found := there.get(write.id)) and expected(found, write.expect)
                else None
                for write in writes
            ]

    async def lease(self, key: str, ask: LeaseRequest) -> LeaseReply | None:
        try:
            return self._budgets.take(key, ask)
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY:
                raise as_storage_error(self.where, error) from error
            return await self._in_thread(self._patient_budgets.take, key, ask)

    async def open_budget(self, key: str) -> None:
        await self._in_thread(self._open_budget, key)

    def _open_budget(self, key: str) -> None:
        self._documents.execute(
            "INSERT OR IGNORE INTO budgets VALUES (?, ?, 0)", (key, _encode(Budget()))
        )

    async def budget(self, key: str) -> Budget:
        return await self._in_thread(self._budget, key)

    def _budget(self, key: str) -> Budget:
        query = "SELECT budget, more FROM budgets WHERE key = ?"
        found = self._documents.execute(query, (key,)).fetchone()
        return _with_more(_decode_budget(found[0]), found[1]) if found else Budget()

    async def unblock(self, key: str, until_ms: int) -> bool:
        return await self._in_thread(self._unblock, key, until_ms)

    def _unblock(self, key: str, until_ms: int) -> bool:
        with transaction(self._documents) as database:
            freed = unblocked(self._budget(key), until_ms)
            if freed is not None:
                changed = (_encode(freed), key)
                database.execute("UPDATE budgets SET budget = ?, more = 0 WHERE key = ?", changed)
            return freed is not None

    async def close(self) -> None:
        await asyncio.to_thread(self._thread.shutdown)
        for database in self._opened:
            database.close()

    async def _in_thread(self, call: Callable[..., T], *arguments: Any) -> T:
        loop = asyncio.get_running_loop()
        try:
            return await loop.run_in_executor(self._thread, lambda: call(*arguments))
        except (sqlite3.Error, OSError) as error:
            raise as_storage_error(self.where, error) from error


class _Budgets:
    """A connection that leases from budgets in one statement, which calls ``budget.lease``.

    ``budget`` is its last result, ``more`` what was taken since then of the first limit in it: one
    more block of an open window changes a number and nothing else.
    """

    def __init__(
        self, database: sqlite3.Connection, now_ms: Callable[[], int], boot_id: str
    ) -> None:
        self._execute, self._now_ms, self._boot_id = database.cursor().execute, now_ms, boot_id
        self._ask = LeaseRequest()
        self._grant: LeaseReply | None = None
        self._read, self._known = b"", Budget()
        self._first: tuple[str, Use] = ("", (0, 0))
        database.create_function("lease", 2, self._lease)
        database.create_function("one_block", 2, self._one_block)

    def take(self, key: str, ask: LeaseRequest) -> LeaseReply | None:
        self._ask, self._grant = ask, None
        if len(ask.windows) == 1 and not ask.paces:
            self._execute("UPDATE budgets SET more = one_block(budget, more) WHERE key = ?", (key,))
            if self._grant:
                return self._grant
        self._execute(
            "UPDATE budgets SET budget = lease(budget, more), more = 0 WHERE key = ?", (key,)
        )
        return self._grant

    # Both are called with the file locked for writing, so the time is read under the lock.

    def _lease(self, budget: bytes, more: int) -> bytes:
        changed, self._grant = lease(
            _with_more(_decode_budget(budget), more), self._ask, self._now_ms(), self._boot_id
        )
        return _encode(changed)

    def _one_block(self, budget: bytes, more: int) -> int:
        if budget != self._read:
            self._read, self._known = budget, _decode_budget(budget)
            self._first = next(iter(self._known.uses.items()), ("", (0, 0)))
        ask, known, (limit, use) = self._ask, self._known, self._first
        if ask.windows[0].limit != limit or known.era != self._boot_id:
            return more
        now_ms = self._now_ms()
        if not ask.blocked_until_ms <= known.blocked_until_ms <= now_ms:
            return more
        self._grant = whole_block(ask, _more_of(use, more), now_ms)
        return more + self._grant.blocks[0].tokens if self._grant else more


def _with_more(budget: Budget, more: int) -> Budget:
    if not more:
        return budget
    limit, use = next(iter(budget.uses.items()))
    return replace(budget, uses={**budget.uses, limit: _more_of(use, more)})


def _more_of(use: Use, more: int) -> Use:
    return (use[0], use[1] + more, *use[2:])


def _pinned(table: Table, query: Query, order: Sequence[str]) -> str:
    """The index to use, where one fits: without statistics SQLite often selects another."""
    if len(query) != 1:
        return ""
    equal = {where.field for where in query[0] if where.is_ == "="}
    fields = pinned_index(table, equal, order)
    return f"INDEXED BY {index_name(table, fields)}" if fields else ""
