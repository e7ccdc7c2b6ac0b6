"""A publisher within one process; each subscription has its own bounded queue."""

import asyncio
from collections import deque
from collections.abc import Sequence

from penstock.config import Settings
from penstock.errors import ConfigError
from penstock.publish import OpenPublisher, Published, PublishedCounts


def prepare(address: str, settings: Settings) -> OpenPublisher:  # noqa: ARG001
    """A publisher for subscribers in the same process; ``memory:`` is the whole URL."""
    if address:
        problem = f"memory:{address}: a publisher in memory has no address."
        raise ConfigError("publish.urls", problem=problem, origin="settings")
    return lambda _: MemoryPublisher()


class MemorySubscription:
    """The queue of one subscriber. When it is full, new messages are dropped and counted."""

    def __init__(self, prefix: str, capacity: int) -> None:
        self.prefix, self.capacity = prefix, capacity
        self.dropped = 0
        self._waiting: deque[Published] = deque()
        self._some = asyncio.Event()

    def offer(self, message: Published) -> bool:
        """Queue a message; return whether there was room."""
        if len(self._waiting) >= self.capacity:
            self.dropped += 1
            return False
        self._waiting.append(message)
        self._some.set()
        return True

    def take(self) -> list[Published]:
        """Return all queued messages, perhaps none."""
        taken = list(self._waiting)
        self._waiting.clear()
        self._some.clear()
        return taken

    async def receive(self) -> list[Published]:
        """Wait until a message is queued, and return all queued messages."""
        await self._some.wait()
        return self.take()


class MemoryPublisher:
    """Delivers messages to the subscriptions whose prefix matches their topic."""

    def __init__(self) -> None:
        self.counts = PublishedCounts()
        self._subscriptions: list[MemorySubscription] = []

    def subscribe(self, prefix: str = "", capacity: int = 10_000) -> MemorySubscription:
        """Subscribe to every topic with this prefix, from now on."""
        subscription = MemorySubscription(prefix, capacity)
        self._subscriptions.append(subscription)
        return subscription

    def unsubscribe(self, subscription: MemorySubscription) -> None:
        self._subscriptions.remove(subscription)

    def publish(self, messages: Sequence[Published]) -> None:
        if not self._subscriptions:
            self.counts.unheard += len(messages)
            return
        self.counts.published += len(messages)
        for subscription in self._subscriptions:
            for message in messages:
                if message.topic.startswith(subscription.prefix):
                    self.counts.dropped += not subscription.offer(message)

    async def run(self) -> None:
        """Nothing: there is no work beside publishing."""

    def close(self) -> None:
        self._subscriptions.clear()
