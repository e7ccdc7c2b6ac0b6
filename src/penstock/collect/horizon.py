"""The horizon: how far down a book is known.

A book is begun from a snapshot of so many levels, and kept by what changes. Levels below the
snapshot's last one are known only once they change: between those that are, others may rest that
nobody has told of. So a book is shown down to where its snapshot ended, and no further; and before
its price has come so far, a new snapshot is asked for.
"""

from decimal import Decimal
from typing import NamedTuple

from penstock.errors import MalformedLevels
from penstock.market.events import BookSnapshot
from penstock.market.levels import Level, LevelText
from penstock.market.symbol import Symbol
from penstock.streaming.audit import Ends, Sides, ends_of, sides_of

_LAST_PART = 0.2
"""Of a snapshot's levels: a price that comes among these nears the end of what is known."""


class _Noted(NamedTuple):
    ends: Ends
    nears: Ends
    """The prices at which the last part of the levels begins."""


_NOWHERE = _Noted(Ends(), Ends())


class Horizon:
    """Where the snapshots ended that an exchange's books began from."""

    def __init__(self, depth: int) -> None:
        """``depth`` is how many levels are asked for; fewer in an answer are all there are."""
        self._depth = depth
        self._noted: dict[Symbol, _Noted] = {}

    def note(self, snapshot: BookSnapshot) -> None:
        """The book of that symbol begins from this."""
        try:
            sides = sides_of(snapshot)
        except MalformedLevels:
            return  # No book will begin from it.
        self._noted[snapshot.symbol] = _Noted(ends_of(sides, self._depth), self._nears(sides))

    def ends(self, symbol: Symbol) -> Ends:
        """How far its book is known."""
        return self._noted.get(symbol, _NOWHERE).ends

    def known(
        self, symbol: Symbol, bids: list[LevelText], asks: list[LevelText]
    ) -> tuple[list[LevelText], list[LevelText]]:
        """Of a book's best levels, those above the horizon."""
        return self.ends(symbol).known((bids, asks))

    def nears(self, symbol: Symbol, bid: Level | None, ask: Level | None) -> bool:
        """Whether a best price is among the last of the levels that are known, or beyond."""
        nears = self._noted.get(symbol, _NOWHERE).nears
        bid_nears = bid is not None and nears.bid is not None and bid[0] <= nears.bid
        ask_nears = ask is not None and nears.ask is not None and ask[0] >= nears.ask
        return bid_nears or ask_nears

    def left(self, symbol: Symbol, bid: Level | None, ask: Level | None) -> bool:
        """Whether a best price is beyond all that is known."""
        ends = self.ends(symbol)
        bid_left = bid is not None and ends.bid is not None and bid[0] < ends.bid
        ask_left = ask is not None and ends.ask is not None and ask[0] > ends.ask
        return bid_left or ask_left

    def _nears(self, sides: Sides) -> Ends:
        place = min(self._depth - 1, round(self._depth * (1 - _LAST_PART)))
        bids, asks = sides
        return Ends(
            Decimal(bids[place][0]) if len(bids) >= self._depth else None,
            Decimal(asks[place][0]) if len(asks) >= self._depth else None,
        )
