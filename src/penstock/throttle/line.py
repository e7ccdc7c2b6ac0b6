"""The line: who goes next, and when. It neither sleeps nor locks; its two faces do.

Callers of one category stand in one lane, ordered by arrival, each priority counting as so many
seconds of having come earlier: first come, first served within a priority, and nobody waits for
ever behind more urgent ones. Only the first of each lane is looked at, so a thousand waiters cost
no more than one. Lanes that share a limit do not overtake each other on it: the first of a lane
that waits for a limit claims it. A lane whose limits are free does not wait for one whose are not.

Looking and charging is one synchronous step, and all limits are charged or none.
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


class Turn(Protocol):
    """Where a waiter learns the instant of its grant: a future of asyncio, or of threads."""

    def done(self) -> bool: ...

    def set_result(self, result: int, /) -> None: ...

    def set_exception(self, exception: PenstockError, /) -> None: ...


T_co = TypeVar("T_co", bound=Turn, covariant=True)


class Waiter(Generic[T_co]):
    """Somebody in line."""

    __slots__ = ("cost", "deadline", "due", "lane", "standing", "turn")

    def __init__(self, lane: "Lane", cost: int, deadline: int, turn: T_co) -> None:
        self.lane = lane
        self.cost = cost
        self.deadline = deadline
        self.turn = turn
        self.due = -FAR
        """When it came, then when its turn should come: a late timer must not slow the pace."""
        self.standing = True


class Lane:
    """Those of one category, and the limits that count them."""

    __slots__ = (
        "aligned",
        "category",
        "cost",
        "heap",
        "line",
        "most",
        "only",
        "others",
        "pipelines",
        "standing",
    )

    def __init__(self, line: "Line", category: str | None) -> None:
        self.line, self.category = line, category
        self.heap: list[tuple[int, int, Waiter[Turn]]] = []
        self.standing = self.cost = 0
        """How many stand here, and what they cost together."""
        self.keep(())

    def keep(self, pipelines: Sequence[Pipeline]) -> None:
        """Count by these limits from now on."""
        self.pipelines = tuple(pipelines)
        alone = len(self.pipelines) == 1 and not self.pipelines[0].per_request
        self.only = self.pipelines[0] if alone else None
        # Those that may refuse although there is room, in the guard band between two windows.
        self.aligned = tuple(p for p in pipelines if isinstance(p.window, FixedWindow))
        self.others = tuple(p for p in pipelines if not isinstance(p.window, FixedWindow))
        self.most = min((p.limit for p in pipelines if not p.per_request), default=FAR)

    def check(self, cost: int) -> None:
        """Raise if a request of this cost could never go."""
        if type(cost) is not int or cost < 1:
            raise BadCost(cost)
        if cost > self.most:
            raise self.too_dear(cost)

    def too_dear(self, cost: int) -> CostExceedsLimit:
        """Which limit a request of this cost can never keep."""
        tightest = next(p for p in self.pipelines if not p.per_request and p.limit < cost)
        return CostExceedsLimit(cost, tightest.limit, round(tightest.window.period_s * 1000))

    def first(self) -> Waiter[Turn] | None:
        """Whose turn is next. Those who went away are forgotten."""
        while self.heap:
            waiter = self.heap[0][2]
            if waiter.standing and not waiter.turn.done():
                return waiter
            heappop(self.heap)
            self.line.leave(waiter)
        return None

    def look(self, cost: int, now: int) -> tuple[int, list[Pipeline]]:
        """When a request may go, by every limit, and the limits it has to wait for."""
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
        """Charge every limit for a request that may go, and whose turn came at ``due``."""
        for pipeline in self.pipelines:
            window = pipeline.window
            charge = 1 if pipeline.per_request else cost
            window.usage, wait = window.take(window.usage, charge, now)
            assert not wait, "who charges has looked"
        self.tell(cost, due)

    def tell(self, cost: int, due: int) -> None:
        """Let every limit know what it was charged: some have to pace, or to tell others."""
        for pipeline in self.pipelines:
            pipeline.charged(1 if pipeline.per_request else cost, due)


class Line:
    """All lanes of one throttler."""

    def __init__(
        self,
        clock: Clock,
        ageing_ns: int,
        changed: Callable[[], None],
        lock: AbstractContextManager[object],
    ) -> None:
        self.clock = clock
        self.lock = lock
        """Held by whoever touches the line from outside; a single thread needs none."""
        self.changed = changed
        """Called when room may have come, for whoever keeps the time to look again."""
        self.lanes: dict[str | None, Lane] = {}
        self.standing = 0
        self.blocked_until = -FAR
        self._now = clock.monotonic_ns
        self._ageing_ns = ageing_ns
        self._arrivals = 0
        self._claimed: set[Pipeline] = set()
        self._deadlines: list[tuple[int, int, Waiter[Turn]]] = []

    def try_take(self, lane: Lane, cost: int) -> int | None:  # noqa: PLR0912 - a call costs more
        """Charge at once if that is due; the instant, or None. Nobody in line is overtaken."""
        if type(cost) is not int or not 1 <= cost <= lane.most:
            lane.check(cost)
        if self.standing and (lane.standing or not self._claimed.isdisjoint(lane.pipelines)):
            return None
        now = self._now()
        if now < self.blocked_until:
            return None
        # Below ``care_from`` there is room and nothing to pace: the usual case, made short.
        pipeline = lane.only
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
            return self._take_with_care(lane, cost, now)
        for pipeline in lane.pipelines:
            charge = 1 if pipeline.per_request else cost
            if pipeline.window.usage[0] + charge >= pipeline.care_from:
                return self._take_with_care(lane, cost, now)
        taken = []
        for pipeline in lane.aligned:
            window = pipeline.window
            usage, wait = window.take(window.usage, 1 if pipeline.per_request else cost, now)
            if wait:
                return None
            taken.append(usage)
        crossed = False
        for pipeline, usage in zip(lane.aligned, taken, strict=True):
            pipeline.window.usage = usage
            charge = 1 if pipeline.per_request else cost
            if usage[0] >= pipeline.low_from and usage[0] - charge < pipeline.low_from:
                crossed = True
        for pipeline in lane.others:
            window, charge = pipeline.window, 1 if pipeline.per_request else cost
            usage, _ = window.take(window.usage, charge, now)
            window.usage = usage
            if usage[0] >= pipeline.low_from and usage[0] - charge < pipeline.low_from:
                crossed = True
        if crossed:
            lane.tell(cost, now)
        return now

    def _take_with_care(self, lane: Lane, cost: int, now: int) -> int | None:
        # No take that is then thrown away: the next one would have to copy the log.
        if lane.look(cost, now)[0] > now:
            return None
        lane.charge(cost, now, now)
        return now

    def join(self, waiter: Waiter[Turn], priority: int) -> bool:
        """Stand in line; whether the next in line, or the next to give up, is another one now."""
        self._arrivals += 1
        waiter.due = self._now()
        key = waiter.due - priority * self._ageing_ns
        lane = waiter.lane
        heappush(lane.heap, (key, self._arrivals, waiter))
        if waiter.deadline < FAR:
            heappush(self._deadlines, (waiter.deadline, self._arrivals, waiter))
        lane.standing += 1
        lane.cost += waiter.cost
        self.standing += 1
        return lane.first() is waiter or waiter.deadline < FAR

    def leave(self, waiter: Waiter[Turn]) -> None:
        """Stand in line no more. Nothing was spent."""
        if not waiter.standing:
            return
        waiter.standing = False
        lane = waiter.lane
        lane.standing -= 1
        lane.cost -= waiter.cost
        self.standing -= 1
        if len(lane.heap) > _COMPACT_FROM + 2 * lane.standing:
            lane.heap = [entry for entry in lane.heap if entry[2].standing]
            heapify(lane.heap)
        if len(self._deadlines) > _COMPACT_FROM + 2 * self.standing:
            self._deadlines = [entry for entry in self._deadlines if entry[2].standing]
            heapify(self._deadlines)

    def serve(self) -> int | None:
        """Let go all whose turn has come; the instant at which to look again, if anybody waits."""
        now, turn = self._now(), -FAR
        if self._deadlines:
            self._expire_late(now)
        if now >= self.blocked_until:
            for lane in self.lanes.values():
                if lane.only is not None and lane.standing == self.standing:
                    self._let_many_go(lane, lane.only, now)
        while self.standing:
            waiter, due, look_at = self._next(now, turn)
            if waiter is None:
                if self._expire(now):
                    continue  # Who stood behind one that gave up may go now.
                return min(look_at, self._deadlines[0][0] if self._deadlines else FAR)
            if due <= now:
                turn = due
                self._let_go(waiter, now, due)
        return None

    def _next(self, now: int, turn: int) -> tuple[Waiter[Turn] | None, int, int]:
        """Who may go now, since when, or when somebody may; the hopeless are sent away."""
        self._claimed.clear()
        look_at = FAR
        for lane, waiter in self._in_order():
            if self._claimed and not self._claimed.isdisjoint(lane.pipelines):
                continue  # It is behind somebody of another lane.
            if waiter.cost > lane.most:  # The limits were lowered since it came.
                self._send_away(waiter, lane.too_dear(waiter.cost))
                return waiter, FAR, FAR
            due, blocking = lane.look(waiter.cost, now)
            due = max(due, turn, self.blocked_until, waiter.due if waiter.due < now else now)
            if due > now:
                if due > waiter.deadline:
                    self._send_away(waiter, self._timed_out(due, now))
                    return waiter, FAR, FAR
                waiter.due = due
                self._claimed.update(blocking)
                look_at = min(look_at, due)
                continue
            return waiter, due, look_at
        return None, FAR, look_at

    def _in_order(self) -> list[tuple[Lane, Waiter[Turn]]]:
        """The first of each lane, by the order in which they stand."""
        firsts = []
        for lane in self.lanes.values():
            if lane.standing and (waiter := lane.first()) is not None:
                firsts.append((lane, waiter))
                if lane.standing == self.standing:
                    break
        if len(firsts) > 1:
            firsts.sort(key=lambda each: each[0].heap[0][:2])
        return firsts

    def _let_many_go(self, lane: Lane, pipeline: Pipeline, now: int) -> None:
        """What ``_next`` and ``_let_go`` do, for one lane with one limit and room, made short."""
        window = pipeline.window
        usage = window.usage = window.rule.as_of(window.usage, now)
        while (waiter := lane.first()) is not None:
            cost = waiter.cost
            if usage[0] + cost >= pipeline.care_from:
                return
            usage, wait = window.take(usage, cost, now)
            if wait:
                return
            window.usage = usage
            heappop(lane.heap)
            waiter.standing = False
            lane.standing -= 1
            lane.cost -= waiter.cost
            self.standing -= 1
            waiter.turn.set_result(now)
            if usage[0] >= pipeline.low_from and usage[0] - cost < pipeline.low_from:
                pipeline.charged(cost, now)
                # A listener may have done anything: said stop, or changed the limits.
                if now < self.blocked_until or lane.only is not pipeline:
                    return
                usage = window.usage

    def _let_go(self, waiter: Waiter[Turn], now: int, due: int) -> None:
        lane = waiter.lane
        heappop(lane.heap)
        waiter.standing = False
        lane.standing -= 1
        lane.cost -= waiter.cost
        self.standing -= 1
        waiter.turn.set_result(now)
        # Last, because a listener may do with this throttler whatever it likes.
        lane.charge(waiter.cost, now, due)

    def _expire_late(self, now: int) -> None:
        """Send away whose deadline has passed, but for the first of a lane whose turn has come."""
        late = []
        while self._deadlines and self._deadlines[0][0] < now:
            entry = heappop(self._deadlines)
            waiter = entry[2]
            if waiter.standing and not waiter.turn.done():
                due, _ = waiter.lane.look(waiter.cost, now)
                due = max(due, self.blocked_until)
                if due > now or waiter.lane.first() is not waiter:
                    self._send_away(waiter, self._timed_out(due, now))
                else:
                    late.append(entry)
        for entry in late:
            heappush(self._deadlines, entry)

    def _expire(self, now: int) -> bool:
        """Whoever could go has gone: send away whose deadline has come; whether anybody was.

        Also who finds room in its own limits, and stands behind another lane that waits.
        """
        sent_away = False
        while self._deadlines and self._deadlines[0][0] <= now:
            waiter = heappop(self._deadlines)[2]
            if waiter.standing and not waiter.turn.done():
                due, _ = waiter.lane.look(waiter.cost, now)
                self._send_away(waiter, self._timed_out(max(due, self.blocked_until), now))
                sent_away = True
        return sent_away

    def _send_away(self, waiter: Waiter[Turn], error: PenstockError) -> None:
        self.leave(waiter)
        waiter.turn.set_exception(error)

    def _timed_out(self, due: int, now: int) -> WaitTimedOut:
        wait_ms = ceil(max(0, due - now) / 1_000_000)
        retry_at_ms = self.clock.now_ms() + wait_ms
        return WaitTimedOut("There is no room in time", retry_at_ms=retry_at_ms)
