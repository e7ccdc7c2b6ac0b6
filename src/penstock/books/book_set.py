"""The books of one connection, without its socket: events in, commands out.

A lost sequenced book is restarted by a fetched snapshot, unless a copy on another connection fills
the gap. A lost streamed book is restarted by subscribing its stream again, which the connection
does; a lost whole book by the next frame.
"""

from collections.abc import Callable, Iterable, Sequence

from penstock.books.book import Book, BookView
from penstock.books.commands import BookCommand, CancelFetch, FetchSnapshot
from penstock.books.events import AuditDone, BookEvent, PriceLeft, TrimLevels
from penstock.books.restarts import BookRestarts
from penstock.books.rules import BookRules
from penstock.books.sequenced import SequencedBook
from penstock.books.streamed import StreamedBook
from penstock.books.updates import new_updater
from penstock.books.whole import WholeBook
from penstock.market.events import BookDelta, BookSnapshot, Event
from penstock.market.symbol import Symbol


def new_book(rules: BookRules, *, keep_levels: bool = True) -> Book:
    """Return a book of the kind that fits an exchange's rules."""
    match rules.begins:
        case "rest":
            return SequencedBook(keep_levels=keep_levels)
        case "stream":
            return StreamedBook(rules, keep_levels=keep_levels)
        case "frame":
            return WholeBook(rules, keep_levels=keep_levels)


class BookSet(dict[Symbol, Book]):
    """Books by symbol."""

    def __init__(
        self,
        rules: BookRules,
        restarts: BookRestarts,
        issue: Callable[[BookCommand], None] = lambda _: None,
        *,
        keep_levels: bool = True,
    ) -> None:
        """``issue`` receives the commands."""
        super().__init__()
        self.rules, self.restarts, self._issue = rules, restarts, issue
        self._keep_levels, self._copies = keep_levels, False
        self._updater = new_updater() if rules.numbered else None
        self.holes: set[Symbol] = set()
        """Books that hold deltas back until another connection has delivered the missing ones."""

    def apply(self, events: Sequence[Event], otherwise: Callable[[BookDelta], None]) -> bool:
        """Apply the deltas among events, in order, each to its book if it has no consequences.

        The others are passed to ``otherwise``. False, without effect, where that is not possible.
        """
        if self._updater is None:
            return False
        self._updater.apply(events, self, otherwise)
        return True

    def add(self, symbols: Iterable[Symbol]) -> None:
        """Add books that are not started yet."""
        for symbol in symbols:
            book = self[symbol] = new_book(self.rules, keep_levels=self._keep_levels)
            book.expect_copies(copies=self._copies)

    def remove(self, symbol: Symbol) -> None:
        """Remove a book."""
        self.pop(symbol, None)
        self._cancel(symbol)

    def interrupt(self, symbol: Symbol, reason: str) -> None:
        """Handle that a book's stream has ended."""
        self[symbol].interrupt(reason)
        self._cancel(symbol)

    def interrupt_all(self, reason: str) -> None:
        """Handle that all streams have ended."""
        for symbol in self:
            self.interrupt(symbol, reason)

    def cancel_fetches(self) -> None:
        """Cancel all requests for snapshots: the connection is not used any more."""
        for symbol in self:
            self._cancel(symbol)

    def restart(self, symbol: Symbol, at_ns: int) -> bool:
        """Restart a lost book; return whether its stream has to be subscribed again for that."""
        if self.rules.begins == "rest":
            self._fetch(symbol)
        return self.rules.begins == "stream" and self.restarts.plan(symbol, at_ns)

    def fetched(self, snapshot: BookSnapshot) -> None:
        """Handle a fetched snapshot."""
        symbol = snapshot.symbol
        self.restarts.fetched(symbol)
        book = self.get(symbol)
        if book is None or not book.wants_snapshot:
            return
        if book.begin(snapshot):
            self.restarts.joined(symbol)
        elif book.wants_snapshot:
            self._fetch(symbol)

    def fetch_failed(self, symbol: Symbol) -> None:
        """Handle a failed request for a snapshot; repeat it if the book still needs one."""
        self.restarts.fetched(symbol)
        book = self.get(symbol)
        if book is not None and book.wants_snapshot:
            self._fetch(symbol)

    def join(self, symbol: Symbol, other: BookView) -> bool:
        """Start a book from another connection's copy; return whether that was possible."""
        book = self.get(symbol)
        if book is None or not book.join_from(other):
            return False
        self.restarts.joined(symbol)
        return True

    def handle(self, symbol: Symbol, event: BookEvent) -> None:
        """Handle an event that does not come from the stream; the book may be lost by it."""
        book = self[symbol]
        match event:
            case PriceLeft():
                book.invalidate("the price has left all that the snapshot showed")
            case TrimLevels(depth):
                book.forget_beyond(depth)
            case AuditDone(audit):
                audit.finish(book)

    def expect_copies(self, *, copies: bool) -> None:
        """Set whether other connections deliver the same; then call ``fill_holes``."""
        self._copies = copies
        for book in self.values():
            book.expect_copies(copies=copies)

    def fill_holes(self, others: Sequence["BookSet"], until_ns: int) -> list[Symbol]:
        """Fill gaps with deltas from others; gaps found before ``until_ns`` are given up.

        Returns the books that are lost.
        """
        lost = []
        for symbol in [*self.holes]:
            book = self.get(symbol)
            theirs = [other.get(symbol) for other in others]
            copies = [each for each in theirs if isinstance(each, SequencedBook)]
            if not (isinstance(book, SequencedBook) and book.fill(copies, until_ns)):
                self.holes.discard(symbol)
            if book is not None and book.wants_snapshot:
                lost.append(symbol)
        return lost

    def _fetch(self, symbol: Symbol) -> None:
        after_s = self.restarts.fetch(symbol)
        if after_s is not None:
            self._issue(FetchSnapshot(symbol, after_s, lost=self[symbol].state == "stale"))

    def _cancel(self, symbol: Symbol) -> None:
        if self.restarts.cancel(symbol):
            self._issue(CancelFetch(symbol))
