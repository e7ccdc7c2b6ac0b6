"""A book: the order book of a market at any update id, as a pure function.

No state is carried from one look to the next. Time is cut into slots of 100 ms. The touch
follows from the last trade, so that trades happen at it. Every other level lies on a grid of
prices and draws its quantity anew each time its own clock ticks. Two bands of the grid exist:
a near one of quick clocks, and a far one of slow clocks. A band's edges glide after the price,
in small steps and on a timetable: no border, once crossed, changes thousands of levels at once.

Clocks tick when ``slot + stride * x`` is divisible by a prime, so which cells tick in a slot
is one arithmetic progression, and a slot in which nothing happens is found without looking
at a single level. Such slots have no update id: quiet symbols are silent for seconds.

Ids grow by 64 a slot; an event of slot s ends somewhere in ``[64 s + 32, 64 s + 63]``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain, islice
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from penstock.simulator.rng import MASK, key, mix
from penstock.simulator.shapes import OCTAVES

if TYPE_CHECKING:
    from penstock.simulator.market import Market, Trade

V = TypeVar("V")

Level = tuple[int, int]
"""A price in ticks and the quantity resting there in lots."""


class Delta(NamedTuple):
    """Levels that changed, at their new absolute quantities; 0 removes."""

    first_update_id: int
    final_update_id: int
    bids: list[Level]
    asks: list[Level]


class Touch(NamedTuple):
    """The best levels of either side."""

    bid: int
    bid_quantity: int
    ask: int
    ask_quantity: int


class Step(NamedTuple):
    """One level set to one quantity; the smallest change a book can undergo."""

    is_bid: bool
    price: int
    quantity: int


@dataclass(frozen=True)
class Band:
    """A stretch of the grid around the price."""

    half_width: int
    """In cells, either side of the anchor."""
    period: int
    """Slots between two ticks of a level's clock: a prime."""
    anchor_slots: int
    """How long the band takes to follow the price."""
    glide_slots: int
    """How long its edges rest on the way."""

    @property
    def stride(self) -> int:
        """Neighbours tick far apart: the golden section spreads them evenly over a period."""
        return self.period * 377 // 987


_BANDS = {
    3600: (Band(192, 61, 64, 4), Band(10_000, 3067, 512, 4)),
    600: (Band(192, 61, 64, 4), Band(10_000, 3067, 512, 4)),
    60: (Band(64, 509, 256, 32), Band(2600, 16_381, 512, 32)),
    6: (Band(24, 4093, 512, 512), Band(1000, 65_521, 512, 512)),
}
"""Near and far, by trades a minute. The more trades, the more levels and the busier."""
_REMEMBERED = 64
"""Values kept of a kind: enough for the few slots that readers look at together."""


class _Edges:
    """Where a band lies in each slot, and which of its cells tick."""

    def __init__(self, band: Band, market: Market) -> None:
        self.band = band
        self._market = market
        self._inverse = pow(band.stride, -1, band.period)
        # Remembered, not state: both follow from the market alone.
        self._anchors: dict[int, int] = {}
        self._places: dict[int, range] = {}

    def of(self, slot: int) -> range:
        """The cells of the band."""
        band = self.band
        glide = slot // band.glide_slots
        place = self._places.get(glide)
        if place is None:
            steps = band.anchor_slots // band.glide_slots
            turn, step = divmod(glide, steps)
            old, new = self._anchor(turn - 1), self._anchor(turn)
            centre = old + (new - old) * step // steps
            place = range(max(1, centre - band.half_width), centre + band.half_width + 1)
            _remember(self._places, glide, place)
        return place

    def moves(self, slot: int) -> bool:
        """Whether the band lies elsewhere than in the slot before."""
        return slot % self.band.glide_slots == 0 and self.of(slot) != self.of(slot - 1)

    def ticking(self, slot: int) -> range:
        """The cells whose clocks tick as the slot begins."""
        cells, period = self.of(slot), self.band.period
        first = cells.start + (-slot * self._inverse - cells.start) % period
        return range(first, cells.stop, period)

    def _anchor(self, turn: int) -> int:
        anchor = self._anchors.get(turn)
        if anchor is None:
            at_ms = turn * self.band.anchor_slots * Book.SLOT_MS
            anchor = self._market.last_before(at_ms).price // self._market.grain
            _remember(self._anchors, turn, anchor)
        return anchor


class _View(NamedTuple):
    """All that decides the levels after a slot."""

    slot: int
    touch: Touch
    near: range
    far: range


