"""Facts about a process itself."""

from typing import ClassVar

from penstock.telemetry import Fact, Level


class StatusUnwritable(Fact, frozen=True, kw_only=True):
    """The status of a process could not be written; it is retried, and the process continues."""

    level: ClassVar[Level] = "error"

    slot: str
    reason: str
