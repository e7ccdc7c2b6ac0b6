"""Facts about the keeper's work."""

from collections.abc import Mapping
from typing import ClassVar

from penstock.telemetry import Fact, Level


class RecordsSealed(Fact, frozen=True, kw_only=True):
    """Records of a slot were appended to a table of the lake and read back equal."""

    level: ClassVar[Level] = "debug"

    slot: str
    table: str
    rows: int


class ChannelSealed(Fact, frozen=True, kw_only=True):
    """All records of a slot and channel that were received before a time are sealed."""

    level: ClassVar[Level] = "debug"

    slot: str
    table: str
    before_ms: int


class LogMeasured(Fact, frozen=True, kw_only=True):
    """The size of the log on disk, by slot, and the maximum for all together; 0: no limit."""

    level: ClassVar[Level] = "debug"

    slots: Mapping[str, int]
    max_bytes: int


class LakeMeasured(Fact, frozen=True, kw_only=True):
    """The size of the lake by table, without files that only older versions use."""

    level: ClassVar[Level] = "debug"

    tables: Mapping[str, int]


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
