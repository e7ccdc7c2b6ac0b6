"""What collectors and fetchers tell of themselves."""

from typing import ClassVar

from penstock.telemetry import Fact, Level


class RequestsSuspended(Fact, frozen=True, kw_only=True):
    """No requests can be sent: the connector is paused, or the state store is unavailable.

    Streams continue. Logged once for each reason.
    """

    level: ClassVar[Level] = "error"
    exchange: str
    reason: str


class RequestsResumed(Fact, frozen=True, kw_only=True):
    """Requests can be sent to an exchange again."""

    exchange: str


class LogUnwritable(Fact, frozen=True, kw_only=True):
    """The log cannot be written. Events are kept in memory and the write is retried.

    Logged at once, then every 30 seconds.
    """

    level: ClassVar[Level] = "error"
    exchange: str
    path: str
    reason: str
    free_bytes: int | None
    waiting: int
    """Events in memory."""


class LogWritable(Fact, frozen=True, kw_only=True):
    """The log can be written again; the events in memory are written."""

    exchange: str
    path: str
    after_s: float


class FinalProbe(Fact, frozen=True, kw_only=True):
    """A stopping collector has fetched the latest trades of ``asked`` of its ``markets``."""

    exchange: str
    asked: int
    markets: int
    reason: str
    """Why others were not asked."""


class CollectorFailed(Fact, frozen=True, kw_only=True):
    """A collector or fetcher ended with an error."""

    level: ClassVar[Level] = "error"
    exchange: str
    slot: str
    reason: str
    traceback: str
    """Where nobody foresaw it."""
