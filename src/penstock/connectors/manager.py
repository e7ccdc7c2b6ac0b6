"""The manager of connectors: makes, shows, pauses and deletes them, and hands out single tokens.

Every method is one question to the store, or a few that leave nothing half done. A connector that
is deleted keeps its document and its budget: made again, it is no better off than before.
"""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import msgspec
from msgspec import UNSET, UnsetType

from penstock.connectors.counters import fleet_counters
from penstock.connectors.limits import ask_of, pace_wait_ms, restored, stored
from penstock.connectors.markets import announced_limits
from penstock.connectors.model import (
    Connector,
    JobCount,
    Status,
    connector_of,
    limits_of,
    new_document,
)
from penstock.errors import BadLimit, ConnectorInUse, UnknownConnector, VersionChanged
from penstock.exchanges import registry
from penstock.storage.state import Document, Query, StateStore
from penstock.storage.state.documents import Condition
from penstock.storage.state.schema import CONNECTORS, JOBS
from penstock.throttle.gate import Limit

# The last moments of a window, in which a request might arrive in the next; as a share if short.
_GUARD_MS, _GUARD_SHARE = 250, 4
# How soon to ask again of a connector that a person paused: nobody knows when it is resumed.
_PAUSED_RETRY_MS = 1000
_LIVE: tuple[str, ...] = ("active", "paused")


class Ensured(NamedTuple):
    """The connector of an exchange, and whether it was made just now."""

    connector: Connector
    created: bool


class Token(NamedTuple):
    """Leave to send one request, or how long to wait before asking again."""

    ok: bool
    retry_after_ms: int
    """Above zero on every refusal. With a token of a paced limit it may be above zero too: the
    request is paid for, and leaves that much later."""