class Book:
    """The order book of a market."""

    SLOT_MS = 100

    def __init__(self, market: Market) -> None:
        self._market = market
        self._cell = market.grain
        self._factor = market.listing.quantity_factor
        self._near, self._far = (
            _Edges(band, market) for band in _BANDS[market.listing.trades_per_minute]
        )
        self._key = key(market.purpose, "book")
        # The book is there before the first trade.
        self._first_slot = market.listing.listed_at_ms // self.SLOT_MS - 1
        # Remembered, not state: each could be found again.
        self._views: dict[int, _View] = {}
        self._found = (self._first_slot, self._first_slot)

    def update_id(self, slot: int) -> int:
        """The id of the last change at or before the end of ``slot``."""
        return self._final_id(self._event_at_or_before(slot))

    def delta(self, after_slot: int, upto_slot: int) -> Delta | None:
        """What changed in the slots ``(after_slot, upto_slot]``; None if nothing did."""
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

    def at(self, update_id: int, depth: int) -> tuple[list[Level], list[Level]]:
        """The book at any update id, also within an event: best levels first."""
        before = self._event_at_or_before(update_id >> 6)
        if self._final_id(before) > update_id:
            before = self._event_at_or_before(before - 1)
        reached = self._final_id(before)
        if reached == update_id:
            return self._levels(self._view(before), depth)
        event = self._event_after(before)
        steps = self._steps(event)
        done = len(steps) * (update_id - reached) // (self._final_id(event) - reached)
        # A step may remove a level, so look deeper by as many as there are.
        sides = self._levels(self._view(before), depth + done)
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
        """What REST shows at an instant: the last update id, bids and asks.

        In a quarter of all slots the snapshot is taken in the midst of the slot's event, so
        that its id lies between the ids of a delta; else it shows the slots before.
        """
        slot, into_ms = divmod(at_ms, self.SLOT_MS)
        update_id = self.update_id(slot - 1)
        if mix(self._key ^ slot) & 3 == 0 and self._is_event(slot):
            update_id += (self._final_id(slot) - update_id) * into_ms // self.SLOT_MS
        return update_id, *self.at(update_id, depth)

    def touches(self, after_ms: int, upto_ms: int) -> list[tuple[int, int, int, int, int]]:
        """Every change of the best levels in ``(after_ms, upto_ms]``: id, then the touch.

        A trade shows twice: the quantity it met, and what it left.
        """
        steps: list[tuple[int, int, int, int, int]] = []
        first, end = self._market.id_at(after_ms + 1), self._market.id_at(upto_ms + 1)
        seen = self._market.trades(first, end - first)
        for slot in sorted({trade.at_ms // self.SLOT_MS for trade in seen}):
            trades = self._trades_in(slot)
            before, final = self.update_id(slot - 1), self._final_id(slot)
            # Ids differ: of more trades than there are ids for, only the last are seen.
            trades = trades[-((final - before) // 2) :]
            for i, trade in enumerate(trades):
                if not after_ms < trade.at_ms <= upto_ms:
                    continue
                bid, bid_quantity, ask, ask_quantity = self._touch(trade)
                met = (
                    (bid, bid_quantity, ask, ask_quantity + trade.quantity)
                    if trade.taker_buys
                    else (bid, bid_quantity + trade.quantity, ask, ask_quantity)
                )
                first = before + (final - before) * (2 * i + 1) // (2 * len(trades))
                second = before + (final - before) * (i + 1) // len(trades)
                steps.append((first, *met))
                steps.append((second, bid, bid_quantity, ask, ask_quantity))
        return steps

    def _final_id(self, slot: int) -> int:
        return slot * 64 + 32 + (mix(self._key + slot) & 31)

    def _trades_in(self, slot: int) -> list[Trade]:
        first = self._market.id_at(slot * self.SLOT_MS)
        return self._market.trades(first, self._market.id_at((slot + 1) * self.SLOT_MS) - first)

    def _touch(self, trade: Trade) -> Touch:
        """The best levels as a trade leaves them: its price is one of them."""
        luck = mix(self._key ^ trade.id << 1)
        spread = 1 + luck % (2 * self._cell)
        bid_quantity = self._quantity(luck >> 16)
        ask_quantity = self._quantity(luck >> 36)
        if trade.taker_buys:
            return Touch(trade.price - spread, bid_quantity, trade.price, ask_quantity)
        return Touch(trade.price, bid_quantity, trade.price + spread, ask_quantity)

    def _quantity(self, bits: int) -> int:
        return ((128 | bits & 127) << OCTAVES[bits >> 7 & 255]) * self._factor

    def _view(self, slot: int) -> _View:
        view = self._views.get(slot)
        if view is None:
            trade = self._market.last_before((slot + 1) * self.SLOT_MS)
            view = _View(slot, self._touch(trade), self._near.of(slot), self._far.of(slot))
            _remember(self._views, slot, view)
        return view

    def _event_at_or_before(self, slot: int) -> int:
        """The last slot in which something changed."""
        looked, found = self._found
        if found <= slot <= looked:
            return found
        trade = self._market.last_before((slot + 1) * self.SLOT_MS)
        floor = trade.at_ms // self.SLOT_MS if trade.id else self._first_slot
        # The search ends at the last trade, or where an earlier search began.
        known, event = (looked, found) if floor <= looked < slot else (floor, floor)
        event = next((s for s in range(slot, known, -1) if self._stirs(s)), event)
        self._found = (slot, event)
        return event

    def _event_after(self, slot: int) -> int:
        trade = self._market.trades(self._market.id_at((slot + 1) * self.SLOT_MS), 1)[0]
        ceiling = trade.at_ms // self.SLOT_MS
        return next((s for s in range(slot + 1, ceiling) if self._stirs(s)), ceiling)

    def _is_event(self, slot: int) -> bool:
        return self._event_at_or_before(slot) == slot

    def _stirs(self, slot: int) -> bool:
        """Whether levels change in a slot although nobody trades."""
        if self._near.ticking(slot) or self._near.moves(slot) or self._far.moves(slot):
            return True
        near = self._near.of(slot)
        return any(cell not in near for cell in self._far.ticking(slot))

    def _steps(self, slot: int) -> list[Step]:
        """The changes of an event, in the order in which they happen.

        Removals come first: then no part of an event ever leaves bids above asks.
        """
        old, new = self._view(slot - 1), self._view(slot)
        cells = {*self._near.ticking(slot), *self._far.ticking(slot)}
        for left, entered in ((old.near, new.near), (old.far, new.far)):
            if left != entered:
                cells.update(range(*sorted((left.start, entered.start))))
                cells.update(range(*sorted((left.stop, entered.stop))))
        if old.touch != new.touch:
            lowest = min(old.touch.bid, new.touch.bid) // self._cell
            highest = max(old.touch.ask, new.touch.ask) // self._cell
            cells.update(range(lowest, highest + 1))
        before, after = self._signed(old, cells), self._signed(new, cells)
        removed, placed = [], []
        for price in sorted(before.keys() | after.keys()):
            was, now = before.get(price, 0), after.get(price, 0)
            if was == now:
                continue
            if was and (not now or (was > 0) != (now > 0)):
                removed.append(Step(was > 0, price, 0))
            if now:
                placed.append(Step(now > 0, price, abs(now)))
        # An event without a change restates the best bid, as exchanges do now and then.
        return removed + placed or [Step(True, *new.touch[:2])]

    def _signed(self, view: _View, cells: set[int]) -> dict[int, int]:
        """Quantities by price at some cells and the touch; those of asks are negative."""
        slot, (bid, bid_quantity, ask, ask_quantity), near, far = view
        quick = [cell for cell in cells if cell in near]
        slow = [cell for cell in cells if cell in far and cell not in near]
        levels = chain(self._resting(slot, self._near, quick), self._resting(slot, self._far, slow))
        signed = {
            price: quantity if price < bid else -quantity
            for price, quantity in levels
            if not bid <= price <= ask
        }
        signed[bid], signed[ask] = bid_quantity, -ask_quantity
        return signed

    def _levels(self, view: _View, depth: int) -> tuple[list[Level], list[Level]]:
        """The whole book after a slot, walking outwards from the touch."""
        slot, (bid, bid_quantity, ask, ask_quantity), near, far = view
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
            [(bid, bid_quantity), *islice(bids, depth - 1)],
            [(ask, ask_quantity), *islice(asks, depth - 1)],
        )

    def _resting(self, slot: int, edges: _Edges, cells: Iterable[int]) -> Iterator[Level]:
        """The levels at cells of a band, apart from the touch."""
        period, stride = edges.band.period, edges.band.stride
        seed, width, factor = self._key, self._cell, self._factor
        for cell in cells:
            epoch = (slot + stride * cell) // period
            bits = (cell * 0x9E3779B97F4A7C15 + epoch * 0xD1B54A32D192ED03 + seed) & MASK
            bits = ((bits ^ bits >> 32) * 0xBF58476D1CE4E5B9) & MASK
            bits ^= bits >> 29
            # One in eight is empty.
            if bits & 7:
                quantity = (128 | bits >> 3 & 127) << OCTAVES[bits >> 10 & 255]
                yield cell * width, quantity * factor


def _remember(memory: dict[int, V], key: int, value: V) -> None:
    if len(memory) >= _REMEMBERED:
        memory.clear()
    memory[key] = value
