"""Determines which prices of a book have levels, and when each level draws a new quantity.

A cell ticks (its level draws a new quantity) when ``slot + stride * cell`` is divisible by a prime,
so the cells that tick in a slot are one arithmetic progression. A band's edges follow the price in
small steps at fixed times, so that thousands of levels never change at once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from penstock.simulator.market.market import Market

V = TypeVar("V")

SLOT_MS = 100
_REMEMBERED = 64
"""Size of each cache: enough for the few slots that are read together."""


@dataclass(frozen=True)
class Band:
    """A range of price cells around the price."""

    half_width: int
    """In cells, on either side of the anchor."""
    period: int
    """Slots between two ticks of a cell: a prime."""
    anchor_slots: int
    """Slots that the band takes to follow the price."""
    glide_slots: int
    """Slots between two steps of its edges."""

    @property
    def stride(self) -> int:
        """The distance of neighbours' ticks: the golden section spreads them evenly."""
        return self.period * 377 // 987


BANDS = {
    3600: (Band(192, 61, 64, 4), Band(10_000, 3067, 512, 4)),
    600: (Band(192, 61, 64, 4), Band(10_000, 3067, 512, 4)),
    60: (Band(64, 509, 256, 32), Band(2600, 16_381, 512, 32)),
    6: (Band(24, 4093, 512, 512), Band(1000, 65_521, 512, 512)),
}
"""The near and the far band, by trades per minute. More trades have more, faster levels."""


class Edges:
    """The position of a band in each slot, and the cells that tick."""

    def __init__(self, band: Band, market: Market) -> None:
        self.band = band
        self._market = market
        self._inverse = pow(band.stride, -1, band.period)
        # Caches, not state: both follow from the market alone.
        self._anchors: dict[int, int] = {}
        self._places: dict[int, range] = {}

    def of(self, slot: int) -> range:
        """The cells of the band in a slot."""
        band = self.band
        glide = slot // band.glide_slots
        place = self._places.get(glide)
        if place is None:
            steps = band.anchor_slots // band.glide_slots
            turn, step = divmod(glide, steps)
            old, new = self._anchor(turn - 1), self._anchor(turn)
            centre = old + (new - old) * step // steps
            place = range(max(1, centre - band.half_width), centre + band.half_width + 1)
            remember(self._places, glide, place)
        return place

    def moves(self, slot: int) -> bool:
        """Whether the band's position differs from that in the previous slot."""
        return slot % self.band.glide_slots == 0 and self.of(slot) != self.of(slot - 1)

    def ticking(self, slot: int) -> range:
        """The cells that tick at the start of the slot."""
        cells, period = self.of(slot), self.band.period
        first = cells.start + (-slot * self._inverse - cells.start) % period
        return range(first, cells.stop, period)

    def _anchor(self, turn: int) -> int:
        anchor = self._anchors.get(turn)
        if anchor is None:
            at_ms = turn * self.band.anchor_slots * SLOT_MS
            anchor = self._market.last_before(at_ms).price // self._market.grain
            remember(self._anchors, turn, anchor)
        return anchor


def remember(memory: dict[int, V], key: int, value: V) -> None:
    """Add a value to a cache of limited size."""
    if len(memory) >= _REMEMBERED:
        memory.clear()
    memory[key] = value
