"""Measures what a data folder, its log and its lake take on disk, by exchange, channel and symbol.

The directories are those of the statistics, not of the disk: ``lake/EXCHANGE/CHANNEL/SYMBOL`` and
``log/SLOT/EXCHANGE/CHANNEL/SYMBOL``. Sizes of files are exact. Those of symbols are estimates, as
symbols share files: in the lake by the rows of sampled files (``shares``), in the log by the number
and size of a stream's records.
"""

import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote

from penstock.stats.disk import Category, Use, measure, total
from penstock.stats.shares import PartitionFiles, PartitionKey, Sampler
from penstock.stats.statistics import DirectoryStatistics, DiskStatistics
from penstock.storage.lake import TableStats
from penstock.storage.log import SlotStats

_LOG, _LAKE, _DELTA_LOG = "log", "lake", "_delta_log"
_EXCHANGE = "exchange="
_MOST_SYMBOLS = 1000
_SAMPLE_NS = 1_000_000_000
"""Time for sampling files in one measurement."""


class Places(NamedTuple):
    """Where data is on this machine."""

    data: Path
    log: Path | None = None
    """The folder of the slots; None if the log is in memory."""
    lake: Path | None = None
    """None if the lake is in an object store."""


class Measured(NamedTuple):
    """What was measured."""

    disks: tuple[DiskStatistics, ...]
    directories: tuple[DirectoryStatistics, ...]
    omitted: int


class StorageScanner:
    """Measures again and again. It blocks; not thread-safe."""

    def __init__(self, places: Places, monotonic_ns: Callable[[], int]) -> None:
        self._places, self._monotonic_ns = places, monotonic_ns
        self._sampler = Sampler()

    def measure(self, slots: Sequence[SlotStats], tables: Sequence[TableStats] = ()) -> Measured:
        """Measure everything now.

        ``slots`` are those of the log, ``tables`` those of a lake that is not in a folder.
        """
        scan = _Scan(self._places)
        until_ns = self._monotonic_ns() + _SAMPLE_NS
        self._sampler.sample(scan.partitions, lambda: self._monotonic_ns() < until_ns)
        symbols: dict[Category, Use] = {
            (_LAKE, *place): use for place, use in self._sampler.divide(scan.partitions).items()
        }
        symbols |= _streams(slots, scan.found)
        if self._places.lake is None:
            for each in tables:
                scan.found[_LAKE, each.name] = Use(each.size_bytes, each.files)
        largest = sorted(symbols.items(), key=lambda each: each[1].size_bytes, reverse=True)
        shown = [_row(category, use, approximate=True) for category, use in largest[:_MOST_SYMBOLS]]
        exact = [_row(category, use) for category, use in total(scan.found).items()]
        return Measured(
            tuple(scan.disks.values()),
            tuple(sorted([*exact, *shown], key=lambda row: row.directory)),
            len(symbols) - len(shown),
        )


class _Scan:
    """One pass over all folders."""

    def __init__(self, places: Places) -> None:
        self.found: dict[Category, Use] = {}
        self.partitions: dict[PartitionKey, PartitionFiles] = {}
        self.disks: dict[int, DiskStatistics] = {}
        """By device."""
        # A folder is measured once, though it may be inside another one.
        roots = list[Path]()
        named = ((places.lake, (_LAKE,)), (places.log, (_LOG,)), (places.data, ()))
        wanted = [(folder.resolve(), name) for folder, name in named if folder is not None]
        for folder, name in reversed(wanted):
            if not any(folder.is_relative_to(root) for root in roots):
                roots.append(folder)
                inner = {
                    other.relative_to(folder).parts: prefix
                    for other, prefix in wanted
                    if other.is_relative_to(folder) and prefix
                }
                self._measure(folder, {**inner, (): inner.get((), name)})

    def _measure(self, root: Path, inner: Mapping[Category, Category]) -> None:
        """``inner`` has the categories of folders below the root, and of itself."""
        size = 0
        for folder, use, largest in measure(root):
            size += use.size_bytes
            # The innermost folder that is named decides.
            place = next(
                folder[:length] for length in range(len(folder), -1, -1) if folder[:length] in inner
            )
            category = _category(inner[place], folder[len(place) :])
            self.found[category] = self.found.get(category, Use()).plus(use)
            if inner[place] == (_LAKE,) and (key := _partition(folder[len(place) :])):
                file = root.joinpath(*folder, largest)
                self.partitions[key] = PartitionFiles(use, file)
        self._add_disk(root, size)

    def _add_disk(self, root: Path, size: int) -> None:
        try:
            device, disk = root.stat().st_dev, shutil.disk_usage(root)
        except OSError:  # there is no such folder yet
            return
        known = self.disks.get(device)
        self.disks[device] = DiskStatistics(
            path=known.path if known else str(root),
            size_bytes=disk.total,
            free_bytes=disk.free,
            data_bytes=size + (known.data_bytes if known else 0),
        )


def _category(prefix: Category, folder: Category) -> Category:
    if prefix == (_LOG,):
        return (_LOG, *folder[:1])
    if prefix == (_LAKE,) and len(folder) > 1:
        table, inside = folder[:2]
        if inside.startswith(_EXCHANGE):
            return _LAKE, unquote(inside.removeprefix(_EXCHANGE)), table
        return _LAKE, _DELTA_LOG, table
    return (*prefix, *folder[:1])


def _partition(folder: Category) -> PartitionKey | None:
    """The partition of a folder of the lake; None if it has none, or is of an inner table."""
    is_partition = len(folder) == 3 and folder[1].startswith(_EXCHANGE)
    if not is_partition:
        return None
    return PartitionKey(folder[0], unquote(folder[1].removeprefix(_EXCHANGE)), folder[2:])


def _streams(slots: Sequence[SlotStats], found: Mapping[Category, Use]) -> dict[Category, Use]:
    """The part that each stream has in the files of its slot."""
    streams: dict[Category, Use] = {}
    for slot in slots:
        use = found.get((_LOG, slot.slot), Use())
        weights = {each: each.records * each.record_bytes for each in slot.streams}
        whole = sum(weights.values()) or 1
        for each, weight in weights.items():
            part = round(use.size_bytes * weight / whole)
            updated_ms = each.last_received_ns // 1_000_000
            streams[_LOG, slot.slot, *each.stream] = Use(part, use.files, updated_ms)
    return streams


def _row(category: Category, use: Use, *, approximate: bool = False) -> DirectoryStatistics:
    return DirectoryStatistics(
        directory="/".join(category) or ".",
        size_bytes=use.size_bytes,
        files=use.files,
        updated_ms=use.updated_ms or None,
        approximate=approximate,
    )
