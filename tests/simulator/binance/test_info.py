"""exchangeInfo lists what is traded, in steps that the data really keeps to."""

from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest

from penstock.simulator.binance.instrument import Instrument

Get = Callable[..., Any]
Refusal = Callable[..., tuple[int, str]]

SYMBOL_FIELDS = [
    "symbol",
    "status",
    "baseAsset",
    "baseAssetPrecision",
    "quoteAsset",
    "quotePrecision",
    "quoteAssetPrecision",
    "baseCommissionPrecision",
    "quoteCommissionPrecision",
    "orderTypes",
    "icebergAllowed",
    "ocoAllowed",
    "otoAllowed",
    "opoAllowed",
    "quoteOrderQtyMarketAllowed",
    "allowTrailingStop",
    "cancelReplaceAllowed",
    "amendAllowed",
    "pegInstructionsAllowed",
    "isSpotTradingAllowed",
    "isMarginTradingAllowed",
    "filters",
    "permissions",
    "permissionSets",
    "defaultSelfTradePreventionMode",
    "allowedSelfTradePreventionModes",
]


def symbols(body: Any) -> list[str]:
    return [entry["symbol"] for entry in body["symbols"]]


def test_everything_is_listed_unless_asked_otherwise(
    get: Get, instruments: dict[str, Instrument], as_of_ms: int
) -> None:
    body = get("exchangeInfo")

    assert list(body) == ["timezone", "serverTime", "rateLimits", "exchangeFilters", "symbols"]
    assert (body["timezone"], body["serverTime"]) == ("UTC", as_of_ms)
    assert len(body["rateLimits"]) == 4
    assert symbols(body) == list(instruments)
    assert all(list(entry) == SYMBOL_FIELDS for entry in body["symbols"])


def test_an_entry_splits_the_symbol_that_must_not_be_guessed(get: Get) -> None:
    (entry,) = get("exchangeInfo", symbol="1INCHUSDT")["symbols"]

    assert (entry["baseAsset"], entry["quoteAsset"]) == ("1INCH", "USDT")
    assert (entry["status"], entry["permissionSets"]) == ("TRADING", [["SPOT"]])


@pytest.mark.parametrize("symbol", ["BTCUSDT", "ETHBTC", "SHIBUSDT"])
def test_trades_keep_to_the_steps_and_bounds_of_the_filters(get: Get, symbol: str) -> None:
    (entry,) = get("exchangeInfo", symbol=symbol)["symbols"]
    filters = {each["filterType"]: each for each in entry["filters"]}
    price, lot = filters["PRICE_FILTER"], filters["LOT_SIZE"]

    for trade in get("trades", symbol=symbol, limit=1000):
        assert Decimal(trade["price"]) % Decimal(price["tickSize"]) == 0
        assert Decimal(trade["qty"]) % Decimal(lot["stepSize"]) == 0
        assert Decimal(price["minPrice"]) <= Decimal(trade["price"]) <= Decimal(price["maxPrice"])
        assert Decimal(lot["minQty"]) <= Decimal(trade["qty"]) <= Decimal(lot["maxQty"])


def test_a_list_is_answered_in_its_own_order(get: Get) -> None:
    body = get("exchangeInfo", symbols='["ETHBTC","币安人生USDT","BTCUSDT"]')

    assert symbols(body) == ["ETHBTC", "币安人生USDT", "BTCUSDT"]


def test_status_and_permissions_filter(get: Get, instruments: dict[str, Instrument]) -> None:
    everything = list(instruments)

    assert symbols(get("exchangeInfo", symbolStatus="TRADING")) == everything
    assert symbols(get("exchangeInfo", symbolStatus="HALT")) == []
    assert symbols(get("exchangeInfo", permissions="SPOT")) == everything
    assert symbols(get("exchangeInfo", permissions='["MARGIN","SPOT"]')) == everything
    assert symbols(get("exchangeInfo", permissions="MARGIN")) == []


def test_permission_sets_may_be_left_out(get: Get) -> None:
    shown = get("exchangeInfo", showPermissionSets="true")
    hidden = get("exchangeInfo", showPermissionSets="false")

    assert all(entry["permissionSets"] == [["SPOT"]] for entry in shown["symbols"])
    assert all(entry["permissionSets"] == [] for entry in hidden["symbols"])


@pytest.mark.parametrize(
    "query",
    [
        {"symbol": "BTCUSDT", "symbolStatus": "TRADING"},
        {"symbols": '["BTCUSDT"]', "symbolStatus": "TRADING"},
        {"symbol": "BTCUSDT", "permissions": "SPOT"},
    ],
)
def test_filters_exclude_named_symbols(refusal: Refusal, query: dict[str, str]) -> None:
    assert refusal("exchangeInfo", **query)[0] == -1128


def test_unknown_words_are_refused(refusal: Refusal) -> None:
    assert refusal("exchangeInfo", symbolStatus="OPEN") == (-1122, "Invalid symbolStatus.")
    for name, value in (
        ("permissions", "ROYAL"),
        ("permissions", "[SPOT"),
        ("showPermissionSets", "yes"),
    ):
        assert refusal("exchangeInfo", **{name: value}) == (
            -1130,
            f"Data sent for parameter '{name}' is not valid.",
        )


def test_a_symbol_is_listed_from_its_first_day_on(
    get: Get, instruments: dict[str, Instrument]
) -> None:
    listed_ms = instruments["SHIBUSDT"].listed_at_ms

    assert "SHIBUSDT" not in symbols(get("exchangeInfo", listed_ms - 1))
    assert "SHIBUSDT" in symbols(get("exchangeInfo", listed_ms))
