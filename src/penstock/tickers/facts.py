"""Facts about ticker daemons and the collection of ticks, each with the logger of its part."""

from collections.abc import Sequence
from typing import ClassVar

from msgspec import Struct

from penstock.market.symbol import Symbol
from penstock.telemetry import Fact, Level

_NAMED = 10
"""The most symbols that one fact names."""
_DAEMON, _LIVE = "penstock.ticker.daemon", "penstock.ticker.live"


class DaemonStarted(Fact, frozen=True, kw_only=True):
    """A ticker daemon runs."""

    logger: ClassVar[str] = _DAEMON
    daemon: str
    symbols: int


class DaemonStopped(Fact, frozen=True, kw_only=True):
    """A ticker daemon has stopped."""

    logger: ClassVar[str] = _DAEMON
    daemon: str


class DaemonFailed(Fact, frozen=True, kw_only=True):
    """A ticker daemon could not be started."""

    level: ClassVar[Level] = "error"
    logger: ClassVar[str] = _DAEMON
    daemon: str
    reason: str


class SymbolsAssigned(Fact, frozen=True, kw_only=True):
    """The symbols of a daemon, or the daemons that share them, have changed."""

    logger: ClassVar[str] = _DAEMON
    daemon: str
    members: int
    symbols: int
    """The symbols that this daemon collects now."""


class SymbolsNotRead(Fact, frozen=True, kw_only=True):
    """The symbols or the other daemons could not be read. Collection continues as before.

    It is retried. Logged once for each outage.
    """

    level: ClassVar[Level] = "warning"
    logger: ClassVar[str] = _DAEMON
    daemon: str
    reason: str


class SymbolFailed(Fact, frozen=True, kw_only=True):
    """Symbols of an exchange cannot be collected; it is retried.

    Logged once for each symbol and kind of error, until all are collected.
    """

    level: ClassVar[Level] = "warning"
    logger: ClassVar[str] = _LIVE
    exchange: str
    symbols: tuple[str, ...]
    """Some of them."""
    count: int
    reason: str
    """That of the first."""


def symbols_failed(exchange: str, symbols: Sequence[Symbol], reason: str) -> SymbolFailed:
    """The fact that these symbols cannot be collected."""
    named = tuple(symbol.unified for symbol in symbols[:_NAMED])
    return SymbolFailed(exchange=exchange, symbols=named, count=len(symbols), reason=reason)


class SymbolsSubscribed(Fact, frozen=True, kw_only=True):
    """Symbols of an exchange are collected from now on."""

    level: ClassVar[Level] = "debug"
    logger: ClassVar[str] = _LIVE
    exchange: str
    count: int


class CallbackFailed(Fact, frozen=True, kw_only=True):
    """The callback for ticks raised an error. Logged for the first, second, fourth and so on."""

    level: ClassVar[Level] = "error"
    logger: ClassVar[str] = _LIVE
    exchange: str
    symbol: str
    reason: str
    times: int


class CredentialsUnavailable(Fact, frozen=True, kw_only=True):
    """The credential provider failed; the public streams are used."""

    level: ClassVar[Level] = "warning"
    logger: ClassVar[str] = _LIVE
    exchange: str
    reason: str
    """The kind of error only: its text may contain a secret."""


class ExchangeMeasured(Struct, frozen=True):
    """The ticks of one exchange."""

    received: int
    symbols: dict[str, int]
    """How many have each status."""
    oldest_s: float | None
    """The age of the last tick of the symbol whose last tick is the oldest."""


class TicksMeasured(Fact, frozen=True, kw_only=True):
    """What became of ticks since the start, and how the symbols are. For metrics."""

    level: ClassVar[Level] = "debug"
    logger: ClassVar[str] = _LIVE
    store: str
    exchanges: dict[str, ExchangeMeasured]
    written: int
    superseded: int
    expired: int
    dropped: int
    failures: int
    waiting: int


class StoreEmptied(Fact, frozen=True, kw_only=True):
    """The store of live values has lost its data; all current ticks and entries are written again.

    It was restarted or flushed, or it did not answer for a minute.
    """

    level: ClassVar[Level] = "warning"
    logger: ClassVar[str] = _LIVE
    store: str


class StallDetectionFailed(Fact, frozen=True, kw_only=True):
    """Silent streams could not be checked; it is retried."""

    level: ClassVar[Level] = "error"
    logger: ClassVar[str] = _LIVE
    exchange: str
    reason: str


class EntriesNotWritten(Fact, frozen=True, kw_only=True):
    """The entries of symbols could not be written; it is retried. Logged once for each outage."""

    level: ClassVar[Level] = "warning"
    logger: ClassVar[str] = _LIVE
    exchange: str
    reason: str
