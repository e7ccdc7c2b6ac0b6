"""What becomes of a stream that falls silent: nothing, if there was nothing to say."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import cast

import pytest
from msgspec import Raw

from penstock.clock import ManualClock
from penstock.collect.availability import RestAvailability
from penstock.collect.facts import (
    RequestsSuspended,
    StreamProbed,
    StreamRecovered,
    StreamStalled,
    StreamSuspected,
)
from penstock.collect.stall_detector import ProbeContext, StallDetector
from penstock.errors import ConnectorPaused, NoAnswer
from penstock.exchanges.base import MarketProgress, Request, Rest
from penstock.market.events import BookSnapshot, Candle, Event, Source, Ticker, Trade
from penstock.market.symbol import Symbol
from penstock.telemetry import Fact

BTC, ETH = Symbol("BTC", "USDT"), Symbol("ETH", "USDT")


class Questions:
    """A REST side of which only one thing is ever asked."""

    def latest(self, symbol: Symbol, channel: str) -> Request[MarketProgress]:
        return Request(f"{channel} {symbol.slug}", 1, lambda _body, _at_ns: MarketProgress(""))


@dataclass
class Bench:
    """A watch, the streams it hears, an exchange that tells the truth, and what is done."""

    clock: ManualClock = field(default_factory=lambda: ManualClock(1_000_000))
    facts: list[Fact] = field(default_factory=list)
    progress: dict[str, MarketProgress | None] = field(default_factory=dict)
    """What a look finds; None where the exchange does not answer."""
    context: list[str] = field(default_factory=list)
    done: list[tuple[str, str]] = field(default_factory=list)
    connected_ns: int | None = 0
    pause: ConnectorPaused | None = None

    def __post_init__(self) -> None:
        self.availability = RestAvailability("toy", self.clock, emit=self.facts.append)
        context = ProbeContext("toy", cast("Rest", Questions()), self.fetch, self.availability)
        self.detector = StallDetector(context, self.clock, self.facts.append)

    async def fetch(self, request: Request[MarketProgress]) -> MarketProgress:
        self.context.append(request.path)
        progress = self.progress.get(request.path, MarketProgress(""))
        if self.pause is not None:
            raise self.pause
        if progress is None:
            raise NoAnswer("toy", request.path, "silence")
        return progress

    def connected_since_ns(self, _channel: str, _symbol: Symbol) -> int | None:
        return self.connected_ns

    def resubscribe(self, channel: str, symbol: Symbol) -> None:
        self.done.append(("anew", f"{channel} {symbol.slug}"))

    def rotate(self, channel: str, symbol: Symbol, reason: str) -> None:
        assert reason
        self.done.append(("rotated", f"{channel} {symbol.slug}"))

    def bring(self, *events: Event) -> None:
        self.detector.heard(events)

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
    running = asyncio.create_task(bench.detector.run(bench))
    yield bench
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


TRADES = "trades btc_usdt"


async def test_a_quiet_market_is_probed_ever_more_seldom_and_left_alone(bench: Bench) -> None:
    bench.detector.expect(["trades"], [BTC])
    last = await bench.trade_for(60)
    bench.progress[TRADES] = MarketProgress(str(last), last)
    await bench.clock.advance(3600)

    assert 3 <= len(bench.context) <= 9
    assert bench.done == []
    assert bench.detector.stalled() == []
    assert len(bench.of(StreamSuspected)) == 1
    assert {cast("StreamProbed", fact).found for fact in bench.of(StreamProbed)} == {"nothing"}


async def test_a_stalled_stream_is_found_within_ten_seconds_and_a_probe(bench: Bench) -> None:
    bench.detector.expect(["trades"], [BTC])
    last = await bench.trade_for(120)
    bench.progress[TRADES] = MarketProgress(str(last + 5), last + 5)
    await bench.clock.advance(9.4)
    assert bench.context == []
    await bench.clock.advance(0.2)
    assert bench.context == [TRADES]
    assert bench.done == [], "the stream may still bring it"
    await bench.clock.advance(2.0)

    assert bench.done == [("anew", TRADES)]
    assert bench.detector.stalled() == [TRADES]


async def test_resubscribing_comes_first_then_one_rotation_then_again_ever_more_slowly(
    bench: Bench,
) -> None:
    bench.detector.expect(["trades"], [BTC])
    last = await bench.trade_for(120)
    for step in range(1, 400):
        bench.progress[TRADES] = MarketProgress(str(last + step), last + step)
        await bench.clock.advance(9)

    kinds = [kind for kind, _ in bench.done]
    assert kinds[:3] == ["anew", "rotated", "anew"]
    assert kinds.count("rotated") == 1
    assert 6 <= len(kinds) <= 12
    assert len(bench.of(StreamStalled)) == len(kinds)


async def test_what_comes_within_the_grace_was_only_late(bench: Bench) -> None:
    bench.detector.expect(["trades"], [BTC])
    last = await bench.trade_for(120)
    bench.progress[TRADES] = MarketProgress(str(last + 1), last + 1)
    await bench.clock.advance(10.5)
    assert bench.context
    bench.bring(bench.trade(last + 1))
    await bench.clock.advance(5)

    assert bench.done == []
    assert bench.detector.stalled() == []


async def test_a_stream_that_never_spoke_is_named_and_costs_nobody_the_connection(
    bench: Bench,
) -> None:
    bench.detector.expect(["trades"], [BTC, ETH])
    for step in range(1, 3600):
        bench.progress["trades eth_usdt"] = MarketProgress(str(step), step)
        bench.bring(bench.trade(step))
        await bench.clock.advance(1)

    assert bench.detector.stalled() == ["trades eth_usdt"]
    assert {kind for kind, _ in bench.done} == {"anew"}
    assert 4 <= len(bench.done) <= 8, "ever more slowly"
    bench.bring(bench.trade(1, ETH))
    assert bench.detector.stalled() == []
    assert len(bench.of(StreamRecovered)) == 1


async def test_without_a_connection_nothing_is_probed(bench: Bench) -> None:
    bench.detector.expect(["trades"], [BTC])
    await bench.trade_for(60)
    bench.connected_ns = None
    await bench.clock.advance(300)

    assert bench.context == []
    assert bench.done == []


async def test_a_probe_that_fails_proves_nothing_and_is_repeated(bench: Bench) -> None:
    bench.detector.expect(["trades"], [BTC])
    await bench.trade_for(120)
    bench.progress[TRADES] = None
    await bench.clock.advance(35)

    assert len(bench.context) >= 3
    assert bench.done == []
    assert cast("StreamProbed", bench.of(StreamProbed)[0]).found == "failed"


async def test_what_happened_without_a_connection_is_not_held_against_the_next(
    bench: Bench,
) -> None:
    bench.detector.expect(["trades"], [BTC])
    last = await bench.trade_for(120)
    bench.progress[TRADES] = MarketProgress(str(last + 50), last + 50)
    bench.connected_ns = bench.clock.now_ns()
    await bench.clock.advance(600)
    assert bench.context
    assert bench.done == []

    bench.progress[TRADES] = MarketProgress(str(last + 51), last + 51)
    await bench.clock.advance(3600)
    assert ("anew", TRADES) in bench.done


async def test_where_no_id_tells_progress_that_changes_does(bench: Bench) -> None:
    bench.detector.expect(["tickers"], [BTC])
    for _ in range(240):
        ticker = Ticker(exchange="toy", symbol=BTC, received_at_ns=bench.clock.now_ns())
        bench.bring(ticker)
        await bench.clock.advance(0.5)
    bench.progress["tickers btc_usdt"] = MarketProgress("1.0 2.0")
    await bench.clock.advance(10)
    assert len(bench.context) == 1
    bench.progress["tickers btc_usdt"] = MarketProgress("1.1 2.0")
    await bench.clock.advance(4)

    assert bench.done == [("anew", "tickers btc_usdt")]


async def test_what_was_asked_for_apart_is_no_sign_of_life(bench: Bench) -> None:
    bench.detector.expect(["book_deltas"], [BTC], whole_books=True)
    sources: tuple[Source, ...] = ("live", "rest")
    for source in sources:
        for _ in range(240):
            book = BookSnapshot(
                exchange="toy", symbol=BTC, received_at_ns=bench.clock.now_ns(),
                source=source, bids_raw=Raw(b"[]"), asks_raw=Raw(b"[]"),
            )  # fmt: skip
            bench.bring(book)
            await bench.clock.advance(0.5)
        assert bool(bench.context) is (source == "rest")


async def test_candles_are_told_apart_by_their_length(bench: Bench) -> None:
    bench.detector.expect(["candles_1m", "candles_5m"], [BTC])
    for step in range(300):
        bench.progress["candles_5m btc_usdt"] = MarketProgress(str(step))
        candle = Candle(
            exchange="toy", symbol=BTC, received_at_ns=bench.clock.now_ns(), interval="1m",
            open_ms=0, close_ms=59_999, open_text="1", high_text="1", low_text="1",
            close_text="1", volume_text="1", closed=False,
        )  # fmt: skip
        bench.bring(candle)
        await bench.clock.advance(0.5)

    assert bench.detector.stalled() == ["candles_5m btc_usdt"]


async def test_tickers_of_two_channels_are_told_apart(bench: Bench) -> None:
    bench.detector.expect(["tickers", "tickers_24h"], [BTC])
    for step in range(300):
        bench.progress["tickers_24h btc_usdt"] = MarketProgress(str(step))
        bench.bring(Ticker(exchange="toy", symbol=BTC, received_at_ns=bench.clock.now_ns()))
        await bench.clock.advance(0.5)

    assert bench.detector.stalled() == ["tickers_24h btc_usdt"]


async def test_of_two_channels_that_deliver_whole_books_only_the_first_is_watched(
    bench: Bench,
) -> None:
    bench.detector.expect(["book_deltas", "book_snapshots"], [BTC], whole_books=True)
    await bench.clock.advance(100)

    assert set(bench.context) == {"book_deltas btc_usdt"}


@pytest.mark.parametrize("channel", ["funding", "candles", "disconnects"])
async def test_what_is_not_registered_or_cannot_be_judged_is_never_stalled(
    bench: Bench, channel: str
) -> None:
    bench.detector.expect([channel], [BTC])
    for step in range(100):
        bench.progress[f"{channel} btc_usdt"] = MarketProgress(str(step))
        await bench.clock.advance(60)

    assert bench.context == []
    assert bench.detector.stalled() == []


async def test_what_was_forgotten_is_not_probed(bench: Bench) -> None:
    bench.detector.expect(["trades"], [BTC, ETH])
    bench.detector.forget([BTC])
    bench.bring(bench.trade(1))
    await bench.clock.advance(100)

    assert set(bench.context) == {"trades eth_usdt"}


async def test_a_pause_ends_no_detector_and_probes_go_on_after_it(bench: Bench) -> None:
    bench.detector.expect(["trades"], [BTC])
    last = await bench.trade_for(120)
    bench.progress[TRADES] = MarketProgress(str(last + 5), last + 5)
    bench.pause = ConnectorPaused("toy", "paused")
    await bench.clock.advance(3600)
    assert bench.context == [TRADES], "nobody looks in vain meanwhile"
    assert bench.of(StreamProbed) == []
    assert len(bench.of(RequestsSuspended)) == 1

    bench.pause = None
    await bench.availability.check()
    await bench.clock.advance(30)
    assert bench.done[0] == ("anew", TRADES)
