"""A session on a real socket: cuts, silence, floods, rubbish; and nothing is lost of the rest."""

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from itertools import pairwise

import pytest
import uvloop
from aiohttp import WSMsgType, web
from msgspec import Raw
from tests.compiled.wires import frame
from tests.waiting import PATIENCE_S

from penstock.books.commands import FetchSnapshot
from penstock.clock import Clock, ManualClock, SystemClock
from penstock.collect.batching import Flushing
from penstock.collect.facts import ConnectionLost, SnapshotFailed
from penstock.collect.plain_frames import SocketOwner
from penstock.collect.session import Endpoint, Session, SessionHooks
from penstock.collect.sockets import LARGEST_FRAME, Socket
from penstock.errors import ExchangeUnreachable, NoAnswer, StorageFull
from penstock.exchanges.binance.stream import BinanceDialect
from penstock.exchanges.symbol_map import SymbolMap
from penstock.market.events import BookDelta, BookSnapshot, Disconnect, Event, Trade
from penstock.market.symbol import Symbol
from penstock.resilience.backoff import Backoff
from penstock.streaming.commands import Subscription
from penstock.streaming.connection import QUARANTINED
from penstock.streaming.shard import Shard
from penstock.streaming.shard_connection import Plan
from penstock.streaming.subscribe_requests import ACK_WITHIN_S
from penstock.telemetry import Fact

from .conftest import Listen, ToyExchange, delta_frame, listening, trade_frame

BTC, ETH = Symbol("BTC", "USDT"), Symbol("ETH", "USDT")
SYMBOLS = SymbolMap("binance", [("BTCUSDT", BTC), ("ETHUSDT", ETH)])
QUICK = Backoff(first_s=0.05, multiplier=2.0, longest_s=0.4, jitter=0.0)


@dataclass
class Backend:
    """Where a session under test hands everything in."""

    batches: list[list[Event]] = field(default_factory=list)
    facts: list[Fact] = field(default_factory=list)
    failures: list[Exception] = field(default_factory=list)
    """Raised one by one when somebody records."""
    books: list[BookSnapshot | Exception] = field(default_factory=list)
    """Handed out one by one when somebody asks for a book."""
    open: asyncio.Event = field(default_factory=asyncio.Event)
    asked: int = 0
    """How often somebody came to record."""

    def __post_init__(self) -> None:
        self.open.set()

    async def record(self, events: Sequence[Event]) -> None:
        self.asked += 1
        await self.open.wait()
        if self.failures:
            raise self.failures.pop(0)
        self.batches.append(list(events))

    async def fetch_book(
        self, command: FetchSnapshot, wanted: Callable[[], bool]
    ) -> BookSnapshot | None:
        if not wanted():
            return None
        answer = self.books.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    @property
    def trades(self) -> list[int]:
        return [e.id for batch in self.batches for e in batch if isinstance(e, Trade)]

    async def until(self, true: Callable[[], bool], clock: ManualClock | None = None) -> None:
        """Wait until something is so; meanwhile a clock that stands still is advanced."""
        async with asyncio.timeout(PATIENCE_S):
            while not true():
                if clock is not None:
                    await clock.advance(0.01)
                await asyncio.sleep(0.005)


def session(
    exchange: ToyExchange,
    backend: Backend,
    *,
    flushing: Flushing | None = None,
    silence_s: float = 5.0,
    pings_are_life: bool = True,
    clock: Clock | None = None,
) -> Session:
    wanted = [Subscription(channel, (BTC, ETH)) for channel in ("trades", "book_deltas")]
    plan = Plan(reconnect=QUICK)
    return Session(
        Shard("binance", lambda: BinanceDialect(SYMBOLS), wanted, lambda: 0.0, plan),
        Endpoint("binance", exchange.url, silence_s, pings_are_life),
        SessionHooks(backend.record, backend.fetch_book, backend.facts.append),
        clock or SystemClock(),
        flushing or Flushing(),
    )


@asynccontextmanager
async def running(under_test: Session) -> AsyncIterator[None]:
    """Run it; in the end it stops, soon and without an error."""
    stop = asyncio.Event()
    task = asyncio.create_task(under_test.run(stop))
    try:
        yield
    finally:
        stop.set()
        async with asyncio.timeout(PATIENCE_S):
            await task


