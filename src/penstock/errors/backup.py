"""Errors of backups."""

from penstock.errors.base import PenstockError


class BackupRunning(PenstockError):
    """Another process makes a backup of the same store, or into the same folder."""

    def __init__(self, folder: str) -> None:
        super().__init__(
            f"Another backup is running: it holds {folder}. Wait until it has ended, and retry."
        )


class NoBackup(PenstockError):
    """There is no such backup, or no folder for backups is set."""


class BadBackup(PenstockError):
    """An archive is damaged, incomplete, or not one that penstock made."""

    def __init__(self, where: str, problem: str) -> None:
        self.where, self.problem = where, problem
        super().__init__(
            f"{where}: {problem}. Nothing of it was restored. Use another backup:"
            " penstock backup list."
        )


class FolderNotEmpty(PenstockError):
    """A backup is restored into an empty or a new folder only."""

    def __init__(self, folder: str) -> None:
        super().__init__(
            f"{folder} is not empty, and nothing was changed. Restore into a new folder, or stop"
            " the processes that use this one, rename it, and retry."
        )