class ConnectorManager:
    """Connectors, whatever store they are kept in."""

    def __init__(self, store: StateStore) -> None:
        self._store = store

    async def ensure_connector(
        self, exchange_id: str, limits: Sequence[Limit] | None = None, notes: str | None = None
    ) -> Ensured:
        """The connector of an exchange, made if there is none; one that is there stays as it is.

        Without ``limits`` the exchange's own hold.

        Raises:
            UnknownExchange: with near matches.
            BadLimit: nothing could be sent under such limits.
        """
        exchange = registry.load(exchange_id)
        _check(limits)
        now_ms = await self._store.now_ms()
        announced = await announced_limits(self._store, exchange_id) or exchange.limits(now_ms)
        fresh = new_document(exchange_id, announced, limits, notes, now_ms)
        document, created = await self._store.insert_if_absent(CONNECTORS, fresh)
        if document["status"] == "deleted":

            def revive(found: Document) -> Document | None:
                kept = {"exchange_offset_ms": found["exchange_offset_ms"]}
                return {**fresh, **kept} if found["status"] == "deleted" else None

            created = await self._store.update(CONNECTORS, exchange_id, revive) is not None
            document = await self._document(exchange_id)
        return Ensured((await self._shown(document))[0], created)

    async def get(self, exchange_id: str) -> Connector:
        """The connector of an exchange, with its limits as they stand.

        Raises:
            UnknownConnector: there is none, or it was deleted.
        """
        return (await self._shown(await self._document(exchange_id)))[0]

    async def chosen_limits(self, exchange_id: str) -> tuple[Limit, ...] | None:
        """The limits that somebody chose for a connector; None if the exchange's own hold.

        Raises:
            UnknownConnector: there is none, or it was deleted.
        """
        chosen = (await self._document(exchange_id))["chosen"]
        return None if chosen is None else restored(chosen)

    async def find(
        self, status: Status | None = None, limit: int = 100, after: str | None = None
    ) -> list[Connector]:
        """Connectors in the order of their names, those beyond ``after``; deleted ones if asked."""
        wanted = (status,) if status else _LIVE
        query: Query = [[Condition("status", "in", wanted)]]
        found = await self._store.find(
            CONNECTORS, query, (), limit, {"id": after} if after is not None else None
        )
        return await self._shown(*found)

    async def acquire_token(self, exchange_id: str, cost: int = 1) -> Token:
        """Pay for one request, if there is room now.

        Raises:
            CostExceedsLimit: there will never be.
            UnknownConnector: there is none, or it was deleted.
        """
        document = await self._document(exchange_id)
        if document["status"] != "active":
            return Token(ok=False, retry_after_ms=_PAUSED_RETRY_MS)
        limits = limits_of(document)
        if any(limit.kind == "paced" for limit in limits):
            # An instant that is handed out is spent, so a later one is not asked for.
            budget, now_ms = await self._store.budget(exchange_id), await self._store.now_ms()
            wait_ms = max(pace_wait_ms(limit, budget, cost, now_ms) for limit in limits)
            if wait_ms > 0:
                return Token(ok=False, retry_after_ms=wait_ms)
        shortest_ms = min(limit.period_ms for limit in limits)
        ask = msgspec.structs.replace(
            ask_of(limits, cost),
            offset_ms=document["exchange_offset_ms"],
            closing_ms=min(_GUARD_MS, shortest_ms // _GUARD_SHARE),
        )
        grant = await self._store.lease(exchange_id, ask)
        return Token(grant.ok, grant.wait_ms)

    async def pause_connector(self, exchange_id: str) -> Connector:
        """Let nothing through until it is resumed.

        Raises:
            UnknownConnector: there is none, or it was deleted.
        """
        return await self._change(exchange_id, None, lambda _: {"status": "paused"})

    async def resume_connector(self, exchange_id: str) -> Connector:
        """Let requests through again, as far as there is room.

        Raises:
            UnknownConnector: there is none, or it was deleted.
        """
        return await self._change(exchange_id, None, lambda _: {"status": "active"})

    async def unblock_connector(self, exchange_id: str, until_ms: int) -> Connector:
        """Send again although the exchange said stop until this instant, as far as there is room.

        A stop that ends at another instant stays: it came after this one was read.

        Raises:
            UnknownConnector: there is none, or it was deleted.
        """
        await self._document(exchange_id)
        if not await self._store.unblock(exchange_id, until_ms):
            return await self.get(exchange_id)
        # After the budget: whoever reads of this in the document then finds no stop there.
        now_ms = await self._store.now_ms()
        return await self._change(exchange_id, None, lambda _: {"lifted_at": now_ms, "stop": None})

    async def edit(
        self,
        exchange_id: str,
        *,
        version: int | None,
        notes: str | UnsetType | None = UNSET,
        limits: Sequence[Limit] | UnsetType | None = UNSET,
    ) -> Connector:
        """Change notes or limits; ``limits`` None goes back to the exchange's own.

        Raises:
            UnknownConnector: there is none, or it was deleted.
            VersionChanged: it is not the version that was read.
            BadLimit: nothing could be sent under such limits.
        """
        changes: Document = {}
        if notes is not UNSET:
            changes["notes"] = notes
        if limits is not UNSET:
            _check(limits)
            changes["chosen"] = None if limits is None else stored(limits)
        return await self._change(exchange_id, version, lambda _: changes)

    async def update_connector_job_counts(self, exchange_id: str) -> Connector:
        """The connector, its jobs counted. The store counts them, so nothing has to be written.

        Raises:
            UnknownConnector: there is none, or it was deleted.
        """
        return await self.get(exchange_id)

    async def delete(self, exchange_id: str, *, version: int | None = None) -> None:
        """Delete a connector. What was used of its limits is remembered.

        Raises:
            UnknownConnector: there is none, or it was deleted before.
            ConnectorInUse: jobs live on it.
            VersionChanged: it is not the version that was read.
        """
        await self._document(exchange_id)
        if jobs := (await self._jobs())[exchange_id].all:
            raise ConnectorInUse(exchange_id, jobs)
        await self._change(exchange_id, version, lambda _: {"status": "deleted"})

    async def _document(self, exchange_id: str) -> Document:
        document = await self._store.get(CONNECTORS, exchange_id)
        if document is None or document["status"] == "deleted":
            raise await self._unknown(exchange_id)
        return document

    async def _unknown(self, exchange_id: str) -> UnknownConnector:
        there = await self._store.find(CONNECTORS, [[Condition("status", "in", _LIVE)]])
        return UnknownConnector(exchange_id, (document["id"] for document in there))

    async def _change(
        self, exchange_id: str, version: int | None, change: Callable[[Document], Document]
    ) -> Connector:
        """Change a connector that is there; what would change nothing is not written."""
        now_ms = await self._store.now_ms()
        was_there = False

        def changed(found: Document) -> Document | None:
            nonlocal was_there
            was_there = found["status"] != "deleted"
            if not was_there:
                return None
            if version is not None and found["version"] != version:
                raise VersionChanged(f"the connector {exchange_id}", version, found["version"])
            changes = change(found)
            same = all(found.get(name) == value for name, value in changes.items())
            return None if same else {**found, **changes, "updated_at": now_ms}

        document = await self._store.update(CONNECTORS, exchange_id, changed)
        if not was_there:
            raise await self._unknown(exchange_id)
        return (await self._shown(document or await self._document(exchange_id)))[0]

    async def _jobs(self) -> Mapping[str, JobCount]:
        """By exchange: how many jobs live on it."""
        counted: defaultdict[str, JobCount] = defaultdict(JobCount)
        for row in await self._store.counts(JOBS):
            if row["status"] in _LIVE:
                all_, active = counted[row["exchange_id"]]
                is_active = row["status"] == "active"
                counted[row["exchange_id"]] = JobCount(
                    all_ + row["count"], active + row["count"] * is_active
                )
        return counted

    async def _shown(self, *documents: Document) -> list[Connector]:
        jobs, now_ms = await self._jobs(), await self._store.now_ms()
        counters = {one["id"]: one for one in await fleet_counters(self._store)}
        shown = []
        for one in documents:
            ran_ms = counters.get(one["id"], {}).get("last_job_run_time")
            known = {**one, "last_job_run_time": ran_ms or one["last_job_run_time"]}
            budget = await self._store.budget(one["id"])
            shown.append(connector_of(known, budget, jobs[one["id"]], now_ms))
        return shown


def _check(limits: Sequence[Limit] | None) -> None:
    if limits is None:
        return
    if not limits:
        raise BadLimit("A connector without a limit would throttle nothing: give it one.")
    for limit in limits:
        if limit.amount < 1 or limit.period_ms < 1 or limit.burst < 0:
            raise BadLimit(f"{limit} lets nothing through: say whole numbers above zero.")
