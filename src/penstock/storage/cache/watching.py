"""Distributes changes of live values to subscriptions.

A subscription keeps the newest value of each key until it is read, so it needs no more memory than
there are keys, however slow its reader is. What expires meanwhile is not delivered.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from random import random

from penstock.clock import Clock
from penstock.errors import PenstockError
from penstock.resilience.backoff import Backoff
from penstock.storage.cache.facts import LiveChangesLost
from penstock.storage.cache.values import LiveValue, replaces
from penstock.telemetry import Listener

Deliver = Callable[[Sequence[LiveValue]], None]
Watch = Callable[[Deliver], Awaitable[None]]
"""Delivers all present values and then every change, for ever."""

_BACKOFF = Backoff(first_s=0.1, longest_s=2.0)
_CANCEL_S = 0.1
_FORGET_NS = 60_000_000_000


class _Latest:
    """The newest value of each key, which grows older."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._values: dict[str, tuple[LiveValue, int]] = {}

    def offer(self, value: LiveValue) -> bool:
        """Keep a value unless a newer one of its key is there; return whether it was kept."""
        now_ns, known = self._clock.monotonic_ns(), self._values.get(value.key)
        if known is not None and not replaces(value.order, _at(known, now_ns).order):
            return False
        self._values[value.key] = value, now_ns
        return True

    def take(self) -> list[LiveValue]:
        """Return and forget all values that have not expired."""
        values = self.values()
        self._values.clear()
        return values

    def values(self) -> list[LiveValue]:
        """All values that have not expired."""
        now_ns = self._clock.monotonic_ns()
        aged = (_at(known, now_ns) for known in self._values.values())
        return [value for value in aged if not value.expired]

    def forget_expired(self) -> None:
        now_ns = self._clock.monotonic_ns()
        self._values = {
            key: known for key, known in self._values.items() if not _at(known, now_ns).expired
        }


def _at(known: tuple[LiveValue, int], now_ns: int) -> LiveValue:
    value, since_ns = known
    # Rounded up: a value must not seem younger than it is.
    return value.aged(-((since_ns - now_ns) // 1_000_000))


class Subscription:
    """The changes since it was last read, as batches of the newest value of each key."""

    def __init__(self, clock: Clock) -> None:
        self._latest = _Latest(clock)
        self._some = asyncio.Event()
        self._failure: BaseException | None = None

    def offer(self, values: Iterable[LiveValue]) -> None:
        for value in values:
            self._latest.offer(value)
        self._some.set()

    def fail(self, error: BaseException) -> None:
        """Raise an error in the reader: there will be no more changes."""
        self._failure = error
        self._some.set()

    async def next_batch(self) -> list[LiveValue]:
        """Wait for changes; at least one."""
        while True:
            await self._some.wait()
            if self._failure is not None:
                raise self._failure
            self._some.clear()
            if batch := self._latest.take():
                return batch

    async def __aiter__(self) -> AsyncIterator[list[LiveValue]]:
        while True:
            yield await self.next_batch()


class Watcher:
    """Watches one space of a store for as long as there are subscriptions."""

    def __init__(
        self, where: str, space: str, watch: Watch, clock: Clock, listener: Listener
    ) -> None:
        self._where, self._space, self._watch = where, space, watch
        self._clock, self._listener = clock, listener
        self._latest = _Latest(clock)
        self._subscriptions: list[Subscription] = []
        self._task: asyncio.Task[None] | None = None
        self._retries = 0
        self._forgot_ns = clock.monotonic_ns()

    def add(self) -> Subscription:
        """A subscription, which begins with the present values."""
        subscription = Subscription(self._clock)
        self._subscriptions.append(subscription)
        if self._task is None:
            self._task = asyncio.create_task(self._run())
        elif present := self._latest.values():
            subscription.offer(present)
        return subscription

    async def remove(self, subscription: Subscription) -> None:
        self._subscriptions.remove(subscription)
        if not self._subscriptions:
            await self.close()

    async def close(self, reason: Exception | None = None) -> None:
        """Watch no more; readers that still wait get the reason."""
        if reason is not None:
            self._fail(reason)
        task, self._task = self._task, None
        while task is not None and not task.done():
            # Again and again: a driver may swallow a cancellation.
            task.cancel()
            await asyncio.wait([task], timeout=_CANCEL_S)
        self._latest = _Latest(self._clock)

    async def _run(self) -> None:
        try:
            while True:
                await self._watch_once()
        except Exception as error:
            # Not a failure of the store, which is retried: readers must not wait for ever.
            self._fail(error)

    def _fail(self, error: Exception) -> None:
        for subscription in self._subscriptions:
            subscription.fail(error)

    async def _watch_once(self) -> None:
        try:
            await self._watch(self._deliver)
        except PenstockError as error:
            if not self._retries:
                self._listener(
                    LiveChangesLost(store=self._where, space=self._space, reason=str(error))
                )
            await self._clock.sleep(_BACKOFF.delay(self._retries, random()))
            self._retries += 1

    def _deliver(self, values: Sequence[LiveValue]) -> None:
        self._retries = 0
        newer = [value for value in values if self._latest.offer(value)]
        if newer:
            for subscription in self._subscriptions:
                subscription.offer(newer)
        now_ns = self._clock.monotonic_ns()
        if now_ns - self._forgot_ns >= _FORGET_NS:
            self._forgot_ns = now_ns
            self._latest.forget_expired()
