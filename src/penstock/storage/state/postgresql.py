"""State in PostgreSQL: for a fleet.

A document is a row of ``jsonb``, its fields indexed where the schema says so. Claims lock with
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
from penstock.storage.state.budget import Ask, Budget, Grant
from penstock.storage.state.documents import (
    Add,
    Claim,
    Document,
    Now,
    Patch,
    Query,
    Write,
    patched,
)
from penstock.storage.state.patience import in_time
from penstock.storage.state.schema import FieldType, Schema, Table, index_name
from penstock.storage.state.sql import Dialect, Statement

try:
    import asyncpg
    from asyncpg.pool import PoolConnectionProxy
except ImportError as error:
    raise MissingExtra("asyncpg", "postgres") from error

_encode, _decode = msgspec.json.encode, msgspec.json.decode
_decode_budget = msgspec.json.Decoder(Budget).decode
_decode_grant = msgspec.json.Decoder(Grant).decode

# Any number that no other program is likely to lock.
_MIGRATING = 0x70656E73
_CONNECTIONS = 5
# Statements that lost to another and did nothing: they are simply run again.
_AGAIN = (asyncpg.DeadlockDetectedError, asyncpg.SerializationError)


def open_url(url: str, clock: Clock, patience_s: float) -> "PostgresqlBackend":  # noqa: ARG001
    """``postgresql://USER:PASSWORD@HOST/DATABASE``, as PostgreSQL's own tools spell it."""
    try:
        parts = urlsplit(url)
        place = f"{parts.hostname or 'local'}{f':{parts.port}' if parts.port else ''}{parts.path}"
    except ValueError as error:
        raise ConfigError(
            "postgresql:", problem=f"cannot be read: {error}.", origin="state URL"
        ) from error
    return PostgresqlBackend(url, f"postgresql://{place}", patience_s)


def _field(path: str, type_: FieldType) -> str:
    text = f"(document #>> '{{{path.replace('.', ',')}}}')"
    return f'({text} COLLATE "C")' if type_ == "text" else f"({text}::bigint)"


# As a query of its own the instant is read once, and indexes can be used.
_NOW = "(SELECT penstock_now_ms())"
_DIALECT = Dialect(field=_field, parameter=lambda number: f"${number}", now=_NOW)


# The row is computed again from what is there once it is this statement's turn, and with it the
# instant. Without an era, as without the budget, there is no row; ``open_budget`` mends both.
_LEASE = (
    "UPDATE penstock_budgets AS found SET budget = penstock_leased("
    "found.budget, $2::text::jsonb, penstock_era.era, penstock_now_ms())"
    " FROM penstock_era WHERE key = $1 RETURNING found.budget ->> 4 AS grant"
)


