"""The live collector, against simulated exchanges, from a symbol to its tick and its entry."""

import os
from pathlib import Path

import aiohttp
import pytest
from tests.tickers.conftest import (
    BTC,
    ETH,
    KRAKEN,
    SOL,
    Simulate,
    entries,
    settings_for,
    ticked,
    until,
)

from penstock.connectors import ConnectorManager
from penstock.errors import BadSymbol, ConnectorPaused, UnknownExchange, UnknownSymbol
from penstock.live import ProcessStatus
from penstock.market.events import Ticker
from penstock.market.symbol import Symbol
from penstock.storage.state import StateStore
from penstock.telemetry import Fact
from penstock.tickers import LiveTickerCollector, TickerSymbol, TickerSymbols
from penstock.tickers.facts import CallbackFailed, SymbolFailed


@pytest.fixture
def live_file(tmp_path: Path) -> str:
    return f"sqlite:{tmp_path / 'live.db'}"


async def test_given_symbols_are_collected_until_it_is_stopped(
    tmp_path: Path, simulate: Simulate, live_file: str
) -> None:
    collector = LiveTickerCollector([BTC, ETH], settings=settings_for(tmp_path, await simulate()))

    assert not collector.running
    assert not collector.is_collecting(BTC)

    await collector.start_collection()
    try:
        assert collector.running
        assert collector.is_collecting(BTC)
        assert collector.is_collecting(ETH)
        assert not collector.is_collecting(SOL)
        assert collector.exchanges == ["binance"]
        await until(lambda: ticked(live_file, BTC, ETH))

        async def running() -> bool:
            found = await entries(live_file)
            return all(
                each.key in found and found[each.key].status is ProcessStatus.RUNNING
                for each in (BTC, ETH)
            )

        await until(running)
        [found] = collector.activity
        assert (found.exchange, found.markets) == ("binance", 2)
        assert (found.connections, found.connections_up) == (1, 1)
        assert found.last_data_ms is not None
        entry = (await entries(live_file))[BTC.key]
        assert entry.params == {"exchange": "binance", "symbol": "BTC/USDT", "access": "public"}
        assert entry.message.startswith("Received ticker at ")
    finally:
        await collector.stop_collection()

    assert not collector.running
    assert not collector.is_collecting(BTC)
    statuses = {each.status for each in (await entries(live_file)).values()}
    assert statuses == {ProcessStatus.STOPPED}


async def test_without_symbols_those_of_the_state_store_are_collected(
    tmp_path: Path, simulate: Simulate, table: TickerSymbols
) -> None:
    await table.add(BTC)
    collector = LiveTickerCollector(settings=settings_for(tmp_path, await simulate()))

    await collector.start_collection()
    try:
        assert collector.symbols == [BTC]
        assert collector.is_collecting(BTC)
        await collector.start_collection()  # does nothing twice
        assert collector.symbols == [BTC]
    finally:
        await collector.stop_collection()
        await collector.stop_collection()


async def test_one_more_symbol_subscribes_to_that_symbol_only(
    tmp_path: Path, simulate: Simulate, monkeypatch: pytest.MonkeyPatch, live_file: str
) -> None:
    from penstock.exchanges.binance.stream import BinanceDialect  # noqa: PLC0415

    subscribed: list[list[str]] = []
    subscribe = BinanceDialect.subscribe

    def noting(self: BinanceDialect, names: list[str], request_id: int) -> str:
        subscribed.append(list(names))
        return subscribe(self, names, request_id)

    monkeypatch.setattr(BinanceDialect, "subscribe", noting)
    server = await simulate()
    collector = LiveTickerCollector(settings=settings_for(tmp_path, server))
    try:
        await collector.start_symbol(BTC)
        await until(lambda: ticked(live_file, BTC))
        await collector.start_symbol(ETH)
        await until(lambda: ticked(live_file, ETH))
        await collector.start_symbol(ETH)
    finally:
        await collector.stop_collection()

    assert subscribed == [["btcusdt@bookTicker"], ["ethusdt@bookTicker"]]


async def test_an_exchange_that_is_unreachable_hurts_no_other(
    tmp_path: Path, simulate: Simulate, live_file: str
) -> None:
    server, away = await simulate(), await simulate("kraken", ("btc_usd",))
    settings = settings_for(tmp_path, server, away)
    await away.stop()
    facts: list[Fact] = []
    collector = LiveTickerCollector([BTC, KRAKEN], settings=settings, listener=facts.append)
    await collector.start_collection()
    try:
        await until(lambda: ticked(live_file, BTC))
        await until(lambda: KRAKEN in collector.failures)

        async def shown() -> bool:
            found = await entries(live_file)
            return KRAKEN.key in found and found[KRAKEN.key].status is ProcessStatus.ERROR

        await until(shown)
        assert not collector.is_collecting(KRAKEN)
        assert [each.exchange for each in facts if isinstance(each, SymbolFailed)] == ["kraken"]
    finally:
        await collector.stop_collection()


