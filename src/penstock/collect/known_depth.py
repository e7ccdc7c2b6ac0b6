"""The known depth: how far down a book is known.

A book goes on from a snapshot of so many levels, and is kept by what changes. Levels below the
snapshot's last one are known only once they change: between those that are, others may rest that
nobody has told of. So a book is shown down to where its snapshot ended, and no further; and before
its price has come so far, a new snapshot is asked for.
"""

from decimal import Decimal

from penstock.streaming.audit import Ends
from penstock.streaming.book_sync import BookSync, SideDepth
from penstock.streaming.streamed_book import StreamedBook


class KnownDepth:
    """Where books end that go on from snapshots of so many levels."""

    def __init__(self, depth: int) -> None:
        """``depth`` is how many levels are asked for; fewer in an answer are all there are."""
        self._depth = depth

    def ends(self, sync: BookSync | StreamedBook) -> Ends:
        """The last prices down to which a book is known."""
        if not isinstance(sync, BookSync):
            return Ends()  # All that its stream tells of is the book.
        bids, asks = sync.side_depths
        return Ends(self._price(bids, bids.last), self._price(asks, asks.last))

    def nears(self, sync: BookSync | StreamedBook) -> bool:
        """Whether a best price is among the last of the levels that are known, or beyond."""
        if not isinstance(sync, BookSync):
            return False
        bids, asks = sync.side_depths
        late = Ends(self._price(bids, bids.late), self._price(asks, asks.late))
        return _has_come_to(late, sync)

    def left(self, sync: BookSync | StreamedBook) -> bool:
        """Whether a best price is beyond all that is known."""
        return _has_passed(self.ends(sync), sync)

    def forget_beyond(self, sync: BookSync | StreamedBook) -> None:
        """Drop what is beyond all that is known: nobody is shown it, and it becomes ever more."""
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
