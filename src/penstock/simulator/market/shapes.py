"""Builds a small library of shapes: minutes, hours and days with precomputed sums.

History is not generated and then summed. A minute shape is a list of trades; an hour shape is sixty
minutes, a day shape twenty-four hours, each child with a price factor ``k`` (negative mirrors it)
and a quantity factor ``g``. Every shape has an aggregate relative to the price before it, and
aggregates compose exactly. So the candle of a week is computed from seven of them, while its trades
can still be listed one by one.

One library serves every market of the same trade rate: a market repeats shapes, but at a different
price, scale, direction and size.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Sequence
from functools import partial, reduce
from itertools import accumulate, chain
from operator import mul
from typing import NamedTuple

from penstock.simulator.market.rng import draws

MINUTES = (1, 3, 5, 15, 30, 60)
"""Spans of an hour, in minutes, whose aggregates are precomputed."""
HOURS = (1, 2, 4, 6, 8, 12, 24)
"""Spans of a day, in hours, whose aggregates are precomputed."""
RATES = (3600, 600, 60, 6)
"""Average trades per minute for which a library can be built."""
DAY_SHAPES = 512
HOUR_SHAPES = 80

OCTAVES = bytes(8 - bits.bit_length() for bits in range(256))
"""A geometric distribution over a random byte: 0 with probability 1/2, 1 with 1/4, … 8."""

# Per kind of minute: number of shapes, and trade rate in percent of the library's.
_MINUTE_KINDS = ((32, 4), (32, 50), (32, 120), (16, 240), (8, 600))
# The busiest markets have no quiet minutes, and few shapes of thousands of trades suffice.
_BUSIEST = 3600
_BUSIEST_KINDS = ((8, 70), (8, 90), (8, 110), (4, 150), (2, 250))
# Per kind of hour: the probability, in 32nds, that each kind of minute begins.
_HOUR_KINDS = ((14, 11, 6, 1, 0), (8, 10, 9, 4, 1), (3, 7, 11, 8, 3))
# UTC hours that tend to be busy: the evenings of Asia and New York.
_BUSY_HOURS = frozenset((0, 1, 8, 13, 14, 15, 16, 20))


class Aggregate(NamedTuple):
    """Sums of consecutive trades; prices are offsets from the last trade before them."""

    trades: int
    groups: int
    """Consecutive trades of the same time, price and side: the aggregated trades."""
    volume: int
    turnover: int
    """The sum of offset times quantity, from which the exact quote volume follows."""
    taker_volume: int
    taker_turnover: int
    first: int
    last: int
    high: int
    low: int


# Twice as fast as calling the class, which matters when a library joins a hundred thousand.
_aggregate = partial(tuple.__new__, Aggregate)

EMPTY = Aggregate(0, 0, 0, 0, 0, 0, 0, 0, 0, 0)


def join(a: Aggregate, b: Aggregate) -> Aggregate:
    """The aggregate of ``a`` followed by ``b``."""
    if not a[0]:
        return b
    if not b[0]:
        return a
    n, m, v, d, tv, td, first, last, high, low = a
    bn, bm, bv, bd, btv, btd, _, blast, bhigh, blow = b
    bhigh += last
    blow += last
    return _aggregate(
        (
            n + bn,
            m + bm,
            v + bv,
            d + bd + last * bv,
            tv + btv,
            td + btd + last * btv,
            first,
            last + blast,
            high if high > bhigh else bhigh,
            low if low < blow else blow,
        )
    )


def scale(a: Aggregate, k: int, g: int) -> Aggregate:
    """The aggregate of the same trades with offsets times ``k`` and quantities times ``g``.

    A negative ``k`` mirrors the prices, so taker buys become sells.
    """
    n, m, v, d, tv, td, first, last, high, low = a
    if k < 0:
        high, low, tv, td = low, high, v - tv, d - td
    kg = k * g
    return _aggregate(
        (n, m, v * g, d * kg, tv * g, td * kg, first * k, last * k, high * k, low * k)
    )


class Fills(NamedTuple):
    """The trades of a minute, in columns."""

    at_ms: list[int]
    offset: list[int]
    quantity: list[int]
    buys: list[int]


class Minute:
    """The trades of a minute, with cumulative sums for any part of it."""

    __slots__ = (
        "aggregate",
        "at_ms",
        "buys",
        "extremes_from",
        "extremes_upto",
        "groups",
        "offset",
        "quantity",
        "taker_turnover",
        "taker_volume",
        "turnover",
        "volume",
    )

    def __init__(self, fills: Fills) -> None:
        self.at_ms = array("H", fills.at_ms)
        self.offset = array("i", fills.offset)
        self.quantity = array("i", fills.quantity)
        self.buys = bytes(fills.buys)
        alike = list(zip(fills.at_ms, fills.offset, fills.buys, strict=True))
        self.groups = array(
            "H", [i for i, trade in enumerate(alike) if not i or trade != alike[i - 1]]
        )
        worth = list(map(mul, fills.offset, fills.quantity))
        self.volume = array("q", accumulate(fills.quantity, initial=0))
        self.turnover = array("q", accumulate(worth, initial=0))
        bought = map(mul, fills.quantity, fills.buys)
        self.taker_volume = array("q", accumulate(bought, initial=0))
        self.taker_turnover = array("q", accumulate(map(mul, worth, fills.buys), initial=0))
        self.extremes_upto = _extremes(fills.offset)
        """The highest and the lowest offset up to each trade: most parts begin with a minute."""
        highest, lowest = _extremes(fills.offset[::-1])
        self.extremes_from = highest[::-1], lowest[::-1]
        """And from each trade on, for parts that end with one."""
        self.aggregate = self.part(0, len(alike))

    def part(self, begin: int, end: int) -> Aggregate:
        """The aggregate of trades ``begin`` to ``end``, relative to the trade before them."""
        if begin >= end:
            return EMPTY
        before = self.offset[begin - 1] if begin else 0
        highest, lowest = self._range(begin, end)
        volume = self.volume[end] - self.volume[begin]
        taker_volume = self.taker_volume[end] - self.taker_volume[begin]
        turnover = self.turnover[end] - self.turnover[begin]
        taker_turnover = self.taker_turnover[end] - self.taker_turnover[begin]
        return Aggregate(
            end - begin,
            bisect_left(self.groups, end) - bisect_left(self.groups, begin),
            volume,
            turnover - before * volume,
            taker_volume,
            taker_turnover - before * taker_volume,
            self.offset[begin] - before,
            self.offset[end - 1] - before,
            highest - before,
            lowest - before,
        )

    def _range(self, begin: int, end: int) -> tuple[int, int]:
        """The highest and the lowest offset of trades ``begin`` to ``end``."""
        if not begin:
            return self.extremes_upto[0][end - 1], self.extremes_upto[1][end - 1]
        if end == len(self.offset):
            return self.extremes_from[0][begin], self.extremes_from[1][begin]
        offsets = self.offset[begin:end]
        return max(offsets), min(offsets)


def _extremes(offsets: Sequence[int]) -> tuple[array[int], array[int]]:
    return array("i", accumulate(offsets, max)), array("i", accumulate(offsets, min))


class Part(NamedTuple):
    """A child of a shape, with its factors."""

    shape: int
    k: int
    g: int


class Tier:
    """All shapes of one size, in flat columns: hours made of minutes, or days of hours."""

    def __init__(self, width: int, spans: Sequence[int]) -> None:
        self.width = width
        self.totals: list[Aggregate] = []
        # Child i of shape s is at s * width + i.
        self.child = array("H")
        self.k = array("b")
        self.g = array("b")
        # The sum before child i is at s * (width + 1) + i; the last entry is the total.
        self.trades = array("i")
        self.groups = array("i")
        self.offset = array("i")
        # span -> aggregates, ten numbers each, of the width // span spans of every shape.
        self.cells: dict[int, array[int]] = {span: array("q") for span in spans}

    def add(self, parts: Sequence[Part], children: Sequence[Aggregate]) -> None:
        """Append a shape made of ``parts``, whose aggregates are in ``children``."""
        for shape, k, g in parts:
            self.child.append(shape)
            self.k.append(k)
            self.g.append(g)
        spans = {1: [scale(children[shape], k, g) for shape, k, g in parts]}
        self.trades.extend(accumulate((a.trades for a in spans[1]), initial=0))
        self.groups.extend(accumulate((a.groups for a in spans[1]), initial=0))
        self.offset.extend(accumulate((a.last for a in spans[1]), initial=0))
        for span, cells in self.cells.items():
            finer = max(s for s in spans if span % s == 0)
            step = span // finer
            source = spans[finer]
            if step > 1:
                spans[span] = [
                    reduce(join, source[i : i + step]) for i in range(0, len(source), step)
                ]
            cells.extend(chain.from_iterable(spans[span]))
        self.totals.append(spans[self.width][0])


class Library:
    """Minutes, hours and days of one trade rate, shared by all markets of that rate.

    A ``coarse`` library moves by single ticks, for prices of only a few hundred ticks.
    """

    def __init__(self, trades_per_minute: int, *, coarse: bool = False) -> None:
        if trades_per_minute not in RATES:
            raise ValueError(f"No library for {trades_per_minute} trades a minute: use {RATES}.")
        self.trades_per_minute = trades_per_minute
        self.coarse = coarse
        kinds = _BUSIEST_KINDS if trades_per_minute == _BUSIEST else _MINUTE_KINDS
        name = f"{trades_per_minute}{'-coarse' if coarse else ''}"
        self.minutes = [
            Minute(_fills(trades_per_minute * percent, coarse, f"{name}/{kind}/{i}"))
            for kind, (count, percent) in enumerate(kinds)
            for i in range(count)
        ]
        self.hours = Tier(60, MINUTES)
        minutes = [minute.aggregate for minute in self.minutes]
        counts = [count for count, _ in kinds]
        for kind, weights in enumerate(_HOUR_KINDS):
            for i in range(HOUR_SHAPES):
                parts = _hour(weights, counts, coarse, f"{name}/hour/{kind}/{i}")
                self.hours.add(parts, minutes)
        self.days = Tier(24, HOURS)
        for i in range(DAY_SHAPES):
            self.days.add(_day(coarse, f"{name}/day/{i}"), self.hours.totals)
        moves = [abs(day.last) for day in self.days.totals]
        self.day_move = sum(moves) // len(moves)
        """The average distance, in units, between the start and the end of a day."""
        # The day and direction with the smallest dip among those that do not end below the start.
        _, self.calm_day, self.calm_k = max(
            (k * (day.low if k > 0 else day.high), i, k)
            for i, day in enumerate(self.days.totals)
            for k in (1, -1)
            if day.last * k >= 0
        )


def _fills(rate_percent: int, coarse: bool, name: str) -> Fills:
    """A minute at a rate of about ``rate_percent`` / 100: taker orders, each filled by makers."""
    drawn = draws(2, name)
    # 60 to 140 % of the rate, randomly rounded up or down so that small rates keep their mean.
    target = (rate_percent * (60 + drawn[0] % 81) + drawn[1] % 10_000) // 10_000
    times = sorted(seed % 60_000 for seed in draws(target * 5 // 8 + 1, name, "times"))
    fills = Fills([], [], [], [])
    mid = -(drawn[0] >> 63)
    still_mask = 15 if coarse else 1
    for at_ms, seed in zip(times, draws(target, name, "orders"), strict=False):
        buys = seed & 1
        if seed >> 1 & still_mask == 0:
            step = 1 if coarse else 1 << OCTAVES[seed >> 8 & 255 | 1]
            # Takers mostly move the price in their direction.
            mid += step if buys == (seed >> 5 & 3 != 0) else -step
        makers = 1 if seed >> 16 & 3 else 2 + (seed >> 18 & 3)
        climb = 0 if seed >> 20 & 7 else 2 * buys - 1
        for maker in range(makers):
            if len(fills.at_ms) == target:
                break
            if maker:
                mid += climb
            bits = seed >> (24 + 8 * maker)
            fills.at_ms.append(at_ms)
            fills.offset.append(mid + buys)
            fills.quantity.append((128 | bits & 127) << OCTAVES[(seed >> 12 ^ bits * 37) & 255])
            fills.buys.append(buys)
    return fills


def _hour(weights: Sequence[int], counts: Sequence[int], coarse: bool, name: str) -> list[Part]:
    bag = [kind for kind, weight in enumerate(weights) for _ in range(weight)]
    firsts = list(accumulate(counts, initial=0))
    parts = []
    kind = 1
    for seed in draws(60, name):
        # Activity lasts a few minutes.
        if seed & 3 == 0:
            kind = bag[(seed >> 2) % len(bag)]
        shape = firsts[kind] + (seed >> 16) % counts[kind]
        parts.append(Part(shape, _factor(seed >> 32, coarse), 1 + (seed >> 40) % 3))
    return parts


def _day(coarse: bool, name: str) -> list[Part]:
    parts = []
    for hour, seed in enumerate(draws(24, name)):
        kind = (0, 1, 1, 2)[seed & 3] if hour in _BUSY_HOURS else (0, 1, 1, 1)[seed & 3]
        shape = kind * HOUR_SHAPES + (seed >> 8) % HOUR_SHAPES
        parts.append(Part(shape, _factor(seed >> 32, coarse), 1 + (seed >> 40 & 1)))
    return parts


def _factor(bits: int, coarse: bool) -> int:
    size = 1 if coarse or bits & 3 else 2
    return size if bits & 4 else -size
