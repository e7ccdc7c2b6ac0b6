"""The horizon: how far down a book is known.

A book is begun from a snapshot of so many levels, and kept by what changes. Levels below the
snapshot's last one are known only once they change: between those that are, others may rest that
nobody has told of. So a book is shown down to where its snapshot ended, and no further.
"""

from decimal import Decimal
from typing import NamedTuple

from penstock.errors import MalformedLevels
from penstock.market.events import BookSnapshot
from penstock.market.levels import LevelText, split_levels
from penstock.market.symbol import Symbol


class _Ends(NamedTuple):
    """The last prices of a snapshot; None where it ended because the book did."""

    bid: Decimal | None
    ask: Decimal | None


_NOWHERE = _Ends(None, None)


class Horizon:
    """Where the snapshots ended that an exchange's books began from."""

    def __init__(self, depth: int) -> None:
        """``depth`` is how many levels are asked for; fewer in an answer are all there are."""
        self._depth = depth
        self._ends: dict[Symbol, _Ends] = {}

    def note(self, snapshot: BookSnapshot) -> None:
        """The book of that symbol begins from this."""
        try:
            bids, asks = split_levels(snapshot.bids_raw), split_levels(snapshot.asks_raw)
        except MalformedLevels:
            return  # No book will begin from it.
        self._ends[snapshot.symbol] = _Ends(self._end(bids), self._end(asks))

    def known(
        self, symbol: Symbol, bids: list[LevelText], asks: list[LevelText]
    ) -> tuple[list[LevelText], list[LevelText]]:
        """Of a book's best levels, those above the horizon."""
        ends = self._ends.get(symbol, _NOWHERE)
        return (
            [level for level in bids if ends.bid is None or Decimal(level[0]) >= ends.bid],
            [level for level in asks if ends.ask is None or Decimal(level[0]) <= ends.ask],
        )

    def _end(self, levels: list[LevelText]) -> Decimal | None:
        return Decimal(levels[-1][0]) if len(levels) >= self._depth else None
