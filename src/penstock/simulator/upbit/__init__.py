"""Simulates Upbit (Korea): the quotation API over REST and WebSocket.

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
)
from penstock.simulator.engine.limits import Verdict
from penstock.simulator.engine.rules import BanPolicy, Rule, ban_policy
from penstock.simulator.market.market import Market
from penstock.simulator.upbit import control, refusals, rest, rules
from penstock.simulator.upbit.instrument import Instrument, list_market
from penstock.simulator.upbit.listings import CATALOGUE
from penstock.simulator.upbit.streams import Streams

__all__ = ["CATALOGUE", "Upbit", "build"]

STREAMS_PATH = "/websocket/v1"


def build(markets: Sequence[Market], settings: Simulator) -> SimulatedExchange:
    """Build the exchange that lists these markets.

    Raises:
        ConfigError: the settings have a limit that does not exist or cannot be parsed.
    """
    return Upbit([list_market(market) for market in markets], settings)


class Upbit:
    """Upbit."""

    name = "upbit"
    headers: Mapping[str, str] = MappingProxyType({"Server": "nginx"})
    content_type = "application/json;charset=UTF-8"
    binary = True

    def __init__(self, instruments: Sequence[Instrument], settings: Simulator) -> None:
        codes = [each.code for each in instruments]
        self._handler = control.MessageHandler(codes, replaces=settings.upbit.requests_replace)
        self._streams = Streams(instruments)
        self.rules: Sequence[Rule] = rules.rules_from(settings)
        self.bans: BanPolicy | None = ban_policy(settings)
        self.upkeep = rules.upkeep()
        self.routes: Mapping[str, Route] = rest.routes(
            instruments, rules.history_depth_from(settings.upbit)
        )

    def not_found(self, path: str) -> Reply:  # noqa: ARG002 - the answer does not name it
        """A 404 with a fixed message."""
        return refusals.said(404, 404, "no Route matched with those values")

    def failure(self) -> Reply:
        """A 500 with a fixed message."""
        return refusals.said(500, "server_error", "Internal server error")

    def refusal(self, verdict: Verdict) -> Reply:
        """429 while over a limit, 418 while banned."""
        return rules.refusal(verdict)

    def usage_headers(self, verdict: Verdict) -> Mapping[str, str]:
        """The header with the remaining requests of the group in this second."""
        return rules.usage_headers(verdict)

    def open(self, path: str, asked: Asked) -> Opening | None:
        """The only path for streams, without streams: clients subscribe by messages."""
        if path.rstrip("/") != STREAMS_PATH:
            return None
        group = rules.ORIGIN if "Origin" in asked.headers else rules.CONNECT
        return Opening((), wrapped=False, group=group)

    def greeting(self, connection: int, at_ms: int) -> list[bytes]:  # noqa: ARG002 - as the port
        """No payloads: the exchange sends no greeting."""
        return []

    def control(self, text: str, subscriber: Subscriber, at_ms: int) -> list[ControlReply]:  # noqa: ARG002
        """Apply a client's message and return the replies."""
        return self._handler.answer(text, subscriber)

    def overrun(self, text: str) -> None:
        """None: too many messages close the connection."""

    def feed(self, stream: str, dialect: str = "") -> StreamFeed | None:  # noqa: ARG002 - in the name
        """The stream of that name."""
        return self._streams.feed(stream)

    def wrap(self, stream: str, payload: bytes) -> bytes:  # noqa: ARG002 - there is no envelope
        """The payload unchanged."""
        return payload

    def shutdown_notice(self, at_ms: int, dialect: str) -> None:
        """None: the exchange sends no notice."""

    def refuse_ack(self, reply: bytes) -> bytes:  # noqa: ARG002 - there is none to refuse
        """An error; the exchange sends no acknowledgements."""
        return control.refusal()
