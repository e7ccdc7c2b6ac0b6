"""Facts about backups."""

from typing import ClassVar

from penstock.telemetry import Fact, Level


class BackupMade(Fact, frozen=True, kw_only=True):
    """A backup is complete and on the disk."""

    name: str
    size_bytes: int
    content_bytes: int
    files: int
    seconds: float


class BackupRehearsed(Fact, frozen=True, kw_only=True):
    """A backup was restored into a temporary folder, and the copy was checked: nothing is wrong."""

    name: str
    seconds: float


class RehearsalFailed(Fact, frozen=True, kw_only=True):
    """A backup was restored into a temporary folder, and something is wrong with the copy."""

    level: ClassVar[Level] = "error"
    name: str
    findings: list[str]


class BackupFailed(Fact, frozen=True, kw_only=True):
    """A backup could not be made; it is retried."""

    level: ClassVar[Level] = "error"
    reason: str


class BackupDeleted(Fact, frozen=True, kw_only=True):
    """A backup was deleted, as ``backup.keep`` orders."""

    name: str
