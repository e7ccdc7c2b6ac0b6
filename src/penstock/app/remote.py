"""Builds the synchronization of backups with their remote from settings."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from penstock.backup.rclone import Rclone
from penstock.backup.remote import RemoteSync
from penstock.backup.remote_folder import RemoteFolder, check_remote
from penstock.clock import Clock
from penstock.config import Settings
from penstock.errors import ConfigError
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
        ConfigError: there is no folder of backups, or the remote is invalid.
    """
    backup = settings.backup
    if not backup.folder:
        problem = "is empty: set it to the folder of the backups."
        raise ConfigError("backup.folder", problem=problem, origin="settings")
    folder = Path(backup.folder).expanduser()
    remote = check_remote(backup.remote, folder)
    rclone = Rclone(backup.rclone, clock, backup.remote_timeout, secrets, remote)
    return RemoteSync(folder, RemoteFolder(rclone, remote), backup.keep, clock, listener)
