"""A simulated Upbit on markets of several kinds, and short ways to ask it."""

from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from tests.simulator.answers import opened

from penstock.config import Simulator
from penstock.simulator.engine.exchange import Asked, Refused
from penstock.simulator.engine.routing import Router
from penstock.simulator.market.market import Market, library_of
from penstock.simulator.upbit import CATALOGUE, Upbit
from penstock.simulator.upbit.instrument import Instrument, list_market

AS_OF_MS = 1_741_178_096_789  # 2025-03-05 12:34:56.789 UTC, a Wednesday
NAMES = ("btc_krw", "eth_btc", "link_krw", "xrp_btc")


@pytest.fixture(scope="session")
def instruments() -> dict[str, Instrument]:
    """A busy market in steps of a thousand won, quiet ones, and one of very small prices."""
    listed = [list_market(Market(each, 7, library_of(each))) for each in CATALOGUE.find(NAMES)]
    return {each.code: each for each in listed}


@pytest.fixture(scope="session")
def exchange(instruments: dict[str, Instrument]) -> Upbit:
    return Upbit(list(instruments.values()), Simulator())


@pytest.fixture(scope="session")
def as_of_ms() -> int:
    return AS_OF_MS


@pytest.fixture(scope="session")
def body(exchange: Upbit) -> Callable[..., bytes]:
    """The body of an answer: ``body("trades/ticks", market="KRW-BTC", count=5)``."""

    def ask(path: str, as_of_ms: int = AS_OF_MS, of: Upbit = exchange, **query: object) -> bytes:
        found = Router(of.routes).find(f"/v1/{path}")
        assert found is not None
        route, named = found
        asked = Asked({**{name: str(value) for name, value in query.items()}, **named})
        answer = route.answer(asked, as_of_ms)
        assert isinstance(answer, bytes)
        return answer

    return ask


@pytest.fixture(scope="session")
def get(body: Callable[..., bytes]) -> Callable[..., Any]:
    """The decoded body of an answer."""

    def ask(path: str, **query: Any) -> Any:
        return msgspec.json.decode(body(path, **query))

    return ask


@pytest.fixture(scope="session")
def refusal(body: Callable[..., bytes]) -> Callable[..., tuple[int, str | int]]:
    """Status and name of an error."""

    def ask(path: str, **query: Any) -> tuple[int, str | int]:
        with pytest.raises(Refused) as raised:
            body(path, **query)
        error = msgspec.json.decode(raised.value.reply.body)["error"]
        assert set(error) == {"name", "message"}
        return raised.value.reply.status, error["name"]

    return ask


@pytest.fixture(scope="session")
def frames(exchange: Upbit) -> Callable[..., list[Any]]:
    """The decoded frames of a stream that fall due in (after, upto]; with its opening if asked."""

    def ask(stream: str, after_ms: int, upto_ms: int, opening: bool = False) -> list[Any]:
        feed = exchange.feed(stream)
        assert feed is not None
        first = opened(feed, after_ms) if opening else []
        return [msgspec.json.decode(each) for each in [*first, *feed.frames(after_ms, upto_ms)]]

    return ask