class PostgresqlBackend:
    """Tables whose names begin with ``penstock_``, wherever the search path leads."""

    def __init__(self, url: str, where: str, patience_s: float) -> None:
        self._url, self._where, self._patience_s = url, where, patience_s
        self._pool: asyncpg.Pool[asyncpg.Record] | None = None
        self._hurried: asyncpg.Connection[asyncpg.Record] | None = None
        self._turn = asyncio.Lock()

    @property
    def where(self) -> str:
        return self._where

    async def prepare(self, schema: Schema) -> None:
        async with self._connection() as connection, connection.transaction():
            await connection.execute(f"SELECT pg_advisory_xact_lock({_MIGRATING})")
            await connection.execute("CREATE TABLE IF NOT EXISTS penstock_version (version int)")
            found = await connection.fetchval("SELECT max(version) FROM penstock_version") or 0
            if found > len(schema):
                raise NewerStore(self.where, found, len(schema))
            if found == len(schema):
                return
            await connection.execute(
                files(__package__).joinpath("postgresql.sql").read_text("utf-8")
            )
            for step in schema[found:]:
                for table in step:
                    for statement in _creation(table):
                        await connection.execute(statement)
            await connection.execute("DELETE FROM penstock_version")
            await connection.execute("INSERT INTO penstock_version VALUES ($1)", len(schema))

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

    async def insert(self, table: Table, document: Document) -> bool:
        return bool(
            await self._fetch(
                f"INSERT INTO penstock_{table.name} VALUES ($1, 1, $2::text::jsonb)"  # noqa: S608
                " ON CONFLICT DO NOTHING RETURNING id",
                document["id"], _body(document),
            )
        )  # fmt: skip

    async def replace(
        self, table: Table, document: Document
    ) -> Literal["written", "changed", "rival"]:
        try:
            done = await self._fetch(
                f"UPDATE penstock_{table.name} SET version = version + 1,"  # noqa: S608
                " document = $1::text::jsonb WHERE id = $2 AND version = $3 RETURNING id",
                _body(document), document["id"], document["version"],
            )  # fmt: skip
        except asyncpg.UniqueViolationError:
            return "rival"
        return "written" if done else "changed"

    async def remove(self, table: Table, id_: str, expect: Mapping[str, str | int]) -> bool:
        return bool(
            await self._fetch(
                f"DELETE FROM penstock_{table.name} WHERE id = $1"  # noqa: S608
                " AND document @> $2::text::jsonb RETURNING id",
                id_, _nested(expect),
            )
        )  # fmt: skip

    async def claim(self, table: Table, claim: Claim) -> list[Document]:
        statement = Statement(_DIALECT, table)
        name = f"penstock_{table.name}"
        rows = await self._fetch(
            f"WITH locked AS (SELECT id FROM {name} WHERE {statement.where(claim.query)}"  # noqa: S608
            f" ORDER BY {statement.order(claim.order)} LIMIT {statement.value(claim.most)}"
            " FOR UPDATE SKIP LOCKED),"
            " picked AS (SELECT id, row_number() OVER () AS place FROM locked)"
            f" UPDATE {name} AS found SET version = version + 1, document ="
            f" penstock_patched(document, {statement.value(_changes(claim.patch))}::text::jsonb,"
            f" {_NOW}) FROM picked WHERE found.id = picked.id"
            " RETURNING found.id, version, document, place",
            *statement.values,
        )
        return [_document(row) for row in sorted(rows, key=lambda row: int(row["place"]))]

    async def write(self, table: Table, writes: Sequence[Write]) -> list[Document | None]:
        # In the order of their ids, so that batches that overlap wait for each other in a line.
        asked = sorted(writes, key=lambda write: write.id)
        rows = await self._fetch(
            f"UPDATE penstock_{table.name} AS found SET version = version + 1, document ="  # noqa: S608
            f" penstock_patched(document, asked.patch::jsonb, {_NOW})"
            " FROM unnest($1::text[], $2::text[], $3::text[]) AS asked(id, expect, patch)"
            " WHERE found.id = asked.id AND document @> asked.expect::jsonb"
            " RETURNING found.id, version, document",
            [write.id for write in asked],
            [_nested(write.expect) for write in asked],
            [_changes(write.patch) for write in asked],
        )
        written = {row["id"]: _document(row) for row in rows}
        return [written.get(write.id) for write in writes]

    async def lease(self, key: str, ask: Ask) -> Grant | None:
        asked = _encode(ask).decode()
        if self._turn.locked():
            async with in_time(self.where, self._patience_s):
                rows = await self._hurry(_LEASE, key, asked)
        else:
            # The driver's own time-outs are enough where nobody waits in line, and cheaper.
            rows = await self._hurry(_LEASE, key, asked)
        return _decode_grant(rows[0]["grant"]) if rows else None

    async def open_budget(self, key: str) -> None:
        await self._fetch(
            "INSERT INTO penstock_era (era) VALUES (gen_random_uuid()) ON CONFLICT DO NOTHING"
        )
        await self._fetch(
            "INSERT INTO penstock_budgets VALUES ($1, $2::text::jsonb) ON CONFLICT DO NOTHING",
            key, _encode(Budget()).decode(),
        )  # fmt: skip

    async def budget(self, key: str) -> Budget:
        rows = await self._fetch("SELECT budget::text FROM penstock_budgets WHERE key = $1", key)
        return _decode_budget(rows[0]["budget"]) if rows else Budget()

    async def close(self) -> None:
        if self._pool is not None:
            self._pool.terminate()
        if self._hurried is not None:
            self._hurried.terminate()

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
                    self._url, min_size=1, max_size=_CONNECTIONS, timeout=self._patience_s,
                    reset=_nothing_to_reset,
                )  # fmt: skip
            # The time allowed is also what it may take to give the connection back.
            async with self._pool.acquire(timeout=self._patience_s) as connection:
                yield connection

    async def _hurry(self, statement: str, *values: Any) -> list[asyncpg.Record]:
        """Run what may be forgotten, on a connection of its own, which a pool would slow down."""
        async with self._turn:
            with self._failures_named():
                try:
                    if self._hurried is None or self._hurried.is_closed():
                        # Forgetting a lease is noticed (see penstock_era): no wait for the disk.
                        settings = {"synchronous_commit": "off"}
                        self._hurried = await asyncpg.connect(
                            self._url, server_settings=settings, timeout=self._patience_s
                        )
                    return await self._hurried.fetch(statement, *values, timeout=self._patience_s)
                except BaseException:
                    # Whatever was under way, nobody waits for its end.
                    if self._hurried is not None:
                        self._hurried.terminate()
                    raise

    @contextmanager
    def _failures_named(self) -> Iterator[None]:
        try:
            yield
        except (*_AGAIN, asyncpg.UniqueViolationError):
            raise
        except (asyncpg.DiskFullError, asyncpg.OutOfMemoryError) as error:
            raise StorageFull(self.where, str(error)) from error
        except (
            OSError,
            asyncpg.PostgresConnectionError,
            asyncpg.CannotConnectNowError,
            asyncpg.AdminShutdownError,
            asyncpg.CrashShutdownError,
            asyncpg.TooManyConnectionsError,
        ) as error:
            raise StoreUnreachable(self.where, f"no answer ({error!r})") from error
        except (asyncpg.PostgresError, asyncpg.InterfaceError) as error:
            remedy = "Look at the server's log; nothing acknowledged is lost."
            raise StorageError(self.where, str(error), remedy) from error


