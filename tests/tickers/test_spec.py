"""The snippets of the specification for the daemon, with penstock's import names."""

import asyncio
import os
import signal
from pathlib import Path

import pytest
from tests.tickers.conftest import BTC, ETH, Simulate, settings_for, until

from penstock.config import Settings
from penstock.exchanges.base import Exchange
from penstock.live import ProcessCache, ProcessStatus, TickCache
from penstock.market.events import Ticker
from penstock.tickers import LiveTickerCollector, TickerDaemon, TickerSymbol, TickerSymbols


@pytest.fixture(autouse=True)
async def simulated(
    tmp_path: Path, simulate: Simulate, monkeypatch: pytest.MonkeyPatch
) -> Settings:
    """The default settings, with the simulator instead of the exchange."""
    monkeypatch.chdir(tmp_path)
    folder = Path("penstock-data")
    settings = settings_for(folder, await simulate())
    for module in ("daemon", "live_collector"):
        monkeypatch.setattr(f"penstock.tickers.{module}.Settings", lambda: settings)
    return settings


async def test_bulk_startup(table: TickerSymbols) -> None:
    daemon = TickerDaemon()
    await daemon.start()
    try:
        health = await daemon.get_health()
        assert health["status"] == "running"
        assert health["running"] is True
        assert health["collector"] == "active"
    finally:
        await daemon.stop()
    assert (await daemon.get_health())["status"] == "stopped"


async def test_a_single_symbol_and_then_another() -> None:
    symbol = TickerSymbol.of("binance", "BTC/USDT")
    daemon = TickerDaemon()
    try:
        await daemon.process_ticker(symbol)
        await daemon.process_ticker(ETH)
        assert (await daemon.get_health())["symbol_count"] == 2

        with pytest.raises(ValueError, match="Invalid symbol"):
            await daemon.process_ticker(None)  # type: ignore[arg-type]

        async with TickCache() as cache:

            async def there() -> bool:
                return await cache.get_ticker("BTC/USDT", "binance") is not None

            await until(there)
    finally:
        await daemon.stop()


async def test_the_collector_alone() -> None:
    collector = LiveTickerCollector()
    await collector.start_symbol(BTC)
    assert collector.is_collecting(BTC)
    await collector.stop_collection()
    assert not collector.is_collecting(BTC)

    collector = LiveTickerCollector(symbols=[BTC, ETH])
    await collector.start_collection()
    assert collector.is_collecting(ETH)
    await collector.stop_collection()
    async with ProcessCache() as cache:
        found = await cache.get_processes()
        assert await cache.get_active_processes() == []
    assert {each.status for each in found} == {ProcessStatus.STOPPED}


async def test_the_credential_provider() -> None:
    secrets = {"kraken": ("secret", "key")}

    def find_credentials(name: str) -> tuple[str, str]:
        if name not in secrets:
            raise ValueError(name)
        return secrets[name]

    def credential_provider(exchange_obj: Exchange) -> tuple[str, str]:
        try:
            secret, key = find_credentials(exchange_obj.name)
            return (key, secret)  # Return in (api_key, secret) format
        except ValueError:
            return ("", "")  # Public access for ticker data

    daemon = TickerDaemon(credentials=credential_provider)
    await daemon.process_ticker(BTC)
    await daemon.stop()
    async with ProcessCache() as cache:
        [entry] = [each for each in await cache.get_processes() if each.component == BTC.key]
    assert entry.params["access"] == "public"


async def test_a_callback_for_ticks() -> None:
    received = asyncio.Event()

    async def handle_ticker(tick: Ticker) -> None:
        received.set()

    daemon = TickerDaemon(on_tick=handle_ticker)
    await daemon.process_ticker(BTC)
    await received.wait()
    await daemon.stop()


async def test_graceful_shutdown() -> None:
    shutdown_event = asyncio.Event()

    def signal_handler(signum: int, frame: object) -> None:
        shutdown_event.set()

    before = signal.signal(signal.SIGTERM, signal_handler)
    daemon = TickerDaemon()
    try:
        await daemon.process_ticker(BTC)
        os.kill(os.getpid(), signal.SIGTERM)
        while not shutdown_event.is_set():
            await asyncio.wait_for(shutdown_event.wait(), timeout=1.0)
    finally:
        # Always cleanup
        await daemon.stop()
        signal.signal(signal.SIGTERM, before)
    assert (await daemon.get_health())["running"] is False
