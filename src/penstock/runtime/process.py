"""A process: its name, its state store, and for those that write records, a slot of the log."""

import secrets
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack, closing
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Self

from penstock.clock import Clock
from penstock.config import Settings
from penstock.publish import PublishedSlot
from penstock.publish.by_url import prepare_publishers
from penstock.publish.endpoints import log_id
from penstock.recorder import Recorder, Tap
from penstock.runtime.publishers import Publishers
from penstock.runtime.slots import free_slot
from penstock.runtime.startup import until_possible
from penstock.runtime.stores import configured_log, open_state
from penstock.storage.log import LogWriter
from penstock.storage.state import StateStore
from penstock.telemetry import Listener, quiet


class Process:
    """Entered by every process, with ``async with``; what it opened is closed at the end."""

    def __init__(self, settings: Settings, clock: Clock, listener: Listener = quiet) -> None:
        self.settings, self.clock, self.listener = settings, clock, listener
        self.folder = Path(settings.collect.data_dir)
        self.stack = AsyncExitStack()
        """Closes what else belongs to the process, in reverse order."""

    async def __aenter__(self) -> Self:
        await self.stack.__aenter__()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.stack.__aexit__(kind, error, trace)

    async def open_state(self, failed: Callable[[Exception], None] | None = None) -> StateStore:
        """Open the state store. With ``failed`` it is retried until it answers.

        ``failed`` receives the error of each attempt.

        Raises:
            ConfigError, MissingExtra: its URL is invalid, or needs a library that is not installed.
            StoreUnreachable, NewerStore: it cannot be opened.
        """
        opening = partial(open_state, self.settings, self.clock)
        if failed is None:
            return await self.stack.enter_async_context(opening())
        return await until_possible(
            lambda: self.stack.enter_async_context(opening()), self.clock, failed
        )


class RecordingProcess(Process):
    """A process that owns a slot of the log, and publishes what it records there."""

    def __init__(self, settings: Settings, clock: Clock, listener: Listener = quiet) -> None:
        """Check the URLs of the log and of the publishers. Nothing is opened or changed.

        Raises:
            ConfigError: one of them is invalid.
        """
        super().__init__(settings, clock, listener)
        self.log = configured_log(settings)
        self._prepared = prepare_publishers(settings)
        self._writer: LogWriter | None = None
        self._log_id: int | None = None

    @property
    def log_id(self) -> int:
        """Identifies the log, in messages and in the cursors of jobs."""
        if self._log_id is None:
            folder = self.log.folder
            self._log_id = secrets.randbits(63) if folder is None else log_id(folder)
        return self._log_id

    @property
    def owns_slot(self) -> bool:
        """Whether it owns its slot, and so may write to it and to its status."""
        return self._writer is not None

    def own_slot(self, slot: str) -> LogWriter:
        """Open a slot of the log, unless it is open already.

        Raises:
            SlotInUse: another process owns it.
            StorageError: it cannot be opened.
        """
        if self._writer is None:
            self._writer = self.stack.enter_context(closing(self.log.writer(slot)))
        return self._writer

    def own_free_slot(self, name: str) -> LogWriter:
        """Open the first slot with this name and a number that no process owns.

        Raises:
            StorageError: it cannot be opened.
        """
        self._writer = self.stack.enter_context(closing(free_slot(self.log, name)))
        return self._writer

    def open_recorder(self, taps: Sequence[Tap] = ()) -> tuple[Recorder, Publishers]:
        """Open the publishers of the slot that it owns, and the recorder.

        Raises:
            ConfigError: a publisher cannot be opened.
        """
        writer = self._writer
        assert writer is not None
        source = PublishedSlot(
            slot=writer.slot,
            log_id=self.log_id,
            numbers={str(stream): number for stream, number in writer.last_numbers().items()},
            clock=self.clock,
            listener=self.listener,
        )
        publishers = Publishers(self._prepared, source, self.settings.publish.queue)
        self.stack.enter_context(closing(publishers))
        durability = self.settings.collect.durability
        recorder = Recorder(writer, publishers, taps, durability=durability, listener=self.listener)
        self.stack.enter_context(closing(recorder))
        return recorder, publishers
