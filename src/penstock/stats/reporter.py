"""Measures storage regularly, remembers how it grows, and stores the result for others to read."""

import asyncio
import platform
from collections.abc import Callable, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from penstock.clock import Clock
from penstock.errors import PenstockError
from penstock.stats.facts import StatisticsFailed, StorageMeasured
from penstock.stats.growth import (
    DATASET_EVERY_MS,
    DAY_MS,
    Sample,
    days_until_full,
    growth_per_day,
    with_sample,
)
from penstock.stats.statistics import (
    DiskStatistics,
    StorageStatistics,
    store_statistics,
    stored_samples,
)
from penstock.stats.storage import StorageScanner
from penstock.storage.lake import TableStats
from penstock.storage.log import SlotStats
from penstock.storage.state import StateStore
from penstock.telemetry import Listener, quiet


class KnownSizes(NamedTuple):
    """What the keeper read last of the log and of the lake."""

    slots: Sequence[SlotStats]
    tables: Sequence[TableStats]


class StatisticsReporter:
    """Measures the storage of one data folder. For one event loop; files are read in a thread."""

    def __init__(
        self,
        scanner: StorageScanner,
        folder: str,
        known: Callable[[], KnownSizes],
        clock: Clock,
        emit: Listener = quiet,
    ) -> None:
        self._scanner, self._folder, self._known = scanner, folder, known
        self._clock, self._emit = clock, emit
        self._samples: dict[str, list[Sample]] | None = None
        """None until those in the store were read."""

    async def run(self, store: StateStore, id_: str, every_s: float) -> None:
        """Measure and store, for ever. A failure is reported, and the next time it is retried."""
        while True:
            try:
                await self.report(store, id_)
            except Exception as error:
                # Whatever it is: the next time may succeed, and nobody else would report it.
                known = isinstance(error, PenstockError | OSError)
                self._emit(StatisticsFailed(reason=str(error) if known else repr(error)))
            await self._clock.sleep(every_s)

    async def report(self, store: StateStore, id_: str) -> StorageStatistics:
        """Measure now, and store the result with the samples under this id.

        Raises:
            StoreUnreachable: the store does not answer. The result was emitted.
        """
        found = await self.measure()
        try:
            if self._samples is None:
                self._samples = await stored_samples(store, id_)
        finally:
            # Also while the store does not answer: the gauges need none.
            found = self._with_growth(found)
            self._emit(StorageMeasured(statistics=found))
        await store_statistics(store, id_, found, self._samples)
        return found

    async def measure(self) -> StorageStatistics:
        """Measure now, without the growth."""
        begun_ns = self._clock.monotonic_ns()
        measured = await asyncio.to_thread(self._scanner.measure, *self._known())
        return StorageStatistics(
            host=platform.node(),
            folder=self._folder,
            at_ms=self._clock.now_ms(),
            took_ms=(self._clock.monotonic_ns() - begun_ns) // 1_000_000,
            disks=measured.disks,
            directories=measured.directories,
            omitted=measured.omitted,
        )

    def _with_growth(self, found: StorageStatistics) -> StorageStatistics:
        samples, disks = self._samples or {}, []
        kept: dict[str, list[Sample]] = {}
        for disk in found.disks:
            now, before = Sample(found.at_ms, disk.data_bytes), samples.get(disk.path, [])
            disks.append(with_growth(disk, before, now))
            kept[disk.path] = with_sample(before, now)
        directories = []
        for each in found.directories:
            if each.dataset is None:
                directories.append(each)
                continue
            now, before = Sample(found.at_ms, each.size_bytes), samples.get(each.directory, [])
            growth = growth_per_day(before, now)
            directories.append(replace(each, growth_bytes_per_day=growth))
            kept[each.directory] = with_sample(before, now, DATASET_EVERY_MS, 2 * DAY_MS)
        if self._samples is not None:
            self._samples = kept
        return replace(found, disks=tuple(disks), directories=tuple(directories))


def with_growth(disk: DiskStatistics, samples: Sequence[Sample], now: Sample) -> DiskStatistics:
    """The same disk, with what samples tell of its growth."""
    per_day = growth_per_day(samples, now)
    return replace(
        disk,
        growth_bytes_per_day=per_day,
        days_until_full=days_until_full(disk.free_bytes, per_day),
    )
