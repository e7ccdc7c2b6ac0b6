"""Requests wait for capacity in queues, in order of arrival.

A queue is for requests of one category, which the same limits count. Within a queue no request
overtakes; a request of another queue may, if it shares no limit with a queue that waits.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from math import ceil

from penstock.connectors.limits import name_of
from penstock.errors import BadCost, CostExceedsLimit, RateLimited
from penstock.throttle.gate import GateGrant, Limit


@dataclass(frozen=True, slots=True)
class Charge:
    """The tokens that a request took from one aligned window."""

    name: str
    window: int
    period_ms: int
    tokens: int


@dataclass(frozen=True, slots=True)
class TimedGrant:
    """Permission to send one request at a given time, leased from paced limits."""

    at_ms: float
    cost: int
    charges: tuple[Charge, ...]


@dataclass(frozen=True, slots=True)
class QueuedRequest:
    """A request that waits for capacity."""

    number: int
    cost: int
    deadline_ms: float
    future: "asyncio.Future[GateGrant]"


@dataclass(slots=True)
class RequestQueue:
    """The waiting requests of one category, and the limits that count them."""

    category: str
    limits: tuple[Limit, ...] = ()
    names: frozenset[str] = frozenset()
    waiters: deque[QueuedRequest] = field(default_factory=deque)
    grants: deque[TimedGrant] = field(default_factory=deque)
    retry_at_ms: float = 0.0
    """When to request a lease again after a refusal."""

    def set_limits(self, limits: Iterable[Limit]) -> None:
        """Apply those of these limits that count this category."""
        self.limits = tuple(each.of(self.category) for each in limits if each.counts(self.category))
        self.names = frozenset(map(name_of, self.limits))
        self.retry_at_ms = 0.0

    @property
    def is_paced(self) -> bool:
        """Whether its requests are sent at times that the store assigns."""
        return any(limit.kind == "paced" for limit in self.limits)

    def charge(self, limit: Limit, cost: int) -> int:
        """What a request adds to one of the limits."""
        return limit.charge(cost, self.category)

    def demand(self, limit: Limit) -> int:
        """What all waiting requests add to one of the limits, counted up to its amount."""
        total = 0
        for waiter in self.waiting():
            total += self.charge(limit, waiter.cost)
            if total > limit.amount:
                break
        return total

    def fitting(self, limit: Limit, tokens: int) -> int:
        """What the first requests in order that ``tokens`` cover add to one of the limits."""
        spent = 0
        for waiter in self.waiting():
            charge = self.charge(limit, waiter.cost)
            if spent + charge > tokens:
                break
            spent += charge
        return spent

    def check(self, cost: int) -> None:
        """Raise if a request of this cost could never be granted."""
        if type(cost) is not int or cost < 1:
            raise BadCost(cost)
        for limit in self.limits:
            if self.charge(limit, cost) > limit.most:
                raise CostExceedsLimit(cost, limit.most, limit.period_ms)

    def first(self) -> QueuedRequest | None:
        """The next request. Those that no longer wait are removed."""
        while self.waiters and (future := self.waiters[0].future).done():
            self.waiters.popleft()
            if future.cancelled() or future.exception() is not None:
                self.retry_at_ms = 0.0  # It was for the cost of this request; others may cost less.
        return self.waiters[0] if self.waiters else None

    def waiting(self) -> Iterator[QueuedRequest]:
        """All requests that still wait."""
        return (waiter for waiter in self.waiters if not waiter.future.done())

    def at(self, position: int) -> QueuedRequest | None:
        """The waiting request at a position; the first is at 0."""
        return next(islice(self.waiting(), position, None), None)

    def reject_unreachable(self, due_ms: float, but_first: int = 0) -> None:
        """Reject requests with a deadline before ``due_ms``, except the first ``but_first``."""
        # No other can be sent before ``due_ms``. All have the same timeout, so later requests have
        # later deadlines.
        first = self.first()
        if first is None or first.deadline_ms >= due_ms:
            return
        for waiter in islice(self.waiting(), but_first, None):
            if waiter.deadline_ms >= due_ms:
                return
            waiter.future.set_exception(no_room_until(due_ms))

    def reject_expired(self, now_ms: float) -> None:
        """Reject requests whose deadline has passed."""
        retry_at_ms = max(now_ms + 1, self.retry_at_ms)
        while (waiter := self.first()) is not None and waiter.deadline_ms <= now_ms:
            waiter.future.set_exception(no_room_until(retry_at_ms))

    def reject(self, error_of: Callable[[QueuedRequest], Exception | None]) -> None:
        """Reject all requests for which ``error_of`` returns an error."""
        for waiter in self.waiting():
            if (error := error_of(waiter)) is not None:
                waiter.future.set_exception(error)


def no_room_until(due_ms: float) -> RateLimited:
    """The error for a request that would time out before ``due_ms``. Nothing was spent."""
    return RateLimited("The limit has no capacity before the deadline", retry_at_ms=ceil(due_ms))
