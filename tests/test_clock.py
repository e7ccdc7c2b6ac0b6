"""Clocks: real ones that never go back, and one that moves when told to."""

import asyncio
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.clock import Clock, ManualClock, SystemClock


def test_the_system_clock_never_goes_back() -> None:
    clock: Clock = SystemClock()
    seen = [clock.now_ns() for _ in range(1000)]

    assert seen == sorted(seen)


def test_the_system_clock_tells_how_far_the_wall_was_stepped() -> None:
    assert abs(SystemClock().wall_step_ns()) < 1_000_000_000


def test_a_wall_clock_that_is_set_moves_no_instant(monkeypatch: pytest.MonkeyPatch) -> None:
    hour_ns, wall_ns = 3_600_000_000_000, time.time_ns
    clock = SystemClock()
    before_ns = clock.now_ns()
    monkeypatch.setattr(time, "time_ns", lambda: wall_ns() - hour_ns)

    assert clock.now_ns() >= before_ns
    assert clock.wall_step_ns() < -hour_ns // 2


async def test_sleepers_wake_in_order_and_on_time() -> None:
    clock = ManualClock(now_ms=1_000)
    woken: list[tuple[str, int]] = []

    async def sleeper(name: str, seconds: float) -> None:
        await clock.sleep(seconds)
        woken.append((name, clock.now_ms()))

    async with asyncio.TaskGroup() as group:
        for name, seconds in [("c", 3.0), ("a", 1.0), ("b", 2.0)]:
            group.create_task(sleeper(name, seconds))
        await clock.advance(2.5)
        assert woken == [("a", 2_000), ("b", 3_000)]
        assert clock.next_wake_ns() == 4_000_000_000
        await clock.advance(10)

    assert woken[-1] == ("c", 4_000)
    assert clock.next_wake_ns() is None


@given(st.lists(st.floats(0.001, 100), min_size=1, max_size=20))
def test_a_task_that_sleeps_again_and_again_meets_every_deadline(naps: list[float]) -> None:
    async def run() -> None:
        clock, met = ManualClock(), []

        async def walker() -> None:
            for nap in naps:
                before = clock.monotonic_ns()
                await clock.sleep(nap)
                met.append(clock.monotonic_ns() - before)

        task = asyncio.create_task(walker())
        await clock.advance(sum(naps) + 1)
        await task
        assert met == [round(nap * 1_000_000_000) for nap in naps]

    asyncio.run(run())


async def test_a_stepped_wall_moves_instants_but_no_sleeper() -> None:
    clock = ManualClock(now_ms=10_000)
    task = asyncio.create_task(clock.sleep(5))
    await clock.advance(1)

    clock.step_wall(-3600)

    assert clock.now_ms() == 11_000 - 3_600_000
    await clock.advance(3.9)
    assert not task.done()
    await clock.advance(0.2)
    assert task.done()


async def test_a_cancelled_sleeper_is_forgotten() -> None:
    clock = ManualClock()
    task = asyncio.create_task(clock.sleep(5))
    await clock.advance(1)
    task.cancel()
    await clock.advance(0)

    assert clock.next_wake_ns() is None
    await clock.advance(10)
