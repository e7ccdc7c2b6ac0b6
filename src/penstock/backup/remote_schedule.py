"""Synchronizes after each backup, for as long as its process runs."""

from pathlib import Path

from penstock.backup.folder import list_backups, locked_alone
from penstock.backup.remote import RemoteSync
from penstock.clock import Clock
from penstock.errors import BackupRunning, PenstockError

_LOOK_S = 15.0
_RETRY_S = 600.0
_REGULARLY_S = 6 * 3600.0
"""Also without a new backup: a copy may have been damaged or lost on either side."""


class SyncSchedule:
    """Synchronizes at the start, and whenever the backups of the folder have changed."""

    def __init__(self, sync: RemoteSync, folder: Path, clock: Clock) -> None:
        self._sync, self._folder, self._clock = sync, folder, clock
        self._synced: frozenset[str] | None = None
        self._tried_ns = 0
        self.problem = ""
        """Why the last sync failed; empty if it did not. Its facts have been emitted."""

    async def run(self) -> None:
        """Synchronize until cancelled. An rclone that is running then is ended."""
        while True:
            try:
                if self._is_due():
                    await self._run()
            except PenstockError as error:
                self.problem = str(error)
            await self._clock.sleep(_LOOK_S)

    def _is_due(self) -> bool:
        if self._synced is None and not self.problem:
            return not self._is_busy()
        waited_s = (self._clock.monotonic_ns() - self._tried_ns) / 1e9
        if self.problem and waited_s < _RETRY_S:
            return False
        is_new = self.problem or waited_s >= _REGULARLY_S or self._names() != self._synced
        return bool(is_new) and not self._is_busy()

    async def _run(self) -> None:
        self._tried_ns, self.problem = self._clock.monotonic_ns(), ""
        report = await self._sync.run()
        self.problem = "; ".join(report.problems[:3])
        self._synced = self._names()

    def _names(self) -> frozenset[str]:
        return frozenset(backup.name for backup in list_backups(self._folder))

    def _is_busy(self) -> bool:
        """Whether a backup is being made and checked: then the sync follows it."""
        try:
            with locked_alone(self._folder):
                return False
        except BackupRunning:
            return True
