"""Finds the shape of a market in any minute, hour and day, and the price and ids before it.

Only one row of 32 bytes per day grows with a market's age: the day's shape, its factors, and its
first price and ids. Rows are computed in order, because each day begins where the previous one
ended, and lazily, ten years in about ten milliseconds. They end after a hundred years, which take a
megabyte. Hours and minutes within a day are looked up in the library, by time or by id, at the same
cost for old and new ones.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Iterator
from functools import partial
from typing import NamedTuple

from penstock.simulator.market.rng import draws
from penstock.simulator.market.shapes import DAY_SHAPES, Library, Tier

MINUTE_MS = 60_000
HOUR_MS = 3_600_000
DAY_MS = 86_400_000

DAY_MOVE_BP = 240
"""The average distance between the start and the end of a day, in hundredths of a percent."""
_DAYS_AT_ONCE = 64
MOST_DAYS = 571 * _DAYS_AT_ONCE
"""A hundred years: the longest life of a market, so that no request computes endless rows."""

Columns = tuple["array[int]", "array[int]", "array[int]"]
"""First ids by day, and the counts before each hour and each minute of a shape."""


class Span(NamedTuple):
    """A minute, hour or day of a market: its shape, factors, previous price and first ids."""

    start_ms: int
    shape: int
    k: int
    g: int
    price: int
    """The price of the last trade before it."""
    first_id: int
    first_group: int


_span = partial(tuple.__new__, Span)


class Timeline:
    """A market's days, from its listing to the latest day requested so far."""

    def __init__(
        self,
        library: Library,
        purpose: str,
        *,
        listed_at_ms: int,
        start_price: int,
        quantity_factor: int,
    ) -> None:
        self._library = library
        self._purpose = purpose
        self._listed_at_ms = listed_at_ms
        self._start_price = start_price
        self._quantity_factor = quantity_factor
        self._shape = array("H")
        self._k = array("i")
        self._g = array("i")
        # One longer: the start of the first day, and the end of each day.
        self._price = array("q", [start_price])
        self._first_id = array("q", [1])
        self._first_group = array("q", [1])
        days, hours = library.days, library.hours
        self.by_trade: Columns = (self._first_id, days.trades, hours.trades)
        self.by_group: Columns = (self._first_group, days.groups, hours.groups)

    def day(self, at_ms: int) -> Span:
        """The day of a time, which must not be before the listing.

        Raises:
            ValueError: the time is after the market's end.
        """
        day = (at_ms - self._listed_at_ms) // DAY_MS
        if day >= len(self._shape):
            self._make(day + 1)
        return _span(
            (
                self._listed_at_ms + day * DAY_MS,
                self._shape[day],
                self._k[day],
                self._g[day],
                self._price[day],
                self._first_id[day],
                self._first_group[day],
            )
        )

    def hour(self, at_ms: int) -> Span:
        """The hour of a time."""
        return _child(self._library.days, self.day(at_ms), at_ms % DAY_MS // HOUR_MS, HOUR_MS)

    def minute(self, at_ms: int) -> Span:
        """The minute of a time."""
        index = at_ms % HOUR_MS // MINUTE_MS
        return _child(self._library.hours, self.hour(at_ms), index, MINUTE_MS)

    def factors(self, start_ms: int, end_ms: int) -> Iterator[tuple[int, int, int]]:
        """Shape, ``k`` and ``g`` of each whole day of a range."""
        first, end = ((ms - self._listed_at_ms) // DAY_MS for ms in (start_ms, end_ms))
        self._make(end)
        return zip(self._shape[first:end], self._k[first:end], self._g[first:end], strict=True)

    def minutes_from(self, columns: Columns, number: int) -> Iterator[Span]:
        """The minutes with trades, beginning with the one of a given trade or group.

        Raises:
            ValueError: there is no such id; ids begin at 1 and end with the market.
        """
        if number < 1:
            raise ValueError(f"Ids begin at 1, not {number}.")
        firsts, by_hour, by_minute = columns
        while firsts[-1] <= number:
            self._make(len(self._shape) + 1)
        day = bisect_right(firsts, number) - 1
        number -= firsts[day]
        before = self._shape[day] * 25
        hour = bisect_right(by_hour, number, before, before + 25) - 1 - before
        number -= by_hour[before + hour]
        before = self._library.days.child[self._shape[day] * 24 + hour] * 61
        minute = bisect_right(by_minute, number, before, before + 61) - 1 - before
        start_ms = self._listed_at_ms + day * DAY_MS + hour * HOUR_MS
        hours = self._library.hours
        while True:
            span = self.hour(start_ms)
            counts = hours.trades[span.shape * 61 : span.shape * 61 + 61]
            for index in range(minute, 60):
                if counts[index] != counts[index + 1]:
                    yield _child(hours, span, index, MINUTE_MS)
            start_ms, minute = start_ms + HOUR_MS, 0

    def _make(self, days: int) -> None:
        """Compute at least the first ``days`` days."""
        if days > MOST_DAYS:
            raise ValueError("A market lasts at most a hundred years.")
        while len(self._shape) < days:
            self._add_days()

    def _add_days(self) -> None:
        totals, anchor = self._library.days.totals, self._start_price
        block = len(self._shape) // _DAYS_AT_ONCE
        for seed in draws(_DAYS_AT_ONCE, self._purpose, "days", block):
            opened = self._price[-1]
            shape = seed % DAY_SHAPES
            total = totals[shape]
            # 0.5 to 1.5 times the usual move.
            k = usual_factor(opened * (64 + (seed >> 16 & 127)) // 128, self._library)
            # A random direction, biased towards the start price so that decades stay plausible.
            pull = max(-256, min(256, (anchor - opened) * 512 // max(anchor, opened)))
            if (total.last > 0) != ((seed >> 24 & 1023) < 512 + pull):
                k = -k
            if opened + k * (total.low if k > 0 else total.high) < anchor // 8:
                shape, k = self._library.calm_day, self._library.calm_k
                total = totals[shape]
            self._shape.append(shape)
            self._k.append(k)
            self._g.append(self._quantity_factor * (1 + (seed >> 40) % 3))
            self._price.append(opened + k * total.last)
            self._first_id.append(self._first_id[-1] + total.trades)
            self._first_group.append(self._first_group[-1] + total.groups)


def usual_factor(price: int, library: Library) -> int:
    """The price factor with which a day of the library moves a price by the usual percentage."""
    return max(1, price * DAY_MOVE_BP // (10_000 * library.day_move))


def _child(tier: Tier, span: Span, index: int, child_ms: int) -> Span:
    start_ms, shape, k, g, price, first_id, first_group = span
    i = shape * tier.width + index
    before = i + shape
    return _span(
        (
            start_ms + index * child_ms,
            tier.child[i],
            k * tier.k[i],
            g * tier.g[i],
            price + k * tier.offset[before],
            first_id + tier.trades[before],
            first_group + tier.groups[before],
        )
    )
