"""Simulates Coinbase: market data of the Exchange API over REST and the WebSocket feed.

Written from the exchange's documentation and from recordings of its traffic. All responses and
frames are functions of the market, the settings and a time; the server handles sockets, limits and
faults.
"""

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

from penstock.config import Simulator
from penstock.simulator.coinbase import control, feeds, refusals, rest, rules
from penstock.simulator.coinbase.listings import CATALOGUE
from penstock.simulator.coinbase.product import Product, list_market
from penstock.simulator.coinbase.signatures import Signatures
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
from penstock.simulator.engine.rules import BanPolicy, Rule
from penstock.simulator.market.market import Market

__all__ = ["CATALOGUE", "Coinbase", "build"]

_FEEDS: Mapping[str, Callable[[str, Product], StreamFeed]] = {
    "matches": feeds.matches,
    "ticker": feeds.ticker,
    "ticker_batch": feeds.ticker_batch,
    "level2": feeds.level2,
    "level2_batch": feeds.level2_batch,
    "heartbeat": feeds.heartbeat,
}


def build(markets: Sequence[Market], settings: Simulator) -> SimulatedExchange:
    """Build the exchange that lists these markets.

    Raises:
        ConfigError: the settings have a limit that does not exist or cannot be parsed.
    """
    signatures = Signatures(settings.coinbase)
    products = [list_market(market) for market in markets]
    return Coinbase(products, rules.rules_from(settings), signatures)


class Coinbase:
    """Coinbase Exchange."""

    name = "coinbase"
    headers: Mapping[str, str] = MappingProxyType({"Server": "cloudflare"})
    content_type = "application/json; charset=utf-8"
    binary = False
    bans: BanPolicy | None = None

    def __init__(
        self, products: Sequence[Product], limits: Sequence[Rule], signatures: Signatures
    ) -> None:
        self._products = {each.id: each for each in products}
        self._handler = control.MessageHandler(self._products)
        self.rules: Sequence[Rule] = limits
        self.upkeep = rules.upkeep()
        self.routes: Mapping[str, Route] = rest.routes(products, signatures)

    def not_found(self, path: str) -> Reply:  # noqa: ARG002 - the answer does not name it
        """A 404 with a fixed message."""
        return refusals.said(404, refusals.NOT_FOUND)

    def failure(self) -> Reply:
        """A 500 with a fixed message."""
        return refusals.said(500, "Internal server error")

    def refusal(self, verdict: Verdict) -> Reply:
        """The response to a request over the limit."""
        return rules.refusal(verdict)

    def usage_headers(self, verdict: Verdict) -> Mapping[str, str]:  # noqa: ARG002 - as the port
        """No headers: Coinbase does not report usage."""
        return {}

    def open(self, path: str, asked: Asked) -> Opening | None:  # noqa: ARG002 - as the port
        """The feed at the root path, without streams."""
        return Opening((), wrapped=False) if path == "/" else None

    def greeting(self, connection: int, at_ms: int) -> list[bytes]:  # noqa: ARG002 - as the port
        """No payloads: the exchange sends no greeting."""
        return []

    def control(self, text: str, subscriber: Subscriber, at_ms: int) -> list[ControlReply]:  # noqa: ARG002
        """Apply a client's message and return the replies."""
        return self._handler.answer(text, subscriber)

    def overrun(self, text: str) -> None:
        """None: too many messages close the connection."""

    def feed(self, stream: str, dialect: str = "") -> StreamFeed | None:  # noqa: ARG002 - there is one
        """The stream of that name: a channel and its product."""
        if stream == control.STATUS:
            return feeds.status(stream, [*self._products.values()])
        channel, _, product_id = stream.partition(":")
        product, make = self._products.get(product_id), _FEEDS.get(channel)
        return make(stream, product) if product is not None and make is not None else None

    def wrap(self, stream: str, payload: bytes) -> bytes:  # noqa: ARG002 - there is no envelope
        """The payload unchanged."""
        return payload

    def shutdown_notice(self, at_ms: int, dialect: str) -> None:
        """None: the exchange sends no notice."""

    def refuse_ack(self, reply: bytes) -> bytes:  # noqa: ARG002 - it has no id to answer to
        """An error to send instead of the acknowledgement."""
        return control.refusal()
