"""The broadcaster on a clock that stands still: what goes to whom, and what a late tick does."""

import asyncio
from dataclasses import replace
from typing import cast

import pytest
from tests.simulator.conftest import QUICK, ToyExchange

from penstock.clock import ManualClock
from penstock.config import Simulator
from penstock.simulator.engine.broadcaster import Broadcaster
from penstock.simulator.engine.exchange import SimulatedExchange, StreamFeed, Subscriber
from penstock.simulator.engine.faults import read_plan
from penstock.simulator.engine.injection import ConnectionFaults, FaultLog
from penstock.simulator.engine.wire import ALL_UNREAD_BYTES, UNREAD_BYTES, Client, encode
from penstock.simulator.market.pieces import Work
from penstock.telemetry import quiet


class Transport:
    """Keeps what is written; ``unread`` says how much of it the client has left."""

    def __init__(self) -> None:
        self.writes: list[bytes] = []
        self.unread = 0
        self.ended = ""

    def write(self, data: bytes) -> None:
        self.writes.append(data)

    def get_write_buffer_size(self) -> int:
        return self.unread

    def abort(self) -> None:
        self.ended = "aborted"

    def close(self) -> None:
        self.ended = "closed"


class Opens(ToyExchange):
    """Has one stream."""

    def __init__(self, settings: Simulator, feed: StreamFeed) -> None:
        super().__init__(settings)
        self._feed = feed

    def feed(self, stream: str, dialect: str) -> StreamFeed | None:
        return self._feed


START_MS = 1_000_000


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(START_MS)


@pytest.fixture
def broadcaster(toy: SimulatedExchange, clock: ManualClock) -> Broadcaster:
    return Broadcaster(toy, clock)


def _client(
    number: int, *streams: str, wrapped: bool = False, dialect: str = ""
) -> tuple[Client, Transport]:
    transport = Transport()
    return Client(
        number,
        "127.0.0.1",
        "/ws",
        START_MS,
        cast("asyncio.Transport", transport),
        subscriber=Subscriber(dict.fromkeys(streams), wrapped, dialect),
    ), transport


def _frame(stream: str, number: int) -> bytes:
    return b'{"s":"%s","n":%d,"p":"1.50"}' % (stream.encode(), number)


async def test_a_late_tick_sends_everything_that_fell_due_in_one_write(
    broadcaster: Broadcaster, clock: ManualClock
) -> None:
    client, transport = _client(1, "a@n")
    broadcaster.attach(client)
    await clock.advance(0.05)

    await broadcaster.tick()

    first = START_MS // 10
    frames = [encode(_frame("a@n", first + i)) for i in range(1, 6)]
    assert transport.writes == [b"".join(frames)]
    assert client.frames_sent == broadcaster.frames_sent == 5


async def test_a_broadcaster_that_slept_for_long_catches_up_second_by_second_and_loses_nothing(
    broadcaster: Broadcaster, clock: ManualClock
) -> None:
    client, _ = _client(1, "a@n")
    broadcaster.attach(client)
    await clock.advance(3.5)

    sent = []
    for _ in range(5):
        await broadcaster.tick()
        sent.append(client.frames_sent)

    assert sent == [100, 200, 300, 350, 350]


