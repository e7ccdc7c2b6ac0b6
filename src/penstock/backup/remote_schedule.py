"""Synchronizes after each backup, for as long as its process runs."""

from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path

from penstock.backup.folder import is_busy, list_backups
from penstock.backup.remote import RemoteSync
from penstock.clock import Clock
from penstock.errors import PenstockError

_PART = "remote copies"
_LOOK_S = 15.0
_RETRY_S = 600.0
_REGULARLY_S = 6 * 3600.0
"""Also without a new backup: a copy may have been damaged or lost on either side."""


Report = Callable[[str], Awaitable[None]]
"""Receives the problem of each sync, or nothing."""


async def _nowhere(_: str) -> None: ...


class SyncSchedule:
    """Synchronizes at the start, and whenever the backups of the folder have changed."""

    def __init__(
        self,
        sync: RemoteSync,
        folder: Path,
        clock: Clock,
        problems: dict[str, str],
        report: Report = _nowhere,
    ) -> None:
        """While a sync fails, the reason is in ``problems``; its facts are emitted as well."""
        self._sync, self._folder, self._clock = sync, folder, clock
        self._problems, self._report = problems, report
        self._synced: frozenset[str] | None = None
        self._tried_ns = 0

    async def run(self) -> None:
        """Synchronize until cancelled. An rclone that is running then is ended."""
        while True:
            try:
                if self._is_due():
                    await self._run()
            except Exception as error:
                # Whatever it is: it is shown and retried.
                known = isinstance(error, PenstockError)
                self._problems[_PART] = str(error) if known else repr(error)
                await self._try_to_report()
            await self._clock.sleep(_LOOK_S)

    async def _try_to_report(self) -> None:
        """Report the result; if that fails, the next one is reported."""
        with suppress(PenstockError):
            await self._report(self._problems.get(_PART, ""))

    def _is_due(self) -> bool:
        waited_s = (self._clock.monotonic_ns() - self._tried_ns) / 1e9
        if _PART in self._problems:
            is_due = waited_s >= _RETRY_S
        else:
            is_due = waited_s >= _REGULARLY_S or self._names() != self._synced
        return is_due and not is_busy(self._folder)  # then the sync follows the backup

    async def _run(self) -> None:
        self._tried_ns = self._clock.monotonic_ns()
        before = self._names()
        report = await self._sync.run()
        # Not what is there now: a backup that was made meanwhile is not synchronized yet.
        self._synced = (before | {*report.pulled}) - {*report.deleted}
        self._problems.pop(_PART, None)
        if report.problems:
            self._problems[_PART] = "; ".join(report.problems[:3])
        await self._try_to_report()

    def _names(self) -> frozenset[str]:
        return frozenset(backup.name for backup in list_backups(self._folder))
