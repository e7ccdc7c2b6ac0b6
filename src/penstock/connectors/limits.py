"""A connector's limits: how they are stored, named in the fleet's budget, and read from it."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import Any, Literal, NamedTuple

import msgspec
from msgspec import Struct

from penstock.storage.state.budget import Budget, LeaseRequest, PacedDemand, WindowDemand
from penstock.throttle.gate import Limit

# What the exchange itself counts is kept beside what was leased, as a window nobody takes from.
_SERVER = "server "
_NO_AMOUNT = 1 << 40


class LimitState(Struct, frozen=True, kw_only=True):
    """One limit, and how it stands."""

    kind: Literal["aligned", "paced"]
    unit: Literal["weight", "request"]
    category: str
    amount: int
    period_ms: int
    burst: int
    used: int
    """In the present window, or of the burst: what processes were granted, and what the exchange
    counted if that is more."""
    window_start: int | None
    reset_at: int | None
    """When the window ends, or the burst will be whole again; by the store's clock."""
    server_used: int | None
    """What the exchange itself told of the present window; None if it told nothing."""


class ServerCount(NamedTuple):
    """What an exchange counted in a window."""

    window: int
    used: int


NO_SERVER_COUNT = ServerCount(-1, 0)


def name_of(limit: Limit) -> str:
    """The name under which a limit is kept in a budget."""
    sign = "/" if limit.kind == "aligned" else "~"
    return f"{limit.unit}{sign}{limit.period_ms} {limit.category}".rstrip()


def asked_of(
    limit: Limit, need: int, want: int = 0, seen: ServerCount = NO_SERVER_COUNT
) -> WindowDemand:
    """What to take of an aligned limit, and what is known of it."""
    return WindowDemand(
        name_of(limit), limit.amount, limit.period_ms, need, want, seen.used, seen.window
    )


def told_of(limit: Limit, seen: ServerCount) -> WindowDemand:
    """What the exchange counts of a limit, for those who want to see it."""
    name = _SERVER + name_of(limit)
    return WindowDemand(name, _NO_AMOUNT, limit.period_ms, 0, 0, seen.used, seen.window)


def paced_by(limit: Limit, need: int) -> PacedDemand:
    """What to take of a paced limit."""
    return PacedDemand(name_of(limit), limit.amount, limit.period_ms, limit.most, need)


def ask_of(limits: Iterable[Limit], cost: int, category: str = "") -> LeaseRequest:
    """What one request takes of all limits that count it."""
    charged = [each.of(category) for each in limits if each.charge(cost, category)]
    return LeaseRequest(
        tuple(asked_of(x, x.charge(cost, category)) for x in charged if x.kind == "aligned"),
        tuple(paced_by(x, x.charge(cost, category)) for x in charged if x.kind == "paced"),
    )


def stored(limits: Sequence[Limit]) -> list[dict[str, Any]]:
    """Limits as a document holds them."""
    return [asdict(limit) for limit in limits]


def restored(entries: Sequence[Any]) -> tuple[Limit, ...]:
    """Limits as a document held them."""
    return msgspec.convert(entries, tuple[Limit, ...])


def in_force(chosen: Sequence[Limit] | None, announced: Sequence[Limit]) -> tuple[Limit, ...]:
    """An operator's limits hold in place of the exchange's, but nobody is allowed more than it."""
    if not chosen:
        return tuple(announced)
    theirs = {name_of(limit): limit for limit in announced}
    kept = [_tighter(limit, theirs.pop(name_of(limit), limit)) for limit in chosen]
    return (*kept, *theirs.values())


def _tighter(one: Limit, other: Limit) -> Limit:
    return min(one, other, key=lambda limit: (limit.amount, limit.burst))


def pace_wait_ms(limit: Limit, budget: Budget, cost: int, now_ms: int) -> int:
    """How long a request of no category would have to wait for a paced limit, as it stands."""
    need, use = limit.charge(cost, ""), budget.uses.get(name_of(limit))
    if limit.kind != "paced" or not need or need > limit.most or use is None:
        return 0
    missing_us = max(0, use[0] - now_ms * 1000) + (need - limit.most) * _unit_us(limit)
    return max(0, -(-missing_us // 1000))


def _unit_us(limit: Limit) -> int:
    return -(-limit.period_ms * 1000 // limit.amount)


def state_of(limit: Limit, budget: Budget, now_ms: int, offset_ms: int) -> LimitState:
    """How a limit stands at an instant of the store's clock."""
    use = budget.uses.get(name_of(limit))
    if limit.kind == "paced":
        missing_us = max(0, use[0] - now_ms * 1000) if use else 0
        used = min(limit.most, -(-missing_us // _unit_us(limit)))
        window_start, reset_at, told = None, now_ms + -(-missing_us // 1000), None
    else:
        index = (now_ms + offset_ms) // limit.period_ms
        # Another process, whose measure of the exchange's clock differs a little, may be ahead.
        used = use[1] if use and use[0] >= index else 0
        window_start = index * limit.period_ms - offset_ms
        reset_at = window_start + limit.period_ms
        server = budget.uses.get(_SERVER + name_of(limit))
        told = server[1] if server and server[0] >= index and server[1] < _NO_AMOUNT else None
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
        server_used=told,
    )
