"""Windows: what they refuse, what they give back, and what the clock may do to them."""

from collections.abc import Callable
from typing import Any

import pytest

from penstock.clock import ManualClock, SystemClock
from penstock.errors import BadCost, BadLimit, CostExceedsLimit, NeverGranted, RateLimited
from penstock.throttle import FixedWindow, SlidingWindow, TokenBucket
from penstock.throttle.windows import Window

START_MS = 1_700_000_000_000 - 1_700_000_000_000 % 60_000
MAKERS: dict[str, Callable[[ManualClock], Window[Any]]] = {
    "fixed": lambda clock: FixedWindow(10, 60, clock),
    "sliding": lambda clock: SlidingWindow(10, 60, clock),
    "bucket": lambda clock: TokenBucket(10, 10 / 60, clock),
}


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(START_MS)


@pytest.fixture(params=MAKERS)
def window(request: pytest.FixtureRequest, clock: ManualClock) -> Window[Any]:
    return MAKERS[request.param](clock)


@pytest.mark.parametrize("limit", [0, -1, 1.5, True, None])
@pytest.mark.parametrize("kind", [FixedWindow, SlidingWindow, TokenBucket])
def test_a_limit_is_a_whole_number_above_zero(kind: Callable[..., Any], limit: Any) -> None:
    with pytest.raises(BadLimit, match="whole number above zero"):
        kind(limit, 60)


@pytest.mark.parametrize("period_s", [0, -1, float("nan"), float("inf"), None, 1e-10])
@pytest.mark.parametrize("kind", [FixedWindow, SlidingWindow])
def test_a_period_is_above_zero_and_ends(kind: Callable[..., Any], period_s: Any) -> None:
    with pytest.raises(BadLimit, match="Allowed: seconds"):
        kind(10, period_s)


async def test_a_fixed_window_tells_when_all_of_it_comes_back(clock: ManualClock) -> None:
    window = FixedWindow(10, 60, clock, guard_ms=250)
    assert window.next_reset_time == START_MS / 1000 + 60

    await clock.advance(59.9)
    assert window.next_reset_time == START_MS / 1000 + 60
    await clock.advance(0.1)
    assert window.next_reset_time == START_MS / 1000 + 120
    window.align(2_500, 100)
    assert window.next_reset_time == START_MS / 1000 + 117.5, "the exchange's clock is ahead"


def test_a_guard_band_is_not_below_zero() -> None:
    with pytest.raises(BadLimit, match="0 or more"):
        FixedWindow(10, 60, guard_ms=-1)


@pytest.mark.parametrize("rate_per_s", [0, -1, float("nan"), float("inf")])
def test_a_rate_is_above_zero(rate_per_s: float) -> None:
    with pytest.raises(BadLimit, match="number above zero"):
        TokenBucket(10, rate_per_s)


@pytest.mark.parametrize("asked", ["can_send", "wait_time", "consume"])
def test_a_cost_is_a_whole_number_above_zero(window: Window[Any], asked: str) -> None:
    costs: list[Any] = [0, -1, 1.5, True, None]
    for cost in costs:
        with pytest.raises(BadCost, match="whole number above zero"):
            getattr(window, asked)(cost)
        assert window.remaining == 10


def test_what_is_dearer_than_the_limit_never_goes(window: Window[Any]) -> None:
    assert not window.can_send(11)
    for ask in (window.consume, window.wait_time):
        with pytest.raises(CostExceedsLimit):
            ask(11)


def test_a_full_window_refuses_and_says_when_to_come_back(
    window: Window[Any], clock: ManualClock
) -> None:
    window.consume(10)
    with pytest.raises(RateLimited) as caught:
        window.consume(1)

    assert caught.value.retry_at_ms == clock.now_ms() + round(window.wait_time(1) * 1000)
    assert window.remaining == 0


async def test_after_its_wait_a_request_goes(window: Window[Any], clock: ManualClock) -> None:
    window.consume(10)
    wait_s = window.wait_time(4)
    await clock.advance(wait_s - 0.001)
    assert not window.can_send(4)
    await clock.advance(0.001)
    window.consume(4)


