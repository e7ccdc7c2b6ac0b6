"""The throttler: all limits or none, first come first served, and nothing spent in vain."""

import asyncio
import logging

import pytest

from penstock.clock import ManualClock
from penstock.errors import (
    BadCost,
    BadLimit,
    CostExceedsLimit,
    NeverSent,
    NoAnswer,
    RateLimited,
    UnknownCategory,
    WaitTimedOut,
)
from penstock.throttle import (
    BaseThrottler,
    CapacityLow,
    FixedWindow,
    LimitStats,
    Pipeline,
    SlidingWindow,
    TokenBucket,
)

START_MS = 1_700_000_000_000 - 1_700_000_000_000 % 60_000


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(START_MS)


def sliding(clock: ManualClock, limit: int = 10, period_s: float = 1, name: str = "1s") -> Pipeline:
    return Pipeline(name, SlidingWindow(limit, period_s, clock), max_soft_delay=0)


async def started(task: asyncio.Task[object] | None = None) -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def test_a_call_is_charged_to_every_limit_or_to_none(clock: ManualClock) -> None:
    short, long = sliding(clock, 10), sliding(clock, 12, 60, "1m")
    throttler = BaseThrottler([short, long])
    await throttler.acquire(8)
    assert (short.remaining, long.remaining) == (2, 4)

    assert throttler.try_acquire(3) is None
    assert (short.remaining, long.remaining) == (2, 4)
    await clock.advance(1)
    assert throttler.try_acquire(5) is None, "there is room in the second, but not in the minute"
    assert (short.remaining, long.remaining) == (10, 4)


async def test_limits_of_every_kind_go_together(clock: ManualClock) -> None:
    kinds = [
        Pipeline("fixed", FixedWindow(10, 60, clock, guard_ms=1000), max_soft_delay=0),
        Pipeline("sliding", SlidingWindow(10, 60, clock), max_soft_delay=0),
        Pipeline("bucket", TokenBucket(10, 1, clock), max_soft_delay=0),
    ]
    throttler = BaseThrottler(kinds)
    await throttler.acquire(3)
    assert [p.remaining for p in kinds] == [7, 7, 7]

    await clock.advance(59.5)
    assert throttler.try_acquire(1) is None, "the guard band at the end of the fixed window"
    assert [p.remaining for p in kinds] == [7, 7, 10]


async def test_a_category_pays_its_own_limits_and_those_of_all(clock: ManualClock) -> None:
    every, orders = sliding(clock, 10), sliding(clock, 2)
    throttler = BaseThrottler({None: [every], "orders": [orders], "market": []})
    await throttler.acquire(2, "orders")
    await throttler.acquire(3)
    await throttler.acquire(4, "market")

    assert (every.remaining, orders.remaining) == (1, 0)


async def test_two_categories_can_share_one_budget(clock: ManualClock) -> None:
    shared = sliding(clock, 10)
    throttler = BaseThrottler({"a": [shared], "b": [shared, sliding(clock, 3)]})
    await throttler.acquire(8, "a")
    assert throttler.try_acquire(3, "b") is None
    assert throttler.try_acquire(2, "b") is not None


async def test_an_unknown_category_names_the_known_ones(clock: ManualClock) -> None:
    throttler = BaseThrottler({None: [sliding(clock)], "orders": [sliding(clock)]})
    with pytest.raises(UnknownCategory, match=r"'order'\. Known: 'orders', None"):
        await throttler.acquire(category="order")
    with pytest.raises(UnknownCategory):
        throttler.try_acquire(category="order")
    with pytest.raises(UnknownCategory):
        throttler.observe("order", 5, "1s")


@pytest.mark.parametrize("cost", [0, -3, 1.0, True])
async def test_a_cost_is_a_whole_number_above_zero(clock: ManualClock, cost: int) -> None:
    throttler = BaseThrottler([sliding(clock)])
    with pytest.raises(BadCost):
        await throttler.acquire(cost)


async def test_what_no_wait_would_help_is_refused_at_once(clock: ManualClock) -> None:
    throttler = BaseThrottler([sliding(clock, 10), sliding(clock, 20, 60)])
    await throttler.acquire(10)
    with pytest.raises(CostExceedsLimit, match="costs 11 exceeds the limit of 10 per 1 s"):
        await throttler.acquire(11)


def test_a_throttler_without_a_limit_or_with_two_clocks_is_a_mistake(clock: ManualClock) -> None:
    with pytest.raises(BadLimit, match="without a limit"):
        BaseThrottler({"a": [], None: []})
    with pytest.raises(BadLimit, match="different clocks"):
        BaseThrottler([sliding(clock), sliding(ManualClock(START_MS))])
    BaseThrottler([Pipeline("a", SlidingWindow(1, 1)), Pipeline("b", SlidingWindow(1, 1))])


