"""Random schedules: whatever callers do, no limit is exceeded and nothing granted is lost.

Callers ask with costs and priorities, in categories that share a limit; they are cancelled, also in
the moment of their grant; they give back; the wall clock is set by hours; limits are of every kind,
paced or not. ``--hypothesis-profile=thorough`` tries thousands.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.clock import ManualClock
from penstock.errors import WaitTimedOut
from penstock.throttle import (
    BaseThrottler,
    FixedWindow,
    Grant,
    Pipeline,
    SlidingWindow,
    TokenBucket,
)

START_MS = 1_700_000_000_000
CATEGORIES = (None, "a", "b")
LONG_S = 2000
"""Longer than anybody here can have to wait."""


@dataclass(frozen=True)
class LimitOf:
    """A limit to draw."""

    kind: str
    limit: int
    period_ms: int
    paced: bool
    unit: str

    def pipeline(self, clock: ManualClock) -> Pipeline:
        period_s = self.period_ms / 1000
        window: FixedWindow | SlidingWindow | TokenBucket
        if self.kind == "fixed":
            window = FixedWindow(self.limit, period_s, clock)
        elif self.kind == "sliding":
            window = SlidingWindow(self.limit, period_s, clock)
        else:
            window = TokenBucket(self.limit, self.limit / period_s, clock)
        soft_s = 0.5 if self.paced else 0
        unit = "request" if self.unit == "request" else "weight"
        return Pipeline(str(self), window, max_soft_delay=soft_s, unit=unit)  # type: ignore[arg-type]


@dataclass
class Asked:
    """One call, and what became of it."""

    number: int
    cost: int
    category: str | None
    priority: int
    deadline_ns: int | None = None
    task: "asyncio.Task[None] | None" = None
    grant: Grant | None = None
    granted_ns: int = -1
    given_back: bool = False
    cancelled: bool = False
    timed_out: bool = False


@dataclass
class World:
    """A throttler, its callers, and a second book-keeping that knows only what was granted."""

    clock: ManualClock
    limits: dict[str | None, list[tuple[LimitOf, Pipeline]]]
    throttler: BaseThrottler
    asked: list[Asked] = field(default_factory=list)

    def ask(self, cost: int, category: str | None, priority: int, timeout_s: float | None) -> None:
        call = Asked(len(self.asked), cost, category, priority)
        if timeout_s is not None:
            call.deadline_ns = self.clock.monotonic_ns() + round(timeout_s * 1_000_000_000)
        self.asked.append(call)
        call.task = asyncio.create_task(self._asking(call, timeout_s))

    async def _asking(self, call: Asked, timeout_s: float | None) -> None:
        try:
            call.grant = await self.throttler.acquire(
                call.cost, call.category, call.priority, timeout_s
            )
        except WaitTimedOut:
            call.timed_out = True
            self.check_timeout(call)
            return
        call.granted_ns = self.clock.monotonic_ns()
        self.check_timeout(call)
        self.check_limits()

    def check_timeout(self, call: Asked) -> None:
        """Who said how long to wait has an answer by then."""
        assert call.deadline_ns is None or self.clock.monotonic_ns() <= call.deadline_ns

    def cancel(self, which: int) -> None:
        waiting = [c for c in self.asked if c.grant is None and c.task and not c.task.done()]
        if waiting:
            call = waiting[which % len(waiting)]
            call.cancelled = True
            assert call.task is not None
            call.task.cancel()

    def give_back(self, which: int) -> None:
        held = [c for c in self.asked if c.grant is not None and not c.given_back]
        if held:
            call = held[-1 - which % len(held)]
            call.given_back = True
            assert call.grant is not None
            call.grant.refund()

    def live(self, category: str | None, charge_of: Any) -> list[tuple[int, int]]:
        """What was granted and not given back, by instant, as one limit counts it."""
        return [
            (c.granted_ns, charge_of(c.cost))
            for c in self.asked
            if c.grant and not c.given_back and category in (None, c.category)
        ]

    def check_limits(self) -> None:
        now = self.clock.monotonic_ns()
        for category, limits in self.limits.items():
            for limit, pipeline in limits:
                live = self.live(category, pipeline.charge)
                assert 0 <= pipeline.remaining <= pipeline.limit
                check_interval(limit, live, now)

    def check_order(self) -> None:
        """First come, first served within a category and priority."""
        latest_ns: dict[tuple[str | None, int], int] = {}
        for call in self.asked:
            if call.grant:
                kind = call.category, call.priority
                assert call.granted_ns >= latest_ns.get(kind, 0)
                latest_ns[kind] = call.granted_ns

    def check_nothing_is_lost(self) -> None:
        """At rest: what is used is what was granted, no more and no less."""
        now = self.clock.monotonic_ns()
        for category, limits in self.limits.items():
            for limit, pipeline in limits:
                live = self.live(category, pipeline.charge)
                used = pipeline.limit - pipeline.remaining
                if limit.kind != "bucket":
                    assert used == in_window(limit, live, now)
                elif not any(call.given_back for call in self.asked):
                    assert used == pipeline.limit - bucket_level(limit, live, now)


def in_window(limit: LimitOf, live: list[tuple[int, int]], now: int) -> int:
    period = limit.period_ms * 1_000_000
    if limit.kind == "sliding":
        return sum(charge for at, charge in live if now - period < at <= now)
    return sum(charge for at, charge in live if at // period == now // period)


def bucket_level(limit: LimitOf, live: list[tuple[int, int]], now: int) -> int:
    """Whole tokens, by another way of counting: in units of a token per period."""
    period = limit.period_ms * 1_000_000
    full = level = limit.limit * period
    last = 0
    for at, charge in sorted(live):
        level = min(full, level + limit.limit * (at - last)) - charge * period
        last = at
    return min(full, level + limit.limit * (now - last)) // period


def check_interval(limit: LimitOf, live: list[tuple[int, int]], now: int) -> None:
    if limit.kind != "bucket":
        assert in_window(limit, live, now) <= limit.limit
        return
    period = limit.period_ms * 1_000_000
    for begin, _ in live:
        total = sum(charge for at, charge in live if at >= begin)
        assert total * period <= limit.limit * (period + now - begin)


LIMITS = st.builds(
    LimitOf,
    kind=st.sampled_from(["fixed", "sliding", "bucket"]),
    limit=st.integers(5, 12),
    period_ms=st.sampled_from([100, 1000, 7000]),
    paced=st.booleans(),
    unit=st.sampled_from(["weight", "weight", "request"]),
)
STEP = st.one_of(
    st.tuples(
        st.just("ask"),
        st.integers(1, 3) | st.integers(1, 5),
        st.sampled_from(CATEGORIES),
        st.sampled_from([0, 0, 0, 1, -2]),
        st.sampled_from([None, None, None, None, 0.3, 5.0]),
    ),
    st.tuples(st.sampled_from(["cancel", "give_back"]), st.integers(0, 20)),
    st.tuples(st.just("pause"), st.sampled_from([0, 0, 1, 50, 99, 100, 900, 1000, 3000])),
    st.tuples(st.just("step_wall"), st.sampled_from([-3600, 3600, -1])),
)


@settings(max_examples=3 * settings().max_examples)
@given(
    limits=st.fixed_dictionaries({c: st.lists(LIMITS, max_size=2) for c in CATEGORIES}).filter(
        lambda found: any(found.values())
    ),
    steps=st.lists(STEP, min_size=20, max_size=60),
)
async def test_no_limit_is_exceeded_and_nothing_is_lost(
    limits: dict[str | None, list[LimitOf]], steps: Sequence[tuple[Any, ...]]
) -> None:
    clock = ManualClock(START_MS - START_MS % 7_000_000)
    kept = {c: [(each, each.pipeline(clock)) for each in found] for c, found in limits.items()}
    throttler = BaseThrottler({c: [p for _, p in found] for c, found in kept.items()})
    world = World(clock, kept, throttler)
    for kind, *details in steps:
        if kind == "ask":
            world.ask(*details)
        elif kind == "pause":
            await clock.advance(details[0] / 1000)
            world.check_limits()
            world.check_nothing_is_lost()
        elif kind == "step_wall":
            clock.step_wall(*details)
        else:
            getattr(world, kind)(*details)
    await clock.advance(0)
    world.check_nothing_is_lost()
    await clock.advance(LONG_S)
    ended = await asyncio.gather(*(c.task for c in world.asked if c.task), return_exceptions=True)
    assert not [end for end in ended if isinstance(end, Exception)], "a check failed"

    world.check_order()
    for call in world.asked:
        assert call.grant or call.cancelled or call.timed_out, "everybody is served in the end"
    world.check_nothing_is_lost()
    assert throttler.stats().waiting == dict.fromkeys(CATEGORIES, 0)
    assert throttler._timer is None
