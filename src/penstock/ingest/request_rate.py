"""Computes how many requests of a kind an exchange's limits allow. Pure."""

from collections.abc import Iterable
from typing import Protocol

from penstock.jobs.kinds import RequestRate
from penstock.throttle.gate import Limit


class Charged(Protocol):
    """What limits count of a request."""

    @property
    def cost(self) -> int: ...

    @property
    def category(self) -> str: ...


def request_rate(limits: Iterable[Limit], request: Charged) -> RequestRate:
    """How many such requests the tightest limit allows per window."""
    counted = [
        RequestRate(limit.amount // charge, limit.period_ms)
        for limit in limits
        if 0 < (charge := limit.charge(request.cost, request.category)) <= limit.amount
    ]
    return min(counted, key=lambda each: each.requests / each.window_ms, default=RequestRate())
