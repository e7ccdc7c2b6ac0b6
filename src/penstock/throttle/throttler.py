"""A throttler enforces several limits at once, with a queue of callers for each category.

``acquire`` charges every limit that counts the call, or none. A caller that cannot be granted at
once waits (``scheduler.py``); one timer serves the next waiter. There is no await between checking
and charging, hence no lock. A cancelled caller has spent nothing, even if it was granted at the
same moment.
"""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from types import TracebackType

from penstock.clock import Clock, SystemClock
from penstock.errors import BadLimit, NeverSent, UnknownCategory
from penstock.throttle.events import Listener, Listeners
from penstock.throttle.pipeline import Pipeline
from penstock.throttle.rules import FAR
from penstock.throttle.scheduler import CategoryQueue, Scheduler, Waiter
from penstock.throttle.windows import MS_NS, SECOND_NS, whole_ns

Pipelines = Mapping[str | None, Sequence[Pipeline]] | Sequence[Pipeline]
"""Limits by category. Those under None, or in a plain sequence, count every call."""


class Grant:
    """Permission to send one request now. It is charged; if never sent, it can be refunded.

    As a context manager it is settled at the end of the block: refunded if the block ends with
    ``NeverSent``, else marked as answered.
    """

    __slots__ = ("_at", "_cost", "_queue")

    _queue: CategoryQueue
    _cost: int
    """Zero once it is settled."""
    _at: int

    def good(self) -> bool:
        """Whether it may still be sent: its window may have closed meanwhile."""
        scheduler = self._queue.scheduler
        now = scheduler.clock.monotonic_ns()
        return now >= scheduler.blocked_until and all(
            p.window.rule.holds(p.window.usage, self._at, now) for p in self._queue.pipelines
        )

    def count_from_now(self) -> bool:
        """Count it from now on, not from its grant; False if it is no longer ``good``.

        Called after a slow connect, and again on the response, it keeps later requests from
        arriving too close behind: whenever in between it arrived, a whole period passes after that.
        """
        if not self._cost or not self.good():
            return False
        with self._queue.scheduler.lock:
            now = self._queue.scheduler.clock.monotonic_ns()
            for pipeline in self._queue.pipelines:
                window, charge = pipeline.window, pipeline.charge(self._cost)
                window.usage = window.rule.moved(window.usage, self._at, charge, now)
            self._at = now
        return True

    def answered(self) -> None:
        """Mark it as answered: from now on the exchange's own count includes this request."""
        self._settle(_answer)

    def refund(self) -> None:
        """Refund a request that was never sent. The exchange counts any request it receives.

        Capacity that has been freed since is not freed twice, and a grant is refunded only once.
        """
        self._settle(_give_back)

    def _settle(self, settle: Callable[[Pipeline, int, int], None]) -> None:
        cost, self._cost = self._cost, 0
        if not cost:
            return
        with self._queue.scheduler.lock:
            for pipeline in self._queue.pipelines:
                settle(pipeline, pipeline.charge(cost), self._at)
        self._queue.scheduler.changed()

    async def __aenter__(self) -> "Grant":
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        self.__exit__(kind, error, _)

    def __enter__(self) -> "Grant":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, _: BaseException | None, __: TracebackType | None
    ) -> None:
        if kind is not None and issubclass(kind, NeverSent):
            self.refund()
        else:
            self.answered()


def _give_back(pipeline: Pipeline, charge: int, at: int) -> None:
    pipeline.window.give_back(at, charge, pipeline.window.clock.monotonic_ns())


def _answer(pipeline: Pipeline, charge: int, at: int) -> None:
    window = pipeline.window
    window.usage = window.rule.answered(window.usage, at, charge)


_bare: Callable[[type[Grant]], Grant] = object.__new__


def granted(queue: CategoryQueue, cost: int, at: int) -> Grant:
    """A grant. Not by ``Grant(…)``: a Python constructor costs as much as all the rest."""
    grant = _bare(Grant)
    grant._queue = queue
    grant._cost = cost
    grant._at = at
    return grant


@dataclass(frozen=True, slots=True)
class LimitStats:
    """The current state of one limit."""

    category: str | None
    timeframe: str
    limit: int
    remaining: int


@dataclass(frozen=True, slots=True)
class Stats:
    """The current state of a throttler."""

    limits: tuple[LimitStats, ...]
    waiting: Mapping[str | None, int]
    """The number of waiters, by category."""
    blocked_for_s: float
    """The remaining seconds of a stop ordered by the exchange, in which nothing is granted."""


