"""Every way to ask wrongly, and the exact words it is answered with."""

from collections.abc import Callable
from typing import Any

import pytest

from penstock.simulator.binance import Binance
from penstock.simulator.binance.instrument import Instrument
from penstock.simulator.engine.exchange import Asked, Refused

Refusal = Callable[..., tuple[int, str]]

ONE_SYMBOL = {
    "depth": {},
    "trades": {},
    "historicalTrades": {},
    "aggTrades": {},
    "klines": {"interval": "1m"},
    "uiKlines": {"interval": "1m"},
    "avgPrice": {},
}
TICKERS = ("ticker/24hr", "ticker/tradingDay", "ticker", "ticker/price", "ticker/bookTicker")
LEGAL_SYMBOL = "^[\\w\\-._&&[^a-z]]{1,50}$"


@pytest.mark.parametrize("endpoint", ONE_SYMBOL)
def test_a_symbol_is_mandatory_for_history(refusal: Refusal, endpoint: str) -> None:
    assert refusal(endpoint, **ONE_SYMBOL[endpoint]) == (
        -1102,
        "Mandatory parameter 'symbol' was not sent, was empty/null, or malformed.",
    )


@pytest.mark.parametrize("endpoint", [*ONE_SYMBOL, *TICKERS, "exchangeInfo"])
def test_an_unknown_symbol_is_invalid(refusal: Refusal, endpoint: str) -> None:
    query = ONE_SYMBOL.get(endpoint, {})

    assert refusal(endpoint, symbol="NOSUCH", **query) == (-1121, "Invalid symbol.")


@pytest.mark.parametrize("endpoint", [*ONE_SYMBOL, *TICKERS, "exchangeInfo"])
def test_a_symbol_in_the_wrong_letters_is_illegal(refusal: Refusal, endpoint: str) -> None:
    query = ONE_SYMBOL.get(endpoint, {})

    for symbol in ("btcusdt", "BTC/USDT", "B" * 51, "BTC USDT"):
        assert refusal(endpoint, symbol=symbol, **query) == (
            -1100,
            f"Illegal characters found in parameter 'symbol'; legal range is '{LEGAL_SYMBOL}'.",
        )


def test_a_symbol_that_is_not_ascii_is_legal(get: Callable[..., Any]) -> None:
    assert get("ticker/price", symbol="币安人生USDT")["symbol"] == "币安人生USDT"


def test_a_symbol_is_unknown_before_its_listing(
    refusal: Refusal, get: Callable[..., Any], instruments: dict[str, Instrument]
) -> None:
    listed_ms = instruments["1INCHUSDT"].listed_at_ms

    assert refusal("trades", listed_ms - 1, symbol="1INCHUSDT") == (-1121, "Invalid symbol.")
    symbols = [row["symbol"] for row in get("ticker/price", listed_ms - 1)]
    assert symbols == ["BTCUSDT", "ETHBTC"]


@pytest.mark.parametrize("endpoint", [*ONE_SYMBOL, *TICKERS, "exchangeInfo"])
def test_an_empty_parameter_is_called_empty(refusal: Refusal, endpoint: str) -> None:
    assert refusal(endpoint, symbol="") == (-1105, "Parameter 'symbol' was empty.")


@pytest.mark.parametrize(
    ("endpoint", "query", "expected"),
    [("ping", 1, 0), ("time", 1, 0), ("avgPrice", 2, 1), ("klines", 7, 6), ("aggTrades", 6, 5)],
)
def test_more_parameters_than_an_endpoint_has_are_too_many(
    refusal: Refusal, endpoint: str, query: int, expected: int
) -> None:
    parameters = {f"p{number}": "1" for number in range(query)}

    assert refusal(endpoint, **parameters) == (
        -1101,
        f"Too many parameters; expected '{expected}' and received '{query}'.",
    )


def test_an_unknown_parameter_stays_unread(refusal: Refusal) -> None:
    query = {"symbol": "BTCUSDT", "interval": "1m", "star_time": "5", "end_time": "6"}

    assert refusal("klines", **query) == (
        -1104,
        "Not all sent parameters were read; read '2' parameter(s) but was sent '4'.",
    )


