"""A session on a feed: what comes is recorded, what fails is told and tried again."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import pytest
from tests import events
from tests.waiting import PATIENCE_S

from penstock.clock import SystemClock
from penstock.collect.batching import Flushing
from penstock.collect.facts import ConnectionLost
from penstock.collect.feed_session import FeedOptions, FeedSession
from penstock.errors import (
    ExchangeError,
    ExchangeUnreachable,
    StorageFull,
    UnexpectedAnswer,
    UnknownChannel,
)
from penstock.market.events import BookSnapshot, Disconnect, Event, Trade
from penstock.market.levels import write_levels
from penstock.market.symbol import Symbol
from penstock.telemetry import Fact

BTC, ETH = Symbol("BTC", "USDT"), Symbol("ETH", "USDT")


def trade(number: int, symbol: Symbol = BTC) -> Trade:
    return events.trade(number, symbol, "ccxt:okx", source="live", at_ns=number)


def book(bid: str, ask: str, symbol: Symbol = BTC) -> BookSnapshot:
    return BookSnapshot(
        exchange="ccxt:okx", symbol=symbol, received_at_ns=1, source="live", at_ns=1,
        bids_raw=write_levels([(bid, "1")]), asks_raw=write_levels([(ask, "1")]),
    )  # fmt: skip


Told = Sequence[Event] | Exception


@dataclass
class Script:
    """A feed that says what it was told to, in order, and then nothing more."""

    told: dict[tuple[str, Symbol], list[Told]]
    channels: Sequence[str] = ("trades", "book_deltas")
    stubborn: bool = False
    """Whether it swallows the first cancellation, as some libraries do."""
    waiting: int = 0
    """How many wait for what it will say."""

    async def next(self, channel: str, symbol: Symbol, levels: int) -> Sequence[Event]:
        assert levels == 5
        said = self.told.get((channel, symbol), [])
        if not said:
            self.waiting += 1
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                if not self.stubborn:
                    raise
            finally:
                self.waiting -= 1
            return []
        await asyncio.sleep(0)
        found = said.pop(0)
        if isinstance(found, Exception):
            raise found
        return found


async def until(true: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not true():  # noqa: ASYNC110 (nobody tells)
            await asyncio.sleep(0.005)


@dataclass
class Stage:
    """A session that runs on a script."""

    session: FeedSession
    recorded: list[Event]
    facts: list[Fact]
    stop: asyncio.Event = field(default_factory=asyncio.Event)

    async def play(self, true: Callable[[], bool]) -> None:
        """Run until something is so, and then to the end."""
        running = asyncio.create_task(self.session.run(self.stop))
        await until(lambda: true() or running.done())
        self.stop.set()
        await asyncio.wait_for(running, PATIENCE_S)


def staged(feed: Script, *channels: str, failure: Exception | None = None) -> Stage:
    recorded, facts = list[Event](), list[Fact]()

    async def record(events: Sequence[Event]) -> None:
        if failure is not None:
            raise failure
        recorded.extend(events)

    options = FeedOptions("ccxt:okx", feed, levels=5)
    session = FeedSession(
        options, record, SystemClock(), Flushing(0.001, most_waiting=2), facts.append
    )
    session.add([(channel, symbol) for channel in channels for symbol in (BTC, ETH)])
    return Stage(session, recorded, facts)


async def test_all_that_comes_is_recorded_in_order() -> None:
    told: dict[tuple[str, Symbol], list[Told]] = {
        ("trades", BTC): [[trade(1), trade(2)], [trade(3)], [trade(4)]],
        ("trades", ETH): [[trade(9, ETH)]],
    }
    stage = staged(Script(told), "trades")
    await stage.play(lambda: len(stage.recorded) == 5)

    ids = [event.id for event in stage.recorded if isinstance(event, Trade)]
    assert [each for each in ids if each < 9] == [1, 2, 3, 4]
    assert sorted(ids) == [1, 2, 3, 4, 9]
    assert stage.session.feed_state.state == "disconnected"


async def test_a_channel_the_feed_does_not_have_is_refused_before_anything_runs() -> None:
    with pytest.raises(UnknownChannel, match="trades book_deltas"):
        staged(Script({}), "trades", "tickers")


async def test_what_fails_is_told_and_tried_again_and_hurts_nobody_else() -> None:
    told: dict[tuple[str, Symbol], list[Told]] = {
        ("trades", BTC): [
            ExchangeUnreachable("cut"),
            ExchangeError("not for you"),
            UnexpectedAnswer("what is this"),
            [trade(1)],
        ],
        ("trades", ETH): [[trade(2, ETH)]],
    }
    stage = staged(Script(told), "trades")
    await stage.play(lambda: len(stage.recorded) == 2)

    known = stage.session.feed_state.stats
    assert known.reconnects == {"cut": 1}
    assert [refusal.words for refusal in known.refusals] == ["not for you"]
    assert known.malformed == {"wrong_shape": 1}
    assert [frame.words for frame in known.quarantine] == ["what is this"]
    assert stage.facts == [ConnectionLost(exchange="ccxt:okx", reason="cut")]


async def test_a_channel_that_failed_and_one_that_ends_leave_markers() -> None:
    told: dict[tuple[str, Symbol], list[Told]] = {
        ("trades", BTC): [
            [trade(1)], ExchangeUnreachable("cut"), ExchangeUnreachable("again"), [trade(2)]
        ]
    }  # fmt: skip
    stage = staged(Script(told), "trades")
    await stage.play(lambda: len(stage.recorded) == 3)

    markers = [each for each in stage.recorded if isinstance(each, Disconnect)]
    assert [each.reason for each in markers] == ["cut", "stopped"], "one for each absence"
    assert {(each.symbol, each.channels) for each in markers} == {(BTC, ("trades",))}
    assert all(each.since_ns is not None for each in markers)


async def test_a_book_is_believed_until_its_channel_fails() -> None:
    told: list[Told] = [[book("1", "2")], [book("1", "2")], [book("1", "3")]]
    stage = staged(Script({("book_deltas", BTC): told}), "book_deltas")
    await stage.play(lambda: len(stage.recorded) == 2)
    known = stage.session.feed_state.books

    assert [bytes(each.asks_raw) for each in stage.recorded if isinstance(each, BookSnapshot)] == [
        b'[["2","1"]]',
        b'[["3","1"]]',
    ], "what has not changed is not recorded again"
    assert (known[BTC].state, known[ETH].state) == ("synced", "syncing")

    told = [[book("1", "2")], ExchangeUnreachable("cut")]
    stage = staged(Script({("book_deltas", BTC): told}), "book_deltas")
    known = stage.session.feed_state.books
    await stage.play(lambda: known[BTC].state == "stale")
    assert known[BTC].reason == "cut"


async def test_a_crossed_book_is_not_believed() -> None:
    stage = staged(Script({("book_deltas", BTC): [[book("3", "2")]]}), "book_deltas")
    await stage.play(lambda: bool(stage.recorded))

    assert stage.session.feed_state.books[BTC].state == "stale"


async def test_a_feed_that_does_not_let_go_at_once_is_still_stopped() -> None:
    stage = staged(Script({("trades", BTC): [[trade(1)]]}, stubborn=True), "trades")
    await stage.play(lambda: bool(stage.recorded))

    assert [each.received_at_ns for each in stage.recorded if isinstance(each, Trade)] == [1]


async def test_what_cannot_be_recorded_ends_the_session() -> None:
    full = StorageFull("the disk", "no room")
    stage = staged(Script({("trades", BTC): [[trade(1)]]}), "trades", failure=full)
    with pytest.raises(StorageFull):
        await stage.play(lambda: False)


async def test_an_error_that_nobody_can_mend_ends_the_session() -> None:
    stage = staged(Script({("trades", BTC): [RuntimeError("a bug")]}), "trades")
    with pytest.raises(RuntimeError, match="a bug"):
        await stage.play(lambda: False)


async def test_markets_come_and_go_while_the_others_are_followed() -> None:
    feed = Script({("trades", BTC): [[trade(1)]]})
    stage = staged(feed, "book_deltas")
    session = stage.session
    session.remove([("book_deltas", ETH), ("book_deltas", ETH)])
    running = asyncio.create_task(session.run(stage.stop))
    await until(lambda: feed.waiting == 1)
    with pytest.raises(UnknownChannel):
        session.add([("trades", BTC), ("weather", BTC)])
    session.add([("trades", BTC), ("book_deltas", BTC)])
    await until(lambda: bool(stage.recorded) and feed.waiting == 2)
    session.remove([("trades", BTC), ("book_deltas", BTC)])
    feed.told[("trades", BTC)] = [[trade(2)]]
    await until(lambda: feed.waiting == 0)
    stage.stop.set()
    await asyncio.wait_for(running, PATIENCE_S)

    assert [each.received_at_ns for each in stage.recorded if isinstance(each, Trade)] == [1]
    assert session.feed_state.books == {}
    assert not running.cancelled()
