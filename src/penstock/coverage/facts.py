"""Facts about the coverage of markets."""

from typing import ClassVar

from penstock.telemetry import Fact, Level


class RecordsLost(Fact, frozen=True, kw_only=True):
    """Acknowledged records are not in the log: it was damaged or replaced by an older copy.

    They are listed as missing from now on.
    """

    level: ClassVar[Level] = "error"
    exchange: str
    channel: str
    symbol: str
    count: int


class GapFound(Fact, frozen=True, kw_only=True):
    """Ids that must exist were not received."""

    level: ClassVar[Level] = "warning"

    exchange: str
    channel: str
    symbol: str
    first: int
    last: int


class LateDropped(Fact, frozen=True, kw_only=True):
    """Live events arrived after their ids were reported as a gap; a job records them instead."""

    exchange: str
    channel: str
    symbol: str
    count: int


class CoverageNotStored(Fact, frozen=True, kw_only=True):
    """Coverage and gaps cannot be written to the state store; they are written later."""

    level: ClassVar[Level] = "warning"
    reason: str
