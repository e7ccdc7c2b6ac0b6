"""The semaphore: so many at a time, higher priorities first, nobody for ever."""

import asyncio

import pytest

from penstock.clock import ManualClock
from penstock.errors import WaitTimedOut
from penstock.throttled.semaphore import AGEING_S, Deadline, PrioritySemaphore


class Line:
    """Callers of one place, in the order in which they got it."""

    def __init__(self) -> None:
        self.clock, self.order = ManualClock(), list[str]()
        self.semaphore = PrioritySemaphore(1, self.clock)

    async def come(
        self, name: str, priority: int = 0, timeout_s: float | None = None
    ) -> "asyncio.Task[None]":
        """Somebody comes, and stands in line."""

        async def wait() -> None:
            await self.semaphore.acquire(priority, Deadline(self.clock, timeout_s))
            self.order.append(name)

        task = asyncio.create_task(wait())
        await asyncio.sleep(0)
        return task

    async def empty(self) -> list[str]:
        """Everybody goes, one after another."""
        for _ in range(10):
            self.semaphore.release()
            for _ in range(3):
                await asyncio.sleep(0)
        return self.order


async def test_higher_priorities_go_first_and_within_one_whoever_came_first() -> None:
    line = Line()
    await line.come("holder")
    for name, priority in (("a", 0), ("b", 0), ("high", 5), ("low", -1), ("c", 0)):
        await line.come(name, priority)

    assert await line.empty() == ["holder", "high", "a", "b", "c", "low"]


async def test_long_waiting_outweighs_priority() -> None:
    line = Line()
    await line.come("holder")
    await line.come("patient")
    await line.clock.advance(AGEING_S - 1)
    await line.come("high", 1)
    await line.clock.advance(2)
    await line.come("too late", 1)

    assert await line.empty() == ["holder", "high", "patient", "too late"]


async def test_who_gave_up_or_was_cancelled_takes_no_place() -> None:
    line = Line()
    await line.come("holder")
    hasty, cancelled, last = (
        await line.come("hasty", timeout_s=1),
        await line.come("cancelled"),
        await line.come("last"),
    )
    await line.clock.advance(2)
    with pytest.raises(WaitTimedOut):
        await hasty
    cancelled.cancel()

    assert await line.empty() == ["holder", "last"]
    await last


async def test_a_place_given_in_the_moment_of_cancelling_goes_to_the_next() -> None:
    line = Line()
    await line.come("holder")
    cancelled, following = await line.come("cancelled"), await line.come("following")
    line.semaphore.release()
    cancelled.cancel()
    await following

    assert line.order == ["holder", "following"]
