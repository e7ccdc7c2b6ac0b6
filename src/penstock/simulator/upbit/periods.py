"""Finds the number of the candle of a time, by candle length.

Days begin at midnight UTC, weeks on Monday; months and years follow the calendar.
"""

from dataclasses import dataclass
from datetime import date
from typing import Literal

SECOND_MS = 1_000
MINUTE_MS = 60_000
DAY_MS = 86_400_000
MINUTES = (1, 3, 5, 10, 15, 30, 60, 240)

_WEEK_MS = 7 * DAY_MS
_MONDAY_MS = 4 * DAY_MS  # the epoch was a Thursday
_EPOCH_DAY = date(1970, 1, 1).toordinal()


@dataclass(frozen=True)
class Period:
    """Candles of one length."""

    kind: Literal["seconds", "minutes", "days", "weeks", "months", "years"]
    unit: int = 1
    """The minutes per candle, if ``kind`` is minutes."""

    def number(self, at_ms: int) -> int:
        """The number of the candle that contains a time."""
        if self.kind in ("months", "years"):
            day = date.fromordinal(_EPOCH_DAY + at_ms // DAY_MS)
            return day.year if self.kind == "years" else day.year * 12 + day.month - 1
        return (at_ms - self._phase_ms) // self._length_ms

    def open_ms(self, number: int) -> int:
        """The time at which a candle opens."""
        if self.kind in ("months", "years"):
            year, month = (number, 0) if self.kind == "years" else divmod(number, 12)
            return (date(year, month + 1, 1).toordinal() - _EPOCH_DAY) * DAY_MS
        return number * self._length_ms + self._phase_ms

    @property
    def _phase_ms(self) -> int:
        return _MONDAY_MS if self.kind == "weeks" else 0

    @property
    def _length_ms(self) -> int:
        if self.kind == "minutes":
            return self.unit * MINUTE_MS
        return {"seconds": SECOND_MS, "days": DAY_MS, "weeks": _WEEK_MS}[self.kind]
