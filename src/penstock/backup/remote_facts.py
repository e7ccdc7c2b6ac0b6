"""Facts about remote copies of backups."""

from typing import ClassVar, Literal

from penstock.telemetry import Fact, Level


class BackupPushed(Fact, frozen=True, kw_only=True):
    """A backup was copied to the remote, and its copy compared."""

    name: str
    size_bytes: int


class BackupPulled(Fact, frozen=True, kw_only=True):
    """A backup was copied from the remote, and its digest compared."""

    name: str
    size_bytes: int


class CopyDeleted(Fact, frozen=True, kw_only=True):
    """A sync deleted a backup, here or on the remote, since the retention does not keep it."""

    name: str
    size_bytes: int
    where: Literal["local", "remote"]


class SyncEnded(Fact, frozen=True, kw_only=True):
    """The backups and their remote copies were compared and copied."""

    remote: str
    verified: int
    """Backups of which the remote has an equal copy."""
    size_bytes: int
    """Their size."""


class SyncFailed(Fact, frozen=True, kw_only=True):
    """The backups could not be copied to or from the remote, or not all of them."""

    level: ClassVar[Level] = "error"

    remote: str
    reason: str