async def test_nobody_overtakes_a_dear_call_nor_barges_in_before_the_queue(
    clock: ManualClock,
) -> None:
    order: list[str] = []
    throttler = BaseThrottler([sliding(clock)])
    await throttler.acquire(9)

    async def ask(name: str, cost: int) -> None:
        await throttler.acquire(cost)
        order.append(name)

    tasks = [asyncio.create_task(ask(n, c)) for n, c in (("dear", 10), ("a", 1), ("b", 1))]
    await started()
    assert throttler.try_acquire(1) is None, "one unit is left, but somebody waits for ten"
    await clock.advance(2)

    assert order == ["dear", "a", "b"]
    assert all(task.done() for task in tasks)


async def test_a_higher_priority_stands_ahead_but_not_of_those_who_waited_long(
    clock: ManualClock,
) -> None:
    order: list[str] = []
    throttler = BaseThrottler([sliding(clock, 1, 60)], ageing_s=10)
    await throttler.acquire()

    async def ask(name: str, priority: int) -> None:
        await throttler.acquire(priority=priority)
        order.append(name)

    tasks = []
    for name, priority in (("old", 0), ("new", 0), ("urgent", 1), ("less", -1)):
        tasks.append(asyncio.create_task(ask(name, priority)))
        await clock.advance(8)
    await clock.advance(240)

    assert order == ["old", "urgent", "new", "less"]
    assert all(task.done() for task in tasks)


async def test_an_exhausted_category_does_not_stall_another(clock: ManualClock) -> None:
    every = sliding(clock, 100)
    throttler = BaseThrottler({None: [every], "a": [sliding(clock, 1, 60)], "b": [sliding(clock)]})
    await throttler.acquire(category="a")
    waiting = asyncio.create_task(throttler.acquire(category="a"))
    await started()

    assert throttler.try_acquire(category="b") is not None
    await clock.advance(60)
    assert waiting.done()


async def test_who_waits_for_a_shared_limit_is_not_overtaken_on_it_by_other_categories(
    clock: ManualClock,
) -> None:
    throttler = BaseThrottler({None: [sliding(clock, 10)], "a": [], "b": []})
    await throttler.acquire(9)
    dear = asyncio.create_task(throttler.acquire(10, "a"))
    await started()
    cheap = asyncio.create_task(throttler.acquire(1, "b"))
    await started()

    assert not cheap.done()
    assert throttler.try_acquire(1, "b") is None
    await clock.advance(1)
    assert dear.done()
    assert not cheap.done()
    await clock.advance(1)
    assert cheap.done()


async def test_a_thousand_waiters_set_one_timer(clock: ManualClock) -> None:
    throttler = BaseThrottler([sliding(clock, 10)])
    tasks = [asyncio.create_task(throttler.acquire()) for _ in range(1000)]
    await started()
    assert len(clock._sleepers) == 1

    await clock.advance(99)
    assert all(task.done() for task in tasks)
    assert not [sleeper for sleeper in clock._sleepers if not sleeper[2].done()]


async def test_cancelled_waiters_burn_nothing_and_leave_no_timer(clock: ManualClock) -> None:
    pipeline = sliding(clock)
    throttler = BaseThrottler([pipeline])
    await throttler.acquire(10)
    first = [asyncio.create_task(throttler.acquire()) for _ in range(100)]
    second = [asyncio.create_task(throttler.acquire()) for _ in range(10)]
    await started()
    for task in first:
        task.cancel()
    await clock.advance(1)

    assert all(task.done() and not task.cancelled() for task in second)
    assert pipeline.remaining == 0
    last = asyncio.create_task(throttler.acquire())
    await started()
    last.cancel()
    await started()
    assert throttler.stats().waiting == {None: 0}
    assert throttler._timer is None


async def test_who_is_cancelled_in_the_moment_of_its_grant_has_spent_nothing(
    clock: ManualClock,
) -> None:
    pipeline = sliding(clock)
    throttler = BaseThrottler([pipeline])
    grant = await throttler.acquire(10)
    unlucky = asyncio.create_task(throttler.acquire(6))
    lucky = asyncio.create_task(throttler.acquire(7))
    await started()
    grant.refund()
    assert pipeline.remaining == 4, "it is granted, though it has not run yet"
    unlucky.cancel()
    await started()

    assert unlucky.cancelled()
    assert lucky.done()
    assert pipeline.remaining == 3


