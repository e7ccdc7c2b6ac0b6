"""Simulates Binance: spot market data over REST and streams.

Written from the exchange's documentation and from recordings of its traffic. All responses and
frames are functions of the market, the settings and a time; the server handles sockets, limits and
faults.
"""

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from penstock.config import Simulator
from penstock.simulator.binance import control, rest
from penstock.simulator.binance.files import Files
from penstock.simulator.binance.instrument import Instrument, list_market
from penstock.simulator.binance.listings import CATALOGUE
from penstock.simulator.binance.refusals import error_body
from penstock.simulator.binance.rules import Limits, limits_from, upkeep_from
from penstock.simulator.binance.streams import Streams
from penstock.simulator.binance.units import UNITS
from penstock.simulator.engine.exchange import (
    Asked,
    ControlReply,
    Opening,
    Reply,
    Route,
    SimulatedExchange,
    StreamFeed,
    Subscriber,
    Upkeep,
)
from penstock.simulator.engine.limits import Verdict
from penstock.simulator.engine.rules import BanPolicy, Rule
from penstock.simulator.market.market import Market

__all__ = ["CATALOGUE", "Binance", "build"]

SHUTDOWN_STREAM = "!serverShutdown"


def build(markets: Sequence[Market], settings: Simulator) -> SimulatedExchange:
    """Build the exchange that lists these markets.

    Raises:
        ConfigError: a limit's window cannot be announced.
    """
    instruments = [list_market(market) for market in markets]
    return Binance(instruments, limits_from(settings), upkeep_from(settings.binance))


class Binance:
    """Binance spot."""

    name = "binance"
    headers: Mapping[str, str] = MappingProxyType({"Server": "nginx"})
    content_type = "application/json;charset=UTF-8"
    binary = False

    def __init__(
        self, instruments: Sequence[Instrument], limits: Limits, upkeep: Upkeep | None = None
    ) -> None:
        self._limits = limits
        self.upkeep = upkeep or Upkeep()
        self.bans: BanPolicy | None = limits.bans
        by_unit = {unit: [each.in_unit(unit) for each in instruments] for unit in UNITS}
        self._streams = {unit.dialect: Streams(found) for unit, found in by_unit.items()}
        self._instants = {unit.dialect: unit.instant for unit in UNITS}
        self.rules: Sequence[Rule] = limits.rules
        self.routes: Mapping[str, Route] = {
            **rest.routes(by_unit, limits),
            **Files(by_unit).routes(),
        }

    def not_found(self, path: str) -> Reply:  # noqa: ARG002 - the page does not name it
        """An HTML page, not an error body, since the path does not reach the API."""
        page = b"<html><body><h2>404 Not found</h2></body></html>"
        return Reply(page, status=404, content_type="text/html")

    def failure(self) -> Reply:
        """A 500 with the exchange's general error code."""
        message = "An unknown error occurred while processing the request."
        return Reply(error_body(-1000, message), status=500)

    def refusal(self, verdict: Verdict) -> Reply:
        """429 while over a limit, 418 while banned."""
        return self._limits.refusal(verdict)

    def usage_headers(self, verdict: Verdict) -> Mapping[str, str]:
        """The headers with the weight used so far."""
        return self._limits.usage_headers(verdict)

    def open(self, path: str, asked: Asked) -> Opening | None:
        """The streams that a WebSocket address requests."""
        return control.opening(path, asked.query)

    def greeting(self, connection: int, at_ms: int) -> list[bytes]:  # noqa: ARG002 - as the port
        """No payloads: the exchange sends no greeting."""
        return []

    def control(self, text: str, subscriber: Subscriber, at_ms: int = 0) -> list[ControlReply]:  # noqa: ARG002
        """Apply a client's message and return the replies."""
        return control.answer(text, subscriber)

    def overrun(self, text: str) -> None:
        """None: too many messages close the connection."""

    def feed(self, stream: str, dialect: str = "") -> StreamFeed | None:
        """The stream of that name, with times in the dialect's unit."""
        return self._streams[dialect].feed(stream)

    def wrap(self, stream: str, payload: bytes) -> bytes:
        """The payload in an envelope with its stream's name."""
        return b'{"stream":"%b","data":%b}' % (stream.encode(), payload)

    def shutdown_notice(self, at_ms: int, dialect: str = "") -> tuple[str, bytes]:
        """The notice before a planned stop."""
        at = self._instants[dialect] % at_ms
        return SHUTDOWN_STREAM, f'{{"e":"serverShutdown","E":{at}}}'.encode()

    def refuse_ack(self, reply: bytes) -> bytes:
        """An error with the id of the acknowledgement."""
        return control.refusal_of(reply)
