"""Builds the API from its parts and serves it."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TYPE_CHECKING

from penstock.api.access import rules_of
from penstock.api.app_state import AppState
from penstock.api.application import build_application
from penstock.api.server import ApiServer
from penstock.clock import Clock
from penstock.config import Api
from penstock.ingest.admin import FleetAdmin
from penstock.stats.metrics import Metrics
from penstock.telemetry import Listener, tell_all

if TYPE_CHECKING:
    from penstock.dataset.dataset import Dataset


@asynccontextmanager
async def serving(
    settings: Api,
    open_admin: Callable[[Listener], AbstractAsyncContextManager[FleetAdmin]],
    clock: Clock,
    listener: Listener,
    holder_of: Callable[[int], str | None],
    open_data: Callable[[], "Dataset"] | None = None,
) -> AsyncIterator[ApiServer]:
    """Serve the API, with a ``FleetAdmin`` opened for it, until the block is left.

    ``open_data`` opens the collected data that it offers.

    Raises:
        ConfigError: other machines could connect without a token.
        PortInUse: another program listens there.
    """
    rules, metrics = rules_of(settings), Metrics(of_fleet=True)
    heard = tell_all([metrics, listener])
    async with open_admin(heard) as admin:
        app_state = AppState(admin, metrics, clock, open_data)
        server = ApiServer(build_application(app_state, rules, heard), settings, holder_of)
        await server.start()
        try:
            yield server
        finally:
            app_state.closing.set()
            await server.stop()
