"""Times in every accepted form are the same instant; anything else is refused."""

from datetime import UTC, date, datetime, timedelta, timezone

import pytest

from penstock.dataset.times import Range, Time, iso, time_ns, time_range
from penstock.errors import BadTime

NOON_NS = 1_793_534_400_000_000_000
HOUR_NS = 3_600_000_000_000


@pytest.mark.parametrize(
    "value",
    [
        "2026-11-01T12:00",
        "2026-11-01 12:00:00",
        "2026-11-01T12:00Z",
        "2026-11-01T14:00+02:00",
        datetime(2026, 11, 1, 12, tzinfo=UTC),
        datetime(2026, 11, 1, 12),  # noqa: DTZ001 (without a zone it is UTC)
        datetime(2026, 11, 1, 13, tzinfo=timezone(timedelta(hours=1))),
        1_793_534_400_000,
        NOON_NS,
        "1793534400000",
        str(NOON_NS),
        "now",
        "-0h",
    ],
)
def test_one_instant_has_many_forms(value: Time) -> None:
    assert time_ns(value, NOON_NS) == NOON_NS


@pytest.mark.parametrize(
    ("value", "hours"), [("-1h", 1), ("-90m", 1.5), ("-2d", 48), ("-1w", 168), ("-3600s", 1)]
)
def test_relative_times_count_from_now(value: str, hours: float) -> None:
    assert time_ns(value, NOON_NS) == NOON_NS - int(hours * HOUR_NS)


def test_a_date_begins_at_midnight() -> None:
    assert time_ns(date(2026, 11, 1), 0) == time_ns("2026-11-01", 0) == NOON_NS - 12 * HOUR_NS


def test_times_of_pandas_are_the_same_and_keep_their_nanoseconds() -> None:
    import pandas as pd  # noqa: PLC0415 (every process that collects the tests would import it)

    assert time_ns(pd.Timestamp("2026-11-01T12:00", tz="UTC"), 0) == NOON_NS
    assert time_ns(pd.Timestamp(NOON_NS + 7, tz="UTC"), 0) == NOON_NS + 7


@pytest.mark.parametrize(
    "value", ["yesterday", "", "1h", "2026-13-01", 1_793_534_400, 1_793_534_400_000_000, True, 1.5]
)
def test_what_is_not_a_time_is_refused(value: Time) -> None:
    with pytest.raises(BadTime):
        time_ns(value, NOON_NS)


def test_an_empty_range_is_refused() -> None:
    assert time_range("-1h", None, NOON_NS) == Range(NOON_NS - HOUR_NS, None)
    with pytest.raises(BadTime, match="is not before"):
        time_range("-1h", "-1h", NOON_NS)


def test_times_in_messages_are_iso() -> None:
    assert iso(1_793_534_400_000) == "2026-11-01T12:00:00Z"
    assert iso(1_793_534_400_007) == "2026-11-01T12:00:00.007Z"
