"""Kraken's REST side: refusals found behind status 200, pages by time, and no answer trusted."""

import pytest

from penstock.errors import UnexpectedAnswer, UnknownInterval, UnknownSymbol
from penstock.exchanges.base import ApiError, Request, Rest
from penstock.exchanges.kraken import EXCHANGE
from penstock.exchanges.kraken.rest import TIME, KrakenRest, read_api_error
from penstock.exchanges.kraken.symbols import INFO
from penstock.exchanges.symbol_map import SymbolMap
from penstock.market.interval import Interval
from penstock.market.symbol import Symbol

BTC, DOGE = Symbol("BTC", "USD"), Symbol("DOGE", "USD")
REST = KrakenRest(SymbolMap("kraken", [("XXBTZUSD", BTC), ("XDGUSD", DOGE)]))
AT_NS = 1_762_820_300_000_000_000
MINUTE = Interval.parse("1m")
TRADE = b'["105433.60000","0.00027625",1762795433.9717445,"b","l","",10218208]'


def answer(result: bytes) -> bytes:
    return b'{"error":[],"result":' + result + b"}"


def test_the_requests_are_those_every_exchange_has() -> None:
    rest: Rest = REST
    assert rest.book(BTC, 10).path == "/0/public/Depth"


@pytest.mark.parametrize(
    ("request_", "path", "params", "category"),
    [
        (TIME, "Time", {}, ""),
        (INFO, "AssetPairs", {}, ""),
        (REST.book(BTC, 25), "Depth", {"pair": "XXBTZUSD", "count": 25}, ""),
        (REST.book(BTC, 1000), "Depth", {"pair": "XXBTZUSD", "count": 500}, ""),
        (REST.recent_trades(BTC, 5), "Trades", {"pair": "XXBTZUSD"}, "pair/XXBTZUSD"),
        (
            REST.trades(BTC, 17), "Trades",
            {"pair": "XXBTZUSD", "since": 17, "count": 1000}, "pair/XXBTZUSD",
        ),
        (
            REST.candles(DOGE, MINUTE, 120_000, 300_000), "OHLC",
            {"pair": "XDGUSD", "interval": 1, "since": 119}, "pair/XDGUSD",
        ),
        (
            REST.candles(DOGE, Interval.parse("1d"), 0, 1), "OHLC",
            {"pair": "XDGUSD", "interval": 1440, "since": 0}, "pair/XDGUSD",
        ),
        (REST.tickers(), "Ticker", {}, ""),
        (REST.tickers([BTC, DOGE]), "Ticker", {"pair": "XXBTZUSD,XDGUSD"}, ""),
    ],
)  # fmt: skip
def test_a_request_says_what_it_asks_and_whose_budget_pays(
    request_: Request[object], path: str, params: dict[str, object], category: str
) -> None:
    assert request_.path == f"/0/public/{path}"
    assert request_.params == params
    assert request_.category == category
    assert request_.cost == 1


def test_a_call_for_a_pair_counts_for_the_pair_and_for_the_address() -> None:
    address, pair = EXCHANGE.limits(0)

    assert [limit.charge(1, "") for limit in (address, pair)] == [1, 0]
    assert [limit.charge(1, "pair/XXBTZUSD") for limit in (address, pair)] == [1, 1]
    assert pair.of("pair/XXBTZUSD") != pair.of("pair/XDGUSD")
    assert all((limit.amount, limit.period_ms) == (1, 1000) for limit in (address, pair))
    assert not EXCHANGE.usages({"date": "now"})


@pytest.mark.parametrize(
    ("error", "meaning"),
    [
        ("EGeneral:Too many requests", "too_fast"),
        ("EAPI:Rate limit exceeded", "too_fast"),
        ("EGeneral:Temporary lockout", "too_fast"),
        ("EService:Unavailable", "failed"),
        ("EService:Busy", "failed"),
        ("EService:Deadline elapsed", "failed"),
        ("EGeneral:Internal error", "failed"),
        ("EQuery:Unknown asset pair", "refused"),
        ("EGeneral:Invalid arguments:count", "refused"),
        ("EGeneral:Unknown method", "refused"),
    ],
)
def test_an_api_error_behind_status_200_is_found_and_understood(error: str, meaning: str) -> None:
    api_error = read_api_error(f'{{"error":["{error}"]}}'.encode())

    assert api_error is not None
    code, _, words = error.partition(":")
    assert (api_error.code, api_error.message, api_error.meaning) == (code, words, meaning)


