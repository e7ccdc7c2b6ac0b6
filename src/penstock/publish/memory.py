"""Publishing within one process, each listener with a bounded queue of its own."""

import asyncio
from collections import deque
from collections.abc import Sequence

from penstock.publish import Published


class MemorySubscription:
    """What one listener has yet to take. When it is full, what comes is dropped and counted."""

    def __init__(self, prefix: str, capacity: int) -> None:
        self.prefix, self.capacity = prefix, capacity
        self.dropped = 0
        self._waiting: deque[Published] = deque()
        self._some = asyncio.Event()

    def offer(self, message: Published) -> None:
        if len(self._waiting) >= self.capacity:
            self.dropped += 1
            return
        self._waiting.append(message)
        self._some.set()

    def take(self) -> list[Published]:
        """Everything that is waiting, perhaps nothing."""
        taken = list(self._waiting)
        self._waiting.clear()
        self._some.clear()
        return taken

    async def receive(self) -> list[Published]:
        """Everything that is waiting; waits until there is something."""
        await self._some.wait()
        return self.take()


class MemoryPublisher:
    """Hands messages to subscriptions whose prefix begins their topic."""

    def __init__(self) -> None:
        self._subscriptions: list[MemorySubscription] = []

    def subscribe(self, prefix: str = "", capacity: int = 10_000) -> MemorySubscription:
        """Listen from now on to every topic that begins so."""
        subscription = MemorySubscription(prefix, capacity)
        self._subscriptions.append(subscription)
        return subscription

    def unsubscribe(self, subscription: MemorySubscription) -> None:
        self._subscriptions.remove(subscription)

    def publish(self, messages: Sequence[Published]) -> None:
        for subscription in self._subscriptions:
            for message in messages:
                if message.topic.startswith(subscription.prefix):
                    subscription.offer(message)

    def close(self) -> None:
        self._subscriptions.clear()
