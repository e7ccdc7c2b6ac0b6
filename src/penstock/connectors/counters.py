"""Counts the requests, failures and job runs of the whole fleet, in the store.

Each process adds its counts to the store about once a second, one document per exchange. If a
process is killed, its counts of the last second are lost.
"""

import asyncio
from collections import Counter, defaultdict
from collections.abc import Mapping

from penstock.clock import Clock
from penstock.errors import StorageError
from penstock.storage.state import Document, StateStore, Write
from penstock.storage.state.documents import Add, StoreNow
from penstock.storage.state.schema import COUNTERS
from penstock.telemetry import CountedFact, Fact

_EVERY_S = 1.0
_JOBS = "jobs."


class FleetCounters:
    """A listener that adds the counts of one process to those of the fleet."""

    def __init__(self, store: StateStore, clock: Clock) -> None:
        self._store, self._clock = store, clock
        self._counted: defaultdict[str, Counter[str]] = defaultdict(Counter)
        self._adding: asyncio.Task[None] | None = None

    def __call__(self, fact: Fact) -> None:
        """Count a fact."""
        if isinstance(fact, CountedFact):
            self._count(fact.exchange, fact.counts())

    async def aclose(self) -> None:
        """Add the last counts, if the store accepts them."""
        if self._adding is not None:
            self._adding.cancel()
            await asyncio.gather(self._adding, return_exceptions=True)
        await self._add()

    def _count(self, exchange_id: str, counted: Mapping[str, int]) -> None:
        self._counted[exchange_id].update(counted)
        if self._adding is None or self._adding.done():
            self._adding = asyncio.get_running_loop().create_task(self._add_until_stored())

    async def _add_until_stored(self) -> None:
        while self._counted:
            await self._clock.sleep(_EVERY_S)
            await self._add()

    async def _add(self) -> None:
        for exchange_id in list(self._counted):
            counted = self._counted.pop(exchange_id)
            try:
                await self._write(exchange_id, counted)
            except StorageError:
                self._counted[exchange_id].update(counted)
            except asyncio.CancelledError:
                # It may have been added already: counting twice is better than not at all.
                self._counted[exchange_id].update(counted)
                raise

    async def _write(self, exchange_id: str, counted: Mapping[str, int]) -> None:
        patch: Document = {name: Add(count) for name, count in counted.items()}
        if any(name.startswith(_JOBS) for name in counted):
            patch["last_job_run_time"] = StoreNow()
        write = Write(exchange_id, {}, patch)
        if (await self._store.write(COUNTERS, [write]))[0] is None:
            fresh = {"id": exchange_id, "exchange_id": exchange_id}
            await self._store.insert_if_absent(COUNTERS, fresh)
            await self._store.write(COUNTERS, [write])


async def fleet_counters(store: StateStore) -> list[Document]:
    """The fleet's counts so far, by exchange."""
    return await store.find(COUNTERS, limit=1000)