async def test_a_symbol_that_is_not_listed_is_an_error_with_a_reason_and_hurts_no_other(
    tmp_path: Path, simulate: Simulate, live_file: str
) -> None:
    nope = TickerSymbol.of("binance", "NOPE/USDT")
    collector = LiveTickerCollector([nope, BTC], settings=settings_for(tmp_path, await simulate()))
    await collector.start_collection()
    try:
        assert collector.is_collecting(BTC)
        assert not collector.is_collecting(nope)
        with pytest.raises(UnknownSymbol):
            await collector.start_symbol(TickerSymbol.of("binance", "NADA/USDT"))

        async def shown() -> bool:
            found = await entries(live_file)
            return all(
                key in found and found[key].status is ProcessStatus.ERROR
                for key in (nope.key, "binance:NADA/USDT")
            )

        await until(shown)
        assert "NOPE/USDT" in (await entries(live_file))[nope.key].message
        assert collector.symbols == [nope, BTC], "the other is given up"
    finally:
        await collector.stop_collection()
    statuses = {each.status for each in (await entries(live_file)).values()}
    assert statuses == {ProcessStatus.STOPPED}


async def test_invalid_symbols_are_refused_before_anything_is_opened(tmp_path: Path) -> None:
    settings = settings_for(tmp_path)
    bad: list[object] = [
        None,
        "BTC/USDT",
        Symbol("BTC", "USDT"),
        TickerSymbol("binance", "BTC/USDT"),  # type: ignore[arg-type]
        TickerSymbol(7, Symbol("BTC", "USDT")),  # type: ignore[arg-type]
    ]
    for symbol in bad:
        collector = LiveTickerCollector([symbol], settings=settings)  # type: ignore[list-item]
        with pytest.raises(BadSymbol):
            await collector.start_collection()
        with pytest.raises(ValueError, match="Invalid symbol"):
            await collector.start_symbol(symbol)  # type: ignore[arg-type]
    with pytest.raises(UnknownExchange):
        await LiveTickerCollector(settings=settings).start_symbol(TickerSymbol.of("bin", "BTC/USD"))

    assert not os.listdir(tmp_path)  # noqa: PTH208


async def test_a_paused_connector_refuses_a_symbol_and_a_bulk_start_waits_for_it(
    tmp_path: Path, simulate: Simulate, state: StateStore
) -> None:
    settings = settings_for(tmp_path, await simulate())
    connectors = ConnectorManager(state)
    await connectors.ensure_connector("binance")
    await connectors.pause_connector("binance")
    collector = LiveTickerCollector([ETH], settings=settings)
    try:
        with pytest.raises(ConnectorPaused):
            await collector.start_symbol(BTC)
        assert collector.symbols == []
        await collector.start_collection()
        assert not collector.is_collecting(ETH)
        await connectors.resume_connector("binance")
        await until(lambda: collector.is_collecting(ETH))
    finally:
        await collector.stop_collection()


async def test_a_callback_that_raises_is_logged_and_the_ticks_are_stored(
    tmp_path: Path, simulate: Simulate, live_file: str
) -> None:
    heard: list[Ticker] = []
    facts: list[Fact] = []

    async def on_tick(ticker: Ticker) -> None:
        heard.append(ticker)
        if ticker.symbol == BTC.symbol:
            raise RuntimeError("planned")

    settings = settings_for(tmp_path, await simulate())
    collector = LiveTickerCollector(
        [BTC, ETH], settings=settings, listener=facts.append, on_tick=on_tick
    )
    await collector.start_collection()
    try:
        await until(lambda: {each.symbol for each in heard} == {BTC.symbol, ETH.symbol})
        await until(lambda: sum(each.symbol == BTC.symbol for each in heard) >= 4)
        await until(lambda: ticked(live_file, BTC, ETH))
    finally:
        await collector.stop_collection()

    failed = [each for each in facts if isinstance(each, CallbackFailed)]
    assert [each.times for each in failed][:3] == [1, 2, 4]
    assert failed[0].reason == "RuntimeError: planned"


async def test_a_lost_connection_is_shown_and_opened_again(
    tmp_path: Path, simulate: Simulate, live_file: str
) -> None:
    server = await simulate()
    collector = LiveTickerCollector([BTC], settings=settings_for(tmp_path, server))
    await collector.start_collection()
    try:
        await until(lambda: collector.received > 0)
        seen: list[ProcessStatus] = []

        async def status() -> ProcessStatus | None:
            entry = (await entries(live_file)).get(BTC.key)
            return None if entry is None else entry.status

        async def running() -> bool:
            return await status() is ProcessStatus.RUNNING

        async def failed() -> bool:
            seen.append(await status() or ProcessStatus.STOPPED)
            return seen[-1] is not ProcessStatus.RUNNING

        await until(running)
        async with aiohttp.ClientSession() as session:
            await session.post(f"http://{server.address}/_sim/disconnect")
        await until(failed)
        before = collector.received
        await until(lambda: collector.received > before)
        await until(running)
        assert collector.is_collecting(BTC)
    finally:
        await collector.stop_collection()
