"""Opens connectors, jobs and listings for administration."""

from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager, suppress
from functools import partial

from msgspec.structs import replace

from penstock.clock import Clock
from penstock.config import Settings
from penstock.connectors import ConnectorManager
from penstock.connectors.gateways import FleetGateways
from penstock.connectors.markets import Markets
from penstock.errors import ConfigError, MissingExtra, UnknownExchange
from penstock.exchanges import registry as exchanges
from penstock.exchanges.keyed import signer_for
from penstock.ingest import registry
from penstock.ingest.admin import FleetAdmin
from penstock.jobs.service import JobService
from penstock.runtime.stores import open_state
from penstock.storage.state import StateStore
from penstock.telemetry import Listener, quiet
from penstock.throttle.gate import Limit


@asynccontextmanager
async def open_admin(
    settings: Settings, clock: Clock, listener: Listener = quiet, *, read_only: bool = False
) -> AsyncIterator[FleetAdmin]:
    """Open connectors and jobs for administration. An exchange is queried only if needed, and once.

    With ``read_only`` a state file is neither created nor changed.

    Raises:
        StoreUnreachable, NewerStore: the state store cannot be opened.
    """
    async with (
        open_state(settings, clock, read_only=read_only) as store,
        admin_on(store, settings, clock, listener) as admin,
    ):
        yield admin


@asynccontextmanager
async def admin_on(
    store: StateStore, settings: Settings, clock: Clock, listener: Listener = quiet
) -> AsyncIterator[FleetAdmin]:
    """The same on a store that is open."""
    async with _open_markets(settings, store, clock, listener) as markets:
        connectors = ConnectorManager(store, partial(_key_limits, settings))
        yield FleetAdmin(connectors, JobService(store, registry.kinds()), markets)


def _key_limits(settings: Settings, exchange_id: str) -> tuple[Limit, ...] | None:
    """The limits of the API key that processes with these settings use; None without one.

    A key that cannot be used is reported by the processes that would use it.
    """
    with suppress(UnknownExchange, MissingExtra, ConfigError):
        exchange = exchanges.load(exchange_id)
        if exchange.keyed and signer_for(exchange_id, exchange.keyed, settings.exchanges):
            return exchange.keyed.limits
    return None


async def renew_listing(
    settings: Settings, exchange: str, clock: Clock, listener: Listener = quiet
) -> None:
    """Fetch an exchange's market listing, and store it for all processes.

    Raises:
        StoreUnreachable, NewerStore: the state store cannot be opened.
        ExchangeError, ExchangeUnreachable: the exchange cannot be queried now.
    """
    async with (
        open_state(settings, clock) as store,
        _open_markets(settings, store, clock, listener) as markets,
    ):
        await markets.renew(exchange)


@asynccontextmanager
async def _open_markets(
    settings: Settings, store: StateStore, clock: Clock, listener: Listener
) -> AsyncIterator[Markets]:
    """Open the market listings, with a short timeout and one attempt, since a user waits."""
    hasty = replace(settings.requests, acquire_timeout=settings.jobs.acquire_timeout, attempts=1)
    gateways = FleetGateways(store, replace(settings, requests=hasty), clock, listener)
    async with aclosing(gateways):
        yield Markets(store, gateways, listener)
