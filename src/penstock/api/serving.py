"""Builds the API from its parts and serves it."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TYPE_CHECKING, NamedTuple

from prometheus_client.process_collector import ProcessCollector

from penstock.api.access import Page, rules_of
from penstock.api.app_state import AppState
from penstock.api.application import build_application
from penstock.api.live_ticks import LiveTicks
from penstock.api.server import ApiServer
from penstock.clock import Clock
from penstock.config import Api
from penstock.ingest.admin import FleetAdmin
from penstock.monitor.markets import Markets
from penstock.monitor.monitor import FleetMonitor
from penstock.stats.metrics import Metrics
from penstock.stats.scraping import FleetScraper
from penstock.telemetry import Listener, fan_out

if TYPE_CHECKING:
    from penstock.dataset.dataset import Dataset


class Offered(NamedTuple):
    """What the API offers beside connectors and jobs."""

    monitor: FleetMonitor
    """Reads the documents that show the fleet."""
    open_data: "Callable[[], Dataset] | None" = None
    """Opens the collected data."""
    ticks: LiveTicks | None = None
    """The latest ticks; closed with the server."""
    scraper: FleetScraper | None = None
    """Reads the metrics of other processes."""
    page: Page | None = None
    """The console's pages."""
    market_pages: Markets | None = None
    """The markets of the data folder; closed with the server."""


@asynccontextmanager
async def serving(
    settings: Api,
    open_admin: Callable[[Listener], AbstractAsyncContextManager[FleetAdmin]],
    clock: Clock,
    listener: Listener,
    holder_of: Callable[[int], str | None],
    offered: Offered,
) -> AsyncIterator[ApiServer]:
    """Serve the API, with a ``FleetAdmin`` opened for it, until the block is left.

    Raises:
        ConfigError: other machines could connect without a token.
        PortInUse: another program listens there.
    """
    rules, metrics = rules_of(settings), Metrics(of_fleet=True)
    heard = fan_out([metrics, listener])
    ProcessCollector(registry=metrics.registry)
    async with open_admin(heard) as admin:
        app_state = AppState(
            admin,
            metrics,
            clock,
            monitor=offered.monitor,
            open_data=offered.open_data,
            ticks=offered.ticks,
            scraper=offered.scraper,
            market_pages=offered.market_pages,
        )
        application = build_application(app_state, rules, heard, offered.page)
        server = ApiServer(application, settings, holder_of)
        await server.start()
        try:
            yield server
        finally:
            app_state.closing.set()
            await server.stop()
            await app_state.live.close()
            if offered.ticks is not None:
                await offered.ticks.close()
            if offered.market_pages is not None:
                await offered.market_pages.close()