async def test_a_refund_lets_the_next_go_at_once_and_counts_once(clock: ManualClock) -> None:
    pipelines = [sliding(clock), sliding(clock, 10, 60)]
    throttler = BaseThrottler(pipelines)
    grant = await throttler.acquire(10)
    waiting = asyncio.create_task(throttler.acquire(4))
    await started()
    grant.refund()
    grant.refund()
    await started()

    assert waiting.done()
    assert [p.remaining for p in pipelines] == [6, 6]


async def test_a_block_gives_back_what_never_left_and_nothing_else(clock: ManualClock) -> None:
    pipeline = sliding(clock)
    throttler = BaseThrottler([pipeline])
    with pytest.raises(NeverSent):
        async with await throttler.acquire(4):
            raise NeverSent("no route")
    assert pipeline.remaining == 10

    with pytest.raises(NoAnswer):
        async with await throttler.acquire(4):
            raise NoAnswer("silence")
    async with await throttler.acquire(3) as grant:
        assert grant.good()
    grant.refund()
    assert pipeline.remaining == 3, "what was answered is settled"


async def test_who_would_not_wait_so_long_spends_nothing(clock: ManualClock) -> None:
    pipeline = sliding(clock, 10, 60)
    throttler = BaseThrottler([pipeline])
    await throttler.acquire(10)
    with pytest.raises(WaitTimedOut) as caught:
        await throttler.acquire(1, timeout=59)
    assert caught.value.retry_at_ms == START_MS + 60_000
    assert isinstance(caught.value, TimeoutError)
    assert isinstance(caught.value, RateLimited)

    ahead = asyncio.create_task(throttler.acquire(10))
    behind = asyncio.create_task(throttler.acquire(1, timeout=61))
    await clock.advance(60.999)
    assert ahead.done()
    assert isinstance(behind.exception(), WaitTimedOut), "it saw that sixty more would be needed"
    assert pipeline.remaining == 0


async def test_a_timeout_in_the_middle_of_the_queue_is_kept(clock: ManualClock) -> None:
    throttler = BaseThrottler([sliding(clock, 10, 60)])
    await throttler.acquire(10)
    ahead = asyncio.create_task(throttler.acquire(1))
    hasty = asyncio.create_task(throttler.acquire(1, timeout=5))
    await clock.advance(4.999)
    assert not hasty.done()
    await clock.advance(0.001)
    assert isinstance(hasty.exception(), WaitTimedOut)
    await clock.advance(55)
    assert ahead.done()


async def test_nothing_is_granted_before_the_exchange_allows_it_again(clock: ManualClock) -> None:
    throttler = BaseThrottler([sliding(clock)])
    paid = await throttler.acquire(1)
    throttler.block_until(START_MS + 5000)
    throttler.block_until(START_MS + 2000)
    assert throttler.stats().blocked_for_s == 5
    assert not paid.good()
    assert throttler.try_acquire() is None
    with pytest.raises(WaitTimedOut):
        await throttler.acquire(timeout=4)

    waiting = asyncio.create_task(throttler.acquire())
    await clock.advance(4.999)
    assert not waiting.done()
    await clock.advance(0.001)
    assert waiting.done()


async def test_what_others_use_is_counted_once_the_exchange_tells(clock: ManualClock) -> None:
    minute = Pipeline("1m", FixedWindow(100, 60, clock, answers=True), max_soft_delay=0)
    raw = Pipeline("1m", FixedWindow(50, 60, clock), unit="request", max_soft_delay=0)
    throttler = BaseThrottler([minute, raw])
    async with await throttler.acquire(10):
        throttler.observe(None, 40, "1m")
        assert minute.remaining == 50, "forty it saw, and ten that it may not have seen"
    throttler.observe(None, 60, "1m")
    throttler.observe(None, 55, "1m")
    throttler.observe(None, 99, "1h")
    throttler.observe(None, 99, "1m", at_ms=START_MS - 1)

    assert minute.remaining == 40
    assert raw.remaining == 49, "a count of weight says nothing about requests"


async def test_a_crossing_is_told_once_and_again_after_recovery(clock: ManualClock) -> None:
    told: list[CapacityLow] = []
    throttler = BaseThrottler({"a": [sliding(clock, 10)], "b": [sliding(clock, 10, 1, "b")]})
    throttler.add_listener(told.append)
    for _ in range(4):
        await throttler.acquire(category="a")
    assert told == []
    for _ in range(4):
        await throttler.acquire(category="a")
    assert told == [CapacityLow("1s", 0.5, 5)]

    await clock.advance(1)
    await throttler.acquire(7, category="a")
    assert told[1:] == [CapacityLow("1s", 0.3, 3)]
    throttler.remove_listener(told.append)
    throttler.remove_listener(told.append)
    await throttler.acquire(7, category="b")
    assert len(told) == 2


