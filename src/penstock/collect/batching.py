"""Determines when a batch is written: at once at low load, with more events under load.

A message that arrives alone is written and published within a fraction of a millisecond. While more
are waiting on the sockets they are gathered into one batch, until it is full or has waited for
``latest_s``. Every write has a fixed cost, more than that of ten messages. So the next batch is
gathered for as long as the last write took, and longer the more messages arrive per second, up to
three eighths of ``latest_s``: the busier the process, the larger its batches. After a full batch
there is no such pause: more than that only leaves the processor's caches before it is written.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from math import exp
from typing import Protocol

from penstock.clock import Clock
from penstock.config import Collect
from penstock.market.events import Event

FULL = 2_000
"""With this many frames and events waiting, a batch is written without waiting for more."""
_MANY = 150
"""With fewer waiting after a pause, a batch is written: the sockets were read meanwhile."""
_LONGEST = 3 / 8
"""Of ``latest_s``: for so long batches are gathered …"""
_FREQUENT = 5_000
"""… with this many messages per second."""
_RATE_NS = 100_000_000
"""The time over which the rate of messages is averaged."""
_SECOND_NS = 1_000_000_000


@dataclass(frozen=True)
class Flushing:
    """How events are gathered into batches."""

    latest_s: float = 0.02
    """No event waits longer than this for others."""
    least_s: float = 0.0
    """Minimum seconds between two writes."""
    most_waiting: int = 50_000
    """With this many events not recorded yet, reading from the sockets pauses."""


def flushing_by(settings: Collect) -> Flushing:
    """The options from the settings."""
    return Flushing(settings.flush_ms / 1000, settings.flush_min_ms / 1000)


class Batching:
    """Determines when the next batch is due. One task waits; any task may call ``arrived``."""

    def __init__(self, flushing: Flushing, clock: Clock) -> None:
        self._latest_ns = round(flushing.latest_s * _SECOND_NS)
        self._least_ns = round(flushing.least_s * _SECOND_NS)
        self._clock = clock
        self._per_s = 0.0
        """Messages per second, lately."""
        self._was_full = False
        """Whether the last batch was full."""
        self._something = asyncio.Event()
        self._began_ns = self._ended_ns = clock.monotonic_ns()

    def arrived(self) -> None:
        """Note that there is something to write."""
        self._something.set()

    async def due(self, waiting: Callable[[], int]) -> None:
        """Wait until a batch is due; ``waiting`` returns its current size."""
        now_ns = self._clock.monotonic_ns
        await self._something.wait()
        first_ns = now_ns()
        pause_ns, rest_ns = self._least_ns, 0
        if not self._was_full:
            pause_ns = max(pause_ns, self._pause_ns())
            rest_ns = min(self._latest_ns, self._ended_ns - self._began_ns)
        free_ns = max(self._began_ns + pause_ns, self._ended_ns + rest_ns)
        if free_ns > first_ns:
            await self._clock.sleep((free_ns - first_ns) / _SECOND_NS)
        size = waiting() if free_ns > first_ns else _MANY
        if size >= _MANY:
            until_ns = max(free_ns, first_ns + self._latest_ns)
            size = await settled(self._clock, waiting, until_ns)
        self._something.clear()
        self._was_full = size >= FULL
        before_ns, self._began_ns = self._began_ns, now_ns()
        forgotten = exp((before_ns - self._began_ns) / _RATE_NS)
        self._per_s = self._per_s * forgotten + size * _SECOND_NS / _RATE_NS

    def _pause_ns(self) -> int:
        """The time between the beginnings of two batches.

        It grows with the rate, so that a message that is one of a few waits little.
        """
        share = min(1.0, self._per_s / _FREQUENT)
        return round(self._latest_ns * _LONGEST * share)

    def written(self) -> None:
        """Note that the batch is written."""
        self._ended_ns = self._clock.monotonic_ns()


class Source(Protocol):
    """Where the events of a batch come from, such as a session."""

    def waiting(self) -> int:
        """How many frames and events wait to be written."""
        ...

    def take(self) -> list[Event]:
        """Take the events to be written now."""
        ...

    def written(self) -> None:
        """Note that the batch is written."""
        ...


class SharedBatching:
    """Writes the events of several sources in common batches.

    Each source runs ``run``; one of them writes for all, and another goes on when that one ends.
    Batches of their own would be smaller, and each has a fixed cost.
    """

    def __init__(self, flushing: Flushing, clock: Clock) -> None:
        self._batching, self._turn = Batching(flushing, clock), asyncio.Lock()
        self._sources: list[Source] = []

    def arrived(self) -> None:
        """Note that there is something to write."""
        self._batching.arrived()

    async def run(self, source: Source, write: Callable[[list[Event]], Awaitable[object]]) -> None:
        """Write the events of a source with those of all others, until it is cancelled."""
        self._sources.append(source)
        try:
            async with self._turn:
                while True:
                    await self._batching.due(self._waiting)
                    sources = list(self._sources)
                    events = sources[0].take()
                    for other in sources[1:]:
                        events += other.take()
                    if events:
                        await write(events)
                    for each in sources:
                        each.written()
                    self._batching.written()
        finally:
            self._sources.remove(source)

    def _waiting(self) -> int:
        return sum([each.waiting() for each in self._sources])


async def settled(clock: Clock, waiting: Callable[[], int], until_ns: int) -> int:
    """Wait until no more frames arrive, a batch is full, or ``until_ns`` is reached.

    Returns what waits then.
    """
    seen, now = -1, waiting()
    while now != seen and now < FULL and clock.monotonic_ns() < until_ns:
        # One iteration of the event loop, in which every readable socket is read.
        await clock.sleep(0)
        seen, now = now, waiting()
    return now
