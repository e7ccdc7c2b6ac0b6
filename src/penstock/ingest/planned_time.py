"""Computes how long requests take within an exchange's limits, at a latency. Pure.

Either the limits are the bottleneck, or the responses to the requests in flight.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import ceil, inf
from types import MappingProxyType
from typing import NamedTuple

from penstock.throttle.gate import Limit


class Load(NamedTuple):
    """The requests for one range."""

    requests: int
    cost: int
    category: str
    concurrency: int


@dataclass(frozen=True)
class Budget:
    """The limits of an exchange, and what of them can be used."""

    used: Mapping[Limit, int]
    """Each limit, and what is used of it now: of its window, or missing from its bucket."""
    now_ms: int = 0
    """The exchange's time, which tells how much of a window is over."""
    others: Mapping[Limit, int] = field(default_factory=lambda: MappingProxyType({}))
    """What other users take of a limit per period."""

    def free(self, limit: Limit) -> Limit:
        """What other users leave of a limit."""
        return replace(limit, amount=max(0, limit.amount - self.others.get(limit, 0)))


class _Charges(NamedTuple):
    """What requests add to one limit."""

    free: Limit
    """What other users leave of it."""
    total: int = 0
    largest: int = 0
    requests: int = 0


def duration_ms(
    loads: Sequence[Load], budget: Budget, latency_ms: float, workers: int = 1
) -> float:
    """How long the requests take, ``workers`` ranges at a time; infinite if limits allow none."""
    loads = [load for load in loads if load.requests]
    if not loads:
        return 0.0
    turns_ms = [ceil(load.requests / load.concurrency) * latency_ms for load in loads]
    in_flight_ms = max(*turns_ms, sum(turns_ms) / workers)
    per_ms = sum(load.requests for load in loads) / in_flight_ms if in_flight_ms else inf
    limited_ms = 0.0
    for limit, charges in _charges(loads, budget).items():
        used = budget.used.get(limit, 0)
        if limit.kind == "paced":
            at_ms = _paced_ms(used, charges) + latency_ms
        else:
            at_ms = _aligned_ms(used, charges, budget.now_ms, per_ms)
        limited_ms = max(limited_ms, at_ms)
    return max(in_flight_ms, limited_ms)


def _charges(loads: Sequence[Load], budget: Budget) -> Mapping[Limit, _Charges]:
    """What the requests add to each limit; to a separate one for each category that has one."""
    found: dict[Limit, _Charges] = {}
    for load in loads:
        counting = {
            limit.of(load.category): budget.free(limit)
            for limit in budget.used
            if limit.counts(load.category)
        }
        for limit, free in counting.items():
            charge, so_far = limit.charge(load.cost, load.category), found.get(limit)
            _, total, largest, requests = so_far or _Charges(free)
            found[limit] = _Charges(
                free,
                total + charge * load.requests,
                max(largest, charge),
                requests + load.requests,
            )
    return found


def _paced_ms(used: int, charges: _Charges) -> float:
    """When the last request is sent."""
    limit = charges.free
    beyond_burst = max(0, charges.total - max(0, limit.most - used))
    if not beyond_burst:
        return 0.0
    return beyond_burst * limit.period_ms / limit.amount if limit.amount else inf


def _aligned_ms(used: int, charges: _Charges, now_ms: int, per_ms: float) -> float:
    """When the last request is answered, if responses come at this rate; 0 if no window is full."""
    limit = charges.free
    if limit.amount < charges.largest:
        return inf
    mean = charges.total / charges.requests
    whole = limit.amount // charges.largest * charges.largest
    left_ms = limit.period_ms - now_ms % limit.period_ms
    now_free = max(0, limit.amount - used) // charges.largest * charges.largest
    rest = charges.total - min(now_free, per_ms * left_ms * mean)
    if rest <= 0:
        return 0.0
    full = ceil(rest / whole) - 1
    last_ms = (rest - full * whole) / mean / per_ms
    return left_ms + full * limit.period_ms + min(last_ms, limit.period_ms)
