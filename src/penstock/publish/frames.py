"""The frames of the bus; each is one ZeroMQ message part.

A frame is its topic, a NUL, a short header and a payload. It begins with the topic, so that sockets
filter by it. Topic, slot and kind of a stream never change, so a publisher encodes them once::

    topic, NUL, version (1), kind (1), length of slot (1), slot, number (8), payload

The version is that of the records in the frame; the layout of frames has never changed. Topics that
begin with ``_`` are reserved for the bus. Whatever the bytes, reading them raises no other error
than ``NotOurRecord``.
"""

import struct
from enum import IntEnum
from functools import lru_cache
from struct import Struct as Layout
from typing import Annotated, NamedTuple

import msgspec
from msgspec import Meta, Struct

from penstock.errors import NotOurRecord
from penstock.market.codec import FORMATS, VERSION

ANNOUNCE = "_announce"
"""The topic of announcements."""
BATCH = "_batch"
"""The topic of frames that carry other frames to the broker, which forwards them one by one."""
JOIN = "_join"
"""A subscription to ``_join.NONCE.WANTED`` is a query: the broker answers on that topic, which only
this subscriber has, with the last records and numbers of the topics wanted."""
STREAMS = "_streams"
"""Likewise ``_streams.NONCE``; the answer is a list of all streams."""
MISSED = b"\x02"
"""First byte of a subscriber's report to the broker: how many messages it missed, in 8 bytes."""
_NAME_BYTES = 255
_MOST = (1 << 63) - 1
_MOST_FIRST = _MOST >> 56
"""The most that the first byte of a number can be."""
_number = Layout(">Q")
_head = Layout(">QQ")


class FrameKind(IntEnum):
    """The kind of a payload."""

    JSON = 1
    """A record as in the log, without its version."""
    MSGPACK = 2
    """The same object as MessagePack."""
    HEAD = 3
    """No record; the number is the last one assigned. See ``Head``."""
    JOINED = 4
    """Packed frames that were sent before; the number is how many such frames follow."""
    FACTS = 5
    """A JSON object of the bus: an announcement, or a list of streams."""
    BATCH = 6
    """Packed frames that are new; the number is their count."""


_KINDS = {int(kind): kind for kind in FrameKind}


class Frame(NamedTuple):
    """One decoded frame."""

    topic: str
    slot: str
    number: int
    kind: FrameKind
    payload: bytes
    version: int = VERSION


class Head(NamedTuple):
    """The payload of a frame of kind HEAD."""

    run: int
    """Increases with every start of the slot's process."""
    log: int
    """The id of the log that holds the slot; each folder has its own."""


Number = Annotated[int, Meta(ge=0, le=_MOST)]


class Announcement(Struct, frozen=True, kw_only=True):
    """The announcement that a slot sends every second."""

    slot: str
    run: Number
    log: Number
    numbers: dict[str, Number]
    """The last number assigned, by topic."""
    published: int = 0
    dropped: int = 0


def wanted_bytes(wanted: str) -> bytes:
    """Return the prefix of frames that match ``wanted``: a topic, or a prefix that ends in a dot.

    An empty string matches everything.
    """
    exact = wanted and not wanted.endswith(".")
    return wanted.encode() + b"\0" if exact else wanted.encode()


def beginning(topic: str, slot: str, kind: FrameKind, version: int = VERSION) -> bytes:
    """Return the first bytes of all frames of one topic, slot and kind; number and payload follow.

    Raises:
        NotOurRecord: a name is empty, too long or contains a NUL.
    """
    topic_bytes, slot_bytes = topic.encode(), slot.encode()
    for name in (topic_bytes, slot_bytes):
        if not 0 < len(name) <= _NAME_BYTES or b"\0" in name:
            raise NotOurRecord(f"{name[:80]!r} cannot be a name on the bus")
    return topic_bytes + b"\0" + bytes([version, kind, len(slot_bytes)]) + slot_bytes


# The same topics are announced every second.
_head_beginning = lru_cache(10_000)(beginning)

number_bytes = _number.pack
"""Encodes the number, which is placed between beginning and payload."""


def write_frame(frame: Frame) -> bytes:
    """Encode a frame."""
    return (
        beginning(frame.topic, frame.slot, frame.kind, frame.version)
        + _number.pack(frame.number)
        + (frame.payload)
    )


