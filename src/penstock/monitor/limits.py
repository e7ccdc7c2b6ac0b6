"""The rate limits of all exchanges: their usage, stops, refused requests and circuit breakers."""

from collections.abc import Iterable
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from penstock.connectors import Connector, ConnectorManager
from penstock.connectors.breaker import all_breakers
from penstock.connectors.limits import LimitState, name_of
from penstock.connectors.stops import Refusal, Stop, refusals_of
from penstock.resilience.breaker import Breaker, Transition
from penstock.runtime.status import SeenProcess, read_processes
from penstock.storage.state import StateStore

_MOST = 1000


class LimitView(Struct, frozen=True, kw_only=True):
    """One limit of an exchange, and its usage by all processes."""

    exchange: str
    window: str
    """What it counts in which period, such as ``weight/60000``; unique within the exchange."""
    unit: Literal["weight", "request"]
    category: str
    """The requests it counts; empty: all."""
    kind: Literal["aligned", "paced"]
    period_ms: int
    limit: int
    """The most that can be used in one window; of a paced limit, its burst."""
    used: int
    seen_used: int | None
    """The exchange's own count in the current window; null if it reported none."""
    seen_ms: int | None
    """When it reported that."""
    reset_ms: int | None
    """When the window ends, or the whole burst is available again."""


class BreakerState(Struct, frozen=True, kw_only=True):
    """The circuit breaker of an exchange."""

    state: Literal["closed", "open", "half_open"]
    forced: Literal["open", "closed"] | None
    """An operator's order, which replaces the state."""
    reason: str | None
    """Why it was opened last."""
    retry_at_ms: int | None
    """When the next probe may be sent, if it is open."""
    transitions: tuple[Transition, ...]
    """The latest changes, the newest last."""


class ExchangeLimits(Struct, frozen=True, kw_only=True):
    """What stops or slows down requests to an exchange."""

    exchange: str
    status: Literal["active", "paused", "deleted"]
    """``paused``: an operator stopped all requests."""
    waiting: int
    """Requests of all processes that wait for capacity."""
    blocked_until_ms: int | None
    """The end of a stop ordered by the exchange."""
    blocked_by: Stop | None
    """The response that ordered it."""
    breaker: BreakerState
    refusals: tuple[Refusal, ...]
    """The last 50 responses that ordered a stop, the newest last."""


class Limits(Struct, frozen=True, kw_only=True):
    """The limits of all exchanges that have a connector."""

    at_ms: int
    """The store's time, by which all other times are."""
    items: tuple[LimitView, ...]
    exchanges: tuple[ExchangeLimits, ...]


async def limits(store: StateStore, connectors: ConnectorManager) -> Limits:
    """The limits of all exchanges.

    Raises:
        StoreUnreachable: the store does not answer.
    """
    found = await connectors.find(limit=_MOST)
    processes, breakers = await read_processes(store), await all_breakers(store, _MOST)
    refusals = await refusals_of(store, _MOST)
    running = [each for each in processes if not each.gone and each.status.state == "running"]
    return Limits(
        at_ms=await store.now_ms(),
        items=tuple(
            _limit(each.exchange_id, limit, running) for each in found for limit in each.limits
        ),
        exchanges=tuple(
            _exchange(
                each,
                running,
                breakers.get(each.exchange_id, Breaker()),
                [_named(one, processes) for one in refusals.get(each.exchange_id, ())],
            )
            for each in found
        ),
    )


def _limit(exchange: str, limit: LimitState, running: Iterable[SeenProcess]) -> LimitView:
    name = name_of(limit)
    seen = [
        gate.seen_ms[name]
        for each in running
        if (gate := each.status.gates.get(exchange)) is not None and name in gate.seen_ms
    ]
    return LimitView(
        exchange=exchange,
        window=name,
        unit=limit.unit,
        category=limit.category,
        kind=limit.kind,
        period_ms=limit.period_ms,
        limit=limit.amount if limit.kind == "aligned" else max(1, limit.burst),
        used=limit.used,
        seen_used=limit.server_used,
        seen_ms=max(seen, default=None) if limit.server_used is not None else None,
        reset_ms=limit.reset_at,
    )


def _exchange(
    connector: Connector,
    running: Iterable[SeenProcess],
    breaker: Breaker,
    refusals: Iterable[Refusal],
) -> ExchangeLimits:
    return ExchangeLimits(
        exchange=connector.exchange_id,
        status=connector.status,
        waiting=_waiting(connector.exchange_id, running),
        blocked_until_ms=connector.blocked_until,
        blocked_by=connector.blocked_by,
        breaker=BreakerState(
            state=breaker.phase,
            forced=breaker.forced,
            reason=breaker.reason or None,
            retry_at_ms=breaker.retry_at_ms if breaker.phase == "open" else None,
            transitions=breaker.transitions,
        ),
        refusals=tuple(refusals),
    )


def _waiting(exchange: str, running: Iterable[SeenProcess]) -> int:
    gates = [each.status.gates.get(exchange) for each in running]
    return sum(gate.waiting for gate in gates if gate is not None)


def _named(refusal: Refusal, processes: Iterable[SeenProcess]) -> Refusal:
    """A refusal with the name of the process, if its status is still known."""
    for each in processes:
        if refusal.process == f"{each.status.host}/{each.status.pid}":
            return replace(refusal, process=each.status.name)
    return refusal
