"""A grant that leaves late is counted late, and never makes room by it."""

from hypothesis import given
from hypothesis import strategies as st

from penstock.clock import ManualClock
from penstock.throttle import BaseThrottler, FixedWindow, Pipeline, SlidingWindow
from penstock.throttle.rules import BucketRule, FixedRule
from penstock.throttle.sliding import SlidingRule


def throttler_of(window: FixedWindow | SlidingWindow) -> BaseThrottler:
    return BaseThrottler([Pipeline("1s", window, max_soft_delay=0)])


async def test_what_leaves_late_comes_back_late() -> None:
    clock = ManualClock(1_790_000_000_000)
    throttler = throttler_of(SlidingWindow(1, 1, clock))
    grant = throttler.try_acquire()
    assert grant is not None
    await clock.advance(0.4)
    assert grant.count_from_now()
    await clock.advance(0.9)
    assert throttler.try_acquire() is None
    await clock.advance(0.1)

    assert throttler.try_acquire() is not None


async def test_what_has_come_back_may_leave_no_more() -> None:
    clock = ManualClock(1_790_000_000_000)
    for window in (SlidingWindow(1, 1, clock), FixedWindow(1, 1, clock)):
        grant = throttler_of(window).try_acquire()
        assert grant is not None
        await clock.advance(1)

        assert not grant.count_from_now()
        assert window.remaining == 1


async def test_what_was_settled_or_forbidden_meanwhile_is_counted_as_it_was() -> None:
    clock = ManualClock(1_790_000_000_000)
    throttler = throttler_of(SlidingWindow(2, 1, clock))
    given_back, stopped = throttler.try_acquire(), throttler.try_acquire()
    assert given_back is not None
    assert stopped is not None
    given_back.refund()
    throttler.block_until(clock.now_ms() + 500)

    assert not given_back.count_from_now()
    assert not stopped.count_from_now()
    assert throttler.stats().limits[0].remaining == 1


async def test_what_was_moved_can_still_be_given_back() -> None:
    clock = ManualClock(1_790_000_000_000)
    throttler = throttler_of(SlidingWindow(3, 1, clock))
    grant = throttler.try_acquire(2)
    assert grant is not None
    await clock.advance(0.5)
    grant.count_from_now()
    grant.refund()

    assert throttler.stats().limits[0].remaining == 3


@given(costs=st.lists(st.integers(1, 4), min_size=1, max_size=8), late=st.integers(0, 99))
def test_moving_never_makes_room(costs: list[int], late: int) -> None:
    limit = sum(costs)
    sliding, fixed, bucket = SlidingRule(limit, 100), FixedRule(limit, 100), BucketRule(limit, 1, 9)
    usages = sliding.fresh(), fixed.fresh(), bucket.fresh()
    slid, stood, filled = usages
    for cost in costs:
        slid, _ = sliding.take(slid, cost, 0)
        stood, _ = fixed.take(stood, cost, 0)
        filled, _ = bucket.take(filled, cost, 0)
    apart = (*slid[:4], list(slid[4]))  # what is moved is struck out of the log
    moved = sliding.moved(apart, 0, costs[0], late)

    for now in range(late, late + 110, 10):
        assert sliding.as_of(moved, now)[0] >= sliding.as_of(slid, now)[0]
    assert sliding.as_of(moved, 100)[0] == (costs[0] if late else 0)
    assert fixed.moved(stood, 0, costs[0], late) == stood
    assert bucket.moved(filled, 0, costs[0], late) == filled