@pytest.mark.parametrize(
    "body",
    [
        answer(b"{}"),
        b'{ "error" : [], "result": {}}',
        b'{"error":["WGeneral:Soon gone"],"result":{}}',
        b"<!DOCTYPE html><html>Cloudflare</html>",
        b"",
        b"[]",
    ],
)
def test_an_answer_a_warning_and_a_page_of_html_are_no_api_error(body: bytes) -> None:
    assert read_api_error(body) is None


def test_an_error_without_a_class_is_still_one() -> None:
    assert read_api_error(b'{"error":["E"]}') == ApiError("E", "E", meaning="refused")


def test_the_time_is_told_in_whole_seconds() -> None:
    body = answer(b'{"unixtime":1762820224,"rfc1123":"Tue, 11 Nov 25 00:17:04 +0000"}')
    assert TIME.read(body, AT_NS) == 1_762_820_224_000


def test_a_book_is_read_whatever_its_pair_is_called() -> None:
    levels = b'{"asks":[["105944.30000","0.136",1762820248]],"bids":[["105944.20000","1.000",1]]}'
    book = REST.book(BTC).read(answer(b'{"XBTUSD":' + levels + b"}"), AT_NS)

    assert bytes(book.asks_raw) == b'[["105944.30000","0.136"]]'
    assert bytes(book.bids_raw) == b'[["105944.20000","1.000"]]'
    assert (book.symbol, book.source, book.at_ms) == (BTC, "rest", None)


def test_a_page_of_trades_ends_with_the_cursor_of_the_next() -> None:
    body = answer(b'{"XXBTZUSD":[' + TRADE + b'],"last":"1762795433971744512"}')
    page = REST.trades(BTC, 5).read(body, AT_NS)

    (trade,) = page.trades
    assert page.next == 1_762_795_433_971_744_512
    assert (trade.id, trade.at_ns, trade.taker) == (10_218_208, 1_762_795_433_971_744_500, "buy")
    assert (trade.price_text, trade.quantity_text) == ("105433.60000", "0.00027625")
    assert trade.source == "backfill"
    empty = answer(b'{"XXBTZUSD":[],"last":"5"}')
    assert REST.trades(BTC, 5).read(empty, AT_NS) == ([], 5)


def test_the_latest_trades_are_the_end_of_the_page() -> None:
    rows = [TRADE.replace(b"10218208", str(number).encode()) for number in range(7, 12)]
    body = answer(b'{"XXBTZUSD":[' + b",".join(rows) + b'],"last":"1"}')

    assert [trade.id for trade in REST.recent_trades(BTC, 2).read(body, AT_NS)] == [10, 11]


def candle(open_s: int) -> bytes:
    return b'[%d,"3.1","3.4","3.0","3.2","3.15","10.50000000",7]' % open_s


def test_candles_are_closed_up_to_the_last_committed_one_and_cut_to_what_was_asked() -> None:
    rows = b",".join(map(candle, range(60, 360, 60)))
    body = answer(b'{"XXBTZUSD":[' + rows + b'],"last":240}')
    candles = REST.candles(BTC, MINUTE, 120_000, 360_000).read(body, AT_NS)

    assert [(c.open_ms, c.closed) for c in candles] == [
        (120_000, True), (180_000, True), (240_000, True), (300_000, False),
    ]  # fmt: skip
    assert (candles[0].close_ms, candles[0].trades, candles[0].volume_text) == (
        179_999, 7, "10.50000000",
    )  # fmt: skip
    assert REST.candles(BTC, MINUTE, 0, 60_000).read(body, AT_NS) == []


@pytest.mark.parametrize("text", ["1w", "15d", "3m", "1M"])
def test_a_length_of_candle_the_exchange_has_not_is_never_asked_for(text: str) -> None:
    with pytest.raises(UnknownInterval, match="1m 5m"):
        REST.candles(BTC, Interval.parse(text), 0, 1)


