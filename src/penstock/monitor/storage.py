"""What collected data takes on disk, and its backups."""

from msgspec import Struct

from penstock.monitor.overview import DiskView


class DatasetView(Struct, frozen=True, kw_only=True):
    """One channel of one exchange in the lake."""

    name: str
    """``EXCHANGE/CHANNEL``."""
    bytes: int
    files: int
    per_day_bytes: float | None
    """How much it grows; null if that is not known."""


class LogView(Struct, frozen=True, kw_only=True):
    """The event log, with all its slots."""

    bytes: int
    files: int
    slots: int


class BackupFileView(Struct, frozen=True, kw_only=True):
    """One backup."""

    name: str
    host: str
    folder: str
    """The data folder that was backed up."""
    at_ms: int
    bytes: int
    verified_ms: int | None
    """When it was restored and checked without a finding."""
    rehearsed_ms: int | None
    """When it was last restored and checked, with findings or without."""
    remote: str | None
    """Where it is copied to; null if it is not."""
    ok: bool
    message: str


class Storage(Struct, frozen=True, kw_only=True):
    """All data folders of a fleet together."""

    at_ms: int | None
    """When the sizes were measured; null if no keeper has measured any."""
    datasets: list[DatasetView]
    log: LogView
    disks: list[DiskView]
    """The one that will be full first comes first."""
    backups: list[BackupFileView]
    """The newest first."""
    next_backup_ms: int | None
    """When the next is due; null if none are made here."""
