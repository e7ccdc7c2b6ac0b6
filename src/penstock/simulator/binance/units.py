"""Time units: how the exchange writes an instant, by the client's choice.

The market knows milliseconds, so a microsecond is written with zeros behind it and needs no
arithmetic. Only the last instant of a stretch, such as a candle's close, is finer: it ends with
nines in either unit.
"""

from typing import NamedTuple

from penstock.simulator.binance import refusals

HEADER, PARAMETER = "X-MBX-TIME-UNIT", "timeUnit"


class TimeUnit(NamedTuple):
    """A unit, by the templates of an instant that is known in ms."""

    dialect: str
    instant: str
    last: str
    """Of the last instant before a border, whose last whole ms is known."""


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
    """The unit a client has named, or the usual one.

    Raises:
        Refused: there is no such unit.
    """
    unit = _BY_NAME.get(name)
    if unit is None:
        raise refusals.bad_time_unit()
    return unit
