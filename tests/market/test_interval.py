"""Intervals: where candles begin."""

from datetime import UTC, datetime
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import UnknownInterval
from penstock.market.interval import COMMON, Interval

instants = st.integers(0, 4_102_444_800_000)  # 1970 to 2100
intervals = st.sampled_from([Interval.parse(text) for text in (*COMMON, "2w", "7m", "3M", "12M")])


def at(text: str) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp() * 1000)


@given(intervals, instants)
def test_every_instant_lies_in_exactly_one_candle(interval: Interval, at_ms: int) -> None:
    open_ms = interval.open_of(at_ms)

    assert open_ms <= at_ms < interval.next_open(open_ms)
    assert interval.open_of(open_ms) == open_ms
    assert interval.open_of(interval.next_open(open_ms)) == interval.next_open(open_ms)
    assert interval.open_of(interval.next_open(open_ms) - 1) == open_ms


@given(intervals, instants, st.integers(0, 40))
def test_opens_lists_every_candle_that_begins_in_the_range(
    interval: Interval, start_ms: int, count: int
) -> None:
    end_ms = start_ms
    for _ in range(count):
        end_ms = interval.next_open(interval.open_of(end_ms))

    opens = list(interval.opens(start_ms, end_ms + 1))

    assert all(start_ms <= open_ms <= end_ms for open_ms in opens)
    assert all(b == interval.next_open(a) for a, b in pairwise(opens))
    assert len(opens) == count + (interval.open_of(start_ms) == start_ms)


def test_a_candle_that_begins_at_the_end_of_a_range_is_not_in_it() -> None:
    minute = Interval.parse("1m")

    assert list(minute.opens(60_000, 180_000)) == [60_000, 120_000]
    assert list(minute.opens(60_001, 120_000)) == []


def test_weeks_begin_on_monday() -> None:
    # 2021-10-12 was a Tuesday.
    assert Interval.parse("1w").open_of(at("2021-10-12T12:00")) == at("2021-10-11T00:00")


def test_months_follow_the_calendar() -> None:
    month = Interval.parse("1M")

    assert month.open_of(at("2024-02-29T23:59:59.999")) == at("2024-02-01T00:00")
    assert month.next_open(at("2024-02-01T00:00")) == at("2024-03-01T00:00")
    assert month.next_open(at("2023-12-01T00:00")) == at("2024-01-01T00:00")
    assert month.fixed_ms is None


def test_minutes_and_months_differ_by_case_alone() -> None:
    assert Interval.parse("1m").fixed_ms == 60_000
    assert Interval.parse("1M").fixed_ms is None


@pytest.mark.parametrize("text", ["", "m", "0m", "1y", "1 m", "-1h", "1mm", "01m", "999999m"])
def test_what_is_no_interval_is_refused_with_the_usual_ones(text: str) -> None:
    with pytest.raises(UnknownInterval, match="1m 3m 5m"):
        Interval.parse(text)
