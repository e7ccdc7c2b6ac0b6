"""Every method and every state transition of the ticker daemon."""

import asyncio
import logging
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

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
from penstock.errors import (
    BadSymbol,
    ConnectorPaused,
    LoginRejected,
    StorageError,
    StoreUnreachable,
    UnknownExchange,
    UnknownSymbol,
)
from penstock.exchanges.base import Exchange
from penstock.live import ProcessStatus, ProcessType
from penstock.storage.cache import LiveStore, open_live_store
from penstock.storage.state import StateStore
from penstock.telemetry import Fact, quiet
from penstock.tickers import TickerDaemon, TickerSymbol, TickerSymbols
from penstock.tickers import daemon as daemon_module
from penstock.tickers import services as services_module
from penstock.tickers.facts import CredentialsUnavailable, DaemonFailed, DaemonStarted
from penstock.tickers.membership import SPACE

KEYS = {"status", "running", "process_id", "collector", "exchanges", "symbol_count"}
STOPPED: dict[str, Any] = {
    "status": "stopped",
    "running": False,
    "process_id": None,
    "collector": "inactive",
    "exchanges": [],
    "symbol_count": 0,
}


@asynccontextmanager
async def stopped_at_the_end(daemon: TickerDaemon) -> AsyncIterator[TickerDaemon]:
    try:
        yield daemon
    finally:
        await daemon.stop()
    assert await daemon.get_health() == STOPPED


async def test_made_it_is_stopped_and_opens_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    daemon = TickerDaemon()

    assert await daemon.get_health() == STOPPED
    await daemon.stop()
    assert await daemon.get_health() == STOPPED
    assert not os.listdir(tmp_path)  # noqa: PTH208


@pytest.mark.parametrize("live_backend", ["memory", "sqlite", "redis"])
async def test_started_it_collects_all_symbols_and_stopped_it_leaves_nothing(
    tmp_path: Path, simulate: Simulate, table: TickerSymbols, live_url: str
) -> None:
    server, other = await simulate(), await simulate("kraken", ("btc_usd",))
    for symbol in (BTC, ETH, KRAKEN):
        await table.add(symbol)
    settings = settings_for(tmp_path, server, other, live_url=live_url)
    facts: list[Fact] = []
    daemon = TickerDaemon(settings, listener=facts.append)
    async with stopped_at_the_end(daemon):
        await daemon.start()
        collector = daemon.collector
        assert collector is not None
        await daemon.start()
        assert daemon.collector is collector, "does nothing while it runs"
        health = await daemon.get_health()
        assert set(health) == KEYS
        assert health["status"] == "running"
        assert health["running"] is True
        assert health["collector"] == "active"
        assert health["exchanges"] == ["binance", "kraken"]
        assert health["symbol_count"] == 3
        assert isinstance(health["process_id"], str)
        await until(lambda: collector.received > 10)
        if live_url != "memory:":
            await until(lambda: ticked(live_url, BTC, ETH, KRAKEN))
            own = [
                each
                for each in (await entries(live_url)).values()
                if each.process_type is ProcessType.TICKERS
            ]
            assert [each.process_id for each in own] == [health["process_id"]]
    assert any(isinstance(each, DaemonStarted) for each in facts)
    if live_url != "memory:":
        found = await entries(live_url)
        assert len(found) == 4
        assert {each.status for each in found.values()} == {ProcessStatus.STOPPED}
        store = await open_live_store(live_url)
        assert await store.find(SPACE) == [], "its lease is given up"
        await store.close()


async def test_it_can_be_started_again(
    tmp_path: Path, simulate: Simulate, table: TickerSymbols
) -> None:
    await table.add(BTC)
    async with stopped_at_the_end(TickerDaemon(settings_for(tmp_path, await simulate()))) as daemon:
        for _ in range(2):
            await daemon.start()
            assert (await daemon.get_health())["symbol_count"] == 1
            await daemon.stop()


