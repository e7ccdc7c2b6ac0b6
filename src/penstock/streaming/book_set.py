"""The books of one connection, and what the same books of other connections can give them."""

from collections.abc import Iterable, Sequence

from penstock.market.symbol import Symbol
from penstock.streaming.book_sync import BookSync
from penstock.streaming.dialect import BookRules
from penstock.streaming.streamed_book import StreamedBook
from penstock.streaming.wanted import Place


class BookSet(dict[Symbol, BookSync | StreamedBook]):
    """Books by symbol."""

    def __init__(self, rules: BookRules, *, keep_levels: bool) -> None:
        super().__init__()
        self._rules, self._keep_levels, self._twins = rules, keep_levels, False
        self.holes: set[Symbol] = set()
        """Books that hold deltas back until another connection has brought what is missing."""

    def begin(self, places: Iterable[Place]) -> None:
        """Keep the books that these streams tell of."""
        for channel, symbol in places:
            if channel != "book_deltas":
                continue
            if self._rules.begins == "rest":
                numbered = self[symbol] = BookSync(keep_levels=self._keep_levels)
                numbered.have_twins(twins=self._twins)
            else:
                self[symbol] = StreamedBook(self._rules, keep_levels=self._keep_levels)

    def have_twins(self, *, twins: bool) -> None:
        """Whether other connections bring the same; then somebody has to see to the ``holes``."""
        self._twins = twins
        for book in self.values():
            if isinstance(book, BookSync):
                book.have_twins(twins=twins)

    def fill_holes(self, others: Sequence["BookSet"], until_ns: int) -> list[Symbol]:
        """Take from others what is missing here; holes found before that instant are given up.

        Returns the books that are lost.
        """
        lost = []
        for symbol in [*self.holes]:
            book = self.get(symbol)
            theirs = [other.get(symbol) for other in others]
            twins = [each for each in theirs if isinstance(each, BookSync)]
            if not (isinstance(book, BookSync) and book.fill(twins, until_ns)):
                self.holes.discard(symbol)
            if book is not None and book.wants_snapshot:
                lost.append(symbol)
        return lost
