"""Pages of history: what the endpoints show is what the market holds, no more and no less."""

from collections.abc import Callable, Sequence
from decimal import Decimal
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.simulator.binance.instrument import Instrument
from penstock.simulator.binance.periods import DAY_MS, HOUR_MS, LENGTHS_MS, MINUTE_MS, Period
from penstock.simulator.market.market import AggTrade, Market, Trade

Get = Callable[..., Any]
Instruments = dict[str, Instrument]

QUIET = "1INCHUSDT"
ranges = st.tuples(
    st.none() | st.integers(-2 * DAY_MS, 2 * HOUR_MS),
    st.none() | st.integers(-2 * DAY_MS, 2 * HOUR_MS),
    st.integers(1, 1200),
)


def trades_between(market: Market, start_ms: int, end_ms: int) -> list[Trade]:
    first = market.id_at(start_ms)
    return market.trades(first, market.id_at(end_ms) - first)


def by_time(rows: Sequence[Any], times: Sequence[int], query: dict[str, int]) -> list[Any]:
    """The exchange's rule for a range of time, written as one would say it."""
    start, end = query.get("startTime"), query.get("endTime")
    inside = [
        row
        for row, at_ms in zip(rows, times, strict=True)
        if (start is None or at_ms >= start) and (end is None or at_ms <= end)
    ]
    limit = min(query["limit"], 1000)
    return inside[-limit:] if start is None else inside[:limit]


def range_query(as_of_ms: int, times: tuple[int | None, int | None, int]) -> dict[str, int]:
    start, end, limit = times
    query = {"limit": limit}
    if start is not None:
        query["startTime"] = as_of_ms + start
    if end is not None:
        query["endTime"] = as_of_ms + end
    return query


def test_ping_is_empty_and_time_is_the_instant_asked(get: Get, as_of_ms: int) -> None:
    assert get("ping") == {}
    assert get("time") == {"serverTime": as_of_ms}


@pytest.mark.parametrize("endpoint", ["trades", "historicalTrades"])
def test_without_an_id_the_newest_trades_are_shown(
    get: Get, instruments: Instruments, as_of_ms: int, endpoint: str
) -> None:
    market = instruments["BTCUSDT"].market
    end = market.id_at(as_of_ms + 1)

    rows = get(endpoint, symbol="BTCUSDT", limit=7)

    assert [row["id"] for row in rows] == list(range(end - 7, end))
    assert rows[-1]["time"] <= as_of_ms < market.trades(end, 1)[0].at_ms
    assert len(get(endpoint, symbol="BTCUSDT")) == 500
    assert len(get(endpoint, symbol="BTCUSDT", limit=5000)) == 1000


def test_a_trade_row_is_the_markets_trade(get: Get, instruments: Instruments) -> None:
    trade = instruments["BTCUSDT"].market.trades(123_456, 1)[0]

    (row,) = get("historicalTrades", symbol="BTCUSDT", fromId=123_456, limit=1)

    assert row == {
        "id": trade.id,
        "price": f"{Decimal(trade.price).scaleb(-2):.8f}",
        "qty": f"{Decimal(trade.quantity).scaleb(-5):.8f}",
        "quoteQty": f"{Decimal(trade.price * trade.quantity).scaleb(-7):.8f}",
        "time": trade.at_ms,
        "isBuyerMaker": not trade.taker_buys,
        "isBestMatch": True,
    }


def test_paging_by_id_from_the_first_trade_misses_nothing(
    get: Get, instruments: Instruments
) -> None:
    market = instruments[QUIET].market
    as_of_ms = market.listing.listed_at_ms + DAY_MS
    seen: list[int] = []

    while page := get(
        "historicalTrades", as_of_ms, symbol=QUIET, fromId=len(seen) and seen[-1] + 1, limit=1000
    ):
        seen += [row["id"] for row in page]

    assert seen == list(range(1, market.id_at(as_of_ms + 1)))


def test_a_trade_shows_from_its_own_instant_on(get: Get, instruments: Instruments) -> None:
    market = instruments[QUIET].market
    trade = market.last_before(market.listing.listed_at_ms + DAY_MS)

    def latest(as_of_ms: int) -> int:
        page = get("trades", as_of_ms, symbol=QUIET, limit=1)
        return int(page[0]["id"])

    assert latest(trade.at_ms - 1) < trade.id <= latest(trade.at_ms)


