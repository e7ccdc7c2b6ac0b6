"""The state holds the documents and budgets that all processes share.

These are connectors, jobs, and how much of an exchange's limits is used. Each call is atomic, also
across processes, and all times are those of the store's clock. No call waits for ever: after its
timeout it raises ``StoreUnreachable``.

A backend is one file in this folder, named after its URL scheme.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from importlib import import_module
from pkgutil import iter_modules
from typing import Literal, NamedTuple, Protocol, cast

from penstock.clock import Clock, SystemClock
from penstock.errors import (
    AlreadyExists,
    ConfigError,
    CostExceedsLimit,
    NewerStore,
    StoreUnreachable,
)
from penstock.storage.state.budget import Budget, LeaseReply, LeaseRequest
from penstock.storage.state.documents import (
    Claim,
    Counts,
    Document,
    Patch,
    Query,
    Write,
    beyond,
    checked,
    rivals,
)
from penstock.storage.state.migration import migrate
from penstock.storage.state.schema import SCHEMA, Schema, Table
from penstock.storage.timeouts import in_time

Change = Callable[[Document], Document | None]
"""Returns the new document; None leaves it unchanged. Pure: it may be called more than once."""


class Inserted(NamedTuple):
    """The document that exists now, and whether it is the one that was passed."""

    document: Document
    created: bool


class Backend(Protocol):
    """The interface of a database. Tables are those of the schema it was prepared with.

    Every method is atomic across processes, and raises StorageError or a subclass.
    """

    @property
    def where(self) -> str:
        """The address for messages, without a password."""
        ...

    async def prepare(self, schema: Schema, known: int | None = None) -> int:
        """Apply the steps of a schema that the store does not have; return how many it had.

        It may be killed at any time and run again. ``known`` is the number of steps of the whole
        schema, if this is its beginning.

        Raises:
            NewerStore: it has a newer schema already. Nothing was changed.
        """
        ...

    async def version(self) -> int:
        """The number of schema steps that were applied to the store."""
        ...

    async def now_ms(self) -> int: ...

    async def find(
        self, table: Table, query: Query, order: Sequence[str], limit: int
    ) -> list[Document]: ...

    async def firsts(
        self, table: Table, queries: Sequence[Query], order: Sequence[str]
    ) -> list[Document]:
        """The first result of ``find`` for each query; queries without a result are left out."""
        ...

    async def counts(self, table: Table) -> Counts:
        """The number of documents, by the values of the table's ``counted`` fields.

        Takes the same time for any number of documents.
        """
        ...

    async def insert(self, table: Table, document: Document) -> bool:
        """Add a document as version 1; False if one with its id or unique fields exists."""
        ...

    async def replace(
        self, table: Table, document: Document
    ) -> Literal["written", "changed", "rival"]:
        """Replace a document if its version is still the same, as the next version."""
        ...

    async def remove(self, table: Table, id_: str, expect: Mapping[str, str | int]) -> bool: ...

    async def claim(self, table: Table, claim: Claim) -> list[Document]: ...

    async def write(self, table: Table, writes: Sequence[Write]) -> list[Document | None]: ...

    async def lease(self, key: str, ask: LeaseRequest) -> LeaseReply | None:
        """Apply ``budget.lease`` to a budget that was opened; None if it was not.

        The only call with a timeout of its own, because it may be done before a timer is set.
        """
        ...

    async def open_budget(self, key: str) -> None:
        """Create a budget durably: after this returned, no crash loses the fact that it is used."""
        ...

    async def budget(self, key: str) -> Budget: ...

    async def unblock(self, key: str, until_ms: int) -> bool: ...

    async def close(self) -> None: ...


class StateStore:
    """The state, on any backend."""

    def __init__(self, backend: Backend, timeout_s: float, schema: Schema = SCHEMA) -> None:
        self._backend, self._timeout_s = backend, timeout_s
        self._known = len(schema)

    async def check(self) -> None:
        """Check that the store answers, and that its schema is not newer than this penstock's.

        Raises:
            NewerStore: it is newer.
        """
        async with self._in_time():
            found = await self._backend.version()
        if found > self._known:
            raise NewerStore(self._backend.where, found, self._known)

    async def now_ms(self) -> int:
        """The store's time: the only clock that all its users share."""
        async with self._in_time():
            return await self._backend.now_ms()

    async def get(self, table: Table, id_: str) -> Document | None:
        """The document with this id."""
        async with self._in_time():
            found = await self._backend.find(table, rivals(_NO_RULES, {"id": id_}), (), 1)
            return found[0] if found else None

    async def find(
        self,
        table: Table,
        query: Query = (),
        order: Sequence[str] = (),
        limit: int = 100,
        after: Document | None = None,
    ) -> list[Document]:
        """The first documents in this order, then by id; those after ``after`` if it is given."""
        if after is not None:
            query = beyond(query, order, after)
        async with self._in_time():
            return await self._backend.find(table, query, order, limit)

    async def firsts(
        self, table: Table, queries: Sequence[Query], order: Sequence[str]
    ) -> list[Document]:
        """The first document of each query that has one, in this order and then by id."""
        async with self._in_time():
            return await self._backend.firsts(table, queries, order) if queries else []

    async def counts(self, table: Table) -> list[Document]:
        """The number of documents, by the values of the table's ``counted`` fields.

        Each row has these fields, and ``count``.
        """
        async with self._in_time():
            found = await self._backend.counts(table)
        return [
            {**dict(zip(table.counted, values, strict=True)), "count": count}
            for values, count in found.items()
        ]

    async def insert_if_absent(self, table: Table, document: Document) -> Inserted:
        """Add a document; if one with its id or unique fields exists, return that one."""
        async with self._in_time():
            for _ in range(_RACES):
                if await self._backend.insert(table, document):
                    return Inserted({**document, "version": 1}, created=True)
                if there := await self._backend.find(table, rivals(table, document), (), 1):
                    return Inserted(there[0], created=False)
        raise self._lost_every_race()

    async def update(self, table: Table, id_: str, change: Change) -> Document | None:
        """Change a document, retried after concurrent changes; None if nothing was written.

        Raises:
            AlreadyExists: another document has the same unique fields. Nothing was written.
        """
        async with self._in_time():
            for _ in range(_RACES):
                found = await self._backend.find(table, rivals(_NO_RULES, {"id": id_}), (), 1)
                changed = change(found[0]) if found else None
                if changed is None:
                    return None
                version = found[0]["version"]
                changed = {**changed, "id": id_, "version": version}
                outcome = await self._backend.replace(table, changed)
                if outcome == "written":
                    return {**changed, "version": version + 1}
                if outcome == "rival":
                    there = await self._backend.find(table, rivals(table, changed), (), 2)
                    if other := [document["id"] for document in there if document["id"] != id_]:
                        raise AlreadyExists(table.name, other[0])
        raise self._lost_every_race()

    async def claim(self, table: Table, claim: Claim) -> list[Document]:
        """Patch the first documents that match; each goes to one claimer only.

        Returns them with the patch applied, in the requested order.
        """
        checked(table, claim.patch)
        async with self._in_time():
            return await self._backend.claim(table, claim)

    async def write(self, table: Table, writes: Sequence[Write]) -> list[Document | None]:
        """Patch documents that still have the expected values; None for each that has not.

        ``Write(id, {"fence": 7}, …)`` is a fenced write: None means that the lease was lost.
        """
        checked(table, {path for write in writes for path in write.patch})
        if len({write.id for write in writes}) < len(writes):
            raise ValueError(f"{table.name}: a document can be written once at a time")
        async with self._in_time():
            return await self._backend.write(table, writes) if writes else []

    async def delete(
        self, table: Table, id_: str, expect: Mapping[str, str | int] | None = None
    ) -> bool:
        """Delete a document if it still has these values; return whether it was deleted."""
        async with self._in_time():
            return await self._backend.remove(table, id_, expect or {})

    async def lease(self, key: str, ask: LeaseRequest) -> LeaseReply:
        """Take capacity from a budget, and report the exchange's counts; see ``budget.lease``.

        Raises:
            CostExceedsLimit: the limit is too small, however long the wait.
        """
        for window in ask.windows:
            if window.need > window.amount:
                raise CostExceedsLimit(window.need, window.amount, window.period_ms)
        for pace in ask.paces:
            if pace.need > pace.burst:
                raise CostExceedsLimit(pace.need, pace.burst, pace.period_ms)
        if grant := await self._backend.lease(key, ask):
            return grant
        async with self._in_time():
            await self._backend.open_budget(key)
        if grant := await self._backend.lease(key, ask):
            return grant
        raise self._lost_every_race()

    async def budget(self, key: str) -> Budget:
        """The contents of a budget; empty for one that was never opened."""
        async with self._in_time():
            return await self._backend.budget(key)

    async def unblock(self, key: str, until_ms: int) -> bool:
        """Lift a budget's stop if it ends at ``until_ms``; return whether it was lifted."""
        async with self._in_time():
            return await self._backend.unblock(key, until_ms)

    async def close(self) -> None:
        """Close the store. Nothing is lost without it."""
        await self._backend.close()

    def _in_time(self) -> AbstractAsyncContextManager[None]:
        return in_time(self._backend.where, self._timeout_s)

    def _lost_every_race(self) -> StoreUnreachable:
        return StoreUnreachable(self._backend.where, "others change the same without a pause")


