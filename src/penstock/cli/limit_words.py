"""Text for a limit: its unit, usage and period."""

from collections.abc import Sequence

from penstock.collect.status import LimitStatus

_PRESSING = 0.5
"""The share of usage from which a limit may be shown in place of the usual one."""
_PERIODS = {
    1_000: "second",
    10_000: "10 seconds",
    60_000: "minute",
    300_000: "5 minutes",
    3_600_000: "hour",
    86_400_000: "day",
}


def main_limit(limits: Sequence[LimitStatus]) -> LimitStatus | None:
    """The limit to show where there is room for one.

    It is usually the same one, so that a view does not alternate between limits: limits on all
    requests precede those on a category, weight precedes requests, and then the first in the
    exchange's order is used. Another limit replaces it only if at least half used, and used more.
    A limit of one request at a time never does: it is fully used for a moment with every request.
    """
    if not limits:
        return None
    main = min(limits, key=_order)
    pressing = [each for each in limits if each.amount > 1 and _share(each) >= _PRESSING]
    return max([main, *pressing], key=_share) if main.amount > 1 else main


def limit_words(limit: LimitStatus) -> str:
    """``weight 312 of 6,000 per minute``, or ``requests 2 of a burst of 5, 1 per second``."""
    what = "weight" if limit.unit == "weight" else "requests"
    if limit.category:
        what = f"{what} ({limit.category})"
    if limit.kind == "window":
        return f"{what} {limit.used:,} of {limit.amount:,} per {period(limit.period_ms)}"
    rate = f"{limit.rate:,} per {period(limit.period_ms)}"
    if limit.amount == 1:
        return f"{what} {rate}, one at a time"
    return f"{what} {limit.used:,} of a burst of {limit.amount:,}, {rate}"


def period(length_ms: int) -> str:
    """A limit's period: ``minute``, ``5 minutes``, ``2.2 s``."""
    return _PERIODS.get(length_ms, f"{length_ms / 1000:g} s")


def _order(limit: LimitStatus) -> tuple[bool, bool]:
    return limit.category != "", limit.unit != "weight"


def _share(limit: LimitStatus) -> float:
    return limit.used / limit.amount
