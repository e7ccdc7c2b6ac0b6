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
from penstock.exchanges.ccxt.limits import UNITS
from penstock.exchanges.facts import SendingStopped
from penstock.exchanges.symbol_map import ListedMarket, SymbolMap
from penstock.market.events import Trade
from penstock.market.interval import MINUTE_MS, Interval
from penstock.market.symbol import Symbol
from penstock.simulator.judge import Evidence, Judge, SeenBook, SeenTrade

from .simulated import SIMULATED, Simulated, opened

MINUTE = Interval.parse("1m")
AGGREGATED = {"ccxt:binance"}
"""Of these, ccxt's ``fetch_trades`` asks for trades in groups, with ids of their own."""
UNNUMBERED = {"ccxt:upbit"}
LOOKED_UP = {"ccxt:binance", "ccxt:upbit"}
"""Of these a book says which it is, by a number or a time that the ledger knows."""
on_one_loop = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=sorted(SIMULATED))
async def simulated(request: pytest.FixtureRequest) -> AsyncIterator[Simulated]:
    async with opened(request.param) as found:
        found.info = await found.client.learn()
        yield found


async def judged(simulated: Simulated, symbol: Symbol, evidence: Evidence) -> None:
    findings = await Judge(simulated.http, f"http://{simulated.server.address}").judge(
        {symbol.slug: evidence}
    )
    assert findings.honest, findings
    assert not findings.empty


