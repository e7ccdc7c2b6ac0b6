"""The cells of the coverage map equal those of a computation millisecond by millisecond."""

import sys
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from penstock.coverage.ledger import Interval, State
from penstock.monitor.cells import Columns, row_of

STATES: tuple[State, ...] = ("complete", "gap", "filled", "unfillable")


def interval(since_ms: int | None, until_ms: int | None, state: State) -> Interval:
    return Interval(first=0, last=0, since_ms=since_ms, until_ms=until_ms, state=state)


def naive(intervals: list[Interval], columns: Columns) -> str:
    """The cells, from every millisecond of every column."""
    placed = []
    for each in intervals:
        times = [at for at in (each.since_ms, each.until_ms) if at is not None]
        if times:
            placed.append((times[0], max(times[0], times[-1]), each.state))
    begin = min((since for since, _, _ in placed), default=0)
    end = max((until for _, until, _ in placed), default=0)
    cells = ""
    for number in range(columns.size):
        start = columns.from_ms + number * columns.step_ms
        moments = range(start, start + columns.step_ms)
        states = {
            state
            for since, until, state in placed
            if any(since <= at < until or since == until == at for at in moments)
        }
        expected = [at for at in moments if begin <= at < end]
        held = [
            at
            for at in expected
            if any(
                since <= at < until
                for since, until, state in placed
                if state in ("complete", "filled")
            )
        ]
        if "gap" in states:
            cells += "g"
        elif "unfillable" in states:
            cells += "u"
        elif len(held) < len(expected):
            cells += str(10 * len(held) // len(expected))
        elif not expected and not states:
            cells += "."
        else:
            cells += "F" if "filled" in states else "f"
    return cells


_NO_TIMES = (None, None)
moment = st.one_of(st.none(), st.integers(0, 60))
drawn = st.lists(st.builds(interval, moment, moment, st.sampled_from(STATES)), max_size=8)


@given(drawn, st.integers(0, 30), st.integers(1, 15), st.integers(1, 6))
@example([interval(3, 3, "complete")], 0, 5, 2)
@example([interval(0, 10, "complete"), interval(None, None, "gap")], 0, 5, 2)
@example([interval(0, 10, "complete"), interval(10, 10, "gap")], 0, 10, 2)
def test_cells_equal_those_of_every_millisecond(
    intervals: list[Interval], from_ms: int, step_ms: int, count: int
) -> None:
    columns = Columns(from_ms, step_ms, count)
    cells, share = row_of(intervals, columns)
    assert cells == naive(intervals, columns)
    assert len(cells) == count
    if set(cells) == {"."}:
        assert share is None
    else:
        assert share is not None
        assert 0 <= share <= 1
        unplaced = {each.state for each in intervals if (each.since_ms, each.until_ms) == _NO_TIMES}
        assert (share == 1) == (
            not set(cells) - set("fF.") and not unplaced & {"gap", "unfillable"}
        )


def test_each_character_is_used_for_what_it_means() -> None:
    columns = Columns(0, 10, 9)
    intervals = [
        interval(15, 30, "complete"),
        interval(30, 40, "filled"),
        interval(40, 45, "complete"),
        # 45 to 50 is missing, and was not reported.
        interval(50, 60, "unfillable"),
        interval(60, 66, "complete"),
        interval(66, 66, "gap"),
        interval(66, 75, "complete"),
    ]
    assert row_of(intervals, columns).cells == ".ffF5ugf."


DAY_MS = 86_400_000


@pytest.mark.parametrize(("step_ms", "count"), [(DAY_MS, 60), (DAY_MS // 24, 1_440)])
def test_the_work_for_a_row_grows_with_its_intervals_and_its_cells(
    step_ms: int, count: int
) -> None:
    columns, events = Columns(0, step_ms, count), 0
    series = []
    for hour in range(0, 60 * 24, 12):
        at_ms = hour * 3_600_000
        series += [
            interval(at_ms, at_ms + 40_000_000, "complete"),
            interval(at_ms + 40_000_000, at_ms + 40_100_000, "filled"),
            interval(at_ms + 40_100_000, at_ms + 43_200_000, "complete"),
        ]

    def note(*_: object) -> Callable[..., Any]:
        nonlocal events
        events += 1
        return note

    before = sys.gettrace()
    sys.settrace(note)
    try:
        row_of(series, columns)
    finally:
        sys.settrace(before)

    assert events < 60 * (len(series) + count), f"{events} lines of Python"