def read_frame(data: bytes) -> Frame:
    """Decode a frame.

    Raises:
        NotOurRecord: the bytes are not a frame, or one of a newer version.
    """
    end = data.find(b"\0", 0, _NAME_BYTES + 1)
    try:
        version, kind, length = data[end + 1], data[end + 2], data[end + 3]
        if end < 1 or version not in FORMATS or not length:
            raise NotOurRecord("a frame of another version, or none of ours")
        slot_end = end + 4 + length
        slot = data[end + 4 : slot_end]
        if b"\0" in slot:
            raise NotOurRecord("a frame whose slot is no name")
        (number,) = _number.unpack_from(data, slot_end)
        if number > _MOST:
            raise NotOurRecord("a frame with an invalid number")
        payload = data[slot_end + 8 :]
        return Frame(data[:end].decode(), slot.decode(), number, _KINDS[kind], payload, version)
    except (IndexError, KeyError, ValueError, struct.error) as error:
        raise NotOurRecord(f"a damaged frame: {error!r}") from error


def write_head(head: Head) -> bytes:
    return _head.pack(head.run, head.log)


def head_frame(topic: str, slot: str, last: int, payload: bytes) -> bytes:
    """Encode a frame of kind HEAD, with an encoded ``Head`` as payload."""
    return _head_beginning(topic, slot, FrameKind.HEAD) + _number.pack(last) + payload


def number_place(data: bytes) -> int:
    """Where the number of a frame begins; the bytes before it are the same in a whole stream.

    Raises:
        NotOurRecord: there is no number. What is before it was not checked.
    """
    end = data.find(b"\0", 1, _NAME_BYTES + 1)
    try:
        place = end + 4 + data[end + 3]
        if data[place] <= _MOST_FIRST and len(data) >= place + _number.size:
            return place
    except IndexError:
        pass
    raise NotOurRecord("a frame without a number")


def read_number(data: bytes) -> int:
    """Return the number of a frame.

    Raises:
        NotOurRecord: there is no number. What is before it was not checked.
    """
    number: int = _number.unpack_from(data, number_place(data))[0]
    return number


def read_head(payload: bytes) -> Head:
    """Raises: NotOurRecord: the payload is not a head."""
    try:
        return Head(*_head.unpack(payload))
    except struct.error as error:
        raise NotOurRecord(f"a damaged frame: {error}") from error


def payload_of(record: bytes, kind: FrameKind) -> tuple[FrameKind, bytes]:
    """Encode a record of the log as a payload; as JSON if ``kind`` cannot represent it."""
    if kind is FrameKind.MSGPACK:
        try:
            return kind, msgspec.msgpack.encode(msgspec.json.decode(memoryview(record)[1:]))
        except (OverflowError, msgspec.MsgspecError):
            # MessagePack has integers of up to 64 bits; an exchange's ids may be longer.
            pass
    return FrameKind.JSON, record[1:]


def record_of(frame: Frame) -> bytes:
    """Return the record in a frame, encoded as in the log.

    Raises:
        NotOurRecord: the frame has no valid record.
    """
    if frame.kind is FrameKind.JSON:
        return bytes([frame.version]) + frame.payload
    if frame.kind is not FrameKind.MSGPACK:
        raise NotOurRecord(f"a frame of kind {frame.kind.name}, where a record should be")
    try:
        payload = msgspec.json.encode(msgspec.msgpack.decode(frame.payload))
    except (msgspec.MsgspecError, TypeError, ValueError, RecursionError) as error:
        raise NotOurRecord(f"a damaged payload: {error}") from error
    return bytes([frame.version]) + payload


def pack_frames(frames: list[bytes]) -> bytes:
    """Encode several frames as one payload."""
    return msgspec.msgpack.encode(frames)


def unpack_frames(payload: bytes) -> list[bytes]:
    """Raises: NotOurRecord: the payload is damaged; the frames themselves are not decoded."""
    try:
        return _unpack(payload)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise NotOurRecord(f"a damaged payload: {error}") from error


def read_announcement(payload: bytes) -> Announcement:
    """Raises: NotOurRecord: the payload is not an announcement."""
    try:
        announcement = _announcement(payload)
        for topic in announcement.numbers:
            _head_beginning(topic, announcement.slot, FrameKind.HEAD)
        return announcement
    except (msgspec.MsgspecError, RecursionError, ValueError) as error:
        raise NotOurRecord(f"a damaged announcement: {error}") from error


_unpack = msgspec.msgpack.Decoder(list[bytes]).decode
_announcement = msgspec.json.Decoder(Announcement).decode