async def stay(socket: web.WebSocketResponse) -> None:
    """Read until the client closes."""
    async for _ in socket:
        pass


async def stay_silent() -> None:
    """Stay, but read nothing."""
    await asyncio.Event().wait()


async def test_after_a_cut_it_connects_again_and_goes_on(listen: Listen) -> None:
    async def behave(socket: web.WebSocketResponse, connection: int) -> None:
        await socket.send_str(trade_frame(connection))
        if connection < 4:
            assert socket._req is not None
            assert socket._req.transport is not None
            socket._req.transport.abort()
        await stay(socket)

    exchange, backend = ToyExchange(behave), Backend()
    await listen(exchange)
    under_test = session(exchange, backend)
    async with running(under_test):
        await backend.until(lambda: 4 in backend.trades)

    assert len(exchange.connected_at_s) == 4
    assert under_test.shard.stats.reconnects.total() == 3
    assert sum(isinstance(fact, ConnectionLost) for fact in backend.facts) >= 3


class EarlyClock(SystemClock):
    """Wakes a little too early, as timers of whole milliseconds do."""

    async def sleep(self, seconds: float) -> None:
        await super().sleep(seconds - 0.02 if seconds > 0.02 else seconds)


async def test_it_connects_again_though_a_timer_is_early(listen: Listen) -> None:
    async def behave(socket: web.WebSocketResponse, connection: int) -> None:
        await socket.send_str(trade_frame(connection))
        if connection == 1:
            await socket.close()
        await stay(socket)

    exchange, backend = ToyExchange(behave), Backend()
    await listen(exchange)
    under_test = session(exchange, backend, clock=EarlyClock())
    async with running(under_test):
        await backend.until(lambda: 2 in backend.trades)

    # Not by the wake-up for an overdue answer to its subscriptions, which here never comes.
    first_s, second_s = exchange.connected_at_s
    assert second_s - first_s < ACK_WITHIN_S / 2


async def test_refused_it_tries_again_ever_more_slowly(listen: Listen) -> None:
    async def behave(socket: web.WebSocketResponse, _: int) -> None:
        await socket.send_str(trade_frame(1))
        await stay(socket)

    exchange, backend = ToyExchange(behave, refusals=4), Backend()
    await listen(exchange)
    under_test = session(exchange, backend)
    async with running(under_test):
        await backend.until(lambda: backend.trades == [1])

    at_s = exchange.connected_at_s
    waits_s = [later - sooner for sooner, later in pairwise(at_s)]
    for waited_s, least_s in zip(waits_s, (0.05, 0.1, 0.2, 0.4), strict=True):
        assert waited_s >= least_s
    [reason] = under_test.shard.stats.reconnects
    assert "503" in reason


async def test_nobody_there_is_tried_again(listen: Listen, unused_tcp_port: int) -> None:
    exchange, backend = ToyExchange(lambda *_: asyncio.sleep(0)), Backend()
    exchange.url = f"http://127.0.0.1:{unused_tcp_port}/stream"
    under_test = session(exchange, backend)
    async with running(under_test):
        await backend.until(lambda: under_test.shard.stats.reconnects.total() >= 3)

    assert "Connect call failed" in next(iter(under_test.shard.stats.reconnects))


async def test_a_connection_that_fell_silent_is_given_up(listen: Listen) -> None:
    async def behave(socket: web.WebSocketResponse, connection: int) -> None:
        await socket.send_str(trade_frame(connection))
        await stay_silent()  # half open

    exchange, backend = ToyExchange(behave), Backend()
    await listen(exchange)
    under_test = session(exchange, backend, silence_s=0.2)
    async with running(under_test):
        await backend.until(lambda: 2 in backend.trades)

    assert under_test.shard.stats.reconnects["silent for 0.2 s"] >= 1
    gave_up_after_s = exchange.connected_at_s[1] - exchange.connected_at_s[0]
    assert 0.2 <= gave_up_after_s < 3


async def test_pings_alone_are_no_sign_of_life_where_messages_should_come(listen: Listen) -> None:
    async def behave(socket: web.WebSocketResponse, connection: int) -> None:
        await socket.send_str(trade_frame(connection))
        while not socket.closed:
            await socket.ping()
            await asyncio.sleep(0.02)

    exchange, backend = ToyExchange(behave), Backend()
    await listen(exchange)
    under_test = session(exchange, backend, silence_s=0.3, pings_are_life=False)
    async with running(under_test):
        await backend.until(lambda: 2 in backend.trades)

    assert exchange.connected_at_s[1] - exchange.connected_at_s[0] >= 0.3
    assert any("but for pings" in reason for reason in under_test.shard.stats.reconnects)


