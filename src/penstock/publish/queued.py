"""Runs a publisher that may wait in a thread of its own, with a bounded queue before it."""

from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from threading import Condition, Thread

from penstock.publish import Published, PublishedCounts, Publisher

_CLOSE_S = 1.0
"""How long queued messages have to be sent at the end."""


class QueuedPublisher:
    """Queues messages and returns at once. What does not fit, or fails, is dropped and counted."""

    def __init__(
        self,
        publisher: Publisher,
        name: str,
        capacity: int,
        failed: Callable[[Exception], None] = lambda _: None,
    ) -> None:
        """``failed`` receives the error of each call that raised, in the publisher's thread."""
        self.counts = PublishedCounts()
        self._publisher, self._capacity, self._failed = publisher, capacity, failed
        self._batches: deque[Sequence[Published]] = deque()
        self._waiting = 0
        """Messages queued or being sent."""
        self._changed = Condition()
        self._closing = False
        # A daemon: a publisher that never returns must not keep the process from ending.
        self._thread = Thread(target=self._work, name=f"publisher-{name}", daemon=True)
        self._thread.start()

    def publish(self, messages: Sequence[Published]) -> None:
        with self._changed:
            room = max(0, self._capacity - self._waiting)
            taken = messages[:room]
            self.counts.dropped += len(messages) - len(taken)
            if taken:
                self._batches.append(taken)
                self._waiting += len(taken)
                self._changed.notify()

    async def run(self) -> None:
        """Nothing: the work is done by the thread."""

    def close(self) -> None:
        """End the thread; what is not sent within a second is dropped."""
        with self._changed:
            self._closing = True
            self._changed.notify()
        self._thread.join(_CLOSE_S)
        with self._changed:
            self.counts.dropped += sum(map(len, self._batches))
            self._batches.clear()

    def _work(self) -> None:
        while (batch := self._next()) is not None:
            error: Exception | None = None
            try:
                self._publisher.publish(batch)
            except Exception as raised:
                error = raised
            with self._changed:
                self._waiting -= len(batch)
                if error is None:
                    self.counts.published += len(batch)
                else:
                    self.counts.dropped += len(batch)
            if error is not None:
                self._failed(error)
        with suppress(Exception):  # it is not used any more
            self._publisher.close()

    def _next(self) -> Sequence[Published] | None:
        """The next batch; None once it is closed and nothing is queued."""
        with self._changed:
            while not self._batches and not self._closing:
                self._changed.wait()
            return self._batches.popleft() if self._batches else None