def test_right_after_listing_there_is_history_of_nothing(
    get: Get, instruments: Instruments
) -> None:
    market = instruments[QUIET].market
    listed_ms = market.listing.listed_at_ms
    before_first_ms = market.trades(1, 1)[0].at_ms - 1

    assert get("trades", before_first_ms, symbol=QUIET) == []
    assert get("aggTrades", before_first_ms, symbol=QUIET) == []
    candles = get("klines", listed_ms, symbol=QUIET, interval="1m")
    assert [(row[0], row[8]) for row in candles] == [(listed_ms, 0)]
    assert Decimal(candles[0][4]) == Decimal(market.listing.start_price).scaleb(-5)
    assert get("ticker/price", listed_ms, symbol=QUIET)["price"] == candles[0][4]
    assert get("avgPrice", listed_ms, symbol=QUIET)["price"] == candles[0][4]


@pytest.fixture(scope="module")
def groups(instruments: Instruments, as_of_ms: int) -> list[AggTrade]:
    """Three days of aggregated trades."""
    market = instruments[QUIET].market
    first = market.agg_id_at(as_of_ms - 3 * DAY_MS)
    return market.agg_trades(first, market.agg_id_at(as_of_ms + 1) - first)


@settings(max_examples=30, deadline=None)
@given(times=ranges)
def test_aggregated_trades_follow_the_rule_of_time(
    get: Get, groups: list[AggTrade], as_of_ms: int, times: tuple[int | None, int | None, int]
) -> None:
    query = range_query(as_of_ms, times)

    rows = get("aggTrades", symbol=QUIET, **query)

    expected = by_time(groups, [group.at_ms for group in groups], query)
    if "startTime" not in query and "endTime" in query:
        assert len(expected) == min(query["limit"], 1000), "the window must be wide enough"
    assert [(row["a"], row["T"], row["f"], row["l"]) for row in rows] == [
        (group.id, group.at_ms, group.first_id, group.last_id) for group in expected
    ]


@settings(max_examples=40, deadline=None)
@given(times=ranges, interval=st.sampled_from(["1m", "5m", "1h", "4h", "1d"]))
def test_klines_follow_the_rule_of_time(
    get: Get,
    instruments: Instruments,
    as_of_ms: int,
    times: tuple[int | None, int | None, int],
    interval: str,
) -> None:
    length_ms = LENGTHS_MS[interval]
    # As far back as a page from the earliest end can reach, but not before the listing.
    reach_ms = 3 * DAY_MS + 1000 * length_ms
    first_ms = max(instruments[QUIET].listed_at_ms, as_of_ms - as_of_ms % DAY_MS - reach_ms)
    opens = list(range(first_ms, as_of_ms + 1, length_ms))
    query = range_query(as_of_ms, times)

    rows = get("klines", symbol=QUIET, interval=interval, **query)

    assert [row[0] for row in rows] == by_time(opens, opens, query)
    assert all(row[6] == row[0] + length_ms - 1 for row in rows)


@pytest.mark.parametrize(
    ("interval", "zone"),
    [
        *((interval, zone) for interval in list(LENGTHS_MS)[:-2] for zone in ("0", "-3:30", "8")),
        *(("1w", "0"), ("1w", "8"), ("1M", "8")),
    ],
)
def test_a_candle_is_the_sum_of_its_trades(
    get: Get, instruments: Instruments, as_of_ms: int, interval: str, zone: str
) -> None:
    market = instruments["SHIBUSDT"].market
    count = 2 if interval == "1M" else 3  # a month has 260,000 trades

    rows = get("klines", symbol="SHIBUSDT", interval=interval, timeZone=zone, limit=count)

    assert len(rows) == count
    for row in rows:
        trades = trades_between(market, row[0], min(row[6], as_of_ms) + 1)
        before = market.last_before(row[0]).price
        prices = [trade.price for trade in trades] or [before]
        taken = [trade for trade in trades if trade.taker_buys]
        spelled = [
            prices[0],
            max(prices),
            min(prices),
            prices[-1],
            sum(trade.quantity for trade in trades) * 10**8,
            sum(trade.price * trade.quantity for trade in trades),
            sum(trade.quantity for trade in taken) * 10**8,
            sum(trade.price * trade.quantity for trade in taken),
        ]
        numbers = [int(Decimal(row[i]).scaleb(8)) for i in (1, 2, 3, 4, 5, 7, 9, 10)]
        assert numbers == spelled
        assert (row[8], row[11], len(row)) == (len(trades), "0", 12)
    assert rows[-1][0] <= as_of_ms <= rows[-1][6], "the last candle is the running one"
    assert [row[0] for row in rows[1:]] == [row[6] + 1 for row in rows[:-1]]


