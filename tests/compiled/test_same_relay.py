"""A batch is forwarded by the compiled path exactly as by the Python code."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock import compiled
from penstock.publish.frames import (
    BATCH,
    Frame,
    FrameKind,
    beginning,
    number_bytes,
    pack_frames,
    write_frame,
)

from .relays import BothRelays, One, some_batch, some_frame

pytestmark = pytest.mark.skipif(compiled.Relay is None, reason=compiled.WHY_NOT)


def batch_of(*frames: bytes) -> bytes:
    begins = beginning(BATCH, "a", FrameKind.BATCH) + number_bytes(len(frames))
    return begins + pack_frames([*frames])


def record(number: int, topic: str = "sim.trades.x") -> bytes:
    return write_frame(Frame(topic, "a", number, FrameKind.JSON, b"{}"))


@given(st.integers(0, 1 << 32))
def test_whatever_arrives_both_forward_and_keep_the_same(seed: int) -> None:
    chance, both = Random(seed), BothRelays()
    for _ in range(chance.choice((1, 5, 20))):
        alone = chance.random() < 0.2
        both.receive(some_frame(chance) if alone else some_batch(chance), batch=not alone)


def test_with_more_streams_than_are_remembered_both_still_agree() -> None:
    both = BothRelays()
    frames = [record(1, f"sim.{n}") for n in range(12_000)]
    for _ in range(2):
        both.receive(batch_of(*frames), batch=True)


def test_frames_are_sent_without_python() -> None:
    relay = One(refuses=lambda _: False)
    frames = [record(number) for number in range(1, 4)]

    relay.receive(batch_of(*frames), batch=True)

    assert relay.sent.by_function == 3


def test_of_each_stream_the_last_record_is_kept() -> None:
    relay = One(refuses=lambda _: False)
    one, other = "sim.trades.x", "sim.trades.y"

    relay.receive(batch_of(record(1, one), record(1, other), record(2, one)), batch=True)

    assert [*relay.registry.last.values()] == [record(1, other), record(2, one)]


def test_frames_keep_their_order_when_some_of_them_wait_for_room() -> None:
    frames = [record(number) for number in range(1, 6)]
    relay = One(refuses=lambda frame: frame in frames[1:4:2])

    relay.receive(batch_of(*frames), batch=True)

    assert relay.sent.frames == frames
    assert relay.sent.by_function == 3
