"""The log stores received events in order and without duplicates.

Each writing process owns one *slot*; readers see all slots as one. Within a slot a key is recorded
once, the first record wins, and every new record of a stream gets the next record number.
Numbers start at 1, are never reused, and are stored with the records in one atomic write.
``append`` returns what was new, and that is never lost: by then it survives ``kill -9``
(``flushed``), or a power cut (``synced``).

A backend is one file in this folder, named after its URL scheme.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import Literal, NamedTuple, Protocol, cast

import msgspec
from msgspec import Struct

from penstock.errors import ConfigError, NotOurRecord, near_matches
from penstock.market.codec import decode
from penstock.market.events import Event
from penstock.storage.log.followed import LogFollower
from penstock.storage.log.keys import Stream

Durability = Literal["flushed", "synced"]
"""``flushed`` survives a crash of the process, ``synced`` a crash of the machine."""


class Stored(Struct, frozen=True, gc=False):
    """One record of the log."""

    stream: Stream
    slot: str
    number: int
    """Its record number in this stream and slot."""
    key: bytes
    record: bytes
    """The encoded event, as it is in the log and on the bus."""
    topic: str
    """The topic under which it is published."""
    known: Event | None = None
    """The decoded event, if it was available when this was created."""

    @property
    def event(self) -> Event:
        """The event itself, decoded on access."""
        return decode(self.record) if self.known is None else self.known

    @property
    def received_at_ns(self) -> int:
        """When it was received, read without decoding the rest."""
        return received_at_ns(self.record)


class Received(Struct, frozen=True, gc=False, order=True):
    """One record with its receive time. Sorted, such records are in the order of replay."""

    received_at_ns: int
    slot: str
    number: int
    topic: str
    record: bytes

    @property
    def event(self) -> Event:
        """The event, decoded on access."""
        return decode(self.record)


class ReceivedPart(NamedTuple):
    """Records that were received in a range of time, and the end of that range."""

    records: list[Received]
    until_ns: int


class _Received(Struct, gc=False):
    received_at_ns: int


_decode_received = msgspec.json.Decoder(_Received).decode


def received_at_ns(record: bytes) -> int:
    """When a record was received.

    Raises:
        NotOurRecord: it is damaged.
    """
    try:
        return _decode_received(memoryview(record)[1:]).received_at_ns
    except msgspec.DecodeError as error:
        raise NotOurRecord(f"a damaged record: {error}") from error


class Counts(Struct):
    """How many events a writer has recorded and dropped since it was opened."""

    recorded: int = 0
    repeated: int = 0
    """Dropped: the slot held their key already."""
    replaced: int = 0
    """Closed candles that the exchange corrected; they are counted as recorded too."""
    unclosed: int = 0
    """Dropped: candles that may still change."""


class Span(NamedTuple):
    """A part of a stream: [first, end) by key, [since, until) by receive time or market time."""

    first: bytes | None = None
    end: bytes | None = None
    since_ns: int | None = None
    until_ns: int | None = None
    market_since_ns: int | None = None
    """By the exchange's clock; see ``spans.market_ns``."""
    market_until_ns: int | None = None
    rising: bool = False
    """Whether the ids of this stream rise with market time: then less is read."""


EVERYTHING = Span()


class StreamStats(NamedTuple):
    """One stream in one slot."""

    stream: Stream
    records: int
    """An estimate: numbers assigned since the oldest batch kept, so corrections count twice."""
    last_number: int
    first_key: bytes
    last_key: bytes
    first_received_ns: int
    """When the record with the first key was received, and below, the last."""
    last_received_ns: int
    record_bytes: int = 0
    """An estimate of a record's size: the mean of the first and the last."""


class SlotStats(NamedTuple):
    """One slot."""

    slot: str
    size_bytes: int
    streams: tuple[StreamStats, ...]


class LogWriter(Protocol):
    """The owner of one slot. Not thread-safe, except where stated."""

    @property
    def slot(self) -> str: ...

    @property
    def counts(self) -> Counts: ...

    @property
    def on_disk(self) -> bool:
        """Whether there is anything to sync."""
        ...

    def append(self, events: Sequence[Event], durability: Durability = "flushed") -> list[Stored]:
        """Record the new events, all or none; return them with their numbers.

        They are returned stream by stream, in the order of the events within each. After a
        StorageError the next call opens the slot again and continues from what it holds.

        Raises:
            StorageFull: the disk is full. Nothing was acknowledged.
            StorageError: the disk failed. Nothing was acknowledged.
            SlotInUse: after a failure, another process took the slot meanwhile.
            UnusableId: an event cannot be keyed. Nothing was written.
        """
        ...

    def sync(self) -> None:
        """Make everything appended survive a power cut. May be called in another thread.

        Raises:
            StorageError: it may not survive one.
        """
        ...

    def last_numbers(self) -> Mapping[Stream, int]:
        """The last number of every stream of this slot."""
        ...

    def skip_numbers(self, numbers: Mapping[Stream, int]) -> None:
        """Continue above these numbers, where they are higher than those of this slot.

        This survives a power cut.

        Raises:
            StorageError: the disk failed.
        """
        ...

    def delete_below(self, stream: Stream, key: bytes, *, seen: int | None = None) -> bool:
        """Delete all records of a stream with lower keys. Numbers are never reused.

        With ``seen``, nothing is deleted if a record after that number may have a lower key. False:
        nothing was deleted.
        """
        ...

    def compact(self) -> None:
        """Free the disk space of deleted records. May be called in another thread."""
        ...

    def checkpoint(self, path: Path) -> None:
        """Copy the slot as it is now to a new folder, while it is in use.

        May be called in another thread.

        Raises:
            StorageError: it cannot be copied.
        """
        ...

    def stats(self) -> SlotStats: ...

    def close(self) -> None:
        """Release the slot. Nothing is lost without it."""
        ...


