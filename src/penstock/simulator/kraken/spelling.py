"""How Kraken writes numbers: quoted over REST, bare on streams, always with all their decimals.

Streams give a price the decimals of its pair and a quantity eight. REST does the same for candles,
but elsewhere gives a price at least five decimals, and what rests in a book three.
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
    # Cut, not divided, which takes several times as long: books have thousands of them.
    digits = str(units).zfill(decimals + 1)
    return f"{sign}{digits[:-decimals]}.{digits[-decimals:]}" if decimals else f"{sign}{digits}"


def rounded(numerator: int, denominator: int) -> int:
    """A quotient of a number that is not negative, to the nearest whole, halves upwards."""
    return (2 * numerator + denominator) // (2 * denominator)


class Spelling:
    """The numbers of one pair."""

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
        """A price, or a difference of prices, as candles and streams have it."""
        return exact(ticks, self.price_decimals)

    def long_price(self, ticks: int) -> str:
        """A price as the rest of REST has it."""
        return exact(ticks, self.price_decimals) + self._long

    def quantity(self, lots: int) -> str:
        """What was traded."""
        return exact(lots * self.lot, QUANTITY_DECIMALS)

    def resting(self, lots: int) -> str:
        """What rests in a book, as REST has it."""
        coarse = 10 ** (QUANTITY_DECIMALS - _RESTING_DECIMALS)
        return exact(rounded(lots * self.lot, coarse), _RESTING_DECIMALS)

    def whole_lots(self, lots: int) -> str:
        """Whole units of what rests."""
        return str(lots // self._lots)

    def average(self, sums: Sums) -> int:
        """The average price in ticks; zero if nothing was traded."""
        return rounded(sums.quote, sums.volume) if sums.volume else 0

    def levels(self, levels: Iterable[Level]) -> str:
        """One side of a book on a stream."""
        row, tick, unit, lot = self._level, self._tick, 10**QUANTITY_DECIMALS, self.lot
        rows = [
            row % (price // tick, price % tick, (eighths := quantity * lot) // unit, eighths % unit)
            for price, quantity in levels
        ]
        return f"[{','.join(rows)}]"
