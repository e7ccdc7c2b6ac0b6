"""Tickers can be recounted from the trades they name, and shapes follow how they were asked."""

from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.simulator.binance.instrument import Instrument
from penstock.simulator.binance.periods import DAY_MS, HOUR_MS, MINUTE_MS

Get = Callable[..., Any]
Refusal = Callable[..., tuple[int, str]]
Instruments = dict[str, Instrument]

WINDOWS = ("ticker/24hr", "ticker/tradingDay", "ticker")
EVERY = (*WINDOWS, "ticker/price", "ticker/bookTicker")
TOTALS = ["volume", "quoteVolume", "openTime", "closeTime", "firstId", "lastId", "count"]
CHANGES = ["priceChange", "priceChangePercent", "weightedAvgPrice"]
PRICES = ["openPrice", "highPrice", "lowPrice"]
FULL = ["symbol", *CHANGES, *PRICES, "lastPrice", *TOTALS]
MINI = ["symbol", *PRICES, "lastPrice", *TOTALS]
FULL_DAY = [
    *("symbol", *CHANGES, "prevClosePrice", "lastPrice", "lastQty"),
    *("bidPrice", "bidQty", "askPrice", "askQty", *PRICES, *TOTALS),
]


def recount(instrument: Instrument, row: dict[str, Any], as_of_ms: int) -> None:
    """Assert that a ticker says what the trades in its window say."""
    market, listing = instrument.market, instrument.market.listing
    first = market.id_at(row["openTime"])
    trades = market.trades(first, market.id_at(min(row["closeTime"], as_of_ms) + 1) - first)
    volume = Decimal(sum(trade.quantity for trade in trades)).scaleb(-listing.quantity_decimals)
    prices = [Decimal(trade.price).scaleb(-listing.price_decimals) for trade in trades]
    amount = Decimal(sum(trade.price * trade.quantity for trade in trades)).scaleb(
        -listing.price_decimals - listing.quantity_decimals
    )
    shown = {name: Decimal(row[name]) for name in (*PRICES, "lastPrice", "volume", "quoteVolume")}
    assert shown == {
        "openPrice": prices[0],
        "highPrice": max(prices),
        "lowPrice": min(prices),
        "lastPrice": prices[-1],
        "volume": volume,
        "quoteVolume": amount,
    }
    assert (row["firstId"], row["lastId"]) == (trades[0].id, trades[-1].id)
    assert row["count"] == len(trades)
    if "priceChange" in row:
        change = prices[-1] - prices[0]
        assert Decimal(row["priceChange"]) == change
        assert abs(Decimal(row["priceChangePercent"]) - 100 * change / prices[0]) <= Decimal(
            "0.0005"
        )
        assert 0 <= amount / volume - Decimal(row["weightedAvgPrice"]) <= Decimal("0.00000001")


@settings(max_examples=20, deadline=None)
@given(minutes=st.integers(0, 10**6), symbol=st.sampled_from(["1INCHUSDT", "SHIBUSDT"]))
def test_every_window_can_be_recounted_at_any_time(
    get: Get, instruments: Instruments, as_of_ms: int, minutes: int, symbol: str
) -> None:
    then_ms = as_of_ms - minutes * MINUTE_MS + minutes % 60_000

    recount(instruments[symbol], get("ticker/24hr", then_ms, symbol=symbol), then_ms)
    recount(instruments[symbol], get("ticker", then_ms, symbol=symbol, windowSize="7h"), then_ms)


def test_windows_open_and_close_where_they_say(get: Get, as_of_ms: int) -> None:
    day = get("ticker/24hr", symbol="BTCUSDT")
    rolling = get("ticker", symbol="BTCUSDT")
    hour = get("ticker", symbol="BTCUSDT", windowSize="1h")
    calendar = get("ticker/tradingDay", symbol="BTCUSDT", timeZone="-5")

    assert (day["openTime"], day["closeTime"]) == (as_of_ms - DAY_MS, as_of_ms)
    assert rolling["closeTime"] == hour["closeTime"] == as_of_ms
    assert rolling["openTime"] == (as_of_ms - DAY_MS) // MINUTE_MS * MINUTE_MS
    assert hour["openTime"] == (as_of_ms - HOUR_MS) // MINUTE_MS * MINUTE_MS
    assert (calendar["openTime"] - 5 * HOUR_MS) % DAY_MS == 0
    assert calendar["closeTime"] == calendar["openTime"] + DAY_MS - 1 > as_of_ms


def test_a_trading_day_counts_up_to_now(get: Get, instruments: Instruments, as_of_ms: int) -> None:
    recount(instruments["1INCHUSDT"], get("ticker/tradingDay", symbol="1INCHUSDT"), as_of_ms)


