"""ccxt against the simulated exchanges: the ledger's truth, and every request paid for."""

from collections.abc import AsyncIterator
from decimal import Decimal

import pytest
import pytest_asyncio

from penstock.clock import SystemClock
from penstock.config import Requests, Simulator
from penstock.errors import (
    Banned,
    ExchangeError,
    ExchangeUnreachable,
    RateLimited,
    UnknownChannel,
    UnknownSymbol,
)
from penstock.exchanges.base import Listed, SymbolMap
from penstock.exchanges.ccxt.limits import UNITS
from penstock.market.events import Trade
from penstock.market.interval import MINUTE_MS, Interval
from penstock.market.symbol import Symbol
from penstock.simulator.judge import Evidence, Judge, SeenBook, SeenTrade
from penstock.telemetry import SendingStopped

from .twins import TWINS, Twin, opened

MINUTE = Interval.parse("1m")
AGGREGATED = {"ccxt:binance"}
"""Of these, ccxt's ``fetch_trades`` asks for trades in groups, with ids of their own."""
UNNUMBERED = {"ccxt:upbit"}
LOOKED_UP = {"ccxt:binance", "ccxt:upbit"}
"""Of these a book says which it is, by a number or a time that the ledger knows."""
on_one_loop = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=sorted(TWINS))
async def twin(request: pytest.FixtureRequest) -> AsyncIterator[Twin]:
    async with opened(request.param) as found:
        found.info = await found.way.learn()
        yield found


async def judged(twin: Twin, symbol: Symbol, evidence: Evidence) -> None:
    findings = await Judge(twin.http, f"http://{twin.server.address}").judge(
        {symbol.slug: evidence}
    )
    assert findings.honest, findings
    assert not findings.empty


async def right_trades(twin: Twin, symbol: Symbol, trades: list[Trade]) -> None:
    """Hold trades against the ledger, one by one."""
    if twin.exchange.name in AGGREGATED:
        told = await twin.ask(
            "ledger/agg_trades", symbol=symbol.slug, from_id=trades[0].id, limit=1000
        )
        rows = told["agg_trades"]
        truth = {row["id"]: row for row in rows}
        for trade in trades[:500]:
            row = truth[trade.id]
            assert (trade.at_ms, trade.taker == "buy") == (row["at_ms"], row["taker_buys"])
            assert trade.price == Decimal(row["price"])
            assert trade.quantity == Decimal(row["quantity"])
        return
    seen = [SeenTrade(t.id, t.at_ms, t.price, t.quantity, t.taker == "buy") for t in trades]
    consecutive = twin.exchange.name not in UNNUMBERED
    await judged(twin, symbol, Evidence(trades=seen, consecutive=consecutive))


@on_one_loop
async def test_learning_maps_every_spot_market_both_ways(twin: Twin) -> None:
    symbols = twin.info.symbols

    assert set(twin.symbols) <= set(symbols)
    for symbol in symbols:
        assert symbols.symbol(symbols.native(symbol)) is symbol
        assert symbols.find(symbol.unified) is symbols.find(symbol.slug) is symbol
        assert symbols.stream_name(symbol) == symbol.unified, "which is what ccxt calls it"


@on_one_loop
async def test_its_clock_is_known_by_the_dates_of_its_answers(twin: Twin) -> None:
    offset = await twin.way.measure_clock()

    assert offset is not None
    assert offset.low_ms - 1 <= 0 <= offset.high_ms + 1, "the twin keeps this machine's time"


@on_one_loop
async def test_the_newest_trades_are_the_ledgers(twin: Twin) -> None:
    trades = await twin.way.fetch(twin.rest.recent_trades(twin.symbol, 5))

    assert 1 <= len(trades) <= 5
    assert {(trade.exchange, trade.source) for trade in trades} == {(twin.exchange.name, "rest")}
    await right_trades(twin, twin.symbol, trades)