async def _nothing_to_reset(_: object) -> None:
    """Statements here leave nothing behind on a connection, so no round trip is spent on it."""


def _document(row: asyncpg.Record) -> Document:
    return {**_decode(row["document"]), "id": row["id"], "version": row["version"]}


def _body(document: Document) -> str:
    kept = {name: value for name, value in document.items() if name not in ("id", "version")}
    return _encode(kept).decode()


def _nested(expect: Mapping[str, str | int]) -> str:
    """The smallest document that has these values: others contain it or do not."""
    return _body(patched({}, expect, 0))


def _changes(patch: Patch) -> str:
    changes = []
    for path, value in patch.items():
        match value:
            case Add(amount):
                change = ("add", amount)
            case Now(plus_ms):
                change = ("now", plus_ms)
            case _:
                change = ("set", value)
        changes.append((path.split("."), *change))
    return _encode(changes).decode()


def _creation(table: Table) -> list[str]:
    name = f"penstock_{table.name}"
    made = [
        f'CREATE TABLE IF NOT EXISTS {name} (id text COLLATE "C" PRIMARY KEY,'
        " version bigint NOT NULL, document jsonb NOT NULL) WITH (fillfactor = 70)"
    ]
    for fields in table.indexes:
        listed = ", ".join(f"{_field(field, table.type_of(field))} NULLS FIRST" for field in fields)
        index = f"penstock_{index_name(table, fields)}"
        made.append(f"CREATE INDEX IF NOT EXISTS {index} ON {name} ({listed})")
    for rule in table.unique:
        # As jsonb, because SQL holds NULL to be different from NULL.
        paths = [field.replace(".", ",") for field in rule.fields]
        listed = ", ".join(f"coalesce(document #> '{{{path}}}', 'null')" for path in paths)
        only = ""
        if rule.among:
            values = ", ".join(f"'{value}'" for value in rule.among[1])
            only = f" WHERE {_field(rule.among[0], 'text')} IN ({values})"
        index = f"penstock_{index_name(table, rule.fields, unique=True)}"
        made.append(f"CREATE UNIQUE INDEX IF NOT EXISTS {index} ON {name} ({listed}){only}")
    return made