# A driver may swallow the single cancellation of a timeout, so loops are also bounded.
_RACES = 1000
_NO_RULES = Table(name="", fields={})


class _Module(Protocol):
    def open_url(self, url: str, clock: Clock, timeout_s: float) -> Backend: ...


# Files of this folder that are not backends.
_SHARED = {
    "budget", "documents", "job_targets", "jsonb", "migration", "schema", "sql",
    "sqlite_clock", "sqlite_copy", "sqlite_tables",
}  # fmt: skip


async def open_store(
    url: str,
    *,
    schema: Schema = SCHEMA,
    clock: Clock | None = None,
    timeout_s: float = 10.0,
    read_only: bool = False,
) -> StateStore:
    """Open the store at a URL, ready for use.

    With ``read_only`` a file is neither created nor changed: its present contents are copied to
    memory. On a server the user's permissions apply.

    ``sqlite:FILE`` is for one machine, ``postgresql://…`` and ``mongodb://…`` for several,
    ``memory:`` for one process.

    Raises:
        ConfigError: no backend has that scheme, or it cannot parse the rest.
        MissingExtra: the backend needs a library that is not installed.
        StoreUnreachable: it does not answer.
        NewerStore: a newer penstock wrote it.
    """
    scheme, separator, _ = url.partition(":")
    name = scheme.partition("+")[0]
    schemes = {module.name for module in iter_modules(__path__)} - _SHARED
    if not separator or name not in schemes:
        known = " or ".join(f"{known}:" for known in sorted(schemes, reverse=True))
        raise ConfigError(
            scheme, problem=f"is no kind of state store. Its URL begins with {known}.",
            origin="state URL",
        )  # fmt: skip
    module = cast("_Module", import_module(f"{__name__}.{name}"))
    opening = getattr(module, "open_copy", module.open_url) if read_only else module.open_url
    backend = opening(url, clock or SystemClock(), timeout_s)
    try:
        await migrate(backend, schema, timeout_s)
    except BaseException:
        await backend.close()
        raise
    return StateStore(backend, timeout_s, schema)


__all__ = [
    "Backend",
    "Budget",
    "Change",
    "Claim",
    "Counts",
    "Document",
    "Inserted",
    "LeaseReply",
    "LeaseRequest",
    "Patch",
    "Query",
    "StateStore",
    "Write",
    "open_store",
]
