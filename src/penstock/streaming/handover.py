"""A handover: when may a connection be closed because another brings the same?

The new one must be open, with everything it asked for answered, and its books must be begun. Then
for a while both are watched. Whatever the old one brings must be met on the new one: the very same
event on both shows that the old one has come to where the new one began, and so that nothing lies
between them. Where events cannot be told apart, it is enough that the new one brings some.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from penstock.market.events import AnyEvent, BookSnapshot
from penstock.market.levels import write_levels
from penstock.market.symbol import Symbol
from penstock.streaming.book_sync import BookSync
from penstock.streaming.connection import Connection
from penstock.streaming.shard_connection import ShardConnection
from penstock.streaming.streamed_book import StreamedBook

_Kind = tuple[type[AnyEvent], Symbol]


@dataclass(slots=True)
class Handover:
    """From one connection of a shard to another, by their numbers."""

    old: int
    new: int
    reason: str
    until_ns: int
    """It is given up then."""
    overlap_ns: int
    settled_ns: int | None = None
    """Since when the new connection has everything."""
    owed: set[_Kind] = field(default_factory=set)
    """What the old connection brought since."""
    met: set[_Kind] = field(default_factory=set)
    """What both brought."""

    def note(self, event: AnyEvent, member: int, first: int | None, keyed: bool) -> None:
        """A connection brought an event; who had brought it first, if somebody had."""
        if event.source != "live":
            return  # fetched, and for one connection alone
        kind = type(event), event.symbol
        if member == self.old:
            self.owed.add(kind)
        if (keyed and first is not None and self.new in (member, first) and member != first) or (
            not keyed and member == self.new
        ):
            self.met.add(kind)

    def ready(self, old: Connection, new: Connection, at_ns: int) -> bool:
        """Whether the old connection may go."""
        if not new.settled:
            self.settled_ns = None
            return False
        if self.settled_ns is None:
            self.settled_ns = at_ns
            self.owed.clear()
        return (
            at_ns >= self.settled_ns + self.overlap_ns
            and self.owed <= self.met
            and new.unheard <= old.unheard
            and _as_good(old.books, new.books)
        )


_Books = Mapping[Symbol, BookSync | StreamedBook]


def _as_good(old: _Books, new: _Books) -> bool:
    """Whether every book that can be believed can be believed on the new side too."""
    return all(
        new[symbol].state == "synced" for symbol, book in old.items() if book.state == "synced"
    )


def better(primary: ShardConnection, others: Sequence[ShardConnection]) -> ShardConnection | None:
    """A connection that has every book the primary has, and one more that was lost there."""
    mine = primary.connection.books
    for member in others:
        if member is not primary and member.live and member.synced_books > primary.synced_books:
            theirs = member.connection.books
            if mine.keys() == theirs.keys() and _as_good(mine, theirs):
                return member
    return None


def baselines(exchange: str, connection: Connection, at_ns: int) -> list[BookSnapshot]:
    """Books without numbers as they stand: what follows from their connection continues these.

    Where a lost change does not show, they bear no time of the exchange: nothing proves them.
    """
    shown = []
    for symbol, sync in connection.books.items():
        if isinstance(sync, StreamedBook) and sync.state == "synced" and sync.book is not None:
            bids, asks = sync.book.texts()
            shown.append(
                BookSnapshot(
                    exchange=exchange,
                    symbol=symbol,
                    received_at_ns=at_ns,
                    at_ns=sync.at_ns if connection.loss_shows else None,
                    bids_raw=write_levels(bids),
                    asks_raw=write_levels(asks),
                )
            )
    return shown


def carry_resyncs(old: ShardConnection, new: ShardConnection) -> None:
    """Go on counting how often a book had to begin again where the old connection's count ends.

    Not if that was lost: its books have stopped to be believed, and the new one's have not.
    """
    if old.live:
        for symbol, book in new.connection.books.items():
            before = old.connection.books.get(symbol)
            book.resyncs = max(book.resyncs, before.resyncs if before is not None else 0)