@on_one_loop
async def test_pages_of_trades_neither_overlap_nor_leave_a_hole(twin: Twin) -> None:
    newest = (await twin.way.fetch(twin.rest.recent_trades(twin.symbol, 1)))[-1]
    cursor, trades = (newest.at_ms - 60_000) * 1_000_000, list[Trade]()
    for _ in range(3):
        page = await twin.way.fetch(twin.rest.trades(twin.symbol, cursor))
        trades += page.trades
        assert page.next > cursor or not page.trades
        cursor = page.next

    ids = [trade.id for trade in trades]
    assert ids
    assert len(set(ids)) == len(ids)
    assert {trade.source for trade in trades} == {"backfill"}
    if twin.exchange.name not in UNNUMBERED:
        assert ids == list(range(ids[0], ids[0] + len(ids)))
    await right_trades(twin, twin.symbol, trades)


@on_one_loop
async def test_candles_are_those_the_trades_make(twin: Twin) -> None:
    end_ms = MINUTE.open_of(SystemClock().now_ms()) - MINUTE_MS
    start_ms = end_ms - 10 * MINUTE_MS
    candles = await twin.way.fetch(twin.rest.candles(twin.symbol, MINUTE, start_ms, end_ms))
    told = await twin.ask(
        "ledger/candles",
        symbol=twin.symbol.slug,
        start_ms=start_ms,
        end_ms=end_ms,
        step_ms=MINUTE_MS,
    )

    rows = {row["start_ms"]: row for row in told["candles"]}
    opens = [candle.open_ms for candle in candles]
    assert opens == sorted(set(opens))
    assert set(opens) >= {start for start, row in rows.items() if row["trades"]}
    for candle in candles:
        row = rows[candle.open_ms]
        assert candle.closed
        numbers = (candle.open, candle.high, candle.low, candle.close, candle.volume)
        fields = ("open", "high", "low", "close", "volume")
        assert numbers == tuple(Decimal(row[field]) for field in fields)


@on_one_loop
async def test_a_book_is_sorted_and_not_crossed(twin: Twin) -> None:
    book = await twin.way.fetch(twin.rest.book(twin.symbol, 10))
    bids, asks = [price for price, _ in book.bids], [price for price, _ in book.asks]

    assert len(bids) >= 10 <= len(asks)
    assert bids == sorted(bids, reverse=True)
    assert asks == sorted(asks)
    assert bids[0] < asks[0]
    if twin.exchange.name in LOOKED_UP:
        at_ms = None if book.update_id else book.at_ms
        seen = SeenBook(book.update_id, book.bids[:10], book.asks[:10], at_ms)
        await judged(twin, twin.symbol, Evidence(books=[seen], synced=True))


@on_one_loop
@pytest.mark.parametrize("count", [1, 2])
async def test_tickers_are_of_the_markets_asked_for(twin: Twin, count: int) -> None:
    wanted = twin.symbols[:count]
    tickers = await twin.way.fetch(twin.rest.tickers(wanted))

    assert {ticker.symbol for ticker in tickers} == set(wanted)
    assert all(ticker.last is not None and ticker.last > 0 for ticker in tickers)


@on_one_loop
async def test_tickers_of_all_markets_hold_those_that_trade(twin: Twin) -> None:
    tickers = await twin.way.fetch(twin.rest.tickers([]))

    assert {ticker.symbol for ticker in tickers} >= set(twin.symbols)


@on_one_loop
async def test_a_market_that_ccxt_does_not_find_is_unknown(twin: Twin) -> None:
    gone = Symbol("GONE", "USD")
    symbols = SymbolMap(twin.exchange.name, [Listed("GONEUSD", gone, "GONE/USD")])

    with pytest.raises(UnknownSymbol, match="does not list 'GONE/USD'"):
        await twin.way.fetch(twin.exchange.rest(symbols).book(gone, 10))