@pytest.mark.parametrize("interval", ["1w", "1M", "3d", "1d"])
def test_the_first_candle_may_open_before_the_listing_but_counts_from_it(
    get: Get, instruments: Instruments, interval: str
) -> None:
    market = instruments[QUIET].market
    listed_ms = market.listing.listed_at_ms
    period = Period(interval, 9 * HOUR_MS)

    first, second = get(
        "klines", symbol=QUIET, interval=interval, timeZone="9", startTime=0, limit=2
    )

    assert first[0] == period.open_ms(period.number(listed_ms)) < listed_ms
    assert first[8] == market.id_at(first[6] + 1) - 1
    assert second[0] == first[6] + 1
    after = get("klines", symbol=QUIET, interval=interval, timeZone="9", startTime=first[0] + 1)
    assert after[0] == second


def test_paging_klines_by_start_time_tiles_history(
    get: Get, instruments: Instruments, as_of_ms: int
) -> None:
    listed_ms = instruments[QUIET].listed_at_ms
    opens: list[int] = []
    start_ms = 0

    while page := get("klines", symbol=QUIET, interval="4h", startTime=start_ms, limit=1000):
        opens += [row[0] for row in page]
        start_ms = opens[-1] + 4 * HOUR_MS

    assert opens == list(range(listed_ms, as_of_ms + 1, 4 * HOUR_MS))


def test_paging_aggregated_trades_by_id_and_by_time_agree(
    get: Get, instruments: Instruments
) -> None:
    market = instruments[QUIET].market
    as_of_ms = market.listing.listed_at_ms + 5 * HOUR_MS
    by_id: list[dict[str, Any]] = []

    while page := get(
        "aggTrades", as_of_ms, symbol=QUIET, fromId=by_id[-1]["a"] + 1 if by_id else 0, limit=300
    ):
        by_id += page

    assert [row["a"] for row in by_id] == list(range(1, market.agg_id_at(as_of_ms + 1)))
    assert all(row["f"] == before["l"] + 1 for before, row in pairwise(by_id))
    assert get("aggTrades", as_of_ms, symbol=QUIET, startTime=0, limit=1000) == by_id[:1000]
    assert get("aggTrades", as_of_ms, symbol=QUIET, limit=1000) == by_id[-1000:]


def test_every_range_includes_the_instants_it_names(get: Get, groups: list[AggTrade]) -> None:
    group = groups[-50]
    at_ms = group.at_ms

    def ids(**query: int) -> list[int]:
        return [row["a"] for row in get("aggTrades", symbol=QUIET, **query)]

    assert group.id in ids(startTime=at_ms, endTime=at_ms)
    assert group.id not in ids(startTime=at_ms + 1)
    assert group.id not in ids(endTime=at_ms - 1)
    for endpoint, query in (
        ("klines", {"interval": "1d", "limit": 1}),
        ("ticker/24hr", {}),
        ("ticker", {"windowSize": "1d"}),
    ):

        def count(then_ms: int, endpoint: str = endpoint, query: Any = query) -> int:
            body = get(endpoint, then_ms, symbol=QUIET, **query)
            return int(body[0][8] if endpoint == "klines" else body["lastId"])

        assert count(at_ms) > count(at_ms - 1)


