"""A WebSocket is read by the compiled path exactly as by picows alone."""

import gc
import weakref
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock import compiled
from penstock.collect.sockets import LARGEST_FRAME

from .wires import (
    BINARY,
    CLOSE,
    CONTINUATION,
    FIN,
    MOST_AT_ONCE,
    PING,
    PONG,
    TEXT,
    One,
    frame,
    receive_all,
    run,
    some_reads,
)

pytestmark = pytest.mark.skipif(compiled.PlainFrames is None, reason=compiled.WHY_NOT)

PING_FRAME = frame(b"now", FIN | PING)
MESSAGE = [frame(b"a" * 200, TEXT), frame(b"b", CONTINUATION), frame(b"c", FIN | CONTINUATION)]
MASKED = bytes([FIN | TEXT, 0x80 | 3, 0, 0, 0, 0]) + b"abc"
ODD = {
    "a ping": PING_FRAME,
    "a close": frame(b"\x03\xe8", FIN | CLOSE),
    "a message in pieces": b"".join(MESSAGE),
    "a ping between pieces": MESSAGE[0] + PING_FRAME + MESSAGE[1] + MESSAGE[2],
    "a message between pieces": MESSAGE[0] + frame(b"x" * 200) + MESSAGE[1] + MESSAGE[2],
    "an end without a beginning": MESSAGE[2],
    "reserved bits": frame(b"x" * 200, FIN | 0x40 | TEXT),
    "a reserved opcode": frame(b"x" * 200, FIN | 3),
    "a masked frame": MASKED,
    "a length in too many bytes": frame(b"x", length_bytes=2),
    "a length in far too many bytes": frame(b"x" * 300, length_bytes=8),
    "a frame beyond all measure": bytes([FIN | TEXT, 127]) + (LARGEST_FRAME + 1).to_bytes(8),
    "a length of 64 bits": bytes([FIN | TEXT, 127]) + ((1 << 64) - 1).to_bytes(8),
}


@given(st.integers(0, 1 << 32))
def test_whatever_arrives_in_whatever_pieces_both_do_the_same(seed: int) -> None:
    run(seed)


@pytest.mark.parametrize("odd", ODD)
async def test_wherever_a_read_ends_both_do_the_same(odd: str) -> None:
    plain = frame(b"before"), frame(b"1" * 130, FIN | BINARY), frame(b""), frame(b"2" * 126)
    data = b"".join(plain[:2]) + ODD[odd] + b"".join(plain[2:])
    for cut in range(len(data)):
        await receive_all([frame(b"first"), data[:cut], data[cut:], *plain])


@pytest.mark.parametrize("odd", ODD)
async def test_byte_by_byte_both_do_the_same(odd: str) -> None:
    data = frame(b"first") + frame(b"second") + ODD[odd] + frame(b"third") + frame(b"last" * 40)

    await receive_all([bytes([byte]) for byte in data])


@pytest.mark.parametrize("size", [65_535, 65_536, 250_000, 262_144, 400_000, 3_000_000])
async def test_large_frames_are_read_the_same_and_take_no_room_afterwards(size: int) -> None:
    data = frame(b"x" * size) + frame(b"y")
    reads = [data[at : at + MOST_AT_ONCE] for at in range(0, len(data), MOST_AT_ONCE)]

    both = await receive_all([frame(b"first"), *reads, frame(b"last")])

    assert [len(each) for each in both.compiled.socket.frames] == [5, size, 1, 4]
    assert both.compiled.is_plain
    assert len(both.compiled.wire.protocol.get_buffer(-1)) == 256 * 1024


async def test_plain_frames_are_read_without_picows() -> None:
    both = await receive_all([frame(b"first"), frame(b"a") + frame(b"b" * 400), frame(b"c")])

    assert both.compiled.is_plain
    assert not both.python.is_plain


async def test_after_a_ping_plain_frames_are_read_without_picows_again() -> None:
    one = One()
    one.receive(frame(b"first"))
    one.receive(frame(b"a") + PING_FRAME)
    assert not one.is_plain
    assert one.sent() == [(FIN | PONG, b"now")]

    one.receive(frame(b"b"))
    assert one.is_plain
    one.receive(frame(b"c"))

    assert one.is_plain
    assert one.socket.frames == [b"first", b"a", b"b", b"c"]
    assert len(one.sent()) == 1
    one.close()


async def test_while_picows_has_a_part_of_a_frame_it_reads_on() -> None:
    one, whole = One(), frame(b"whole" * 30)
    one.receive(frame(b"first") + whole[:9])
    assert not one.is_plain

    one.receive(whole[9:])

    assert one.is_plain
    assert one.socket.frames == [b"first", b"whole" * 30]
    one.close()


