"""The recorder writes events to the log, then publishes them, then calls the taps.

Only records that are written and new are published. The publisher and taps may fail without loss:
the records are in the log, under their numbers.

Appending runs on the event loop: RocksDB's writes are short, and its binding holds the
interpreter's lock meanwhile, so another thread would not free the loop, only cost more. Waiting for
the disk (``synced``) is long and releases the lock: it runs in a thread.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import ClassVar

from penstock.market.events import Event
from penstock.publish import Publisher
from penstock.storage.log import Durability, LogWriter, Stored
from penstock.telemetry import Fact, Level, Listener, quiet


class ListenerFailed(Fact, frozen=True, kw_only=True):
    """A listener for new records raised; the records are stored, other listeners received them."""

    level: ClassVar[Level] = "error"

    listener: str
    error: str


Tap = Callable[[Sequence[Stored]], None]
"""Called with every batch of new records, in order per stream, once written and published."""


class Recorder:
    """The only way to write to the log. For one event loop; the caller closes the log.

    With ``flushed``, records survive the end of this process at once, and a power cut after the
    next ``sync``. With ``synced`` they survive both at once.
    """

    def __init__(
        self,
        log: LogWriter,
        publisher: Publisher | None = None,
        taps: Sequence[Tap] = (),
        *,
        durability: Durability = "flushed",
        listener: Listener = quiet,
    ) -> None:
        self.failures: Counter[str] = Counter()
        """How often the publisher and each tap raised, by name."""
        self._log, self._publisher, self._taps = log, publisher, tuple(taps)
        self.durability, self._emit = durability, listener
        self._one_at_a_time = asyncio.Lock()
        self._disk = ThreadPoolExecutor(1, "recorder")
        self._batches = self._synced = 0
        """The number of recorded batches, and how many of those are known to be on the disk."""
        self._syncing: asyncio.Task[None] | None = None

    async def record(self, events: Sequence[Event]) -> list[Stored]:
        """Record a batch; new records are then durable, published and passed to the taps.

        Blocks the loop about 4 µs per event, so pass hundreds at a time rather than millions.
        Batches are recorded in the order of the calls. A cancelled call still records its batch.

        Raises:
            StorageError: it was not recorded; the same events may be passed again.
            UnusableId: an event cannot be keyed; nothing was recorded.
        """
        if self.durability == "flushed":
            stored = self._log.append(events)
            self._batches += bool(stored) and self._log.on_disk
            self._hand_on(stored)
            return stored
        # In its own task: if the caller is cancelled during the sync, the numbers are already
        # assigned and the next batch must not overtake this one.
        return await asyncio.shield(asyncio.create_task(self._record_synced(events)))

    async def sync(self) -> None:
        """Wait until everything recorded before this call survives a power cut.

        Whatever refers to records (a cursor, a status) is written after this. Calls during a sync
        share the next one; a call costs nothing if nothing was recorded since the last.

        Raises:
            StorageError: they may not survive one.
        """
        wanted = self._batches
        while self._synced < wanted:
            if self._syncing is None:
                self._syncing = asyncio.create_task(self._sync_all())
            await asyncio.shield(self._syncing)

    def sync_now(self) -> None:
        """The same, but blocking the loop: for start-up and shutdown.

        Raises:
            StorageError: they may not survive a power cut.
        """
        if self._synced < self._batches:
            self._log.sync()
            self._synced = self._batches

    async def _sync_all(self) -> None:
        batches = self._batches
        try:
            await asyncio.get_running_loop().run_in_executor(self._disk, self._log.sync)
            self._synced = max(self._synced, batches)
        finally:
            self._syncing = None

    async def _record_synced(self, events: Sequence[Event]) -> list[Stored]:
        async with self._one_at_a_time:
            stored = self._log.append(events)
            if stored:
                loop = asyncio.get_running_loop()
                await loop.run_in_executor(self._disk, self._log.sync)
            self._hand_on(stored)
        return stored

    def _hand_on(self, stored: list[Stored]) -> None:
        if not stored:
            return
        if self._publisher is not None:
            try:
                self._publisher.publish(stored)
            except Exception as error:
                self._count_failure("publisher", error)
        for tap in self._taps:
            try:
                tap(stored)
            except Exception as error:
                self.tap_failed(tap, error)

    def tap_failed(self, tap: Callable[..., None], error: Exception) -> None:
        """Count and report that a tap raised, or what a tap calls."""
        self._count_failure(getattr(tap, "__qualname__", repr(tap)), error)

    def _count_failure(self, name: str, error: Exception) -> None:
        self.failures[name] += 1
        self._emit(ListenerFailed(listener=name, error=repr(error)))

    def close(self) -> None:
        """Wait for running writes."""
        self._disk.shutdown()
