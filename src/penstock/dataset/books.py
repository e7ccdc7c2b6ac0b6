"""Rebuilds a market's order book as it was at a time, from a snapshot and the deltas after it."""

from collections.abc import Callable, Iterable, Iterator
from decimal import Decimal

import polars as pl
from msgspec import Struct

from penstock.books.book import Book
from penstock.books.book_set import new_book
from penstock.books.known_depth import KnownDepth
from penstock.books.rules import BookRules, BookState
from penstock.dataset.times import Range, Time
from penstock.exchanges.registry import book_rules
from penstock.market.channels import BOOK_DELTAS
from penstock.market.events import BookDelta, BookSnapshot, Disconnect, Event
from penstock.market.levels import Level

_MINUTE_NS = 60_000_000_000
_LOOK_BACK_NS = tuple(minutes * _MINUTE_NS for minutes in (10, 120, 1440, 43_200))
_LEAD_NS = _MINUTE_NS
"""Deltas are read from this long before a snapshot: it may have been received after newer ones."""
_MOST_STARTS = 3
"""How many snapshots are tried before a book is reported as not synced."""


class BookAt(Struct, frozen=True, kw_only=True):
    """An order book as it was at a time."""

    exchange: str
    symbol: str
    time_ns: int
    """The time that was asked for."""
    state: BookState
    """``synced``: nothing contradicts it. ``stale``: something does, or data is missing; the levels
    are the last ones known. ``syncing``: no snapshot was found."""
    reason: str
    """Why it is not synced."""
    update_id: int
    """0 where the exchange does not number its updates."""
    bids: list[Level]
    """Price and quantity, best first, down to where the snapshot that it began from ended."""
    asks: list[Level]

    @property
    def synced(self) -> bool:
        return self.state == "synced"

    @property
    def best_bid(self) -> Level | None:
        return self.bids[0] if self.bids else None

    @property
    def best_ask(self) -> Level | None:
        return self.asks[0] if self.asks else None

    def polars(self) -> pl.DataFrame:
        """The levels as a frame with the columns side, level, price and quantity."""
        rows = [
            (side, level, float(price), float(quantity))
            for side, levels in (("bid", self.bids), ("ask", self.asks))
            for level, (price, quantity) in enumerate(levels)
        ]
        types = {
            "side": pl.String, "level": pl.Int64, "price": pl.Float64, "quantity": pl.Float64,
        }  # fmt: skip
        return pl.DataFrame(rows, schema=types, orient="row")


class BookReader:
    """One market's order book, at any time of its records."""

    def __init__(
        self,
        exchange: str,
        symbol: str,
        events: Callable[[Range], Iterable[Event]],
        snapshots: Callable[[Range], Iterable[BookSnapshot]],
        instant: Callable[[Time], int],
    ) -> None:
        """``events`` returns deltas, snapshots and disconnects of a range, as received."""
        self._exchange, self._symbol = exchange, symbol
        self._events, self._snapshots, self._instant = events, snapshots, instant

    def at(self, time: Time) -> BookAt:
        """The book as it was at a time of the exchange's clock.

        Example: data.book("BTC/USDT").at("2026-11-01T12:00").best_bid

        Raises:
            BadTime: it is not a time.
        """
        at_ns = self._instant(time)
        book: Book | None = None
        for start in self._starts(at_ns):
            book = self._replayed(start, at_ns)
            if book.state == "synced":
                break
        if book is None:
            reason = "there is no snapshot of this book before that time"
            return self._shown(at_ns, "syncing", reason, 0, [], [])
        assert book.levels is not None
        ends = KnownDepth(1).ends(book)
        bids, asks = (
            [(Decimal(price), Decimal(quantity)) for price, quantity in side]
            for side in ends.known(book.levels.texts())
        )
        return self._shown(at_ns, book.state, book.reason, book.update_id, bids, asks)

    def _shown(
        self,
        at_ns: int,
        state: BookState,
        reason: str,
        update_id: int,
        bids: list[Level],
        asks: list[Level],
    ) -> BookAt:
        return BookAt(
            exchange=self._exchange,
            symbol=self._symbol,
            time_ns=at_ns,
            state=state,
            reason=reason,
            update_id=update_id,
            bids=bids,
            asks=asks,
        )

    def _starts(self, at_ns: int) -> Iterator[BookSnapshot]:
        """The snapshots to start from, latest first."""
        rules, found = book_rules(self._exchange), list[BookSnapshot]()
        for back_ns in (*_LOOK_BACK_NS, at_ns):
            times = Range(max(0, at_ns - back_ns), at_ns + 1)
            found = [each for each in self._snapshots(times) if _can_begin(each, rules)]
            if found:
                break
        yield from found[: -_MOST_STARTS - 1 : -1]

    def _replayed(self, start: BookSnapshot, at_ns: int) -> Book:
        rules = book_rules(self._exchange)
        began_ns = start.market_ns
        events = [
            each
            for each in self._events(Range(max(0, began_ns - _LEAD_NS), at_ns + 1))
            if each.market_ns <= at_ns
        ]
        book = new_book(rules or _guessed(events))
        for event in events:
            match event:
                case BookDelta():
                    book.receive(event)
                case BookSnapshot() if event == start or (
                    event.received_at_ns > start.received_at_ns
                    and book.state != "synced"
                    and _can_begin(event, rules)
                ):
                    book.begin(event)
                case Disconnect() if BOOK_DELTAS.name in event.channels:
                    book.interrupt(event.reason)
        return book


def _can_begin(snapshot: BookSnapshot, rules: BookRules | None) -> bool:
    # Without update ids a fetched snapshot cannot be placed among the changes.
    return rules is None or rules.numbered or snapshot.source == "live"


def _guessed(events: Iterable[Event]) -> BookRules:
    """The rules of an exchange that this version does not know, by its records."""
    deltas = [each for each in events if isinstance(each, BookDelta)]
    if not deltas:
        return BookRules(begins="frame")
    numbered = all(each.final_update_id is not None for each in deltas)
    return BookRules(begins="rest" if numbered else "stream")
