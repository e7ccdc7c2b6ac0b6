"""Computes how many requests of a kind an exchange's limits allow. Pure."""

from collections.abc import Iterable

from penstock.exchanges.base import Request
from penstock.jobs.kinds import RequestRate
from penstock.throttle.gate import Limit


def request_rate(limits: Iterable[Limit], request: Request[object]) -> RequestRate:
    """How many such requests the tightest limit allows per window."""
    counted = [
        RequestRate(limit.amount // charge, limit.period_ms)
        for limit in limits
        if 0 < (charge := limit.charge(request.cost, request.category)) <= limit.amount
    ]
    return min(counted, key=lambda each: each.requests / each.window_ms, default=RequestRate())
