"""Computes the known depth of a book: the prices down to which its levels are complete.

A book continues from a snapshot with a limited number of levels, and is updated by deltas. Levels
beyond the snapshot's last one are known only once they change, and there may be others between
them. So a book is shown only down to where its snapshot ended, and before the price gets there, a
new snapshot is requested.
"""

from decimal import Decimal

from penstock.streaming.audit import Ends
from penstock.streaming.book_sync import BookSync, SideDepth
from penstock.streaming.streamed_book import StreamedBook


class KnownDepth:
    """The known depth of books that continue from snapshots of ``depth`` levels."""

    def __init__(self, depth: int) -> None:
        """``depth`` is how many levels are requested; a response with fewer is the whole book."""
        self._depth = depth

    def ends(self, sync: BookSync | StreamedBook) -> Ends:
        """The last known price of each side."""
        if not isinstance(sync, BookSync):
            return Ends()  # Its stream delivers the whole book.
        bids, asks = sync.side_depths
        return Ends(self._price(bids, bids.last), self._price(asks, asks.last))

    def nears(self, sync: BookSync | StreamedBook) -> bool:
        """Whether a best price is among the last of the known levels, or beyond them."""
        if not isinstance(sync, BookSync):
            return False
        bids, asks = sync.side_depths
        late = Ends(self._price(bids, bids.late), self._price(asks, asks.late))
        return _has_come_to(late, sync)

    def left(self, sync: BookSync | StreamedBook) -> bool:
        """Whether a best price is beyond the known levels."""
        return _has_passed(self.ends(sync), sync)

    def forget_beyond(self, sync: BookSync | StreamedBook) -> None:
        """Drop levels beyond the known depth: they are never shown, and would accumulate."""
        if isinstance(sync, BookSync) and sync.book is not None:
            sync.book.forget_beyond(*self.ends(sync))

    def _price(self, side: SideDepth, price: str) -> Decimal | None:
        return Decimal(price) if side.levels >= self._depth else None


def _has_passed(ends: Ends, sync: BookSync | StreamedBook) -> bool:
    if sync.book is None:
        return False
    bid, ask = sync.book.best_bid, sync.book.best_ask
    bid_past = bid is not None and ends.bid is not None and bid[0] < ends.bid
    return bid_past or (ask is not None and ends.ask is not None and ask[0] > ends.ask)


def _has_come_to(ends: Ends, sync: BookSync) -> bool:
    if sync.book is None:
        return False
    bid, ask = sync.book.best_bid, sync.book.best_ask
    bid_there = bid is not None and ends.bid is not None and bid[0] <= ends.bid
    return bid_there or (ask is not None and ends.ask is not None and ask[0] >= ends.ask)