async def right_trades(simulated: Simulated, symbol: Symbol, trades: list[Trade]) -> None:
    """Hold trades against the ledger, one by one."""
    if simulated.exchange.name in AGGREGATED:
        told = await simulated.ask(
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
    consecutive = simulated.exchange.name not in UNNUMBERED
    await judged(simulated, symbol, Evidence(trades=seen, consecutive=consecutive))


@on_one_loop
async def test_learning_maps_every_spot_market_both_ways(simulated: Simulated) -> None:
    symbols = simulated.info.symbols

    assert set(simulated.symbols) <= set(symbols)
    for symbol in symbols:
        assert symbols.symbol(symbols.native(symbol)) is symbol
        assert symbols.find(symbol.unified) is symbols.find(symbol.slug) is symbol
        assert symbols.stream_name(symbol) == symbol.unified, "which is what ccxt calls it"


@on_one_loop
async def test_its_clock_is_known_by_the_dates_of_its_answers(simulated: Simulated) -> None:
    offset = await simulated.client.measure_clock()

    assert offset is not None
    assert offset.low_ms - 1 <= 0 <= offset.high_ms + 1, "the simulator keeps this machine's time"


@on_one_loop
async def test_the_latest_trades_are_the_ledgers(simulated: Simulated) -> None:
    trades = await simulated.client.fetch(simulated.rest.recent_trades(simulated.symbol, 5))

    assert 1 <= len(trades) <= 5
    assert {(trade.exchange, trade.source) for trade in trades} == {
        (simulated.exchange.name, "rest")
    }
    await right_trades(simulated, simulated.symbol, trades)


@on_one_loop
async def test_pages_of_trades_neither_overlap_nor_leave_a_hole(simulated: Simulated) -> None:
    latest = (await simulated.client.fetch(simulated.rest.recent_trades(simulated.symbol, 1)))[-1]
    cursor, trades = (latest.at_ms - 60_000) * 1_000_000, list[Trade]()
    for _ in range(3):
        page = await simulated.client.fetch(simulated.rest.trades(simulated.symbol, cursor))
        trades += page.trades
        assert page.next > cursor or not page.trades
        cursor = page.next

    ids = [trade.id for trade in trades]
    assert ids
    assert len(set(ids)) == len(ids)
    assert {trade.source for trade in trades} == {"backfill"}
    if simulated.exchange.name not in UNNUMBERED:
        assert ids == list(range(ids[0], ids[0] + len(ids)))
    await right_trades(simulated, simulated.symbol, trades)


@on_one_loop
async def test_candles_are_those_the_trades_make(simulated: Simulated) -> None:
    end_ms = MINUTE.open_of(SystemClock().now_ms()) - MINUTE_MS
    start_ms = end_ms - 10 * MINUTE_MS
    candles = await simulated.client.fetch(
        simulated.rest.candles(simulated.symbol, MINUTE, start_ms, end_ms)
    )
    told = await simulated.ask(
        "ledger/candles",
        symbol=simulated.symbol.slug,
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
async def test_a_book_is_sorted_and_not_crossed(simulated: Simulated) -> None:
    book = await simulated.client.fetch(simulated.rest.book(simulated.symbol, 10))
    bids, asks = [price for price, _ in book.bids], [price for price, _ in book.asks]

    assert len(bids) >= 10 <= len(asks)
    assert bids == sorted(bids, reverse=True)
    assert asks == sorted(asks)
    assert bids[0] < asks[0]
    if simulated.exchange.name in LOOKED_UP:
        at_ms = None if book.update_id else book.at_ms
        seen = SeenBook(book.update_id, book.bids[:10], book.asks[:10], at_ms)
        await judged(simulated, simulated.symbol, Evidence(books=[seen], synced=True))


@on_one_loop
@pytest.mark.parametrize("count", [1, 2])
async def test_tickers_are_of_the_markets_asked_for(simulated: Simulated, count: int) -> None:
    wanted = simulated.symbols[:count]
    tickers = await simulated.client.fetch(simulated.rest.tickers(wanted))

    assert {ticker.symbol for ticker in tickers} == set(wanted)
    assert all(ticker.last is not None and ticker.last > 0 for ticker in tickers)


@on_one_loop
async def test_tickers_of_all_markets_hold_those_that_trade(simulated: Simulated) -> None:
    tickers = await simulated.client.fetch(simulated.rest.tickers([]))

    assert {ticker.symbol for ticker in tickers} >= set(simulated.symbols)


@on_one_loop
async def test_a_market_that_ccxt_does_not_find_is_unknown(simulated: Simulated) -> None:
    gone = Symbol("GONE", "USD")
    symbols = SymbolMap(simulated.exchange.name, [ListedMarket("GONEUSD", gone, "GONE/USD")])

    with pytest.raises(UnknownSymbol, match="does not list 'GONE/USD'"):
        await simulated.client.fetch(simulated.exchange.rest(symbols).book(gone, 10))


@on_one_loop
async def test_the_feed_brings_what_is_traded_now(simulated: Simulated) -> None:
    feed = simulated.client.feed(simulated.info.symbols)
    assert feed is not None
    assert "trades" in feed.channels
    trades = [
        event
        for _ in range(3)
        for event in await feed.next("trades", simulated.symbol, 10)
        if isinstance(event, Trade)
    ]

    assert {trade.source for trade in trades} == {"live"}
    seen = [SeenTrade(t.id, t.at_ms, t.price, t.quantity, t.taker == "buy") for t in trades]
    consecutive = simulated.exchange.name not in UNNUMBERED
    await judged(simulated, simulated.symbol, Evidence(trades=seen, consecutive=consecutive))
    with pytest.raises(UnknownChannel, match="trades"):
        await feed.next("weather", simulated.symbol, 10)


@on_one_loop
async def test_the_last_every_request_that_arrived_was_paid_for_and_none_refused(
    simulated: Simulated,
) -> None:
    """It stands behind the others of this file, and counts what they did."""
    arrived = await simulated.arrived()
    paid = simulated.paid()

    assert len(arrived) == len(paid) >= 10
    assert sorted(each["path"] for each in arrived) == sorted(each.path for each in paid)
    assert {each["status"] for each in arrived} == {200}
    assert all(each.cost >= 1 for each in paid)


async def test_a_dear_request_is_paid_in_parts_at_the_pace_of_all() -> None:
    async with opened("ccxt:binance") as simulated:
        simulated.info = await simulated.client.learn()
        before, clock = len(simulated.paid()), SystemClock()
        (limit,) = simulated.client.gate.used()
        began_ns = clock.monotonic_ns()
        await simulated.client.fetch(simulated.rest.tickers([]))
        took_ms = (clock.monotonic_ns() - began_ns) / 1_000_000

        (dear,) = simulated.paid()[before:]
        assert limit.most == UNITS
        assert dear.cost == 16 * UNITS, "80 of weight, which ccxt counts as a fifth each"
        assert took_ms >= 15 * UNITS * limit.period_ms / limit.amount - 1


@pytest.mark.parametrize("name", sorted(SIMULATED))
async def test_too_fast_shuts_the_gate_for_everybody(name: str) -> None:
    async with opened(name, requests=Requests(attempts=1, acquire_timeout=4)) as simulated:
        simulated.info = await simulated.client.learn()
        await simulated.plan_faults("http429=1")
        with pytest.raises((RateLimited, Banned)):
            await simulated.client.fetch(simulated.rest.recent_trades(simulated.symbol, 1))

        (stop,) = [fact for fact in simulated.facts if isinstance(fact, SendingStopped)]
        sent, now_ms = len(simulated.paid()), SystemClock().now_ms()
        assert stop.until_ms > now_ms
        if stop.until_ms > now_ms + 10_000:  # else it is over before anybody loses patience
            with pytest.raises(RateLimited):
                await simulated.client.fetch(simulated.rest.recent_trades(simulated.symbol, 1))
            assert len(simulated.paid()) == sent, "nothing leaves through a gate that is shut"


async def test_an_exchange_that_fails_is_asked_again_and_paid_again() -> None:
    patient = Requests(attempts=3, first_delay=0.01)
    async with opened("ccxt:kraken", Simulator(port=0), patient) as simulated:
        simulated.info = await simulated.client.learn()
        before = len(simulated.paid())
        await simulated.plan_faults("http500=1")
        with pytest.raises(ExchangeError):
            await simulated.client.fetch(simulated.rest.recent_trades(simulated.symbol, 1))

        assert len(simulated.paid()) - before == patient.attempts
        assert len(await simulated.arrived()) == len(simulated.paid())


async def test_an_exchange_that_is_not_there_is_unreachable() -> None:
    hasty = Requests(attempts=1, connect_timeout=0.5)
    async with opened("ccxt:kraken", requests=hasty) as simulated:
        await simulated.server.stop()
        with pytest.raises(ExchangeUnreachable):
            await simulated.client.learn()