async def test_a_crossing_that_others_caused_is_told_too(clock: ManualClock) -> None:
    told: list[CapacityLow] = []
    throttler = BaseThrottler([sliding(clock, 10)])
    throttler.add_listener(told.append)
    throttler.observe(None, 8, "1s")
    throttler.observe(None, 9, "1s")
    assert told == [CapacityLow("1s", 0.2, 2)]


async def test_a_threshold_can_be_moved_or_switched_off(clock: ManualClock) -> None:
    told: list[CapacityLow] = []
    late = Pipeline("late", SlidingWindow(10, 1, clock), threshold=0.9)
    never = Pipeline("never", SlidingWindow(10, 1, clock), threshold=None)
    throttler = BaseThrottler([late, never])
    throttler.add_listener(told.append)
    await throttler.acquire(8)
    assert told == []
    await clock.advance(1)
    await throttler.acquire(9)
    assert [event.timeframe for event in told] == ["late"]
    for wrong in (0, 1.1, -1):
        with pytest.raises(BadLimit):
            Pipeline("1s", SlidingWindow(10, 1, clock), threshold=wrong)


async def test_a_listener_that_raises_harms_nobody(
    clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    told: list[CapacityLow] = []

    def broken(_: CapacityLow) -> None:
        raise RuntimeError("no")

    throttler = BaseThrottler([sliding(clock)])
    throttler.add_listener(broken)
    throttler.add_listener(told.append)
    await throttler.acquire(6)

    assert len(told) == 1
    assert [record.levelno for record in caplog.records] == [logging.ERROR]


async def test_a_listener_may_use_the_throttler(clock: ManualClock) -> None:
    pipeline = sliding(clock)
    throttler = BaseThrottler([pipeline])
    spare = await throttler.acquire(2)
    throttler.add_listener(lambda _: spare.refund())
    waiting = [asyncio.create_task(throttler.acquire(c)) for c in (7, 3)]
    await started()

    assert all(task.done() for task in waiting)
    assert pipeline.remaining == 0


async def test_pace_is_a_schedule_and_a_late_timer_does_not_slow_it(clock: ManualClock) -> None:
    pipeline = Pipeline("1s", SlidingWindow(100, 10, clock), max_soft_delay=0.5)
    throttler, at_ms = BaseThrottler([pipeline]), []

    async def ask() -> None:
        await throttler.acquire()
        at_ms.append(clock.now_ms() - START_MS)

    tasks = [asyncio.create_task(ask()) for _ in range(60)]
    await clock.advance(0.35)
    assert at_ms == [0] * 50 + [100, 200, 300]
    clock._now_ns += 450_000_000  # the machine stood still
    await clock.advance(0.2)

    assert at_ms[53:] == [800] * 5 + [900, 1000]
    assert all(task.done() for task in tasks)


async def test_who_comes_later_than_its_pace_does_not_wait(clock: ManualClock) -> None:
    throttler = BaseThrottler([Pipeline("1m", SlidingWindow(100, 60, clock))])
    await throttler.acquire(50)
    await clock.advance(0.6)
    assert throttler.try_acquire(1) is not None
    assert throttler.try_acquire(1) is None
    assert throttler.stats().limits == (LimitStats(None, "1m", 100, 49),)


async def test_limits_can_be_replaced_while_somebody_waits(clock: ManualClock) -> None:
    throttler = BaseThrottler({"a": [sliding(clock, 10, 60)], "b": [sliding(clock, 10, 60)]})
    await throttler.acquire(10, "a")
    await throttler.acquire(10, "b")
    too_dear = asyncio.create_task(throttler.acquire(8, "a"))
    stranded = asyncio.create_task(throttler.acquire(8, "b"))
    await started()
    throttler.adopt({"a": [sliding(clock, 5)]})
    await started()

    assert isinstance(too_dear.exception(), CostExceedsLimit)
    assert stranded.done()
    throttler.adopt({"a": [sliding(clock, 5)]})
    with pytest.raises(UnknownCategory):
        throttler.try_acquire(category="b")


async def test_a_subclass_pays_before_it_calls(clock: ManualClock) -> None:
    class Client(BaseThrottler):
        async def get_kline(self, limit: int) -> str:
            async with await self._check_and_wait(2 if limit > 100 else 1, category="market"):
                return f"{limit} candles"

    pipeline = sliding(clock)
    client = Client({"market": [pipeline]})
    assert await client.get_kline(limit=1000) == "1000 candles"
    assert pipeline.remaining == 8
