"""Computes every trade of a symbol, past and future, as a pure function of its id or time.

Only one small row per day is stored (see ``timeline``). From it a trade, an aggregated trade or a
candle is found by a few divisions and bisections, as fast for the first day as for today. Candles
are exact because the sums of their shapes are (see ``shapes``).

Prices are in ticks and quantities in lots. Times are milliseconds UTC.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache, partial
from itertools import islice, pairwise
from typing import NamedTuple

from penstock.simulator.market.candles import (
    CELL,
    Piece,
    Sums,
    candle_across,
    candle_of,
    joined,
)
from penstock.simulator.market.shapes import HOURS, MINUTES, Library, Minute
from penstock.simulator.market.timeline import (
    DAY_MS,
    HOUR_MS,
    MINUTE_MS,
    Span,
    Timeline,
    usual_factor,
)

__all__ = ["AggTrade", "Listing", "Market", "Sums", "Trade", "library_of"]

SECOND_MS = 1_000
LEAST_PRICE_IN_MOVES = 20
"""A price of fewer typical daily moves than this is too volatile even with factor one."""


@dataclass(frozen=True)
class Listing:
    """The fixed properties of a symbol."""

    base: str
    quote: str
    price_decimals: int
    quantity_decimals: int
    start_price: int
    """In ticks; over the years the price tends to return to it."""
    trades_per_minute: int
    listed_at_ms: int
    """The start of the history: a UTC midnight."""
    quantity_factor: int = 1
    """Multiplies every quantity: for coins whose lot has hardly any value."""
    price_step: int = 1
    """The tick in units of the last decimal: 1000 if prices without decimals move by thousands."""

    def __post_init__(self) -> None:
        if self.price_decimals + self.quantity_decimals > 8:
            # Otherwise eight decimals do not hold an exact quote quantity.
            raise ValueError(f"{self.base}/{self.quote}: price and quantity decimals exceed 8.")
        if self.listed_at_ms % DAY_MS:
            raise ValueError(f"{self.base}/{self.quote}: a listing begins at a UTC midnight.")


class Trade(NamedTuple):
    """One execution."""

    id: int
    at_ms: int
    price: int
    quantity: int
    taker_buys: bool


class AggTrade(NamedTuple):
    """Consecutive trades of the same time, price and side."""

    id: int
    at_ms: int
    price: int
    quantity: int
    first_id: int
    last_id: int
    taker_buys: bool


_trade = partial(tuple.__new__, Trade)
_group = partial(tuple.__new__, AggTrade)
_MOST_CACHED = 16
_SPANS_MS = frozenset((*(m * MINUTE_MS for m in MINUTES), *(h * HOUR_MS for h in HOURS)))


class Market:
    """A symbol's trades, aggregated trades and candles.

    Future trades exist too; callers must limit themselves to the past.
    """

    def __init__(self, listing: Listing, seed: int, library: Library) -> None:
        name = f"{listing.base}/{listing.quote}"
        if library.trades_per_minute != listing.trades_per_minute:
            raise ValueError(f"{name}: the library has another trade rate than the listing.")
        if listing.start_price < LEAST_PRICE_IN_MOVES * library.day_move:
            raise ValueError(
                f"{name}: a start price of {listing.start_price} ticks is too coarse for moves of"
                f" {library.day_move} a day. Add price decimals, or take a coarse library."
            )
        self.listing = listing
        self.purpose = f"{seed}/{name}"
        """The prefix of the purpose of all draws for this market."""
        self.grain = usual_factor(listing.start_price, library)
        """The ticks per unit of a shape on an average day: how finely prices move."""
        self._minutes, self._hours, self._days = library.minutes, library.hours, library.days
        self._cached: dict[tuple[int, int], Sums] = {}
        self._timeline = Timeline(
            library,
            self.purpose,
            listed_at_ms=listing.listed_at_ms,
            start_price=listing.start_price,
            quantity_factor=listing.quantity_factor,
        )

    def id_at(self, at_ms: int) -> int:
        """The id of the first trade at or after a time."""
        if at_ms <= self.listing.listed_at_ms:
            return 1
        span = self._timeline.minute(at_ms)
        return span.first_id + bisect_left(self._minutes[span.shape].at_ms, at_ms - span.start_ms)

    def trades(self, first_id: int, count: int) -> list[Trade]:
        """``count`` trades beginning with ``first_id``."""
        trades: list[Trade] = []
        if count <= 0:
            return trades
        for span in self._timeline.minutes_from(self._timeline.by_trade, first_id):
            minute = self._minutes[span.shape]
            begin = max(0, first_id - span.first_id)
            end = min(len(minute.buys), begin + count - len(trades))
            trades += self._trades_of(span, minute, begin, end)
            if len(trades) == count:
                break
        return trades

    def last_before(self, at_ms: int) -> Trade:
        """The last trade before a time; if there is none, one with id 0 at the start price."""
        if at_ms > self.listing.listed_at_ms:
            span = self._timeline.minute(at_ms)
            minute = self._minutes[span.shape]
            index = bisect_left(minute.at_ms, at_ms - span.start_ms)
            if index:
                return self._trades_of(span, minute, index - 1, index)[0]
            if span.first_id > 1:
                return self.trades(span.first_id - 1, 1)[0]
        return Trade(0, self.listing.listed_at_ms, self.listing.start_price, 0, True)

    def agg_id_at(self, at_ms: int) -> int:
        """The id of the first aggregated trade at or after a time."""
        if at_ms <= self.listing.listed_at_ms:
            return 1
        span = self._timeline.minute(at_ms)
        minute = self._minutes[span.shape]
        index = bisect_left(minute.at_ms, at_ms - span.start_ms)
        return span.first_group + bisect_left(minute.groups, index)

    def agg_trades(self, first_id: int, count: int) -> list[AggTrade]:
        """``count`` aggregated trades beginning with ``first_id``."""
        groups: list[AggTrade] = []
        if count <= 0:
            return groups
        for span in self._timeline.minutes_from(self._timeline.by_group, first_id):
            minute = self._minutes[span.shape]
            begin = max(0, first_id - span.first_group)
            end = min(len(minute.groups), begin + count - len(groups))
            groups += self._groups_of(span, minute, begin, end)
            if len(groups) == count:
                break
        return groups

    def sums(self, start_ms: int, end_ms: int) -> Sums:
        """The candle of any range ``[start_ms, end_ms)``."""
        first_ms, last_ms = start_ms + -start_ms % MINUTE_MS, end_ms - end_ms % MINUTE_MS
        if last_ms - first_ms < HOUR_MS:
            return self.candles((start_ms, end_ms))[0]
        first, last = self.candles((start_ms, first_ms)), self.candles((last_ms, end_ms))
        return joined([*first, self._minutes_of(first_ms, last_ms), *last])

    def _minutes_of(self, start_ms: int, end_ms: int) -> Sums:
        """The candle of whole minutes, cached: tickers ask for the same until the next minute."""
        found = self._cached.get((start_ms, end_ms))
        if found is None:
            if len(self._cached) >= _MOST_CACHED:
                self._cached.clear()
            [found] = self.candles((start_ms, end_ms))
            self._cached[start_ms, end_ms] = found
        return found

    def candles(self, opens_ms: Sequence[int]) -> list[Sums]:
        """The candles between consecutive boundaries: one fewer than boundaries."""
        if len(opens_ms) < 2:
            return []
        start_ms, step_ms = opens_ms[0], opens_ms[1] - opens_ms[0]
        regular = len(opens_ms) > 2 and step_ms > 0 and start_ms % step_ms == 0
        if regular and start_ms >= self.listing.listed_at_ms:
            end_ms = start_ms + step_ms * (len(opens_ms) - 1)
            if list(range(start_ms, end_ms + 1, step_ms)) == list(opens_ms):
                if step_ms == SECOND_MS:
                    return self._seconds(start_ms, end_ms)
                if step_ms in _SPANS_MS:
                    return self._spans(start_ms, end_ms, step_ms)
        return self._ranges(opens_ms)

    def _seconds(self, start_ms: int, end_ms: int) -> list[Sums]:
        rows: list[Sums] = []
        price = self.last_before(start_ms).price
        while start_ms < end_ms:
            span = self._timeline.minute(start_ms)
            minute = self._minutes[span.shape]
            stop_ms = min(end_ms, span.start_ms + MINUTE_MS)
            marks = [
                bisect_left(minute.at_ms, at_ms)
                for at_ms in range(start_ms - span.start_ms, stop_ms - span.start_ms + 1, SECOND_MS)
            ]
            for begin, end in pairwise(marks):
                cell = minute.part(begin, end)
                rows.append(candle_of(cell, span.k, span.g, price, span.first_id + begin))
                price = rows[-1][3]
            start_ms = stop_ms
        return rows

    def _spans(self, start_ms: int, end_ms: int, step_ms: int) -> list[Sums]:
        """Candles whose aggregates the library has precomputed, hour by hour or day by day."""
        if step_ms < HOUR_MS:
            whole_ms, child_ms, tier, find = HOUR_MS, MINUTE_MS, self._hours, self._timeline.hour
        else:
            whole_ms, child_ms, tier, find = DAY_MS, HOUR_MS, self._days, self._timeline.day
        step = step_ms // child_ms
        cells = tier.cells[step]
        rows: list[Sums] = []
        while start_ms < end_ms:
            _, shape, k, g, price, next_id, _ = find(start_ms)
            begin = start_ms % whole_ms // child_ms
            end = min(tier.width, begin + (end_ms - start_ms) // child_ms)
            at = shape * (tier.width + 1) + begin
            price += k * tier.offset[at]
            next_id += tier.trades[at]
            first = shape * tier.width // step
            for index in range((first + begin // step) * CELL, (first + end // step) * CELL, CELL):
                row = candle_of(cells[index : index + CELL], k, g, price, next_id)
                rows.append(row)
                price = row[3]
                next_id += row[8]
            start_ms += (end - begin) * child_ms
        return rows

    def _ranges(self, opens_ms: Sequence[int]) -> list[Sums]:
        """Candles between any boundaries, from as few and as large pieces as possible."""
        listed_ms = self.listing.listed_at_ms
        start_ms = max(opens_ms[0], listed_ms)
        price, next_id = self.last_before(start_ms).price, self.id_at(start_ms)
        days = None if any(ms % DAY_MS for ms in opens_ms) else self._whole_days(opens_ms)
        rows = []
        for end_ms in opens_ms[1:]:
            pieces = (
                islice(days, max(0, end_ms - start_ms) // DAY_MS)
                if days is not None
                else self._pieces(start_ms, end_ms)
            )
            row = candle_across(pieces, price, next_id)
            rows.append(row)
            price = row.close
            next_id += row.trades
            start_ms = max(end_ms, listed_ms)
        return rows

    def _whole_days(self, opens_ms: Sequence[int]) -> Iterator[Piece]:
        start_ms, end_ms = (
            max(ms, self.listing.listed_at_ms) for ms in (opens_ms[0], opens_ms[-1])
        )
        totals = self._days.totals
        for shape, k, g in self._timeline.factors(start_ms, end_ms):
            yield totals[shape], k, g

    def _pieces(self, start_ms: int, end_ms: int) -> Iterator[Piece]:
        while start_ms < end_ms:
            left_ms = end_ms - start_ms
            if start_ms % MINUTE_MS or left_ms < MINUTE_MS:
                span = self._timeline.minute(start_ms)
                minute = self._minutes[span.shape]
                begin_ms = start_ms - span.start_ms
                stop_ms = min(MINUTE_MS, begin_ms + left_ms)
                begin, end = (bisect_left(minute.at_ms, ms) for ms in (begin_ms, stop_ms))
                yield minute.part(begin, end), span.k, span.g
                start_ms = span.start_ms + stop_ms
                continue
            if start_ms % HOUR_MS or left_ms < HOUR_MS:
                span, tier, child_ms = self._timeline.hour(start_ms), self._hours, MINUTE_MS
            else:
                span, tier, child_ms = self._timeline.day(start_ms), self._days, HOUR_MS
            begin = (start_ms - span.start_ms) // child_ms
            room = min(tier.width - begin, left_ms // child_ms)
            step = max(step for step in tier.cells if step <= room and begin % step == 0)
            index = (span.shape * tier.width + begin) // step * CELL
            yield tier.cells[step][index : index + CELL], span.k, span.g
            start_ms += step * child_ms

    def _trades_of(self, span: Span, minute: Minute, begin: int, end: int) -> list[Trade]:
        start_ms, _, k, g, price, first_id, _ = span
        mirrored = k < 0
        columns = zip(
            range(first_id + begin, first_id + end),
            minute.at_ms[begin:end],
            minute.offset[begin:end],
            minute.quantity[begin:end],
            minute.buys[begin:end],
            strict=True,
        )
        return [
            _trade((number, start_ms + at_ms, price + k * offset, g * quantity, buys != mirrored))
            for number, at_ms, offset, quantity, buys in columns
        ]

    def _groups_of(self, span: Span, minute: Minute, begin: int, end: int) -> Iterator[AggTrade]:
        start_ms, _, k, g, price, first_id, first_group = span
        mirrored = k < 0
        bounds = minute.groups[begin : end + 1]
        if end == len(minute.groups):
            bounds.append(len(minute.buys))
        for group_id, (i, j) in enumerate(pairwise(bounds), first_group + begin):
            yield _group(
                (
                    group_id,
                    start_ms + minute.at_ms[i],
                    price + k * minute.offset[i],
                    g * (minute.volume[j] - minute.volume[i]),
                    first_id + i,
                    first_id + j - 1,
                    minute.buys[i] != mirrored,
                )
            )


def library_of(listing: Listing) -> Library:
    """The library for a listing: a coarse one if its price has too few ticks."""
    fine = _library(listing.trades_per_minute, coarse=False)
    if listing.start_price >= LEAST_PRICE_IN_MOVES * fine.day_move:
        return fine
    return _library(listing.trades_per_minute, coarse=True)


# A library takes up to a second to build, and is the same for every market and seed.
_library = cache(Library)
