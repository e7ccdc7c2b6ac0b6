"""What a wrapper charges is what the exchange charges."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.simulator.binance import weights
from penstock.throttled.binance import costs

names = st.text("ABCDEFGH", min_size=5, max_size=5)


@pytest.mark.parametrize(
    ("limit", "cost"),
    [(None, 5), (1, 5), (100, 5), (101, 25), (500, 25), (501, 50), (1000, 50), (1001, 250),
     (5000, 250), (9999, 250), ("1000", 50), ("deep", 5)],
)  # fmt: skip
def test_a_deeper_book_costs_more(limit: object, cost: int) -> None:
    assert costs.depth(limit) == cost


@given(limit=st.integers(0, 10_000))
def test_books_cost_what_the_exchange_charges(limit: int) -> None:
    assert costs.depth(limit) == weights.depth({"limit": str(limit)})


@given(symbols=st.lists(names, min_size=1, max_size=130, unique=True))
def test_tickers_of_some_markets_cost_what_the_exchange_charges(symbols: list[str]) -> None:
    query = {"symbols": json.dumps(symbols, separators=(",", ":"))}

    assert costs.day(None, symbols) == weights.day(query)
    assert costs.windows(None, symbols) == weights.window(query)
    assert costs.last(None) == weights.simple(query)


def test_tickers_of_one_market_and_of_all_cost_what_the_exchange_charges() -> None:
    one = {"symbol": "BTCUSDT"}

    assert costs.day("BTCUSDT", None) == weights.day(one) == 2
    assert costs.windows("BTCUSDT", None) == weights.window(one) == 4
    assert costs.last("BTCUSDT") == weights.simple(one) == 2
    assert costs.day(None, None) == weights.day({}) == 80
    assert costs.last(None) == weights.simple({}) == 4
