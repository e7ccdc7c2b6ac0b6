"""The best levels of a book, slot after slot, and what must be told from one to the next.

A client keeps so many levels a side. What falls off their end is not told: the client drops it.
What comes back over the end is told as if it were new. Levels that are gone come first, so that no
client ever holds too many and drops one that stays.
"""

from typing import NamedTuple

from penstock.simulator.market.book import Book, Delta, Level

MARGIN = 32
"""Levels held beyond those shown, so that few removals need another look at the whole book."""


class Shown(NamedTuple):
    """Both sides after a slot, best levels first."""

    bids: list[Level]
    asks: list[Level]


class Changes(NamedTuple):
    """Levels to set, each side in the order to be told; a quantity of 0 removes."""

    bids: list[Level]
    asks: list[Level]


class _Held(NamedTuple):
    """All levels down to a bid and up to an ask, from an event of the book on."""

    event: int
    """The slot of the last change."""
    bids: dict[int, int]
    asks: dict[int, int]
    lowest: int
    highest: int
    shown: Shown


class Depth:
    """A book cut off at a depth.

    What it holds is remembered, not state: any slot may be asked for, and the next one is cheap.
    """

    def __init__(self, book: Book, depth: int, margin: int = MARGIN) -> None:
        self._book, self._depth, self._margin = book, depth, margin
        self._held = _Held(-1, {}, {}, 0, 0, Shown([], []))

    def after(self, slot: int) -> Shown:
        """The levels after a slot."""
        event = self.event(slot)
        if event != self._held.event:
            self._held = self._fetch(event)
        return self._held.shown

    def event(self, slot: int) -> int:
        """The last slot, up to this one, in which the book changed: its update ids tell."""
        return self._book.update_id(slot) >> 6

    def changes(self, slot: int) -> Changes | None:
        """What a slot changes; None if nothing that is shown."""
        delta = self._book.delta(slot - 1, slot)
        if delta is None:
            return None
        before = self.after(slot - 1)
        self._held = self._follow(self._held, slot, delta)
        now = self._held.shown
        bids = _changes(before.bids, now.bids, self._depth, -1)
        asks = _changes(before.asks, now.asks, self._depth, 1)
        return Changes(bids, asks) if bids or asks else None

    def _fetch(self, event: int) -> _Held:
        sides = self._book.at(self._book.update_id(event), self._depth + self._margin)
        bids, asks = sides
        shown = Shown(*(side[: self._depth] for side in sides))
        return _Held(event, dict(bids), dict(asks), bids[-1][0], asks[-1][0], shown)

    def _follow(self, held: _Held, event: int, delta: Delta) -> _Held:
        bids, asks = held.bids, held.asks
        _apply(bids, [level for level in delta.bids if level[0] >= held.lowest])
        _apply(asks, [level for level in delta.asks if level[0] <= held.highest])
        sizes = (len(bids), len(asks))
        if min(sizes) < self._depth or max(sizes) > self._depth + 2 * self._margin:
            return self._fetch(event)
        best = sorted(bids.items(), reverse=True), sorted(asks.items())
        shown = Shown(*(side[: self._depth] for side in best))
        return held._replace(event=event, shown=shown)


def _apply(side: dict[int, int], levels: list[Level]) -> None:
    for price, quantity in levels:
        side[price] = quantity
        if not quantity:
            del side[price]


def _changes(before: list[Level], now: list[Level], depth: int, outwards: int) -> list[Level]:
    was, is_now = dict(before), dict(now)
    # With all places taken, whatever lies beyond the last has fallen off by itself.
    end = now[-1][0] * outwards if len(now) == depth else None
    gone = [
        (price, 0)
        for price in was
        if price not in is_now and (end is None or price * outwards < end)
    ]
    return gone + [level for level in now if was.get(level[0]) != level[1]]
