"""A simulated Kraken on real markets of every kind, and short ways to ask it."""

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from penstock.config import Simulator
from penstock.simulator.engine.exchange import Asked, Refused
from penstock.simulator.kraken import Kraken
from penstock.simulator.kraken.instrument import Instrument, list_markets
from penstock.simulator.kraken.listings import CATALOGUE
from penstock.simulator.kraken.rules import rules_from, upkeep_from
from penstock.simulator.market.market import Market, library_of

AS_OF_MS = 1_741_178_096_789  # 2025-03-05 12:34:56.789 UTC, a Wednesday
NAMES = ("btc_usd", "eth_usd", "btc_eur", "eth_btc", "xtz_usd", "usdt_usd", "shib_usd")


@pytest.fixture(scope="session")
def instruments() -> dict[str, Instrument]:
    """Two busy markets, middling ones, quiet ones and a cheap one, by symbol."""
    listed = list_markets([Market(each, 7, library_of(each)) for each in CATALOGUE.find(NAMES)])
    return {each.symbol: each for each in listed}


@pytest.fixture(scope="session")
def exchange(instruments: dict[str, Instrument]) -> Kraken:
    settings = Simulator()
    return Kraken(list(instruments.values()), rules_from(settings), upkeep_from(settings.kraken))


@pytest.fixture(scope="session")
def as_of_ms() -> int:
    return AS_OF_MS


def body_of(exchange: Kraken, endpoint: str, as_of_ms: int, query: dict[str, object]) -> bytes:
    """The raw answer of an endpoint, whatever it says."""
    asked = Asked({name: str(value) for name, value in query.items()})
    try:
        body = exchange.routes[f"/0/public/{endpoint}"].answer(asked, as_of_ms)
    except Refused as refused:
        assert refused.reply.status == 200
        body = refused.reply.body
    assert isinstance(body, bytes)
    return body


@pytest.fixture(scope="session")
def get(exchange: Kraken) -> Callable[..., Any]:
    """The result of an endpoint: ``get("OHLC", pair="ETHUSD", …)``."""

    def ask(endpoint: str, as_of_ms: int = AS_OF_MS, **query: object) -> Any:
        answer = msgspec.json.decode(body_of(exchange, endpoint, as_of_ms, query))
        assert answer["error"] == []
        return answer["result"]

    return ask


@pytest.fixture(scope="session")
def error(exchange: Kraken) -> Callable[..., str]:
    """The error an endpoint answers with; there is no result beside it."""

    def ask(endpoint: str, as_of_ms: int = AS_OF_MS, **query: object) -> str:
        answer = msgspec.json.decode(body_of(exchange, endpoint, as_of_ms, query))
        assert answer.keys() == {"error"}
        (text,) = answer["error"]
        return str(text)

    return ask
