"""Formats numbers as Kraken does: strings over REST, JSON numbers in streams, with all decimals.

In streams a price has the decimals of its pair and a quantity eight. REST does the same for
candles; elsewhere it has at least five decimals for prices, and three for quantities in a book.
"""

from collections.abc import Iterable

from penstock.simulator.market.book import Level
from penstock.simulator.market.market import Listing, Sums

QUANTITY_DECIMALS = 8
_LEAST_PRICE_DECIMALS = 5
_RESTING_DECIMALS = 3


def exact(units: int, decimals: int) -> str:
    """``units`` of 10^-decimals, with that many decimals."""
    sign, units = ("-", -units) if units < 0 else ("", units)
    # Slicing is several times as fast as division, and books have thousands of numbers.
    digits = str(units).zfill(decimals + 1)
    return f"{sign}{digits[:-decimals]}.{digits[-decimals:]}" if decimals else f"{sign}{digits}"


def rounded(numerator: int, denominator: int) -> int:
    """The quotient of a non-negative number, rounded to the nearest integer, halves up."""
    return (2 * numerator + denominator) // (2 * denominator)


class Spelling:
    """The number formats of one pair."""

    def __init__(self, listing: Listing) -> None:
        self.price_decimals = listing.price_decimals
        self.lot = 10 ** (QUANTITY_DECIMALS - listing.quantity_decimals)
        """A lot in units of the eighth decimal."""
        more = max(0, _LEAST_PRICE_DECIMALS - listing.price_decimals)
        self._long = "0" * more
        self._tick, self._lots = 10**listing.price_decimals, 10**listing.quantity_decimals
        price = f"%d.%0{listing.price_decimals}d"
        self._level = f'{{"price":{price},"qty":%d.%08d}}'

    def price(self, ticks: int) -> str:
        """A price, or a difference of prices, in candles and streams."""
        return exact(ticks, self.price_decimals)

    def long_price(self, ticks: int) -> str:
        """A price in REST responses other than candles."""
        return exact(ticks, self.price_decimals) + self._long

    def quantity(self, lots: int) -> str:
        """A traded quantity."""
        return exact(lots * self.lot, QUANTITY_DECIMALS)

    def resting(self, lots: int) -> str:
        """A quantity in a book, over REST."""
        coarse = 10 ** (QUANTITY_DECIMALS - _RESTING_DECIMALS)
        return exact(rounded(lots * self.lot, coarse), _RESTING_DECIMALS)

    def whole_lots(self, lots: int) -> str:
        """A quantity in a book, in whole units."""
        return str(lots // self._lots)

    def average(self, sums: Sums) -> int:
        """The average price in ticks; zero without trades."""
        return rounded(sums.quote, sums.volume) if sums.volume else 0

    def levels(self, levels: Iterable[Level]) -> str:
        """One side of a book in a stream."""
        row, tick, unit, lot = self._level, self._tick, 10**QUANTITY_DECIMALS, self.lot
        rows = [
            row % (price // tick, price % tick, (eighths := quantity * lot) // unit, eighths % unit)
            for price, quantity in levels
        ]
        return f"[{','.join(rows)}]"