class LogReader(Protocol):
    """All slots as one, whether their owners run or not. Not thread-safe.

    Every call sees what was appended before it. A key that several slots hold is one record: the
    one received first; for a candle that the exchange corrected, its last correction.
    """

    def held(self) -> "LogReader":
        """A reader of what is there now, for many calls: it does not look for what is appended.

        Use it before the next call of this reader, which closes it.
        """
        ...

    def slots(self) -> list[str]: ...

    def streams(self) -> list[Stream]: ...

    def scan(
        self,
        stream: Stream,
        span: Span = EVERYTHING,
        *,
        reverse: bool = False,
        limit: int | None = None,
    ) -> Iterator[Stored]:
        """Records of a part of a stream, in the order of their keys."""
        ...

    def keys_in(self, stream: Stream, spans: Iterable[Span]) -> Iterator[bytes]:
        """Keys of records in any of these parts of a stream, slot by slot.

        The spans have bounds by key, are sorted and do not overlap; there may be many. A key that
        several slots hold is returned several times.
        """
        ...

    def numbers(
        self, stream: Stream, slot: str, first: int, last: int | None = None
    ) -> Iterator[Stored]:
        """Records of one slot by record number, ``last`` included, in that order.

        A number that is missing was deleted, or its candle was corrected under a later number.
        """
        ...

    def received(
        self, streams: Collection[Stream], since_ns: int, until_ns: int, most: int
    ) -> ReceivedPart:
        """The records of some streams that were received in [since, until), in no fixed order.

        Or those of a shorter range; always, if they are more than ``most`` in several seconds.
        """
        ...

    def next_received_ns(self, streams: Collection[Stream], since_ns: int) -> int | None:
        """A time at or after ``since_ns``, and none of these records was received in between.

        None: there is no later record.
        """
        ...

    def end_ns(self, streams: Collection[Stream]) -> int | None:
        """A time after every record of these streams; None without records."""
        ...

    def number_before(self, stream: Stream, slot: str, received_ns: int) -> int:
        """A number up to which all records of a slot were received before this time.

        0 if there is none. A record that was received after others and recorded before them may be
        an exception. The records of the second of that time are left out.
        """
        ...

    def lowest_key(self, stream: Stream, slot: str, first: int) -> bytes | None:
        """A key that no record of a slot numbered ``first`` or higher is below, if there is one."""
        ...

    def lacks_any(self, slot: str, records: Mapping[Stream, bytes]) -> bool:
        """Whether a slot lacks the record of a stream with this key, for any of the streams."""
        ...

    def shown(self, records: Sequence[Stored]) -> list[Stored]:
        """The record that readers show in place of each of these records of one stream: another
        one for a candle that another slot received first, or corrected.
        """
        ...

    def follower(self) -> LogFollower: ...

    def stats(self) -> list[SlotStats]: ...

    def close(self) -> None: ...


class EventLog(Protocol):
    """A log, with a writer per slot and readers of all slots."""

    @property
    def folder(self) -> Path | None:
        """The folder that it is in; None if it is in memory."""
        ...

    def writer(self, slot: str, *, briefly: bool = False) -> LogWriter:
        """Open a slot as its owner, continuing where the last owner stopped.

        ``briefly``: it is released soon, so that other processes wait for it.

        Raises:
            SlotInUse: another process owns it.
            StorageError: it cannot be opened.
        """
        ...

    def reader(self) -> LogReader: ...


class _Backend(Protocol):
    def open_url(self, rest: str) -> EventLog: ...


# Files of this folder that are not backends.
_SHARED = {
    "appending", "by_time", "checks", "compiled_appending", "corrections", "damage", "deleting",
    "failures", "followed", "following", "heads", "index", "key_values", "keys", "linked_folder",
    "manifest", "reader", "reindex", "repair", "salvage", "spans", "tuning", "writer",
}  # fmt: skip


def open_log(url: str) -> EventLog:
    """Open the log at a URL: ``rocksdb:FOLDER`` has slots in FOLDER/log/, ``memory:`` no files.

    Raises:
        ConfigError: no backend has that scheme, or it cannot parse the rest.
    """
    scheme, separator, rest = url.partition(":")
    schemes = {module.name for module in iter_modules(__path__)} - _SHARED
    if not separator or scheme not in schemes:
        known = " or ".join(f"{name}:" for name in sorted(schemes, reverse=True))
        near = near_matches(scheme, schemes)
        meant = f" Did you mean {near[0]}:?" if near else ""
        problem = f"is not the URL of a log.{meant} It begins with {known}."
        raise ConfigError(url, problem=problem, origin="log URL")
    return cast("_Backend", import_module(f"{__name__}.{scheme}")).open_url(rest)
