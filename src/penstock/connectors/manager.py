"""Creates, shows, pauses and deletes connectors, and grants single tokens.

Every method is one operation of the store, or several that leave nothing half done. A deleted
connector keeps its document and its budget: created again, it continues with the same usage.
"""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import msgspec
from msgspec import UNSET, UnsetType

from penstock.connectors.breaker import breaker_of, changed
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
from penstock.resilience.breaker import Breaker, Force, with_force
from penstock.storage.state import Document, Query, StateStore
from penstock.storage.state.documents import Condition
from penstock.storage.state.schema import CONNECTORS, JOBS
from penstock.throttle.gate import Limit

# The end of a window, in which a request might arrive in the next; a share of short windows.
_GUARD_MS, _GUARD_SHARE = 250, 4
# When to retry a connector that an operator paused: the time of its resumption is unknown.
_PAUSED_RETRY_MS = 1000
_LIVE: tuple[str, ...] = ("active", "paused")


class Ensured(NamedTuple):
    """The connector of an exchange, and whether it was created by this call."""

    connector: Connector
    created: bool


class Token(NamedTuple):
    """Permission to send one request, or the wait before the next attempt."""

    ok: bool
    retry_after_ms: int
    """Above zero on every refusal. With a token of a paced limit it may be above zero too: the
    request is charged, and is to be sent that much later."""


KeyLimits = Callable[[str], Sequence[Limit] | None]


class ConnectorManager:
    """The connectors in a store of any kind."""

    def __init__(self, store: StateStore, of_key: KeyLimits = lambda _: None) -> None:
        """``of_key``: the limits of the API key that is used for an exchange, if there is one."""
        self._store, self._of_key = store, of_key

    async def ensure_connector(
        self, exchange_id: str, limits: Sequence[Limit] | None = None, notes: str | None = None
    ) -> Ensured:
        """The connector of an exchange, created if there is none; an existing one is not changed.

        Without ``limits`` the exchange's own apply.

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
        """The connector of an exchange, with the current usage of its limits.

        Raises:
            UnknownConnector: there is none, or it was deleted.
        """
        return (await self._shown(await self._document(exchange_id)))[0]

    async def chosen_limits(self, exchange_id: str) -> tuple[Limit, ...] | None:
        """The limits that an operator set for a connector; None if the exchange's own apply.

        Raises:
            UnknownConnector: there is none, or it was deleted.
        """
        chosen = (await self._document(exchange_id))["chosen"]
        return None if chosen is None else restored(chosen)

    async def find(
        self, status: Status | None = None, limit: int = 100, after: str | None = None
    ) -> list[Connector]:
        """Connectors after ``after``, ordered by name; deleted ones only with that ``status``."""
        wanted = (status,) if status else _LIVE
        query: Query = [[Condition("status", "in", wanted)]]
        found = await self._store.find(
            CONNECTORS, query, (), limit, {"id": after} if after is not None else None
        )
        return await self._shown(*found)

    async def acquire_token(self, exchange_id: str, cost: int = 1) -> Token:
        """Acquire a token for one request, if there is capacity now.

        Raises:
            CostExceedsLimit: there will never be enough capacity.
            UnknownConnector: there is none, or it was deleted.
        """
        document = await self._document(exchange_id)
        if document["status"] != "active":
            return Token(ok=False, retry_after_ms=_PAUSED_RETRY_MS)
        limits = limits_of(document, self._of_key(exchange_id))
        if any(limit.kind == "paced" for limit in limits):
            # A time that the store assigns is spent, so no later one is requested.
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
        """Stop all requests until the connector is resumed.

        Raises:
            UnknownConnector: there is none, or it was deleted.
        """
        return await self._change(exchange_id, None, lambda _: {"status": "paused"})

    async def resume_connector(self, exchange_id: str) -> Connector:
        """Allow requests again, within the limits.

        Raises:
            UnknownConnector: there is none, or it was deleted.
        """
        return await self._change(exchange_id, None, lambda _: {"status": "active"})

    async def unblock_connector(self, exchange_id: str, until_ms: int) -> Connector:
        """Lift the exchange's stop that ends at this time. The limits still apply.

        A stop that ends at another time stays: it came after this one was read.

        Raises:
            UnknownConnector: there is none, or it was deleted.
        """
        await self._document(exchange_id)
        if not await self._store.unblock(exchange_id, until_ms):
            return await self.get(exchange_id)
        # After the budget: a process that reads this in the document then finds no stop there.
        now_ms = await self._store.now_ms()
        return await self._change(exchange_id, None, lambda _: {"lifted_at": now_ms, "stop": None})

    async def breaker(self, exchange_id: str) -> Breaker:
        """The circuit breaker of an exchange.

        Raises:
            UnknownConnector: there is none, or it was deleted.
        """
        await self._document(exchange_id)
        return await breaker_of(self._store, exchange_id)

    async def force_breaker(self, exchange_id: str, force: Force | None) -> Breaker:
        """Keep a circuit breaker open or closed; None makes it automatic again.

        Raises:
            UnknownConnector: there is none, or it was deleted.
        """
        await self._document(exchange_id)
        now_ms = await self._store.now_ms()
        _, after = await changed(
            self._store, exchange_id, lambda found: with_force(found, force, now_ms)
        )
        return after

    async def edit(
        self,
        exchange_id: str,
        *,
        version: int | None,
        notes: str | UnsetType | None = UNSET,
        limits: Sequence[Limit] | UnsetType | None = UNSET,
    ) -> Connector:
        """Change notes or limits; ``limits`` None restores the exchange's own.

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
        """The connector with its job counts. The store counts jobs, so nothing is written.

        Raises:
            UnknownConnector: there is none, or it was deleted.
        """
        return await self.get(exchange_id)

    async def delete(self, exchange_id: str, *, version: int | None = None) -> None:
        """Delete a connector. The usage of its limits is kept.

        Raises:
            UnknownConnector: there is none, or it was deleted before.
            ConnectorInUse: it has jobs.
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
        """Change an existing connector; a change without effect is not written."""
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
        """The number of live jobs, by exchange."""
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
            limits = limits_of(known, self._of_key(one["exchange_id"]))
            shown.append(connector_of(known, limits, budget, jobs[one["id"]], now_ms))
        return shown


def _check(limits: Sequence[Limit] | None) -> None:
    if limits is None:
        return
    if not limits:
        raise BadLimit("A connector without a limit would throttle nothing: give it one.")
    for limit in limits:
        if limit.amount < 1 or limit.period_ms < 1 or limit.burst < 0:
            raise BadLimit(f"{limit} lets nothing through: say whole numbers above zero.")