@on_one_loop
async def test_the_feed_brings_what_is_traded_now(twin: Twin) -> None:
    feed = twin.way.feed(twin.info.symbols)
    assert feed is not None
    assert "trades" in feed.channels
    trades = [
        event
        for _ in range(3)
        for event in await feed.next("trades", twin.symbol, 10)
        if isinstance(event, Trade)
    ]

    assert {trade.source for trade in trades} == {"live"}
    seen = [SeenTrade(t.id, t.at_ms, t.price, t.quantity, t.taker == "buy") for t in trades]
    consecutive = twin.exchange.name not in UNNUMBERED
    await judged(twin, twin.symbol, Evidence(trades=seen, consecutive=consecutive))
    with pytest.raises(UnknownChannel, match="trades"):
        await feed.next("weather", twin.symbol, 10)


@on_one_loop
async def test_the_last_every_request_that_arrived_was_paid_for_and_none_refused(
    twin: Twin,
) -> None:
    """It stands behind the others of this file, and counts what they did."""
    arrived = await twin.arrived()
    paid = twin.paid()

    assert len(arrived) == len(paid) >= 10
    assert sorted(each["path"] for each in arrived) == sorted(each.path for each in paid)
    assert {each["status"] for each in arrived} == {200}
    assert all(each.cost >= 1 for each in paid)


async def test_a_dear_request_is_paid_in_parts_at_the_pace_of_all() -> None:
    async with opened("ccxt:binance") as twin:
        twin.info = await twin.way.learn()
        before, clock = len(twin.paid()), SystemClock()
        (limit,) = twin.way.gate.used()
        began_ns = clock.monotonic_ns()
        await twin.way.fetch(twin.rest.tickers([]))
        took_ms = (clock.monotonic_ns() - began_ns) / 1_000_000

        (dear,) = twin.paid()[before:]
        assert limit.most == UNITS
        assert dear.cost == 16 * UNITS, "80 of weight, which ccxt counts as a fifth each"
        assert took_ms >= 15 * UNITS * limit.period_ms / limit.amount - 1


@pytest.mark.parametrize("name", sorted(TWINS))
async def test_too_fast_shuts_the_gate_for_everybody(name: str) -> None:
    async with opened(name, requests=Requests(attempts=1, acquire_timeout=4)) as twin:
        twin.info = await twin.way.learn()
        await twin.plan_faults("http429=1")
        with pytest.raises((RateLimited, Banned)):
            await twin.way.fetch(twin.rest.recent_trades(twin.symbol, 1))

        (stop,) = [fact for fact in twin.facts if isinstance(fact, SendingStopped)]
        sent, now_ms = len(twin.paid()), SystemClock().now_ms()
        assert stop.until_ms > now_ms
        if stop.until_ms > now_ms + 10_000:  # else it is over before anybody loses patience
            with pytest.raises(RateLimited):
                await twin.way.fetch(twin.rest.recent_trades(twin.symbol, 1))
            assert len(twin.paid()) == sent, "nothing leaves through a gate that is shut"


async def test_an_exchange_that_fails_is_asked_again_and_paid_again() -> None:
    patient = Requests(attempts=3, first_delay=0.01)
    async with opened("ccxt:kraken", Simulator(port=0), patient) as twin:
        twin.info = await twin.way.learn()
        before = len(twin.paid())
        await twin.plan_faults("http500=1")
        with pytest.raises(ExchangeError):
            await twin.way.fetch(twin.rest.recent_trades(twin.symbol, 1))

        assert len(twin.paid()) - before == patient.attempts
        assert len(await twin.arrived()) == len(twin.paid())


async def test_an_exchange_that_is_not_there_is_unreachable() -> None:
    hasty = Requests(attempts=1, connect_timeout=0.5)
    async with opened("ccxt:kraken", requests=hasty) as twin:
        await twin.server.stop()
        with pytest.raises(ExchangeUnreachable):
            await twin.way.learn()
