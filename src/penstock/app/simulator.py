"""Builds a simulated exchange from settings."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from penstock.clock import Clock
from penstock.config import Settings, Simulator
from penstock.runtime.process import Process
from penstock.runtime.status import Report
from penstock.simulator import registry
from penstock.simulator.engine.ledger import Ledger
from penstock.simulator.engine.server import SimulatorServer
from penstock.simulator.market.market import Market, library_of
from penstock.telemetry import Listener, quiet


def build_simulator(
    settings: Simulator, clock: Clock, listener: Listener = quiet, exchange: str | None = None
) -> SimulatorServer:
    """A simulated exchange, ready to start; the first available, unless one is named.

    Raises:
        ConfigError: a fault or a limit is invalid.
        UnknownExchange, UnknownSymbol: one of the names does not exist.
    """
    name = exchange or registry.names()[0]
    listings = registry.catalogue(name).find(settings.symbols)
    markets = [Market(each, settings.seed, library_of(each)) for each in listings]
    built = registry.build(name, markets, settings)
    return SimulatorServer(built, settings, clock, listener, Ledger(markets, clock))


@asynccontextmanager
async def reported(
    server: SimulatorServer, settings: Settings, clock: Clock
) -> AsyncIterator[None]:
    """Write the status of a started simulator to the state store of the settings."""
    async with Process("sim", settings, clock) as process:
        process.name = f"sim-{server.state().exchange}-{server.port}"
        process.open_state_later()
        process.running(lambda: _report(server))
        yield


def _report(server: SimulatorServer) -> Report:
    state = server.state()
    clients = "1 client" if state.clients == 1 else f"{state.clients:,} clients"
    traffic = f"{clients}, {state.frames_per_s:,} frames/s"
    doing = f"{traffic}, {state.requests:,} requests on {state.address}"
    return Report(doing=doing, activity=state.frames_sent + state.requests)
