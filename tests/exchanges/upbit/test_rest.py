"""Upbit's REST side: what is asked, and what the answers become."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import UnexpectedAnswer, UnknownInterval
from penstock.exchanges.base import ApiError, Usage
from penstock.exchanges.symbol_map import SymbolMap
from penstock.exchanges.upbit import EXCHANGE
from penstock.exchanges.upbit.limits import GROUPS, usages
from penstock.exchanges.upbit.rest import PAGE, UpbitRest, read_api_error
from penstock.market.events import Trade
from penstock.market.interval import DAY_MS, MINUTE_MS, Interval
from penstock.market.symbol import Symbol

BTC, XRP = Symbol("BTC", "KRW"), Symbol("XRP", "USDT")
REST = UpbitRest(SymbolMap("upbit", [("KRW-BTC", BTC), ("USDT-XRP", XRP)]))
MINUTE = Interval.parse("1m")
TODAY_MS = 1_751_068_800_000
"""2025-06-28, midnight."""
NOW_MS = TODAY_MS + 43_200_000
AT_NS = NOW_MS * 1_000_000
WORD: dict[str, Any] = {
    "market": "KRW-BTC", "trade_date_utc": "2025-06-27", "trade_time_utc": "23:59:59",
    "timestamp": 1751068799336, "trade_price": 147058000, "trade_volume": 0.00006043,
    "prev_closing_price": 146852000, "change_price": 206000, "ask_bid": "BID",
    "sequential_id": 17510687993360000,
}  # fmt: skip


def tick(trade_id: int, **changed: Any) -> dict[str, Any]:
    return WORD | {"sequential_id": trade_id, "timestamp": trade_id // 10_000} | changed


def body(value: object) -> bytes:
    return json.dumps(value).encode()


def candle(open_at: str, **changed: Any) -> dict[str, Any]:
    row = {"market": "KRW-BTC", "candle_date_time_utc": open_at, "opening_price": 145794000,
           "high_price": 145794000.5, "low_price": 8.428e-05, "trade_price": 145759000,
           "timestamp": 1751327999833, "candle_acc_trade_price": 185042.25,
           "candle_acc_trade_volume": 0.0013, "unit": 1}  # fmt: skip
    return row | changed


def test_trades_are_turned_round_and_tell_the_takers_side() -> None:
    request = REST.recent_trades(BTC, 5)
    rows = [tick(17510687993360001, ask_bid="ASK"), tick(17510687993360000)]
    trades = request.read(body(rows), AT_NS)

    assert (request.path, request.category) == ("/v1/trades/ticks", "trade")
    assert request.params == {"market": "KRW-BTC", "count": 5}
    assert [(each.id, each.taker) for each in trades] == [
        (17510687993360000, "buy"), (17510687993360001, "sell"),
    ]  # fmt: skip
    assert (trades[0].price_text, trades[0].quantity_text) == ("147058000", "0.00006043")
    assert trades[0].at_ms == 1751068799336


@pytest.mark.parametrize("wrong", [17510687993360000.0, "17510687993360000", -1, None])
def test_an_id_that_is_no_id_is_refused(wrong: object) -> None:
    with pytest.raises(UnexpectedAnswer, match="sequential_id"):
        REST.recent_trades(BTC, 5).read(body([WORD | {"sequential_id": wrong}]), AT_NS)


def asked_days_ago(cursor: int, now_ms: int = NOW_MS) -> object:
    return REST.trades(BTC, cursor).params_at(now_ms).get("days_ago")


@pytest.mark.parametrize(
    ("cursor_ms", "days_ago"),
    [
        (NOW_MS, None),
        (TODAY_MS + 1, None),
        (TODAY_MS, 1),
        (TODAY_MS - 1, 1),
        (TODAY_MS - DAY_MS, 2),
        (TODAY_MS - 6 * DAY_MS - 1, 7),
    ],
)
def test_a_page_is_of_the_day_that_its_trades_are_of(cursor_ms: int, days_ago: object) -> None:
    assert asked_days_ago(cursor_ms * 10_000) == days_ago


def test_days_are_counted_from_when_a_request_is_sent() -> None:
    assert asked_days_ago(NOW_MS * 10_000, NOW_MS + DAY_MS) == 1


def test_ids_with_fewer_digits_tell_the_time_as_well() -> None:
    assert asked_days_ago((TODAY_MS - 1) * 1_000 + 7) == 1


class Ticks:
    """An exchange that keeps a week of trades and pages through them by the day."""

    def __init__(self, ids: set[int]) -> None:
        self.ids = sorted(ids, reverse=True)

    def page(self, cursor: int) -> tuple[list[Trade], int]:
        request = REST.trades(BTC, cursor)
        days_ago = request.params_at(NOW_MS).get("days_ago", 0)
        assert isinstance(days_ago, int)
        assert 0 <= days_ago <= 7, "anything else is refused"
        start = (TODAY_MS - days_ago * DAY_MS) * 10_000
        day = [each for each in self.ids if start <= each < start + DAY_MS * 10_000]
        rows = [tick(each) for each in day if each < cursor][:PAGE]
        return request.read(body(rows), AT_NS)


@given(
    st.sets(st.integers((TODAY_MS - 7 * DAY_MS) * 10_000, NOW_MS * 10_000), max_size=20),
    st.integers(0, 7),
)
def test_paging_back_finds_every_trade_of_a_week_once(ids: set[int], busy: int) -> None:
    start = (TODAY_MS - busy * DAY_MS) * 10_000
    ids = ids | {start + n * 7 for n in range(PAGE)}  # a day whose trades fill a page exactly
    there, cursor, found = Ticks(ids), NOW_MS * 10_000, list[int]()
    for _ in range(30):
        trades, next_cursor = there.page(cursor)
        found = [trade.id for trade in trades] + found
        if next_cursor == cursor:
            break
        cursor = next_cursor

    assert next_cursor == cursor, "it comes to an end"
    assert found == sorted(each for each in ids if each < NOW_MS * 10_000)


@pytest.mark.parametrize(
    ("start_ms", "end_ms", "to", "count"),
    [
        (0, MINUTE_MS, "1970-01-01T00:01:00Z", 1),
        (1, 3 * MINUTE_MS, "1970-01-01T00:03:00Z", 2),
        (0, 3 * MINUTE_MS + 1, "1970-01-01T00:04:00Z", 4),
        (0, 1 << 40, "1970-01-01T03:20:00Z", 200),
    ],
)
def test_at_most_two_hundred_candles_are_asked_for(
    start_ms: int, end_ms: int, to: str, count: int
) -> None:
    request = REST.candles(BTC, MINUTE, start_ms, end_ms)

    assert request.path == "/v1/candles/minutes/1"
    assert request.params == {"market": "KRW-BTC", "to": to, "count": count}


def test_candles_are_turned_round_and_cut_to_what_was_asked_for() -> None:
    rows = [candle(f"2025-06-28T11:5{minute}:00") for minute in (9, 7, 4)]
    start_ms = NOW_MS - 5 * MINUTE_MS
    candles = REST.candles(BTC, MINUTE, start_ms, NOW_MS).read(body(rows), AT_NS)

    assert [each.open_ms - start_ms for each in candles] == [2 * MINUTE_MS, 4 * MINUTE_MS]
    assert [each.closed for each in candles] == [True, False]
    first = candles[0]
    assert (first.open_text, first.high_text, first.low_text, first.close_text) == (
        "145794000", "145794000.5", "0.00008428", "145759000",
    )  # fmt: skip
    assert (first.volume_text, first.quote_volume_text) == ("0.0013", "185042.25")
    assert first.close_ms == first.open_ms + MINUTE_MS - 1


@pytest.mark.parametrize(
    "changed",
    [
        {"candle_date_time_utc": "2025-06-28"},
        {"candle_date_time_utc": "2025-06-28T11:00:00+09:00"},
        {"opening_price": "NaN"},
        {"opening_price": -1.5},
        {"candle_acc_trade_volume": None},
    ],
)
def test_a_candle_that_is_none_is_refused(changed: dict[str, Any]) -> None:
    rows = [candle("2025-06-28T11:00:00", **changed)]
    with pytest.raises(UnexpectedAnswer):
        REST.candles(BTC, MINUTE, 0, 1 << 50).read(body(rows), AT_NS)


def test_other_lengths_of_candles_are_refused_before_anything_is_sent() -> None:
    for text in ("2h", "1w", "1M"):
        with pytest.raises(UnknownInterval, match="10m"):
            REST.candles(BTC, Interval.parse(text), 0, 1)


def test_a_book_has_thirty_levels_and_no_empty_ones() -> None:
    units = [{"ask_price": 3, "bid_price": 2.0, "ask_size": 0.5, "bid_size": 1e-08},
             {"ask_price": 4, "bid_price": 0, "ask_size": 7, "bid_size": 0.0}]  # fmt: skip
    request = REST.book(BTC, 1000)
    book = request.read(body([{"timestamp": 1751606867762, "orderbook_units": units}]), AT_NS)

    assert request.params == {"markets": "KRW-BTC", "count": 30}
    assert bytes(book.bids_raw) == b'[["2.0","0.00000001"]]'
    assert bytes(book.asks_raw) == b'[["3","0.5"],["4","7"]]'
    assert book.at_ms == 1751606867762
    with pytest.raises(UnexpectedAnswer, match="0 were answered"):
        request.read(b"[]", AT_NS)


def test_tickers_are_asked_for_by_name_or_by_what_is_paid_with() -> None:
    assert REST.tickers([BTC, XRP]).params == {"markets": "KRW-BTC,USDT-XRP"}
    everything = REST.tickers([])
    assert (everything.path, everything.params) == (
        "/v1/ticker/all", {"quote_currencies": "KRW,USDT"},
    )  # fmt: skip
    row = {"market": "KRW-BTC", "trade_price": 7050000, "acc_trade_price_24h": 20842813224.847,
           "acc_trade_volume_24h": 2933.58638998, "timestamp": 1530510140578}  # fmt: skip
    (ticker,) = everything.read(body([row, row | {"market": "KRW-NEW"}]), AT_NS)
    assert (ticker.symbol, ticker.last_text, ticker.at_ms) == (BTC, "7050000", 1530510140578)
    assert (ticker.volume_text, ticker.quote_volume_text) == ("2933.58638998", "20842813224.847")


@pytest.mark.parametrize(
    ("words", "wait_ms"),
    [
        ("Your IP is blocked for 60 seconds.", 60_000),
        ("요청이 많아 5분 동안 차단됩니다.", 300_000),
        ("30초 후에 다시 시도해주세요", 30_000),
        ("too many requests", None),
    ],
)
def test_a_refusal_tells_how_long_it_lasts(words: str, wait_ms: int | None) -> None:
    for name in ("too_many_requests", 429):
        api_error = read_api_error(body({"error": {"name": name, "message": words}}))
        assert api_error == ApiError(name, words, wait_ms=wait_ms)
    assert read_api_error(b"Too many API requests.") is None


def test_every_group_has_its_own_limit_which_no_second_passes() -> None:
    limits = EXCHANGE.limits(0)

    assert [limit.category for limit in limits] == list(GROUPS)
    assert all(limit.amount + limit.most <= 9 for limit in limits)
    assert {limit.kind for limit in limits} == {"paced"}


@pytest.mark.parametrize(
    ("header", "told"),
    [
        ("group=candle; min=600; sec=9", [Usage("candle", 1, 1000)]),
        ("group=order-cancel-all; min=1800; sec=29", [Usage("order-cancel-all", 0, 1000)]),
        ("group=candles;min=600;sec=0", [Usage("candles", 10, 1000)]),
        ("sec=9", []),
        ("group=candle; min=600; sec=-1", []),
        ("group=candle; min=600; sec=٣", []),
        ("", []),
    ],
)
def test_what_is_left_is_told_by_group(header: str, told: list[Usage]) -> None:
    assert usages({"remaining-req": header}) == told


def test_what_it_can_do_is_told_as_data() -> None:
    assert not EXCHANGE.consecutive
    assert EXCHANGE.time is None
    assert EXCHANGE.trade_pages == "before_id"
    assert not EXCHANGE.empty_candles
    assert {"1s", "1m", "10m", "4h", "1d"} <= {*EXCHANGE.intervals}
