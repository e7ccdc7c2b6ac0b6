"""Growth: the slope of a day's samples, and when a disk is full."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.stats.growth import (
    DAY_MS,
    EVERY_MS,
    Sample,
    days_until_full,
    growth_per_day,
    with_sample,
)

HOUR_MS = 3_600_000
NOW_MS = 1_800_000_000_000


@given(
    per_hour=st.integers(-(10**9), 10**9),
    hours=st.integers(1, 100),
    start=st.integers(10**12, 10**13),
)
def test_steady_growth_is_found_exactly(per_hour: int, hours: int, start: int) -> None:
    samples = [
        Sample(NOW_MS - back * HOUR_MS, start + (hours - back) * per_hour)
        for back in range(hours, 0, -1)
    ]

    found = growth_per_day(samples, Sample(NOW_MS, start + hours * per_hour))

    assert found == pytest.approx(24 * per_hour, abs=1)


def test_a_deletion_does_not_hide_the_growth_of_a_day() -> None:
    # 100 MB an hour, and once a compaction halves an hour's data just before the measurement.
    samples = [Sample(NOW_MS - back * HOUR_MS, (24 - back) * 10**8) for back in range(24, 0, -1)]

    found = growth_per_day(samples, Sample(NOW_MS, samples[-1].size_bytes - 5 * 10**7))

    assert found is not None
    assert 2e9 < found < 2.4e9


def test_less_than_an_hour_tells_nothing() -> None:
    samples = [Sample(NOW_MS - HOUR_MS + 1, 0)]

    assert growth_per_day(samples, Sample(NOW_MS, 10**9)) is None
    assert growth_per_day([], Sample(NOW_MS, 10**9)) is None
    assert growth_per_day([Sample(NOW_MS - HOUR_MS, 0)], Sample(NOW_MS, 10**9)) is not None


def test_samples_older_than_a_day_do_not_count() -> None:
    old = [Sample(NOW_MS - 3 * DAY_MS, 0), Sample(NOW_MS - 2 * DAY_MS, 10**12)]
    samples = [*old, Sample(NOW_MS - 12 * HOUR_MS, 10**12)]

    assert growth_per_day(samples, Sample(NOW_MS, 10**12)) == 0


@given(steps=st.lists(st.integers(-10 * EVERY_MS, 10 * EVERY_MS), max_size=200))
def test_samples_are_few_rise_in_time_and_keep_their_distance(steps: list[int]) -> None:
    samples: list[Sample] = []
    at_ms = NOW_MS
    for step in steps:
        at_ms += step
        samples = with_sample(samples, Sample(at_ms, 1))

    times = [each.at_ms for each in samples]
    assert all(after - before >= EVERY_MS for before, after in pairwise(times))
    assert not times or times[-1] <= at_ms
    assert not times or at_ms - times[0] <= 7 * DAY_MS


def test_a_disk_gets_full_only_if_data_grows() -> None:
    assert days_until_full(10**9, 10**8) == 10
    assert [days_until_full(10**9, each) for each in (None, 0, -1.0)] == [None] * 3
