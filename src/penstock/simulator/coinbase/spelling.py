"""Formats numbers, times and rows as Coinbase does.

Numbers have four formats: books have all decimals of the increment, trades no trailing zeros,
volumes eight decimals, and candles are JSON numbers. Times have microseconds. The market's times
are milliseconds, so the last three digits are pseudo-random, the same for all events of one
millisecond.
"""

from collections.abc import Iterable
from datetime import UTC, datetime
from functools import lru_cache

from penstock.simulator.market.book import Level
from penstock.simulator.market.market import Listing, Sums, Trade
from penstock.simulator.market.pieces import Work, joined
from penstock.simulator.market.rng import mix

VOLUME_DECIMALS = 8


def padded(units: int, decimals: int) -> str:
    """``units`` of 10^-decimals, with all decimals."""
    # Slicing is faster than division, and a whole book has forty thousand numbers.
    digits = str(units).zfill(decimals + 1)
    return f"{digits[:-decimals]}.{digits[-decimals:]}" if decimals else digits


def bare(units: int, decimals: int) -> str:
    """``units`` of 10^-decimals, without trailing zeros."""
    text = padded(units, decimals)
    return text.rstrip("0").rstrip(".") if decimals else text


def time(at_ms: int) -> str:
    """A time in microseconds, the last three digits of which are pseudo-random."""
    second, ms = divmod(at_ms, 1000)
    return f"{_second(second)}.{ms:03}{mix(at_ms) % 1000:03}Z"


def whole_time(at_ms: int, microseconds_before: int = 0) -> str:
    """A whole millisecond, or a time that many microseconds before it."""
    second, us = divmod(at_ms * 1000 - microseconds_before, 1_000_000)
    return f"{_second(second)}.{us:06}Z"


def server_time(at_ms: int) -> str:
    """A time in milliseconds, as in the response of ``time``."""
    second, ms = divmod(at_ms, 1000)
    return f"{_second(second)}.{ms:03}Z"


@lru_cache(maxsize=4096)
def _second(second: int) -> str:
    return datetime.fromtimestamp(second, UTC).strftime("%Y-%m-%dT%H:%M:%S")


class Spelling:
    """The number and row formats of one product."""

    def __init__(self, listing: Listing) -> None:
        self.product_id = f"{listing.base}-{listing.quote}"
        self._price_decimals, self._price_step = listing.price_decimals, listing.price_step
        self._size_decimals = listing.quantity_decimals

    def price(self, ticks: int) -> str:
        """A price in a book."""
        return padded(ticks * self._price_step, self._price_decimals)

    def size(self, lots: int) -> str:
        """A size in a book; zero has the increment's decimals too, such as ``0.00``."""
        return padded(lots, self._size_decimals)

    def bare_price(self, ticks: int) -> str:
        """The price of a trade."""
        return bare(ticks * self._price_step, self._price_decimals)

    def bare_size(self, lots: int) -> str:
        """The size of a trade."""
        return bare(lots, self._size_decimals)

    def volume(self, lots: int) -> str:
        """A sum of sizes."""
        return padded(lots * 10 ** (VOLUME_DECIMALS - self._size_decimals), VOLUME_DECIMALS)

    def trade(self, trade: Trade) -> str:
        """A row of ``trades``. The side is the maker's: ``sell`` if the taker bought."""
        side = "sell" if trade.taker_buys else "buy"
        return (
            f'{{"trade_id":{trade.id},"side":"{side}","size":"{self.bare_size(trade.quantity)}",'
            f'"price":"{self.bare_price(trade.price)}","time":"{time(trade.at_ms)}"}}'
        )

    def candle(self, open_ms: int, sums: Sums) -> str:
        """A row of ``candles``: time, low, high, open, close, volume."""
        return f"{self.spark(open_ms, sums)[:-1]},{self.bare_size(sums.volume)}]"

    def spark(self, open_ms: int, sums: Sums) -> str:
        """A row of ``spark-lines``: a candle without its volume."""
        prices = (sums.low, sums.high, sums.open, sums.close)
        numbers = ",".join([self.bare_price(each) for each in prices])
        return f"[{open_ms // 1000},{numbers}]"

    def levels(self, levels: Iterable[Level]) -> Work[str]:
        """One side of a book, in pieces."""
        rows = (f'["{self.price(price)}","{self.size(size)}"]' for price, size in levels)
        return f"[{(yield from joined(rows))}]"
