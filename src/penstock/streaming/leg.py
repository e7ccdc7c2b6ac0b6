"""A leg: one connection of a shard, and what the shard remembers of it."""

from collections import Counter, deque
from dataclasses import dataclass, field

from penstock.market.symbol import Symbol
from penstock.resilience.backoff import Backoff
from penstock.streaming.asking import ACK_WITHIN_S, SECOND_NS
from penstock.streaming.book_sync import BookSync
from penstock.streaming.commands import FetchSnapshot
from penstock.streaming.complaints import Complaint
from penstock.streaming.connection import QUARANTINED, Connection
from penstock.streaming.dialect import Malformed, Refusal
from penstock.streaming.wanted import Place

_JOIN_WITHIN_NS = 5 * SECOND_NS
"""How long a book waits for the leading leg's to reach it before a snapshot is fetched."""
RECONNECT = Backoff(first_s=0.25, longest_s=30.0)
ROTATE_AGAIN = Backoff(first_s=10.0, longest_s=600.0)


@dataclass(frozen=True)
class Plan:
    """How a shard's legs are kept."""

    redundancy: int = 1
    """Legs that run all the time."""
    rotate_after_s: float = 23 * 3600.0
    """The age at which a leg is replaced; up to a fifth is taken off, so that not all are at
    once."""
    overlap_s: float = 5.0
    """How long the old leg stays open after the new one is settled, at least."""
    patience_s: float = 60.0
    """How long a new leg may take until it can take over."""
    reconnect: Backoff = RECONNECT
    rotate_again: Backoff = ROTATE_AGAIN
    """How long to wait after a rotation that was given up."""
    ack_within_s: float = ACK_WITHIN_S
    """How long the exchange may take to answer a request for streams."""


@dataclass(slots=True)
class Tally:
    """What befell a shard, whichever leg it befell."""

    reconnects: Counter[str] = field(default_factory=Counter)
    """How often a leg was lost, by reason."""
    rotations: Counter[str] = field(default_factory=Counter)
    """How often a leg was replaced by another, by reason."""
    given_up: Counter[str] = field(default_factory=Counter)
    """How often that was tried in vain, by reason."""
    malformed: Counter[str] = field(default_factory=Counter)
    """Frames that could not be read, by reason."""
    quarantine: deque[Malformed] = field(default_factory=lambda: deque(maxlen=QUARANTINED))
    refusals: deque[Refusal] = field(default_factory=lambda: deque(maxlen=QUARANTINED))
    refused: Counter[Place] = field(default_factory=Counter)
    """How often each stream was refused."""
    complaints: list[Complaint] = field(default_factory=list)
    """Refusals and missing answers that nobody was told of yet."""

    def gather(self, connection: Connection) -> None:
        """From now on what is wrong with a connection is noted here: connections come and go."""
        connection.malformed, connection.quarantine = self.malformed, self.quarantine
        connection.refusals = self.refusals
        connection.complaints.totals = self.refused
        connection.complaints.untold = self.complaints

    def take_complaints(self) -> list[Complaint]:
        """What is to be told since the last call."""
        complaints = self.complaints.copy()
        self.complaints.clear()
        return complaints


@dataclass(slots=True, eq=False)
class Leg:
    """One connection of a shard."""

    number: int
    connection: Connection
    opened_ns: int | None = None
    """Since when it is open."""
    heard_ns: int | None = None
    """When the newest frame came."""
    rotates_ns: int | None = None
    """When it is to be replaced."""
    leaving: bool = False
    """It was told to close."""
    joining: dict[Symbol, int] = field(default_factory=dict)
    """Books that wait for the leading leg's to reach them, and until when."""

    @property
    def live(self) -> bool:
        """Whether it is open, and is to stay so."""
        return self.connection.state == "connected" and not self.leaving

    @property
    def synced_books(self) -> int:
        """How many of its books can be believed."""
        return sum(book.state == "synced" for book in self.connection.books.values())

    def wait_for(self, lead: "Leg", symbol: Symbol, at_ns: int) -> bool:
        """Let a book wait for the leading leg's; False if there is none to wait for."""
        # The leading leg never joins from another: what is wrong with its book may be wrong there.
        if lead is self or not lead.live:
            return False
        self.joining[symbol] = at_ns + _JOIN_WITHIN_NS
        return True

    def join_books(self, lead: "Leg", at_ns: int) -> list[FetchSnapshot]:
        """Begin books from the leading leg's; what cannot be had so and has to be fetched."""
        fetch = []
        for symbol, until_ns in list(self.joining.items()):
            theirs = lead.connection.books.get(symbol)
            if lead is self or not lead.live or at_ns >= until_ns:
                del self.joining[symbol]
                fetch.append(FetchSnapshot(symbol, 0.0))
            elif not isinstance(theirs, BookSync) or theirs.state != "synced":
                self.joining[symbol] = at_ns + _JOIN_WITHIN_NS  # one snapshot is for both
            elif self.connection.join_book(symbol, theirs):
                del self.joining[symbol]
        return fetch

    def lost(self, reason: str, at_ns: int) -> None:
        """Its socket is gone; it comes back by itself."""
        self.opened_ns = self.rotates_ns = None
        self.connection.closed(reason, at_ns)
        for symbol in self.joining:
            self.connection.snapshot_failed(symbol)
        self.joining.clear()
