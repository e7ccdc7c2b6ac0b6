"""Candle lengths, and the times at which candles begin.

Seconds to days are counted from the epoch, weeks from a Monday, months from the calendar. All in
UTC and in integer milliseconds.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime

from penstock.errors import UnknownInterval

SECOND_MS = 1_000
MINUTE_MS = 60 * SECOND_MS
HOUR_MS = 60 * MINUTE_MS
DAY_MS = 24 * HOUR_MS
WEEK_MS = 7 * DAY_MS
# 1970-01-01 was a Thursday; the first Monday came four days later.
FIRST_MONDAY_MS = 4 * DAY_MS

_UNITS = {"s": SECOND_MS, "m": MINUTE_MS, "h": HOUR_MS, "d": DAY_MS, "w": WEEK_MS}
_SPELLING = re.compile(r"([1-9][0-9]{0,4})([smhdwM])")
_OFFERED = "1s 1m 3m 5m 15m 30m 1h 2h 4h 6h 8h 12h 1d 3d 1w 1M"
COMMON = tuple(_OFFERED.split())
"""The intervals exchanges offer most, shortest first."""


@dataclass(frozen=True, slots=True)
class Interval:
    """A candle's length, such as ``1m``, ``1w`` or ``1M`` (m is minutes, M is months)."""

    text: str
    count: int
    unit: str

    @classmethod
    def parse(cls, text: str) -> "Interval":
        """Parse an interval as ccxt and the exchanges write it.

        Raises:
            UnknownInterval: it is not an interval.
        """
        match = _SPELLING.fullmatch(text)
        if match is None:
            raise UnknownInterval(text, COMMON)
        return cls(text, int(match[1]), match[2])

    def __str__(self) -> str:
        return self.text

    @property
    def fixed_ms(self) -> int | None:
        """The length, if it is constant; None for months."""
        return None if self.unit == "M" else self.count * _UNITS[self.unit]

    def open_of(self, at_ms: int) -> int:
        """The start of the candle that contains this time."""
        if self.unit == "M":
            return _month_start(_month_number(at_ms) // self.count * self.count)
        length = self.count * _UNITS[self.unit]
        shift = FIRST_MONDAY_MS if self.unit == "w" else 0
        return (at_ms - shift) // length * length + shift

    def next_open(self, open_ms: int) -> int:
        """The start of the candle after the one that starts at ``open_ms``."""
        if self.unit == "M":
            return _month_start(_month_number(open_ms) + self.count)
        return open_ms + self.count * _UNITS[self.unit]

    def first_open(self, start_ms: int) -> int:
        """The start of the first candle that does not start before ``start_ms``."""
        open_ms = self.open_of(start_ms)
        return open_ms if open_ms >= start_ms else self.next_open(open_ms)

    def opens(self, start_ms: int, end_ms: int) -> Iterator[int]:
        """The starts of all candles that start in [start, end)."""
        open_ms = self.first_open(start_ms)
        while open_ms < end_ms:
            yield open_ms
            open_ms = self.next_open(open_ms)


def _month_number(at_ms: int) -> int:
    """Months since January 1970."""
    at = datetime.fromtimestamp(at_ms // 1000, UTC)
    return (at.year - 1970) * 12 + at.month - 1


def _month_start(number: int) -> int:
    years, months = divmod(number, 12)
    return int(datetime(1970 + years, months + 1, 1, tzinfo=UTC).timestamp()) * 1000
