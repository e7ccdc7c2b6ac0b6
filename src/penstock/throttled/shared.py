"""Adds priorities to a gate on a budget that several processes share.

A gate serves its callers in order of arrival. So that priorities apply, only one call of each
category waits at the gate, and the others wait in a queue by priority.
"""

import asyncio

from penstock.clock import Clock
from penstock.throttle.gate import Gate, GateGrant
from penstock.throttled.semaphore import Deadline, PrioritySemaphore, timed_out


class SharedBudget:
    """The budget of a wrapper that was given a gate."""

    def __init__(self, gate: Gate, clock: Clock) -> None:
        self.gate, self._clock = gate, clock
        self._semaphores: dict[str, PrioritySemaphore] = {}

    async def acquire(
        self, cost: int, category: str, priority: int, deadline: Deadline
    ) -> GateGrant:
        """Acquire a grant, waiting for capacity.

        Raises:
            WaitTimedOut: there was none in time. Nothing was spent.
            CostExceedsLimit: no wait would ever be long enough.
            ConnectorPaused: the exchange is paused for the whole fleet.
            StorageError: the store of the budget cannot be reached; nothing is sent without it.
        """
        semaphore = self._semaphores.setdefault(category, PrioritySemaphore(1, self._clock))
        await semaphore.acquire(priority, deadline)
        try:
            return await self._within(cost, category, deadline.left_s)
        finally:
            semaphore.release()

    async def _within(self, cost: int, category: str, seconds: float | None) -> GateGrant:
        if seconds is None:
            return await self.gate.acquire(cost, category)
        asking = asyncio.ensure_future(self.gate.acquire(cost, category))
        timer = asyncio.ensure_future(self._clock.sleep(seconds))
        try:
            await asyncio.wait({asking, timer}, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            if asking.done() and asking.exception() is None:
                asking.result().refund()
            asking.cancel()
            raise
        finally:
            timer.cancel()
        if asking.done():
            return asking.result()
        # A gate charges nothing for a cancelled caller.
        asking.cancel()
        raise timed_out(self._clock)
