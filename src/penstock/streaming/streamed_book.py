"""A book that starts from a snapshot in its stream, and is verified as far as possible.

Where updates have no ids, no snapshot fetched by REST can be joined to them. Instead the exchange
sends one at the start of the stream, and another after each resubscription; or every frame is a
whole book. A wrong book is detected by a checksum where the exchange sends one, and otherwise by a
bid that reaches an ask.
"""

from penstock.errors import MalformedLevels
from penstock.market.book import OrderBook
from penstock.market.events import BookDelta, BookSnapshot
from penstock.market.levels import split_levels
from penstock.market.top_book import TopBook
from penstock.market.whole_book import WholeBook
from penstock.streaming.dialect import BookRules, BookState


class StreamedBook:
    """One symbol's book, and whether it is valid.

    ``syncing`` until it is first started, ``synced`` while nothing contradicts it, ``stale`` from
    the moment something does until it is started again.
    """

    __slots__ = ("_proven", "at_ns", "book", "reason", "resyncs", "state", "told", "wants_snapshot")

    update_id = 0
    """There are no update ids."""
    held = ()
    """Always empty: without ids, changes of another connection cannot be placed."""

    def __init__(self, rules: BookRules, *, keep_levels: bool = True) -> None:
        self.state: BookState = "syncing"
        self.reason = "no snapshot yet"
        self.wants_snapshot = False
        """Whether the stream has to be subscribed again."""
        self.resyncs = 0
        """How often a synced book had to start again."""
        self.at_ns: int | None = None
        """The exchange's time of the latest state, while synced."""
        self.told: list[BookDelta | BookSnapshot] | None = None
        """Snapshots and changes since an audit started; see ``audit``. None if there is no audit,
        or if the book has become stale meanwhile."""
        self._proven = rules.checksum is not None
        self.book: OrderBook | TopBook | WholeBook | None = None
        if keep_levels:
            self.book = empty_book(rules)

    def begin(self, snapshot: BookSnapshot) -> None:
        """Start from a snapshot in the stream, whatever the state was before."""
        book = self.book
        self.state, self.reason, self.at_ns = "synced", "", snapshot.at_ns
        self.wants_snapshot = False
        if self.told is not None:
            self.told.append(snapshot)
        if book is None:
            return
        try:
            if isinstance(book, WholeBook):
                book.load_raw(snapshot.bids_raw, snapshot.asks_raw)
            else:
                book.load_plain(split_levels(snapshot.bids_raw), split_levels(snapshot.asks_raw))
        except MalformedLevels as error:
            self.doubt(f"snapshot: {error}")
        else:
            self._check(book, snapshot)

    def receive(self, delta: BookDelta) -> None:
        """Handle the next change of the stream; it is ignored unless the book is synced."""
        if self.state != "synced":
            return
        if self.at_ns is not None and delta.at_ns < self.at_ns and not self._proven:
            # It would restore older levels.
            self.doubt(f"out of order: a change of {delta.at_ns} after one of {self.at_ns}")
            return
        self.at_ns = delta.at_ns
        if self.told is not None:
            self.told.append(delta)
        book = self.book
        if book is None or isinstance(book, WholeBook):  # it has no changes
            return
        try:
            book.apply_plain(split_levels(delta.bids_raw), split_levels(delta.asks_raw))
        except MalformedLevels as error:
            self.doubt(f"change: {error}")
        else:
            self._check(book, delta)

    def distrust(self, reason: str) -> None:
        """Mark the book stale: its stream has ended."""
        self.doubt(reason)
        self.wants_snapshot = False  # the next subscription brings one

    def _check(self, book: OrderBook | TopBook | WholeBook, told: BookDelta | BookSnapshot) -> None:
        found = book.checksum() if isinstance(book, TopBook) else None
        if found is not None:
            if found != told.checksum:
                self.doubt(f"checksum: the exchange's is {told.checksum}, this book's {found}")
        elif book.crossed():
            self.doubt("crossed: somebody bids what is asked")

    def doubt(self, reason: str) -> None:
        """Mark the book stale: something contradicts it, or is known to be lost."""
        if self.state == "synced":
            self.state = "stale"
            self.resyncs += 1
        self.reason, self.wants_snapshot, self.told = reason, True, None


def empty_book(rules: BookRules) -> OrderBook | TopBook | WholeBook:
    """Return an empty book of the kind that fits an exchange's rules."""
    if rules.begins == "frame":
        return WholeBook(rules.depth)
    return OrderBook() if rules.depth is None else TopBook(rules.depth, rules.checksum)