class ThrottlerCore(ABC):
    """The limits, queues and listeners of both throttlers. Not to be used by itself."""

    def __init__(
        self,
        pipelines: Pipelines,
        *,
        ageing_s: float = 10.0,
        lock: AbstractContextManager[object] | None = None,
    ) -> None:
        """``ageing_s`` is how many seconds of waiting outweigh one step of priority."""
        by_category = _by_category(pipelines)
        clock = _one_clock(by_category)
        self._scheduler = Scheduler(
            clock, whole_ns(ageing_s), self._check_again, lock or nullcontext()
        )
        self._listeners = Listeners()
        self._pipelines: Mapping[str | None, Sequence[Pipeline]] = {}
        self._keep(by_category)

    def add_listener(self, listener: Listener) -> None:
        """Send this listener an event when a limit's threshold is crossed."""
        self._listeners.add(listener)

    def remove_listener(self, listener: Listener) -> None:
        """Stop sending it events."""
        self._listeners.remove(listener)

    def observe(
        self, category: str | None, used: int, window: str, at_ms: int | None = None
    ) -> None:
        """Apply the exchange's own count for this timeframe; the higher of both counts is used.

        ``at_ms`` is when the request was sent whose response has the count. Counts of windows
        without a limit here are ignored. Limits on the number of requests are not affected.
        """
        self._queue(category)
        with self._scheduler.lock:
            at = None if at_ms is None else self._instant(at_ms)
            for pipeline in self._pipelines.get(category, ()):
                if pipeline.timeframe == window and not pipeline.per_request:
                    pipeline.observe(used, at)
        self._check_again()

    def block_until(self, at_ms: int) -> None:
        """Grant nothing before this time (ms since the epoch): the exchange ordered a stop."""
        with self._scheduler.lock:
            self._scheduler.blocked_until = max(self._scheduler.blocked_until, self._instant(at_ms))
        self._check_again()

    def stats(self) -> Stats:
        """The remaining capacity of each limit, and the number of waiters."""
        with self._scheduler.lock:
            now = self._scheduler.clock.monotonic_ns()
            return Stats(
                tuple(
                    LimitStats(category, p.timeframe, p.limit, p.window.remaining_at(now))
                    for category, pipelines in self._pipelines.items()
                    for p in pipelines
                ),
                {category: queue.waiting for category, queue in self._scheduler.queues.items()},
                max(0, self._scheduler.blocked_until - now) / SECOND_NS,
            )

    def queue(self) -> list[tuple[str | None, int, int]]:
        """By category, the number of waiters and their total cost."""
        with self._scheduler.lock:
            queues = self._scheduler.queues.items()
            return [(name, queue.waiting, queue.cost) for name, queue in queues if queue.waiting]

    def adopt(self, pipelines: Pipelines) -> None:
        """Apply these limits from now on, also to callers that wait already.

        A removed category stays until its queue is empty, with the limits that count every call.
        """
        with self._scheduler.lock:
            self._keep(_by_category(pipelines))
        self._check_again()

    def _keep(self, by_category: Mapping[str | None, Sequence[Pipeline]]) -> None:
        for pipeline in _all_of(self._pipelines):
            pipeline.remove_listener(self._listeners.emit)
        for pipeline in _all_of(by_category):
            pipeline.add_listener(self._listeners.emit)
        scheduler, everywhere = self._scheduler, by_category.get(None, ())
        in_use = [category for category, queue in scheduler.queues.items() if queue.first()]
        queues = {}
        for category in dict.fromkeys([*by_category, *in_use]):
            own = by_category.get(category, ()) if category is not None else ()
            queue = scheduler.queues.get(category) or CategoryQueue(scheduler, category)
            queue.keep([*everywhere, *own])
            queues[category] = queue
        scheduler.queues = queues
        self._pipelines = by_category

    def _queue(self, category: str | None) -> CategoryQueue:
        queue = self._scheduler.queues.get(category)
        if queue is None:
            raise UnknownCategory(category, self._scheduler.queues)
        return queue

    def _instant(self, at_ms: int) -> int:
        clock = self._scheduler.clock
        return at_ms * MS_NS - clock.now_ns() + clock.monotonic_ns()

    @abstractmethod
    def _check_again(self) -> None:
        """Grant all waiters that are due, and schedule the next check."""


