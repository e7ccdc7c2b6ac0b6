"""A streamed book starts from a snapshot in its stream, and is verified as far as possible.

Where updates have no ids, no snapshot fetched by REST can be joined to them. Instead the exchange
sends one at the start of the stream, and another after each resubscription. A wrong book is
detected by a checksum where the exchange sends one, and otherwise by a bid that reaches an ask.
"""

from penstock.books.order_book import OrderBook
from penstock.books.rules import BookRules
from penstock.books.top_book import TopBook
from penstock.books.unnumbered import UnnumberedBook
from penstock.errors import MalformedLevels
from penstock.market.events import BookDelta, BookSnapshot
from penstock.market.levels import split_levels


class StreamedBook(UnnumberedBook):
    """One symbol's book that starts with a snapshot and continues with changes."""

    __slots__ = ("_checked", "_top", "levels")

    def __init__(self, rules: BookRules, *, keep_levels: bool = True) -> None:
        super().__init__(rules)
        self._checked = rules.checksum is not None
        self.levels: OrderBook | TopBook | None = None
        self._top: TopBook | None = None
        """The levels, if there is a checksum."""
        if keep_levels and rules.depth is None:
            self.levels = OrderBook()
        elif keep_levels and rules.depth is not None:
            self.levels = top = TopBook(rules.depth, rules.checksum)
            self._top = top if self._checked else None

    def begin(self, snapshot: BookSnapshot) -> bool:
        """Start from a snapshot in the stream, whatever the state was before."""
        levels = self.levels
        self._began(snapshot)
        if levels is not None:
            try:
                levels.load_plain(split_levels(snapshot.bids_raw), split_levels(snapshot.asks_raw))
            except MalformedLevels as error:
                self.invalidate(f"snapshot: {error}")
            else:
                self._check(levels, snapshot)
        return self.state == "synced"

    def receive(self, delta: BookDelta) -> None:
        """Handle the next change of the stream; it is ignored unless the book is synced."""
        if self.state != "synced":
            return
        if self.at_ns is not None and delta.at_ns < self.at_ns and not self._checked:
            # It would restore older levels.
            self.invalidate(f"out of order: a change of {delta.at_ns} after one of {self.at_ns}")
            return
        self.at_ns = delta.at_ns
        if self._history is not None:
            self._history.append(delta)
        levels = self.levels
        if levels is None:
            return
        try:
            levels.apply_plain(split_levels(delta.bids_raw), split_levels(delta.asks_raw))
        except MalformedLevels as error:
            self.invalidate(f"change: {error}")
        else:
            self._check(levels, delta)

    def _check(self, levels: OrderBook | TopBook, event: BookDelta | BookSnapshot) -> None:
        if self._top is not None:
            found, theirs = self._top.checksum(), event.checksum
            if found != theirs:
                self.invalidate(f"checksum: the exchange's is {theirs}, this book's {found}")
        elif levels.crossed():
            self.invalidate("crossed: somebody bids what is asked")
