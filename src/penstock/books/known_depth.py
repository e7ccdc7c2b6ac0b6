"""The known depth of a book: the prices down to which its levels are complete.

A book continues from a snapshot with a limited number of levels, and is updated by deltas. Levels
beyond the snapshot's last one are known only once they change, and there may be others between
them. So a book is shown only down to where its snapshot ended, and before the price gets there, a
new snapshot is requested.
"""

from decimal import Decimal
from math import inf
from typing import NamedTuple

from penstock.books.book import BookView, SideDepth, Sides
from penstock.market.levels import LevelText

_LAST_PART = 0.2
"""The last share of a snapshot's levels: a price among these is near the known depth's end."""


class Ends(NamedTuple):
    """The last prices up to which a book is known; None where it is known completely."""

    bid: Decimal | None = None
    ask: Decimal | None = None

    def within(self, other: "Ends") -> "Ends":
        """Return the range that is known in both."""
        return Ends(
            max((each for each in (self.bid, other.bid) if each is not None), default=None),
            min((each for each in (self.ask, other.ask) if each is not None), default=None),
        )

    def known(self, sides: Sides) -> Sides:
        """Return the levels of a book within the ends."""
        bids, asks = sides
        return (
            [level for level in bids if self.bid is None or Decimal(level[0]) >= self.bid],
            [level for level in asks if self.ask is None or Decimal(level[0]) <= self.ask],
        )


def ends_of(sides: Sides, depth: int | None) -> Ends:
    """Return the ends of levels of which ``depth`` were requested; fewer are the whole side."""
    if depth is None:
        return Ends()
    bids, asks = sides
    return Ends(
        Decimal(bids[depth - 1][0]) if len(bids) >= depth else None,
        Decimal(asks[depth - 1][0]) if len(asks) >= depth else None,
    )


def side_depth(levels: list[LevelText]) -> SideDepth:
    """Return the depth of one side of a snapshot."""
    if not levels:
        return SideDepth()
    late = min(len(levels) - 1, round(len(levels) * (1 - _LAST_PART)))
    return SideDepth(len(levels), Decimal(levels[-1][0]), Decimal(levels[late][0]))


class KnownDepth:
    """The known depth of books that continue from snapshots of ``depth`` levels."""

    def __init__(self, depth: int) -> None:
        """``depth`` is how many levels are requested; a response with fewer is the whole book."""
        self.depth = depth

    def ends(self, book: BookView) -> Ends:
        """The last known price of each side."""
        bids, asks = book.side_depths
        return Ends(self._price(bids, bids.last), self._price(asks, asks.last))

    def distance(self, book: BookView) -> float:
        """How far the best prices are from the last of the known levels, as a share of the price.

        0 if one is among them, or beyond; infinite if the book is known completely.
        """
        bids, asks = book.side_depths
        late = Ends(self._price(bids, bids.late), self._price(asks, asks.late))
        bid, ask = _best(book, late)
        found = inf
        if bid is not None and late.bid is not None:
            found = float(1 - late.bid / bid) if bid else 0.0
        if ask is not None and late.ask is not None:
            found = min(found, float(late.ask / ask - 1) if ask else 0.0)
        return max(0.0, found)

    def left(self, book: BookView) -> bool:
        """Whether a best price is beyond the known levels."""
        ends = self.ends(book)
        bid, ask = _best(book, ends)
        past_bid = bid is not None and ends.bid is not None and bid < ends.bid
        return past_bid or (ask is not None and ends.ask is not None and ask > ends.ask)

    def _price(self, side: SideDepth, price: Decimal | None) -> Decimal | None:
        return price if side.levels >= self.depth else None


def _best(book: BookView, ends: Ends) -> tuple[Decimal | None, Decimal | None]:
    """The best prices, as far as there is an end to compare them with."""
    levels = book.levels
    if levels is None:
        return None, None
    bid = levels.best_bid if ends.bid is not None else None
    ask = levels.best_ask if ends.ask is not None else None
    return (bid[0] if bid else None), (ask[0] if ask else None)
