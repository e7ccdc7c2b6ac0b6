"""Stores a connector's limits, names them in the fleet's budget, and reads their usage from it."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any, Literal, NamedTuple

import msgspec
from msgspec import Struct

from penstock.storage.state.budget import Budget, LeaseRequest, PacedDemand, WindowDemand
from penstock.throttle.gate import Limit

# The exchange's own count is stored beside the leases, as a window from which nothing is leased.
_SERVER = "server "
_NO_AMOUNT = 1 << 40


class LimitState(Struct, frozen=True, kw_only=True):
    """One limit and its usage."""

    kind: Literal["aligned", "paced"]
    unit: Literal["weight", "request"]
    category: str
    amount: int
    period_ms: int
    burst: int
    used: int
    """In the current window, or of the burst: what processes were granted, or the exchange's own
    count if that is higher."""
    window_start: int | None
    reset_at: int | None
    """When the window ends, or the full burst is available again; by the store's clock."""
    server_used: int | None
    """The exchange's own count in the current window; None if it reported none."""


class GateReport(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What one process knows of its requests to an exchange."""

    waiting: int = 0
    """Requests that wait for capacity."""
    seen_ms: Mapping[str, int] = {}
    """When the exchange last reported its own count, by the name of the limit."""


class ServerCount(NamedTuple):
    """The exchange's own count in a window."""

    window: int
    used: int


NO_SERVER_COUNT = ServerCount(-1, 0)


def name_of(limit: Limit | LimitState) -> str:
    """The name of a limit in a budget."""
    sign = "/" if limit.kind == "aligned" else "~"
    return f"{limit.unit}{sign}{limit.period_ms} {limit.category}".rstrip()


def asked_of(
    limit: Limit, need: int, want: int = 0, seen: ServerCount = NO_SERVER_COUNT
) -> WindowDemand:
    """The demand on an aligned limit, with the count known so far."""
    return WindowDemand(
        name_of(limit), limit.amount, limit.period_ms, need, want, seen.used, seen.window
    )


def server_demand(limit: Limit, seen: ServerCount) -> WindowDemand:
    """The exchange's own count of a limit, to be stored for display."""
    name = _SERVER + name_of(limit)
    return WindowDemand(name, _NO_AMOUNT, limit.period_ms, 0, 0, seen.used, seen.window)


def paced_by(limit: Limit, need: int) -> PacedDemand:
    """The demand on a paced limit."""
    return PacedDemand(name_of(limit), limit.amount, limit.period_ms, limit.most, need)


def ask_of(limits: Iterable[Limit], cost: int, category: str = "") -> LeaseRequest:
    """The demand of one request on all limits that count it."""
    charged = [each.of(category) for each in limits if each.charge(cost, category)]
    return LeaseRequest(
        tuple(asked_of(x, x.charge(cost, category)) for x in charged if x.kind == "aligned"),
        tuple(paced_by(x, x.charge(cost, category)) for x in charged if x.kind == "paced"),
    )


def stored(limits: Sequence[Limit]) -> list[dict[str, Any]]:
    """Limits as they are stored in a document."""
    return [asdict(limit) for limit in limits]


def restored(entries: Sequence[Any]) -> tuple[Limit, ...]:
    """Limits as read from a document."""
    return msgspec.convert(entries, tuple[Limit, ...])


def in_force(chosen: Sequence[Limit] | None, announced: Sequence[Limit]) -> tuple[Limit, ...]:
    """The limits an operator chose in place of the announced ones, which they never exceed."""
    if not chosen:
        return tuple(announced)
    theirs = {name_of(limit): limit for limit in announced}
    kept = [_tighter(limit, theirs.pop(name_of(limit), limit)) for limit in chosen]
    return (*kept, *theirs.values())


def _tighter(one: Limit, other: Limit) -> Limit:
    return min(one, other, key=lambda limit: (limit.amount, limit.burst))


def pace_wait_ms(limit: Limit, budget: Budget, cost: int, now_ms: int) -> int:
    """How long a request without a category would have to wait for a paced limit now."""
    need, use = limit.charge(cost, ""), budget.uses.get(name_of(limit))
    if limit.kind != "paced" or not need or need > limit.most or use is None:
        return 0
    missing_us = max(0, use[0] - now_ms * 1000) + (need - limit.most) * _unit_us(limit)
    return max(0, -(-missing_us // 1000))


def _unit_us(limit: Limit) -> int:
    return -(-limit.period_ms * 1000 // limit.amount)


def state_of(limit: Limit, budget: Budget, now_ms: int, offset_ms: int) -> LimitState:
    """The state of a limit at a time of the store's clock."""
    use = budget.uses.get(name_of(limit))
    if limit.kind == "paced":
        missing_us = max(0, use[0] - now_ms * 1000) if use else 0
        used = min(limit.most, -(-missing_us // _unit_us(limit)))
        window_start, reset_at, server_used = None, now_ms + -(-missing_us // 1000), None
    else:
        index = (now_ms + offset_ms) // limit.period_ms
        # Another process, whose estimate of the exchange's clock differs slightly, may be ahead.
        used = use[1] if use and use[0] >= index else 0
        window_start = index * limit.period_ms - offset_ms
        reset_at = window_start + limit.period_ms
        server = budget.uses.get(_SERVER + name_of(limit))
        server_used = (
            server[1] if server and server[0] >= index and server[1] < _NO_AMOUNT else None
        )
    return LimitState(
        kind=limit.kind,
        unit=limit.unit,
        category=limit.category,
        amount=limit.amount,
        period_ms=limit.period_ms,
        burst=limit.burst,
        used=used,
        window_start=window_start,
        reset_at=reset_at,
        server_used=server_used,
    )
