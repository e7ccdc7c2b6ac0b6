"""A book that its stream begins, and that is trusted as far as it can be checked.

Where updates carry no numbers, no snapshot fetched elsewhere can be joined to them. The exchange
sends one at the head of the stream instead, and another whenever the stream is asked for anew; or
every frame is a whole book. What tells a wrong book from a right one is a checksum where the
exchange sends one, and otherwise that no bid may reach an ask.
"""

from penstock.errors import MalformedLevels
from penstock.market.book import OrderBook
from penstock.market.events import BookDelta, BookSnapshot
from penstock.market.levels import split_levels
from penstock.market.top_book import TopBook
from penstock.market.whole_book import WholeBook
from penstock.streaming.dialect import BookRules, BookState


class StreamedBook:
    """One symbol's book, and whether it can be believed.

    ``syncing`` until it is first begun, ``synced`` while nothing contradicts it, ``stale`` from
    the moment something does until it is begun again.
    """

    __slots__ = ("_proven", "at_ns", "book", "reason", "resyncs", "state", "told", "wants_snapshot")

    update_id = 0
    """There are none."""
    held = ()
    """Without numbers nothing tells where a change of another connection belongs."""

    def __init__(self, rules: BookRules, *, keep_levels: bool = True) -> None:
        self.state: BookState = "syncing"
        self.reason = "no snapshot yet"
        self.wants_snapshot = False
        """Whether the stream has to be asked for anew."""
        self.resyncs = 0
        """How often a book that was synced had to begin again."""
        self.at_ns: int | None = None
        """The exchange's time of the newest state known, while synced."""
        self.told: list[BookDelta | BookSnapshot] | None = None
        """What the book was told since somebody began to listen; see ``audit``. None if nobody
        does, or if the book had to be doubted meanwhile."""
        self._proven = rules.checksum is not None
        self.book: OrderBook | TopBook | WholeBook | None = None
        if keep_levels:
            self.book = empty_book(rules)

    def begin(self, snapshot: BookSnapshot) -> None:
        """Begin from a snapshot in the stream, whatever was believed before."""
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
        """Take the next change of the stream; without a book to change it means nothing."""
        if self.state != "synced":
            return
        if self.at_ns is not None and delta.at_ns < self.at_ns and not self._proven:
            # It would set levels back to what they were before.
            self.doubt(f"out of order: a change of {delta.at_ns} after one of {self.at_ns}")
            return
        self.at_ns = delta.at_ns
        if self.told is not None:
            self.told.append(delta)
        book = self.book
        if book is None or isinstance(book, WholeBook):  # which no change is ever told of
            return
        try:
            book.apply_plain(split_levels(delta.bids_raw), split_levels(delta.asks_raw))
        except MalformedLevels as error:
            self.doubt(f"change: {error}")
        else:
            self._check(book, delta)

    def distrust(self, reason: str) -> None:
        """Stop believing the book: the stream it came from has ended."""
        self.doubt(reason)
        self.wants_snapshot = False  # whoever asks for the stream again will get one

    def _check(self, book: OrderBook | TopBook | WholeBook, told: BookDelta | BookSnapshot) -> None:
        found = book.checksum() if isinstance(book, TopBook) else None
        if found is not None:
            if found != told.checksum:
                self.doubt(f"checksum: the exchange's is {told.checksum}, this book's {found}")
        elif book.crossed():
            self.doubt("crossed: somebody bids what is asked")

    def doubt(self, reason: str) -> None:
        """Stop believing the book: something contradicts it, or is known to be lost."""
        if self.state == "synced":
            self.state = "stale"
            self.resyncs += 1
        self.reason, self.wants_snapshot, self.told = reason, True, None


def empty_book(rules: BookRules) -> OrderBook | TopBook | WholeBook:
    """What suits the way an exchange tells its books."""
    if rules.begins == "frame":
        return WholeBook(rules.depth)
    return OrderBook() if rules.depth is None else TopBook(rules.depth, rules.checksum)
