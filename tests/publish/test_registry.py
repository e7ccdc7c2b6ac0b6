"""The registry: the last record of every stream, which streams there are, and no more than that."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import NotOurRecord
from penstock.market.codec import FORMATS
from penstock.publish import registry as module
from penstock.publish.frames import (
    Announcement,
    Frame,
    FrameKind,
    read_frame,
    unpack_frames,
    write_frame,
)
from penstock.publish.registry import Registry

from .conftest import OTHER, TOPIC

ROOM = 1 << 20


def passed(registry: Registry, topic: str, number: int, size: int = 10) -> bytes:
    frame = Frame(topic, "a", number, FrameKind.JSON, b"x" * size)
    data = write_frame(frame)
    assert registry.passed([data]) == [data]
    return data


def announced(registry: Registry, now_ms: int, slot: str = "a", **numbers: int) -> list[Frame]:
    names = {"topic": TOPIC, "other": OTHER}
    told = {names[name]: number for name, number in numbers.items()}
    word = Announcement(slot=slot, run=1, log=1, numbers=told)
    return [read_frame(head) for head in registry.announced(word, now_ms)]


def known(registry: Registry, wanted: str, most_bytes: int = ROOM) -> list[list[Frame]]:
    payloads = registry.known(wanted, most_bytes)
    return [[read_frame(each) for each in unpack_frames(payload)] for payload in payloads]


def test_the_last_record_of_each_stream_is_kept() -> None:
    registry = Registry(ROOM)
    for number in (1, 2, 3):
        passed(registry, TOPIC, number)
    passed(registry, OTHER, 9)

    assert [(f.topic, f.number) for f in known(registry, "sim.")[0]] == [(TOPIC, 3), (OTHER, 9)]
    assert [f.number for f in known(registry, OTHER)[0]] == [9]
    assert known(registry, "toy.") == [[]]


NAMES = st.sampled_from(["sim.trades.x", "sim.trades.xy", "_sim", "x", "é"])
SENT = st.builds(
    write_frame,
    st.builds(
        Frame,
        NAMES,
        NAMES,
        st.integers(0, (1 << 63) - 1),
        st.sampled_from(FrameKind),
        st.binary(max_size=3),
        st.sampled_from(FORMATS),
    ),
)
DAMAGED = st.builds(
    lambda data, place, byte: data[:place] + byte + data[place + 1 :],
    SENT,
    st.integers(0, 30),
    st.binary(max_size=1),
)


def is_record(data: bytes) -> bool:
    try:
        frame = read_frame(data)
    except NotOurRecord:
        return False
    return frame.kind in (FrameKind.JSON, FrameKind.MSGPACK) and not frame.topic.startswith("_")


@given(st.lists(st.one_of(SENT, DAMAGED, st.binary(max_size=20)), max_size=20))
def test_only_records_pass_whatever_came_before_them(frames: list[bytes]) -> None:
    registry = Registry(ROOM)

    assert registry.passed(frames) == [data for data in frames if is_record(data)]
    assert registry.passed(frames) == [data for data in frames if is_record(data)]


def test_a_publisher_sends_nothing_on_topics_of_the_bus() -> None:
    frames = [
        write_frame(Frame("_announce", "a", 1, FrameKind.JSON, b"{}")),
        write_frame(Frame(TOPIC, "a", 1, FrameKind.HEAD, b"")),
    ]

    assert Registry(ROOM).passed(frames) == []


@given(st.lists(SENT, max_size=20))
def test_a_stream_is_one_whatever_the_kind_of_its_records(frames: list[bytes]) -> None:
    registry = Registry(ROOM)
    records = [read_frame(data) for data in registry.passed(frames)]

    last = {(frame.topic, frame.slot): frame for frame in records}
    (told,) = known(registry, "")
    assert {(frame.topic, frame.slot): frame for frame in told} == last


def test_streams_that_were_checked_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_MOST_CHECKED", 10)
    registry = Registry(ROOM)
    for index in range(25):
        passed(registry, f"sim.trades.{index}", 1)
        assert len(registry._checked) <= 10

    assert len(registry.last) == 25


def test_what_was_not_heard_of_for_longest_makes_room() -> None:
    registry = Registry(16_000)
    for index in range(10):
        passed(registry, f"sim.trades.{index}", 1, 1000)
    passed(registry, "sim.trades.0", 2, 1000)
    passed(registry, "sim.trades.x", 1, 1000)

    assert [f.topic[-1] for f in known(registry, "")[0]] == [*"23456789", "0", "x"]


def test_small_records_of_many_topics_are_no_way_around_the_limit() -> None:
    registry = Registry(ROOM)
    for index in range(5000):
        passed(registry, f"sim.trades.{index}", 1, 1)

    assert len(registry.last) * 500 < ROOM


def test_a_record_that_would_leave_no_room_for_others_is_not_kept() -> None:
    registry = Registry(ROOM)
    passed(registry, OTHER, 1)
    passed(registry, TOPIC, 1)
    passed(registry, TOPIC, 2, ROOM // 2)

    assert [(f.topic, f.number) for f in known(registry, "sim.")[0]] == [(OTHER, 1)]


def test_a_number_that_a_slot_never_gave_is_not_told_to_who_joins() -> None:
    registry = Registry(ROOM)
    passed(registry, TOPIC, 1 << 62)
    announced(registry, 0, topic=5)
    passed(registry, OTHER, 1 << 62)
    passed(registry, TOPIC, 1 << 62)

    (frames,) = known(registry, TOPIC)
    assert [(f.kind, f.number) for f in frames] == [(FrameKind.HEAD, 5)]
    assert known(registry, OTHER) == [[]]
    announced(registry, 0, topic=6)
    assert (TOPIC, "a") not in registry.last


def test_topics_that_are_announced_are_bounded_in_all() -> None:
    registry = Registry(ROOM)
    for slot in ("a", "b", "c"):
        numbers = {f"sim.trades.{index}": 1 for index in range(60_000)}
        list(registry.announced(Announcement(slot=slot, run=1, log=1, numbers=numbers), 0))
    announced(registry, 0, "d", topic=1)

    assert [len(slot.numbers) for slot in registry.slots(0)] == [50_000, 50_000, 0, 0]


def test_an_announcement_is_told_to_the_subscribers_of_each_topic() -> None:
    heads = announced(Registry(ROOM), 0, topic=5, other=7)

    assert [(h.topic, h.number, h.kind) for h in heads] == [
        (TOPIC, 5, FrameKind.HEAD),
        (OTHER, 7, FrameKind.HEAD),
    ]


def test_who_joins_hears_of_no_number_less_than_one_that_was_sent() -> None:
    registry = Registry(ROOM)
    announced(registry, 0, topic=5, other=2)
    passed(registry, TOPIC, 8)

    (frames,) = known(registry, "")
    assert [(f.kind, f.topic, f.number) for f in frames] == [
        (FrameKind.JSON, TOPIC, 8),
        (FrameKind.HEAD, TOPIC, 8),
        (FrameKind.HEAD, OTHER, 2),
    ]


def test_much_that_is_known_is_told_in_several_pieces() -> None:
    registry = Registry(ROOM)
    for number in range(10):
        passed(registry, f"sim.trades.{number}", 1, 1000)

    pieces = known(registry, "", 2500)
    assert len(pieces) == 5
    assert [f.topic[-1] for piece in pieces for f in piece] == list("0123456789")


def test_a_slot_that_fell_silent_is_listed_no_longer() -> None:
    registry = Registry(ROOM)
    announced(registry, 0, "old", topic=1)
    announced(registry, 50_000, "new", topic=1)

    assert [(s.slot, s.silent_ms) for s in registry.slots(55_000)] == [
        ("new", 5_000),
        ("old", 55_000),
    ]
    assert [s.slot for s in registry.slots(70_000)] == ["new"]