def test_times_may_be_sent_in_microseconds(get: Get, groups: list[AggTrade]) -> None:
    group = groups[-50]
    start_us = group.at_ms * 1000

    def ids(**query: int) -> list[int]:
        return [row["a"] for row in get("aggTrades", symbol=QUIET, **query)]

    assert ids(startTime=start_us) == ids(startTime=group.at_ms)
    assert ids(endTime=start_us + 999) == ids(endTime=group.at_ms)
    assert ids(startTime=start_us + 1) == ids(startTime=group.at_ms + 1)
    assert ids(endTime=start_us - 1) == ids(endTime=group.at_ms - 1)


def test_ui_klines_are_klines(get: Get) -> None:
    assert get("uiKlines", symbol=QUIET, interval="1h") == get(
        "klines", symbol=QUIET, interval="1h"
    )


def test_nothing_is_shown_of_the_future(get: Get, as_of_ms: int) -> None:
    late_ms = 10**18
    for query in ({"startTime": as_of_ms + 1}, {"startTime": late_ms}, {"fromId": 10**15}):
        assert get("aggTrades", symbol=QUIET, **query) == []
    assert get("historicalTrades", symbol=QUIET, fromId=10**15) == []
    for interval in ("1m", "1M"):
        assert get("klines", symbol=QUIET, interval=interval, startTime=late_ms) == []
        latest = get("klines", symbol=QUIET, interval=interval, endTime=late_ms, limit=3)
        assert latest == get("klines", symbol=QUIET, interval=interval, limit=3)


def test_nothing_is_shown_from_before_the_listing(get: Get, instruments: Instruments) -> None:
    before_ms = instruments[QUIET].listed_at_ms - 1

    assert get("klines", symbol=QUIET, interval="1M", endTime=before_ms - 40 * DAY_MS) == []
    assert get("aggTrades", symbol=QUIET, endTime=before_ms) == []
    assert get("klines", symbol=QUIET, interval="1h", startTime=5, endTime=4) == []


@pytest.mark.parametrize("limit", [None, 5, 100, 1000])
def test_depth_is_the_books_snapshot(
    get: Get, instruments: Instruments, as_of_ms: int, limit: int | None
) -> None:
    instrument = instruments["BTCUSDT"]
    update_id, bids, asks = instrument.book.snapshot(as_of_ms, limit or 100)

    body = get("depth", symbol="BTCUSDT", **({"limit": limit} if limit else {}))

    def spelled(levels: list[tuple[int, int]]) -> list[list[str]]:
        spelling = instrument.spelling
        return [[spelling.price(p), spelling.quantity(q)] for p, q in levels]

    assert body == {"lastUpdateId": update_id, "bids": spelled(bids), "asks": spelled(asks)}
    assert len(bids) == len(asks) == (limit or 100)


def test_depth_beyond_the_most_is_cut_down(get: Get) -> None:
    assert get("depth", symbol=QUIET, limit=9999) == get("depth", symbol=QUIET, limit=5000)


def test_the_average_price_is_that_of_five_minutes(
    get: Get, instruments: Instruments, as_of_ms: int
) -> None:
    market = instruments["BTCUSDT"].market
    trades = trades_between(market, as_of_ms - 5 * MINUTE_MS + 1, as_of_ms + 1)
    volume = sum(trade.quantity for trade in trades)
    average = Decimal(sum(trade.price * trade.quantity for trade in trades)) / volume / 100

    body = get("avgPrice", symbol="BTCUSDT")

    assert (body["mins"], body["closeTime"]) == (5, trades[-1].at_ms)
    assert 0 <= average - Decimal(body["price"]) <= Decimal("0.00000001")


def test_the_average_price_of_quiet_minutes_is_the_last(
    get: Get, instruments: Instruments, as_of_ms: int
) -> None:
    market = instruments[QUIET].market
    after = trades_between(market, as_of_ms - DAY_MS, as_of_ms)
    gap = next(
        before
        for before, trade in pairwise(after)
        if trade.at_ms - before.at_ms > 5 * MINUTE_MS + 1
    )

    body = get("avgPrice", gap.at_ms + 5 * MINUTE_MS, symbol=QUIET)

    assert Decimal(body["price"]) == Decimal(gap.price).scaleb(-5)
    assert body["closeTime"] == gap.at_ms
