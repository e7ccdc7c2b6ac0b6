"""Builds a simulated exchange from settings."""

from penstock.clock import Clock
from penstock.config import Simulator
from penstock.simulator import registry
from penstock.simulator.engine.ledger import Ledger
from penstock.simulator.engine.server import SimulatorServer
from penstock.simulator.market.market import Libraries, Market
from penstock.telemetry import Listener, quiet


def build_simulator(
    settings: Simulator, clock: Clock, listener: Listener = quiet, exchange: str | None = None
) -> SimulatorServer:
    """A simulated exchange, ready to start; the first available, unless one is named.

    Raises:
        ConfigError: a fault or a limit is invalid.
        UnknownExchange, UnknownSymbol: one of the names does not exist.
    """
    libraries, name = Libraries(), exchange or registry.names()[0]
    listings = registry.catalogue(name).find(settings.symbols)
    markets = [Market(each, settings.seed, libraries.of(each)) for each in listings]
    built = registry.build(name, markets, settings)
    return SimulatorServer(built, settings, clock, listener, Ledger(markets, clock))
