"""The recorder: log first, publish second, then the taps.

Nothing is published that is not written, and only what was new is published. Whoever listens may
fail without harm: the records are in the log, under their numbers.

Appending happens on the event loop: RocksDB's writes are short, and its binding holds the
interpreter's lock meanwhile, so another thread would not free the loop, only cost more. Waiting for
the disk (``synced``) is long and does let others run: that goes to a thread.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

from penstock.market.events import AnyEvent
from penstock.publish import Publisher
from penstock.storage.log import Durability, LogWriter, Stored
from penstock.telemetry import Listener, ListenerFailed, quiet

Tap = Callable[[Sequence[Stored]], None]
"""Is given every batch of new records, in order per stream, once written and published."""


class Recorder:
    """The one way into the log. For one event loop; the log stays its owner's to close.

    With ``flushed``, records survive the end of this process at once, and a power cut once somebody
    has called ``sync``. With ``synced`` they survive both at once.
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
        self.durability, self._tell = durability, listener
        self._one_at_a_time = asyncio.Lock()
        self._disk = ThreadPoolExecutor(1, "recorder")
        self._batches = self._synced = 0
        """Batches that were recorded, and how many of those are known to be on the disk."""
        self._syncing: asyncio.Task[None] | None = None

    async def record(self, events: Sequence[AnyEvent]) -> list[Stored]:
        """Record a batch; when this returns, what is new is durable, published and tapped.

        Blocks the loop about 4 µs per event, so give it hundreds at a time rather than millions.
        Batches are recorded in the order of the calls. One that is cancelled is recorded
        nevertheless.

        Raises:
            StorageError: it was not recorded; the same events may be given again.
            UnusableId: an event cannot be keyed; nothing was recorded.
        """
        if self.durability == "flushed":
            stored = self._log.append(events)
            self._batches += bool(stored) and self._log.on_disk
            self._hand_on(stored)
            return stored
        # In a task of its own: if the caller is cancelled while the disk works, the numbers are
        # given already and the next batch must not overtake this one.
        return await asyncio.shield(asyncio.create_task(self._record_synced(events)))

    async def sync(self) -> None:
        """Wait until all that was recorded before this call survives a power cut.

        Whatever claims records (a cursor, a status) is written after this. All who wait while the
        disk works share the next sync, and it costs nothing if nothing was recorded since the last.

        Raises:
            StorageError: they may not survive one.
        """
        wanted = self._batches
        while self._synced < wanted:
            if self._syncing is None:
                self._syncing = asyncio.create_task(self._sync_all())
            await asyncio.shield(self._syncing)

    def sync_now(self) -> None:
        """The same, and nothing else happens meanwhile: for the beginning and the end.

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

    async def _record_synced(self, events: Sequence[AnyEvent]) -> list[Stored]:
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
                self._count_failure(getattr(tap, "__qualname__", repr(tap)), error)

    def _count_failure(self, name: str, error: Exception) -> None:
        self.failures[name] += 1
        self._tell(ListenerFailed(listener=name, error=repr(error)))

    def close(self) -> None:
        """Wait for what is being written."""
        self._disk.shutdown()
