"""Finds the candle of a time, by candle length and time zone.

Candles of one period are numbered, so that a page is a range of numbers, for months as for minutes.
A time zone shifts the boundaries; weeks begin on Monday; months follow the calendar.
"""

import re
from dataclasses import dataclass
from datetime import date

SECOND_MS = 1_000
MINUTE_MS = 60 * SECOND_MS
HOUR_MS = 60 * MINUTE_MS
DAY_MS = 24 * HOUR_MS
WEEK_MS = 7 * DAY_MS

LENGTHS_MS = {
    "1s": SECOND_MS,
    "1m": MINUTE_MS,
    "3m": 3 * MINUTE_MS,
    "5m": 5 * MINUTE_MS,
    "15m": 15 * MINUTE_MS,
    "30m": 30 * MINUTE_MS,
    "1h": HOUR_MS,
    "2h": 2 * HOUR_MS,
    "4h": 4 * HOUR_MS,
    "6h": 6 * HOUR_MS,
    "8h": 8 * HOUR_MS,
    "12h": 12 * HOUR_MS,
    "1d": DAY_MS,
    "3d": 3 * DAY_MS,
    "1w": WEEK_MS,
    "1M": 0,
}
"""Length of each interval; 0 for a month, which has no fixed length."""

_EPOCH_DAY = date(1970, 1, 1).toordinal()
_FIRST_MONDAY_MS = 4 * DAY_MS  # the epoch was a Thursday
_TIME_ZONE = re.compile(r"([+-]?)(\d{1,2})(?::(\d{2}))?")
_WINDOW_SIZE = re.compile(r"([1-9]\d?)([mhd])")
_WINDOW_UNITS_MS = {"m": (MINUTE_MS, 59), "h": (HOUR_MS, 23), "d": (DAY_MS, 7)}


@dataclass(frozen=True)
class Period:
    """A candle length in a time zone."""

    interval: str
    zone_ms: int = 0

    def number(self, at_ms: int) -> int:
        """The number of the candle that contains a time."""
        local_ms = at_ms + self.zone_ms
        if self.interval == "1M":
            day = date.fromordinal(_EPOCH_DAY + local_ms // DAY_MS)
            return day.year * 12 + day.month - 1
        return (local_ms - self._phase_ms) // LENGTHS_MS[self.interval]

    def open_ms(self, number: int) -> int:
        """The time at which a candle opens."""
        if self.interval == "1M":
            year, month = divmod(number, 12)
            day = date(year, month + 1, 1).toordinal() - _EPOCH_DAY
            return day * DAY_MS - self.zone_ms
        return number * LENGTHS_MS[self.interval] + self._phase_ms - self.zone_ms

    @property
    def _phase_ms(self) -> int:
        return _FIRST_MONDAY_MS if self.interval == "1w" else 0


def zone_ms(text: str) -> int | None:
    """A time zone such as ``-1:00``, ``05:45`` or ``8`` as an offset; None if it is not one."""
    match = _TIME_ZONE.fullmatch(text)
    if match is None:
        return None
    sign, hours, minutes = match[1], int(match[2]), int(match[3] or 0)
    offset_ms = (hours * HOUR_MS + minutes * MINUTE_MS) * (-1 if sign == "-" else 1)
    allowed = minutes < 60 and -12 * HOUR_MS <= offset_ms <= 14 * HOUR_MS
    return offset_ms if allowed else None


def window_ms(text: str) -> int | None:
    """The length of ``1m`` … ``59m``, ``1h`` … ``23h`` or ``1d`` … ``7d``; otherwise None."""
    match = _WINDOW_SIZE.fullmatch(text)
    if match is None:
        return None
    unit_ms, most = _WINDOW_UNITS_MS[match[2]]
    count = int(match[1])
    return count * unit_ms if count <= most else None
