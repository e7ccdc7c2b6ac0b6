"""The log: what just arrived, in order, and never twice.

Each writing process owns one *slot*; readers see all slots as one. Within a slot a key is recorded
once, the first record wins, and every new record of a stream gets the next broadcast number,
from 1, for ever: numbers are stored with the records in one atomic write. ``append`` returns what
was new, and that is never lost: by then it survives ``kill -9`` (``flushed``), or a power cut
(``synced``).

A backend is one file in this folder, named as the scheme of the URL that asks for it.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import Literal, NamedTuple, Protocol, cast

import msgspec
from msgspec import Struct

from penstock.errors import ConfigError, NotOurRecord
from penstock.market.codec import decode
from penstock.market.events import AnyEvent
from penstock.storage.log.keys import Stream

Durability = Literal["flushed", "synced"]
"""``flushed`` survives the death of the process, ``synced`` that of the machine."""


class Stored(Struct, frozen=True, gc=False):
    """One record of the log."""

    stream: Stream
    slot: str
    number: int
    """Its broadcast number in this stream and slot."""
    key: bytes
    record: bytes
    """The event as the codec writes it, in the log and on the bus."""
    topic: str
    """Under which it is published."""
    known: AnyEvent | None = None
    """The event, where whoever made this had it at hand."""

    @property
    def event(self) -> AnyEvent:
        """The event itself, decoded when asked for."""
        return decode(self.record) if self.known is None else self.known

    @property
    def received_at_ns(self) -> int:
        """When it reached us, read without decoding the rest."""
        return received_at_ns(self.record)


class _Received(Struct, gc=False):
    received_at_ns: int


class _Happened(Struct, gc=False):
    """The names under which records have the exchange's time; a candle's is its opening."""

    received_at_ns: int
    at_ns: int | None = None
    at_ms: int | None = None
    open_ms: int | None = None


_decode_received = msgspec.json.Decoder(_Received).decode
_decode_happened = msgspec.json.Decoder(_Happened).decode


def received_at_ns(record: bytes) -> int:
    """When a record was received.

    Raises:
        NotOurRecord: it is damaged.
    """
    try:
        return _decode_received(memoryview(record)[1:]).received_at_ns
    except msgspec.DecodeError as error:
        raise NotOurRecord(f"a damaged record: {error}") from error


def market_ns(record: bytes) -> int:
    """When it happened by the exchange's clock; when it was received, if the exchange gave no time.

    Raises:
        NotOurRecord: it is damaged.
    """
    try:
        found = _decode_happened(memoryview(record)[1:])
    except msgspec.DecodeError as error:
        raise NotOurRecord(f"a damaged record: {error}") from error
    if found.at_ns is not None:
        return found.at_ns
    at_ms = found.open_ms if found.at_ms is None else found.at_ms
    return found.received_at_ns if at_ms is None else at_ms * 1_000_000


class Counts(Struct):
    """What became of the events given to a writer since it was opened."""

    recorded: int = 0
    repeated: int = 0
    """Dropped: the slot held their key already."""
    replaced: int = 0
    """Closed candles the exchange corrected; they are among the recorded too."""
    unclosed: int = 0
    """Dropped: candles that may still change."""


class Span(NamedTuple):
    """A part of a stream: [first, end) by key, [since, until) by receive time or market time."""

    first: bytes | None = None
    end: bytes | None = None
    since_ns: int | None = None
    until_ns: int | None = None
    market_since_ns: int | None = None
    """By the exchange's clock; see ``market_ns``."""
    market_until_ns: int | None = None
    rising: bool = False
    """Whether the ids of this stream rise with market time: then less is read."""


EVERYTHING = Span()


class StreamStats(NamedTuple):
    """One stream in one slot."""

    stream: Stream
    records: int
    """An estimate: numbers given since the oldest batch kept, so corrections count twice."""
    last_number: int
    first_key: bytes
    last_key: bytes
    first_received_ns: int
    """When the record with the first key was received, and below, the last."""
    last_received_ns: int


class SlotStats(NamedTuple):
    """One slot."""

    slot: str
    size_bytes: int
    streams: tuple[StreamStats, ...]


