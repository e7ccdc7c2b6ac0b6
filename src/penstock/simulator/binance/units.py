"""Formats times in milliseconds or microseconds, as the client requests.

The market's times are in milliseconds, so microseconds are formatted by appending zeros, without
arithmetic. Only the end of a period, such as a candle's close, is more precise: it ends with nines
in either unit.
"""

from typing import NamedTuple

from penstock.simulator.binance import refusals

HEADER, PARAMETER = "X-MBX-TIME-UNIT", "timeUnit"


class TimeUnit(NamedTuple):
    """A time unit, with templates that take a time in ms."""

    dialect: str
    instant: str
    last: str
    """For the end of a period; takes its last ms."""


MILLISECOND = TimeUnit("", "%d", "%d")
MICROSECOND = TimeUnit("MICROSECOND", "%d000", "%d999")
UNITS = (MILLISECOND, MICROSECOND)

_BY_NAME = {
    None: MILLISECOND,
    "MILLISECOND": MILLISECOND,
    "millisecond": MILLISECOND,
    "MICROSECOND": MICROSECOND,
    "microsecond": MICROSECOND,
}


def time_unit(name: str | None) -> TimeUnit:
    """The unit that a client requests, or the default.

    Raises:
        Refused: there is no such unit.
    """
    unit = _BY_NAME.get(name)
    if unit is None:
        raise refusals.bad_time_unit()
    return unit
