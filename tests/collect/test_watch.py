"""What becomes of a stream that falls silent: nothing, if there was nothing to say."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import cast

import pytest
from msgspec import Raw

from penstock.clock import ManualClock
from penstock.collect.asking import Asking
from penstock.collect.facts import AskingSuspended
from penstock.collect.watch import Looks, Watch
from penstock.errors import ConnectorPaused, NoAnswer
from penstock.exchanges.base import Mark, Request, Rest
from penstock.market.events import AnyEvent, BookSnapshot, Candle, Source, Ticker, Trade
from penstock.market.symbol import Symbol
from penstock.telemetry import Fact, LookTaken, StreamMute, StreamSpeaks, StreamSuspected

BTC, ETH = Symbol("BTC", "USDT"), Symbol("ETH", "USDT")


class Questions:
    """A REST side of which only one thing is ever asked."""

    def newest(self, symbol: Symbol, channel: str) -> Request[Mark]:
        return Request(f"{channel} {symbol.slug}", 1, lambda _body, _at_ns: Mark(""))


@dataclass
class Bench:
    """A watch, the streams it hears, an exchange that tells the truth, and what is done."""

    clock: ManualClock = field(default_factory=lambda: ManualClock(1_000_000))
    facts: list[Fact] = field(default_factory=list)
    marks: dict[str, Mark | None] = field(default_factory=dict)
    """What a look finds; None where the exchange does not answer."""
    looks: list[str] = field(default_factory=list)
    done: list[tuple[str, str]] = field(default_factory=list)
    standing_ns: int | None = 0
    pause: ConnectorPaused | None = None

    def __post_init__(self) -> None:
        self.asking = Asking("toy", self.clock, tell=self.facts.append)
        looks = Looks("toy", cast("Rest", Questions()), self.fetch, self.asking)
        self.watch = Watch(looks, self.clock, self.facts.append)

    async def fetch(self, request: Request[Mark]) -> Mark:
        self.looks.append(request.path)
        mark = self.marks.get(request.path, Mark(""))
        if self.pause is not None:
            raise self.pause
        if mark is None:
            raise NoAnswer("toy", request.path, "silence")
        return mark

    def standing_since_ns(self, _channel: str, _symbol: Symbol) -> int | None:
        return self.standing_ns

    def ask_anew(self, channel: str, symbol: Symbol) -> None:
        self.done.append(("anew", f"{channel} {symbol.slug}"))

    def rotate(self, channel: str, symbol: Symbol, reason: str) -> None:
        assert reason
        self.done.append(("rotated", f"{channel} {symbol.slug}"))

    def bring(self, *events: AnyEvent) -> None:
        self.watch.heard(events)

    async def trade_for(self, seconds: int, first_id: int = 1, symbol: Symbol = BTC) -> int:
        """Two trades a second; the last one's id."""
        for number in range(first_id, first_id + 2 * seconds):
            self.bring(self.trade(number, symbol))
            await self.clock.advance(0.5)
        return first_id + 2 * seconds - 1

    def trade(self, number: int, symbol: Symbol = BTC) -> Trade:
        return Trade(
            exchange="toy", symbol=symbol, received_at_ns=self.clock.now_ns(), id=number, at_ns=1,
            price_text="1", quantity_text="1", taker="buy",
        )  # fmt: skip

    def of(self, kind: type[Fact]) -> list[Fact]:
        return [fact for fact in self.facts if isinstance(fact, kind)]


@pytest.fixture
async def bench() -> AsyncIterator[Bench]:
    bench = Bench()
    running = asyncio.create_task(bench.watch.run(bench))
    yield bench
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


TRADES = "trades btc_usdt"


async def test_a_quiet_market_is_looked_at_ever_more_seldom_and_left_alone(bench: Bench) -> None:
    bench.watch.expect(["trades"], [BTC])
    last = await bench.trade_for(60)
    bench.marks[TRADES] = Mark(str(last), last)
    await bench.clock.advance(3600)

    assert 3 <= len(bench.looks) <= 9
    assert bench.done == []
    assert bench.watch.mute() == []
    assert len(bench.of(StreamSuspected)) == 1
    assert {cast("LookTaken", fact).found for fact in bench.of(LookTaken)} == {"nothing"}


async def test_a_mute_stream_is_found_within_ten_seconds_and_a_look(bench: Bench) -> None:
    bench.watch.expect(["trades"], [BTC])
    last = await bench.trade_for(120)
    bench.marks[TRADES] = Mark(str(last + 5), last + 5)
    await bench.clock.advance(9.4)
    assert bench.looks == []
    await bench.clock.advance(0.2)
    assert bench.looks == [TRADES]
    assert bench.done == [], "the stream may still bring it"
    await bench.clock.advance(2.0)

    assert bench.done == [("anew", TRADES)]
    assert bench.watch.mute() == [TRADES]


async def test_asking_anew_comes_first_then_one_rotation_then_asking_ever_more_slowly(
    bench: Bench,
) -> None:
    bench.watch.expect(["trades"], [BTC])
    last = await bench.trade_for(120)
    for step in range(1, 400):
        bench.marks[TRADES] = Mark(str(last + step), last + step)
        await bench.clock.advance(9)

    kinds = [kind for kind, _ in bench.done]
    assert kinds[:3] == ["anew", "rotated", "anew"]
    assert kinds.count("rotated") == 1
    assert 6 <= len(kinds) <= 12
    assert len(bench.of(StreamMute)) == len(kinds)


