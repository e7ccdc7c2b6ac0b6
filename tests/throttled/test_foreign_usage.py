"""Foreign usage: what others use is known from below, expected again, and never invented."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from penstock.throttled.foreign_usage import ForeignUsage

MINUTE_MS = 60_000


def test_alone_the_count_is_taken_as_it_is() -> None:
    foreign = ForeignUsage(MINUTE_MS)
    for second in range(180):
        at_ms = second * 1000
        foreign.sent(10, at_ms)
        used = 10 * (second % 60 + 1)
        assert foreign.plan(used, at_ms) == used


def test_what_others_used_in_one_window_is_left_free_in_the_next() -> None:
    foreign = ForeignUsage(MINUTE_MS)
    foreign.sent(10, 1000)
    foreign.plan(10, 1000)
    foreign.plan(10 + 590, 60_000 - 1)
    foreign.sent(10, 60_000)

    assert foreign.plan(10, 60_000) == 10 + round(590 * 60_000 / 58_999 * 1.1)


def test_what_they_have_used_of_it_is_expected_no_more() -> None:
    foreign = ForeignUsage(MINUTE_MS)
    foreign.plan(0, 0)
    foreign.plan(1000, 59_999)
    first = foreign.plan(0, 60_000)

    assert foreign.plan(400, 80_000) == first
    assert foreign.plan(400, 110_000) == first


def test_what_they_may_use_before_the_next_answer_is_left_free_from_the_start() -> None:
    foreign = ForeignUsage(MINUTE_MS)
    foreign.plan(0, 0)

    assert foreign.plan(500, 20_000) == 500 + 25
    assert foreign.plan(500, 40_000) == 500 + 13


def test_a_window_we_heard_only_half_of_is_stretched_to_a_whole() -> None:
    foreign = ForeignUsage(MINUTE_MS)
    foreign.plan(0, 0)
    foreign.plan(500, 30_000)

    assert foreign.plan(0, 60_000) == round(500 * 2 * 1.1)


def test_what_was_used_before_we_listened_is_not_expected_again() -> None:
    foreign = ForeignUsage(MINUTE_MS)
    assert foreign.plan(3000, 20_000) == 3000
    assert foreign.plan(3000, 59_000) == 3000

    assert foreign.plan(0, 60_000) == 0


def test_one_who_uses_nothing_for_once_is_forgotten_slowly() -> None:
    foreign = ForeignUsage(MINUTE_MS)
    foreign.plan(0, 0)
    foreign.plan(1000, 59_999)
    plans = [foreign.plan(0, window * MINUTE_MS) for window in range(1, 30)]

    assert plans[0] == 1100
    assert all(after <= 0.75 * before for before, after in pairwise(plans))
    assert plans[1] == 825
    assert plans[-1] == 0


def test_after_a_silent_window_nothing_is_expected() -> None:
    foreign = ForeignUsage(MINUTE_MS)
    foreign.plan(0, 0)
    foreign.plan(500, 59_000)

    assert foreign.plan(0, 3 * MINUTE_MS) == 0


def test_a_late_answer_says_nothing_about_the_window_that_has_begun() -> None:
    foreign = ForeignUsage(MINUTE_MS)
    foreign.sent(5000, 59_000)
    foreign.sent(10, 60_000)

    assert foreign.plan(10, 60_000) == 10
    assert foreign.plan(5000, 59_000) == 5000
    assert foreign.plan(10, 61_000) == 10


def test_what_never_left_is_not_ours() -> None:
    foreign = ForeignUsage(MINUTE_MS)
    foreign.sent(100, 0)
    foreign.unsent(100, 0)
    foreign.plan(0, 0)
    foreign.plan(60, 59_999)

    assert foreign.plan(0, 60_000) == round(60 * 1.1)


requests = st.lists(
    st.tuples(st.integers(1, 3000), st.integers(1, 50), st.integers(0, 50)),
    max_size=60,
)


@given(requests)
def test_a_plan_is_never_below_the_count_and_never_sees_foreign_usage_where_there_is_none(
    steps: list[tuple[int, int, int]],
) -> None:
    alone, beside = ForeignUsage(MINUTE_MS), ForeignUsage(MINUTE_MS)
    at_ms = ours = theirs = 0
    for pause_ms, cost, foreign in steps:
        if (at_ms + pause_ms) // MINUTE_MS != at_ms // MINUTE_MS:
            ours = theirs = 0
        at_ms, ours, theirs = at_ms + pause_ms, ours + cost, theirs + foreign
        for each in (alone, beside):
            each.sent(cost, at_ms)
        # The request just sent may not be in the count yet.
        assert alone.plan(ours - cost, at_ms) == ours - cost
        assert beside.plan(ours - cost + theirs, at_ms) >= ours - cost + theirs
