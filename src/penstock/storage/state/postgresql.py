"""State in PostgreSQL, for processes on several machines.

A document is a row of ``jsonb``, its fields indexed as declared in the schema. Claims lock with
``FOR UPDATE SKIP LOCKED``, so that claimers never wait for each other; budgets are leased by a
function on the server, in one round trip. The clock is the server's.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from importlib.resources import files
from typing import Any, Literal
from urllib.parse import urlsplit

import msgspec

from penstock.clock import Clock
from penstock.errors import (
    ConfigError,
    MissingExtra,
    NewerStore,
    StorageError,
    StorageFull,
    StoreUnreachable,
)
from penstock.storage.state import jsonb
from penstock.storage.state.budget import Block, Budget, LeaseReply, LeaseRequest, most_slip_ms
from penstock.storage.state.documents import Claim, Counts, Document, Query, Write, patched
from penstock.storage.state.schema import Schema, Table
from penstock.storage.state.sql import SqlDialect, Statement, body
from penstock.storage.timeouts import in_time

try:
    import asyncpg
    from asyncpg.pool import PoolConnectionProxy
    from asyncpg.prepared_stmt import PreparedStatement
except ImportError as error:
    raise MissingExtra("asyncpg", "postgres") from error

_encode, _decode = msgspec.json.encode, msgspec.json.decode
_decode_budget = msgspec.json.Decoder(Budget).decode
_decode_grant = msgspec.json.Decoder(LeaseReply).decode

# Any number that no other program is likely to lock.
_MIGRATING = 0x70656E73
_CONNECTIONS = 5
# Errors of statements that conflicted with another and had no effect: they are retried.
_AGAIN = (asyncpg.DeadlockDetectedError, asyncpg.SerializationError)


def open_url(url: str, clock: Clock, timeout_s: float) -> "PostgresqlBackend":  # noqa: ARG001
    """``postgresql://USER:PASSWORD@HOST/DATABASE``, as in PostgreSQL's own tools."""
    try:
        parts = urlsplit(url)
        place = f"{parts.hostname or 'local'}{f':{parts.port}' if parts.port else ''}{parts.path}"
    except ValueError as error:
        # The cause is not shown: it may contain a part of the password.
        problem = "is no URL. In names and passwords write / @ : ? # as %2F %40 %3A %3F %23."
        raise ConfigError("postgresql:", problem=problem, origin="state URL") from error
    return PostgresqlBackend(url, f"postgresql://{place}", timeout_s)


# As a subquery the time is read once, and indexes can be used.
_NOW = "(SELECT penstock_now_ms())"
_DIALECT = SqlDialect(field=jsonb.field, parameter=lambda number: f"${number}", now=_NOW)


# ``budget.whole_block``, for the window that has columns of its own: most leases need no more than
# this. A statement that waited for another reads the row and the clock again when it gets the lock.
_ONE_BLOCK = """
UPDATE penstock_budgets SET window_used = window_used + $3
WHERE key = $1 AND window_limit = $2 AND window_used <= $4
AND (window_index <> $5 OR window_used >= $6)
AND coalesce($11::bigint, penstock_now_ms() + $12) >= window_index * $7 + $8
AND coalesce($11::bigint, penstock_now_ms() + $12) < (window_index + 1) * $7 - $9
AND abs((window_index + 1) * $7 - coalesce($11::bigint - penstock_now_ms(), $12) - window_ends_ms)
    <= $13
AND (window_index <> $5 OR (window_index + 1) * $7 - coalesce($11::bigint - penstock_now_ms(), $12)
    <= window_ends_ms + $8)
AND blocked_until_ms BETWEEN $10 AND penstock_now_ms()
RETURNING window_index, penstock_now_ms()
"""

_LEASE = "SELECT penstock_lease($1, $2::text::jsonb)::text"
_HURRIED = (_ONE_BLOCK, _LEASE)


