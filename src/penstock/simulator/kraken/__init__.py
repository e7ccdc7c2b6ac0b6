"""Simulates Kraken: spot market data over REST and version 2 of its streams.

Written from the exchange's documentation and from recordings of its traffic. All responses and
frames are functions of the market, the settings and a time; the server handles sockets, limits and
faults.
"""

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from penstock.config import Simulator
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
from penstock.simulator.kraken import control, refusals, rest, rules
from penstock.simulator.kraken.instrument import Instrument, list_markets
from penstock.simulator.kraken.listings import CATALOGUE
from penstock.simulator.kraken.streams import Streams
from penstock.simulator.market.market import Market
from penstock.simulator.market.rng import key, mix

__all__ = ["CATALOGUE", "Kraken", "build"]

STREAMS = "/v2"
STATUS = "status"
_VERSION = "2.0.10"
_NOT_FOUND = b"<html><head><title>404 Not Found</title></head><body>404 Not Found</body></html>"


def build(markets: Sequence[Market], settings: Simulator) -> SimulatedExchange:
    """Build the exchange that lists these markets.

    Raises:
        ConfigError: the settings have a limit that does not exist or cannot be parsed.
    """
    limits, upkeep = rules.rules_from(settings), rules.upkeep_from(settings.kraken)
    return Kraken(list_markets(markets), limits, upkeep)


class Kraken:
    """Kraken spot."""

    name = "kraken"
    headers: Mapping[str, str] = MappingProxyType({"Server": "cloudflare"})
    content_type = "application/json; charset=utf-8"
    binary = False
    bans: BanPolicy | None = None

    def __init__(
        self, instruments: Sequence[Instrument], limits: Sequence[Rule], upkeep: Upkeep
    ) -> None:
        self.rules, self.upkeep = limits, upkeep
        self.routes: Mapping[str, Route] = rest.routes(instruments)
        self._streams = Streams(instruments)
        self._handler = control.MessageHandler(self._streams)

    def not_found(self, path: str) -> Reply:
        """An error in a 200 for an unknown method; an HTML page for any other path."""
        if path.startswith(rest.PREFIX):
            return refusals.error(refusals.UNKNOWN_METHOD)
        return Reply(_NOT_FOUND, status=404, content_type="text/html")

    def failure(self) -> Reply:
        """An internal error, also in a 200."""
        return refusals.error(refusals.INTERNAL_ERROR)

    def refusal(self, verdict: Verdict) -> Reply:
        """The response to too many requests or connections."""
        return rules.refusal(verdict)

    def usage_headers(self, verdict: Verdict) -> Mapping[str, str]:  # noqa: ARG002 - as the port
        """No headers: Kraken does not report usage."""
        return {}

    def open(self, path: str, asked: Asked) -> Opening | None:  # noqa: ARG002 - as the port
        """The only address, without streams: clients subscribe by messages."""
        return Opening((), wrapped=False) if path.rstrip("/") == STREAMS else None

    def greeting(self, connection: int, at_ms: int) -> list[bytes]:
        """The system's status, with a connection id that exceeds a float's precision."""
        return [_status("online", mix(key("connection", at_ms) ^ connection) >> 1)]

    def control(self, text: str, subscriber: Subscriber, at_ms: int) -> list[ControlReply]:
        """Apply a client's message and return the replies."""
        return self._handler.answer(text, subscriber, at_ms)

    def overrun(self, text: str) -> bytes | None:
        """The error for a message over the limit, which is not applied."""
        return control.overrun(text)

    def feed(self, stream: str, dialect: str = "") -> StreamFeed | None:  # noqa: ARG002 - as the port
        """The stream of that name."""
        return self._streams.feed(stream)

    def wrap(self, stream: str, payload: bytes) -> bytes:  # noqa: ARG002 - as the port
        """The payload unchanged: frames contain their channel and symbol."""
        return payload

    def shutdown_notice(self, at_ms: int, dialect: str = "") -> tuple[str, bytes] | None:  # noqa: ARG002
        """The status sent before a maintenance."""
        return STATUS, _status("maintenance", mix(key("notice", at_ms)) >> 1)

    def refuse_ack(self, reply: bytes) -> bytes:
        """An error for the same request as the acknowledgement."""
        return control.refusal_of(reply)


def _status(system: str, connection_id: int) -> bytes:
    return (
        f'{{"channel":"status","type":"update","data":[{{"version":"{_VERSION}",'
        f'"system":"{system}","api_version":"v2","connection_id":{connection_id}}}]}}'
    ).encode()
