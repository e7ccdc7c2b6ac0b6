"""Reads topics while they are watched, and publishes what was read to the hub.

Each watched topic has a task. It goes on for a few seconds after its last viewer has left, so that
a viewer who comes back, or reloads the page, finds an update at once.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

from penstock.api.live_hub import LiveHub, Viewer
from penstock.clock import Clock

MOST_TOPICS = 1024
"""Topics that are read at the same time, as many as all viewers together can watch."""
LINGER_S = 5.0
"""A topic is read for this long after its last viewer has left."""
FAILED_S = 1.0
"""A topic that cannot be read is tried again after this time, or its period if that is longer."""
_READ_S = 10.0


class ReadFailed(Exception):
    """A topic cannot be read; the message is shown to its viewers."""


@dataclass(frozen=True)
class Feed:
    """How a topic is read."""

    period_s: float
    read: Callable[[], Awaitable[object]]
    """Raises ``ReadFailed``, and nothing else."""


class LiveFeeds:
    """The viewers and the topics that are read for them, for one event loop."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._hub = LiveHub()
        self._reading: dict[str, asyncio.Task[None]] = {}
        """By topic, the one that began first comes first."""
        self._ending: set[asyncio.Task[None]] = set()
        self.started_ms = clock.now_ms()
        self.viewers = 0

    @property
    def topics(self) -> frozenset[str]:
        """The topics that are being read."""
        return frozenset(self._reading)

    def watch(self, viewer: Viewer, feeds: Mapping[str, Feed]) -> None:
        """Replace the topics of a viewer."""
        self._hub.watch(viewer, feeds)
        for topic, feed in feeds.items():
            if topic not in self._reading:
                if len(self._reading) >= MOST_TOPICS:
                    self._make_room()
                self._reading[topic] = asyncio.create_task(self._run(topic, feed))

    def leave(self, viewer: Viewer) -> None:
        """Remove a viewer that has disconnected."""
        self._hub.watch(viewer, ())

    async def close(self) -> None:
        """Stop to read."""
        tasks = [*self._reading.values(), *self._ending]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _run(self, topic: str, feed: Feed) -> None:
        watched_ns = self._clock.monotonic_ns()
        try:
            while True:
                begun_ns = self._clock.monotonic_ns()
                if self._hub.is_watched(topic):
                    watched_ns = begun_ns
                elif begun_ns - watched_ns > LINGER_S * 1e9:
                    return
                pause_s = await self._update(topic, feed)
                took_s = (self._clock.monotonic_ns() - begun_ns) / 1e9
                # A topic that takes long to read leaves time for others.
                await self._clock.sleep(max(pause_s - took_s, pause_s / 2))
        finally:
            if self._reading.get(topic) is asyncio.current_task():
                self._forget(topic)

    def _make_room(self) -> None:
        """End the topic that is read for nobody and began first; there is one."""
        topic = next(each for each in self._reading if not self._hub.is_watched(each))
        task = self._forget(topic)
        task.cancel()
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)

    def _forget(self, topic: str) -> asyncio.Task[None]:
        self._hub.forget(topic)
        return self._reading.pop(topic)

    async def _update(self, topic: str, feed: Feed) -> float:
        """Read a topic once; return the seconds until the next time."""
        try:
            async with asyncio.timeout(_READ_S):
                found = await feed.read()
        except TimeoutError:
            self._hub.fail(topic, self._clock.now_ms(), f"It took more than {_READ_S:g} s.")
        except ReadFailed as error:
            self._hub.fail(topic, self._clock.now_ms(), str(error))
        else:
            self._hub.publish(topic, self._clock.now_ms(), found)
            return feed.period_s
        return max(feed.period_s, FAILED_S)
