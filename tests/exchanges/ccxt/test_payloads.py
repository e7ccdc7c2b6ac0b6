"""Rows out of ccxt become events, or are refused whole."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import UnexpectedAnswer, UnknownInterval, UnknownSymbol
from penstock.exchanges.ccxt.library.calls import book_row, ticker_row, trade_rows
from penstock.exchanges.ccxt.library.numbers import ExactNumber
from penstock.exchanges.ccxt.limits import UNITS
from penstock.exchanges.ccxt.payloads import number_of, read_info, read_trades
from penstock.exchanges.ccxt.rest import TIME, CcxtRest, info_of
from penstock.exchanges.symbol_map import ListedMarket, SymbolMap
from penstock.market.interval import DAY_MS, MINUTE_MS, Interval
from penstock.market.symbol import Symbol
from penstock.storage.log.keys import key_of_id

NAME = "ccxt:okx"
BTC = Symbol("BTC", "USDT")
MINUTE = Interval.parse("1m")
MAP = SymbolMap(NAME, [ListedMarket("BTC-USDT", BTC, "BTC/USDT")])
REST = CcxtRest(NAME, ("1m", "1h"), 100, MAP)
PAGES = (b"<!DOCTYPE html><html>blocked</html>", b"", b"[", b"null", b"\xff\xfe", b"[" * 50_000)
encode = msgspec.json.encode


def trade(**fields: object) -> dict[str, object]:
    told = {"id": "7", "timestamp": 1000, "price": ExactNumber("1.50"), "amount": 2, "side": "buy"}
    return {**told, **fields}


def trades(*rows: dict[str, object]) -> list[int]:
    body = encode(trade_rows(rows))
    return [each.id for each in read_trades(NAME, BTC, body, 1, "rest")]


def test_requests_name_a_method_and_its_parameters() -> None:
    asked = REST.candles(BTC, MINUTE, 30_000, 10 * MINUTE_MS)

    assert (asked.path, asked.cost) == ("/fetch_ohlcv", UNITS)
    assert asked.params == {
        "symbol": "BTC/USDT", "timeframe": "1m", "since": MINUTE_MS, "limit": 9,
    }  # fmt: skip
    assert REST.candles(BTC, MINUTE, 0, DAY_MS).params["limit"] == 100


def test_what_is_not_listed_or_offered_is_never_asked_for() -> None:
    gone = Symbol("GONE", "USDT")
    for ask in (
        lambda: REST.book(gone),
        lambda: REST.recent_trades(gone),
        lambda: REST.trades(gone, 1),
        lambda: REST.candles(gone, MINUTE, 0, 1),
        lambda: REST.tickers([gone]),
    ):
        with pytest.raises(UnknownSymbol):
            ask()
    with pytest.raises(UnknownInterval):
        REST.candles(BTC, Interval.parse("5m"), 0, 1)


def test_an_answer_that_is_none_of_its_own_is_refused_whole() -> None:
    for request in (
        TIME,
        info_of(NAME),
        REST.book(BTC),
        REST.recent_trades(BTC),
        REST.trades(BTC, 1),
        REST.candles(BTC, MINUTE, 0, 1),
        REST.tickers([BTC]),
    ):
        for page in PAGES:
            with pytest.raises(UnexpectedAnswer):
                request.read(page, 1)


@pytest.mark.parametrize(
    "fields",
    [
        {"side": None},
        {"timestamp": None},
        {"price": None},
        {"amount": ExactNumber("nan")},
        {"price": ExactNumber("-1")},
        {"id": "not an id"},
    ],
)
def test_a_trade_that_does_not_say_what_a_trade_must_is_refused(
    fields: dict[str, object],
) -> None:
    with pytest.raises(UnexpectedAnswer):
        trades(trade(**fields))


def test_spot_markets_alone_are_listed_and_each_once() -> None:
    rows = [
        {"id": "BTC-USDT", "symbol": "BTC/USDT", "base": "BTC", "quote": "USDT", "spot": True},
        {"id": "BTC-USDT-2", "symbol": "BTC/USDT", "base": "BTC", "quote": "USDT", "spot": True},
        {"id": "SWAP", "symbol": "BTC/USDT:USDT", "base": "BTC", "quote": "USDT", "spot": False},
        {"id": "A", "symbol": "A/B", "base": "A", "quote": "B", "spot": True, "active": False},
        {"id": "?", "symbol": "?", "base": "A B", "quote": "C", "spot": True, "active": True},
        {"id": "N", "symbol": "N", "base": None, "quote": "C", "spot": None, "active": None},
    ]
    info = read_info(NAME, encode(rows))

    assert [listed.native for listed in info.symbols.listed] == ["BTC-USDT"]
    assert info.limits == ()


@given(st.integers(min_value=0, max_value=1 << 63))
def test_an_id_that_is_a_number_stays_that_number(number: int) -> None:
    assert number_of(str(number)) == number


@given(st.sets(st.from_regex(r"[!-~]{1,40}", fullmatch=True), min_size=2, max_size=2))
def test_two_ids_never_become_one(ids: set[str]) -> None:
    one, other = (number_of(text) for text in ids)

    assert one != other
    assert key_of_id(one) != key_of_id(other)


def test_trades_without_ids_are_known_by_what_they_say() -> None:
    same, later = trade(id=None), trade(id=None, timestamp=1001)
    first = trades(same, same, later)

    assert len(set(first)) == 3, "two alike in one answer are two"
    assert trades(same, same, later) == first, "and the same two in the next"
    assert len({*first, *trades(trade())}) == 4


def test_a_page_of_trades_ends_where_it_is_whole() -> None:
    rows = [trade(id=str(n), timestamp=at) for n, at in enumerate((5, 6, 6, 7, 7))]
    page = REST.trades(BTC, 4_999_999).read(encode(trade_rows(rows)), 1)

    assert [each.id for each in page.trades] == [0, 1, 2]
    assert REST.trades(BTC, page.next).params["since"] == 7
    last = REST.trades(BTC, page.next).read(encode(trade_rows(rows)), 1)
    assert [each.id for each in last.trades] == [3, 4]
    assert REST.trades(BTC, last.next).params["since"] == 8
    assert REST.trades(BTC, last.next).read(b"[]", 1) == ([], last.next)


def test_candles_are_closed_once_they_are_surely_over() -> None:
    rows = [[0, "1", "2", "1", "2", "3.10"], [MINUTE_MS, "1", "2", "1", "2", "0"]]
    request = REST.candles(BTC, MINUTE, 0, DAY_MS)
    candles = request.read(encode(rows), (2 * MINUTE_MS) * 1_000_000)

    assert [candle.closed for candle in candles] == [True, False]
    assert candles[0].volume_text == "3.10"
    assert candles[0].close_ms == MINUTE_MS - 1
    with pytest.raises(UnexpectedAnswer):
        request.read(encode([[0, "1", "2", "1", "2", None]]), 1)


def test_candles_that_were_not_asked_for_are_left_out() -> None:
    rows = [[n * MINUTE_MS, "1", "1", "1", "1", "1"] for n in (3, 1, 2, 0)]
    found = REST.candles(BTC, MINUTE, MINUTE_MS, 3 * MINUTE_MS).read(encode(rows), 1)

    assert [candle.open_ms for candle in found] == [MINUTE_MS, 2 * MINUTE_MS]


def test_a_book_keeps_the_digits_and_as_many_levels_as_wanted() -> None:
    bids = [[ExactNumber("1.50"), ExactNumber("2.0")], [ExactNumber("1.4"), 3.0]]
    row = book_row({"nonce": 7, "timestamp": None, "bids": bids, "asks": []}, 1)
    book = REST.book(BTC).read(encode(row), 5)

    assert bytes(book.bids_raw) == b'[["1.50","2.0"]]'
    assert (book.update_id, book.at_ms, book.received_at_ns) == (7, None, 5)


def test_tickers_of_markets_that_are_not_listed_do_not_hide_the_others() -> None:
    rows = [
        ticker_row({"symbol": "BTC/USDT", "last": ExactNumber("1.0"), "timestamp": 5}),
        ticker_row({"symbol": "NEW/USDT", "last": ExactNumber("1.0"), "timestamp": 5}),
    ]
    (ticker,) = REST.tickers().read(encode(rows), 1)

    assert (ticker.symbol, ticker.last_text, ticker.bid_text) == (BTC, "1.0", None)
