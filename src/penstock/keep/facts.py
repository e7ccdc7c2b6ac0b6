"""Facts about the keeper's work."""

from typing import ClassVar

from penstock.telemetry import Fact, Level


class RecordsSealed(Fact, frozen=True, kw_only=True):
    """Records of a slot were appended to a table of the lake and read back equal."""

    level: ClassVar[Level] = "debug"

    slot: str
    table: str
    rows: int


class KeepingFailed(Fact, frozen=True, kw_only=True):
    """Part of the keeper's work failed; it is retried."""

    level: ClassVar[Level] = "warning"

    what: str
    reason: str


class PartitionCompacted(Fact, frozen=True, kw_only=True):
    """The files of a partition were rewritten as fewer ones."""

    table: str
    exchange: str
    date: str
    files: int


class PartitionsDeleted(Fact, frozen=True, kw_only=True):
    """Partitions of a table were deleted, as ``keep.retention`` orders."""

    table: str
    partitions: int
    rows: int
    size_bytes: int
