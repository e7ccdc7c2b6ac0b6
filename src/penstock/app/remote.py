"""Builds the synchronization of backups with their remote from settings."""

import re
from collections.abc import Coroutine, Mapping, Sequence
from typing import Any

from penstock.backup.rclone import Rclone
from penstock.backup.remote import RemoteSync
from penstock.backup.remote_folder import RemoteFolder, check_remote
from penstock.backup.remote_schedule import Report, SyncSchedule
from penstock.backup.run import backup_folder
from penstock.clock import Clock
from penstock.config import Settings
from penstock.telemetry import Listener, quiet

_OF_RCLONE = re.compile(r"(RCLONE|AWS|AZURE|GOOGLE|B2|SWIFT|OS|ST)_")
_SECRET = re.compile(r"PASS|SECRET|TOKEN|KEY|AUTH|CREDENTIAL|SAS")


def rclone_secrets(environment: Mapping[str, str]) -> list[str]:
    """Return the values of variables in which rclone finds secrets, to be masked in errors."""
    return [
        value
        for name, value in environment.items()
        if _OF_RCLONE.match(name) and _SECRET.search(name) and len(value) > 3
    ]


def open_sync(
    settings: Settings, clock: Clock, listener: Listener = quiet, secrets: Sequence[str] = ()
) -> RemoteSync:
    """Return the synchronization of the folder of backups with its remote.

    Raises:
        NoBackup: no folder for backups is set.
        ConfigError: the remote is invalid.
    """
    backup, folder = settings.backup, backup_folder(settings)
    remote = check_remote(backup.remote, folder)
    rclone = Rclone(backup.rclone, clock, backup.remote_timeout, secrets, remote)
    return RemoteSync(folder, RemoteFolder(rclone, remote), backup.keep, clock, listener)


def sync_regularly(
    settings: Settings,
    clock: Clock,
    listener: Listener,
    problems: dict[str, str],
    report: Report,
    secrets: Sequence[str] = (),
) -> Coroutine[Any, Any, None]:
    """Return what synchronizes after each backup, and reports how that ended.

    Raises:
        NoBackup, ConfigError: as above.
    """
    sync = open_sync(settings, clock, listener, secrets)
    return SyncSchedule(sync, backup_folder(settings), clock, problems, report).run()