async def test_a_ping_is_a_sign_of_life_and_is_answered(listen: Listen) -> None:
    pongs, clock = [], ManualClock()

    async def behave(socket: web.WebSocketResponse, _: int) -> None:
        for number in range(8):
            await socket.ping(str(number).encode())
            pongs.append((await socket.receive()).type)
            await clock.advance(0.5)
        await socket.send_str(trade_frame(1))
        await stay(socket)

    exchange, backend = ToyExchange(behave), Backend()
    await listen(exchange)
    under_test = session(exchange, backend, silence_s=3.0, clock=clock)
    async with running(under_test):
        await backend.until(lambda: backend.trades == [1])

    assert pongs == [WSMsgType.PONG] * 8
    assert clock.monotonic_ns() > 3_000_000_000, "longer than silence may last"
    assert under_test.shard.stats.reconnects == {}


async def test_while_recording_is_stuck_reading_pauses_and_nothing_is_lost(listen: Listen) -> None:
    sent = 0

    async def behave(socket: web.WebSocketResponse, _: int) -> None:
        nonlocal sent
        for number in range(1, 3_001):
            await socket.send_str(trade_frame(number) + " " * 10_000)
            sent = number
        await stay(socket)

    exchange, backend, clock = ToyExchange(behave), Backend(), ManualClock()
    await listen(exchange)
    backend.open.clear()
    waits = Flushing(most_waiting=100)
    under_test = session(exchange, backend, flushing=waits, silence_s=2.0, clock=clock)
    async with running(under_test):
        await backend.until(lambda: sent > 100)
        while True:  # until the exchange can send no more: both ends' buffers are full
            before = sent
            await asyncio.sleep(0.2)
            if sent == before:
                break
        stuck_at, waiting = sent, under_test.shard.waiting
        await clock.advance(2.5)
        backend.open.set()
        await backend.until(lambda: len(backend.trades) == 3_000, clock)

    assert waiting <= 200, "and what came in one piece with the last of them"
    assert stuck_at < 3_000, "the exchange had to wait"
    assert len(exchange.connected_at_s) == 1, "and was not called silent for it"
    assert backend.trades == list(range(1, 3_001))


async def test_what_arrives_together_is_one_batch(listen: Listen) -> None:
    async def behave(socket: web.WebSocketResponse, _: int) -> None:
        for number in range(1, 501):
            await socket.send_str(trade_frame(number))
        await stay(socket)

    exchange, backend = ToyExchange(behave), Backend()
    await listen(exchange)
    async with running(session(exchange, backend, flushing=Flushing(least_s=0.5))):
        await backend.until(lambda: len(backend.trades) == 500)

    assert len(backend.batches) <= 2, "a flush may fall into the middle"


async def test_frames_that_are_there_are_read_together_and_stamped_each(listen: Listen) -> None:
    async def behave(socket: web.WebSocketResponse, _: int) -> None:
        for number in range(1, 2_001):
            await socket.send_str(trade_frame(number))
        await stay(socket)

    exchange, backend = ToyExchange(behave), Backend()
    await listen(exchange)
    under_test, sizes, began_ns = session(exchange, backend), list[int](), SystemClock().now_ns()
    read = under_test.shard.received_many

    def read_and_note(number: int, frames: Sequence[bytes | str], at_ns: list[int]) -> None:
        sizes.append(len(frames))
        read(number, frames, at_ns)

    under_test.shard.received_many = read_and_note  # type: ignore[method-assign]
    async with running(under_test):
        await backend.until(lambda: len(backend.trades) == 2_000)

    assert max(sizes) > 1
    stamps_ns = [event.received_at_ns for batch in backend.batches for event in batch]
    assert stamps_ns == sorted(stamps_ns)
    assert -1 < (stamps_ns[0] - began_ns) / 1e9 < 60, "an instant, not a monotonic reading"


