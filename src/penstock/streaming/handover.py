"""A handover decides when a connection may be closed because another delivers the same events.

The new one must be open, with all requests answered and its books started. Then both are compared
for a while. Each kind of event that the old one delivers must be matched on the new one: the same
event on both shows that the old one has reached the point where the new one began, so that nothing
is missing between them. Where events have no dedupe key, it is enough that the new one delivers
some.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from penstock.books.book import BookView
from penstock.market.events import BookSnapshot, Event
from penstock.market.levels import write_levels
from penstock.market.symbol import Symbol
from penstock.streaming.connection import Connection
from penstock.streaming.shard_connection import ShardConnection

_Kind = tuple[type[Event], Symbol]


@dataclass(slots=True)
class Handover:
    """A handover from one connection of a shard to another, by their numbers."""

    old: int
    new: int
    reason: str
    until_ns: int
    """When it is given up."""
    overlap_ns: int
    settled_ns: int | None = None
    """Since when the new connection is settled."""
    delivered: set[_Kind] = field(default_factory=set)
    """Kinds of events that the old connection delivered since then."""
    by_both: set[_Kind] = field(default_factory=set)
    """Kinds of events that both delivered."""

    def note(self, event: Event, member: int, first: int | None, keyed: bool) -> None:
        """Note an event of a connection; ``first`` delivered it before, if any did."""
        if event.source != "live":
            return  # fetched, for one connection only
        kind = type(event), event.symbol
        if member == self.old:
            self.delivered.add(kind)
        if (keyed and first is not None and self.new in (member, first) and member != first) or (
            not keyed and member == self.new
        ):
            self.by_both.add(kind)

    def ready(self, old: Connection, new: Connection, at_ns: int) -> bool:
        """Whether the old connection may be closed."""
        if not new.settled:
            self.settled_ns = None
            return False
        if self.settled_ns is None:
            self.settled_ns = at_ns
            self.delivered.clear()
        return (
            at_ns >= self.settled_ns + self.overlap_ns
            and self.delivered <= self.by_both
            and new.unheard <= old.unheard
            and _as_good(old.books, new.books)
        )


_Books = Mapping[Symbol, BookView]


def _as_good(old: _Books, new: _Books) -> bool:
    """Whether every book that is synced on the old connection is synced on the new one."""
    return all(
        new[symbol].state == "synced" for symbol, book in old.items() if book.state == "synced"
    )


def better(primary: ShardConnection, others: Sequence[ShardConnection]) -> ShardConnection | None:
    """Return a connection with every synced book of the primary, and one more; None if none."""
    mine = primary.connection.books
    for member in others:
        if member is not primary and member.live and member.synced_books > primary.synced_books:
            theirs = member.connection.books
            if mine.keys() == theirs.keys() and _as_good(mine, theirs):
                return member
    return None


def baselines(exchange: str, connection: Connection, at_ns: int) -> list[BookSnapshot]:
    """Return snapshots of books without update ids, as baselines of their connection's next deltas.

    Where a lost change does not show, they have no exchange time: nothing proves them correct.
    """
    shown: list[BookSnapshot] = []
    rules = connection.books.rules
    if rules.numbered:
        return shown
    for symbol, book in connection.books.items():
        if book.state == "synced" and book.levels is not None:
            bids, asks = book.levels.texts()
            shown.append(
                BookSnapshot(
                    exchange=exchange,
                    symbol=symbol,
                    received_at_ns=at_ns,
                    at_ns=book.at_ns if rules.shows_loss else None,
                    bids_raw=write_levels(bids),
                    asks_raw=write_levels(asks),
                )
            )
    return shown


def carry_resyncs(old: ShardConnection, new: ShardConnection) -> None:
    """Continue the resync counts of the old connection's books on the new connection.

    Not if the old one was lost: its books have become stale, and the new one's have not.
    """
    if old.live:
        for symbol, book in new.connection.books.items():
            before = old.connection.books.get(symbol)
            book.carry_resyncs(before.resyncs if before is not None else 0)
