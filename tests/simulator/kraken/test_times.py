"""Instants: one for each trade, in order, and always within the market's own millisecond."""

from collections import Counter
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.libraries import library

from penstock.simulator.kraken import times
from penstock.simulator.kraken.instrument import Instrument
from penstock.simulator.market.shapes import RATES


def test_every_trade_has_an_instant_of_its_own_in_order(
    instruments: dict[str, Instrument],
) -> None:
    market = instruments["ETH/USD"].market
    trades = market.trades(5_000_000, 5000)

    instants = list(times.trade_times(market, trades))

    assert all(before < after for before, after in pairwise(instants))
    assert [at_ns // 1_000_000 for at_ns in instants] == [trade.at_ms for trade in trades]
    # Read as a binary float of seconds, an instant keeps its millisecond.
    seconds = [float(f"{at_ns // 10**9}.{at_ns % 10**9 // 100:07}") for at_ns in instants]
    assert [int(at_s * 1000) for at_s in seconds] == [trade.at_ms for trade in trades]


def test_an_instant_does_not_depend_on_where_a_page_begins(
    instruments: dict[str, Instrument],
) -> None:
    market = instruments["ETH/USD"].market
    whole = list(times.trade_times(market, market.trades(77_000, 300)))

    for start in range(300):
        assert next(times.trade_times(market, market.trades(77_000 + start, 1))) == whole[start]


@given(st.integers(1, 10**6), st.integers(-2, 2))
def test_the_first_trade_after_an_instant_is_found(
    instruments: dict[str, Instrument], number: int, off_ns: int
) -> None:
    market = instruments["ETH/USD"].market
    (at_ns,) = times.trade_times(market, market.trades(number, 1))

    assert times.first_after(market, at_ns + off_ns) == number + (off_ns >= 0)


@pytest.mark.parametrize("rate", RATES)
def test_no_millisecond_of_any_market_is_too_full(rate: int) -> None:
    minutes = library(rate, coarse=False).minutes
    most = max(max(Counter(minute.at_ms).values(), default=0) for minute in minutes)

    assert most <= times.MOST_AT_ONCE


def test_instants_are_written_as_recorded() -> None:
    assert times.iso(1_786_923_424_849_274) == "2026-08-16T23:37:04.849274Z"
    assert times.iso_second(1_762_820_230_999) == "2025-11-11T00:17:10Z"
    assert times.iso_nanosecond(1_696_436_700_000) == "2023-10-04T16:25:00.000000000Z"
    assert times.rfc1123(1_762_820_224_000) == "Tue, 11 Nov 25 00:17:04 +0000"
