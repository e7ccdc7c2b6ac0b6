"""The ordered map of bytes that stores a slot: all that a backend of the log must provide."""

from collections.abc import Collection, Iterator, Sequence
from typing import Protocol


class Changes(Protocol):
    """Changes that are applied together or not at all."""

    def put(self, key: bytes, value: bytes, /) -> None: ...

    def delete_range(self, begin: bytes, end: bytes, /) -> None:
        """Delete every key in [begin, end)."""
        ...


class KeyValues(Protocol):
    """A map of bytes to bytes, ordered by key. Every method may raise StorageError."""

    def get(self, key: bytes) -> bytes | None: ...

    def batch(self) -> Changes:
        """An empty set of changes."""
        ...

    def write(self, batch: Changes, *, sync: bool) -> None:
        """Apply changes; they survive a crash of the process, with ``sync`` a power cut."""
        ...

    def sync(self) -> None:
        """Make everything written so far survive a power cut. Other threads run meanwhile."""
        ...

    def scan(
        self, begin: bytes, end: bytes, *, reverse: bool = False
    ) -> Iterator[tuple[bytes, bytes]]:
        """Entries with begin ≤ key < end, lowest key first, or highest first."""
        ...

    def values(self, begin: bytes, end: bytes) -> list[bytes]:
        """Values of entries with begin ≤ key < end, lowest key first. Faster than a scan."""
        ...

    def keys_within(self, intervals: Sequence[tuple[bytes, bytes]]) -> Iterator[bytes]:
        """Keys with begin ≤ key < end of any of these, which are sorted and do not overlap."""
        ...

    def catch_up(self) -> None:
        """Read what the owner wrote meanwhile; the owner itself always sees everything."""
        ...

    def size_bytes(self) -> int:
        """The size on disk, or in memory."""
        ...

    def compact(self) -> None:
        """Free the space of what was deleted. Other threads run meanwhile."""
        ...

    def checkpoint(self, path: str) -> None:
        """Copy everything, as of now, to a folder that does not exist yet."""
        ...

    def close(self) -> None: ...


class Slots(Protocol):
    """All slots by name, each opened for reading and up to date."""

    def current(self) -> dict[str, KeyValues]: ...

    def names(self) -> Collection[str]:
        """The names alone; nothing is opened."""
        ...

    def follow(self, name: str) -> KeyValues:
        """One of them, up to date."""
        ...

    def close(self) -> None: ...
