"""A semaphore with priorities limits the number of concurrent calls.

Higher priorities go first; within a priority it is first come, first served. As in the throttler,
``AGEING_S`` seconds of waiting outweigh one step of priority, so no call waits for ever.
"""

import asyncio
from heapq import heappop, heappush
from itertools import count
from typing import TypedDict

from penstock.clock import Clock
from penstock.errors import WaitTimedOut

AGEING_S = 10
_SECOND_NS = 1_000_000_000


class WaitOptions(TypedDict, total=False):
    """How a call waits. Every method of a wrapper accepts these."""

    priority: int
    """Higher goes first; the default is 0."""
    timeout: float | None
    """The maximum wait before sending, in seconds; None has no maximum."""


class Deadline:
    """The time left to a caller, across all its waits."""

    def __init__(self, clock: Clock, seconds: float | None) -> None:
        self._clock = clock
        self._until = None if seconds is None else clock.monotonic_ns() + seconds * _SECOND_NS

    @property
    def left_s(self) -> float | None:
        """The seconds left; None without a timeout."""
        if self._until is None:
            return None
        return max(0.0, (self._until - self._clock.monotonic_ns()) / _SECOND_NS)


class PrioritySemaphore:
    """A semaphore with a number of places."""

    def __init__(self, places: int, clock: Clock) -> None:
        self._free, self._clock = places, clock
        self._waiting: list[tuple[int, int, asyncio.Future[None]]] = []
        self._numbers = count()

    async def acquire(self, priority: int = 0, deadline: Deadline | None = None) -> None:
        """Wait for a place.

        Raises:
            WaitTimedOut: none was free in time.
        """
        if self._free:
            self._free -= 1
            return
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        rank = self._clock.monotonic_ns() - priority * AGEING_S * _SECOND_NS
        heappush(self._waiting, (rank, next(self._numbers), future))
        seconds = deadline.left_s if deadline is not None else None
        timer = None
        if seconds is not None:
            timer = asyncio.create_task(self._give_up(future, seconds))
        try:
            await future
        except asyncio.CancelledError:
            if future.done() and not future.cancelled() and future.exception() is None:
                self.release()
            future.cancel()
            raise
        finally:
            if timer is not None:
                timer.cancel()

    def release(self) -> None:
        """Release a place to the next waiter."""
        while self._waiting:
            future = heappop(self._waiting)[2]
            if not future.done():
                future.set_result(None)
                return
        self._free += 1

    async def _give_up(self, future: "asyncio.Future[None]", seconds: float) -> None:
        await self._clock.sleep(seconds)
        if not future.done():
            future.set_exception(timed_out(self._clock))


def timed_out(clock: Clock) -> WaitTimedOut:
    """The error for a caller whose deadline has passed. Nothing was spent."""
    return WaitTimedOut("It could not be sent in time", retry_at_ms=clock.now_ms() + 1)