class BaseThrottler(ThrottlerCore):
    """Throttles the calls of an event loop. Subclasses wrap an exchange's client."""

    _timer: asyncio.Task[None] | None = None
    _timer_at = FAR

    async def acquire(
        self,
        cost: int = 1,
        category: str | None = None,
        priority: int = 0,
        timeout: float | None = None,  # noqa: ASYNC109 - on this clock, not the loop's
    ) -> Grant:
        """Acquire a grant, waiting for capacity if needed; higher priorities are granted earlier.

        Raises:
            WaitTimedOut: there is no capacity within ``timeout`` seconds. Nothing was spent.
            CostExceedsLimit: no wait would ever be long enough.
            UnknownCategory: there are no limits under that name.
        """
        scheduler = self._scheduler
        queue = scheduler.queues.get(category)
        if queue is None:
            raise UnknownCategory(category, scheduler.queues)
        at = scheduler.try_take(queue, cost)
        if at is None:
            waiter = self._enqueue(queue, cost, priority, timeout)
            try:
                at = await waiter.future
            except asyncio.CancelledError:
                self._abandon(waiter)
                raise
        grant = _bare(Grant)  # ``granted``, inlined: it is the main cost of an acquire
        grant._queue = queue
        grant._cost = cost
        grant._at = at
        return grant

    async def _check_and_wait(
        self, cost: int = 1, category: str | None = None, priority: int = 0
    ) -> Grant:
        """Acquire a grant before a request is sent: for the methods of subclasses."""
        return await self.acquire(cost, category, priority)

    def try_acquire(self, cost: int = 1, category: str | None = None) -> Grant | None:
        """The grant that ``acquire`` would return without waiting, or None."""
        queue = self._queue(category)
        at = self._scheduler.try_take(queue, cost)
        return None if at is None else granted(queue, cost, at)

    def _enqueue(
        self, queue: CategoryQueue, cost: int, priority: int, timeout_s: float | None
    ) -> Waiter[asyncio.Future[int]]:
        future: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        deadline = FAR if timeout_s is None else deadline_of(self._scheduler.clock, timeout_s)
        waiter = Waiter(queue, cost, deadline, future)
        if self._scheduler.join(waiter, priority):
            self._check_again()
        return waiter

    def _abandon(self, waiter: Waiter[asyncio.Future[int]]) -> None:
        future = waiter.future
        if future.done() and not future.cancelled() and future.exception() is None:
            granted(waiter.queue, waiter.cost, future.result()).refund()
        else:
            self._scheduler.leave(waiter)
            self._check_again()

    def _check_again(self) -> None:
        at = self._scheduler.serve()
        timer = self._timer
        if at is None:
            self._timer_at = FAR
            if timer is not None:
                timer.cancel()
                self._timer = None
        elif timer is None or timer.done() or at < self._timer_at:
            if timer is not None:
                timer.cancel()
            self._timer_at = at
            self._timer = asyncio.get_running_loop().create_task(self._keep_time(at))

    async def _keep_time(self, at: int | None) -> None:
        clock = self._scheduler.clock
        while at is not None:
            self._timer_at = at
            await clock.sleep((at - clock.monotonic_ns()) / SECOND_NS)
            at = self._scheduler.serve()
        self._timer, self._timer_at = None, FAR


def deadline_of(clock: Clock, timeout_s: float) -> int:
    """The time until which a caller waits."""
    return clock.monotonic_ns() + round(timeout_s * SECOND_NS)


def _by_category(pipelines: Pipelines) -> Mapping[str | None, Sequence[Pipeline]]:
    by_category: Mapping[str | None, Sequence[Pipeline]] = (
        dict(pipelines) if isinstance(pipelines, Mapping) else {None: pipelines}
    )
    if not any(by_category.values()):
        raise BadLimit("A throttler without a limit would throttle nothing: give it a pipeline.")
    return by_category


def _one_clock(by_category: Mapping[str | None, Sequence[Pipeline]]) -> Clock:
    first, *others = (pipeline.window.clock for pipeline in _all_of(by_category))
    for clock in others:
        # Two system clocks are equal: both read the machine's monotonic time.
        same = isinstance(clock, SystemClock) and isinstance(first, SystemClock)
        if clock is not first and not same:
            raise BadLimit("The windows of one throttler go by different clocks: give them one.")
    return first


def _all_of(by_category: Mapping[str | None, Sequence[Pipeline]]) -> list[Pipeline]:
    found = dict.fromkeys(p for pipelines in by_category.values() for p in pipelines)
    return list(found)
