"""Sockets are served in turn, from the event loop's callbacks, and no message is left behind."""

import asyncio
from collections.abc import Iterator
from functools import partial

import pytest
import zmq
from tests.paths import both_paths  # noqa: F401 (every test runs on both)
from tests.waiting import PATIENCE_S

from penstock.publish.readiness import Incoming, Socket, SocketRounds, drain

from .conftest import eventually

Pair = tuple[Socket, Socket]


@pytest.fixture
def pairs() -> Iterator[list[Pair]]:
    """Two connected pairs of sockets: one end to send from, one to read."""
    context: zmq.Context[Socket] = zmq.Context()
    made = []
    for index in range(2):
        ends = context.socket(zmq.PAIR), context.socket(zmq.PAIR)
        ends[0].bind(f"inproc://{index}")
        ends[1].connect(f"inproc://{index}")
        made.append(ends)
    yield made
    context.destroy(0)


def test_what_has_arrived_is_taken_in_order_and_in_parts(pairs: list[Pair]) -> None:
    (sender, receiver), _ = pairs
    incoming = Incoming(receiver)
    assert not incoming.has_message()
    assert incoming.drain(5, 100) == []

    sent = [b"1", b"", b"3" * 30, b"4", b"5"]
    for data in sent:
        sender.send(data)

    assert incoming.has_message()
    assert incoming.drain(2, 100) == sent[:2]
    assert incoming.drain(5, 30) == sent[2:3]
    assert incoming.drain(0, 30) == incoming.drain(5, 0) == []
    assert incoming.drain(5, 31) == sent[3:]
    assert not incoming.has_message()


def test_a_closed_socket_is_an_error_and_is_not_touched(pairs: list[Pair]) -> None:
    _, receiver = pairs[0]
    incoming = Incoming(receiver)
    receiver.close()

    for use in (incoming.has_message, lambda: incoming.drain(1, 1)):
        with pytest.raises(zmq.ZMQError):
            use()


def _has(order: list[bytes], count: int) -> bool:
    return len(order) == count


class Reader:
    """Reads some messages of a socket per round."""

    def __init__(self, socket: Socket, most: int, order: list[bytes]) -> None:
        self._socket, self._most, self._order = socket, most, order

    def __call__(self) -> bool:
        taken = drain(self._socket, self._most)
        self._order += taken
        return len(taken) == self._most


async def test_a_socket_that_always_has_more_delays_no_other(pairs: list[Pair]) -> None:
    (one, first), (two, second) = pairs
    order: list[bytes] = []
    rounds = SocketRounds(
        {first: Reader(first, 2, order), second: Reader(second, 2, order)}, lambda: False
    )
    for _ in range(6):
        one.send(b"1")
        two.send(b"2")
    serving = asyncio.create_task(rounds.run())
    await eventually(lambda: len(order) == 12)
    one.send(b"3")
    await eventually(lambda: len(order) == 13)
    serving.cancel()

    assert order == [b"1", b"1", b"2", b"2"] * 3 + [b"3"]


async def test_a_message_whose_signal_was_consumed_by_sending_is_read(pairs: list[Pair]) -> None:
    (far, near), (other, trigger) = pairs
    order: list[bytes] = []

    def answer() -> bool:
        taken = drain(trigger, 10)
        for each in taken:
            far.send(b"came meanwhile")
            near.send(each)
            near.get(zmq.EVENTS)  # as sending may do, from time to time
        return False

    def after() -> bool:
        if int(near.get(zmq.EVENTS)) & zmq.POLLIN:
            rounds.mark(near)
        return False

    rounds = SocketRounds({trigger: answer, near: Reader(near, 10, order)}, after)
    serving = asyncio.create_task(rounds.run())
    await asyncio.sleep(0)
    for count in range(1, 20):
        other.send(b"x")
        await eventually(partial(_has, order, count))
    serving.cancel()

    assert order == [b"came meanwhile"] * 19


async def test_what_a_handler_raises_ends_it(pairs: list[Pair]) -> None:
    (far, near), _ = pairs

    def fail() -> bool:
        if drain(near, 1):
            raise ValueError("broken")
        return False

    serving = asyncio.create_task(SocketRounds({near: fail}, lambda: False).run())
    await asyncio.sleep(0)
    far.send(b"x")

    with pytest.raises(ValueError, match="broken"):
        async with asyncio.timeout(PATIENCE_S):
            await serving