def test_of_a_flood_little_is_read_before_it_is_decoded() -> None:
    """On uvloop, which reads on as long as there is anything, up to 8 MB."""
    trades, sizes = 2_000, list[int]()
    flood = b"".join(
        frame((trade_frame(number) + " " * 850).encode()) for number in range(1, trades + 1)
    )

    async def behave(socket: web.WebSocketResponse, _: int) -> None:
        # At once, into what room the kernel has.
        assert os.write(socket.get_extra_info("socket").fileno(), flood) == len(flood)
        await stay(socket)

    async def play() -> None:
        exchange, backend = ToyExchange(behave), Backend()
        async with listening() as listen:
            await listen(exchange)
            under_test = session(exchange, backend)
            read = under_test.shard.received_many

            def read_and_note(number: int, frames: Sequence[bytes], at_ns: list[int]) -> None:
                sizes.append(len(frames))
                read(number, frames, at_ns)

            under_test.shard.received_many = read_and_note  # type: ignore[assignment, method-assign]
            async with running(under_test):
                await backend.until(lambda: len(backend.trades) == trades)
        assert backend.trades == list(range(1, trades + 1))

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(play())
    assert max(sizes) < 1_000, "what one read brings more than the many that are read at once"


async def test_while_recording_is_stuck_what_comes_is_read_nevertheless(listen: Listen) -> None:
    ready = asyncio.Event()

    async def behave(socket: web.WebSocketResponse, _: int) -> None:
        await socket.send_str(trade_frame(1))
        await ready.wait()
        await socket.send_str(trade_frame(2))
        await stay(socket)

    exchange, backend = ToyExchange(behave), Backend()
    await listen(exchange)
    backend.open.clear()
    under_test = session(exchange, backend)
    async with running(under_test):
        await backend.until(lambda: backend.asked == 1)
        ready.set()
        await backend.until(lambda: under_test.shard.waiting == 1)
        assert backend.batches == [], "it might have been an answer that is due within seconds"
        backend.open.set()

    assert backend.trades == [1, 2]


async def test_while_nothing_arrives_nothing_is_woken(listen: Listen) -> None:
    async def behave(socket: web.WebSocketResponse, _: int) -> None:
        await socket.send_str(trade_frame(1))
        await stay(socket)

    exchange, backend, clock = ToyExchange(behave), Backend(), ManualClock(1_700_000_000_000)
    await listen(exchange)
    async with running(session(exchange, backend, clock=clock, silence_s=60.0)):
        await backend.until(lambda: backend.trades == [1], clock)
        await clock.advance(0.2)
        wake_ns = clock.next_wake_ns()

    assert wake_ns is None or wake_ns - clock.monotonic_ns() > 1_000_000_000


async def test_what_had_arrived_is_recorded_before_it_ends(listen: Listen) -> None:
    async def behave(socket: web.WebSocketResponse, _: int) -> None:
        for number in range(1, 21):
            await socket.send_str(trade_frame(number))
        await stay(socket)

    exchange, backend = ToyExchange(behave), Backend()
    await listen(exchange)
    under_test = session(exchange, backend, flushing=Flushing(least_s=600))
    async with running(under_test):
        await backend.until(lambda: under_test.shard.waiting == 20)
        assert backend.batches == []

    assert backend.trades == list(range(1, 21))


async def test_what_is_not_even_read_is_recorded_before_it_ends(listen: Listen) -> None:
    exchange, backend, stop = ToyExchange(lambda *_: asyncio.sleep(0)), Backend(), asyncio.Event()
    await listen(exchange)
    under_test = session(exchange, backend)
    socket = under_test._sockets[1] = Socket(SocketOwner(lambda _: None, 500, lambda: 0))
    socket.frames.append(trade_frame(1).encode())
    stop.set()
    await under_test.run(stop)

    assert backend.trades == [1]


async def test_what_arrives_while_it_ends_is_recorded_before_the_marker(listen: Listen) -> None:
    async def behave(socket: web.WebSocketResponse, _: int) -> None:
        number = 0
        with suppress(ConnectionError):
            while not socket.closed:
                number += 1
                await socket.send_str(trade_frame(number))
                await asyncio.sleep(0)

    exchange, backend = ToyExchange(behave), Backend()
    await listen(exchange)
    async with running(session(exchange, backend)):
        await backend.until(lambda: bool(backend.trades))

    events = [event for batch in backend.batches for event in batch]
    marked = next(at for at, event in enumerate(events) if isinstance(event, Disconnect))
    assert all(isinstance(event, Disconnect) for event in events[marked:])


