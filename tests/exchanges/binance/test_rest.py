"""Binance's REST side: requests say what they cost, and readers trust no answer."""

import pytest

from penstock.errors import UnexpectedAnswer, UnknownSymbol
from penstock.exchanges.base import ApiError, Request, Rest
from penstock.exchanges.binance.rest import TIME, BinanceRest, agg_trades, read_api_error
from penstock.exchanges.binance.symbols import INFO
from penstock.exchanges.symbol_map import SymbolMap
from penstock.market.interval import Interval
from penstock.market.symbol import Symbol

BTC = Symbol("BTC", "USDT")
MANY = [Symbol(f"A{n}", "USDT") for n in range(120)]
SYMBOLS = SymbolMap(
    "binance", [("BTCUSDT", BTC), *((f"A{n}USDT", symbol) for n, symbol in enumerate(MANY))]
)
REST = BinanceRest(SYMBOLS)
AT_NS = 2_000_000_000_000_000
MINUTE = Interval.parse("1m")


def test_the_requests_are_those_every_exchange_has() -> None:
    rest: Rest = REST
    assert rest.book(BTC, 10).path == "/api/v3/depth"


@pytest.mark.parametrize(
    ("request_", "cost"),
    [
        (TIME, 1), (INFO, 20),
        (REST.book(BTC, 1), 5), (REST.book(BTC, 100), 5), (REST.book(BTC, 101), 25),
        (REST.book(BTC, 500), 25), (REST.book(BTC, 501), 50), (REST.book(BTC, 1000), 50),
        (REST.book(BTC, 1001), 250), (REST.book(BTC, 99_999), 250),
        (REST.recent_trades(BTC), 25), (REST.trades(BTC, 1), 25),
        (agg_trades(SYMBOLS, BTC, 1), 4),
        (REST.candles(BTC, MINUTE, 0, 1), 2),
        (REST.tickers([BTC]), 2), (REST.tickers(MANY[:20]), 2), (REST.tickers(MANY[:21]), 40),
        (REST.tickers(MANY[:100]), 40), (REST.tickers(MANY), 80), (REST.tickers(), 80),
    ],
)  # fmt: skip
def test_a_request_costs_what_the_documentation_says(request_: Request[object], cost: int) -> None:
    assert request_.cost == cost


def test_a_page_of_candles_ends_before_its_end() -> None:
    assert REST.candles(BTC, MINUTE, 60_000, 180_000).params == {
        "symbol": "BTCUSDT", "interval": "1m", "startTime": 60_000, "endTime": 179_999,
        "limit": 1000,
    }  # fmt: skip


def test_tickers_are_asked_for_as_a_json_list() -> None:
    assert REST.tickers([BTC, MANY[0]]).params == {"symbols": '["BTCUSDT","A0USDT"]'}
    assert REST.tickers().params == {}


def test_a_page_of_trades_says_where_the_next_begins() -> None:
    row = '{"id":7,"price":"1.0","qty":"1.0","time":1,"isBuyerMaker":true}'
    page = REST.trades(BTC, 7).read(f"[{row}]".encode(), AT_NS)

    assert ([trade.id for trade in page.trades], page.next) == ([7], 8)
    assert REST.trades(BTC, 9).read(b"[]", AT_NS) == ([], 9)


def test_aggregated_trades_are_read_by_id() -> None:
    row = '{"a":7,"p":"1.0","q":"2.0","f":10,"l":%s,"T":1,"m":true,"M":true}'
    request = agg_trades(SYMBOLS, BTC, 7)
    page = request.read(f"[{row % 12}]".encode(), AT_NS)

    (trade,) = page.trades
    assert (trade.id, trade.first_trade_id, trade.last_trade_id, trade.taker) == (7, 10, 12, "sell")
    assert (trade.source, page.next) == ("backfill", 8)
    assert request.params == {"symbol": "BTCUSDT", "fromId": 7, "limit": 1000}
    for wrong in (row % 9, (row % 12).replace("1.0", "-")):
        with pytest.raises(UnexpectedAnswer):
            request.read(f"[{wrong}]".encode(), AT_NS)


def test_a_symbol_that_is_not_listed_is_never_asked_for() -> None:
    with pytest.raises(UnknownSymbol, match="btc_usdt"):
        REST.trades(Symbol("BTC", "USD"), 1)


def candle_row(open_ms: int) -> str:
    return f'[{open_ms},"1.0","2.0","0.5","1.5","10.0",{open_ms + 59_999},"15.0",3,"5.0","7.5","0"]'


def test_a_candle_is_closed_when_another_follows_or_it_ended_long_ago() -> None:
    now_ms = 600_000
    read = REST.candles(BTC, MINUTE, 0, now_ms).read

    def closed(*opens_ms: int) -> list[bool]:
        body = f"[{','.join(map(candle_row, opens_ms))}]".encode()
        return [candle.closed for candle in read(body, now_ms * 1_000_000)]

    assert closed(480_000, 540_000) == [True, False], "it ended a millisecond ago, by our clock"
    assert closed(480_000) == [True]


@pytest.mark.parametrize(
    ("request_", "body"),
    [
        (TIME, b"<html>"),
        (TIME, b'{"serverTime":"soon"}'),
        (INFO, b"{}"),
        (REST.book(BTC), b'{"lastUpdateId":1,"bids":[["NaN","1"]],"asks":[]}'),
        (REST.book(BTC), b'{"lastUpdateId":1,"bids":[["1.0",""]],"asks":[]}'),
        (REST.book(BTC), b'{"lastUpdateId":-1,"bids":[],"asks":[]}'),
        (REST.book(BTC), b'{"lastUpdateId":1,"bids":[],"asks":' + b"[" * 100_000),
        (REST.trades(BTC, 1), b'[{"id":1,"price":"1e5","qty":"1","time":1,"isBuyerMaker":true}]'),
        (REST.trades(BTC, 1), b'{"code":0,"msg":"?"}'),
        (REST.trades(BTC, 1), b"\xff"),
        (REST.candles(BTC, MINUTE, 0, 1), b'[[1,"1.0"]]'),
        (REST.tickers(), b"[1]"),
    ],
)
def test_an_answer_that_is_not_as_documented_is_refused(
    request_: Request[object], body: bytes
) -> None:
    with pytest.raises(UnexpectedAnswer):
        request_.read(body, AT_NS)


def test_an_api_error_is_read_and_a_page_of_html_is_none() -> None:
    assert read_api_error(b'{"code":-1121,"msg":"Invalid symbol."}') == ApiError(
        -1121, "Invalid symbol."
    )
    banned = b'{"code":-1003,"msg":"Way too much; IP banned until 1573474564000. Please"}'
    api_error = read_api_error(banned)
    assert api_error is not None
    assert api_error.until_ms == 1573474564000
    assert read_api_error(b"<html>") is None
