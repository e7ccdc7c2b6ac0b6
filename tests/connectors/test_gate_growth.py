"""What a paced gate does for one grant does not grow with how many wait."""

import asyncio
import time

from tests.connectors.conftest import START_MS

from penstock.clock import ManualClock
from penstock.connectors.gate import SharedGate
from penstock.storage.state import open_store
from penstock.throttle.gate import Limit

PACED = Limit(amount=10, period_ms=1_000, unit="request", kind="paced", burst=3)


async def second_s(waiters: int) -> float:
    """What a second of ten grants costs while so many wait, at the least."""
    clock = ManualClock(START_MS)
    store = await open_store("memory:", clock=clock)
    gate = SharedGate(store, "binance", [PACED], clock, acquire_timeout_ms=3_600_000)
    gate.align(0, 0)
    tasks = [asyncio.create_task(gate.acquire(1)) for _ in range(waiters)]
    await clock.advance(1)
    times = []
    for _ in range(6):
        before, granted = time.process_time(), sum(task.done() for task in tasks)
        await clock.advance(1)
        times.append(time.process_time() - before)
        assert sum(task.done() for task in tasks) == granted + 10
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    await gate.aclose()
    return min(times)


async def test_a_grant_costs_the_same_behind_a_thousand_waiters() -> None:
    # It was thirty times as much: every step counted everybody in line.
    assert await second_s(2_000) < 5 * await second_s(100)


async def test_a_wide_limit_is_not_used_up_by_leases_for_a_narrow_one() -> None:
    clock = ManualClock(START_MS)
    store = await open_store("memory:", clock=clock)
    narrow = Limit(amount=6_000, period_ms=60_000, unit="weight")
    wide = Limit(amount=61_000, period_ms=300_000, unit="request")
    gate = SharedGate(store, "binance", [narrow, wide], clock, acquire_timeout_ms=3_600_000)
    gate.align(0, 0)
    for _ in range(200):
        asking = asyncio.create_task(gate.acquire(25))
        await clock.advance(0.01)
        await asking
    # It was over 8,000: each block of weight came with another large block of requests.
    await gate.check()
    used = gate.used()[wide]
    assert 200 <= used <= 200 + wide.amount * 0.025
    await gate.aclose()
