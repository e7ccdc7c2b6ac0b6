"""A simulated Binance on real markets of every kind, and short ways to ask it."""

from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from tests.simulator.answers import answered

from penstock.config import Simulator
from penstock.simulator.binance import Binance
from penstock.simulator.binance.instrument import Instrument, list_market
from penstock.simulator.binance.listings import CATALOGUE
from penstock.simulator.binance.rules import limits_from
from penstock.simulator.engine.exchange import Asked, Refused
from penstock.simulator.market.market import Market, library_of

AS_OF_MS = 1_741_178_096_789  # 2025-03-05 12:34:56.789 UTC, a Wednesday
NAMES = ("btc_usdt", "eth_btc", "1inch_usdt", "shib_usdt", "币安人生_usdt")


@pytest.fixture(scope="session")
def instruments() -> dict[str, Instrument]:
    """One busy market, one middling, quiet ones, a cheap one and one that is not ASCII."""
    listed = [list_market(Market(each, 7, library_of(each))) for each in CATALOGUE.find(NAMES)]
    return {each.symbol: each for each in listed}


@pytest.fixture(scope="session")
def exchange(instruments: dict[str, Instrument]) -> Binance:
    return Binance(list(instruments.values()), limits_from(Simulator()))


@pytest.fixture(scope="session")
def as_of_ms() -> int:
    return AS_OF_MS


@pytest.fixture(scope="session")
def get(exchange: Binance) -> Callable[..., Any]:
    """The decoded answer of an endpoint: ``get("klines", symbol="BTCUSDT", …)``."""

    def ask(endpoint: str, as_of_ms: int = AS_OF_MS, **query: object) -> Any:
        route = exchange.routes[f"/api/v3/{endpoint}"]
        asked = Asked({name: str(value) for name, value in query.items()})
        body = answered(route, asked, as_of_ms)
        assert isinstance(body, bytes)
        return msgspec.json.decode(body)

    return ask


@pytest.fixture(scope="session")
def refusal(exchange: Binance) -> Callable[..., tuple[int, str]]:
    """Code and message of the error an endpoint answers with."""

    def ask(endpoint: str, as_of_ms: int = AS_OF_MS, **query: object) -> tuple[int, str]:
        route = exchange.routes[f"/api/v3/{endpoint}"]
        asked = Asked({name: str(value) for name, value in query.items()})
        with pytest.raises(Refused) as raised:
            route.answer(asked, as_of_ms)
        assert raised.value.reply.status == 400
        body = msgspec.json.decode(raised.value.reply.body)
        assert set(body) == {"code", "msg"}
        return body["code"], body["msg"]

    return ask


@pytest.fixture(scope="session")
def frames(exchange: Binance) -> Callable[[str, int, int], list[Any]]:
    """The decoded frames of a stream that fall due in (after, upto]."""

    def ask(stream: str, after_ms: int, upto_ms: int) -> list[Any]:
        feed = exchange.feed(stream)
        assert feed is not None
        return [msgspec.json.decode(frame) for frame in feed.frames(after_ms, upto_ms)]

    return ask
