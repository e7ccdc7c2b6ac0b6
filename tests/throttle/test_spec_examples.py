"""The examples of the specification of throttled-api, one by one, and where they are corrected.

Its soft delay is ``cost × time_left / remaining``. That stands for fixed windows. For sliding ones
it took as ``time_left`` what is left until the oldest use comes back, which is next to nothing when
the window is busy, and divided by ``remaining``, which may be zero. Here they are paced by
``cost × period / limit``: the rate at which capacity comes back, however full the window is.
"""

import asyncio

import pytest

from penstock.clock import ManualClock
from penstock.throttle import BaseThrottler, CapacityLow, FixedWindow, Pipeline, SlidingWindow

MINUTE_MS = 60_000


@pytest.fixture
def clock() -> ManualClock:
    """Twenty seconds into a minute."""
    return ManualClock(1_000 * MINUTE_MS + 20_000)


@pytest.fixture
def half_used(clock: ManualClock) -> Pipeline:
    """A limit of 6000 a minute, 3000 used in 20 s, 40 s left."""
    pipeline = Pipeline("1m", FixedWindow(6000, 60, clock))
    pipeline.consume(3000)
    return pipeline


@pytest.mark.parametrize(("cost", "delay_s"), [(1, 40 / 3000), (25, 25 * 40 / 3000), (100, 0.5)])
def test_the_soft_delay_of_a_half_used_minute(
    half_used: Pipeline, caplog: pytest.LogCaptureFixture, cost: int, delay_s: float
) -> None:
    assert half_used.soft_delay(cost) == pytest.approx(delay_s, abs=1e-8)
    assert [r.levelname for r in caplog.records] == (["WARNING"] if cost == 100 else [])


def test_the_delay_of_a_dear_request_would_be_longer_but_for_the_cap(half_used: Pipeline) -> None:
    assert half_used.window.soft_delay(100) == pytest.approx(1.3333, abs=1e-4)


@pytest.mark.parametrize(("cost", "delay_ms"), [(1, 14), (25, 334), (100, 500)])
async def test_a_throttler_waits_so_long_before_it_lets_the_next_go(
    clock: ManualClock, half_used: Pipeline, cost: int, delay_ms: int
) -> None:
    throttler = BaseThrottler([half_used])
    asking = asyncio.create_task(throttler.acquire(cost))

    await clock.advance((delay_ms - 1) / 1000)
    assert not asking.done()
    await clock.advance(0.001)
    assert asking.done()


async def test_what_is_left_is_spread_over_the_rest_of_the_minute(clock: ManualClock) -> None:
    """The point of the formula: full demand uses the second half of the budget evenly."""
    pipeline = Pipeline("1m", FixedWindow(6000, 60, clock), max_soft_delay=5)
    pipeline.consume(3000)
    throttler, at_s = BaseThrottler([pipeline]), []

    async def ask() -> None:
        await throttler.acquire(100)
        at_s.append(clock.now_ms() / 1000 % 60)

    tasks = [asyncio.create_task(ask()) for _ in range(29)]
    await clock.advance(39.9)

    assert all(task.done() for task in tasks)
    gaps = [after - before for before, after in zip([20.0, *at_s], at_s, strict=False)]
    assert all(gap == pytest.approx(40 / 30, abs=0.01) for gap in gaps)


def test_capacity_is_subtracted(clock: ManualClock) -> None:
    for window in (FixedWindow(10, 60, clock), SlidingWindow(10, 60, clock)):
        assert window.remaining == window.limit == 10
        window.consume(4)
        assert window.remaining == 6
        assert window.can_send(6)
        assert not window.can_send(7)


async def test_a_fixed_window_comes_back_at_once_on_the_whole_minute(clock: ManualClock) -> None:
    window = FixedWindow(10, 60, clock)
    window.consume(3)
    window.consume(7)

    assert window.wait_time(1) == 40
    await clock.advance(39.999)
    assert window.remaining == 0
    await clock.advance(0.001)
    assert window.remaining == 10


async def test_a_sliding_window_comes_back_use_by_use(clock: ManualClock) -> None:
    window = SlidingWindow(10, 60, clock)
    window.consume(3)
    await clock.advance(5)
    window.consume(7)

    assert window.wait_time(3) == 55
    assert window.wait_time(4) == 60
    await clock.advance(55)
    assert window.remaining == 3
    await clock.advance(5)
    assert window.remaining == 10


def test_a_refund_of_a_sliding_window_takes_out_the_use_of_that_moment(clock: ManualClock) -> None:
    window = SlidingWindow(10, 60, clock)
    first, second = window.consume(4), window.consume(2)
    window.refund(first, 4)

    assert window.remaining == 8
    window.refund(second, 2)
    assert window.remaining == 10


async def test_corrected_a_refund_after_the_reset_does_not_lift_remaining_above_the_limit(
    clock: ManualClock,
) -> None:
    """The specification added the cost whatever had happened since."""
    window = FixedWindow(10, 60, clock)
    at = window.consume(10)
    await clock.advance(40)
    window.consume(1)
    window.refund(at, 10)

    assert window.remaining == 9


async def test_corrected_the_pace_of_a_sliding_window_does_not_vanish_when_it_is_busy(
    clock: ManualClock,
) -> None:
    """By the specification 3000 used, the oldest about to return: 25 × 0.001 / 3000, no delay."""
    pipeline = Pipeline("1m", SlidingWindow(6000, 60, clock))
    pipeline.consume(3000)
    await clock.advance(59.999)

    assert pipeline.soft_delay(25) == pytest.approx(25 * 60 / 6000)


def test_corrected_a_full_window_does_not_divide_by_zero(clock: ManualClock) -> None:
    for window in (FixedWindow(10, 60, clock), SlidingWindow(10, 60, clock)):
        pipeline = Pipeline("1m", window)
        pipeline.consume(10)
        assert pipeline.soft_delay(1) <= 0.5
        assert pipeline.wait_time(1) > 0, "there the limit itself makes it wait"


def test_the_event_says_which_timeframe_and_what_is_left(clock: ManualClock) -> None:
    told: list[CapacityLow] = []
    pipeline = Pipeline("1m", FixedWindow(6000, 60, clock), threshold=0.5)
    pipeline.add_listener(told.append)
    pipeline.consume(2999)
    assert told == []
    pipeline.consume(1)

    assert told == [CapacityLow(timeframe="1m", remaining_rate=0.5, remaining_cap=3000)]


async def test_several_timeframes_are_charged_together(clock: ManualClock) -> None:
    """Binance: 6000 of weight a minute, and 61000 requests in five, each counting as one."""
    weight = Pipeline("1m", FixedWindow(6000, 60, clock))
    requests = Pipeline("5m", FixedWindow(61_000, 300, clock), unit="request")
    await BaseThrottler([weight, requests]).acquire(25)

    assert (weight.remaining, requests.remaining) == (5975, 60_999)


async def test_groups_of_upbit_do_not_wait_for_each_other(clock: ManualClock) -> None:
    groups = ("QUOTATION", "EXCHANGE_ORDER", "EXCHANGE_NON_ORDER")
    throttler = BaseThrottler(
        {g: [Pipeline("1s", SlidingWindow(10, 1, clock), max_soft_delay=0)] for g in groups}
    )
    for _ in range(10):
        await throttler.acquire(category="QUOTATION")
    waiting = asyncio.create_task(throttler.acquire(category="QUOTATION"))
    await clock.advance(0)

    assert not waiting.done()
    assert throttler.try_acquire(category="EXCHANGE_ORDER") is not None
    await clock.advance(1)
    assert waiting.done()
