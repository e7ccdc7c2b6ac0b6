"""Computes the changes of a book's best levels from slot to slot.

A client keeps a fixed number of levels per side. A level pushed out of that range is not sent,
since the client drops it; one that comes back into the range is sent as new. Removals come first,
so that a client never has too many levels and drops one that remains.
"""

from typing import NamedTuple

from penstock.simulator.market.book import Book, Delta, Level

MARGIN = 32
"""Levels kept beyond those shown, so that few removals require the whole book."""


class Shown(NamedTuple):
    """Both sides after a slot, best levels first."""

    bids: list[Level]
    asks: list[Level]


class Changes(NamedTuple):
    """Levels to set, each side in the order to send; a quantity of 0 removes a level."""

    bids: list[Level]
    asks: list[Level]


class _Held(NamedTuple):
    """All levels down to a bid and up to an ask, since an event of the book."""

    event: int
    """The slot of the last change."""
    bids: dict[int, int]
    asks: dict[int, int]
    lowest: int
    highest: int
    shown: Shown


class Depth:
    """A book limited to a depth.

    The kept levels are a cache, not state: any slot may be requested, and the next one is cheap.
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
        """The last slot up to this one in which the book changed, from its update id."""
        return self._book.update_id(slot) >> 6

    def changes(self, slot: int) -> Changes | None:
        """The changes of a slot; None if no shown level changes."""
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
    # If the side is full, the client drops levels beyond the last one itself.
    end = now[-1][0] * outwards if len(now) == depth else None
    gone = [
        (price, 0)
        for price in was
        if price not in is_now and (end is None or price * outwards < end)
    ]
    return gone + [level for level in now if was.get(level[0]) != level[1]]
