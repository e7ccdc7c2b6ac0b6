"""A simulated Coinbase on markets of several kinds, and short ways to ask it."""

from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from tests.simulator.answers import answered, opened

from penstock.config import SimulatedCoinbase, Simulator
from penstock.simulator.coinbase import CATALOGUE, Coinbase
from penstock.simulator.coinbase.product import Product, list_market
from penstock.simulator.coinbase.rules import rules_from
from penstock.simulator.coinbase.signatures import Signatures
from penstock.simulator.engine.exchange import Asked, Refused, Reply
from penstock.simulator.engine.routing import Router
from penstock.simulator.market.market import Market, library_of

AS_OF_MS = 1_741_178_096_789  # 2025-03-05 12:34:56.789 UTC
NAMES = ("btc_usd", "eth_btc", "1inch_usd", "shib_usd")
POLITE = {"User-Agent": "tests"}


@pytest.fixture(scope="session")
def products() -> dict[str, Product]:
    """One busy market, one middling, a quiet one and a cheap one."""
    listed = [list_market(Market(each, 7, library_of(each))) for each in CATALOGUE.find(NAMES)]
    return {each.id: each for each in listed}


@pytest.fixture(scope="session")
def exchange(products: dict[str, Product]) -> Coinbase:
    signatures = Signatures(SimulatedCoinbase())
    return Coinbase(list(products.values()), rules_from(Simulator()), signatures)


@pytest.fixture(scope="session")
def as_of_ms() -> int:
    return AS_OF_MS


@pytest.fixture(scope="session")
def reply(exchange: Coinbase) -> Callable[..., Reply]:
    """The answer to a path: ``reply("products/BTC-USD/trades", limit=5)``."""
    router = Router(exchange.routes)

    def ask(path: str, as_of_ms: int = AS_OF_MS, **query: object) -> Reply:
        found = router.find(f"/{path}")
        assert found is not None
        route, named = found
        asked = Asked({**{name: str(value) for name, value in query.items()}, **named}, POLITE)
        answer = answered(route, asked, as_of_ms)
        return answer if isinstance(answer, Reply) else Reply(answer)

    return ask


@pytest.fixture(scope="session")
def get(reply: Callable[..., Reply]) -> Callable[..., Any]:
    """The decoded body of an answer."""

    def ask(path: str, **query: Any) -> Any:
        return msgspec.json.decode(reply(path, **query).body)

    return ask


@pytest.fixture(scope="session")
def refusal(reply: Callable[..., Reply]) -> Callable[..., tuple[int, str]]:
    """Status and message of an error."""

    def ask(path: str, **query: Any) -> tuple[int, str]:
        with pytest.raises(Refused) as raised:
            reply(path, **query)
        body = msgspec.json.decode(raised.value.reply.body)
        assert set(body) == {"message"}
        return raised.value.reply.status, body["message"]

    return ask


@pytest.fixture(scope="session")
def frames(exchange: Coinbase) -> Callable[..., list[Any]]:
    """The decoded frames of a stream that fall due in (after, upto]; with its opening if asked."""

    def ask(stream: str, after_ms: int, upto_ms: int, opening: bool = False) -> list[Any]:
        feed = exchange.feed(stream)
        assert feed is not None
        first = opened(feed, after_ms) if opening else []
        return [msgspec.json.decode(each) for each in [*first, *feed.frames(after_ms, upto_ms)]]

    return ask