def test_a_day_ticker_stands_beside_the_trade_before_the_last_and_the_touch(
    get: Get, instruments: Instruments, as_of_ms: int
) -> None:
    market, spelling = instruments["ETHBTC"].market, instruments["ETHBTC"].spelling
    last = market.last_before(as_of_ms + 1)
    row = get("ticker/24hr", symbol="ETHBTC")
    touch = get("ticker/bookTicker", symbol="ETHBTC")

    assert row["prevClosePrice"] == spelling.price(market.trades(row["firstId"] - 1, 1)[0].price)
    assert row["lastQty"] == spelling.quantity(last.quantity)
    assert row["lastPrice"] == spelling.price(last.price)
    assert row["lastPrice"] == get("ticker/price", symbol="ETHBTC")["price"]
    assert {name: row[name] for name in touch} == touch


def test_a_first_day_has_nothing_before_it(get: Get, instruments: Instruments) -> None:
    instrument = instruments["1INCHUSDT"]
    as_of_ms = instrument.listed_at_ms + HOUR_MS

    row = get("ticker/24hr", as_of_ms, symbol="1INCHUSDT")

    recount(instrument, row, as_of_ms)
    assert (row["prevClosePrice"], row["firstId"]) == ("0.00000000", 1)


def test_a_window_without_a_trade_is_flat(get: Get, instruments: Instruments) -> None:
    instrument = instruments["1INCHUSDT"]

    row = get("ticker/24hr", instrument.listed_at_ms, symbol="1INCHUSDT")

    assert row["openPrice"] == row["highPrice"] == row["lowPrice"] == row["lastPrice"]
    assert (row["firstId"], row["lastId"], row["count"]) == (-1, -1, 0)
    assert row["priceChangePercent"] == "0.000"
    assert row["weightedAvgPrice"] == row["volume"] == row["lastQty"] == "0.00000000"


def test_the_touch_is_the_top_of_the_book(get: Get) -> None:
    depth = get("depth", symbol="BTCUSDT", limit=5)

    assert get("ticker/bookTicker", symbol="BTCUSDT") == {
        "symbol": "BTCUSDT",
        "bidPrice": depth["bids"][0][0],
        "bidQty": depth["bids"][0][1],
        "askPrice": depth["asks"][0][0],
        "askQty": depth["asks"][0][1],
    }


@pytest.mark.parametrize("endpoint", EVERY)
def test_one_symbol_is_an_object_and_a_list_is_a_list(get: Get, endpoint: str) -> None:
    one = get(endpoint, symbol="BTCUSDT")

    assert get(endpoint, symbols='["ETHBTC","BTCUSDT"]') == [get(endpoint, symbol="ETHBTC"), one]
    assert get(endpoint, symbols='["BTCUSDT"]') == [one]


@pytest.mark.parametrize("endpoint", ["ticker/24hr", "ticker/price", "ticker/bookTicker"])
def test_without_a_symbol_all_are_shown(get: Get, instruments: Instruments, endpoint: str) -> None:
    assert [row["symbol"] for row in get(endpoint)] == list(instruments)


@pytest.mark.parametrize("endpoint", ["ticker/tradingDay", "ticker"])
@pytest.mark.parametrize("query", [{}, {"symbols": "[]"}])
def test_a_costly_window_wants_to_know_its_symbols(
    refusal: Refusal, endpoint: str, query: dict[str, str]
) -> None:
    assert refusal(endpoint, **query) == (
        -1102,
        "Param 'symbol' or 'symbols' must be sent, but both were empty/null!",
    )


@pytest.mark.parametrize(
    ("endpoint", "full"), [("ticker/24hr", FULL_DAY), ("ticker/tradingDay", FULL), ("ticker", FULL)]
)
def test_the_type_decides_on_the_fields(get: Get, endpoint: str, full: list[str]) -> None:
    assert list(get(endpoint, symbol="BTCUSDT")) == full
    assert list(get(endpoint, symbol="BTCUSDT", type="FULL")) == full
    assert list(get(endpoint, symbol="BTCUSDT", type="MINI")) == MINI


@pytest.mark.parametrize("endpoint", EVERY)
def test_a_status_drops_from_lists_and_refuses_a_single_symbol(
    get: Get, refusal: Refusal, endpoint: str
) -> None:
    assert get(endpoint, symbol="BTCUSDT", symbolStatus="TRADING") == get(
        endpoint, symbol="BTCUSDT"
    )
    assert get(endpoint, symbols='["BTCUSDT"]', symbolStatus="HALT") == []
    assert refusal(endpoint, symbol="BTCUSDT", symbolStatus="BREAK") == (
        -1220,
        "The symbol's status does not match the requested symbolStatus.",
    )
    assert refusal(endpoint, symbol="BTCUSDT", symbolStatus="OPEN")[0] == -1122


def test_depth_knows_the_status_too(refusal: Refusal) -> None:
    assert refusal("depth", symbol="BTCUSDT", symbolStatus="HALT")[0] == -1220


def test_unknown_types_and_windows_are_refused(refusal: Refusal) -> None:
    for endpoint in WINDOWS:
        assert refusal(endpoint, symbol="BTCUSDT", type="LONG") == (-1139, "Invalid ticker type.")
    assert refusal("ticker", symbol="BTCUSDT", windowSize="1d2h") == (
        -1130,
        "Data sent for parameter 'windowSize' is not valid.",
    )