async def test_what_came_before_a_cut_is_read_before_it(listen: Listen) -> None:
    async def behave(socket: web.WebSocketResponse, connection: int) -> None:
        if connection == 1:
            await socket.send_str(delta_frame(5, 6))
            await socket.close()
        await stay(socket)

    exchange, backend = ToyExchange(behave), Backend(books=[ExchangeUnreachable("gone")] * 9)
    await listen(exchange)
    under_test = session(exchange, backend)
    async with running(under_test):
        await backend.until(lambda: len(exchange.connected_at_s) == 2)

    assert under_test.shard.books[BTC].reason.startswith("disconnected: ")
    kinds = [type(event) for batch in backend.batches for event in batch]
    assert kinds[:3] == [BookDelta, Disconnect, Disconnect], "and the loss is marked for each"


async def test_what_cannot_be_recorded_ends_it_with_the_reason(listen: Listen) -> None:
    gone = asyncio.Event()

    async def behave(socket: web.WebSocketResponse, _: int) -> None:
        await socket.send_str(trade_frame(1))
        async for _message in socket:
            pass
        gone.set()

    exchange, backend = ToyExchange(behave), Backend(failures=[StorageFull("/here", "no room")])
    await listen(exchange)
    async with asyncio.timeout(PATIENCE_S):
        with pytest.raises(StorageFull, match="no room"):
            await session(exchange, backend).run(asyncio.Event())
        await gone.wait()


BAD = {
    "not_json": [b"rubbish", b"", b"\xff\xfe\x00", b'{"stream":"btcusdt@trade","data":{"t":NaN}}'],
    "wrong_shape": [
        b"[]",
        b"5",
        trade_frame(5).replace('"t":5', '"t":"5"').encode(),
        trade_frame(5).replace('"t":5', '"t":-5').encode(),
        trade_frame(5).replace('"t":5', '"t":5e400').encode(),
        trade_frame(5).replace('"p":"1.50"', '"p":1.50').encode(),
        trade_frame(5).replace('"m":true', '"m":null').encode(),
        delta_frame(9, 3).encode(),
    ],
    "not_a_number": [
        trade_frame(5).replace("1.50", "NaN").encode(),
        trade_frame(5).replace("1.50", "-1.50").encode(),
        trade_frame(5).replace("1.50", "1e5").encode(),
        trade_frame(5).replace("1.50", "").encode(),
        delta_frame(3, 9).replace("2.00", "Infinity").encode(),
    ],
    "not_asked_for": [trade_frame(5, "DOGEUSDT").encode(), trade_frame(5, "XRPUSDT").encode()],
    "too_large": [trade_frame(5).encode() + b" " * 10_000_000],
    "too_deep": [b'{"stream":"btcusdt@trade","data":' + b"[" * 100_000 + b"]" * 100_000 + b"}"],
    "unknown_message": [b"{}", b'{"hello":"there"}'],
}


async def test_rubbish_is_counted_by_reason_and_the_rest_goes_on(listen: Listen) -> None:
    bad = [frame for frames in BAD.values() for frame in frames]

    async def behave(socket: web.WebSocketResponse, _: int) -> None:
        for number, each in enumerate(bad, 1):
            await socket.send_frame(each, WSMsgType.TEXT)
            await socket.send_bytes(each)
            await socket.send_str(trade_frame(number, "ETHUSDT"))
        await stay(socket)

    exchange, backend = ToyExchange(behave), Backend()
    await listen(exchange)
    under_test = session(exchange, backend)
    async with running(under_test):
        await backend.until(lambda: len(backend.trades) == len(bad))

    connection = under_test.shard.stats
    assert connection.malformed == {reason: 2 * len(frames) for reason, frames in BAD.items()}
    assert connection.reconnects == {}
    assert backend.trades == list(range(1, len(bad) + 1))
    kinds = {type(event) for batch in backend.batches for event in batch}
    assert kinds == {Trade, Disconnect}, "the latter for the end"
    assert all(len(kept.excerpt) + len(kept.words) < 400 for kept in connection.quarantine)


