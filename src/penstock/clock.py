"""Clocks, the only place where penstock reads the time or sleeps.

There are three kinds of time. *Wall* time is what the operator sees, and may be stepped at any
moment. *Monotonic* time measures waits and never goes back. *Instants* (``now_ns``, ``now_ms``) are
wall time read once and advanced by the monotonic clock, so that within a process they never jump:
windows and receive times use them.
"""

import asyncio
import heapq
import time
from pathlib import Path
from typing import Protocol


class Clock(Protocol):
    """Reads the time and waits. Passed as a parameter wherever either is needed."""

    def now_ns(self) -> int:
        """Nanoseconds since the epoch, never going back within this process."""
        ...

    def now_ms(self) -> int:
        """Milliseconds since the epoch, never going back within this process."""
        ...

    def monotonic_ns(self) -> int:
        """Nanoseconds since a fixed moment; only differences are meaningful."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Wait; yield to other tasks at least once."""
        ...


def block(seconds: float) -> None:
    """Wait in a program without an event loop."""
    time.sleep(seconds)


async def wait_for(event: asyncio.Event, clock: Clock, seconds: float) -> bool:
    """Wait until an event is set, at most so many seconds; return whether it is set."""
    if event.is_set():
        return True
    waits = {asyncio.ensure_future(clock.sleep(seconds)), asyncio.ensure_future(event.wait())}
    try:
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for wait in waits:
            wait.cancel()
    return event.is_set()


class SystemClock:
    """The machine's clock, anchored once so that a step of the wall clock has no effect."""

    def __init__(self) -> None:
        self._anchor_ns = time.time_ns() - time.monotonic_ns()

    def now_ns(self) -> int:
        return self._anchor_ns + time.monotonic_ns()

    def now_ms(self) -> int:
        return self.now_ns() // 1_000_000

    # The function itself: throttlers read it on every call, and a wrapper doubles the cost.
    monotonic_ns = staticmethod(time.monotonic_ns)

    def wall_step_ns(self) -> int:
        """How far the wall clock has moved relative to this one since the anchor was set."""
        return time.time_ns() - self.now_ns()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


class BootClock(Protocol):
    """Time since boot: the same in every process of a machine, and never stepped."""

    def boot_id(self) -> str:
        """An id that changes with every boot."""
        ...

    def since_boot_ns(self) -> int:
        """Nanoseconds since this boot, sleep included."""
        ...

    def wall_ns(self) -> int:
        """Nanoseconds since the epoch, by the current wall clock."""
        ...


class SystemBootClock:
    """The machine's boot clock."""

    def boot_id(self) -> str:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()

    def since_boot_ns(self) -> int:
        return time.clock_gettime_ns(time.CLOCK_BOOTTIME)

    def wall_ns(self) -> int:
        return time.time_ns()


class ManualClock:
    """A clock that stands still until ``advance`` is called, for code without I/O.

    Sleepers wake in the order of their deadlines, each at exactly the time it requested.
    """

    def __init__(self, now_ms: int = 0) -> None:
        self._now_ns = now_ms * 1_000_000
        self._wall_step_ns = 0
        self._sleepers: list[tuple[int, int, asyncio.Future[None]]] = []
        self._order = 0

    def now_ns(self) -> int:
        return self._now_ns + self._wall_step_ns

    def now_ms(self) -> int:
        return self.now_ns() // 1_000_000

    def monotonic_ns(self) -> int:
        return self._now_ns

    async def sleep(self, seconds: float) -> None:
        deadline_ns = self._now_ns + round(seconds * 1_000_000_000)
        if deadline_ns <= self._now_ns:
            await asyncio.sleep(0)
            return
        woken = asyncio.get_running_loop().create_future()
        self._order += 1
        heapq.heappush(self._sleepers, (deadline_ns, self._order, woken))
        await woken

    def step_wall(self, seconds: float) -> None:
        """Step only the wall clock, as an operator or a time server would."""
        self._wall_step_ns += round(seconds * 1_000_000_000)

    async def advance(self, seconds: float) -> None:
        """Advance the time; wake sleepers in order and let each run before the next."""
        end_ns = self._now_ns + round(seconds * 1_000_000_000)
        await _settle()
        while self._sleepers and self._sleepers[0][0] <= end_ns:
            deadline_ns, _, woken = heapq.heappop(self._sleepers)
            self._now_ns = max(self._now_ns, deadline_ns)
            if not woken.done():
                woken.set_result(None)
                await _settle()
        self._now_ns = end_ns
        await _settle()

    def next_wake_ns(self) -> int | None:
        """The earliest deadline of a sleeper (monotonic); None if there is none."""
        waiting = [entry for entry in self._sleepers if not entry[2].done()]
        return min(waiting)[0] if waiting else None


# How many iterations of the loop a woken task may need before it sleeps again or ends. A task that
# resumes another through a future needs two each; chains in penstock are short.
_TURNS = 20


async def _settle() -> None:
    for _ in range(_TURNS):
        await asyncio.sleep(0)