class PostgresqlBackend:
    """Tables whose names begin with ``penstock_``, in the schema of the search path."""

    def __init__(self, url: str, where: str, timeout_s: float) -> None:
        self._url, self._where, self._timeout_s = url, where, timeout_s
        self._pool: asyncpg.Pool[asyncpg.Record] | None = None
        self._urgent: asyncpg.Connection[asyncpg.Record] | None = None
        self._prepared: dict[str, PreparedStatement[asyncpg.Record]] = {}
        self._turn = asyncio.Lock()

    @property
    def where(self) -> str:
        return self._where

    async def prepare(self, schema: Schema, known: int | None = None) -> int:
        known = known or len(schema)
        async with self._connection() as connection, connection.transaction():
            await connection.execute(f"SELECT pg_advisory_xact_lock({_MIGRATING})")
            await connection.execute("CREATE TABLE IF NOT EXISTS penstock_version (version int)")
            found: int = await connection.fetchval("SELECT max(version) FROM penstock_version") or 0
            if found > known:
                raise NewerStore(self.where, found, known)
            if found >= len(schema):
                return found
            await connection.execute(
                files(__package__).joinpath("postgresql.sql").read_text("utf-8")
            )
            for step in schema[found:]:
                for table in step:
                    for statement in jsonb.creation(table):
                        await connection.execute(statement)
            await connection.execute("DELETE FROM penstock_version")
            await connection.execute("INSERT INTO penstock_version VALUES ($1)", len(schema))
            return found

    async def version(self) -> int:
        ((version,),) = await self._fetch("SELECT max(version) FROM penstock_version")
        return int(version)

    async def now_ms(self) -> int:
        ((now_ms,),) = await self._fetch("SELECT penstock_now_ms()")
        return int(now_ms)

    async def find(
        self, table: Table, query: Query, order: Sequence[str], limit: int
    ) -> list[Document]:
        statement = Statement(_DIALECT, table)
        rows = await self._fetch(
            f"SELECT id, version, document FROM penstock_{table.name}"  # noqa: S608
            f" WHERE {statement.where(query)} ORDER BY {statement.order(order)}"
            f" LIMIT {statement.value(limit)}",
            *statement.values,
        )
        return [_document(row) for row in rows]

    async def firsts(
        self, table: Table, queries: Sequence[Query], order: Sequence[str]
    ) -> list[Document]:
        statement = Statement(_DIALECT, table)
        each = [
            f"(SELECT id, version, document FROM penstock_{table.name}"  # noqa: S608
            f" WHERE {statement.where(query)} ORDER BY {statement.order(order)} LIMIT 1)"
            for query in queries
        ]
        rows = await self._fetch(" UNION ALL ".join(each), *statement.values)
        return [_document(row) for row in rows]

    async def counts(self, table: Table) -> Counts:
        rows = await self._fetch(
            f"SELECT key, sum(count)::bigint AS count FROM penstock_{table.name}_counts"  # noqa: S608
            " GROUP BY key HAVING sum(count) > 0"
        )
        return {tuple(_decode(row["key"])): row["count"] for row in rows}

    async def insert(self, table: Table, document: Document) -> bool:
        return bool(
            await self._fetch(
                f"INSERT INTO penstock_{table.name} VALUES ($1, 1, $2::text::jsonb)"  # noqa: S608
                " ON CONFLICT DO NOTHING RETURNING id",
                document["id"], body(document),
            )
        )  # fmt: skip

    async def replace(
        self, table: Table, document: Document
    ) -> Literal["written", "changed", "rival"]:
        try:
            done = await self._fetch(
                f"UPDATE penstock_{table.name} SET version = version + 1,"  # noqa: S608
                " document = $1::text::jsonb WHERE id = $2 AND version = $3 RETURNING id",
                body(document), document["id"], document["version"],
            )  # fmt: skip
        except asyncpg.UniqueViolationError:
            return "rival"
        return "written" if done else "changed"

    async def remove(self, table: Table, id_: str, expect: Mapping[str, str | int]) -> bool:
        return bool(
            await self._fetch(
                f"DELETE FROM penstock_{table.name} WHERE id = $1"  # noqa: S608
                " AND document @> $2::text::jsonb RETURNING id",
                id_, _encode(_nested(expect)).decode(),
            )
        )  # fmt: skip

    async def claim(self, table: Table, claim: Claim) -> list[Document]:
        statement, (shape, patch) = Statement(_DIALECT, table), jsonb.spell(claim.patch)
        name = f"penstock_{table.name}"
        values = statement.value(_encode(patch).decode())
        # The limit is a literal, and the ids are an array; otherwise the whole table is read.
        rows = await self._fetch(
            f"WITH asked AS MATERIALIZED (SELECT {values}::jsonb AS patch, {_NOW} AS now_ms),"  # noqa: S608
            f" locked AS (SELECT id FROM {name} WHERE {statement.where(claim.query)}"
            f" ORDER BY {statement.order(claim.order)} LIMIT {claim.most:d}"
            " FOR UPDATE SKIP LOCKED),"
            " picked AS MATERIALIZED (SELECT id, row_number() OVER () AS place FROM locked),"
            f" written AS (UPDATE {name} SET version = version + 1,"
            f" document = {jsonb.expression(shape, 'patch', 'now_ms')}"
            " FROM asked WHERE id = ANY (ARRAY(SELECT id FROM picked))"
            f" RETURNING {name}.id, version, document)"
            " SELECT id, version, document, place FROM written JOIN picked USING (id)",
            *statement.values,
        )
        return [_document(row) for row in sorted(rows, key=lambda row: int(row["place"]))]

    async def write(self, table: Table, writes: Sequence[Write]) -> list[Document | None]:
        # In the order of their ids, so that overlapping batches queue instead of deadlocking.
        asked = sorted(writes, key=lambda write: write.id)
        patches = [jsonb.spell(write.patch) for write in asked]
        numbers = {shape: n for n, shape in enumerate(dict.fromkeys(shape for shape, _ in patches))}
        changes = " ".join(
            f"WHEN {number} THEN {jsonb.expression(shape, 'patch', 'now_ms')}"
            for shape, number in numbers.items()
        )
        # After the values of a patch: the expected values, and the number of its shape.
        rows = await self._fetch(
            f"WITH asked AS MATERIALIZED (SELECT *, {_NOW} AS now_ms"  # noqa: S608
            " FROM unnest($1::text[], $2::jsonb[]) AS asked(id, patch))"
            f" UPDATE penstock_{table.name} AS found SET version = version + 1,"
            f" document = CASE (patch -> -1)::int {changes} END"
            " FROM asked WHERE found.id = ANY ($1::text[]) AND found.id = asked.id"
            " AND document @> (patch -> -2)"
            " RETURNING found.id, version, document",
            [write.id for write in asked],
            [
                _encode([*values, _nested(write.expect), numbers[shape]]).decode()
                for write, (shape, values) in zip(asked, patches, strict=True)
            ],
        )
        written = {row["id"]: _document(row) for row in rows}
        return [written.get(write.id) for write in writes]

    async def lease(self, key: str, ask: LeaseRequest) -> LeaseReply | None:
        if self._turn.locked():
            async with in_time(self.where, self._timeout_s):
                return await self._lease(key, ask)
        # The driver's own timeouts are enough if no other lease waits, and cheaper.
        return await self._lease(key, ask)

    async def _lease(self, key: str, ask: LeaseRequest) -> LeaseReply | None:
        if len(ask.windows) == 1 and not ask.paces:
            window = ask.windows[0]
            tokens = max(window.need, window.want)
            row = await self._run_urgent(
                _ONE_BLOCK, key, window.limit, tokens, window.amount - tokens,
                window.seen_in, window.seen, window.period_ms, ask.opening_ms, ask.closing_ms,
                ask.blocked_until_ms, ask.exchange_ms or None, ask.offset_ms,
                most_slip_ms(window.period_ms),
            )  # fmt: skip
            if row is not None:
                return _granted(ask, tokens, *row)
        row = await self._run_urgent(_LEASE, key, _encode(ask).decode())
        return _decode_grant(row[0]) if row and row[0] else None

    async def open_budget(self, key: str) -> None:
        await self._fetch("SELECT penstock_open_budget($1)", key)

    async def budget(self, key: str) -> Budget:
        ((found,),) = await self._fetch("SELECT penstock_budget($1)::text", key)
        return _decode_budget(found) if found else Budget()

    async def unblock(self, key: str, until_ms: int) -> bool:
        freed = await self._fetch(
            "WITH freed AS (UPDATE penstock_budgets SET blocked_until_ms = 0"
            " WHERE key = $1 AND blocked_until_ms = $2 AND $2 <> 0 RETURNING key)"
            " UPDATE penstock_known_budgets AS known SET blocked_until_ms = 0"
            " FROM freed WHERE known.key = freed.key RETURNING known.key",
            key, until_ms,
        )  # fmt: skip
        return bool(freed)

    async def close(self) -> None:
        if self._pool is not None:
            self._pool.terminate()
        if self._urgent is not None:
            self._urgent.terminate()

    async def _fetch(self, statement: str, *values: Any) -> list[asyncpg.Record]:
        while True:
            try:
                async with self._connection() as connection:
                    return await connection.fetch(statement, *values)
            except _AGAIN:
                continue

    @asynccontextmanager
    async def _connection(self) -> AsyncIterator["PoolConnectionProxy[asyncpg.Record]"]:
        with self._failures_named():
            if self._pool is None:
                self._pool = await asyncpg.create_pool(
                    self._url, min_size=1, max_size=_CONNECTIONS, timeout=self._timeout_s,
                    reset=_nothing_to_reset,
                )  # fmt: skip
            # An idle one is available at once: a timeout would cost a task for each, a third of a
            # small query. The release after a failure may have to wait, so it has a timeout.
            limit_s = None if self._pool.get_idle_size() else self._timeout_s
            connection = await self._pool.acquire(timeout=limit_s)
            try:
                yield connection
            except BaseException:
                await self._pool.release(connection, timeout=self._timeout_s)
                raise
            await self._pool.release(connection)

    async def _run_urgent(self, statement: str, *values: Any) -> asyncpg.Record | None:
        """Run one of ``_HURRIED`` on a separate connection, which is faster than the pool."""
        async with self._turn:
            try:
                if self._urgent is None or self._urgent.is_closed():
                    await self._connect_urgent()
                return await self._prepared[statement].fetchrow(*values, timeout=self._timeout_s)
            except BaseException as error:
                # Do not wait for the end of the statement.
                if self._urgent is not None:
                    self._urgent.terminate()
                if named := self._named(error):
                    raise named from error
                raise

    async def _connect_urgent(self) -> None:
        # The loss of a lease in a crash is detected, so commits do not wait for the disk.
        settings = {"synchronous_commit": "off"}
        self._urgent = await asyncpg.connect(
            self._url, server_settings=settings, timeout=self._timeout_s
        )
        for statement in _HURRIED:
            self._prepared[statement] = await self._urgent.prepare(
                statement, timeout=self._timeout_s
            )

    @contextmanager
    def _failures_named(self) -> Iterator[None]:
        try:
            yield
        except Exception as error:
            if named := self._named(error):
                raise named from error
            raise

    def _named(self, error: BaseException) -> StorageError | None:
        match error:
            case asyncpg.DiskFullError() | asyncpg.OutOfMemoryError():
                return StorageFull(self.where, str(error))
            case (
                OSError()
                | asyncpg.PostgresConnectionError()
                | asyncpg.CannotConnectNowError()
                | asyncpg.AdminShutdownError()
                | asyncpg.CrashShutdownError()
                | asyncpg.TooManyConnectionsError()
            ):
                return StoreUnreachable(self.where, f"no answer ({error!r})")
            case asyncpg.UniqueViolationError():
                return None
            case asyncpg.PostgresError() | asyncpg.InterfaceError() if not isinstance(
                error, _AGAIN
            ):
                remedy = "Look at the server's log; nothing acknowledged is lost."
                return StorageError(self.where, str(error), remedy)
        return None


async def _nothing_to_reset(_: object) -> None:
    """Do nothing: statements here leave no session state, so no round trip is needed."""


def _granted(ask: LeaseRequest, tokens: int, index: int, now_ms: int) -> LeaseReply:
    at_ms = now_ms
    if not ask.exchange_ms:
        # The time was read a moment after the check that it is within the window.
        closes_ms = (index + 1) * ask.windows[0].period_ms - ask.offset_ms - ask.closing_ms
        at_ms = min(now_ms, closes_ms - 1)
    return LeaseReply(True, at_ms, at_ms, (Block(index, tokens),))


def _document(row: asyncpg.Record) -> Document:
    document: Document = _decode(row["document"])
    document["id"], document["version"] = row["id"], row["version"]
    return document


def _nested(expect: Mapping[str, str | int]) -> Document:
    """The smallest document that has these values, for a containment test."""
    return patched({}, expect, 0) if any("." in path for path in expect) else dict(expect)
