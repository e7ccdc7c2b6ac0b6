"""Selects which caller is granted next, and when. It neither sleeps nor locks; throttlers do.

Callers of one category wait in one queue, ordered by arrival. Each step of priority counts as a
number of seconds of earlier arrival: first come, first served within a priority, and no caller
waits for ever behind more urgent ones. Only the first of each queue is checked, so a thousand
waiters cost no more than one. Queues that share a limit do not overtake each other on it: the first
of a queue that waits for a limit claims it. A queue whose limits have capacity does not wait for
one whose limits have none.

Checking and charging is one synchronous step, and all limits are charged or none.
"""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from heapq import heapify, heappop, heappush
from math import ceil
from typing import Generic, Protocol, TypeVar

from penstock.clock import Clock
from penstock.errors import BadCost, CostExceedsLimit, PenstockError, WaitTimedOut
from penstock.throttle.pipeline import Pipeline
from penstock.throttle.rules import FAR
from penstock.throttle.windows import FixedWindow

_COMPACT_FROM = 64


class GrantFuture(Protocol):
    """Receives the time of a waiter's grant: a future of asyncio, or of threads."""

    def done(self) -> bool: ...

    def set_result(self, result: int, /) -> None: ...

    def set_exception(self, exception: PenstockError, /) -> None: ...


T_co = TypeVar("T_co", bound=GrantFuture, covariant=True)


class Waiter(Generic[T_co]):
    """A caller that waits."""

    __slots__ = ("cost", "deadline", "due", "future", "queue", "waiting")

    def __init__(self, queue: "CategoryQueue", cost: int, deadline: int, future: T_co) -> None:
        self.queue = queue
        self.cost = cost
        self.deadline = deadline
        self.future = future
        self.due = -FAR
        """Its arrival, later the time at which it is due: a late timer must not slow the pace."""
        self.waiting = True


class CategoryQueue:
    """The waiters of one category, and the limits that count them."""

    __slots__ = (
        "aligned",
        "category",
        "cost",
        "heap",
        "most",
        "only",
        "others",
        "pipelines",
        "scheduler",
        "waiting",
    )

    def __init__(self, scheduler: "Scheduler", category: str | None) -> None:
        self.scheduler, self.category = scheduler, category
        self.heap: list[tuple[int, int, Waiter[GrantFuture]]] = []
        self.waiting = self.cost = 0
        """The number of waiters, and their total cost."""
        self.keep(())

    def keep(self, pipelines: Sequence[Pipeline]) -> None:
        """Apply these limits from now on."""
        self.pipelines = tuple(pipelines)
        alone = len(self.pipelines) == 1 and not self.pipelines[0].per_request
        self.only = self.pipelines[0] if alone else None
        # These may refuse although there is capacity, in the guard band between two windows.
        self.aligned = tuple(p for p in pipelines if isinstance(p.window, FixedWindow))
        self.others = tuple(p for p in pipelines if not isinstance(p.window, FixedWindow))
        self.most = min((p.limit for p in pipelines if not p.per_request), default=FAR)

    def check(self, cost: int) -> None:
        """Raise if a request of this cost could never be granted."""
        if type(cost) is not int or cost < 1:
            raise BadCost(cost)
        if cost > self.most:
            raise self.too_dear(cost)

    def too_dear(self, cost: int) -> CostExceedsLimit:
        """The error with the limit that a request of this cost always exceeds."""
        tightest = next(p for p in self.pipelines if not p.per_request and p.limit < cost)
        return CostExceedsLimit(cost, tightest.limit, round(tightest.window.period_s * 1000))

    def first(self) -> Waiter[GrantFuture] | None:
        """The next waiter. Cancelled ones are removed."""
        while self.heap:
            waiter = self.heap[0][2]
            if waiter.waiting and not waiter.future.done():
                return waiter
            heappop(self.heap)
            self.scheduler.leave(waiter)
        return None

    def due_at(self, cost: int, now: int) -> tuple[int, list[Pipeline]]:
        """When a request may be sent under all limits, and the limits it has to wait for."""
        due, blocking = -FAR, list[Pipeline]()
        for pipeline in self.pipelines:
            window, charge = pipeline.window, 1 if pipeline.per_request else cost
            usage = window.usage = window.rule.as_of(window.usage, now)
            wait = window.rule.wait(usage, charge, now)
            ready = now + wait if wait else pipeline.due(charge, usage[0])
            if ready > now:
                blocking.append(pipeline)
            due = max(due, ready)
        return due, blocking

    def charge(self, cost: int, now: int, due: int) -> None:
        """Charge every limit for a request that may be sent, and was due at ``due``."""
        for pipeline in self.pipelines:
            window = pipeline.window
            charge = 1 if pipeline.per_request else cost
            window.usage, wait = window.take(window.usage, charge, now)
            assert not wait, "due_at() was not checked before"
        self.charged(cost, due)

    def charged(self, cost: int, due: int) -> None:
        """Report its charge to every limit, for pacing and threshold events."""
        for pipeline in self.pipelines:
            pipeline.charged(1 if pipeline.per_request else cost, due)


