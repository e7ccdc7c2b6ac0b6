"""Makes backups regularly, each in a process of its own.

A process of its own has a low priority and a memory of its own, so that what starts it, the keeper,
is not slowed down and stays small.
"""

import asyncio
import ctypes
import multiprocessing
import signal
from contextlib import suppress
from datetime import UTC, datetime
from multiprocessing.connection import Connection

from penstock.backup.facts import BackupFailed
from penstock.backup.folder import is_busy, list_backups
from penstock.backup.priority import give_way
from penstock.backup.run import backup_folder, make_backup
from penstock.clock import Clock, SystemClock
from penstock.config import Settings
from penstock.errors import PenstockError
from penstock.telemetry import Fact, Listener

_PART = "backup"
_RETRY_S = 600.0
_LOOK_S = 60.0
_PARENT_DEATH_SIGNAL = 1
"""Of ``prctl``."""


class BackupSchedule:
    """Makes a backup every few hours. For one event loop."""

    def __init__(
        self, settings: Settings, clock: Clock, emit: Listener, problems: dict[str, str]
    ) -> None:
        """While backups fail, the reason is in ``problems``; its facts are emitted as well."""
        self._settings, self._clock, self._emit = settings, clock, emit
        self._problems = problems
        self._every_s = settings.backup.every
        self._failed_ns: int | None = None

    async def run(self) -> None:
        """Make backups until cancelled. One that is being made then is ended."""
        while True:
            try:
                if self.is_due():
                    await self._make()
            except Exception as error:
                # Whatever it is, such as no memory for a process: backups must not end silently.
                self._fail(str(error) if isinstance(error, PenstockError) else repr(error))
            await self._clock.sleep(min(_LOOK_S, self._every_s))

    def is_due(self) -> bool:
        """Whether the newest backup is too old, and the last attempt did not fail just now.

        A backup from the future was made while a clock was wrong, and does not count. While another
        process makes one, such as that of another keeper, none is due.

        Raises:
            StorageError: the folder of backups cannot be read.
        """
        if self._failed_ns is not None:
            waited_s = (self._clock.monotonic_ns() - self._failed_ns) / 1e9
            if waited_s < min(_RETRY_S, self._every_s):
                return False
        now = datetime.fromtimestamp(self._clock.now_ms() / 1000, UTC)
        made = [each.at for each in list_backups(backup_folder(self._settings)) if each.at <= now]
        is_old = not made or (now - made[-1]).total_seconds() >= self._every_s
        return is_old and not is_busy(backup_folder(self._settings))

    async def _make(self) -> None:
        context = multiprocessing.get_context("spawn")
        received, sent = context.Pipe(duplex=False)
        process = context.Process(
            target=_child, args=(self._settings, sent), name="backup", daemon=True
        )
        process.start()
        sent.close()
        loop = asyncio.get_running_loop()

        def emit(fact: Fact) -> None:
            loop.call_soon_threadsafe(self._emit, fact)

        try:
            problem = await asyncio.to_thread(_follow, received, emit)
            await asyncio.to_thread(process.join)
        finally:
            if process.is_alive():
                process.terminate()
            received.close()
        if problem is None:
            problem = f"its process ended with exit code {process.exitcode}"
        if problem:
            self._fail(problem)
        else:
            self._failed_ns = None
            self._problems.pop(_PART, None)

    def _fail(self, problem: str) -> None:
        self._problems[_PART], self._failed_ns = problem, self._clock.monotonic_ns()
        self._emit(BackupFailed(reason=problem))


def _follow(received: Connection, emit: Listener) -> str | None:
    """Emit the facts of a backup; return its problem, None if it ended without a word."""
    with suppress(EOFError, OSError):
        while True:
            told: Fact | str = received.recv()
            if isinstance(told, str):
                return told
            emit(told)
    return None


def _child(settings: Settings, sent: Connection) -> None:
    # It ends with its parent, and Ctrl-C on a terminal is the parent's concern.
    ctypes.CDLL(None).prctl(_PARENT_DEATH_SIGNAL, signal.SIGKILL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    give_way()
    problem = ""
    try:
        made = asyncio.run(make_backup(settings, SystemClock(), sent.send))
        if made.rehearsal is not None:
            problem = "; ".join(made.rehearsal.findings[:3])
    except PenstockError as error:
        problem = str(error)
    sent.send(problem)