async def test_what_was_never_granted_cannot_be_given_back(
    window: Window[Any], clock: ManualClock
) -> None:
    await clock.advance(1)
    at = window.consume(5)
    for timestamp, cost in ((at - 1, 5), (at, 4), (at + 1_000_000, 5)):
        with pytest.raises(NeverGranted, match="No grant with cost"):
            window.refund(timestamp, cost)
    window.refund(at, 5)
    with pytest.raises(NeverGranted):
        window.refund(at, 5)
    assert window.remaining == 10


async def test_what_was_given_back_once_is_not_given_back_again(
    window: Window[Any], clock: ManualClock
) -> None:
    first = window.consume(2)
    await clock.advance(0.001)
    window.consume(2)
    window.refund(first, 2)

    with pytest.raises(NeverGranted):
        window.refund(first, 2)
    assert window.remaining == 8


async def test_a_refund_that_comes_too_late_is_nothing(
    window: Window[Any], clock: ManualClock
) -> None:
    at = window.consume(5)
    await clock.advance(60)
    window.consume(10)
    window.refund(at, 5)
    assert window.remaining == 0


@pytest.mark.parametrize("hours", [-1, 1])
async def test_a_wall_clock_that_jumps_an_hour_changes_nothing(
    window: Window[Any], clock: ManualClock, hours: int
) -> None:
    """Instants are counted by the monotonic clock: no budget is freed early, none is frozen."""
    window.consume(10)
    wait_s = window.wait_time(5)
    clock.step_wall(hours * 3600)

    assert window.remaining == 0
    assert window.wait_time(5) == wait_s
    await clock.advance(60)
    assert window.remaining == 10


async def test_a_fixed_window_turns_by_the_clock_it_is_aligned_to(clock: ManualClock) -> None:
    window = FixedWindow(10, 60, clock)
    window.align(offset_ms=15_000)
    window.consume(10)

    assert window.wait_time(1) == 45
    clock.step_wall(-3600)
    window.align(offset_ms=3_600_000 + 20_000)
    assert window.wait_time(1) == 40


def test_however_wrong_its_clock_half_of_a_window_stays_open(clock: ManualClock) -> None:
    window = FixedWindow(10, 60, clock, guard_ms=40_000)
    window.align(0, error_ms=1_000_000)
    assert window.wait_time(1) == 15


async def test_a_bucket_refills_continuously_and_exactly(clock: ManualClock) -> None:
    bucket = TokenBucket(1000, 0.1, clock)
    bucket.consume(1000)
    for _ in range(100):
        await clock.advance(0.1)
    assert bucket.remaining == 1
    assert bucket.wait_time(1000) == 9_990


def test_receipts_do_not_pile_up() -> None:
    window = SlidingWindow(100_000, 1e-6, SystemClock())
    for _ in range(3000):
        window.consume(1)
    assert len(window._receipts) < 1000


def test_a_window_shows_what_it_is(window: Window[Any]) -> None:
    assert "10 per 60 s, 10 remaining" in repr(window)


@pytest.mark.parametrize("ahead_ms", [600_000, -600_000, 15_000, 3_600_000])
async def test_a_window_that_is_aligned_anew_neither_forgets_nor_keeps_for_long(
    clock: ManualClock, ahead_ms: int
) -> None:
    window = FixedWindow(10, 60, clock)
    await clock.advance(50)
    window.consume(10)
    window.align(ahead_ms)
    assert window.remaining == 0, "what was used counts by the new clock too"
    assert window.wait_time(1) <= 60
    await clock.advance(window.wait_time(1))
    assert window.remaining == 10

    window.consume(10)
    window.align(0)
    assert window.wait_time(1) <= 60, "the window that lay ahead is given up"


async def test_an_alignment_by_a_little_keeps_the_count(clock: ManualClock) -> None:
    window = FixedWindow(10, 60, clock)
    await clock.advance(0.1)
    window.consume(4)
    window.align(-200)
    assert window.remaining == 6
    await clock.advance(1)
    assert window.remaining == 6
