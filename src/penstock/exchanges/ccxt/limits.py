"""Converts ccxt's rate limit of an exchange: milliseconds per request of cost 1.

Costs are fractions in ccxt and integers here: a cost of 1 is ``UNITS`` tokens, which is also the
burst. The tokens of a more expensive request are acquired in parts before it is sent. The pace is a
tenth slower than ccxt's, since requests that are sent evenly sometimes arrive closer together.
"""

from math import ceil

from penstock.throttle.gate import Limit

UNITS = 100
"""The tokens of a request with a cost of 1 in ccxt's tables."""
_SLOWER = 1.1
# ccxt's default for an exchange without a rate limit.
_UNKNOWN_MS = 2000.0


def units(cost: float) -> int:
    """The tokens for a cost in ccxt's tables; at least 1."""
    # Rounded before ``ceil``: 0.29 * 100 is slightly less than 29, other products slightly more.
    return max(1, ceil(round(cost * UNITS, 6)))


def limits_of(rate_limit_ms: float | None) -> tuple[Limit, ...]:
    """The limit for ccxt's pace; per 100 requests, since the time of one may be a fraction."""
    period_ms = ceil(round((rate_limit_ms or _UNKNOWN_MS) * _SLOWER * 100, 6))
    return (Limit(100 * UNITS, period_ms, kind="paced", burst=UNITS),)
