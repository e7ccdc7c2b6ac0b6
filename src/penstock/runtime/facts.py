"""Facts about a process itself."""

from typing import ClassVar

from penstock.telemetry import Fact, Level


class StatusNotStored(Fact, frozen=True, kw_only=True):
    """The status of a process could not be written to a store for a while.

    It is retried, and the process continues. Logged once.
    """

    level: ClassVar[Level] = "warning"
    process: str
    reason: str


class LogSetBack(Fact, frozen=True, kw_only=True):
    """The state store knows later records of a slot than the log has: an older copy was restored.

    What is missing is listed as a gap, and new records get higher numbers than the lost ones.
    """

    level: ClassVar[Level] = "error"
    slot: str
    streams: int


class LogsNotKept(Fact, frozen=True, kw_only=True):
    """The log lines of a process cannot be written to its file; the lines are lost there.

    It is retried with every line, and the process continues. Logged once until it succeeds.
    """

    level: ClassVar[Level] = "warning"
    process: str
    reason: str


class LogTrimmed(Fact, frozen=True, kw_only=True):
    """Sealed records were deleted from a slot of the log."""

    slot: str
    streams: int


class TrimmingFailed(Fact, frozen=True, kw_only=True):
    """Sealed records could not be deleted from a slot of the log; it is retried."""

    level: ClassVar[Level] = "warning"
    slot: str
    reason: str


class TaskFailed(Fact, frozen=True, kw_only=True):
    """A background task of a process ended with an error; the process continues without it.

    Restart the process, and report it as a bug.
    """

    level: ClassVar[Level] = "error"
    task: str
    reason: str


class DiskSpaceLow(Fact, frozen=True, kw_only=True):
    """A disk has less free space than ``disk.min_free``: jobs stop, live collection continues."""

    level: ClassVar[Level] = "error"
    path: str
    free_bytes: int
    min_bytes: int


class DiskSpaceEnough(Fact, frozen=True, kw_only=True):
    """A disk has enough free space again: jobs continue."""

    path: str
    free_bytes: int


class CheckpointMade(Fact, frozen=True, kw_only=True):
    """A slot of the log was copied for a backup that is being made."""

    level: ClassVar[Level] = "debug"
    slot: str
    backup: str


class CheckpointFailed(Fact, frozen=True, kw_only=True):
    """A slot of the log could not be copied for a backup, or requests could not be read."""

    level: ClassVar[Level] = "warning"
    slot: str
    reason: str
