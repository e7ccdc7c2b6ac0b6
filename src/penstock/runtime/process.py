"""A process: its name, its state store, and its status there and among the live values."""

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from contextlib import AsyncExitStack, suppress
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from msgspec.structs import replace

from penstock.clock import Clock
from penstock.config import Settings
from penstock.connectors.limits import GateReport
from penstock.publish import PublishedCounts
from penstock.runtime.facts import LogsNotKept, StatusNotStored, TaskFailed
from penstock.runtime.heartbeat import Heartbeat
from penstock.runtime.identity import identity_of
from penstock.runtime.reports import bounded
from penstock.runtime.service_manager import service_manager
from penstock.runtime.sinks import Identified, LiveSink, StateSink
from penstock.runtime.startup import until_possible
from penstock.runtime.status import (
    Health,
    ProcessStatus,
    Report,
    shortened,
    this_machine,
)
from penstock.runtime.stores import open_state
from penstock.storage.state import StateStore
from penstock.telemetry import Listener, log_is_configured, quiet
from penstock.telemetry.log_file import LogFile, logs_kept

_OPEN_AGAIN_S = 5.0
_END_S = 1.0
_CLOSE_S = 0.3
"""How long the store of live values may take to be closed."""
_NOTIFY_S = 5.0
"""Maximum seconds between two messages to the service manager."""


class Process:
    """Entered by every process, with ``async with``; what it opened is closed at the end.

    It has an entry in the store of live values, and once the state store is open, a status there:
    ``starting`` until ``running`` is called, then what the report says, and at the end ``stopped``
    or ``failed``.
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
        self.gates: Callable[[], Mapping[str, GateReport]] = dict
        """Returns what it knows of its requests, by exchange."""
        self._report: Callable[[], Report] | None = None
        self._ended: Report | None = None
        self._started_ms = clock.now_ms()
        self._activity: int | None = None
        self._last_data_ms: int | None = None
        self._store: StateStore | None = None
        self._stored = Heartbeat(self._identified, clock, listener)
        # Apart: while one store does not answer, the other is written.
        self._live = Heartbeat(self._identified, clock, listener)
        self._live.sink = self._entry = LiveSink(settings, clock)
        self._tasks: list[asyncio.Task[None]] = []
        self._log_file: LogFile | None = None

    async def __aenter__(self) -> Self:
        await self.stack.__aenter__()
        self._keep_logs()
        self.start(self._stored.run())
        self.start(self._live.run())
        if service_manager():
            self.start(self._notify())
        return self

    def _keep_logs(self) -> None:
        """Keep log lines in the data folder, unless logging belongs to another program."""
        logs, loop = self.settings.logs, asyncio.get_running_loop()

        def failed(reason: str) -> None:
            fact = LogsNotKept(process=self.name, reason=reason)
            with suppress(RuntimeError):  # the event loop has ended
                loop.call_soon_threadsafe(self.listener, fact)

        if logs.keep_mb and log_is_configured():
            most_bytes = round(logs.keep_mb * 1_000_000)
            self._log_file = LogFile(self.folder, lambda: self.name, most_bytes, failed)
            # Closed last: what is closed before may still log.
            self.stack.enter_context(logs_kept(self._log_file, logs.level))

    @property
    def store(self) -> StateStore | None:
        """The state store; None until it is open."""
        return self._store

    @property
    def process_id(self) -> str | None:
        """The id of its entry in the ``ProcessCache``; None until it is registered."""
        return self._entry.process_id

    def start(self, task: Coroutine[Any, Any, None]) -> None:
        """Run this until the process ends."""
        started = asyncio.create_task(task, name=getattr(task, "__qualname__", None))
        started.add_done_callback(self._report_failure)
        self._tasks.append(started)

    def _report_failure(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            self.listener(TaskFailed(task=task.get_name(), reason=repr(error)))

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            await self._end_tasks()
            if self._log_file is not None and isinstance(error, Exception):
                self._log_file.note_end(error)
            self._ended = self._last_report(error)
            await asyncio.gather(self._stored.finish(), self._live.finish())
        finally:
            with suppress(Exception):  # the store may be away; the process ends all the same
                async with asyncio.timeout(_CLOSE_S):
                    await self._entry.close()
            await self.stack.__aexit__(kind, error, trace)

    def running(self, report: Callable[[], Report]) -> None:
        """From now on, write what ``report`` returns every few seconds."""
        self._report = report
        self._stored.due.set()
        self._live.due.set()
        service_manager().ready()

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
        self.state_opened(store)
        return store

    def state_opened(self, store: StateStore) -> None:
        """Called once the state store is open."""
        self._store, self._stored.sink = store, StateSink(store)
        self._stored.due.set()

    def open_state_later(self) -> None:
        """Open the state store in the background, for a process that needs it for its status only.

        It is retried whatever the error is: the process works without it.
        """
        self.start(self._open_state_later())

    async def _open_state_later(self) -> None:
        warned = False
        while True:
            try:
                await self.open_state()
            except Exception as error:
                if not warned:
                    self.listener(StatusNotStored(process=self.name, reason=str(error)))
                warned = True
            else:
                return
            await self.clock.sleep(_OPEN_AGAIN_S)

    async def _notify(self) -> None:
        """Show the service manager that the event loop runs, and what it does."""
        manager = service_manager()
        every_s = min(_NOTIFY_S, (manager.watchdog_s or _NOTIFY_S) / 2)
        doing = ""
        while True:
            with suppress(Exception):  # the heartbeat tells of it; the event loop runs
                doing = self.current_report().doing
            manager.alive(doing)
            await self.clock.sleep(every_s)

    async def _end_tasks(self) -> None:
        for task in self._tasks:
            task.cancel()
        # Bounded: a database driver may ignore a cancellation until its own timeout.
        await asyncio.wait(self._tasks, timeout=_END_S)

    def status_id(self) -> str:
        """The id of its status. No other process that runs has the same."""
        host, _ = this_machine()
        return f"{host}:{self.folder.resolve()}/{self.name}"

    def published(self) -> Mapping[str, PublishedCounts]:
        """The counts of its publishers, by name."""
        return {}

    def _last_report(self, error: BaseException | None) -> Report:
        try:
            before = self.current_report()
        except Exception:  # it ended half-way; the error to be raised is the other one
            before = Report(doing="")
        if isinstance(error, Exception):
            why = f"{type(error).__name__}: {error}"
            return replace(before, state="failed", problems=(why, *before.problems))
        return replace(before, state="stopped")

    def current_report(self) -> Report:
        """What it does now, or did last."""
        if self._ended is not None:
            return self._ended
        return self._report() if self._report is not None else Report(doing="", state="starting")

    def _identified(self) -> Identified | None:
        if not self.name:
            return None
        now_ms, (host, pid), report = self.clock.now_ms(), this_machine(), self.current_report()
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
            children=list(report.children),
            exchanges=list(report.exchanges),
            published=self.published(),
            connections=bounded(report.connections),
            gates=self.gates(),
            identity=identity_of(pid),
        )
        return Identified(self.status_id(), status)


def _health(report: Report) -> Health:
    if report.state == "failed":
        return "failed"
    return "impaired" if report.problems else "healthy"
