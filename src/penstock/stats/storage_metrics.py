"""Metrics of storage: the last statistics, as gauges.

A directory that no longer exists is not served any more, which gauges with labels would not do.
"""

from collections.abc import Iterable, Iterator

from prometheus_client.core import GaugeMetricFamily, Metric

from penstock.runtime.facts import DiskSpaceEnough, DiskSpaceLow
from penstock.stats.facts import StorageMeasured
from penstock.stats.statistics import StorageStatistics
from penstock.telemetry import Fact


class StorageMetrics:
    """A custom collector for a registry."""

    def __init__(self) -> None:
        self._last: StorageStatistics | None = None
        self._low: dict[str, bool] = {}

    def count(self, fact: Fact) -> None:
        """Keep the statistics of a fact."""
        match fact:
            case StorageMeasured():
                self._last = fact.statistics
            case DiskSpaceLow() | DiskSpaceEnough():
                self._low[fact.path] = isinstance(fact, DiskSpaceLow)

    def describe(self) -> Iterable[Metric]:
        """Nothing: a process that measures nothing has no such metrics."""
        return ()

    def collect(self) -> Iterator[Metric]:
        """See prometheus_client."""
        last = self._last
        if last is not None:
            yield from _directories(last)
            yield from _disks(last)
        if self._low:
            low = _gauge("penstock_disk_low", "1 while jobs wait for space on a disk.", "disk")
            for path, is_low in tuple(self._low.items()):  # changed by another thread
                low.add_metric([path], is_low)
            yield low


def _directories(last: StorageStatistics) -> Iterator[Metric]:
    size = _gauge("storage_directory_size_bytes", "Size of the files of a directory.", "directory")
    files = _gauge("storage_directory_file_count", "Files of a directory.", "directory")
    updated = _gauge(
        "storage_directory_last_updated_timestamp",
        "When a file of a directory was changed last, in seconds since 1970.", "directory",
    )  # fmt: skip
    for each in last.directories:
        size.add_metric([each.directory], each.size_bytes)
        files.add_metric([each.directory], each.files)
        if each.updated_ms is not None:
            updated.add_metric([each.directory], each.updated_ms / 1000)
    yield from (size, files, updated)


def _disks(last: StorageStatistics) -> Iterator[Metric]:
    gauges = {
        "size_bytes": _gauge("penstock_disk_bytes", "Size of a disk with data.", "disk"),
        "free_bytes": _gauge("penstock_disk_free_bytes", "Free space of a disk.", "disk"),
        "data_bytes": _gauge("penstock_disk_data_bytes", "Size of the data on a disk.", "disk"),
        "growth_bytes_per_day": _gauge(
            "penstock_disk_growth_bytes_per_day", "Growth of the data in the last day.", "disk"
        ),
        "days_until_full": _gauge(
            "penstock_disk_full_days", "Days until a disk is full, if the data grows on.", "disk"
        ),
    }
    for field, gauge in gauges.items():
        for disk in last.disks:
            value = getattr(disk, field)
            if value is not None:
                gauge.add_metric([disk.path], value)
        yield gauge
    took = GaugeMetricFamily("penstock_statistics_seconds", "Duration of the last measurement.")
    took.add_metric([], last.took_ms / 1000)
    yield took


def _gauge(name: str, words: str, label: str) -> GaugeMetricFamily:
    return GaugeMetricFamily(name, words, labels=[label])
