"""One connection of a shard, and the shard's state of it."""

from collections import Counter, deque
from dataclasses import dataclass, field

from penstock.books.commands import FetchSnapshot
from penstock.market.symbol import Symbol
from penstock.resilience.backoff import Backoff
from penstock.streaming.connection import QUARANTINED, Connection
from penstock.streaming.dialect import Malformed, Refusal
from penstock.streaming.history import ConnectionHistory
from penstock.streaming.subscribe_requests import ACK_WITHIN_S, SECOND_NS
from penstock.streaming.subscription_failures import SubscriptionFailure
from penstock.streaming.wanted import StreamKey

_JOIN_WITHIN_NS = 5 * SECOND_NS
"""How long a book waits for the primary's copy to reach it before a snapshot is fetched."""
RECONNECT = Backoff(first_s=0.25, longest_s=30.0)
ROTATE_AGAIN = Backoff(first_s=10.0, longest_s=600.0)


@dataclass(frozen=True)
class Plan:
    """Settings of a shard's connections."""

    redundancy: int = 1
    """Connections that run all the time."""
    rotate_after_s: float = 23 * 3600.0
    """The age at which a connection is replaced. Up to a fifth is randomly subtracted, so that not
    all are replaced at once."""
    overlap_s: float = 5.0
    """How long the old connection stays open after the new one is settled, at least."""
    takeover_timeout_s: float = 60.0
    """How long a new connection may take until it can take over."""
    reconnect: Backoff = RECONNECT
    rotate_again: Backoff = ROTATE_AGAIN
    """The delays after failed rotations."""
    ack_within_s: float = ACK_WITHIN_S
    """How long the exchange may take to acknowledge a subscription."""


@dataclass(slots=True)
class ConnectionStats:
    """Statistics of all connections of a shard together."""

    reconnects: Counter[str] = field(default_factory=Counter)
    """How often a connection was lost, by reason."""
    rotations: Counter[str] = field(default_factory=Counter)
    """How often a connection was replaced by another, by reason."""
    given_up: Counter[str] = field(default_factory=Counter)
    """How often a rotation failed, by reason."""
    malformed: Counter[str] = field(default_factory=Counter)
    """Frames that could not be read, by reason."""
    quarantine: deque[Malformed] = field(default_factory=lambda: deque(maxlen=QUARANTINED))
    refusals: deque[Refusal] = field(default_factory=lambda: deque(maxlen=QUARANTINED))
    refused: Counter[StreamKey] = field(default_factory=Counter)
    """How often each stream was refused."""
    failures: list[SubscriptionFailure] = field(default_factory=list)
    """Refusals and missing answers that are not reported yet."""

    def collect_from(self, connection: Connection) -> None:
        """Let a connection count its failures here: the statistics outlive the connection."""
        connection.malformed, connection.quarantine = self.malformed, self.quarantine
        connection.refusals = self.refusals
        connection.failures.totals = self.refused
        connection.failures.unreported = self.failures

    def take_failures(self) -> list[SubscriptionFailure]:
        """Return the failures to report since the last call."""
        failures = self.failures.copy()
        self.failures.clear()
        return failures


@dataclass(slots=True, eq=False)
class ShardConnection:
    """One connection of a shard."""

    number: int
    connection: Connection
    opened_ns: int | None = None
    """Since when it is open."""
    last_message_ns: int | None = None
    """When the latest frame arrived."""
    rotate_at_ns: int | None = None
    """When it is to be replaced."""
    leaving: bool = False
    """Whether it is being closed."""
    joining: dict[Symbol, int] = field(default_factory=dict)
    """Books that wait for the primary's copies to reach them, and until when."""
    history: ConnectionHistory = field(default_factory=ConnectionHistory)

    @property
    def live(self) -> bool:
        """Whether it is open and not being closed."""
        return self.connection.state == "connected" and not self.leaving

    @property
    def synced_books(self) -> int:
        """The number of its books that are synced."""
        return sum(book.state == "synced" for book in self.connection.books.values())

    def wait_for(self, primary: "ShardConnection", symbol: Symbol, at_ns: int) -> bool:
        """Let a book wait for the primary's copy; return False if no other primary is live."""
        # The primary never joins from another connection, whose copy may have the same error.
        if primary is self or not primary.live:
            return False
        self.joining[symbol] = at_ns + _JOIN_WITHIN_NS
        return True

    def join_books(self, primary: "ShardConnection", at_ns: int) -> list[FetchSnapshot]:
        """Start books from the primary's copies; return those that have to be fetched instead."""
        fetch = []
        for symbol, until_ns in list(self.joining.items()):
            theirs = primary.connection.books.get(symbol)
            if primary is self or not primary.live or at_ns >= until_ns:
                del self.joining[symbol]
                lost = self.connection.books[symbol].state == "stale"
                fetch.append(FetchSnapshot(symbol, 0.0, lost))
            elif theirs is None or theirs.state != "synced":
                self.joining[symbol] = at_ns + _JOIN_WITHIN_NS  # one snapshot serves both
            elif self.connection.join_book(symbol, theirs):
                del self.joining[symbol]
        return fetch

    def lost(self, reason: str, at_ns: int) -> None:
        """Handle a lost socket; the connection reconnects by itself."""
        self.opened_ns = self.rotate_at_ns = None
        self.history.closed(reason, at_ns)
        self.connection.closed(reason, at_ns)
