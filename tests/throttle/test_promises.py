"""What callers and listeners rely on: timeouts and stops are kept, crossings are told once."""

import asyncio

import pytest

from penstock.clock import ManualClock
from penstock.errors import WaitTimedOut
from penstock.throttle import BaseThrottler, CapacityLow, FixedWindow, Pipeline, SlidingWindow

START_MS = 1_700_000_000_000 - 1_700_000_000_000 % 60_000


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(START_MS)


async def test_a_timeout_holds_behind_another_category_that_waits_for_the_same_limit(
    clock: ManualClock,
) -> None:
    shared = Pipeline("1m", SlidingWindow(10, 60, clock), max_soft_delay=0)
    throttler = BaseThrottler({None: [shared], "a": [], "b": []})
    await throttler.acquire(9, "a")
    dear = asyncio.create_task(throttler.acquire(5, "a"))
    await clock.advance(0)
    cheap = asyncio.create_task(throttler.acquire(1, "b", timeout=0.5))
    await clock.advance(0.5)

    assert cheap.done()
    assert isinstance(cheap.exception(), WaitTimedOut)
    assert not dear.done()
    await clock.advance(60)
    assert dear.done()


async def test_who_stood_behind_one_that_gave_up_goes_at_that_moment(clock: ManualClock) -> None:
    shared = Pipeline("1m", SlidingWindow(10, 60, clock), max_soft_delay=0)
    throttler = BaseThrottler({None: [shared], "a": [], "b": [], "c": []})
    await throttler.acquire(9, "a")
    dear = asyncio.create_task(throttler.acquire(5, "a"))
    await clock.advance(0)
    second = asyncio.create_task(throttler.acquire(5, "b", timeout=3))
    cheap = asyncio.create_task(throttler.acquire(1, "c"))
    await clock.advance(1)
    dear.cancel()
    await clock.advance(0)
    assert isinstance(second.exception(), WaitTimedOut), "it could not go in time"
    assert cheap.done()


async def test_nothing_is_granted_after_a_listener_said_stop(clock: ManualClock) -> None:
    pipeline = Pipeline("1s", SlidingWindow(10, 1, clock), max_soft_delay=0)
    throttler = BaseThrottler([pipeline])
    throttler.block_until(clock.now_ms() + 1_000)
    throttler.add_listener(lambda _: throttler.block_until(clock.now_ms() + 5_000))
    waiting = [asyncio.create_task(throttler.acquire()) for _ in range(10)]
    await clock.advance(1)
    assert sum(task.done() for task in waiting) == 5, "the fifth crossed the threshold"
    await clock.advance(4.9)
    assert sum(task.done() for task in waiting) == 5
    await clock.advance(0.1)
    assert all(task.done() for task in waiting)


async def test_limits_that_a_listener_changes_hold_for_the_next_in_the_queue(
    clock: ManualClock,
) -> None:
    wide = Pipeline("1s", SlidingWindow(10, 1, clock), max_soft_delay=0)
    narrow = Pipeline("1m", SlidingWindow(1, 60, clock), max_soft_delay=0)
    throttler = BaseThrottler([wide])
    throttler.block_until(clock.now_ms() + 1_000)

    def tighten(_: CapacityLow) -> None:
        throttler.remove_listener(tighten)
        throttler.adopt([narrow])

    throttler.add_listener(tighten)
    waiting = [asyncio.create_task(throttler.acquire()) for _ in range(10)]
    await clock.advance(1)
    assert sum(task.done() for task in waiting) == 5 + 1
    for task in waiting:
        task.cancel()


async def test_a_count_that_the_exchange_told_is_not_crossed_again_by_requests_below_it(
    clock: ManualClock,
) -> None:
    told: list[CapacityLow] = []
    window = FixedWindow(100, 60, clock)
    throttler = BaseThrottler([Pipeline("1m", window, max_soft_delay=0)])
    throttler.add_listener(told.append)
    throttler.observe(None, 50, "1m")
    for _ in range(20):
        await throttler.acquire()
    assert len(told) == 1
    await clock.advance(60)
    await throttler.acquire(60)
    assert len(told) == 2, "the next window is another one"


async def test_a_count_that_catches_up_with_a_request_under_way_does_not_cross_again(
    clock: ManualClock,
) -> None:
    told: list[CapacityLow] = []
    window = FixedWindow(100, 60, clock, answers=True)
    throttler = BaseThrottler([Pipeline("1m", window, max_soft_delay=0)])
    throttler.add_listener(told.append)
    throttler.observe(None, 49, "1m")
    grant = await throttler.acquire()
    assert len(told) == 1
    grant.answered()
    throttler.observe(None, 50, "1m")
    assert len(told) == 1
