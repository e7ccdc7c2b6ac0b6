"""What the collection of ticks uses: the stores, the exchanges' listings, and a writer of ticks."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, aclosing, asynccontextmanager, suppress
from dataclasses import dataclass

from penstock.clock import Clock
from penstock.config import Settings
from penstock.connectors import ConnectorManager
from penstock.connectors.gateways import FleetGateways
from penstock.connectors.markets import Markets
from penstock.live import ProcessCache, TickCache, TickWriter, live_url
from penstock.runtime.stores import open_state
from penstock.storage.cache import LiveStore, open_live_store
from penstock.storage.state import StateStore
from penstock.telemetry import Listener
from penstock.tickers.symbols import TickerSymbols

_DRAIN_S = 1.0
"""How long the last ticks may take to be written."""


@dataclass(frozen=True)
class TickerServices:
    """All of it, open."""

    settings: Settings
    clock: Clock
    emit: Listener
    live: LiveStore
    processes: ProcessCache
    writer: TickWriter
    connectors: ConnectorManager
    gateways: FleetGateways
    markets: Markets
    symbols: TickerSymbols


@asynccontextmanager
async def open_services(
    settings: Settings, clock: Clock, emit: Listener, state: StateStore | None = None
) -> AsyncIterator[TickerServices]:
    """Open everything, with a state store that is open already if there is one.

    Raises:
        ConfigError, MissingExtra: the URL of a store is invalid, or its library is not installed.
        StoreUnreachable, LoginRejected, NewerStore: a store cannot be opened.
    """
    async with AsyncExitStack() as stack:
        if state is None:
            state = await stack.enter_async_context(open_state(settings, clock))
        live = await open_live_store(
            live_url(settings), clock=clock, timeout_s=settings.live.timeout, listener=emit
        )
        stack.push_async_callback(live.close)
        cache = TickCache(
            live,
            ttl_s=settings.live.tick_ttl,
            stale_after_s=settings.live.stale_after,
            clock=clock,
        )
        writer = TickWriter(cache, clock, listener=emit)
        await stack.enter_async_context(_writing(writer))
        gateways = FleetGateways(state, settings, clock, emit)
        await stack.enter_async_context(aclosing(gateways))
        markets = await stack.enter_async_context(aclosing(Markets(state, gateways, emit)))
        yield TickerServices(
            settings,
            clock,
            emit,
            live,
            ProcessCache(live, clock=clock),
            writer,
            ConnectorManager(state),
            gateways,
            markets,
            TickerSymbols(state),
        )


@asynccontextmanager
async def _writing(writer: TickWriter) -> AsyncIterator[None]:
    """Write ticks in the background; at the end, those that wait."""
    task = asyncio.create_task(writer.run())
    try:
        yield
        with suppress(TimeoutError):
            async with asyncio.timeout(_DRAIN_S):
                await writer.drain()
    finally:
        task.cancel()
        await asyncio.wait([task])
