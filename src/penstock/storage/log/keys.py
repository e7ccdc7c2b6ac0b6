"""The keys of records in a stream, and of all entries in a slot.

A record is keyed by the exchange's own id, so that a duplicate has the same key; without an id, by
its arrival. Keys are bytes whose order is the order of the ids: eight big-endian bytes for every id
an exchange is likely to use, and two longer forms that sort after them::

    id < 0xFE << 56      8 bytes, big-endian
    arrival              FE, nanoseconds (8), counter (4)
    any greater id       FF, length (1), big-endian bytes

In a slot every entry begins with a letter and the stream's number within that slot::

    f                                   the layout's version
    s, stream                         → the stream's name
    r, stream, key                    → record number (8), record
    n, stream, number (8)             → the batch of records that begins with this number
    t, stream, second (8), number (8) → nothing: a batch at this number received in this second

The entry of a closed batch describes all its records, that of an open batch only the first. An open
batch holds all records up to the next batch: their keys and numbers rise together, and all were
received in one second.
"""

from struct import Struct as Layout
from typing import NamedTuple

from penstock.errors import NotOurRecord, UnusableId
from penstock.market.channels import BY_EVENT
from penstock.market.events import Event

VERSION = b"2"
OLDER = (None, b"1")
"""Layouts that are subsets of this one: in the first, every batch is closed."""
VERSION_KEY = b"f"
PLAIN_IDS = 0xFE << 56
"""Ids below this are keyed by eight bytes."""
SECOND_NS = 1_000_000_000
AFTER_ALL = b"\xff" * 300
"""Sorts after every key."""


eight_bytes = Layout(">Q").pack
"""Encodes a number for keys and values."""


class Stream(NamedTuple):
    """One channel of one market on one exchange: numbered, stored and published together."""

    exchange: str
    channel: str
    symbol: str
    """The symbol's slug."""

    def __str__(self) -> str:
        return f"{self.exchange}.{self.channel}.{self.symbol}"


def stream_of(event: Event) -> Stream:
    """The stream an event belongs to."""
    return Stream(event.exchange, BY_EVENT[type(event)].name_of(event), event.symbol.slug)


def id_of(event: Event) -> int | None:
    """The exchange's own id of an event; None if it has none."""
    return BY_EVENT[type(event)].id_of(event)


def place_of(event: Event) -> tuple[Stream, bytes]:
    """The stream and key of an event, as if nothing else had arrived in the same nanosecond.

    Raises:
        UnusableId: its id is negative or too long.
    """
    found = id_of(event)
    key = key_of_arrival(event.received_at_ns) if found is None else key_of_id(found)
    return stream_of(event), key


def key_of_id(number: int) -> bytes:
    """The key of an exchange's own id.

    Raises:
        UnusableId: it is negative or too long.
    """
    if 0 <= number < PLAIN_IDS:
        return number.to_bytes(8, "big")
    length = (number.bit_length() + 7) // 8
    if number < 0 or length > 255:
        raise UnusableId(number)
    return b"\xff" + bytes([length]) + number.to_bytes(length, "big")


MOST_AT_ONCE = (1 << 32) - 1
"""The greatest ``counter`` of ``key_of_arrival``."""


def key_of_arrival(received_at_ns: int, counter: int = 0) -> bytes:
    """The key of the ``counter``-th event without an id that arrived in one nanosecond."""
    if not 0 <= received_at_ns < 1 << 64:
        raise UnusableId(received_at_ns)
    return _ARRIVAL.pack(0xFE, received_at_ns, counter)


_ARRIVAL = Layout(">BQI")
FIRST_ARRIVAL = b"\xfe"
FIRST_LONG_ID = b"\xff"


def id_of_key(key: bytes) -> int | None:
    """The exchange's id in a key; None for an arrival."""
    if key[0] == 0xFE:
        return None
    return int.from_bytes(key[2:] if key[0] == 0xFF else key, "big")


def arrival_of_key(key: bytes) -> int | None:
    """The receive time in a key; None for an id."""
    return int.from_bytes(key[1:9], "big") if key[0] == 0xFE else None


def key_text(key: bytes) -> str:
    """A key as text: ``3215``, or ``received:1700000000123456789/0``."""
    number = id_of_key(key)
    if number is not None:
        return str(number)
    return f"received:{arrival_of_key(key)}/{int.from_bytes(key[9:], 'big')}"


def key_after(key: bytes) -> bytes:
    """The lowest key above this one."""
    return key + b"\0"


def prefix(letter: bytes, stream: int) -> bytes:
    """The prefix of all entries of one kind and stream."""
    return letter + stream.to_bytes(4, "big")


def past(beginning: bytes) -> bytes:
    """The lowest bytes above everything with this prefix."""
    return (int.from_bytes(beginning, "big") + 1).to_bytes(len(beginning), "big")


class Batch(NamedTuple):
    """Records of one stream with consecutive numbers, and the bounds of their keys."""

    first_number: int
    records: int
    """0 while it is open: then only the first number, key and receive time are known."""
    low: bytes
    high: bytes
    first_received_ns: int
    last_received_ns: int

    @property
    def last_number(self) -> int:
        return self.first_number + self.records - 1

    @property
    def span_ns(self) -> tuple[int, int]:
        """The times between which all of it was received, both included.

        For a batch of one second these are its ends: the times of an open batch are those of its
        first record.
        """
        first, last = self.first_received_ns, self.last_received_ns
        if first // SECOND_NS == last // SECOND_NS:
            first -= first % SECOND_NS
            last = first + SECOND_NS - 1
        return first, last

    def within_second(self, second: int) -> bool:
        """Whether all of it was received in this second."""
        return self.first_received_ns // SECOND_NS == second == self.last_received_ns // SECOND_NS


_BATCH = Layout(">IQQB")


def write_batch(batch: Batch) -> bytes:
    """The value of a batch's entry; its first number is in the entry's key."""
    head = _BATCH.pack(
        batch.records, batch.first_received_ns, batch.last_received_ns, len(batch.low)
    )
    return head + batch.low + batch.high


def read_batch(entry: bytes, value: bytes) -> Batch:
    """The batch of an ``n`` entry.

    Raises:
        NotOurRecord: it is damaged.
    """
    if len(value) < _BATCH.size + 2 or len(entry) != 13:
        raise NotOurRecord("a damaged entry in the log's index of numbers")
    records, first_ns, last_ns, length = _BATCH.unpack_from(value)
    low_end = _BATCH.size + length
    low, high = value[_BATCH.size : low_end], value[low_end:]
    return Batch(int.from_bytes(entry[5:], "big"), records, low, high, first_ns, last_ns)


def write_stream(stream: Stream) -> bytes:
    """A stream's name, as it is stored in its entry."""
    return "\0".join(stream).encode()


def read_stream(value: bytes) -> Stream:
    """The stream of an ``s`` entry.

    Raises:
        NotOurRecord: it is damaged.
    """
    try:
        exchange, channel, symbol = value.decode().split("\0")
    except ValueError as error:
        raise NotOurRecord("a damaged stream name in the log") from error
    return Stream(exchange, channel, symbol)


def is_slot_name(name: str) -> bool:
    """Whether a slot may have this name: it becomes the name of a folder and of a file."""
    return bool(name) and name.isascii() and all(c.isalnum() or c in "-_" for c in name)