class LogWriter(Protocol):
    """The owner of one slot. Not for several threads at once, except where it says so."""

    @property
    def slot(self) -> str: ...

    @property
    def counts(self) -> Counts: ...

    @property
    def on_disk(self) -> bool:
        """Whether there is anything to sync."""
        ...

    def append(
        self, events: Sequence[AnyEvent], durability: Durability = "flushed"
    ) -> list[Stored]:
        """Record what is new, all of it or nothing; returns it with its numbers.

        It comes stream by stream, in the order of the events within each.

        After a StorageError the next call opens the slot again and goes on from what it holds.

        Raises:
            StorageFull: there is no room. Nothing was acknowledged.
            StorageError: the disk failed. Nothing was acknowledged.
            SlotInUse: after a failure, another process took the slot meanwhile.
            UnusableId: an event cannot be keyed. Nothing was written.
        """
        ...

    def sync(self) -> None:
        """Make all that was appended survive a power cut. May be called in another thread.

        Raises:
            StorageError: it may not survive one.
        """
        ...

    def last_numbers(self) -> Mapping[Stream, int]:
        """The last number of every stream of this slot."""
        ...

    def delete_below(self, stream: Stream, key: bytes) -> None:
        """Forget all records of a stream with lesser keys. Numbers are never given again."""
        ...

    def checkpoint(self, path: Path) -> None:
        """Copy the slot as it is now to a new folder, while it is in use."""
        ...

    def stats(self) -> SlotStats: ...

    def close(self) -> None:
        """Give the slot back. Nothing is lost without it."""
        ...


class LogReader(Protocol):
    """All slots as one, whether their owners run or not. Not for several threads at once.

    Every call sees what was appended before it. Where slots hold the same key it is one record:
    the one received first; of a candle that the exchange corrected, its last correction.
    """

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

        The spans are of keys, rise and do not overlap; there may be many. A key that several slots
        hold comes several times.
        """
        ...

    def numbers(
        self, stream: Stream, slot: str, first: int, last: int | None = None
    ) -> Iterator[Stored]:
        """Records of one slot by broadcast number, ``last`` included, in that order.

        A number that is missing was deleted, or its candle was corrected under a later number.
        """
        ...

    def shown(self, records: Sequence[Stored]) -> list[Stored]:
        """What readers show in the place of each of these records of one stream.

        That is another one if it is a candle that another slot received first, or corrected.
        """
        ...

    def stats(self) -> list[SlotStats]: ...

    def close(self) -> None: ...


class EventLog(Protocol):
    """A log: opened for writing slot by slot, and for reading as a whole."""

    def writer(self, slot: str) -> LogWriter:
        """Own a slot, taking up where its last owner stopped.

        Raises:
            SlotInUse: another process owns it.
            StorageError: it cannot be opened.
        """
        ...

    def reader(self) -> LogReader: ...


def is_slot_name(name: str) -> bool:
    """Whether a slot may be called so: it becomes the name of a folder and of a file."""
    return bool(name) and name.isascii() and all(c.isalnum() or c in "-_" for c in name)


class _Backend(Protocol):
    def open_url(self, rest: str) -> EventLog: ...


# Files of this folder that are parts of every backend.
_SHARED = {
    "checks", "corrections", "damage", "failures", "heads", "keys", "manifest", "pairs", "reader",
    "reindex", "repair", "salvage", "spans", "tuning", "view", "writer",
}  # fmt: skip


def open_log(url: str) -> EventLog:
    """The log a URL names: ``rocksdb:FOLDER`` keeps slots in FOLDER/log/, ``memory:`` nowhere.

    Raises:
        ConfigError: no backend has that scheme, or it cannot read the rest.
    """
    scheme, separator, rest = url.partition(":")
    schemes = {module.name for module in iter_modules(__path__)} - _SHARED
    if not separator or scheme not in schemes:
        known = " or ".join(f"{name}:" for name in sorted(schemes, reverse=True))
        raise ConfigError(
            url, problem=f"is not the URL of a log. It begins with {known}.", origin="log URL"
        )
    backend = cast("_Backend", import_module(f"{__name__}.{scheme}"))
    return backend.open_url(rest)
