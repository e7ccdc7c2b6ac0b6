"""Rebuilds order books from records, with the state that the live books had.

A book starts from a recorded snapshot and follows the recorded changes, by the rules of its
exchange. A lost update, a wrong checksum or a recorded disconnect makes it stale, until the next
snapshot that joins.
"""

from collections.abc import Iterable, Iterator

from msgspec import Struct

from penstock.books.book import Book
from penstock.books.book_set import new_book
from penstock.books.rules import BookRules, BookState
from penstock.errors import MalformedLevels
from penstock.exchanges.registry import book_rules
from penstock.market.channels import BOOK_DELTAS, BOOK_SNAPSHOTS, DISCONNECTS
from penstock.market.events import BookDelta, BookSnapshot, Disconnect, Event
from penstock.market.levels import LevelText, split_levels
from penstock.market.symbol import Symbol
from penstock.storage.log import Received

CHANNELS = (BOOK_DELTAS.name, BOOK_SNAPSHOTS.name, DISCONNECTS.name)
"""The channels from which books are rebuilt."""
Market = tuple[str, Symbol]
"""An exchange and one of its markets."""


class RebuiltBook(Struct, frozen=True, kw_only=True):
    """A whole book, as of one record."""

    exchange: str
    symbol: Symbol
    received_at_ns: int
    """When its latest change was received."""
    state: BookState
    reason: str = ""
    """Why it is not synced; its levels are then the last known."""
    update_id: int = 0
    at_ns: int | None = None
    bids: list[LevelText] = []
    asks: list[LevelText] = []
    """Best first."""
    checksum: int | None = None
    """The exchange's, where it sends one."""


def rules_of(exchange: str) -> BookRules:
    """The rules of an exchange; if it is unknown, every snapshot is a whole book."""
    return book_rules(exchange) or BookRules(begins="frame")


class BookRebuilder:
    """The books of all markets, as of the latest record."""

    def __init__(self) -> None:
        self._books: dict[Market, Book] = {}
        self._checksums: dict[Market, int | None] = {}

    def receive(self, event: Event) -> bool:
        """Handle a record; return whether it changed a book or its state.

        A snapshot that shows what the book holds already does not: collectors record such ones.
        """
        if not isinstance(event, BookDelta | BookSnapshot | Disconnect):
            return False
        market = event.exchange, event.symbol
        book = self._books.get(market)
        if isinstance(event, Disconnect):
            if book is None or BOOK_DELTAS.name not in event.channels:
                return False
            book.interrupt(event.reason)
            return True
        if book is None:
            book = self._books[market] = new_book(rules_of(event.exchange))
        if isinstance(event, BookDelta):
            book.receive(event)
            self._checksums[market] = event.checksum
            return True
        if book.state == "synced" and (rules_of(event.exchange).numbered or _shows(book, event)):
            return False
        book.begin(event)
        self._checksums[market] = event.checksum
        return True

    def book(self, market: Market, received_at_ns: int, depth: int | None = None) -> RebuiltBook:
        """The book of a market that had a record."""
        book = self._books[market]
        bids, asks = book.levels.texts(depth) if book.levels is not None else ([], [])
        return RebuiltBook(
            exchange=market[0],
            symbol=market[1],
            received_at_ns=received_at_ns,
            state=book.state,
            reason=book.reason,
            update_id=book.update_id,
            at_ns=book.at_ns,
            bids=bids,
            asks=asks,
            checksum=self._checksums.get(market),
        )

    def find(self, market: Market, depth: int | None = None) -> RebuiltBook | None:
        """The book of a market, if it is synced."""
        book = self._books.get(market)
        return None if book is None or book.state != "synced" else self.book(market, 0, depth)


class BookFeed:
    """The books after each change, or at intervals of receive time those that changed."""

    def __init__(self, every_s: float = 0.0, depth: int | None = None) -> None:
        """``depth`` is the number of levels per side; None for all."""
        self._books, self._depth = BookRebuilder(), depth
        self._every_ns = round(every_s * 1_000_000_000)
        self._changed: dict[Market, int] = {}
        self._due_ns = 0

    def add(self, records: Iterable[Received]) -> Iterator[RebuiltBook]:
        """Handle records, in order; yield the books that are due."""
        for each in records:
            if each.topic.split(".", 2)[1] not in CHANNELS:
                continue
            if self._changed and each.received_at_ns >= self._due_ns:
                yield from self.rest()
            event = each.event
            if not self._books.receive(event):
                continue
            market = event.exchange, event.symbol
            if not self._every_ns:
                yield self._books.book(market, each.received_at_ns, self._depth)
                continue
            if not self._changed:
                self._due_ns = (each.received_at_ns // self._every_ns + 1) * self._every_ns
            self._changed[market] = each.received_at_ns

    def rest(self) -> Iterator[RebuiltBook]:
        """The books that changed since the last interval."""
        changed, self._changed = self._changed, {}
        for market, at_ns in changed.items():
            yield self._books.book(market, at_ns, self._depth)


def _shows(book: Book, snapshot: BookSnapshot) -> bool:
    """Whether a snapshot is one of the book as it is."""
    if book.levels is None or snapshot.at_ns != book.at_ns:
        return False
    try:
        bids, asks = split_levels(snapshot.bids_raw), split_levels(snapshot.asks_raw)
    except MalformedLevels:
        return False
    held = book.levels.texts(max(len(bids), len(asks)))
    return [*map(tuple, bids)] == [*map(tuple, held[0])][: len(bids)] and (
        [*map(tuple, asks)] == [*map(tuple, held[1])][: len(asks)]
    )
