"""Frames: what is written is read, and whatever else comes in is refused in one way."""

from collections.abc import Callable
from contextlib import suppress

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import NotOurRecord
from penstock.market.codec import FORMATS, VERSION, decode
from penstock.market.events import Ticker
from penstock.publish.frames import (
    Announcement,
    Frame,
    FrameKind,
    Head,
    pack_frames,
    payload_of,
    read_announcement,
    read_frame,
    read_head,
    record_of,
    unpack_frames,
    wanted_bytes,
    write_frame,
    write_head,
)

from .conftest import TOPIC, record

NAMES = st.text(st.characters(exclude_characters="\0", codec="utf-8"), min_size=1, max_size=60)
FRAMES = st.builds(
    Frame,
    NAMES,
    NAMES,
    st.integers(0, (1 << 63) - 1),
    st.sampled_from(FrameKind),
    st.binary(),
    st.sampled_from(FORMATS),
)


@given(FRAMES)
def test_a_frame_is_read_as_it_was_written(frame: Frame) -> None:
    assert read_frame(write_frame(frame)) == frame


@given(st.lists(FRAMES, max_size=5))
def test_frames_are_unpacked_as_they_were_packed(frames: list[Frame]) -> None:
    packed = pack_frames([write_frame(frame) for frame in frames])

    assert [read_frame(each) for each in unpack_frames(packed)] == frames


@given(st.one_of(st.binary(), st.builds(lambda f, n: write_frame(f)[:n], FRAMES, st.integers(0))))
def test_hostile_bytes_are_refused_in_one_way(data: bytes) -> None:
    for read in (read_frame, read_head, unpack_frames, read_announcement):
        with suppress(NotOurRecord):
            read(data)
    with suppress(NotOurRecord):
        record_of(read_frame(data))


@given(FRAMES)
def test_a_payload_that_is_no_record_is_refused_in_one_way(frame: Frame) -> None:
    with suppress(NotOurRecord):
        decode(record_of(frame))


@pytest.mark.parametrize(
    "spoil", [lambda d: d[:3], lambda d: d.replace(bytes([VERSION]), bytes([VERSION + 1]), 1)]
)
def test_a_spoiled_frame_is_refused(spoil: Callable[[bytes], bytes]) -> None:
    whole = write_frame(Frame("t", "s", 5, FrameKind.JSON, b"{}"))
    assert read_frame(whole).number == 5

    with pytest.raises(NotOurRecord):
        read_frame(spoil(whole))


@pytest.mark.parametrize("kind", [FrameKind.JSON, FrameKind.MSGPACK])
def test_a_frame_of_an_older_publisher_brings_its_record(kind: FrameKind) -> None:
    told = {
        "kind": "ticker", "exchange": "x", "symbol": "BTC/USDT", "received_at_ns": 9,
        "at_ms": 1_633_998_523_963, "last": "1.1",
    }  # fmt: skip
    payload = (msgspec.json if kind is FrameKind.JSON else msgspec.msgpack).encode(told)
    data = b"t\0" + bytes([1, kind, 1]) + b"s" + (5).to_bytes(8) + payload

    event = decode(record_of(read_frame(data)))

    assert isinstance(event, Ticker)
    assert (event.at_ns, event.at_ms) == (1_633_998_523_963_000_000, 1_633_998_523_963)


@pytest.mark.parametrize(("topic", "slot"), [("", "s"), ("t", ""), ("t" * 256, "s"), ("a\0b", "s")])
def test_a_name_that_would_break_the_frame_is_refused(topic: str, slot: str) -> None:
    with pytest.raises(NotOurRecord, match="cannot be a name"):
        write_frame(Frame(topic, slot, 1, FrameKind.JSON, b""))


@pytest.mark.parametrize("kind", [FrameKind.JSON, FrameKind.MSGPACK])
def test_a_record_survives_the_bus(kind: FrameKind) -> None:
    chosen, payload = payload_of(record(3), kind)

    assert chosen is kind
    assert record_of(Frame(TOPIC, "a", 3, chosen, payload)) == record(3)


def test_a_json_payload_is_the_record_without_its_version() -> None:
    assert payload_of(record(3), FrameKind.JSON) == (FrameKind.JSON, record(3)[1:])


def test_an_id_too_long_for_messagepack_goes_as_json() -> None:
    long = record(1 << 70)

    chosen, payload = payload_of(long, FrameKind.MSGPACK)

    assert (chosen, payload) == (FrameKind.JSON, long[1:])


def test_a_head_says_which_run_and_which_log() -> None:
    assert read_head(write_head(Head(3, 1 << 62))) == Head(3, 1 << 62)


@pytest.mark.parametrize(
    "wrong",
    [
        {"slot": "a", "run": 1, "log": 1, "numbers": {TOPIC: -1}},
        {"slot": "a", "run": 1, "log": 1, "numbers": {TOPIC: 1 << 64}},
        {"slot": "a", "run": 1, "log": 1, "numbers": {"": 1}},
        {"slot": "", "run": 1, "log": 1, "numbers": {TOPIC: 1}},
        {"slot": "a", "run": 1},
    ],
)
def test_an_announcement_that_makes_no_sense_is_refused(wrong: object) -> None:
    with pytest.raises(NotOurRecord):
        read_announcement(msgspec.json.encode(wrong))


def test_an_announcement_is_read_as_it_was_written() -> None:
    told = Announcement(slot="a", run=1, log=2, numbers={TOPIC: 9}, published=4, dropped=1)

    assert read_announcement(msgspec.json.encode(told)) == told


@pytest.mark.parametrize(
    ("wanted", "got"),
    [
        (TOPIC, True),
        ("sim.trades.", True),
        ("", True),
        ("sim.trades.btc_usd", False),
        ("sim.trades.btc_usdt.", False),
    ],
)
def test_a_topic_is_wanted_whole_unless_it_ends_with_a_dot(wanted: str, got: bool) -> None:
    frame = write_frame(Frame(TOPIC, "a", 1, FrameKind.JSON, b"{}"))

    assert frame.startswith(wanted_bytes(wanted)) is got
