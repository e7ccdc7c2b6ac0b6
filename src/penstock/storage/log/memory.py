"""A log in memory, for tests and for uses that need only what is published."""

from bisect import bisect_left, insort
from collections.abc import Collection, Iterator, Sequence
from functools import partial
from pathlib import Path

from penstock.errors import ConfigError, SlotInUse, StorageError
from penstock.storage.log.key_values import Changes, KeyValues
from penstock.storage.log.reader import MergedReader
from penstock.storage.log.writer import SlotWriter


def open_url(rest: str) -> "MemoryLog":
    """An empty log; ``memory:`` is the whole URL."""
    if rest:
        raise ConfigError(
            f"memory:{rest}", problem="a log in memory has no path.", origin="log URL"
        )
    return MemoryLog()


class MemoryLog:
    """Slots that exist as long as this object."""

    def __init__(self) -> None:
        self.folder = None
        self._slots: dict[str, MemoryPairs] = {}

    def writer(self, slot: str, *, briefly: bool = False) -> SlotWriter:  # noqa: ARG002
        return SlotWriter(slot, partial(self._own, slot), on_disk=False)

    def _own(self, slot: str) -> KeyValues:
        kv = self._slots.setdefault(slot, MemoryPairs())
        if kv.owned:
            raise SlotInUse(slot, "another part of this process")
        kv.owned = True
        return kv

    def reader(self) -> MergedReader:
        return MergedReader(_AllSlots(self._slots))


class _AllSlots:
    def __init__(self, slots: "dict[str, MemoryPairs]") -> None:
        self._slots = slots

    def current(self) -> dict[str, KeyValues]:
        return dict(self._slots)

    def names(self) -> Collection[str]:
        return list(self._slots)

    def follow(self, name: str) -> KeyValues:
        return self._slots[name]

    def close(self) -> None: ...


class _Changes:
    def __init__(self) -> None:
        self.made: list[tuple[bytes, bytes, bool]] = []
        """(key, value, False) of a put, (begin, end, True) of a deletion."""

    def put(self, key: bytes, value: bytes, /) -> None:
        self.made.append((key, value, False))

    def delete_range(self, begin: bytes, end: bytes, /) -> None:
        self.made.append((begin, end, True))


class MemoryPairs:
    """A dict beside a sorted list of its keys."""

    def __init__(self) -> None:
        self.owned = False
        self._keys: list[bytes] = []
        self._values: dict[bytes, bytes] = {}

    def get(self, key: bytes) -> bytes | None:
        return self._values.get(key)

    def batch(self) -> _Changes:
        return _Changes()

    def write(self, batch: Changes, *, sync: bool) -> None:  # noqa: ARG002
        assert isinstance(batch, _Changes)
        for key, value, deletes in batch.made:
            if deletes:
                self._delete(key, value)
            else:
                if key not in self._values:
                    insort(self._keys, key)
                self._values[key] = value

    def _delete(self, begin: bytes, end: bytes) -> None:
        first, last = bisect_left(self._keys, begin), bisect_left(self._keys, end)
        for key in self._keys[first:last]:
            del self._values[key]
        del self._keys[first:last]

    def sync(self) -> None: ...

    def scan(
        self, begin: bytes, end: bytes, *, reverse: bool = False
    ) -> Iterator[tuple[bytes, bytes]]:
        # A copy, so that concurrent writes do not affect the reader.
        found = self._keys[bisect_left(self._keys, begin) : bisect_left(self._keys, end)]
        values = [self._values[key] for key in found]
        kv = list(zip(found, values, strict=True))
        return iter(kv[::-1] if reverse else kv)

    def values(self, begin: bytes, end: bytes) -> list[bytes]:
        return [value for _, value in self.scan(begin, end)]

    def keys_within(self, intervals: Sequence[tuple[bytes, bytes]]) -> Iterator[bytes]:
        for begin, end in intervals:
            yield from self._keys[bisect_left(self._keys, begin) : bisect_left(self._keys, end)]

    def catch_up(self) -> None: ...

    def size_bytes(self) -> int:
        return sum(len(key) + len(value) for key, value in self._values.items())

    def compact(self) -> None: ...

    def checkpoint(self, path: str) -> None:
        raise StorageError(
            str(Path(path)),
            "a log in memory cannot be copied to a folder",
            "Keep the log in rocksdb: instead.",
        )

    def close(self) -> None:
        self.owned = False
