"""Numbers are exact JSON numbers in each of the exchange's ways."""

import json
import re
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.simulator.upbit.periods import Period
from penstock.simulator.upbit.spelling import (
    compact,
    difference,
    kst,
    rate,
    rest_number,
    stream_number,
    utc,
)

UNITS, DECIMALS = st.integers(-(10**15), 10**15), st.integers(0, 8)
NUMBER = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE]-[0-9]+)?")


@given(UNITS, DECIMALS)
def test_every_spelling_is_exact_and_json(units: int, decimals: int) -> None:
    for spell in (rest_number, stream_number, difference):
        text = spell(units, decimals)
        assert NUMBER.fullmatch(text)
        assert Decimal(text) == Decimal(units).scaleb(-decimals)
        assert json.loads(text, parse_float=Decimal, parse_int=Decimal) == Decimal(text)


@pytest.mark.parametrize(
    ("units", "decimals", "rest", "stream", "finer"),
    [
        (145_794_000, 0, "145794000", "145794000.0", "145794000.00000000"),
        (1270, 1, "127", "127.0", "127.00000000"),
        (6043, 8, "6.043e-05", "0.00006043", "0.00006043"),
        (-6, 8, "-6e-08", "-6E-8", "-6E-8"),
        (13120, 8, "0.0001312", "0.0001312", "0.00013120"),
        (99, 8, "9.9e-07", "9.9E-7", "9.9E-7"),
        (100, 8, "1e-06", "0.000001", "0.00000100"),
        (0, 2, "0", "0.0", "0E-8"),
    ],
)
def test_numbers_look_as_recorded(
    units: int, decimals: int, rest: str, stream: str, finer: str
) -> None:
    assert rest_number(units, decimals) == rest
    assert stream_number(units, decimals) == stream
    assert difference(units, decimals) == finer


def test_rates_are_rounded_away_from_zero() -> None:
    assert rate(59_000, 7_109_000) == 82_993_389
    assert rate(-59_000, 7_109_000) == -82_993_389
    assert rate(1, 2 * 10**10) == 1
    assert rate(5, 0) == 0


def test_korea_is_nine_hours_ahead() -> None:
    at_ms = 1_751_327_940_000

    assert utc(at_ms) == "2025-06-30T23:59:00"
    assert kst(at_ms) == "2025-07-01T08:59:00"
    assert compact(kst(at_ms)) == ("20250701", "085900")


@given(
    st.sampled_from(
        [
            Period("seconds"),
            *(Period("minutes", unit) for unit in (1, 10, 240)),
            Period("days"),
            Period("weeks"),
            Period("months"),
            Period("years"),
        ]
    ),
    st.integers(0, 4_000_000_000_000),
)
def test_a_candle_holds_its_instants(period: Period, at_ms: int) -> None:
    number = period.number(at_ms)

    assert period.open_ms(number) <= at_ms < period.open_ms(number + 1)
    assert period.number(period.open_ms(number)) == number


@pytest.mark.parametrize(
    ("period", "opens"),
    [
        (Period("minutes", 240), "2025-03-05T12:00:00"),
        (Period("days"), "2025-03-05T00:00:00"),
        (Period("weeks"), "2025-03-03T00:00:00"),
        (Period("months"), "2025-03-01T00:00:00"),
        (Period("years"), "2025-01-01T00:00:00"),
    ],
)
def test_candles_follow_the_calendar(period: Period, opens: str) -> None:
    assert utc(period.open_ms(period.number(1_741_178_096_789))) == opens
