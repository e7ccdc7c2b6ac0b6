"""Pairs: the ordered map of bytes a slot is kept in. All that a backend of the log must supply."""

from collections.abc import Iterator, Sequence
from typing import Protocol


class PairBatch(Protocol):
    """Changes that are made together or not at all."""

    def put(self, key: bytes, value: bytes, /) -> None: ...

    def delete_range(self, begin: bytes, end: bytes, /) -> None:
        """Forget every key in [begin, end)."""
        ...


class Pairs(Protocol):
    """Bytes by bytes, in the order of the keys. Every method may raise StorageError."""

    def get(self, key: bytes) -> bytes | None: ...

    def batch(self) -> PairBatch:
        """An empty set of changes."""
        ...

    def write(self, batch: PairBatch, *, sync: bool) -> None:
        """Make these changes; they survive this process, and with ``sync`` the machine's power."""
        ...

    def sync(self) -> None:
        """Make everything written so far survive the machine's power. Lets other threads run."""
        ...

    def scan(
        self, begin: bytes, end: bytes, *, reverse: bool = False
    ) -> Iterator[tuple[bytes, bytes]]:
        """Pairs with begin ≤ key < end, lowest key first, or highest first."""
        ...

    def keys_within(self, intervals: Sequence[tuple[bytes, bytes]]) -> Iterator[bytes]:
        """Keys with begin ≤ key < end of any of these, which rise and do not overlap."""
        ...

    def catch_up(self) -> None:
        """See what the owner wrote meanwhile; the owner itself sees everything anyway."""
        ...

    def size_bytes(self) -> int:
        """What it takes on disk, or in memory."""
        ...

    def checkpoint(self, path: str) -> None:
        """Copy everything, as of now, to a folder that does not exist yet."""
        ...

    def close(self) -> None: ...
