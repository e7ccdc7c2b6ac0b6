"""What is due with a table: a pure function of its partitions, the rules and the day."""

from datetime import date, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.keep.deletions import LEAST_HOT_NS, hot_ns
from penstock.keep.upkeep import Retention, plan, read_retention
from penstock.market.channels import CANDLES, TRADES
from penstock.storage.lake import Partition
from penstock.storage.log import SlotStats, StreamStats
from penstock.storage.log.keys import Stream

TODAY = date(2024, 5, 15)
HOUR_NS = 3_600_000_000_000


def part(days_ago: int, files: int = 1, size: int = 10**9) -> Partition:
    return Partition("toy", TODAY - timedelta(days=days_ago), files, 100, size)


def test_days_that_are_over_become_one_file() -> None:
    parts = [part(3, files=1), part(2, files=5), part(0, files=5)]

    assert plan(TRADES, parts, None, TODAY).compact == [parts[1]]


def test_a_day_that_still_grows_is_compacted_when_it_has_many_files() -> None:
    assert plan(TRADES, [part(0, files=65)], None, TODAY).compact == [part(0, files=65)]
    assert plan(TRADES, [part(1, files=5)], None, TODAY).compact == [], "late records come"


def test_a_month_of_candles_is_over_with_its_last_day() -> None:
    april, may = (Partition("toy", date(2024, month, 1), 5, 1, 1) for month in (4, 5))

    assert plan(CANDLES, [april, may], None, TODAY).compact == [april]
    assert plan(CANDLES, [april, may], Retention(days=10), TODAY).delete == [april]
    assert plan(CANDLES, [april, may], Retention(days=20), TODAY).delete == []


def test_retention_by_age_keeps_that_many_whole_days() -> None:
    parts = [part(n) for n in (40, 31, 30, 29, 1, 0)]

    planned = plan(TRADES, parts, Retention(days=30), TODAY)

    assert planned.delete == [part(40), part(31)]


@given(st.lists(st.integers(1, 10**10), max_size=20), st.integers(1, 10**11))
def test_retention_by_size_deletes_the_oldest_and_no_more_than_needed(
    sizes: list[int], most: int
) -> None:
    parts = [part(len(sizes) - n, size=size) for n, size in enumerate(sizes)]

    deleted = plan(TRADES, parts, Retention(size_bytes=most), TODAY).delete

    assert list(deleted) == parts[: len(deleted)]
    kept = sum(each.size_bytes for each in parts[len(deleted) :])
    assert kept <= most or len(deleted) >= len(parts) - 1
    if deleted:
        assert kept + deleted[-1].size_bytes > most


def test_rules_are_ages_or_sizes() -> None:
    assert read_retention({"trades": "2y", "candles": "50 GB"}) == {
        TRADES: Retention(days=730),
        CANDLES: Retention(size_bytes=50 * 10**9),
    }


def slot(size: int, hours: int, now_ns: int) -> SlotStats:
    first_ns = now_ns - hours * HOUR_NS
    stats = StreamStats(Stream("toy", "trades", "btc_usdt"), 1, 1, b"", b"", first_ns, now_ns)
    return SlotStats("a", size, (stats,))


@pytest.mark.parametrize(
    ("size", "hours", "most", "expected"),
    [
        (100, 10, 0, 48 * HOUR_NS),  # no maximum
        (100, 10, 200, 48 * HOUR_NS),  # below it
        (200, 10, 100, 4 * HOUR_NS),  # twice as much as allowed: to four fifths
        (10**9, 10, 1, LEAST_HOT_NS),
    ],
)
def test_a_log_above_its_maximum_keeps_less(
    size: int, hours: int, most: int, expected: int
) -> None:
    now_ns = 10**18

    found = hot_ns([slot(size, hours, now_ns)], now_ns, 48 * 3600, most)

    assert abs(found - expected) < 10**9