async def test_what_is_more_than_picows_takes_at_once_is_handed_on_to_its_end() -> None:
    one, large, last = One(), frame(b"x" * 480_000), frame(b"last" * 50)
    one.receive(frame(b"first"))
    one.receive(large[:470_000])
    one.socket.take()
    room = len(one.wire.protocol._other.get_buffer(-1))
    # What picows takes first ends with a frame, so that it has no part of another one.
    filling = frame(b"y" * (room - len(PING_FRAME) - 10))
    assert len(PING_FRAME + filling) == room
    one.receive(large[470_000:] + PING_FRAME + filling + frame(b"more") + last[:-1])
    assert not one.is_plain

    one.receive(last[-1:])

    assert [len(each) for each in one.socket.frames] == [480_000, room - 15, 4, 200]
    assert one.is_plain
    one.close()


class Reader:
    """What reads plain frames, by itself, and all that comes of it."""

    def __init__(self, room: int, largest: int) -> None:
        assert compiled.PlainFrames is not None
        self.arrived = list[bytes]()
        self.stamps_ns = list[int]()
        self.told = list[int]()
        self.rests = list[bytes]()
        self.now_ns = 5
        self.frames = compiled.PlainFrames(
            room, largest, self.arrived, self.stamps_ns,
            lambda: self.now_ns, 1_000, 3, self.told.append, self.rests.append,
        )  # fmt: skip

    def read(self, data: bytes) -> None:
        while data:
            buffer = self.frames.get_buffer(-1)
            size = min(len(buffer), len(data))
            buffer[:size] = data[:size]
            self.frames.buffer_updated(size)
            data = data[size:]


def test_frames_are_told_of_when_they_are_the_first_and_when_they_are_many() -> None:
    reader, one = Reader(4_000, 1_000), frame(b"x" * 10)
    assert reader.frames.last_ns == 0
    for now_ns in (7, 8, 9, 10):
        reader.now_ns = now_ns
        reader.read(one)

    assert reader.told == [1, 3]
    assert reader.stamps_ns == [1_007, 1_008, 1_009, 1_010]

    reader.arrived.clear()
    reader.stamps_ns.clear()
    reader.read(one * 5)
    reader.read(one)

    assert reader.told == [1, 3, 5]
    assert reader.stamps_ns == [1_010, 1_011, 1_012, 1_013, 1_014, 1_010]
    assert reader.frames.last_ns == 10


def test_a_clock_that_tells_no_time_is_an_error() -> None:
    reader = Reader(4_000, 1_000)
    for wrong in (1.5, None, 1 << 64):
        reader.now_ns = wrong  # type: ignore[assignment]
        with pytest.raises(TypeError, match="a time is an int"):
            reader.read(frame(b"x"))


def test_a_payload_may_be_as_large_as_is_said() -> None:
    reader = Reader(4_000, 1_000)
    for size in (1_000, 1_001):
        reader.read(frame(b"x" * size))

    assert reader.arrived == [b"x" * 1_000]
    assert reader.rests == [frame(b"x" * 1_001)]


@pytest.mark.parametrize("room", [10, 11, 64, 300])
@given(seed=st.integers(0, 1 << 32))
def test_with_however_little_room_no_frame_is_lost(room: int, seed: int) -> None:
    chance, reader = Random(seed), Reader(room, 1_000)
    payloads = [chance.randbytes(chance.choice((0, 3, 125, 126, 500))) for _ in range(20)]
    for read in some_reads(chance, [frame(each) for each in payloads]):
        reader.read(read)

    assert reader.arrived == payloads
    assert len(reader.stamps_ns) == len(payloads)
    assert reader.rests == []


def test_more_bytes_than_there_is_room_for_cannot_have_arrived() -> None:
    frames = Reader(100, 1_000).frames
    for size in (101, -1, 1 << 70):
        with pytest.raises((ValueError, OverflowError)):
            frames.buffer_updated(size)
    for room, largest in ((9, 10), (100, -1), (100, (1 << 63) - 1)):
        with pytest.raises(ValueError, match="too"):
            Reader(room, largest)


def test_a_view_of_bytes_that_were_replaced_may_be_kept() -> None:
    frames, large = Reader(16, 1_000).frames, frame(b"x" * 100)
    kept = []
    for byte in large[:-1]:
        kept.append(frames.get_buffer(-1))
        kept[-1][:1] = bytes([byte])
        frames.buffer_updated(1)

    assert bytes(kept[0])[:2] == large[:2]


async def test_a_socket_that_nobody_has_is_gone() -> None:
    one = One()
    one.receive(frame(b"first"))
    socket = weakref.ref(one.socket)
    one.close()
    del one
    gc.collect()

    assert socket() is None
