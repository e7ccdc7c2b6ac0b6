"""What ccxt knows of an exchange's limits: so many milliseconds for a request that costs one.

Costs are fractions there, and whole numbers here: a cost of 1 is ``UNITS``, which is also the most
that is let through at once; a dearer request is paid for in parts before it leaves. The pace is
kept a tenth slower than ccxt's, since requests that leave evenly arrive a little closer together at
times.
"""

from math import ceil

from penstock.throttle.gate import Limit

UNITS = 100
"""What a request pays that costs 1 by ccxt's tables."""
_SLOWER = 1.1
# What ccxt itself assumes of an exchange that says nothing.
_UNKNOWN_MS = 2000.0


def units(cost: float) -> int:
    """A cost of ccxt's as a gate counts it; never nothing."""
    # Rounded before it is rounded up: 0.29 * 100 is a little less than 29, others a little more.
    return max(1, ceil(round(cost * UNITS, 6)))


def limits_of(rate_limit_ms: float | None) -> tuple[Limit, ...]:
    """The limit that ccxt's pace comes to; over a hundred steps, for a step may be a fraction."""
    period_ms = ceil(round((rate_limit_ms or _UNKNOWN_MS) * _SLOWER * 100, 6))
    return (Limit(100 * UNITS, period_ms, kind="paced", burst=UNITS),)