async def test_what_comes_within_the_grace_was_only_late(bench: Bench) -> None:
    bench.watch.expect(["trades"], [BTC])
    last = await bench.trade_for(120)
    bench.marks[TRADES] = Mark(str(last + 1), last + 1)
    await bench.clock.advance(10.5)
    assert bench.looks
    bench.bring(bench.trade(last + 1))
    await bench.clock.advance(5)

    assert bench.done == []
    assert bench.watch.mute() == []


async def test_a_stream_that_never_spoke_is_named_and_costs_nobody_the_connection(
    bench: Bench,
) -> None:
    bench.watch.expect(["trades"], [BTC, ETH])
    for step in range(1, 3600):
        bench.marks["trades eth_usdt"] = Mark(str(step), step)
        bench.bring(bench.trade(step))
        await bench.clock.advance(1)

    assert bench.watch.mute() == ["trades eth_usdt"]
    assert {kind for kind, _ in bench.done} == {"anew"}
    assert 4 <= len(bench.done) <= 8, "ever more slowly"
    bench.bring(bench.trade(1, ETH))
    assert bench.watch.mute() == []
    assert len(bench.of(StreamSpeaks)) == 1


async def test_without_a_connection_nobody_looks(bench: Bench) -> None:
    bench.watch.expect(["trades"], [BTC])
    await bench.trade_for(60)
    bench.standing_ns = None
    await bench.clock.advance(300)

    assert bench.looks == []
    assert bench.done == []


async def test_a_look_that_fails_proves_nothing_and_is_taken_again(bench: Bench) -> None:
    bench.watch.expect(["trades"], [BTC])
    await bench.trade_for(120)
    bench.marks[TRADES] = None
    await bench.clock.advance(35)

    assert len(bench.looks) >= 3
    assert bench.done == []
    assert cast("LookTaken", bench.of(LookTaken)[0]).found == "failed"


async def test_what_happened_without_a_connection_is_not_held_against_the_next(
    bench: Bench,
) -> None:
    bench.watch.expect(["trades"], [BTC])
    last = await bench.trade_for(120)
    bench.marks[TRADES] = Mark(str(last + 50), last + 50)
    bench.standing_ns = bench.clock.now_ns()
    await bench.clock.advance(600)
    assert bench.looks
    assert bench.done == []

    bench.marks[TRADES] = Mark(str(last + 51), last + 51)
    await bench.clock.advance(3600)
    assert ("anew", TRADES) in bench.done


async def test_where_no_id_tells_a_mark_that_changes_does(bench: Bench) -> None:
    bench.watch.expect(["tickers"], [BTC])
    for _ in range(240):
        ticker = Ticker(exchange="toy", symbol=BTC, received_at_ns=bench.clock.now_ns())
        bench.bring(ticker)
        await bench.clock.advance(0.5)
    bench.marks["tickers btc_usdt"] = Mark("1.0 2.0")
    await bench.clock.advance(10)
    assert len(bench.looks) == 1
    bench.marks["tickers btc_usdt"] = Mark("1.1 2.0")
    await bench.clock.advance(4)

    assert bench.done == [("anew", "tickers btc_usdt")]


async def test_what_was_asked_for_apart_is_no_sign_of_life(bench: Bench) -> None:
    bench.watch.expect(["book_deltas"], [BTC], whole_books=True)
    sources: tuple[Source, ...] = ("live", "rest")
    for source in sources:
        for _ in range(240):
            book = BookSnapshot(
                exchange="toy", symbol=BTC, received_at_ns=bench.clock.now_ns(),
                source=source, bids_raw=Raw(b"[]"), asks_raw=Raw(b"[]"),
            )  # fmt: skip
            bench.bring(book)
            await bench.clock.advance(0.5)
        assert bool(bench.looks) is (source == "rest")


async def test_candles_are_told_apart_by_their_length(bench: Bench) -> None:
    bench.watch.expect(["candles_1m", "candles_5m"], [BTC])
    for step in range(300):
        bench.marks["candles_5m btc_usdt"] = Mark(str(step))
        candle = Candle(
            exchange="toy", symbol=BTC, received_at_ns=bench.clock.now_ns(), interval="1m",
            open_ms=0, close_ms=59_999, open_text="1", high_text="1", low_text="1",
            close_text="1", volume_text="1", closed=False,
        )  # fmt: skip
        bench.bring(candle)
        await bench.clock.advance(0.5)

    assert bench.watch.mute() == ["candles_5m btc_usdt"]


async def test_of_two_channels_with_one_kind_of_event_only_the_first_is_watched(
    bench: Bench,
) -> None:
    bench.watch.expect(["tickers", "tickers_24h"], [BTC])
    await bench.clock.advance(100)

    assert set(bench.looks) == {"tickers btc_usdt"}


async def test_nobody_looks_after_what_was_forgotten(bench: Bench) -> None:
    bench.watch.expect(["trades"], [BTC, ETH])
    bench.watch.forget([BTC])
    bench.bring(bench.trade(1))
    await bench.clock.advance(100)

    assert set(bench.looks) == {"trades eth_usdt"}


async def test_a_pause_ends_no_watch_and_looks_go_on_after_it(bench: Bench) -> None:
    bench.watch.expect(["trades"], [BTC])
    last = await bench.trade_for(120)
    bench.marks[TRADES] = Mark(str(last + 5), last + 5)
    bench.pause = ConnectorPaused("toy", "paused")
    await bench.clock.advance(3600)
    assert bench.looks == [TRADES], "nobody looks in vain meanwhile"
    assert bench.of(LookTaken) == []
    assert len(bench.of(AskingSuspended)) == 1

    bench.pause = None
    await bench.asking.look()
    await bench.clock.advance(30)
    assert bench.done[0] == ("anew", TRADES)