async def test_process_ticker_starts_a_stopped_daemon_for_one_symbol(
    tmp_path: Path, simulate: Simulate, table: TickerSymbols
) -> None:
    await table.add(ETH)
    async with stopped_at_the_end(TickerDaemon(settings_for(tmp_path, await simulate()))) as daemon:
        await daemon.process_ticker(BTC)
        health = await daemon.get_health()
        assert (health["status"], health["symbol_count"]) == ("running", 1)
        assert daemon.collector is not None
        assert daemon.collector.is_collecting(BTC)


async def test_process_ticker_adds_a_symbol_to_a_running_daemon_which_keeps_it(
    tmp_path: Path, simulate: Simulate, table: TickerSymbols
) -> None:
    await table.add(BTC)
    async with stopped_at_the_end(TickerDaemon(settings_for(tmp_path, await simulate()))) as daemon:
        await daemon.start()
        await daemon.process_ticker(ETH)
        await daemon.process_ticker(ETH)  # it is collected already
        assert daemon.collector is not None
        assert daemon.collector.is_collecting(ETH)
        # Symbols that are added and removed in the state store later do not affect it.
        await table.add(SOL)
        collector = daemon.collector
        await until(lambda: collector.is_collecting(SOL))
        assert collector.is_collecting(ETH)
        await table.remove(BTC)
        await until(lambda: not collector.is_collecting(BTC))
        assert collector.is_collecting(ETH)
        assert collector.is_collecting(SOL)


async def test_a_failed_start_is_an_error_from_which_every_operation_recovers(
    tmp_path: Path, simulate: Simulate
) -> None:
    settings = settings_for(tmp_path, await simulate())
    (tmp_path / "live.db").mkdir()
    facts: list[Fact] = []
    daemon = TickerDaemon(settings, listener=facts.append)

    async def fail() -> None:
        with pytest.raises(StorageError):
            await daemon.start()
        assert await daemon.get_health() == {**STOPPED, "status": "error"}

    await fail()
    assert [each for each in facts if isinstance(each, DaemonFailed)]
    with pytest.raises(StorageError):
        await daemon.process_ticker(BTC)
    assert (await daemon.get_health())["status"] == "error"
    await daemon.stop()
    assert await daemon.get_health() == STOPPED
    await fail()
    (tmp_path / "live.db").rmdir()
    async with stopped_at_the_end(daemon):
        await daemon.process_ticker(BTC)
        assert (await daemon.get_health())["status"] == "running"


async def test_a_wrong_password_is_an_error(tmp_path: Path, redis_url: str) -> None:
    host = redis_url.partition("://")[2]
    settings = settings_for(tmp_path, live_url=f"redis://:wrong-password@{host}")
    daemon = TickerDaemon(settings, listener=quiet)

    with pytest.raises(LoginRejected) as caught:
        await daemon.start()

    assert "wrong-password" not in str(caught.value)
    assert (await daemon.get_health())["status"] == "error"
    await daemon.stop()


async def test_stop_ends_a_start_in_progress(
    tmp_path: Path, simulate: Simulate, table: TickerSymbols, monkeypatch: pytest.MonkeyPatch
) -> None:
    await table.add(BTC)
    opening, opened = asyncio.Event(), services_module.open_services

    @asynccontextmanager
    async def slow(*args: Any) -> AsyncIterator[Any]:
        async with opened(*args) as services:
            opening.set()
            await asyncio.sleep(3600)
            yield services

    monkeypatch.setattr(daemon_module, "open_services", slow)
    daemon = TickerDaemon(settings_for(tmp_path, await simulate()))
    starting = asyncio.create_task(daemon.start())
    await opening.wait()
    waiting = asyncio.create_task(daemon.process_ticker(ETH))
    await asyncio.sleep(0)
    assert (await daemon.get_health())["status"] == "running"

    async with asyncio.timeout(20):
        await daemon.stop()
        await starting
        await waiting

    assert await daemon.get_health() == STOPPED


async def test_it_stops_although_the_store_of_live_values_is_away(
    tmp_path: Path, simulate: Simulate, table: TickerSymbols, monkeypatch: pytest.MonkeyPatch
) -> None:
    await table.add(BTC)
    daemon = TickerDaemon(settings_for(tmp_path, await simulate()), listener=quiet)
    async with stopped_at_the_end(daemon):
        await daemon.start()
        collector = daemon.collector
        assert collector is not None

        async def fail(*_: object) -> int:
            raise StoreUnreachable("live.db", "planned")

        for operation in ("put", "get", "find", "remove"):
            monkeypatch.setattr(LiveStore, operation, fail)
        before = collector.received
        await until(lambda: collector.received > before)
        assert collector.is_collecting(BTC)


