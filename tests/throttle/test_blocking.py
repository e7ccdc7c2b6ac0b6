"""The blocking face: the same rules for threads, in real time with short windows."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from tests.waiting import PATIENCE_S

from penstock.errors import CostExceedsLimit, NeverSent, UnknownCategory, WaitTimedOut
from penstock.throttle import BlockingThrottler, CapacityLow, Pipeline, SlidingWindow

PERIOD_S = 0.2


def throttler_of(limit: int, period_s: float = PERIOD_S) -> BlockingThrottler:
    return BlockingThrottler([Pipeline("short", SlidingWindow(limit, period_s), max_soft_delay=0)])


def test_many_threads_never_exceed_the_limit_in_any_period() -> None:
    throttler = throttler_of(20)
    grants: list[tuple[float, float]] = []

    def ask(_: int) -> None:
        before_s = time.monotonic()
        throttler.acquire()
        grants.append((before_s, time.monotonic()))

    with ThreadPoolExecutor(16) as pool:
        list(pool.map(ask, range(100)))

    assert len(grants) == 100
    # A grant lies between the two times. Of 21 in order, the first and the last are a period apart.
    befores, afters = sorted(b for b, _ in grants), sorted(a for _, a in grants)
    assert all(afters[i + 20] - befores[i] >= PERIOD_S for i in range(80))
    assert max(afters) - min(befores) < 20 * PERIOD_S


def test_threads_are_served_in_the_order_in_which_they_came() -> None:
    throttler, order, threads = throttler_of(1), [], []
    throttler.acquire()

    def ask(number: int) -> None:
        throttler.acquire()
        order.append(number)

    for number in range(5):
        threads.append(threading.Thread(target=ask, args=(number,)))
        threads[-1].start()
        while sum(n for _, n, _ in throttler.queue()) <= number and len(order) == 0:
            time.sleep(0.001)
    for thread in threads:
        thread.join(PATIENCE_S)

    assert order == sorted(order)
    assert len(order) == 5


def test_a_wait_that_is_too_long_spends_nothing() -> None:
    throttler = throttler_of(1, 60)
    grant = throttler.acquire()
    with pytest.raises(WaitTimedOut):
        throttler.acquire(timeout=0.05)
    assert throttler.try_acquire() is None

    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(throttler.acquire)
        while not throttler.queue():
            time.sleep(0.001)
        grant.refund()
        assert waiting.result(PATIENCE_S).good()
    assert throttler.stats().limits[0].remaining == 0


def test_a_timeout_behind_others_is_kept() -> None:
    throttler = throttler_of(1, 60)
    throttler.acquire()
    with ThreadPoolExecutor(2) as pool:
        ahead = pool.submit(throttler.acquire)
        while not throttler.queue():
            time.sleep(0.001)
        behind = pool.submit(throttler.acquire, timeout=0.05)
        assert isinstance(behind.exception(PATIENCE_S), WaitTimedOut)
        throttler.adopt([Pipeline("short", SlidingWindow(5, 60))])
        ahead.result(PATIENCE_S)


def test_the_thread_that_keeps_time_ends_when_nobody_waits() -> None:
    throttler = throttler_of(1, 0.05)
    for _ in range(3):
        throttler.acquire()
    deadline_s = time.monotonic() + PATIENCE_S
    while throttler._timer is not None and time.monotonic() < deadline_s:
        time.sleep(0.001)
    assert throttler._timer is None


def test_a_block_of_code_settles_its_grant() -> None:
    told: list[CapacityLow] = []
    throttler = throttler_of(10, 60)
    throttler.add_listener(told.append)
    with throttler.acquire(4):
        pass
    with pytest.raises(NeverSent), throttler.acquire(6):
        raise NeverSent("no route")

    assert throttler.stats().limits[0].remaining == 6
    assert len(told) == 1


def test_bad_calls_are_told_as_by_the_other_face() -> None:
    throttler = throttler_of(10)
    with pytest.raises(CostExceedsLimit):
        throttler.acquire(11)
    with pytest.raises(UnknownCategory):
        throttler.acquire(category="x")
