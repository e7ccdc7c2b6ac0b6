"""The composition root: settings in, parts put together out. Nothing here opens or runs."""

from penstock.clock import Clock
from penstock.config import Simulator
from penstock.simulator import registry
from penstock.simulator.ledger import Ledger
from penstock.simulator.listings import find
from penstock.simulator.market import Libraries, Market
from penstock.simulator.server import SimulatorServer
from penstock.telemetry import Listener, quiet


def build_simulator(
    settings: Simulator, clock: Clock, listener: Listener = quiet, exchange: str | None = None
) -> SimulatorServer:
    """A simulated exchange, ready to start; the first there is, unless one is named.

    Raises:
        ConfigError: a fault or a limit is none.
        UnknownExchange, UnknownSymbol: something is named that does not exist.
    """
    libraries = Libraries()
    markets = [
        Market(listing, settings.seed, libraries.of(listing)) for listing in find(settings.symbols)
    ]
    built = registry.build(exchange or registry.names()[0], markets, settings)
    return SimulatorServer(built, settings, clock, listener, Ledger(markets))
