"""What collectors and fetchers tell of themselves."""

from typing import ClassVar

from penstock.telemetry import Fact, Level


class RequestsSuspended(Fact, frozen=True, kw_only=True):
    """An exchange cannot be asked: its connector is paused, or the state store cannot be used.

    Streams go on. Told once for each reason.
    """

    level: ClassVar[Level] = "error"
    exchange: str
    reason: str


class RequestsResumed(Fact, frozen=True, kw_only=True):
    """An exchange can be asked again."""

    exchange: str


class LogUnwritable(Fact, frozen=True, kw_only=True):
    """What arrives cannot be written: it waits in memory, and writing is tried again and again.

    Told at once, and then every half minute.
    """

    level: ClassVar[Level] = "error"
    exchange: str
    path: str
    reason: str
    free_bytes: int | None
    waiting: int
    """Events in memory."""


class LogWritable(Fact, frozen=True, kw_only=True):
    """The log can be written again; what waited in memory is written now."""

    exchange: str
    path: str
    after_s: float


class RecordsLost(Fact, frozen=True, kw_only=True):
    """Records that were called recorded are not in the log: it was damaged or is an older copy.

    They count as missing from now on.
    """

    level: ClassVar[Level] = "error"
    exchange: str
    channel: str
    symbol: str
    count: int


class FinalProbe(Fact, frozen=True, kw_only=True):
    """Before it stops, a collector has asked these of its markets for their newest trades."""

    exchange: str
    asked: int
    markets: int
    reason: str
    """Why others were not asked."""


class CollectorFailed(Fact, frozen=True, kw_only=True):
    """A collector or fetcher ended by an error."""

    level: ClassVar[Level] = "error"
    exchange: str
    slot: str
    reason: str
    traceback: str
    """Where nobody foresaw it."""
