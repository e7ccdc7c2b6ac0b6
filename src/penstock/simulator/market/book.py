"""Computes the order book of a market at any update id, as a pure function.

No state is carried from one call to the next. Time is divided into slots of 100 ms. The touch (best
bid and ask) follows from the last trade, so that trades happen at it. All other levels lie on a
grid of prices, in a near band whose cells tick (draw a new quantity) often and a far band whose
cells tick rarely (see ``bands``). A slot without changes is detected without computing any level.
Such slots have no update id: quiet symbols send nothing for seconds.

Ids grow by 64 per slot; the event of slot s ends in ``[64 s + 32, 64 s + 63]``. Its first ids
belong to ticks, which do not change the touch. Then each trade has two ids: one at which the
maker's quantity is quoted and one at which the trade is done. So every id has one book and one
touch.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain, islice
from typing import TYPE_CHECKING, NamedTuple

from penstock.simulator.market.bands import BANDS, SLOT_MS, Edges, remember
from penstock.simulator.market.pieces import Work, finished, listed
from penstock.simulator.market.rng import MASK, key, mix
from penstock.simulator.market.shapes import OCTAVES

if TYPE_CHECKING:
    from penstock.simulator.market.market import Market, Trade

Level = tuple[int, int]
"""A price in ticks and its quantity in lots."""
Sides = tuple[list[Level], list[Level]]
"""Bids and asks, best levels first."""


class Delta(NamedTuple):
    """Changed levels with their new absolute quantities; 0 removes a level."""

    first_update_id: int
    final_update_id: int
    bids: list[Level]
    asks: list[Level]


class Touch(NamedTuple):
    """The best level of each side."""

    bid: int
    bid_quantity: int
    ask: int
    ask_quantity: int


class Step(NamedTuple):
    """One level set to one quantity: the smallest change of a book."""

    is_bid: bool
    price: int
    quantity: int


class _View(NamedTuple):
    """Everything that determines the levels after a slot."""

    slot: int
    touch: Touch
    near: range
    far: range
    trade_id: int
    """The id of the last trade."""


class _Quote(NamedTuple):
    """A touch and its update id."""

    update_id: int
    at_ms: int
    touch: Touch


class Book:
    """The order book of a market."""

    SLOT_MS = SLOT_MS

    def __init__(self, market: Market) -> None:
        self._market = market
        self._cell = market.grain
        self._factor = market.listing.quantity_factor
        self._near, self._far = (
            Edges(band, market) for band in BANDS[market.listing.trades_per_minute]
        )
        self._key = key(market.purpose, "book")
        # The book exists before the first trade.
        self._first_slot = market.listing.listed_at_ms // self.SLOT_MS - 1
        # Caches, not state: each value can be computed again.
        self._views: dict[int, _View] = {}
        self._found = (self._first_slot, self._first_slot)

    def update_id(self, slot: int) -> int:
        """The id of the last change at or before the end of ``slot``."""
        return self._final_id(self._event_at_or_before(slot))

    def delta(self, after_slot: int, upto_slot: int) -> Delta | None:
        """The changes of the slots ``(after_slot, upto_slot]``; None if there are none."""
        bids: dict[int, int] = {}
        asks: dict[int, int] = {}
        last = None
        for slot in range(after_slot + 1, upto_slot + 1):
            if self._is_event(slot):
                last = slot
                for is_bid, price, quantity in self._steps(slot):
                    (bids if is_bid else asks)[price] = quantity
        if last is None:
            return None
        first_id = self.update_id(after_slot) + 1
        return Delta(first_id, self._final_id(last), list(bids.items()), list(asks.items()))

    def at(self, update_id: int, depth: int) -> Sides:
        """The book at any update id, including ids within an event."""
        return finished(self.at_in_turns(update_id, depth))

    def at_in_turns(self, update_id: int, depth: int) -> Work[Sides]:
        """Like ``at``, in pieces: a whole book has tens of thousands of levels."""
        before = self._event_at_or_before(update_id >> 6)
        if self._final_id(before) > update_id:
            before = self._event_at_or_before(before - 1)
        reached = self._final_id(before)
        if reached == update_id:
            return (yield from self._levels(self._view(before), depth))
        event = self._event_after(before)
        quotes = [quote for quote in self._quotes(event) if quote.update_id <= update_id]
        if quotes:
            view = self._view(event)._replace(touch=quotes[-1].touch)
            return (yield from self._levels(view, depth))
        steps = self._ticks(event)
        clocks = self._clocks_end(event) - reached
        done = min(len(steps), len(steps) * (update_id - reached) // clocks)
        # Each step may remove a level, so that many more levels are needed.
        sides = yield from self._levels(self._view(before), depth + done)
        bids, asks = dict(sides[0]), dict(sides[1])
        for is_bid, price, quantity in steps[:done]:
            side = bids if is_bid else asks
            side[price] = quantity
            if not quantity:
                del side[price]
        return (
            sorted(bids.items(), reverse=True)[:depth],
            sorted(asks.items())[:depth],
        )

    def snapshot(self, at_ms: int, depth: int) -> tuple[int, list[Level], list[Level]]:
        """The REST snapshot at a time: the last update id, bids and asks."""
        update_id = self.snapshot_id(at_ms)
        return update_id, *self.at(update_id, depth)

    def snapshot_id(self, at_ms: int) -> int:
        """The last update id of the REST snapshot at a time.

        In a quarter of all slots the snapshot is taken within the slot's event, so that its id lies
        between the ids of a delta; otherwise it has the changes up to the previous slot.
        """
        slot, into_ms = divmod(at_ms, self.SLOT_MS)
        update_id = self.update_id(slot - 1)
        if mix(self._key ^ slot) & 3 == 0 and self._is_event(slot):
            update_id += (self._final_id(slot) - update_id) * into_ms // self.SLOT_MS
        return update_id

    def touches(self, after_ms: int, upto_ms: int) -> list[tuple[int, int, int, int, int]]:
        """All changes of the best levels in ``(after_ms, upto_ms]``: update id, then the touch.

        A trade causes two: the quantity before the trade, and the quantity after it.
        """
        first, end = self._market.id_at(after_ms + 1), self._market.id_at(upto_ms + 1)
        seen = self._market.trades(first, end - first)
        return [
            (update_id, *touch)
            for slot in sorted({trade.at_ms // SLOT_MS for trade in seen})
            for update_id, at_ms, touch in self._quotes(slot)
            if after_ms < at_ms <= upto_ms
        ]

    def _final_id(self, slot: int) -> int:
        return slot * 64 + 32 + (mix(self._key + slot) & 31)

    def _clocks_end(self, event: int) -> int:
        """The last id that belongs to ticks: a quarter of an event's ids, if it has trades."""
        final, trades = self._final_id(event), self._view(event).trade_id
        trades -= self._view(event - 1).trade_id
        if not trades:
            return final
        reached = self.update_id(event - 1)
        ids = final - reached
        return reached + max(1, min(ids // 4, ids - 2 * trades))

    def _trades_in(self, slot: int) -> list[Trade]:
        first = self._view(slot - 1).trade_id + 1
        return self._market.trades(first, self._view(slot).trade_id + 1 - first)

    def _quotes(self, slot: int) -> list[_Quote]:
        """The touches of a slot, in order: two per trade."""
        trades = self._trades_in(slot)
        if not trades:
            return []
        start, final = self._clocks_end(slot), self._final_id(slot)
        # Ids are unique: with more trades than ids, only the last trades get a touch.
        trades = trades[-((final - start) // 2) :]
        ids = [
            start + (final - start) * i // (2 * len(trades)) for i in range(1, 2 * len(trades) + 1)
        ]
        quotes = []
        for trade, met_id, left_id in zip(trades, ids[::2], ids[1::2], strict=True):
            left = self.touch(trade)
            met = (
                left._replace(ask_quantity=left.ask_quantity + trade.quantity)
                if trade.taker_buys
                else left._replace(bid_quantity=left.bid_quantity + trade.quantity)
            )
            quotes.append(_Quote(met_id, trade.at_ms, met))
            quotes.append(_Quote(left_id, trade.at_ms, left))
        return quotes

    def touch(self, trade: Trade) -> Touch:
        """The best levels after a trade; one of them is at the trade's price."""
        bits = mix(self._key ^ trade.id << 1)
        spread = 1 + bits % (2 * self._cell)
        bid_quantity = self._quantity(bits >> 16)
        ask_quantity = self._quantity(bits >> 36)
        if trade.taker_buys:
            return Touch(trade.price - spread, bid_quantity, trade.price, ask_quantity)
        return Touch(trade.price, bid_quantity, trade.price + spread, ask_quantity)

    def _quantity(self, bits: int) -> int:
        return ((128 | bits & 127) << OCTAVES[bits >> 7 & 255]) * self._factor

    def _view(self, slot: int) -> _View:
        view = self._views.get(slot)
        if view is None:
            trade = self._market.last_before((slot + 1) * self.SLOT_MS)
            view = _View(slot, self.touch(trade), self._near.of(slot), self._far.of(slot), trade.id)
            remember(self._views, slot, view)
        return view

    def _event_at_or_before(self, slot: int) -> int:
        """The last slot with a change, at or before ``slot``."""
        looked, found = self._found
        if found <= slot <= looked:
            return found
        trade = self._market.last_before((slot + 1) * self.SLOT_MS)
        floor = trade.at_ms // self.SLOT_MS if trade.id else self._first_slot
        # The search ends at the last trade, or where an earlier search began.
        known, event = (looked, found) if floor <= looked < slot else (floor, floor)
        event = next((s for s in range(slot, known, -1) if self._is_change(s)), event)
        self._found = (slot, event)
        return event

    def _event_after(self, slot: int) -> int:
        trade = self._market.trades(self._market.id_at((slot + 1) * self.SLOT_MS), 1)[0]
        ceiling = trade.at_ms // self.SLOT_MS
        return next((s for s in range(slot + 1, ceiling) if self._is_change(s)), ceiling)

    def _is_event(self, slot: int) -> bool:
        return self._event_at_or_before(slot) == slot

    def _is_change(self, slot: int) -> bool:
        """Whether levels change in a slot without trades."""
        if self._near.ticking(slot) or self._near.moves(slot) or self._far.moves(slot):
            return True
        near = self._near.of(slot)
        return any(cell not in near for cell in self._far.ticking(slot))

    def _steps(self, slot: int) -> list[Step]:
        """The changes of an event, including those of levels that change only in between."""
        steps = self._ticks(slot) + self._requotes(slot)
        # An event without a change repeats the best bid, as exchanges do occasionally.
        return steps or [Step(True, *self._view(slot).touch[:2])]

    def _ticks(self, slot: int) -> list[Step]:
        """The changes by ticks and moving edges: none at the touch or between its prices."""
        old, new = self._view(slot - 1), self._view(slot)
        cells = {*self._near.ticking(slot), *self._far.ticking(slot)}
        for left, entered in ((old.near, new.near), (old.far, new.far)):
            if left != entered:
                cells.update(range(*sorted((left.start, entered.start))))
                cells.update(range(*sorted((left.stop, entered.stop))))
        before, after = self._grid(old, cells), self._grid(new, cells)
        return _changes(_sided(before, old.touch), _sided(after, old.touch))

    def _requotes(self, slot: int) -> list[Step]:
        """The levels after a slot's trades, where the touch was, or which it covered or uncovered.

        Levels that end unchanged are repeated, since a snapshot may have their values in between.
        """
        view, trades = self._view(slot), self._trades_in(slot)
        if not trades:
            return []
        touches = [self._view(slot - 1).touch, *map(self.touch, trades)]
        bids, asks = {touch.bid for touch in touches}, {touch.ask for touch in touches}
        lowest_bid, highest_bid = min(bids), max(bids)
        lowest_ask, highest_ask = min(asks), max(asks)
        cells = range(lowest_bid // self._cell, highest_ask // self._cell + 1)
        resting = dict(self._grid(view, cells))
        bids.update(price for price in resting if lowest_bid < price < highest_bid)
        asks.update(price for price in resting if lowest_ask < price < highest_ask)
        sided = _sided(resting.items(), view.touch)
        return [
            *(Step(True, price, max(0, sided.get(price, 0))) for price in sorted(bids)),
            *(Step(False, price, max(0, -sided.get(price, 0))) for price in sorted(asks)),
        ]

    def _grid(self, view: _View, cells: Iterable[int]) -> list[Level]:
        """The levels at some cells, regardless of the touch."""
        slot, _, near, far, _ = view
        quick = [cell for cell in cells if cell in near]
        slow = [cell for cell in cells if cell in far and cell not in near]
        return [
            *self._resting(slot, self._near, quick),
            *self._resting(slot, self._far, slow),
        ]

    def _levels(self, view: _View, depth: int) -> Work[Sides]:
        """The book after a slot, from the touch outwards."""
        slot, (bid, bid_quantity, ask, ask_quantity), near, far, _ = view
        top, bottom = (bid - 1) // self._cell, ask // self._cell + 1
        falling = (
            (self._far, range(min(top, far.stop - 1), max(near.stop, far.start) - 1, -1)),
            (self._near, range(min(top, near.stop - 1), near.start - 1, -1)),
            (self._far, range(min(top, near.start - 1), far.start - 1, -1)),
        )
        rising = (
            (self._far, range(max(bottom, far.start), min(near.start, far.stop))),
            (self._near, range(max(bottom, near.start), near.stop)),
            (self._far, range(max(bottom, near.stop), far.stop)),
        )
        bids = chain.from_iterable(self._resting(slot, *part) for part in falling)
        asks = chain.from_iterable(self._resting(slot, *part) for part in rising)
        return (
            (yield from listed(chain([(bid, bid_quantity)], islice(bids, depth - 1)))),
            (yield from listed(chain([(ask, ask_quantity)], islice(asks, depth - 1)))),
        )

    def _resting(self, slot: int, edges: Edges, cells: Iterable[int]) -> Iterator[Level]:
        """The levels at cells of a band, without the touch."""
        period, stride = edges.band.period, edges.band.stride
        seed, width, factor = self._key, self._cell, self._factor
        for cell in cells:
            epoch = (slot + stride * cell) // period
            bits = (cell * 0x9E3779B97F4A7C15 + epoch * 0xD1B54A32D192ED03 + seed) & MASK
            bits = ((bits ^ bits >> 32) * 0xBF58476D1CE4E5B9) & MASK
            bits ^= bits >> 29
            # One cell in eight is empty.
            if bits & 7:
                quantity = (128 | bits >> 3 & 127) << OCTAVES[bits >> 10 & 255]
                yield cell * width, quantity * factor


def _sided(levels: Iterable[Level], touch: Touch) -> dict[int, int]:
    """Quantities by price, negative for asks: the touch, and the levels beyond it."""
    bid, bid_quantity, ask, ask_quantity = touch
    sided = {
        price: quantity if price < bid else -quantity
        for price, quantity in levels
        if not bid <= price <= ask
    }
    sided[bid], sided[ask] = bid_quantity, -ask_quantity
    return sided


def _changes(before: dict[int, int], after: dict[int, int]) -> list[Step]:
    """The steps from ``before`` to ``after``; removals first, so that sides never cross."""
    removed, placed = [], []
    for price in sorted(before.keys() | after.keys()):
        was, now = before.get(price, 0), after.get(price, 0)
        if was == now:
            continue
        if was and (not now or (was > 0) != (now > 0)):
            removed.append(Step(was > 0, price, 0))
        if now:
            placed.append(Step(now > 0, price, abs(now)))
    return removed + placed