async def test_healthy_clients_are_handed_the_very_same_bytes(
    broadcaster: Broadcaster, clock: ManualClock
) -> None:
    (one, first), (two, second) = _client(1, "a@n"), _client(2, "a@n")
    combined, third = _client(3, "a@n", wrapped=True)
    for client in (one, two, combined):
        broadcaster.attach(client)
    await clock.advance(0.01)

    await broadcaster.tick()

    assert first.writes == second.writes
    inner = _frame("a@n", START_MS // 10 + 1)
    assert third.writes == [encode(b'{"stream":"a@n","data":%s}' % inner)]


async def test_each_dialect_of_a_stream_has_bytes_of_its_own(
    broadcaster: Broadcaster, clock: ManualClock
) -> None:
    (one, first), (two, second) = _client(1, "a@n"), _client(2, "a@n", dialect="loud")
    three, third = _client(3, "a@n", dialect="loud")
    for client in (one, two, three):
        broadcaster.attach(client)
    await clock.advance(0.01)

    await broadcaster.tick()

    number = START_MS // 10 + 1
    assert first.writes == [encode(_frame("a@n", number))]
    assert second.writes == third.writes == [encode(b'{"S":"a@n","n":%d}' % number)]
    assert broadcaster.streams == 2
    broadcaster.detach(two)
    broadcaster.detach(three)
    assert broadcaster.streams == 1


async def test_whoever_joins_a_running_stream_gets_it_from_the_last_tick_on(
    broadcaster: Broadcaster, clock: ManualClock
) -> None:
    early, _ = _client(1, "a@n")
    broadcaster.attach(early)
    await clock.advance(0.1)
    await broadcaster.tick()
    late, _ = _client(2, "a@n")
    broadcaster.attach(late)
    await clock.advance(0.05)
    await broadcaster.tick()

    assert (early.frames_sent, late.frames_sent) == (15, 5)


async def test_a_long_opening_is_for_all_who_are_there_when_it_is_made(
    toy: ToyExchange, clock: ManualClock
) -> None:
    pieces: list[int] = []
    half_made = asyncio.Event()

    def opening(at_ms: int) -> Work[list[bytes]]:
        for number in range(3):
            pieces.append(number)
            if number == 1:
                half_made.set()
            yield
        return [b"as of %d" % at_ms]

    usual = toy.feed("a@n", "")
    assert usual is not None
    broadcaster = Broadcaster(Opens(QUICK, replace(usual, opening=opening)), clock)
    (early, first), (late, second), (gone, third) = (_client(number, "a@n") for number in (1, 2, 3))
    broadcaster.attach(early)
    broadcaster.attach(gone)
    await clock.advance(0.02)

    tick = asyncio.create_task(broadcaster.tick())
    await half_made.wait()
    assert first.writes == []
    broadcaster.attach(late)
    broadcaster.detach(gone)
    await tick

    heard = [b"as of %d" % START_MS, *(_frame("a@n", START_MS // 10 + n) for n in (1, 2))]
    assert b"".join(first.writes) == b"".join(second.writes) == b"".join(map(encode, heard))
    assert third.writes == []
    assert pieces == [0, 1, 2]


async def test_an_opening_that_fails_is_counted_and_its_stream_goes_on(
    toy: ToyExchange, clock: ManualClock
) -> None:
    def opening(at_ms: int) -> Work[list[bytes]]:
        yield
        raise RuntimeError(at_ms)

    usual = toy.feed("a@n", "")
    assert usual is not None
    broadcaster = Broadcaster(Opens(QUICK, replace(usual, opening=opening)), clock)
    client, _ = _client(1, "a@n")
    broadcaster.attach(client)
    await clock.advance(0.05)

    await broadcaster.tick()

    assert (broadcaster.feed_failures, client.frames_sent) == (1, 5)


async def test_a_stream_without_subscribers_is_asked_no_more(
    broadcaster: Broadcaster, clock: ManualClock
) -> None:
    client, _ = _client(1, "a@n", "b@nothing")
    broadcaster.attach(client)
    assert broadcaster.streams == 1

    client.subscriber.streams.clear()
    broadcaster.resubscribe(client, ("a@n", "b@nothing"))
    assert broadcaster.streams == 0

    await clock.advance(0.1)
    await broadcaster.tick()
    assert client.frames_sent == 0


async def test_a_client_that_leaves_too_much_unread_is_cut_off_and_let_go(
    broadcaster: Broadcaster, clock: ManualClock
) -> None:
    client, transport = _client(1, "a@n")
    broadcaster.attach(client)
    transport.unread = UNREAD_BYTES + 1
    await clock.advance(0.01)

    await broadcaster.tick()
    await broadcaster.tick()

    assert transport.ended == "aborted"
    assert (broadcaster.slow_clients, broadcaster.streams) == (1, 0)


async def test_a_faulty_client_does_not_disturb_a_healthy_one(
    broadcaster: Broadcaster, clock: ManualClock
) -> None:
    (healthy, _), (faulty, transport) = _client(1, "a@n"), _client(2, "a@n")
    faulty.faults = ConnectionFaults(
        read_plan("drop=1"), 2, "/ws", START_MS, FaultLog("toy", quiet)
    )
    broadcaster.attach(healthy)
    broadcaster.attach(faulty)
    await clock.advance(0.1)

    await broadcaster.tick()

    assert (healthy.frames_sent, faulty.frames_sent, transport.writes) == (10, 0, [])


async def test_delayed_frames_come_with_a_later_tick(
    broadcaster: Broadcaster, clock: ManualClock
) -> None:
    client, transport = _client(1, "a@n")
    client.faults = ConnectionFaults(
        read_plan("delay=1"), 1, "/ws", START_MS, FaultLog("toy", quiet)
    )
    broadcaster.attach(client)
    await clock.advance(0.01)
    await broadcaster.tick()
    assert transport.writes == []

    client.subscriber.streams.clear()
    broadcaster.resubscribe(client, ("a@n",))
    await clock.advance(0.5)
    await broadcaster.tick()

    assert transport.writes == [encode(_frame("a@n", START_MS // 10 + 1))]


async def test_the_rate_is_measured_over_a_second(
    broadcaster: Broadcaster, clock: ManualClock
) -> None:
    client, _ = _client(1, "a@n")
    broadcaster.attach(client)
    for _ in range(101):
        await clock.advance(0.01)
        await broadcaster.tick()

    assert broadcaster.frames_per_s == 100


async def test_when_all_clients_leave_too_much_unread_the_slowest_is_cut_off(
    broadcaster: Broadcaster, clock: ManualClock
) -> None:
    clients = [_client(number, "a@n") for number in range(1, 41)]
    for client, transport in clients:
        broadcaster.attach(client)
        transport.unread = ALL_UNREAD_BYTES // 40
    clients[7][1].unread += 100
    await clock.advance(0.01)

    await broadcaster.tick()

    assert [client.id for client, transport in clients if transport.ended] == [8]
    assert broadcaster.slow_clients == 1


async def test_held_streams_stand_still_and_go_on_without_what_they_missed(
    broadcaster: Broadcaster, clock: ManualClock
) -> None:
    held, _ = _client(1, "a@n")
    other, _ = _client(2, "b@n")
    broadcaster.attach(held)
    broadcaster.attach(other)
    await clock.advance(0.1)
    assert broadcaster.hold("a*") == clock.now_ms()
    await clock.advance(0.1)
    assert broadcaster.behind_ms() == 100
    await broadcaster.tick()
    assert broadcaster.behind_ms() == 0
    assert broadcaster.hold("a*") == clock.now_ms() - 100, "it stays where it is"
    late, _ = _client(3, "a@n")
    broadcaster.attach(late)
    await broadcaster.tick()
    assert (held.frames_sent, other.frames_sent, late.frames_sent) == (10, 20, 0)

    broadcaster.hold("")
    await clock.advance(0.1)
    await broadcaster.tick()

    assert (held.frames_sent, other.frames_sent, late.frames_sent) == (20, 30, 10)
