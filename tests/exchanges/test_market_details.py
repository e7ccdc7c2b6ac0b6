"""Listings: tick and lot size, status and timeframes are kept as far as an exchange tells them."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from penstock.exchanges import registry
from penstock.exchanges.answers import step_of_digits, step_text, word
from penstock.exchanges.ccxt.payloads import read_info as read_ccxt
from penstock.exchanges.symbol_map import MarketDetails

BINANCE = {
    "symbol": "BTCUSDT", "status": "BREAK", "baseAsset": "BTC", "quoteAsset": "USDT",
    "filters": [
        {"filterType": "PRICE_FILTER", "minPrice": "0.01000000", "tickSize": "0.01000000"},
        {"filterType": "LOT_SIZE", "minQty": "0.00001000", "stepSize": "0.00001000"},
        {"filterType": "MARKET_LOT_SIZE", "stepSize": "0.50000000"},
    ],
}  # fmt: skip
COINBASE = {
    "id": "BTC-USD", "quote_increment": "0.01", "base_increment": "0.00000001", "status": "online",
}  # fmt: skip
KRAKEN = {
    "altname": "XBTUSDT", "wsname": "XBT/USDT", "base": "XXBT", "quote": "USDT", "lot_decimals": 8,
    "tick_size": "0.1", "status": "cancel_only",
}  # fmt: skip
UPBIT = {"market": "KRW-BTC", "korean_name": "비트코인", "english_name": "Bitcoin"}


def of_binance(row: Any) -> Any:
    return {"symbols": [row], "rateLimits": []}


def of_kraken(row: Any) -> Any:
    return {"error": [], "result": {"XBTUSDT": row}}


def of_list(row: Any) -> Any:
    return [row]


def details(name: str, body: Any) -> MarketDetails:
    info = registry.load(name).info.read(json.dumps(body).encode(), 0)
    (listed,) = info.symbols.listed
    return listed.details


@pytest.mark.parametrize(
    ("name", "body", "row", "expected"),
    [
        ("binance", of_binance, BINANCE, MarketDetails("0.01", "0.00001", "BREAK")),
        ("coinbase", of_list, COINBASE, MarketDetails("0.01", "0.00000001", "online")),
        ("kraken", of_kraken, KRAKEN, MarketDetails("0.1", "0.00000001", "cancel_only")),
        ("upbit", of_list, UPBIT, MarketDetails()),
    ],
)
def test_what_an_exchange_tells_of_a_market_is_kept(
    name: str, body: Callable[[Any], Any], row: dict[str, Any], expected: MarketDetails
) -> None:
    assert details(name, body(row)) == expected


@pytest.mark.parametrize(
    ("name", "body", "row"),
    [
        ("binance", of_binance, {**BINANCE, "status": 7, "filters": [{"filterType": "NEW"}]}),
        ("coinbase", of_list, {"id": "BTC-USD", "quote_increment": 0.01, "status": ""}),
        ("kraken", of_kraken, {**KRAKEN, "tick_size": "0", "lot_decimals": "8", "status": None}),
    ],
)
def test_a_market_is_listed_even_if_its_details_cannot_be_read(
    name: str, body: Callable[[Any], Any], row: dict[str, Any]
) -> None:
    assert details(name, body(row)) == MarketDetails()


def test_ccxt_tells_steps_too() -> None:
    row = {
        "id": "BTC-USDT", "symbol": "BTC/USDT", "base": "BTC", "quote": "USDT", "spot": True,
        "active": True, "tick_size": "0.10", "lot_size": None,
    }  # fmt: skip

    (listed,) = read_ccxt("ccxt:somewhere", json.dumps([row]).encode()).symbols.listed

    assert listed.details == MarketDetails("0.1", None, "active")


@pytest.mark.parametrize(
    ("told", "shown"),
    [("0.01000000", "0.01"), ("100", "100"), ("1e-8", "0.00000001"), ("0", None), ("-1", None),
     ("NaN", None), ("x", None), (None, None), (0.1, None), ("1e999999", None)],
)  # fmt: skip
def test_a_step_is_a_plain_number_or_not_told(told: object, shown: str | None) -> None:
    assert step_text(told) == shown


def test_digits_and_words_are_told_or_not() -> None:
    assert [step_of_digits(n) for n in (0, 3, -1, 99, "3", None)] == ["1", "0.001", *[None] * 4]
    assert [word(each) for each in ("online", "", None, 5, "x" * 99)] == ["online", *[None] * 4]
