"""A market's trades, aggregated trades and candles are one history, whoever asks for which."""

import sys
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import cache, partial
from hashlib import sha256
from itertools import pairwise
from types import FrameType
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from penstock.simulator.market.market import Listing, Market, Sums, Trade, library_of
from penstock.simulator.market.rng import draws
from penstock.simulator.market.shapes import Library

SECOND, MINUTE, HOUR, DAY = 1_000, 60_000, 3_600_000, 86_400_000
LISTED = 1_502_928_000_000
"""2017-08-17, a Thursday."""
NOW = 1_784_000_000_000
INTERVALS = [
    *(step * MINUTE for step in (1, 3, 5, 15, 30)),
    *(step * HOUR for step in (1, 2, 4, 6, 8, 12)),
    *(step * DAY for step in (1, 3, 7)),
    SECOND,
]
LISTINGS = {
    "busiest": Listing("BTC", "USDT", 2, 5, 6_000_000, 3600, LISTED),
    "busy": Listing("BTC", "USDT", 2, 5, 6_000_000, 600, LISTED),
    "middling": Listing("ETH", "BTC", 6, 2, 50_000, 60, LISTED),
    "quiet": Listing("LINK", "USDT", 4, 2, 140_000, 6, LISTED),
    "coarse": Listing("SHIB", "USDT", 8, 0, 1_234, 6, LISTED, quantity_factor=20_000),
}

instants = st.integers(LISTED, NOW)
any_market = pytest.mark.parametrize("name", LISTINGS)


@cache
def market_of(name: str) -> Market:
    return Market(LISTINGS[name], 7, library_of(LISTINGS[name]))


def candle(market: Market, start_ms: int, end_ms: int) -> Sums:
    """A candle by definition: the sums of its trades."""
    first, end = market.id_at(start_ms), market.id_at(end_ms)
    trades = market.trades(first, end - first)
    if not trades:
        price = market.last_before(start_ms).price
        return Sums(price, price, price, price, 0, 0, 0, 0, 0, -1, -1)
    prices = [trade.price for trade in trades]
    bought = [trade for trade in trades if trade.taker_buys]
    return Sums(
        open=prices[0],
        high=max(prices),
        low=min(prices),
        close=prices[-1],
        volume=sum(trade.quantity for trade in trades),
        quote=sum(trade.price * trade.quantity for trade in trades),
        taker_volume=sum(trade.quantity for trade in bought),
        taker_quote=sum(trade.price * trade.quantity for trade in bought),
        trades=len(trades),
        first_id=trades[0].id,
        last_id=trades[-1].id,
    )


def merged(rows: Sequence[Sums]) -> Sums:
    """A candle by definition of smaller ones."""
    full = [row for row in rows if row.trades]
    return Sums(
        open=full[0].open,
        high=max(row.high for row in full),
        low=min(row.low for row in full),
        close=full[-1].close,
        volume=sum(row.volume for row in full),
        quote=sum(row.quote for row in full),
        taker_volume=sum(row.taker_volume for row in full),
        taker_quote=sum(row.taker_quote for row in full),
        trades=sum(row.trades for row in full),
        first_id=full[0].first_id,
        last_id=full[-1].last_id,
    )


def work(call: Callable[[], object]) -> int:
    """How many lines of Python a call runs: the same on a busy machine."""
    lines = 0

    def trace(frame: FrameType, event: str, arg: object) -> Any:
        nonlocal lines
        lines += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        call()
    finally:
        sys.settrace(before)
    return lines


