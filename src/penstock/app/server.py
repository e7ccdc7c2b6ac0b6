"""Builds the server of REST API and console from settings."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING

from penstock.app.admin import admin_on
from penstock.app.dataset import configured_dataset
from penstock.app.extras import installed_with
from penstock.app.monitoring import alerting_of
from penstock.clock import Clock
from penstock.config import Loaded, Settings
from penstock.console import ConsoleFiles
from penstock.live import live_url
from penstock.monitor.markets import Markets
from penstock.monitor.monitor import FleetMonitor
from penstock.net.port_owner import port_owner
from penstock.runtime.process import Process
from penstock.runtime.status import Report
from penstock.runtime.stores import configured_log, existing_lake
from penstock.telemetry import Listener, quiet

if TYPE_CHECKING:
    from penstock.api.server import ApiServer


@asynccontextmanager
async def open_server(
    loaded: Loaded[Settings], clock: Clock, listener: Listener = quiet
) -> AsyncIterator["ApiServer"]:
    """Open the server of the REST API and the console.

    Raises:
        MissingExtra: a library it needs is not installed.
        ConfigError: other machines would have access without a token.
        PortInUse: another program listens on the port.
        StoreUnreachable, NewerStore: the state store cannot be opened.
    """
    settings = loaded.settings
    with installed_with("api"):
        from penstock.api.live_ticks import LiveTicks  # noqa: PLC0415
        from penstock.api.serving import Offered, serving  # noqa: PLC0415
        from penstock.stats.scraping import FleetScraper  # noqa: PLC0415
    async with Process("serve", settings, clock, listener) as process:
        store = await process.open_state()
        opened = partial(admin_on, store, settings, clock)
        data = partial(configured_dataset, settings, clock)
        has_lake = partial(existing_lake, process.folder, settings.storage.lake_url)
        ticks = LiveTicks(live_url(settings), settings.live, clock, listener)
        markets = Markets(
            configured_log(settings), process.folder, clock, lambda: data if has_lake() else None
        )
        monitor = FleetMonitor(loaded)
        offered = Offered(
            monitor,
            data,
            ticks,
            FleetScraper(process.folder),
            page=ConsoleFiles(),
            market_pages=markets,
        )
        serving_api = serving(settings.api, opened, clock, listener, port_owner, offered)
        server = await process.stack.enter_async_context(serving_api)
        process.name = f"serve-{server.port}"
        process.running(lambda: Report(doing=f"serving {server.url}"))
        process.start(monitor.run(store, clock))
        process.start(alerting_of(settings, store, clock, listener).run())
        yield server