@pytest.mark.parametrize("name", ["limit", "fromId", "startTime", "endTime"])
@pytest.mark.parametrize("value", ["-1", "1.5", "ten", "1e3", "9" * 21, "٣"])
def test_a_number_in_the_wrong_letters_is_illegal(refusal: Refusal, name: str, value: str) -> None:
    assert refusal("aggTrades", symbol="BTCUSDT", **{name: value}) == (
        -1100,
        f"Illegal characters found in parameter '{name}'; legal range is '^[0-9]{{1,20}}$'.",
    )


@pytest.mark.parametrize("endpoint", ["depth", "trades", "historicalTrades", "aggTrades", "klines"])
def test_a_limit_of_zero_is_not_valid(refusal: Refusal, endpoint: str) -> None:
    query = ONE_SYMBOL[endpoint]

    assert refusal(endpoint, symbol="BTCUSDT", limit=0, **query) == (
        -1130,
        "Data sent for parameter 'limit' is not valid.",
    )


def test_an_interval_is_mandatory_and_case_matters(refusal: Refusal) -> None:
    assert refusal("klines", symbol="BTCUSDT") == (
        -1102,
        "Mandatory parameter 'interval' was not sent, was empty/null, or malformed.",
    )
    for interval in ("1D", "7m", "1", "m", "1y"):
        assert refusal("klines", symbol="BTCUSDT", interval=interval) == (
            -1120,
            "Invalid interval.",
        )


def test_a_time_zone_out_of_range_is_not_valid(refusal: Refusal) -> None:
    expected = (-1130, "Data sent for parameter 'timeZone' is not valid.")

    assert refusal("klines", symbol="BTCUSDT", interval="1d", timeZone="15:00") == expected
    assert refusal("ticker/tradingDay", symbol="BTCUSDT", timeZone="x") == expected


def test_aggregated_trades_are_asked_by_id_or_by_time(refusal: Refusal) -> None:
    for name in ("startTime", "endTime"):
        assert refusal("aggTrades", symbol="BTCUSDT", fromId=1, **{name: 5}) == (
            -1128,
            "Combination of optional parameters invalid.",
        )


@pytest.mark.parametrize("endpoint", [*TICKERS, "exchangeInfo"])
def test_one_symbol_and_a_list_exclude_each_other(refusal: Refusal, endpoint: str) -> None:
    assert refusal(endpoint, symbol="BTCUSDT", symbols='["BTCUSDT"]') == (
        -1128,
        "Combination of optional parameters invalid.",
    )


@pytest.mark.parametrize("endpoint", [*TICKERS, "exchangeInfo"])
@pytest.mark.parametrize("symbols", ["BTCUSDT", '["btcusdt"]', '["BTCUSDT", "ETHBTC"]', "[BTC]"])
def test_a_list_in_the_wrong_form_is_illegal(refusal: Refusal, endpoint: str, symbols: str) -> None:
    code, message = refusal(endpoint, symbols=symbols)

    assert code == -1100
    assert message.startswith("Illegal characters found in parameter 'symbols'; legal range is '^")


@pytest.mark.parametrize("endpoint", [*TICKERS, "exchangeInfo"])
def test_a_list_names_listed_symbols_once_each(refusal: Refusal, endpoint: str) -> None:
    assert refusal(endpoint, symbols='["BTCUSDT","NOSUCH"]') == (-1121, "Invalid symbol.")
    assert refusal(endpoint, symbols='["BTCUSDT","BTCUSDT"]') == (
        -1151,
        "Symbol is present multiple times in the list.",
    )


def test_an_error_is_the_exchanges_own_no(exchange: Binance) -> None:
    with pytest.raises(Refused, match="Invalid symbol") as raised:
        exchange.routes["/api/v3/trades"].answer(Asked({"symbol": "X"}), 0)

    assert raised.value.reply.body == b'{"code":-1121,"msg":"Invalid symbol."}'
    assert raised.value.reply.content_type is None, "JSON, as every other answer"
    assert exchange.content_type == "application/json;charset=UTF-8"


def test_an_unknown_path_is_answered_with_a_page(exchange: Binance) -> None:
    reply = exchange.not_found("/api/v3/nothing")

    assert (reply.status, reply.content_type) == (404, "text/html")
    assert b"404" in reply.body
