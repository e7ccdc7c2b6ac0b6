"""Candles tile time without gaps, at the borders the exchange uses."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.simulator.binance.periods import (
    DAY_MS,
    HOUR_MS,
    LENGTHS_MS,
    MINUTE_MS,
    Period,
    window_ms,
    zone_ms,
)

periods = st.builds(
    Period,
    st.sampled_from(list(LENGTHS_MS)),
    st.integers(-12 * 60, 14 * 60).map(lambda minutes: minutes * MINUTE_MS),
)
instants = st.integers(1_400_000_000_000, 1_900_000_000_000)


def moment(at_ms: int) -> datetime:
    return datetime.fromtimestamp(0, UTC) + timedelta(milliseconds=at_ms)


@given(periods, instants)
def test_every_instant_lies_in_the_candle_of_its_number(period: Period, at_ms: int) -> None:
    number = period.number(at_ms)

    assert period.open_ms(number) <= at_ms < period.open_ms(number + 1)
    assert period.number(period.open_ms(number)) == number


@given(periods, instants)
def test_a_candle_is_as_long_as_its_name_says(period: Period, at_ms: int) -> None:
    number = period.number(at_ms)
    length_ms = period.open_ms(number + 1) - period.open_ms(number)

    expected = LENGTHS_MS[period.interval]
    assert length_ms == expected if expected else 28 * DAY_MS <= length_ms <= 31 * DAY_MS


@given(instants, st.integers(-12, 14))
def test_weeks_open_on_monday_and_months_on_the_first_in_their_zone(at_ms: int, hours: int) -> None:
    week, month = Period("1w", hours * HOUR_MS), Period("1M", hours * HOUR_MS)

    monday = moment(week.open_ms(week.number(at_ms)) + hours * HOUR_MS)
    first = moment(month.open_ms(month.number(at_ms)) + hours * HOUR_MS)

    assert (monday.weekday(), monday.hour) == (0, 0)
    assert (first.day, first.hour) == (1, 0)


@pytest.mark.parametrize(
    ("text", "minutes"),
    [("0", 0), ("8", 480), ("-1:00", -60), ("05:45", 345), ("+14:00", 840), ("-12:00", -720)],
)
def test_a_time_zone_is_hours_or_hours_and_minutes(text: str, minutes: int) -> None:
    assert zone_ms(text) == minutes * MINUTE_MS


@pytest.mark.parametrize("text", ["14:01", "-12:01", "15", "1:60", "1:5", "UTC", "", " 8", "--1"])
def test_what_is_not_a_time_zone_is_none(text: str) -> None:
    assert zone_ms(text) is None


@pytest.mark.parametrize(
    ("text", "length_ms"),
    [("1m", MINUTE_MS), ("59m", 59 * MINUTE_MS), ("23h", 23 * HOUR_MS), ("7d", 7 * DAY_MS)],
)
def test_a_window_is_a_number_and_a_unit(text: str, length_ms: int) -> None:
    assert window_ms(text) == length_ms


@pytest.mark.parametrize("text", ["60m", "24h", "8d", "0m", "1d2h", "01h", "h", "", "1w"])
def test_what_is_not_a_window_is_none(text: str) -> None:
    assert window_ms(text) is None