async def test_quarantine_is_bounded_under_a_flood_of_rubbish(listen: Listen) -> None:
    async def behave(socket: web.WebSocketResponse, _: int) -> None:
        for number in range(1_000):
            await socket.send_str(f"rubbish {number}")
        await socket.send_str(trade_frame(1))
        await stay(socket)

    exchange, backend = ToyExchange(behave), Backend()
    await listen(exchange)
    under_test = session(exchange, backend)
    async with running(under_test):
        await backend.until(lambda: backend.trades == [1])

    assert under_test.shard.stats.malformed == {"not_json": 1_000}
    assert len(under_test.shard.stats.quarantine) == QUARANTINED
    assert under_test.shard.stats.quarantine[-1].excerpt == "rubbish 999"


async def test_a_frame_beyond_all_measure_costs_the_connection_only(listen: Listen) -> None:
    async def behave(socket: web.WebSocketResponse, connection: int) -> None:
        await socket.send_str(trade_frame(connection))
        if connection == 1:
            await socket.send_bytes(b" " * (LARGEST_FRAME + 1))
        await stay_silent()  # else it answers the close, and that is the reason

    exchange, backend = ToyExchange(behave), Backend()
    await listen(exchange)
    under_test = session(exchange, backend)
    async with running(under_test):
        await backend.until(lambda: backend.trades == [1, 2])

    [reason] = under_test.shard.stats.reconnects
    assert "message_too_big" in reason


def book(update_id: int) -> BookSnapshot:
    return BookSnapshot(
        exchange="binance", symbol=BTC, received_at_ns=1, update_id=update_id,
        bids_raw=Raw(b'[["1.00","1.00"]]'), asks_raw=Raw(b'[["3.00","1.00"]]'),
    )  # fmt: skip


@dataclass
class QueueingBackend(Backend):
    """Requests for books wait until their turn comes."""

    turn: asyncio.Event = field(default_factory=asyncio.Event)
    fetches: int = 0
    wishes: list[bool] = field(default_factory=list)
    """Whether each book was still wanted then."""

    async def fetch_book(
        self, command: FetchSnapshot, wanted: Callable[[], bool]
    ) -> BookSnapshot | None:
        self.fetches += 1
        await self.turn.wait()
        self.wishes.append(wanted())
        return await super().fetch_book(command, wanted)


@pytest.mark.parametrize("streams_again", [True, False])
async def test_a_snapshot_that_waits_when_the_connection_is_lost_is_fetched_only_if_wanted_again(
    listen: Listen, streams_again: bool
) -> None:
    async def behave(socket: web.WebSocketResponse, connection: int) -> None:
        if connection == 1:
            await socket.send_str(delta_frame(5, 6))
            await backend.until(lambda: backend.fetches == 1)
            await socket.close()
        elif streams_again:
            await socket.send_str(delta_frame(8, 9))
        await socket.send_str(trade_frame(connection))
        await stay(socket)

    exchange, backend = ToyExchange(behave), QueueingBackend(books=[book(8)])
    await listen(exchange)
    under_test = session(exchange, backend)
    async with running(under_test):
        await backend.until(lambda: 2 in backend.trades)
        backend.turn.set()
        await backend.until(lambda: bool(backend.wishes))
        if streams_again:
            await backend.until(lambda: under_test.shard.books[BTC].state == "synced")

    assert (backend.fetches, backend.wishes) == (1, [streams_again])
    assert len(backend.books) == (0 if streams_again else 1), "a request that was sent, or not"


@pytest.mark.parametrize("failure", [ExchangeUnreachable("gone"), NoAnswer("cut off")])
async def test_a_book_that_cannot_be_had_is_asked_for_again(
    listen: Listen, failure: Exception
) -> None:
    async def behave(socket: web.WebSocketResponse, _: int) -> None:
        await socket.send_str(delta_frame(5, 6))
        await stay(socket)

    exchange, backend = ToyExchange(behave), Backend(books=[failure, book(2), book(5)])
    await listen(exchange)
    under_test = session(exchange, backend)
    async with running(under_test):
        await backend.until(lambda: under_test.shard.books[BTC].state == "synced")
        shown = under_test.shard.books[BTC]
        assert (shown.update_id, shown.levels.texts(1) if shown.levels else None) == (
            6,
            ([("1.00", "2.00")], [("3.00", "1.00")]),
        )

    assert sum(isinstance(fact, SnapshotFailed) for fact in backend.facts) == 1
    kept = [e for batch in backend.batches for e in batch if isinstance(e, BookSnapshot)]
    assert kept == [book(2), book(5)], "baselines are recorded, even those that did not join"
