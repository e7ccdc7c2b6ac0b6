"""Formats numbers and times as Upbit does: JSON numbers, in several formats.

REST has no trailing zeros and formats very small numbers as ``8.428e-05``. Streams have at least
one decimal, and an exponent from ``9.9E-7`` down. Differences to the closing price have eight
decimals, and zero is ``0E-8``. All numbers are exact: no floats are used.
"""

from collections.abc import Callable
from datetime import UTC, datetime
from functools import lru_cache

from penstock.simulator.market.market import Listing

KST_MS = 9 * 3_600_000
RATE_DECIMALS = 10

Number = Callable[[int, int], str]
"""Formats ``units`` of 10^-decimals."""


def rest_number(units: int, decimals: int) -> str:
    """A number in a REST response."""
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
    """``change`` / ``base`` in units of 10^-10, halves away from zero; 0 if ``base`` is 0."""
    if not base:
        return 0
    units: int = (2 * abs(change) * 10**RATE_DECIMALS + base) // (2 * base)
    return -units if change < 0 else units


@lru_cache(maxsize=4096)
def date_time(second: int) -> str:
    """``2025-06-30T23:59:00``, in UTC, from seconds since the epoch."""
    return datetime.fromtimestamp(second, UTC).strftime("%Y-%m-%dT%H:%M:%S")


def utc(at_ms: int) -> str:
    """A time in UTC, in whole seconds."""
    return date_time(at_ms // 1000)


def kst(at_ms: int) -> str:
    """A time in Korean time, in whole seconds."""
    return date_time((at_ms + KST_MS) // 1000)


def compact(text: str) -> tuple[str, str]:
    """``20250630`` and ``235900`` of a date and time."""
    date, _, clock = text.partition("T")
    return date.replace("-", ""), clock.replace(":", "")


class Spelling:
    """The number formats of one market; ``number`` is the format."""

    def __init__(self, listing: Listing) -> None:
        self._price_decimals, self._step = listing.price_decimals, listing.price_step
        self._volume_decimals = listing.quantity_decimals

    def price(self, ticks: int, number: Number = rest_number) -> str:
        """A price, or a difference of prices."""
        return number(ticks * self._step, self._price_decimals)

    def volume(self, lots: int, number: Number = rest_number) -> str:
        """A quantity of the base asset."""
        return number(lots, self._volume_decimals)

    def amount(self, tick_lots: int, number: Number = rest_number) -> str:
        """A quantity of the quote asset: price times quantity."""
        decimals = self._price_decimals + self._volume_decimals
        return number(tick_lots * self._step, decimals)
