"""A process: its name, status and state store, and if it writes records, its slot of the log."""

import asyncio
import secrets
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack, closing
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Self

from msgspec.structs import replace

from penstock.clock import Clock
from penstock.config import Settings
from penstock.publish import PublishedCounts, PublishedSlot
from penstock.publish.by_url import prepare_publishers
from penstock.publish.endpoints import log_id
from penstock.recorder import Recorder, Tap
from penstock.runtime.heartbeat import Heartbeat, Identified
from penstock.runtime.publishers import Publishers
from penstock.runtime.slots import free_slot
from penstock.runtime.startup import until_possible
from penstock.runtime.status import (
    Health,
    ProcessStatus,
    Report,
    shortened,
    slot_status_id,
    this_machine,
)
from penstock.runtime.stores import configured_log, open_state
from penstock.storage.log import LogWriter, Stored
from penstock.storage.state import StateStore
from penstock.telemetry import Listener, StatusUnwritable, quiet

_OPEN_AGAIN_S = 5.0


class Process:
    """Entered by every process, with ``async with``; what it opened is closed at the end.

    Its status is written to the state store from the time that is open: ``starting`` until
    ``report`` is set, then what that returns, and at the end ``stopped`` or ``failed``.
    """

    def __init__(
        self, kind: str, settings: Settings, clock: Clock, listener: Listener = quiet
    ) -> None:
        self.kind, self.settings, self.clock, self.listener = kind, settings, clock, listener
        self.folder = Path(settings.collect.data_dir)
        self.name = ""
        """Unique in the data folder; the status is not written before it is set."""
        self.stack = AsyncExitStack()
        """Closes what else belongs to the process, in reverse order."""
        self._report: Callable[[], Report] | None = None
        self._ended: Report | None = None
        self._started_ms = clock.now_ms()
        self._activity: int | None = None
        self._last_data_ms: int | None = None
        self._heartbeat = Heartbeat(self._identified, clock, listener)
        self._tasks: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> Self:
        await self.stack.__aenter__()
        self._tasks.append(asyncio.create_task(self._heartbeat.run()))
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            await self._end_tasks()
            self._ended = self._last_report(error)
            await self._heartbeat.finish()
        finally:
            await self.stack.__aexit__(kind, error, trace)

    def running(self, report: Callable[[], Report]) -> None:
        """From now on, write what ``report`` returns every few seconds."""
        self._report = report
        self._heartbeat.due.set()

    async def open_state(self, failed: Callable[[Exception], None] | None = None) -> StateStore:
        """Open the state store. With ``failed`` it is retried until it answers.

        ``failed`` receives the error of each attempt.

        Raises:
            ConfigError, MissingExtra: its URL is invalid, or needs a library that is not installed.
            StoreUnreachable, NewerStore: it cannot be opened.
        """
        opening = partial(open_state, self.settings, self.clock)
        if failed is None:
            store = await self.stack.enter_async_context(opening())
        else:
            store = await until_possible(
                lambda: self.stack.enter_async_context(opening()), self.clock, failed
            )
        self._heartbeat.store = store
        self._heartbeat.due.set()
        return store

    def open_state_later(self) -> None:
        """Open the state store in the background, for a process that needs it for its status only.

        It is retried whatever the error is: the process works without it.
        """
        self._tasks.append(asyncio.create_task(self._open_state_later()))

    async def _open_state_later(self) -> None:
        told = False
        while True:
            try:
                await self.open_state()
            except Exception as error:
                if not told:
                    self.listener(StatusUnwritable(slot=self.name, reason=str(error)))
                told = True
            else:
                return
            await self.clock.sleep(_OPEN_AGAIN_S)

    async def _end_tasks(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _status_id(self) -> str:
        """The id of its status. No other process that runs has the same."""
        host, _ = this_machine()
        return f"{host}:{self.folder.resolve()}/{self.name}"

    def _published(self) -> Mapping[str, PublishedCounts]:
        return {}

    def _last_report(self, error: BaseException | None) -> Report:
        before = self._current_report()
        if isinstance(error, Exception):
            why = f"{type(error).__name__}: {error}"
            return replace(before, state="failed", problems=(why, *before.problems))
        return replace(before, state="stopped")

    def _current_report(self) -> Report:
        if self._ended is not None:
            return self._ended
        return self._report() if self._report is not None else Report(doing="", state="starting")

    def _identified(self) -> Identified | None:
        if not self.name:
            return None
        now_ms, (host, pid), report = self.clock.now_ms(), this_machine(), self._current_report()
        if report.activity is not None and report.activity != (self._activity or 0):
            self._activity, self._last_data_ms = report.activity, now_ms
        status = ProcessStatus(
            kind=self.kind,
            name=self.name,
            host=host,
            pid=pid,
            folder=str(self.folder.resolve()),
            started_ms=self._started_ms,
            at_ms=now_ms,
            state=report.state,
            doing=report.doing,
            last_data_ms=self._last_data_ms,
            health=_health(report),
            problems=shortened(report.problems),
            published=self._published(),
        )
        return Identified(self._status_id(), status)


def _health(report: Report) -> Health:
    if report.state == "failed":
        return "failed"
    return "impaired" if report.problems else "healthy"


class RecordingProcess(Process):
    """A process that owns a slot of the log, and publishes what it records there."""

    def __init__(
        self, kind: str, settings: Settings, clock: Clock, listener: Listener = quiet
    ) -> None:
        """Check the URLs of the log and of the publishers. Nothing is opened or changed.

        Raises:
            ConfigError: one of them is invalid.
        """
        super().__init__(kind, settings, clock, listener)
        self.log = configured_log(settings)
        self._prepared = prepare_publishers(settings)
        self._writer: LogWriter | None = None
        self._log_id: int | None = None
        self._publishers: Publishers | None = None
        self._recorded = 0

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
        return self._writer or self._own(self.log.writer(slot))

    def own_free_slot(self, name: str) -> LogWriter:
        """Open the first slot with this name and a number that no process owns.

        Raises:
            StorageError: it cannot be opened.
        """
        return self._own(free_slot(self.log, name))

    def _own(self, writer: LogWriter) -> LogWriter:
        self._writer = self.stack.enter_context(closing(writer))
        self.name = writer.slot
        return writer

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
        self._publishers = self.stack.enter_context(closing(publishers))
        recorder = Recorder(
            writer,
            publishers,
            (*taps, self._count_recorded),
            durability=self.settings.collect.durability,
            listener=self.listener,
        )
        self.stack.enter_context(closing(recorder))
        return recorder, publishers

    def _count_recorded(self, recorded: Sequence[Stored]) -> None:
        self._recorded += len(recorded)

    def _status_id(self) -> str:
        return slot_status_id(self.log_id, self.name)

    def _published(self) -> Mapping[str, PublishedCounts]:
        return self._publishers.counts() if self._publishers is not None else {}

    def _current_report(self) -> Report:
        return replace(super()._current_report(), activity=self._recorded)
