"""The books of one connection, with gaps filled from copies on other connections."""

from collections.abc import Iterable, Sequence

from penstock.market.symbol import Symbol
from penstock.streaming.book_sync import BookSync
from penstock.streaming.dialect import BookRules
from penstock.streaming.streamed_book import StreamedBook
from penstock.streaming.wanted import StreamKey


class BookSet(dict[Symbol, BookSync | StreamedBook]):
    """Books by symbol."""

    def __init__(self, rules: BookRules, *, keep_levels: bool) -> None:
        super().__init__()
        self._rules, self._keep_levels, self._copies = rules, keep_levels, False
        self.holes: set[Symbol] = set()
        """Books that hold deltas back until another connection has delivered the missing ones."""

    def begin(self, stream_keys: Iterable[StreamKey]) -> None:
        """Start the books of these streams."""
        for channel, symbol in stream_keys:
            if channel != "book_deltas":
                continue
            if self._rules.begins == "rest":
                numbered = self[symbol] = BookSync(keep_levels=self._keep_levels)
                numbered.expect_copies(copies=self._copies)
            else:
                self[symbol] = StreamedBook(self._rules, keep_levels=self._keep_levels)

    def expect_copies(self, *, copies: bool) -> None:
        """Set whether other connections deliver the same; then call ``fill_holes``."""
        self._copies = copies
        for book in self.values():
            if isinstance(book, BookSync):
                book.expect_copies(copies=copies)

    def fill_holes(self, others: Sequence["BookSet"], until_ns: int) -> list[Symbol]:
        """Fill gaps with deltas from others; gaps found before ``until_ns`` are given up.

        Returns the books that are lost.
        """
        lost = []
        for symbol in [*self.holes]:
            book = self.get(symbol)
            theirs = [other.get(symbol) for other in others]
            copies = [each for each in theirs if isinstance(each, BookSync)]
            if not (isinstance(book, BookSync) and book.fill(copies, until_ns)):
                self.holes.discard(symbol)
            if book is not None and book.wants_snapshot:
                lost.append(symbol)
        return lost