def test_tickers_are_of_the_last_day_and_of_listed_pairs() -> None:
    row = (
        b'{"a":["105944.30000","1","1.000"],"b":["105944.20000","2","2.500"],"c":["105944.30000",'
        b'"0.1"],"v":["12.1","99.8"],"p":["1.0","2.0"],"t":[35,3276],"l":["104000.0","103000.0"],'
        b'"h":["107000.0","108000.0"],"o":"106021.60000"}'
    )
    body = answer(b'{"XXBTZUSD":' + row + b',"XXBTZUSD.d":' + row + b"}")
    (ticker,) = REST.tickers().read(body, AT_NS)

    assert (ticker.symbol, ticker.bid_text, ticker.bid_quantity_text) == (
        BTC, "105944.20000", "2.500",
    )  # fmt: skip
    assert (ticker.ask_text, ticker.ask_quantity_text) == ("105944.30000", "1.000")
    assert (ticker.low_text, ticker.high_text, ticker.volume_text) == (
        "103000.0", "108000.0", "99.8",
    )  # fmt: skip
    assert ticker.open_text is None, "it is since midnight, and the others are not"


def test_a_symbol_that_is_not_listed_is_never_asked_for() -> None:
    with pytest.raises(UnknownSymbol, match="btc_usd"):
        REST.trades(Symbol("BTC", "USDT"), 1)


@pytest.mark.parametrize(
    ("request_", "body"),
    [
        (TIME, b"<html>"),
        (TIME, answer(b'{"unixtime":"soon"}')),
        (TIME, answer(b'{"unixtime":-1}')),
        (REST.book(BTC), b'{"error":[]}'),
        (REST.book(BTC), answer(b"{}")),
        (REST.book(BTC), answer(b'{"A":{"asks":[],"bids":[]},"B":{"asks":[],"bids":[]}}')),
        (REST.book(BTC), answer(b'{"A":{"asks":[["NaN","1",1]],"bids":[]}}')),
        (REST.book(BTC), answer(b'{"A":{"asks":[["1.0"]],"bids":[]}}')),
        (REST.book(BTC), answer(b'{"A":{"asks":' + b"[" * 100_000)),
        (REST.trades(BTC, 1), answer(b'{"A":[' + TRADE + b"]}")),
        (REST.trades(BTC, 1), answer(b'{"A":[' + TRADE + b'],"last":"-1"}')),
        (REST.trades(BTC, 1), answer(b'{"A":[' + TRADE + b'],"last":"99999999999999999999"}')),
        (
            REST.trades(BTC, 1),
            answer(b'{"A":[' + TRADE.replace(b"0.0002", b"1e5") + b'],"last":1}'),
        ),
        (REST.trades(BTC, 1), answer(b'{"A":[' + TRADE.replace(b'"b"', b'"x"') + b'],"last":1}')),
        (REST.trades(BTC, 1), answer(b'{"A":[' + TRADE.replace(b"208]", b".5]") + b'],"last":1}')),
        (
            REST.trades(BTC, 1),
            answer(b'{"A":[' + TRADE.replace(b"1762", b"-1762") + b'],"last":1}'),
        ),
        (
            REST.trades(BTC, 1),
            answer(b'{"A":[' + TRADE.replace(b"1762795433.9717445", b'"NaN"') + b'],"last":1}'),
        ),
        (REST.trades(BTC, 1), b"\xff"),
        (REST.candles(BTC, MINUTE, 0, 1 << 50), answer(b'{"A":[[1,"1.0"]],"last":1}')),
        (
            REST.candles(BTC, MINUTE, 0, 1 << 50),
            answer(b'{"A":[' + candle(60).replace(b"3.4", b"-3.4") + b'],"last":1}'),
        ),
        (REST.tickers(), answer(b'{"XXBTZUSD":{"a":["1","2"]}}')),
        (INFO, b'{"error":["EService:Busy"]}'),
    ],
)
def test_an_answer_that_is_not_as_documented_is_refused(
    request_: Request[object], body: bytes
) -> None:
    with pytest.raises(UnexpectedAnswer):
        request_.read(body, AT_NS)
