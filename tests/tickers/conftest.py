"""Simulated exchanges, and daemons that collect from them."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from tests.waiting import PATIENCE_S

from penstock.app.simulator import build_simulator
from penstock.clock import SystemClock
from penstock.config import Collect, Exchanges, Live, Requests, Settings, Simulator, Tickers
from penstock.live import ProcessCache, ProcessInfo, TickCache
from penstock.simulator.engine.server import SimulatorServer
from penstock.storage.state import StateStore, open_store
from penstock.tickers import TickerSymbol, TickerSymbols

BTC, ETH, SOL = (TickerSymbol.of("binance", name) for name in ("BTC/USDT", "ETH/USDT", "SOL/USDT"))
KRAKEN = TickerSymbol.of("kraken", "BTC/USD")

Simulate = Callable[..., Awaitable[SimulatorServer]]


@pytest.fixture
async def simulate() -> AsyncIterator[Simulate]:
    """Start a simulated exchange for the length of a test."""
    servers: list[SimulatorServer] = []

    async def start(
        exchange: str = "binance", symbols: tuple[str, ...] = ("btc_usdt", "eth_usdt", "sol_usdt")
    ) -> SimulatorServer:
        settings = Simulator(port=0, symbols=symbols, uplink_ms=0, latency_ms=1)
        server = build_simulator(settings, SystemClock(), exchange=exchange)
        await server.start()
        servers.append(server)
        return server

    yield start
    for server in servers:
        await server.stop()


def settings_for(
    folder: Path, *servers: SimulatorServer, live_url: str = "", poll_s: float = 0.2
) -> Settings:
    urls = {server.state().exchange: f"http://{server.address}" for server in servers}
    return Settings(
        collect=Collect(data_dir=str(folder), ack_timeout=PATIENCE_S),
        exchanges=Exchanges(rest_urls=urls, stream_urls=urls),
        requests=Requests(attempts=1),
        live=Live(url=live_url),
        tickers=Tickers(poll_interval=poll_s),
    )


@pytest.fixture
async def state(tmp_path: Path) -> AsyncIterator[StateStore]:
    """The state store that daemons of the test's folder use."""
    store = await open_store(f"sqlite:{tmp_path / 'state.db'}")
    yield store
    await store.close()


@pytest.fixture
def table(state: StateStore) -> TickerSymbols:
    return TickerSymbols(state)


async def until(true: Callable[[], Awaitable[Any] | Any]) -> None:
    """Wait until something holds."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            found = true()
            if await found if isinstance(found, Awaitable) else found:
                return
            await asyncio.sleep(0.02)


async def entries(url: str) -> dict[str, ProcessInfo]:
    """All entries of the process cache, by component."""
    async with ProcessCache(url) as cache:
        return {each.component: each for each in await cache.get_processes()}


async def ticked(url: str, *symbols: TickerSymbol) -> bool:
    """Whether each of these has a tick."""
    async with TickCache(url) as cache:
        found = [await cache.get_ticker(each.symbol, each.exchange) for each in symbols]
    return all(each is not None for each in found)


@pytest.fixture(autouse=True)
async def no_task_left() -> AsyncIterator[None]:
    """Whatever a test did, no task of penstock is left behind."""
    yield
    left = [task for task in asyncio.all_tasks() if "/penstock/" in repr(task)]
    assert not left
