"""Defines an instrument: a listed market with its book, its format and the ids of its trades.

A ``sequential_id`` consists of the trade's millisecond and its position among the trades of that
millisecond. So ids are unique, far from consecutive, and exceed the precision of a double.
"""

from dataclasses import dataclass, field
from typing import NamedTuple

from penstock.simulator.market.book import Book
from penstock.simulator.market.market import Market, Trade
from penstock.simulator.upbit.spelling import Spelling

DAY_MS = 86_400_000
IDS_PER_MS = 10_000
_YEAR_DAYS = 52 * 7
_REMEMBERED = 8


class Extremes(NamedTuple):
    """The highest and the lowest price of a range of days, and the start of the day of each."""

    high: int
    high_ms: int
    low: int
    low_ms: int


@dataclass(frozen=True)
class Instrument:
    """A listed market."""

    code: str
    """Quote and base separated by a dash, upper case."""
    market: Market
    book: Book
    spelling: Spelling
    _years: dict[int, "Extremes | None"] = field(default_factory=dict, compare=False, repr=False)
    """A cache, not state: each value can be computed again."""

    @property
    def listed_at_ms(self) -> int:
        """The start of the history."""
        return self.market.listing.listed_at_ms

    def sequential_id(self, trade: Trade) -> int:
        """The id of a trade in the exchange's numbering."""
        return trade.at_ms * IDS_PER_MS + trade.id - self.market.id_at(trade.at_ms)

    def first_id_not_before(self, sequential_id: int) -> int:
        """The market's id of the first trade whose sequential id is not smaller."""
        at_ms, place = divmod(sequential_id, IDS_PER_MS)
        return min(self.market.id_at(at_ms) + place, self.market.id_at(at_ms + 1))

    def update_id_at(self, at_ms: int) -> int:
        """The last update id of the book whose slot has ended by a time."""
        return self.book.update_id(at_ms // Book.SLOT_MS - 1)

    def year_before(self, day_ms: int) -> Extremes | None:
        """The extreme prices of the 52 weeks before a day; None on the first day."""
        if day_ms not in self._years:
            if len(self._years) >= _REMEMBERED:
                self._years.clear()
            self._years[day_ms] = _extremes(self.market, day_ms)
        return self._years[day_ms]


def book_time_ms(update_id: int) -> int:
    """The time of an update id: the end of its slot."""
    return ((update_id >> 6) + 1) * Book.SLOT_MS


def _extremes(market: Market, day_ms: int) -> Extremes | None:
    first_ms = max(day_ms - _YEAR_DAYS * DAY_MS, market.listing.listed_at_ms)
    borders = range(first_ms, day_ms + 1, DAY_MS)
    days = [
        (start_ms, sums)
        for start_ms, sums in zip(borders, market.candles(borders), strict=False)
        if sums.trades
    ]
    if not days:
        return None
    high_ms, high = max(days, key=lambda day: day[1].high)
    low_ms, low = min(days, key=lambda day: day[1].low)
    return Extremes(high.high, high_ms, low.low, low_ms)


def list_market(market: Market) -> Instrument:
    """Build the instrument of a market."""
    listing = market.listing
    code = f"{listing.quote}-{listing.base}"
    return Instrument(code, market, Book(market), Spelling(listing))
