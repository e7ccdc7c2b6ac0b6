"""All publishers of a process as one."""

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import partial

from penstock.errors import ConfigError, PenstockError
from penstock.publish import ImmediatePublisher, Published, PublishedCounts, PublishedSlot
from penstock.publish.by_url import PreparedPublisher
from penstock.publish.queued import QueuedPublisher
from penstock.recorder import ListenerFailed

_EMIT_EVERY_NS = 10_000_000_000


class Publishers:
    """Passes messages to each publisher; the failure of one affects neither others nor the caller.

    For one event loop, which must be running.
    """

    def __init__(
        self, prepared: Sequence[PreparedPublisher], source: PublishedSlot, capacity: int
    ) -> None:
        """``capacity`` is the number of messages that may wait for a publisher that waits.

        Raises:
            ConfigError: one cannot be opened; none is then.
        """
        self._opened: list[_OpenPublisher] = []
        try:
            for each in prepared:
                self._opened.append(_OpenPublisher(each, source, capacity))
        except BaseException:
            self.close()
            raise

    def __iter__(self) -> Iterator[ImmediatePublisher]:
        """The open publishers, in the order of their URLs."""
        return (each.publisher for each in self._opened)

    def publish(self, messages: Sequence[Published]) -> None:
        for each in self._opened:
            each.publish(messages)

    def counts(self) -> dict[str, PublishedCounts]:
        """The counts of each publisher, by name."""
        return {each.name: each.publisher.counts for each in self._opened}

    def total(self) -> PublishedCounts:
        """The counts of all publishers together."""
        found = [each.publisher.counts for each in self._opened]
        return PublishedCounts(
            sum(counts.published for counts in found),
            sum(counts.dropped for counts in found),
            sum(counts.unheard for counts in found),
        )

    def close(self) -> None:
        for each in self._opened:
            each.close()


class _OpenPublisher:
    """One publisher, guarded."""

    def __init__(self, prepared: PreparedPublisher, source: PublishedSlot, capacity: int) -> None:
        self.name = prepared.name
        self._emit, self._clock = source.listener, source.clock
        self._emitted_ns: int | None = None
        self.publisher = self._open(prepared, source, capacity)
        self._running = asyncio.create_task(self._run())

    def _open(
        self, prepared: PreparedPublisher, source: PublishedSlot, capacity: int
    ) -> ImmediatePublisher:
        try:
            opened = prepared.open(source)
        except PenstockError:
            raise
        except Exception as error:
            problem = f"the publisher {prepared.name} cannot be opened: {error!r}"
            raise ConfigError("publish.urls", problem=problem, origin="settings") from error
        if isinstance(opened, ImmediatePublisher):
            return opened
        loop = asyncio.get_running_loop()

        def failed(error: Exception) -> None:
            with suppress(RuntimeError):  # the loop has ended
                loop.call_soon_threadsafe(partial(self._failed, error))

        return QueuedPublisher(opened, prepared.name, capacity, failed)

    def publish(self, messages: Sequence[Published]) -> None:
        try:
            self.publisher.publish(messages)
        except Exception as error:
            self.publisher.counts.dropped += len(messages)
            self._failed(error)

    async def _run(self) -> None:
        try:
            await self.publisher.run()
        except Exception as error:
            self._failed(error)

    def _failed(self, error: Exception) -> None:
        """Log an error, but not more often than every ten seconds."""
        now_ns = self._clock.monotonic_ns()
        if self._emitted_ns is None or now_ns - self._emitted_ns >= _EMIT_EVERY_NS:
            self._emitted_ns = now_ns
            self._emit(ListenerFailed(listener=self.name, error=repr(error)))

    def close(self) -> None:
        self._running.cancel()
        try:
            self.publisher.close()
        except Exception as error:
            self._failed(error)
