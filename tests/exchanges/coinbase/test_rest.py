"""Coinbase's REST side: what is asked, and what the answers become."""

import json
from typing import Any

import pytest

from penstock.errors import UnexpectedAnswer, UnknownInterval
from penstock.exchanges.base import ApiError
from penstock.exchanges.coinbase import EXCHANGE
from penstock.exchanges.coinbase.rest import TIME, CoinbaseRest, read_api_error
from penstock.exchanges.symbol_map import SymbolMap
from penstock.market.interval import MINUTE_MS, Interval
from penstock.market.symbol import Symbol

BTC, ETH, ODD = Symbol("BTC", "USD"), Symbol("ETH", "USD"), Symbol("币", "USD")
REST = CoinbaseRest(SymbolMap("coinbase", [("BTC-USD", BTC), ("ETH-USD", ETH), ("币-USD", ODD)]))
MINUTE = Interval.parse("1m")
AT_NS = 1_700_000_000_000_000_000
NOW_S = 1_700_000_000


def trade(number: int, **changed: Any) -> dict[str, Any]:
    row = {"trade_id": number, "side": "sell", "size": "985", "price": "0.00001305",
           "time": "2021-04-17T16:43:37.089723Z"}  # fmt: skip
    return row | changed


def body(value: object) -> bytes:
    return json.dumps(value).encode()


def test_a_product_stands_in_the_path_and_cannot_leave_it() -> None:
    odd = Symbol("A?B", "USD")
    rest = CoinbaseRest(SymbolMap("coinbase", [("A?B-USD", odd)]))

    assert REST.book(BTC, 50).path == "/products/BTC-USD/book"
    assert REST.book(ODD, 50).path == "/products/%E5%B8%81-USD/book"
    assert rest.book(odd, 50).path == "/products/A%3FB-USD/book"


def test_the_whole_book_is_asked_for_unless_the_best_level_will_do() -> None:
    assert REST.book(BTC, 1).params == {"level": 1}
    assert REST.book(BTC, 2).params == {"level": 2}


def test_a_book_keeps_its_digits_and_its_time() -> None:
    answer = {"sequence": 1924393896, "bids": [["0.01825", "24.34811287", 2]],
              "asks": [["0.01826", "1.0", 1]], "auction_mode": False, "auction": None,
              "time": "2023-11-14T22:13:20.123456Z"}  # fmt: skip
    book = REST.book(BTC, 10).read(body(answer), AT_NS)

    assert bytes(book.bids_raw) == b'[["0.01825","24.34811287"]]'
    assert bytes(book.asks_raw) == b'[["0.01826","1.0"]]'
    assert (book.update_id, book.at_ms, book.source) == (0, 1_700_000_000_123, "rest")
    with pytest.raises(UnexpectedAnswer, match="plain number"):
        REST.book(BTC, 10).read(body(answer | {"bids": [["NaN", "1", 1]]}), AT_NS)


def test_trades_are_turned_round_and_to_the_takers_side() -> None:
    trades = REST.recent_trades(BTC, 5).read(body([trade(8, side="buy"), trade(7)]), AT_NS)

    assert [(each.id, each.taker) for each in trades] == [(7, "buy"), (8, "sell")]
    assert (trades[0].at_ns, trades[0].price_text) == (1_618_677_817_089_723_000, "0.00001305")


def test_pages_lead_back_from_the_cursor() -> None:
    request = REST.trades(BTC, 9)
    page = request.read(body([trade(8), trade(7)]), AT_NS)

    assert request.params == {"after": 9, "limit": 1000}
    assert ([each.id for each in page.trades], page.next) == ([7, 8], 7)
    assert request.read(b"[]", AT_NS) == ([], 9)
    assert {each.source for each in page.trades} == {"backfill"}


@pytest.mark.parametrize("limit", [(0, 1), (5, 5), (5000, 1000)])
def test_no_more_trades_are_asked_for_than_a_page_holds(limit: tuple[int, int]) -> None:
    assert REST.recent_trades(BTC, limit[0]).params == {"limit": limit[1]}


@pytest.mark.parametrize("wrong", [280232.0, 2.8e5, "280232", -1, None, 1 << 64])
def test_an_id_that_is_no_id_is_refused(wrong: object) -> None:
    with pytest.raises(UnexpectedAnswer, match="trade_id"):
        REST.recent_trades(BTC, 5).read(body([trade(1, trade_id=wrong)]), AT_NS)


