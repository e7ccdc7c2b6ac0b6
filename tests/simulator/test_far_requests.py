"""Public requests about far instants, far ids and nonsense: answered or refused, never a failure.

A market ends after a hundred years and raises an error there, so a request that reaches that far
fails here instead of taking minutes and gigabytes.
"""

import json
import re
import time
from contextlib import suppress
from typing import Any

import pytest
from tests.simulator.answers import answered

from penstock.config import Simulator
from penstock.simulator import registry
from penstock.simulator.engine.exchange import Asked, Refused, SimulatedExchange, Subscriber
from penstock.simulator.market.market import Market, library_of
from penstock.simulator.market.timeline import DAY_MS, MOST_DAYS

VALUES = (
    "", "0", "-1", "NaN", "1e30", "9" * 18, "9" * 20, "9" * 5000, "99999999999",
    "0001-01-01T00:00:00+14:00", "9999-12-31", "\udcff",
)  # fmt: skip
USUAL = {
    "binance": {"symbol": "BTCUSDT", "interval": "1M"},
    "kraken": {"pair": "XBTUSD"},
    "coinbase": {"product": "BTC-USD", "granularity": "60"},
    "upbit": {"market": "KRW-BTC", "markets": "KRW-BTC", "unit": "1", "quote_currencies": "KRW"},
}
WITHIN = {"frequency": "daily", "file": "BTCUSDT-trades-2999-01-01.zip"}
SYMBOLS = {"binance": "btc_usdt", "kraken": "btc_usd", "coinbase": "btc_usd", "upbit": "btc_krw"}
NOW_MS = 1_760_000_000_000


def _market(name: str) -> Market:
    (listing,) = registry.catalogue(name).find([SYMBOLS[name]])
    return Market(listing, 1, library_of(listing))


def _exchange(name: str) -> SimulatedExchange:
    return registry.build(name, [_market(name)], Simulator())


def _answer(exchange: SimulatedExchange, path: str, **query: str) -> Any:
    route = exchange.routes[path]
    answer = answered(route, Asked(query, {"User-Agent": "x"}), NOW_MS)
    return json.loads(answer if isinstance(answer, bytes) else answer.body)


class Watched(dict[str, str]):
    """A query that knows which of its parameters were looked for."""

    def __init__(self, query: dict[str, str]) -> None:
        super().__init__(query)
        self.looked_for: set[str] = set()

    def get(self, name: str, default: Any = None) -> Any:
        self.looked_for.add(name)
        return super().get(name, default)


def _try(exchange: SimulatedExchange, path: str, query: dict[str, str]) -> None:
    route, asked = exchange.routes[path], Asked(query, {"User-Agent": "x"})
    route.cost(query)
    route.target(asked)
    with suppress(Refused):
        answered(route, asked, NOW_MS)


@pytest.mark.parametrize("name", registry.names())
def test_no_value_of_a_parameter_makes_an_endpoint_fail(name: str) -> None:
    exchange = _exchange(name)
    for path in exchange.routes:
        usual = dict(USUAL[name])
        if name == "binance" and not path.endswith("lines"):
            del usual["interval"]
        # The server finds these in the path, so they are never absent.
        for within in re.findall(r"{(\w+)}", path):
            usual.setdefault(within, WITHIN.get(within, "1d"))
        watched = Watched(usual)
        _try(exchange, path, watched)
        for parameter in {*watched.looked_for, *usual}:
            for value in VALUES:
                query = {**usual, parameter: value}
                if name == "coinbase":
                    query |= {"start": value, "end": "9999-12-31"}
                _try(exchange, path, query)


@pytest.mark.parametrize("since", ["99999999999", "99999999999999999999"])
def test_kraken_has_no_trades_since_an_instant_of_the_future(since: str) -> None:
    found = _answer(_exchange("kraken"), "/0/public/Trades", pair="XBTUSD", since=since)

    assert found["result"]["XXBTZUSD"] == []


def test_an_upbit_cursor_of_the_future_gives_the_newest_page() -> None:
    exchange, ticks = _exchange("upbit"), "/v1/trades/ticks"

    latest = _answer(exchange, ticks, market="KRW-BTC", count="3")

    assert len(latest) == 3
    assert _answer(exchange, ticks, market="KRW-BTC", count="3", cursor="9" * 19) == latest


@pytest.mark.parametrize("kind", ["days", "months", "years"])
def test_upbit_has_no_candles_before_the_year_1(kind: str) -> None:
    exchange = _exchange("upbit")

    assert _answer(exchange, f"/v1/candles/{kind}", market="KRW-BTC", to="0001-01-01") == []


def test_a_market_named_many_times_is_answered_once() -> None:
    exchange = _exchange("upbit")

    assert len(_answer(exchange, "/v1/orderbook", markets="KRW-BTC," * 9999 + "KRW-BTC")) == 1


def test_a_coinbase_channel_and_product_named_many_times_are_one_stream() -> None:
    exchange, subscriber = _exchange("coinbase"), Subscriber()
    message = {
        "type": "subscribe",
        "channels": ["matches"] * 5000,
        "product_ids": ["BTC-USD"] * 5000,
    }

    began = time.process_time()
    exchange.control(json.dumps(message), subscriber, NOW_MS)

    assert list(subscriber.streams) == ["matches:BTC-USD"]
    assert time.process_time() - began < 1.0


def test_numbers_of_levels_that_upbit_does_not_have_are_one_stream() -> None:
    exchange, subscriber = _exchange("upbit"), Subscriber()
    codes = [f"KRW-BTC.{units}" for units in range(1000)]
    message = [{"ticket": "t"}, {"type": "orderbook", "codes": codes}]

    exchange.control(json.dumps(message), subscriber, NOW_MS)

    assert set(subscriber.streams) == {
        "orderbook:KRW-BTC", "orderbook:KRW-BTC.1", "orderbook:KRW-BTC.5", "orderbook:KRW-BTC.15",
        "orderbook:KRW-BTC.30",
    }  # fmt: skip


def test_a_market_ends_after_a_hundred_years() -> None:
    market = _market("binance")
    end_ms = market.listing.listed_at_ms + MOST_DAYS * DAY_MS

    last = market.id_at(end_ms - 1)

    assert len(market.trades(last - 1, 1)) == 1
    with pytest.raises(ValueError, match="hundred years"):
        market.id_at(end_ms + DAY_MS)
    with pytest.raises(ValueError, match="hundred years"):
        market.trades(17_948_575_460_670_000, 1)
    with pytest.raises(ValueError, match="hundred years"):
        market.candles((0, 10**30))