async def test_a_cancelled_start_leaves_it_stopped(
    tmp_path: Path, simulate: Simulate, table: TickerSymbols
) -> None:
    await table.add(BTC)
    daemon = TickerDaemon(settings_for(tmp_path, await simulate()))
    starting = asyncio.create_task(daemon.start())
    await until(lambda: daemon.collector is not None)
    starting.cancel()

    with pytest.raises(asyncio.CancelledError):
        await starting

    assert await daemon.get_health() == STOPPED


async def test_bad_input_changes_nothing(
    tmp_path: Path, simulate: Simulate, state: StateStore, table: TickerSymbols
) -> None:
    settings = settings_for(tmp_path, await simulate())
    await table.add(BTC)
    with pytest.raises(UnknownExchange):
        await TickerDaemon(settings, exchanges=["bin"]).start()
    async with stopped_at_the_end(TickerDaemon(settings)) as daemon:
        for invalid in (None, "BTC/USDT", object()):
            with pytest.raises(BadSymbol):
                await daemon.process_ticker(invalid)  # type: ignore[arg-type]
        with pytest.raises(UnknownExchange):
            await daemon.process_ticker(TickerSymbol.of("nowhere", "BTC/USDT"))
        assert await daemon.get_health() == STOPPED
        await daemon.start()
        with pytest.raises(UnknownSymbol):
            await daemon.process_ticker(TickerSymbol.of("binance", "NOPE/USDT"))
        await ConnectorManager(state).pause_connector("binance")
        with pytest.raises(ConnectorPaused):
            await daemon.process_ticker(ETH)
        health = await daemon.get_health()
        assert (health["status"], health["symbol_count"]) == ("running", 1)
        assert daemon.collector is not None
        assert daemon.collector.is_collecting(BTC), "a pause ends no stream"


async def test_a_row_of_an_unknown_exchange_hurts_no_other(
    tmp_path: Path, simulate: Simulate, state: StateStore, table: TickerSymbols
) -> None:
    from penstock.storage.state.schema import SYMBOLS  # noqa: PLC0415

    await table.add(BTC)
    for exchange, symbol in (("future", "BTC/USDT"), ("binance", "nonsense")):
        row = {"id": f"{exchange}:{symbol}", "exchange": exchange, "symbol": symbol}
        await state.insert_if_absent(SYMBOLS, row)
    async with stopped_at_the_end(TickerDaemon(settings_for(tmp_path, await simulate()))) as daemon:
        await daemon.start()
        assert (await daemon.get_health())["exchanges"] == ["binance"]


async def test_a_credential_provider_that_fails_means_public_access(
    tmp_path: Path, simulate: Simulate
) -> None:
    asked: list[str] = []
    facts: list[Fact] = []

    def provider(exchange: Exchange) -> tuple[str, str]:
        asked.append(exchange.name)
        raise RuntimeError("the key is s3cr3t")

    settings = settings_for(tmp_path, await simulate())
    daemon = TickerDaemon(settings, credentials=provider, listener=facts.append)
    async with stopped_at_the_end(daemon):
        await daemon.process_ticker(BTC)
        await daemon.process_ticker(ETH)
    assert asked == ["binance"]
    [failure] = [each for each in facts if isinstance(each, CredentialsUnavailable)]
    assert failure.reason == "RuntimeError", "its text may contain a secret"


async def test_its_facts_have_the_loggers_of_the_specification(
    tmp_path: Path, simulate: Simulate, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "penstock")
    async with stopped_at_the_end(TickerDaemon(settings_for(tmp_path, await simulate()))) as daemon:
        await daemon.start()
        await daemon.process_ticker(BTC)

    named = {record.name for record in caplog.records}
    assert {"penstock.ticker.daemon", "penstock.ticker.live"} <= named
