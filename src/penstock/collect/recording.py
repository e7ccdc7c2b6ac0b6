"""Records events, and retries while the disk is full.

While the log cannot be written, batches wait in memory, in order, and the first of them is retried.
Sessions stop reading from their sockets once too many events wait, so memory is bounded; what the
exchange then does not deliver shows as missing ids.
"""

import asyncio
import shutil
from collections.abc import Callable, Sequence
from itertools import count
from pathlib import Path
from random import random

from penstock.clock import Clock, wait_for
from penstock.collect.facts import LogUnwritable, LogWritable
from penstock.errors import LogDamaged, StorageError, StorageFull
from penstock.market.events import Event
from penstock.recorder import Recorder
from penstock.resilience.backoff import Backoff
from penstock.storage.log import Stored
from penstock.telemetry import Listener, quiet

# Every attempt reopens the log, which takes some tenths of a second.
_AGAIN = Backoff(first_s=0.5, longest_s=5.0)
_EMIT_EVERY_NS = 30_000_000_000


class RetryingRecorder:
    """Records; while the log cannot be written, retries. For one event loop."""

    def __init__(
        self,
        recorder: Recorder,
        exchange: str,
        folder: Path,
        clock: Clock,
        emit: Listener = quiet,
        recovered: Callable[[Sequence[Event]], None] = lambda _: None,
    ) -> None:
        """``recovered`` receives batches that failed once: parts may have been recorded then."""
        self.gathered: Callable[[], int] = lambda: 0
        """Returns how many events the callers have not handed over yet."""
        self._recorder, self._exchange, self._folder = recorder, exchange, folder
        self._clock, self._emit, self._recovered = clock, emit, recovered
        self._turn = asyncio.Lock()
        self._given_up = asyncio.Event()
        self._tasks: set[asyncio.Task[list[Stored]]] = set()
        self._held = 0
        self._failure: StorageError | None = None
        self._loss: BaseException | None = None
        """The error of a batch that was never recorded."""
        self._failed_ns = self._emitted_ns = 0

    @property
    def waiting(self) -> int:
        """Events that were handed over and are not recorded yet."""
        return self._held

    def trouble(self) -> str:
        """Why the log cannot be written; "" if it can."""
        failure = self._failure
        if failure is None:
            return ""
        what = "disk full" if isinstance(failure, StorageFull) else "the log cannot be written"
        free = self._free_bytes()
        left = "" if free is None else f", {free:,} bytes free"
        waiting = self._held + self.gathered()
        return f"{what}: {self._folder}{left}: {waiting:,} records wait ({failure.problem})"

    async def record(self, events: Sequence[Event]) -> list[Stored]:
        """Record a batch; return once it is recorded. A cancelled call is still recorded.

        Raises:
            StorageError: it cannot be recorded, and ``give_up`` was called.
            LogDamaged: the slot has to be repaired first.
            SlotInUse: another process took over the slot while it could not be written.
        """
        failure: StorageError | None = None
        if self._recorder.durability == "flushed" and not self._tasks:
            # The usual case. It never waits, so it cannot be cancelled half-way.
            try:
                return await self._recorder.record(events)
            except LogDamaged:
                raise  # a retry does not help
            except StorageError as error:
                failure = error
        task = asyncio.create_task(self._in_turn(events, failure))
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return await asyncio.shield(task)

    async def sync(self) -> None:
        """Wait until everything recorded before this call survives a power cut.

        Raises:
            StorageError: it may not survive one.
        """
        await self._recorder.sync()

    def sync_now(self) -> None:
        """The same, blocking the event loop.

        Raises:
            StorageError: it may not survive one.
        """
        self._recorder.sync_now()

    def give_up(self) -> None:
        """Stop retrying: what cannot be recorded at the next attempt is lost."""
        self._given_up.set()

    async def settle(self) -> None:
        """Wait for batches whose callers were cancelled.

        Raises:
            StorageError: one of them could not be recorded.
        """
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._loss is not None:
            raise self._loss

    def _ended(self, task: asyncio.Task[list[Stored]]) -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            failure = task.exception()  # retrieved in any case: its caller may be gone
            self._loss = self._loss or failure

    async def _in_turn(self, events: Sequence[Event], failure: StorageError | None) -> list[Stored]:
        self._held += len(events)
        try:
            async with self._turn:
                return await self._until_recorded(events, failure)
        finally:
            self._held -= len(events)

    async def _until_recorded(
        self, events: Sequence[Event], failure: StorageError | None
    ) -> list[Stored]:
        has_failed = failure is not None
        for retry in count():
            if failure is None:
                try:
                    stored = await self._recorder.record(events)
                except LogDamaged:
                    raise
                except StorageError as error:
                    failure, has_failed = error, True
                else:
                    self._succeeded()
                    if has_failed:
                        self._recovered(events)
                    return stored
            self._failed(failure)
            if self._given_up.is_set():
                raise failure
            await wait_for(self._given_up, self._clock, _AGAIN.delay(retry, random()))
            failure = None
        raise AssertionError("counting never ends")

    def _failed(self, failure: StorageError) -> None:
        now_ns = self._clock.monotonic_ns()
        is_new = self._failure is None
        self._failure = failure
        if is_new:
            self._failed_ns = now_ns
        if is_new or now_ns - self._emitted_ns >= _EMIT_EVERY_NS:
            self._emitted_ns = now_ns
            self._emit(
                LogUnwritable(
                    exchange=self._exchange,
                    path=str(self._folder),
                    reason=str(failure),
                    free_bytes=self._free_bytes(),
                    waiting=self._held + self.gathered(),
                )
            )

    def _succeeded(self) -> None:
        if self._failure is None:
            return
        self._failure = None
        after_s = (self._clock.monotonic_ns() - self._failed_ns) / 1_000_000_000
        path = str(self._folder)
        self._emit(LogWritable(exchange=self._exchange, path=path, after_s=round(after_s, 1)))

    def _free_bytes(self) -> int | None:
        try:
            return shutil.disk_usage(self._folder).free
        except OSError:
            return None