class Scheduler:
    """All queues of one throttler."""

    def __init__(
        self,
        clock: Clock,
        ageing_ns: int,
        changed: Callable[[], None],
        lock: AbstractContextManager[object],
    ) -> None:
        self.clock = clock
        self.lock = lock
        """Held by callers that use the scheduler from outside; a single thread needs none."""
        self.changed = changed
        """Called when capacity may have been freed, so that the throttler checks again."""
        self.queues: dict[str | None, CategoryQueue] = {}
        self.waiting = 0
        self.blocked_until = -FAR
        self._now = clock.monotonic_ns
        self._ageing_ns = ageing_ns
        self._arrivals = 0
        self._claimed: set[Pipeline] = set()
        self._deadlines: list[tuple[int, int, Waiter[GrantFuture]]] = []

    def try_take(self, queue: CategoryQueue, cost: int) -> int | None:  # noqa: PLR0912 - a call costs more
        """Charge at once if that is due; the time, or None. Overtakes no waiter."""
        if type(cost) is not int or not 1 <= cost <= queue.most:
            queue.check(cost)
        if self.waiting and (queue.waiting or not self._claimed.isdisjoint(queue.pipelines)):
            return None
        now = self._now()
        if now < self.blocked_until:
            return None
        # Fast path: below ``care_from`` there is capacity and nothing to pace.
        pipeline = queue.only
        if pipeline is not None:
            window = pipeline.window
            usage = window.usage
            if usage[0] + cost < pipeline.care_from:
                usage, wait = window.take(usage, cost, now)
                if wait:
                    return None
                window.usage = usage
                if usage[0] >= pipeline.low_from and usage[0] - cost < pipeline.low_from:
                    pipeline.charged(cost, now)
                return now
            return self._take_with_care(queue, cost, now)
        for pipeline in queue.pipelines:
            charge = 1 if pipeline.per_request else cost
            if pipeline.window.usage[0] + charge >= pipeline.care_from:
                return self._take_with_care(queue, cost, now)
        taken = []
        for pipeline in queue.aligned:
            window = pipeline.window
            usage, wait = window.take(window.usage, 1 if pipeline.per_request else cost, now)
            if wait:
                return None
            taken.append(usage)
        crossed = False
        for pipeline, usage in zip(queue.aligned, taken, strict=True):
            pipeline.window.usage = usage
            charge = 1 if pipeline.per_request else cost
            if usage[0] >= pipeline.low_from and usage[0] - charge < pipeline.low_from:
                crossed = True
        for pipeline in queue.others:
            window, charge = pipeline.window, 1 if pipeline.per_request else cost
            usage, _ = window.take(window.usage, charge, now)
            window.usage = usage
            if usage[0] >= pipeline.low_from and usage[0] - charge < pipeline.low_from:
                crossed = True
        if crossed:
            queue.charged(cost, now)
        return now

    def _take_with_care(self, queue: CategoryQueue, cost: int, now: int) -> int | None:
        # No take that is then discarded: the next one would have to copy the log.
        if queue.due_at(cost, now)[0] > now:
            return None
        queue.charge(cost, now, now)
        return now

    def join(self, waiter: Waiter[GrantFuture], priority: int) -> bool:
        """Add a waiter; whether the first of its queue, or the next deadline, may have changed."""
        self._arrivals += 1
        waiter.due = self._now()
        key = waiter.due - priority * self._ageing_ns
        queue = waiter.queue
        heappush(queue.heap, (key, self._arrivals, waiter))
        if waiter.deadline < FAR:
            heappush(self._deadlines, (waiter.deadline, self._arrivals, waiter))
        queue.waiting += 1
        queue.cost += waiter.cost
        self.waiting += 1
        return queue.first() is waiter or waiter.deadline < FAR

    def leave(self, waiter: Waiter[GrantFuture]) -> None:
        """Remove a waiter. Nothing was spent."""
        if not waiter.waiting:
            return
        waiter.waiting = False
        queue = waiter.queue
        queue.waiting -= 1
        queue.cost -= waiter.cost
        self.waiting -= 1
        if len(queue.heap) > _COMPACT_FROM + 2 * queue.waiting:
            queue.heap = [entry for entry in queue.heap if entry[2].waiting]
            heapify(queue.heap)
        if len(self._deadlines) > _COMPACT_FROM + 2 * self.waiting:
            self._deadlines = [entry for entry in self._deadlines if entry[2].waiting]
            heapify(self._deadlines)

    def serve(self) -> int | None:
        """Grant all waiters that are due; when to check again, or None if none is left."""
        now, not_before = self._now(), -FAR
        if self._deadlines:
            self._expire_late(now)
        if now >= self.blocked_until:
            for queue in self.queues.values():
                if queue.only is not None and queue.waiting == self.waiting:
                    self._let_many_go(queue, queue.only, now)
        while self.waiting:
            waiter, due, check_at = self._next(now, not_before)
            if waiter is None:
                if self._expire(now):
                    continue  # A waiter behind an expired one may be granted now.
                return min(check_at, self._deadlines[0][0] if self._deadlines else FAR)
            if due <= now:
                not_before = due
                self._let_go(waiter, now, due)
        return None

    def _next(self, now: int, not_before: int) -> tuple[Waiter[GrantFuture] | None, int, int]:
        """The waiter that is due and since when, else the time at which the next one is.

        A waiter that cannot be granted by its deadline is rejected.
        """
        self._claimed.clear()
        check_at = FAR
        for queue, waiter in self._in_order():
            if self._claimed and not self._claimed.isdisjoint(queue.pipelines):
                continue  # It is behind a waiter of another queue.
            if waiter.cost > queue.most:  # The limits were lowered since it was queued.
                self._send_away(waiter, queue.too_dear(waiter.cost))
                return waiter, FAR, FAR
            due, blocking = queue.due_at(waiter.cost, now)
            due = max(due, not_before, self.blocked_until, waiter.due if waiter.due < now else now)
            if due > now:
                if due > waiter.deadline:
                    self._send_away(waiter, self._timed_out(due, now))
                    return waiter, FAR, FAR
                waiter.due = due
                self._claimed.update(blocking)
                check_at = min(check_at, due)
                continue
            return waiter, due, check_at
        return None, FAR, check_at

    def _in_order(self) -> list[tuple[CategoryQueue, Waiter[GrantFuture]]]:
        """The first waiter of each queue, in order."""
        firsts = []
        for queue in self.queues.values():
            if queue.waiting and (waiter := queue.first()) is not None:
                firsts.append((queue, waiter))
                if queue.waiting == self.waiting:
                    break
        if len(firsts) > 1:
            firsts.sort(key=lambda each: each[0].heap[0][:2])
        return firsts

    def _let_many_go(self, queue: CategoryQueue, pipeline: Pipeline, now: int) -> None:
        """A fast path of ``_next`` and ``_let_go``, for one queue with one limit and capacity."""
        window = pipeline.window
        usage = window.usage = window.rule.as_of(window.usage, now)
        while (waiter := queue.first()) is not None:
            cost = waiter.cost
            if usage[0] + cost >= pipeline.care_from:
                return
            usage, wait = window.take(usage, cost, now)
            if wait:
                return
            window.usage = usage
            heappop(queue.heap)
            waiter.waiting = False
            queue.waiting -= 1
            queue.cost -= waiter.cost
            self.waiting -= 1
            waiter.future.set_result(now)
            if usage[0] >= pipeline.low_from and usage[0] - cost < pipeline.low_from:
                pipeline.charged(cost, now)
                # A listener may have set a stop, or changed the limits.
                if now < self.blocked_until or queue.only is not pipeline:
                    return
                usage = window.usage

    def _let_go(self, waiter: Waiter[GrantFuture], now: int, due: int) -> None:
        queue = waiter.queue
        heappop(queue.heap)
        waiter.waiting = False
        queue.waiting -= 1
        queue.cost -= waiter.cost
        self.waiting -= 1
        waiter.future.set_result(now)
        # Last, because a listener may call any method of this throttler.
        queue.charge(waiter.cost, now, due)

    def _expire_late(self, now: int) -> None:
        """Reject waiters whose deadline has passed, except the first of a queue if it is due."""
        late = []
        while self._deadlines and self._deadlines[0][0] < now:
            entry = heappop(self._deadlines)
            waiter = entry[2]
            if waiter.waiting and not waiter.future.done():
                due, _ = waiter.queue.due_at(waiter.cost, now)
                due = max(due, self.blocked_until)
                if due > now or waiter.queue.first() is not waiter:
                    self._send_away(waiter, self._timed_out(due, now))
                else:
                    late.append(entry)
        for entry in late:
            heappush(self._deadlines, entry)

    def _expire(self, now: int) -> bool:
        """Reject waiters whose deadline has come, after all grants; whether there were any.

        Also those that have capacity in their own limits, but are behind another waiting queue.
        """
        sent_away = False
        while self._deadlines and self._deadlines[0][0] <= now:
            waiter = heappop(self._deadlines)[2]
            if waiter.waiting and not waiter.future.done():
                due, _ = waiter.queue.due_at(waiter.cost, now)
                self._send_away(waiter, self._timed_out(max(due, self.blocked_until), now))
                sent_away = True
        return sent_away

    def _send_away(self, waiter: Waiter[GrantFuture], error: PenstockError) -> None:
        self.leave(waiter)
        waiter.future.set_exception(error)

    def _timed_out(self, due: int, now: int) -> WaitTimedOut:
        wait_ms = ceil(max(0, due - now) / 1_000_000)
        retry_at_ms = self.clock.now_ms() + wait_ms
        return WaitTimedOut(
            "The limit has no capacity before the deadline", retry_at_ms=retry_at_ms
        )
