"""Statistics of storage: what a data folder and its lake take, and when their disks are full."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct

from penstock.stats.growth import Sample
from penstock.storage.state import Document, StateStore, Write
from penstock.storage.state.documents import Condition, StoreNow
from penstock.storage.state.schema import STATISTICS

_MOST_FOLDERS = 1000
_KEPT_MS = 30 * 86_400_000
"""Statistics of a folder that nobody has measured for so long are removed: it is not used."""


class DirectoryStatistics(Struct, frozen=True, kw_only=True):
    """The files of a category, such as ``lake/EXCHANGE/CHANNEL``, and of those below it."""

    directory: str
    size_bytes: int
    files: int
    updated_ms: int | None
    """When one of them was changed last; None if it is not known."""
    approximate: bool = False
    """Whether it is a symbol's share of files that several symbols have in common."""
    growth_bytes_per_day: float | None = None
    """Of a dataset; None until an hour was measured."""

    @property
    def dataset(self) -> str | None:
        """``EXCHANGE/CHANNEL`` if it is a whole channel of an exchange in the lake."""
        place, *names = self.directory.split("/")
        is_dataset = place == "lake" and len(names) == 2 and not names[0].startswith("_")
        return "/".join(names) if is_dataset else None


class DiskStatistics(Struct, frozen=True, kw_only=True):
    """A disk with data of a folder."""

    path: str
    size_bytes: int
    free_bytes: int
    data_bytes: int
    """What the data takes on it."""
    growth_bytes_per_day: float | None = None
    """None until an hour was measured."""
    days_until_full: float | None = None
    """None if the data does not grow, or the growth is not known."""


class StorageStatistics(Struct, frozen=True, kw_only=True):
    """What a data folder and its lake take."""

    host: str
    folder: str
    at_ms: int
    took_ms: int
    disks: tuple[DiskStatistics, ...]
    directories: tuple[DirectoryStatistics, ...]
    """By name; symbols only as far as they are among the largest."""
    omitted: int = 0
    """The number of symbols that are left out."""

    @property
    def total_bytes(self) -> int:
        return sum(disk.data_bytes for disk in self.disks)


Samples = Mapping[str, Sequence[Sample]]
"""By path of the disk: sizes of the data on it; and by directory, those of datasets."""


async def store_statistics(
    store: StateStore, id_: str, found: StorageStatistics, samples: Samples
) -> None:
    """Replace the statistics of a data folder, and remove those of folders that are not used.

    Raises:
        StoreUnreachable: the store does not answer.
    """
    fields: dict[str, Any] = {
        "at": found.at_ms,
        "statistics": msgspec.to_builtins(found),
        "samples": {path: list(map(list, each)) for path, each in samples.items()},
    }
    [written] = await store.write(STATISTICS, [Write(id_, {}, fields)])
    if written is None:
        await store.insert_if_absent(STATISTICS, {"id": id_, **fields})
    old = [[Condition("at", "<=", StoreNow(-_KEPT_MS))]]
    for document in await store.find(STATISTICS, old, limit=_MOST_FOLDERS):
        if document["id"] != id_:
            await store.delete(STATISTICS, document["id"], {"at": document["at"]})


async def stored_samples(store: StateStore, id_: str) -> dict[str, list[Sample]]:
    """The samples that were stored of a data folder.

    Raises:
        StoreUnreachable: the store does not answer.
    """
    found = await store.get(STATISTICS, id_)
    try:
        return msgspec.convert((found or {}).get("samples", {}), dict[str, list[Sample]])
    except msgspec.ValidationError:  # a newer version wrote them
        return {}


async def read_statistics(store: StateStore) -> list[StorageStatistics]:
    """The latest statistics of every data folder, by machine and folder.

    Raises:
        StoreUnreachable: the store does not answer.
    """
    found = map(_read, await store.find(STATISTICS, limit=_MOST_FOLDERS))
    read = [each for each in found if each is not None]
    return sorted(read, key=lambda each: (each.host, each.folder))


def _read(document: Document) -> StorageStatistics | None:
    try:
        return msgspec.convert(document["statistics"], StorageStatistics)
    except msgspec.ValidationError:  # a newer version wrote it
        return None