@pytest.mark.parametrize(
    ("start_ms", "end_ms", "start", "end"),
    [
        (0, MINUTE_MS, "1970-01-01T00:00:00Z", "1970-01-01T00:00:00Z"),
        (1, 3 * MINUTE_MS, "1970-01-01T00:01:00Z", "1970-01-01T00:02:00Z"),
        (0, 3 * MINUTE_MS + 1, "1970-01-01T00:00:00Z", "1970-01-01T00:03:00Z"),
        (0, 1 << 40, "1970-01-01T00:00:00Z", "1970-01-01T04:59:00Z"),
    ],
)
def test_at_most_three_hundred_candles_are_asked_for(
    start_ms: int, end_ms: int, start: str, end: str
) -> None:
    request = REST.candles(BTC, MINUTE, start_ms, end_ms)

    assert request.params == {"granularity": 60, "start": start, "end": end}


def test_candles_are_turned_round_and_cut_to_what_was_asked_for() -> None:
    start_s = NOW_S // 60 * 60 - 120
    rows = [[start_s + 60 * n, 1, 4.50, 2, 3, 8.428e-05] for n in (2, 0, -1)]
    request = REST.candles(BTC, MINUTE, start_s * 1000, start_s * 1000 + 10 * MINUTE_MS)
    candles = request.read(body(rows), AT_NS)

    assert [each.open_ms // 1000 - start_s for each in candles] == [0, 120]
    first = candles[0]
    assert (first.low_text, first.high_text, first.open_text, first.close_text) == (
        "1", "4.5", "2", "3",
    )  # fmt: skip
    assert first.volume_text == "0.00008428"
    assert first.close_ms == first.open_ms + MINUTE_MS - 1
    assert [each.closed for each in candles] == [True, False]


def test_a_candle_long_over_is_closed_though_none_follows() -> None:
    row = [NOW_S // 60 * 60 - 120, 1, 2, 1, 2, 5.0]
    (candle,) = REST.candles(BTC, MINUTE, 0, 1 << 50).read(body([row]), AT_NS)
    assert candle.closed


@pytest.mark.parametrize("wrong", ["1", -1, -0.5, None, [], 1e300])
def test_a_candle_of_something_else_than_numbers_is_refused(wrong: object) -> None:
    with pytest.raises(UnexpectedAnswer):
        REST.candles(BTC, MINUTE, 0, 1 << 50).read(body([[0, wrong, 2, 1, 2, [5]]]), AT_NS)


def test_other_lengths_of_candles_are_refused_before_anything_is_sent() -> None:
    with pytest.raises(UnknownInterval, match="6h"):
        REST.candles(BTC, Interval.parse("4h"), 0, 1)


def test_one_ticker_is_whole() -> None:
    answer = {"trade_id": 843439, "price": "0.997999", "size": "80.29769", "bid": "0.997094",
              "time": "2020-01-28T02:13:33.012523Z", "ask": "0.998", "volume": "1903188.03750000",
              "rfq_volume": "1.0"}  # fmt: skip
    request = REST.tickers([BTC])
    (ticker,) = request.read(body(answer), AT_NS)

    assert request.path == "/products/BTC-USD/ticker"
    assert (ticker.bid_text, ticker.ask_text, ticker.last_text) == ("0.997094", "0.998", "0.997999")
    assert (ticker.volume_text, ticker.at_ms) == ("1903188.03750000", 1_580_177_613_012)


def test_several_tickers_are_the_latest_prices_of_those_asked_for() -> None:
    rows = [[1639472400, 4.26, 4.38, 4.35, 4.27], [1639468800, 4.31, 4.45, 4.35, 4.35]]
    answer = body({"BTC-USD": rows, "ETH-USD": rows[1:], "NEW-USD": rows, "币-USD": []})

    for symbols, told in (([BTC, ODD], {BTC: "4.27"}), ([], {BTC: "4.27", ETH: "4.35"})):
        tickers = REST.tickers(symbols).read(answer, AT_NS)
        assert {each.symbol: each.last_text for each in tickers} == told


def test_the_clock_is_told_in_milliseconds() -> None:
    answer = b'{"iso":"2023-11-14T22:13:20.201Z","epoch":1700000000.201}'
    assert TIME.read(answer, AT_NS) == 1_700_000_000_201


def test_a_refusal_is_its_words() -> None:
    assert read_api_error(b'{"message":"NotFound"}') == ApiError("NotFound", "NotFound")
    assert read_api_error(b'{"msg":"NotFound"}') is None


def test_the_bucket_is_never_asked_for_more_than_it_holds() -> None:
    (limit,) = EXCHANGE.limits(0)

    assert limit.amount * 1000 / limit.period_ms <= 10
    assert limit.most < 15
    assert not EXCHANGE.usages({"cb-after": "17"})


def test_what_it_can_do_is_told_as_data() -> None:
    assert EXCHANGE.consecutive == {"trades"}
    assert EXCHANGE.trade_pages == "before_id"
    assert not EXCHANGE.empty_candles
    assert EXCHANGE.intervals == ("1m", "5m", "15m", "1h", "6h", "1d")
    assert EXCHANGE.latest_candles is None
