"""Records are packed into the same batches by the compiled path as by the Python code."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.paths import in_python

from penstock import compiled
from penstock.publish import Message
from penstock.publish.frames import FrameKind, beginning, number_bytes, unpack_frames
from penstock.storage.log import Stored

from .batches import MOST_NUMBER, OVERHEAD, BothPublishers, Longer, OfProperties, One, run, stored

pytestmark = pytest.mark.skipif(compiled.Packer is None, reason=compiled.WHY_NOT)

TOPIC = "sim.trades.x"
FRAME_OVERHEAD = len(beginning(TOPIC, "a", FrameKind.JSON)) + len(number_bytes(0))
BATCH_BYTES = 64 * 1024


def of_size(size: int, number: int = 1, topic: str = TOPIC) -> Stored:
    """A record whose frame has a size."""
    return stored(topic, number, b"\x01" + b"x" * (size - FRAME_OVERHEAD))


def known(**settings: int) -> One:
    """A publisher that has published a record of the topic."""
    one = One(**settings)
    one.publish([of_size(100)])
    return one


@given(st.integers(0, 1 << 32))
def test_whatever_is_published_both_send_and_count_the_same(seed: int) -> None:
    run(seed, 4)


@given(st.lists(st.tuples(st.integers(0, 40), st.integers(0, 400)), max_size=60))
def test_small_limits_divide_the_same(shapes: list[tuple[int, int]]) -> None:
    both = BothPublishers(message_bytes=1024)
    records = [
        stored(f"sim.{topic}", n, b"\x01" + b"x" * size) for n, (topic, size) in enumerate(shapes)
    ]
    both.publish(records)
    both.publish(records)


@pytest.mark.parametrize("off", range(-6, 7))
@pytest.mark.parametrize("count", [1, 2, 3, 16])
def test_batches_end_at_the_same_record(count: int, off: int) -> None:
    both = BothPublishers()
    share, rest = divmod(BATCH_BYTES - 5 * count, count)
    records = [of_size(share, n) for n in range(count - 1)] + [of_size(share + rest + off)]
    for _ in range(2):
        both.publish([*records, of_size(100), of_size(100)])


def test_a_batch_is_filled_to_its_last_byte() -> None:
    half = BATCH_BYTES // 2 - 5

    assert known().packed([of_size(half), of_size(half), of_size(100)]) == [2, 1]
    assert known().packed([of_size(half), of_size(half + 1), of_size(100)]) == [1, 2]


@pytest.mark.parametrize("size", [255, 256, 65_535, 65_536])
@pytest.mark.parametrize("count", [1, 2, 15, 16, 17])
def test_lengths_are_written_the_same(count: int, size: int) -> None:
    both = BothPublishers(message_bytes=1 << 22)
    for publisher in (both.python.publisher, both.compiled.publisher):
        publisher._batch_bytes = 1 << 21
    for _ in range(2):
        both.publish([of_size(size, n) for n in range(count)])


def test_more_records_than_two_bytes_count_are_packed_the_same() -> None:
    both = BothPublishers(message_bytes=1 << 23)
    for publisher in (both.python.publisher, both.compiled.publisher):
        publisher._batch_bytes = 1 << 23
    for _ in range(2):
        both.publish([of_size(FRAME_OVERHEAD, n) for n in range(66_000)])


@pytest.mark.parametrize("off", range(-6, 3))
def test_what_is_too_large_is_counted_by_both(off: int) -> None:
    both, most = BothPublishers(message_bytes=1024), 1024
    for _ in range(2):
        both.publish([of_size(100), of_size(most + off), of_size(most - OVERHEAD + off)])
        both.publish([of_size(most + off)])


def test_the_last_number_of_each_topic_is_noted() -> None:
    one, other = known(), "sim.trades.y"
    one.publish([of_size(100, topic=other)])
    numbers = one.publisher._numbers

    found = one.packed([of_size(50, 5), of_size(50, 6), of_size(50, MOST_NUMBER, other),
                        of_size(50, 3), of_size(50, 0)])  # fmt: skip

    assert found == [5]
    assert numbers == {"sim.old": 7, TOPIC: 0, other: MOST_NUMBER}


def test_records_are_packed_without_python() -> None:
    one = known()
    ((data, count),) = one.publisher._packed([of_size(50, 5), of_size(60, 6)]) or []
    begins = one.publisher._batch_beginning + number_bytes(2)

    assert count == 2
    assert data.startswith(begins)
    assert [len(frame) for frame in unpack_frames(data[len(begins) :])] == [50, 60]


def test_a_record_alone_is_no_batch() -> None:
    ((data, count),) = known().publisher._packed([of_size(50, 5)]) or []

    assert count == 1
    payload = b"x" * (50 - FRAME_OVERHEAD)
    assert data == beginning(TOPIC, "a", FrameKind.JSON) + number_bytes(5) + payload


@pytest.mark.parametrize(
    "odd",
    [
        stored(TOPIC, 1, b"\x01{}", Longer),
        stored("sim.unknown", 1, b"\x01{}"),
        stored(TOPIC, -1, b"\x01{}"),
        stored(TOPIC, 1 << 63, b"\x01{}"),
        stored(TOPIC, 1, bytearray(b"\x01{}")),
        stored(TOPIC, 1, b"x" * 5_000),
        Message(TOPIC, "a", 1, b"\x01{}"),
        OfProperties(),
        None,
    ],
)
def test_what_is_unusual_is_left_to_python_before_anything_changed(odd: object) -> None:
    one = known(message_bytes=4_000)
    numbers = dict(one.publisher._numbers)

    assert one.packed([of_size(100, 7), odd]) is None
    assert one.publisher._numbers == numbers


@pytest.mark.parametrize("first", [OfProperties(), Message(TOPIC, "a", 1, b"\x01{}")])
def test_the_first_message_may_be_of_another_class(first: object) -> None:
    both = BothPublishers()
    for _ in range(2):
        both.publish([first])
        both.publish([of_size(100), of_size(100)])


def test_other_payloads_are_not_packed_here() -> None:
    one = One(payload="msgpack")
    one.publish([of_size(100)])

    assert one.packed([of_size(100)]) is None


def test_without_the_extension_nothing_is_packed_here() -> None:
    with in_python():
        one = known()

    assert one.packed([of_size(100)]) is None
