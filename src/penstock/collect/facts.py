"""Facts about collectors and fetchers."""

from typing import ClassVar, Literal

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
    """Of an error that was not expected."""


class ConnectionOpened(Fact, frozen=True, kw_only=True):
    """A stream connection to an exchange was opened."""

    exchange: str
    url: str


class ConnectionLost(Fact, frozen=True, kw_only=True):
    """A stream connection ended or could not be opened; it is retried."""

    level: ClassVar[Level] = "warning"

    exchange: str
    reason: str


class ConnectionClosed(Fact, frozen=True, kw_only=True):
    """A stream connection is closed on purpose: it was replaced or is no longer needed."""

    exchange: str
    reason: str


class SnapshotFailed(Fact, frozen=True, kw_only=True):
    """A book snapshot could not be fetched; it is retried."""

    level: ClassVar[Level] = "warning"

    exchange: str
    symbol: str
    reason: str


class ExchangeSilent(Fact, frozen=True, kw_only=True):
    """An exchange does not answer; the request is retried until it does."""

    level: ClassVar[Level] = "warning"

    exchange: str
    reason: str


class ShardsDiffer(Fact, frozen=True, kw_only=True):
    """Collectors of one exchange run with different numbers of shards.

    Until all of them have the same number, some markets are collected twice, or by none.
    """

    level: ClassVar[Level] = "warning"

    exchange: str
    shard: str
    others: list[str]
    """The slots of the other collectors, each with its shard."""


class StatusUnreadable(Fact, frozen=True, kw_only=True):
    """The status file of a collector's earlier run is damaged; the log is read instead."""

    level: ClassVar[Level] = "warning"

    slot: str
    reason: str


class StatusUnwritable(Fact, frozen=True, kw_only=True):
    """A collector's status could not be written; it is retried, and collecting continues."""

    level: ClassVar[Level] = "error"

    slot: str
    reason: str


class BookDrifted(Fact, frozen=True, kw_only=True):
    """A synced book differs from the exchange's snapshot in ``levels`` levels."""

    level: ClassVar[Level] = "warning"

    exchange: str
    symbol: str
    levels: int


class StreamSuspected(Fact, frozen=True, kw_only=True):
    """A stream is silent for longer than usual; its market is probed. Logged once per silence."""

    exchange: str
    channel: str
    symbol: str
    silent_s: float


class StreamProbed(Fact, frozen=True, kw_only=True):
    """The result of probing a silent stream's market: ``nothing``, ``news``, or unknown."""

    level: ClassVar[Level] = "debug"

    exchange: str
    channel: str
    symbol: str
    found: Literal["nothing", "news", "failed"]


class StreamStalled(Fact, frozen=True, kw_only=True):
    """A stream delivers nothing although its market changes; ``remedy`` is the action taken."""

    level: ClassVar[Level] = "warning"

    exchange: str
    channel: str
    symbol: str
    remedy: Literal["asked_anew", "rotated"]


class StreamRecovered(Fact, frozen=True, kw_only=True):
    """A stalled stream delivers messages again."""

    exchange: str
    channel: str
    symbol: str


class FetchDone(Fact, frozen=True, kw_only=True):
    """A fetch succeeded; new records were written."""

    level: ClassVar[Level] = "debug"

    exchange: str
    what: str
    symbol: str
    records: int
    at_ms: int


class FetchFailed(Fact, frozen=True, kw_only=True):
    """A fetch failed; it is retried after the delay."""

    level: ClassVar[Level] = "warning"

    exchange: str
    what: str
    symbol: str
    reason: str
    delay_s: float


class FetchFellShort(Fact, frozen=True, kw_only=True):
    """Too many trades were missed to fetch them all; those between these two were skipped."""

    level: ClassVar[Level] = "warning"

    exchange: str
    symbol: str
    after_id: int
    before_id: int


class SymbolsReread(Fact, frozen=True, kw_only=True):
    """A collector reloaded its list of markets; if ``refused``, it keeps the previous one."""

    exchange: str
    refused: str

    def logged_at(self) -> Level:
        return "error" if self.refused else self.level
