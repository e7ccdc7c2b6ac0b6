"""What an operation costs does not grow with how much a window holds."""

import asyncio
import time

from penstock.clock import ManualClock
from penstock.throttle import BaseThrottler, Pipeline, SlidingWindow
from penstock.throttle.gate import Limit
from penstock.throttle.local_gate import LocalGate
from penstock.throttle.rules import FAR
from penstock.throttle.sliding import SlidingRule


def refund_s(entries: int) -> float:
    """The shortest time of a grant that is given back beside so many that are not."""
    clock = ManualClock(1_700_000_000_000)
    window = SlidingWindow(10 * entries, 60, clock)
    throttler = BaseThrottler([Pipeline("1m", window, max_soft_delay=0)])
    for _ in range(entries):
        throttler.try_acquire()
        clock._now_ns += 1
    times = []
    for _ in range(200):
        clock._now_ns += 1
        grant = throttler.try_acquire()
        assert grant is not None
        before = time.perf_counter()
        grant.refund()
        times.append(time.perf_counter() - before)
    assert window.used == entries
    return min(times)


def test_a_refund_costs_the_same_in_a_long_log() -> None:
    # It was a hundred times as much: the log was copied.
    assert refund_s(50_000) < 10 * refund_s(500)


async def waiting_s(waiters: int) -> float:
    """What one more waiter costs a gate behind so many, at the least."""
    clock = ManualClock(1_700_000_000_000)
    gate = LocalGate(clock, [Limit(10, 1_000, kind="paced", burst=3)], acquire_timeout_ms=10**9)
    tasks = [asyncio.create_task(gate.acquire(1)) for _ in range(waiters)]
    await clock.advance(0)
    times = []
    for _ in range(50):
        before = time.perf_counter()
        tasks.append(asyncio.create_task(gate.acquire(1)))
        await asyncio.sleep(0)
        times.append(time.perf_counter() - before)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    return min(times)


async def test_one_more_waiter_costs_the_same_in_a_long_queue() -> None:
    assert await waiting_s(2_000) < 10 * await waiting_s(20)


def test_what_was_struck_out_does_not_stay_in_the_log_for_ever() -> None:
    rule = SlidingRule(10, 1_000_000)
    usage = rule.fresh()
    for now in range(20_000):
        usage, _ = rule.take(usage, 1, now)
        usage = rule.refund(usage, now, 1, now)
    assert usage[0] == 0
    assert len(usage[4]) < 10_000


def test_a_use_that_was_struck_out_is_not_waited_for() -> None:
    rule = SlidingRule(2, 100)
    first, _ = rule.take(rule.fresh(), 1, 0)
    second, _ = rule.take(first, 1, 10)
    left = rule.refund(second, 0, 1, 20)
    third, wait = rule.take(left, 1, 20)
    assert (third[0], wait) == (2, 0)
    assert rule.wait(third, 1, 20) == 90, "until the second comes back"
    assert rule.as_of(third, FAR)[0] == 0
