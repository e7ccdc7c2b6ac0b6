"""Reads the documents of a fleet from its state store, and remembers what rates need."""

import asyncio
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from penstock.backup.outcome import BackupOutcome, read_outcomes
from penstock.clock import Clock
from penstock.config import Loaded, Settings
from penstock.connectors.breaker import all_breakers
from penstock.errors import StorageError
from penstock.monitor.collected import Collected, collected_from
from penstock.monitor.config_view import Config, config_of
from penstock.monitor.gaps import GapCounts
from penstock.monitor.live_processes import LiveProcesses
from penstock.monitor.overview import (
    ConnectorFacts,
    DiskView,
    Overview,
    OverviewInputs,
    measured_disk,
    overview_of,
)
from penstock.monitor.processes import Processes, processes_of, readings_of
from penstock.monitor.rates import POINT_MS, RateSampler
from penstock.monitor.series import SeriesFilter, read_ordered
from penstock.monitor.storage import Storage, read_local_backups, storage_of
from penstock.runtime.status import SeenProcess, looked_up, read_processes
from penstock.stats.alert_store import read_recent_alerts
from penstock.stats.statistics import StorageStatistics, read_statistics
from penstock.storage.state import StateStore
from penstock.storage.state.documents import Condition
from penstock.storage.state.schema import CONNECTORS, COVERAGE, GAPS, JOBS

_MOST_CONNECTORS = 1000
_SLOW_MS = 10_000
"""Statistics and backups change every few minutes, and are read again after this time."""
_LIVE = ("active", "paused")


class _Slow(NamedTuple):
    at_ms: int
    statistics: list[StorageStatistics]
    backups: list[BackupOutcome]
    disk: DiskView | None


class FleetMonitor:
    """Reads documents of a fleet. For one event loop.

    Every method raises StorageError if the state store does not answer.
    """

    def __init__(self, loaded: Loaded[Settings] | None = None) -> None:
        """``loaded`` are the settings of this process."""
        self._loaded = loaded or Loaded(Settings(), {})
        self.rates = RateSampler()
        self._live = LiveProcesses(self._loaded.settings)
        self._slow: _Slow | None = None
        self._collected: tuple[int, Collected] | None = None
        self._gap_counts: tuple[Counter[str], int] | None = None

    @property
    def folder(self) -> Path:
        """The data folder of this process."""
        return Path(self._loaded.settings.collect.data_dir)

    async def overview(self, store: StateStore) -> Overview:
        """The overview."""
        seen, now_ms = await self._observed(store)
        slow = await self._read_slow(store, now_ms)
        jobs: dict[str, int] = {}
        for row in await store.counts(JOBS):
            if row["status"] in _LIVE:
                jobs[row["state"]] = jobs.get(row["state"], 0) + row["count"]
        inputs = OverviewInputs(
            now_ms=now_ms,
            processes=seen,
            connectors=await _connectors(store, now_ms),
            breakers=await all_breakers(store),
            gaps_open=await open_gap_counts(store),
            jobs=jobs,
            statistics=slow.statistics,
            backups=slow.backups,
            alerts=await read_recent_alerts(store, now_ms),
            own_disk=slow.disk,
            stale_after_s=self._loaded.settings.alerts.stale_after,
        )
        return overview_of(inputs, self.rates)

    async def processes(self, store: StateStore) -> Processes:
        """All processes that ran lately."""
        seen, _ = await self._observed(store)
        return processes_of(seen, self.rates)

    async def storage(self, store: StateStore) -> Storage:
        """What data takes on disk, and its backups."""
        settings, now_ms = self._loaded.settings, await store.now_ms()
        slow = await self._read_slow(store, now_ms)
        local = await asyncio.to_thread(
            read_local_backups, settings.backup, Path(settings.collect.data_dir)
        )
        return storage_of(slow.statistics, slow.backups, local, settings.backup, now_ms)

    async def gap_counts(self, store: StateStore) -> GapCounts:
        """The number of gaps in each state, and when one of the numbers was seen to change."""
        found = Counter[str]()
        for row in await store.counts(GAPS):
            found[row["state"]] += row["count"]
        if self._gap_counts is None or self._gap_counts[0] != found:
            self._gap_counts = found, await store.now_ms()
        counted, changed_ms = self._gap_counts
        return GapCounts(
            changed_ms=changed_ms,
            gaps_open=counted["open"],
            gaps_filled=counted["filled"],
            gaps_unfillable=counted["unfillable"],
        )

    async def collected(self, store: StateStore) -> Collected:
        """The markets of which data was collected."""
        now_ms = await store.now_ms()
        if self._collected is None or not 0 <= now_ms - self._collected[0] < _SLOW_MS:
            documents = read_ordered(store, COVERAGE, SeriesFilter())
            self._collected = now_ms, await collected_from(documents)
        return self._collected[1]

    def config(self) -> Config:
        """The settings of this process."""
        return config_of(self._loaded)

    async def sample(self, store: StateStore) -> None:
        """Read the counts of all processes, so that rates are known when somebody asks."""
        await self._observed(store)

    async def run(self, store: StateStore, clock: Clock) -> None:
        """Sample every few seconds, for ever; a store that does not answer is tried again."""
        while True:
            with suppress(StorageError):  # whoever asks for a document is told
                await self.sample(store)
            await clock.sleep(POINT_MS / 1000)

    async def _observed(self, store: StateStore) -> tuple[list[SeenProcess], int]:
        remembered, now_ms = await read_processes(store), await store.now_ms()
        seen = looked_up(await self._live.added_to(remembered, now_ms))
        self.rates.observe(readings_of(seen), now_ms)
        return seen, now_ms

    async def _read_slow(self, store: StateStore, now_ms: int) -> _Slow:
        slow = self._slow
        if slow is None or not 0 <= now_ms - slow.at_ms < _SLOW_MS:
            statistics, backups = await read_statistics(store), await read_outcomes(store)
            folder = Path(self._loaded.settings.collect.data_dir)
            disk = await asyncio.to_thread(measured_disk, folder)
            slow = self._slow = _Slow(now_ms, statistics, backups, disk)
        return slow


async def open_gap_counts(store: StateStore) -> dict[str, int]:
    """The number of open gaps, by exchange.

    Raises:
        StorageError: the store does not answer.
    """
    found: dict[str, int] = {}
    for row in await store.counts(GAPS):
        if row["state"] == "open":
            found[row["exchange"]] = found.get(row["exchange"], 0) + row["count"]
    return found


async def _connectors(store: StateStore, now_ms: int) -> dict[str, ConnectorFacts]:
    query = [[Condition("status", "in", _LIVE)]]
    found = {}
    for each in await store.find(CONNECTORS, query, limit=_MOST_CONNECTORS):
        blocked_ms = (await store.budget(each["id"])).blocked_until_ms
        found[each["exchange_id"]] = ConnectorFacts(
            is_paused=each["status"] == "paused",
            blocked_until_ms=blocked_ms if blocked_ms > now_ms else None,
            exchange_offset_ms=each["exchange_offset_ms"],
        )
    return found