@any_market
def test_a_market_is_that_of_every_other_machine(name: str) -> None:
    market = market_of(name)
    instants_ms = [LISTED + draw % (NOW - LISTED) for draw in draws(20, "sample")]
    sample = [
        (
            market.trades(market.id_at(at_ms), 5),
            market.agg_trades(market.agg_id_at(at_ms), 3),
            market.sums(at_ms, at_ms + 10 * HOUR),
            market.candles(range(at_ms // DAY * DAY, at_ms // DAY * DAY + 3 * DAY + 1, DAY)),
        )
        for at_ms in instants_ms
    ]
    plain = repr([[list(map(tuple, rows)) for rows in (t, a, [s], c)] for t, a, s, c in sample])

    assert (
        sha256(plain.encode()).hexdigest()[:32]
        == {
            "busiest": "2452bbf2999baa6f8b5cd8b040fbfd1a",
            "busy": "a2866d85d2e6d191e0521f609726b025",
            "middling": "a1cdf7497b8924d17e0f0c53c9507c7f",
            "quiet": "13e263b970a1f04840a5b4a54d702d2c",
            "coarse": "09b068e08ebd16f83165663d8fb16dda",
        }[name]
    )


@any_market
def test_history_begins_with_trade_one_at_the_listing(name: str) -> None:
    market = market_of(name)
    first, second = market.trades(1, 2)

    assert (first.id, second.id) == (1, 2)
    assert first.at_ms >= LISTED
    assert market.id_at(LISTED) == market.id_at(0) == market.agg_id_at(LISTED) == 1
    before = market.last_before(LISTED)
    assert (before.id, before.price) == (0, market.listing.start_price)


@any_market
@settings(deadline=None, max_examples=20)
@given(at_ms=instants)
def test_an_instant_finds_the_first_trade_at_or_after_it(name: str, at_ms: int) -> None:
    market = market_of(name)
    number = market.id_at(at_ms)
    (trade,) = market.trades(number, 1)

    assert trade.id == number
    assert trade.at_ms >= at_ms
    before = market.last_before(at_ms)
    assert before.id == number - 1
    assert before.at_ms < at_ms or before.id == 0
    assert market.id_at(trade.at_ms) <= number < market.id_at(trade.at_ms + 1)


@any_market
@settings(deadline=None, max_examples=15)
@given(at_ms=instants, count=st.integers(1, 700), cut=st.integers(0, 700))
def test_pages_fit_together(name: str, at_ms: int, count: int, cut: int) -> None:
    market = market_of(name)
    first = market.id_at(at_ms)
    cut = min(cut, count)

    page = market.trades(first, count)

    assert [trade.id for trade in page] == list(range(first, first + count))
    assert page == market.trades(first, cut) + market.trades(first + cut, count - cut)
    assert all(a.at_ms <= b.at_ms for a, b in pairwise(page))
    assert all(trade.price > 0 and trade.quantity > 0 for trade in page)
    assert all(type(trade.taker_buys) is bool for trade in page)


@any_market
@settings(deadline=None, max_examples=15)
@given(at_ms=instants, count=st.integers(2, 300))
def test_aggregated_trades_are_the_trades_of_one_instant_price_and_side(
    name: str, at_ms: int, count: int
) -> None:
    market = market_of(name)
    first = market.agg_id_at(at_ms)

    groups = market.agg_trades(first, count)

    assert [group.id for group in groups] == list(range(first, first + count))
    assert all(a.last_id + 1 == b.first_id for a, b in pairwise(groups))
    assert groups[0].at_ms >= at_ms
    assert first == 1 or market.agg_trades(first - 1, 1)[0].at_ms < at_ms
    for group in groups[:40]:
        trades = market.trades(group.first_id, group.last_id - group.first_id + 1)
        assert {trade[1:3] + trade[4:] for trade in trades} == {
            (group.at_ms, group.price, group.taker_buys)
        }
        assert group.quantity == sum(trade.quantity for trade in trades)


@any_market
@settings(deadline=None, max_examples=12)
@given(at_ms=instants, length_ms=st.one_of(st.integers(0, 3 * MINUTE), st.integers(0, 90 * MINUTE)))
@example(at_ms=NOW + SECOND, length_ms=2 * HOUR)
def test_the_sums_of_any_range_are_those_of_its_trades(
    name: str, at_ms: int, length_ms: int
) -> None:
    market = market_of(name)
    assert market.sums(at_ms, at_ms + length_ms) == candle(market, at_ms, at_ms + length_ms)


@pytest.mark.parametrize("name", ["quiet", "coarse"])
@settings(deadline=None, max_examples=8)
@given(at_ms=instants, length_ms=st.integers(0, 4 * DAY))
def test_the_sums_of_days_are_those_of_their_trades(name: str, at_ms: int, length_ms: int) -> None:
    market = market_of(name)

    assert market.sums(at_ms, at_ms + length_ms) == candle(market, at_ms, at_ms + length_ms)


@any_market
@pytest.mark.parametrize("step_ms", INTERVALS)
@settings(deadline=None, max_examples=4)
@given(at_ms=instants, rows=st.integers(2, 70))
def test_a_page_of_candles_is_its_candles_one_by_one(
    name: str, step_ms: int, at_ms: int, rows: int
) -> None:
    market = market_of(name)
    first_ms = at_ms // step_ms * step_ms
    opens_ms = [first_ms + i * step_ms for i in range(rows + 1)]

    page = market.candles(opens_ms)

    # `sums` takes another path than a page does, and was held against trades above.
    assert page == [market.sums(start_ms, end_ms) for start_ms, end_ms in pairwise(opens_ms)]
    trades_in_a_candle = step_ms // MINUTE * market.listing.trades_per_minute
    if trades_in_a_candle < 20_000:
        assert page[-1] == candle(market, *opens_ms[-2:])


@any_market
def test_months_and_weeks_are_the_sums_of_their_days(name: str) -> None:
    market = market_of(name)
    months_ms = [
        int(datetime(year, month, 1, tzinfo=UTC).timestamp()) * 1000
        for year in (2019, 2020)
        for month in range(1, 13)
    ]
    mondays_ms = [LISTED - 3 * DAY + i * 7 * DAY for i in range(1, 30)]

    for opens_ms in (months_ms, mondays_ms):
        for row, (start_ms, end_ms) in zip(
            market.candles(opens_ms), pairwise(opens_ms), strict=True
        ):
            assert row == merged(market.candles(range(start_ms, end_ms + 1, DAY)))


@any_market
def test_days_of_another_time_zone_are_the_sums_of_their_hours(name: str) -> None:
    market = market_of(name)
    opens_ms = [LISTED + 900 * DAY + 5 * HOUR + 30 * MINUTE + i * DAY for i in range(4)]

    for row, (start_ms, end_ms) in zip(market.candles(opens_ms), pairwise(opens_ms), strict=True):
        assert row == merged(market.candles(range(start_ms, end_ms + 1, 30 * MINUTE)))


def test_a_candle_that_opened_before_the_listing_holds_what_came_after() -> None:
    market = market_of("quiet")
    monday_ms = LISTED - 3 * DAY

    before, first, _ = market.candles([monday_ms - 7 * DAY, monday_ms, monday_ms + 7 * DAY, NOW])

    assert before[:4] == (market.listing.start_price,) * 4
    assert (before.trades, before.first_id, before.last_id) == (0, -1, -1)
    assert first == market.sums(LISTED, monday_ms + 7 * DAY)
    assert first.first_id == 1


def test_a_candle_without_trades_is_flat_at_the_price_before() -> None:
    market = market_of("quiet")
    a, b = next(
        (a, b) for a, b in pairwise(market.trades(1, 2_000)) if b.at_ms - a.at_ms > 2 * MINUTE
    )

    for row in market.candles(range(a.at_ms // SECOND * SECOND + SECOND, b.at_ms, SECOND)):
        assert row == (a.price, a.price, a.price, a.price, 0, 0, 0, 0, 0, -1, -1)


@any_market
def test_prices_stay_plausible_for_decades(name: str) -> None:
    market = market_of(name)
    opens_ms = range(LISTED, LISTED + 30 * 365 * DAY + 1, DAY)

    days = market.candles(opens_ms)

    start = market.listing.start_price
    assert min(day.low for day in days) > start // 12
    assert max(day.high for day in days) < start * 12
    moves = [abs(day.close - day.open) / day.open for day in days]
    assert 0.01 < sum(moves) / len(moves) < 0.06
    assert len({day.close for day in days[:500]}) > 250


@pytest.mark.parametrize("seed", [22, 26, 35, 39])
def test_the_wildest_market_allowed_never_falls_to_nothing(seed: int) -> None:
    library = library_of(LISTINGS["quiet"])
    start = 20 * library.day_move
    market = Market(Listing("WILD", "USDT", 4, 2, start, 6, LISTED), seed, library)

    days = market.candles(range(LISTED, LISTED + 100 * 365 * DAY + 1, DAY))

    assert min(day.low for day in days) >= start // 8


@pytest.mark.parametrize("name", ["busy", "quiet"])
def test_the_oldest_page_costs_what_the_newest_does(name: str) -> None:
    market = market_of(name)
    latest = market.id_at(NOW)

    def pages(at_ms: int, step_ms: int) -> Callable[[], object]:
        first_ms = at_ms // step_ms * step_ms
        return lambda: market.candles(range(first_ms, first_ms + 1000 * step_ms + 1, step_ms))

    for step_ms in (MINUTE, 5 * MINUTE, HOUR, DAY):
        old = work(pages(LISTED + DAY, step_ms))
        assert work(pages(NOW - 1000 * step_ms, step_ms)) <= old * 1.05
    # One at a time: how many minutes a page spans is chance, not age.
    old = sum(work(partial(market.trades, 1 + 997 * i, 1)) for i in range(50))
    assert sum(work(partial(market.trades, latest - 997 * i, 1)) for i in range(50)) <= old * 1.05
    old = sum(work(partial(market.id_at, LISTED + 997 * MINUTE * i)) for i in range(1, 51))
    assert sum(work(partial(market.id_at, NOW - 997 * MINUTE * i)) for i in range(50)) <= old * 1.05


def test_seeds_and_symbols_have_histories_of_their_own() -> None:
    library = library_of(LISTINGS["quiet"])

    def day(listing: Listing, seed: int) -> Sums:
        return Market(listing, seed, library).sums(LISTED + DAY, LISTED + 2 * DAY)

    quiet = LISTINGS["quiet"]
    other = Listing("UNI", "USDT", 4, 2, 140_000, 6, LISTED)
    assert day(quiet, 7) == market_of("quiet").sums(LISTED + DAY, LISTED + 2 * DAY)
    assert len({day(quiet, 7), day(quiet, 8), day(other, 7)}) == 3


def test_a_quantity_factor_multiplies_quantities_and_nothing_else() -> None:
    plain = Listing("SHIB", "USDT", 8, 0, 1_234, 6, LISTED)
    one = Market(plain, 7, library_of(plain)).trades(1, 50)

    assert market_of("coarse").trades(1, 50) == [
        Trade(t.id, t.at_ms, t.price, t.quantity * 20_000, t.taker_buys) for t in one
    ]


def test_ids_begin_at_one() -> None:
    with pytest.raises(ValueError, match="begin at 1"):
        market_of("quiet").trades(0, 10)
    assert market_of("quiet").trades(5, 0) == []


def test_a_listing_that_cannot_be_spelled_or_traded_is_refused() -> None:
    with pytest.raises(ValueError, match="decimals exceed 8"):
        Listing("BTC", "USDT", 6, 3, 6_000_000, 600, LISTED)
    with pytest.raises(ValueError, match="UTC midnight"):
        Listing("BTC", "USDT", 2, 5, 6_000_000, 600, LISTED + 1)
    with pytest.raises(ValueError, match="coarse library"):
        Market(Listing("BTC", "USDT", 2, 5, 300, 6, LISTED), 7, library_of(LISTINGS["quiet"]))
    with pytest.raises(ValueError, match="trade rate"):
        Market(LISTINGS["busy"], 7, library_of(LISTINGS["quiet"]))


def test_a_library_is_made_once_for_all_its_markets() -> None:
    library = library_of(LISTINGS["coarse"])

    assert isinstance(library, Library)
    assert library.coarse
    assert library_of(LISTINGS["coarse"]) is library
    assert not library_of(LISTINGS["quiet"]).coarse
