"""What every exchange's REST readers share: the order, range and state of rows, and errors."""

from collections.abc import Sequence
from itertools import islice

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec import Struct

from penstock.errors import UnknownInterval
from penstock.exchanges.base import ApiError
from penstock.exchanges.resource import error_reader
from penstock.exchanges.rest_rows import CandleRows, TickerRows, candle_page
from penstock.exchanges.rows import CandleRow, TickerRow, ticker_of
from penstock.exchanges.symbol_map import SymbolMap
from penstock.market.interval import MINUTE_MS, Interval
from penstock.market.symbol import Symbol

BTC = Symbol("BTC", "USD")
MINUTE = Interval.parse("1m")
LONG_AFTER_NS = 10**18


class _Candle(CandleRow, Struct):
    at_ms: int
    open: str = "1"
    high: str = "1"
    low: str = "1"
    close: str = "1"
    volume: str = "1"


class _Ticker(TickerRow, Struct):
    native: str
    last: str = "1"


class _Complaint(Struct):
    code: int


def rows(minutes: Sequence[int]) -> list[_Candle]:
    return [_Candle(minute * MINUTE_MS) for minute in minutes]


@given(
    minutes=st.lists(st.integers(0, 50), unique=True).map(sorted),
    start=st.integers(0, 50),
    end=st.integers(0, 50),
    last_closed=st.integers(-1, 50),
)
def test_candles_are_cut_to_the_range_and_closed_up_to_the_last_closed_one(
    minutes: list[int], start: int, end: int, last_closed: int
) -> None:
    kind = CandleRows[_Candle]("x", ("1m",), lambda row: row.at_ms, newest_first=True)
    read = kind.reader(BTC, MINUTE, start * MINUTE_MS, end * MINUTE_MS)

    candles = read(rows(minutes[::-1]), LONG_AFTER_NS, last_closed * MINUTE_MS)

    assert [(each.open_ms // MINUTE_MS, each.closed) for each in candles] == [
        (minute, minute <= last_closed) for minute in minutes if start <= minute < end
    ]


@pytest.mark.parametrize(("later_s", "closed"), [(0, False), (69, False), (70, True)])
def test_the_last_candle_is_closed_once_it_ended_by_any_clock(later_s: int, closed: bool) -> None:
    read = CandleRows[_Candle]("x", ("1m",), lambda row: row.at_ms).reader(BTC, MINUTE, 0, 10**9)
    at_ns = (2 * 60 + later_s) * 10**9

    assert [each.closed for each in read(rows([1, 2]), at_ns)] == [True, closed]


def test_an_interval_that_the_exchange_lacks_is_refused_before_anything_is_sent() -> None:
    kind = CandleRows[_Candle]("x", ("5m",), lambda row: row.at_ms)

    with pytest.raises(UnknownInterval):
        kind.reader(BTC, MINUTE, 0, 1)


def test_a_market_that_is_not_in_the_map_hides_no_other_ticker() -> None:
    kind = TickerRows[_Ticker]("x", lambda row: row.native, ticker_of)

    tickers = kind.reader(SymbolMap("x", [("BTCUSD", BTC)]))([_Ticker("NEW"), _Ticker("BTCUSD")], 7)

    assert [(each.symbol, each.received_at_ns, each.source) for each in tickers] == [
        (BTC, 7, "rest")
    ]


@pytest.mark.parametrize("body", [b"", b"<html>", b"\xff", b"[]", b'{"code":"x"}', b'{"code":0}'])
def test_a_body_without_an_error_has_none(body: bytes) -> None:
    read = error_reader(_Complaint, lambda said: ApiError(said.code, "") if said.code else None)

    assert read(body) is None
    assert read(b'{"code":7}') == ApiError(7, "")


@given(st.integers(0, 10**6), st.integers(1, 10**7), st.integers(1, 300))
@example(1, 2 * MINUTE_MS, 300)
def test_a_page_of_candles_covers_the_range(start_ms: int, length_ms: int, most: int) -> None:
    end_ms = start_ms + length_ms

    first_ms, count = candle_page(MINUTE, start_ms, end_ms, most)

    opens = list(MINUTE.opens(start_ms, end_ms))[:most]
    assert first_ms == next(MINUTE.opens(start_ms, start_ms + MINUTE_MS))
    assert count == max(1, len(opens))


@pytest.mark.parametrize("text", ["1m", "4h", "1d", "1w", "1M"])
@given(st.integers(0, 10**12), st.integers(1, 10**11), st.integers(1, 50))
def test_a_page_of_candles_of_any_length_covers_the_range(
    text: str, start_ms: int, length_ms: int, most: int
) -> None:
    interval, end_ms = Interval.parse(text), start_ms + length_ms

    first_ms, count = candle_page(interval, start_ms, end_ms, most)

    opens = list(islice(interval.opens(start_ms, end_ms), most))
    assert first_ms >= start_ms
    assert opens[:1] in ([], [first_ms])
    assert count == max(1, len(opens))
