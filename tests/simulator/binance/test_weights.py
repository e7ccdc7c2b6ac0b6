"""Every request costs what the exchange's table says, whatever it was asked with."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.simulator.binance import Binance


def names(count: int) -> dict[str, str]:
    return {"symbols": "[" + ",".join(f'"A{number}"' for number in range(count)) + "]"}


@pytest.mark.parametrize(
    ("endpoint", "query", "weight"),
    [
        ("ping", {}, 1),
        ("time", {}, 1),
        ("exchangeInfo", {}, 20),
        ("exchangeInfo", {"symbol": "BTCUSDT"}, 20),
        ("depth", {}, 5),
        ("depth", {"limit": "100"}, 5),
        ("depth", {"limit": "101"}, 25),
        ("depth", {"limit": "500"}, 25),
        ("depth", {"limit": "501"}, 50),
        ("depth", {"limit": "1000"}, 50),
        ("depth", {"limit": "1001"}, 250),
        ("depth", {"limit": "99999"}, 250),
        ("trades", {}, 25),
        ("historicalTrades", {}, 25),
        ("aggTrades", {}, 4),
        ("klines", {}, 2),
        ("uiKlines", {}, 2),
        ("avgPrice", {}, 2),
        ("ticker/24hr", {}, 80),
        ("ticker/24hr", {"symbol": "BTCUSDT"}, 2),
        ("ticker/24hr", names(20), 2),
        ("ticker/24hr", names(21), 40),
        ("ticker/24hr", names(100), 40),
        ("ticker/24hr", names(101), 80),
        ("ticker/tradingDay", {"symbol": "BTCUSDT"}, 4),
        ("ticker/tradingDay", names(3), 12),
        ("ticker", names(50), 200),
        ("ticker", names(51), 200),
        ("ticker/price", {"symbol": "BTCUSDT"}, 2),
        ("ticker/price", names(1), 4),
        ("ticker/bookTicker", {}, 4),
    ],
)
def test_a_request_costs_what_the_table_says(
    exchange: Binance, endpoint: str, query: dict[str, str], weight: int
) -> None:
    assert exchange.routes[f"/api/v3/{endpoint}"].cost(query) == weight


@given(st.dictionaries(st.sampled_from(["symbol", "symbols", "limit", "x"]), st.text()))
def test_a_cost_is_found_for_any_nonsense(exchange: Binance, query: dict[str, str]) -> None:
    for route in exchange.routes.values():
        assert route.cost(query) >= (1 if route.is_counted else 0)
