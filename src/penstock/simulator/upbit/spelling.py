"""How Upbit writes numbers and instants: JSON numbers, each kind in a way of its own.

REST has no zeros at the end and writes what is very small as ``8.428e-05``. Streams have at least
one decimal, and from ``9.9E-7`` down an exponent. Differences to the closing price have eight
decimals, and nothing is ``0E-8``. All are exact: nothing passes through a float.
"""

from collections.abc import Callable
from datetime import UTC, datetime
from functools import lru_cache

from penstock.simulator.market.market import Listing

KST_MS = 9 * 3_600_000
RATE_DECIMALS = 10

Number = Callable[[int, int], str]
"""Spells ``units`` of 10^-decimals."""


def rest_number(units: int, decimals: int) -> str:
    """A number in an answer over REST."""
    if units and abs(units) * 10_000 < 10**decimals:
        return _with_exponent(units, decimals, "{}e-{:02}")
    return _plain(units, decimals, least_decimals=0)


def stream_number(units: int, decimals: int) -> str:
    """A price or a quantity in a stream."""
    if units and abs(units) * 1_000_000 < 10**decimals:
        return _with_exponent(units, decimals, "{}E-{}")
    return _plain(units, decimals, least_decimals=1)


def difference(units: int, decimals: int) -> str:
    """A closing price, or a difference to it, in a stream."""
    if not units:
        return "0E-8"
    if abs(units) * 1_000_000 < 10**decimals:
        return _with_exponent(units, decimals, "{}E-{}")
    return _plain(units, decimals, least_decimals=8)


def _plain(units: int, decimals: int, least_decimals: int) -> str:
    sign, units = ("-", -units) if units < 0 else ("", units)
    whole, part = divmod(units, 10**decimals)
    digits = f"{part:0{decimals}}".rstrip("0") if part else ""
    digits = digits.ljust(least_decimals, "0")
    return f"{sign}{whole}.{digits}" if digits else f"{sign}{whole}"


def _with_exponent(units: int, decimals: int, form: str) -> str:
    sign, digits = ("-", str(-units)) if units < 0 else ("", str(units))
    exponent = decimals - len(digits) + 1
    digits = digits.rstrip("0")
    mantissa = f"{digits[0]}.{digits[1:]}" if len(digits) > 1 else digits
    return sign + form.format(mantissa, exponent)


def rate(change: int, base: int) -> int:
    """``change`` of ``base`` in units of 10^-10, halves away from zero; nothing of nothing."""
    if not base:
        return 0
    units: int = (2 * abs(change) * 10**RATE_DECIMALS + base) // (2 * base)
    return -units if change < 0 else units


@lru_cache(maxsize=4096)
def date_time(second: int) -> str:
    """``2025-06-30T23:59:00``; a second since the epoch, in UTC."""
    return datetime.fromtimestamp(second, UTC).strftime("%Y-%m-%dT%H:%M:%S")


def utc(at_ms: int) -> str:
    """An instant in UTC, to the second."""
    return date_time(at_ms // 1000)


def kst(at_ms: int) -> str:
    """An instant in Korea, to the second."""
    return date_time((at_ms + KST_MS) // 1000)


def compact(text: str) -> tuple[str, str]:
    """``20250630`` and ``235900`` of a date and time."""
    date, _, clock = text.partition("T")
    return date.replace("-", ""), clock.replace(":", "")


class Spelling:
    """The numbers of one market; ``number`` is the way to write them."""

    def __init__(self, listing: Listing) -> None:
        self._price_decimals, self._step = listing.price_decimals, listing.price_step
        self._volume_decimals = listing.quantity_decimals

    def price(self, ticks: int, number: Number = rest_number) -> str:
        """A price, or a difference of prices."""
        return number(ticks * self._step, self._price_decimals)

    def volume(self, lots: int, number: Number = rest_number) -> str:
        """A quantity of what is traded."""
        return number(lots, self._volume_decimals)

    def amount(self, tick_lots: int, number: Number = rest_number) -> str:
        """What was paid: price times quantity."""
        decimals = self._price_decimals + self._volume_decimals
        return number(tick_lots * self._step, decimals)
