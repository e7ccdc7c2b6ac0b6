"""The local gate: no limit the exchange counts is ever broken, and nobody pushes in."""

import asyncio
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.clock import ManualClock
from penstock.errors import CostExceedsLimit, RateLimited
from penstock.throttle.gate import Gate, Limit
from penstock.throttle.local_gate import LocalGate

SECOND = Limit(amount=10, period_ms=1000)
TEN_SECONDS = Limit(amount=40, period_ms=10_000)
REQUESTS = Limit(amount=4, period_ms=1000, unit="request")
BUCKET = Limit(amount=10, period_ms=1000, unit="request", kind="paced", burst=15)
PER_PAIR = Limit(amount=1, period_ms=1000, unit="request", category="pair/*", kind="paced")
START_MS = 1_700_000_000_000


def gate_of(*limits: Limit, clock: ManualClock, guard_ms: int = 100) -> LocalGate:
    return LocalGate(clock, limits, acquire_timeout_ms=3_600_000, guard_ms=guard_ms)


async def test_what_fits_goes_at_once() -> None:
    gate: Gate = gate_of(SECOND, clock=ManualClock(START_MS))
    for _ in range(10):
        await gate.acquire(1)


async def test_what_does_not_fit_waits_for_the_next_window() -> None:
    clock = ManualClock(START_MS + 300)
    gate = gate_of(SECOND, clock=clock)
    await gate.acquire(8)
    waiting = asyncio.create_task(gate.acquire(3))

    await clock.advance(0.699)
    assert not waiting.done()
    await clock.advance(0.001)
    assert waiting.done()


async def test_nothing_leaves_in_the_guard_band_at_the_end_of_a_window() -> None:
    clock = ManualClock(START_MS + 900)
    gate = gate_of(SECOND, clock=clock, guard_ms=100)
    waiting = asyncio.create_task(gate.acquire(1))

    await clock.advance(0.099)
    assert not waiting.done()
    await clock.advance(0.001)
    assert waiting.done()


async def test_a_request_is_charged_to_all_limits_or_to_none() -> None:
    clock = ManualClock(START_MS)
    gate = gate_of(SECOND, TEN_SECONDS, REQUESTS, clock=clock)
    for _ in range(4):
        await gate.acquire(2)
    waiting = asyncio.create_task(gate.acquire(1))
    await clock.advance(0)

    assert not waiting.done(), "a fifth request breaks the limit on requests"
    assert gate.used() == {SECOND: 8, TEN_SECONDS: 8, REQUESTS: 4}
    waiting.cancel()


async def test_the_queue_is_served_in_order_and_a_dear_request_is_not_overtaken() -> None:
    clock, order = ManualClock(START_MS), []
    gate = gate_of(SECOND, clock=clock)
    await gate.acquire(9)

    async def ask(name: str, cost: int) -> None:
        await gate.acquire(cost)
        order.append(name)

    tasks = [asyncio.create_task(ask(n, c)) for n, c in (("dear", 10), ("a", 1), ("b", 1))]
    await clock.advance(3)

    assert order == ["dear", "a", "b"]
    assert all(task.done() for task in tasks)


async def test_a_cancelled_waiter_burns_nothing_and_lets_the_next_forward() -> None:
    clock = ManualClock(START_MS)
    gate = gate_of(SECOND, clock=clock)
    await gate.acquire(10)
    tasks = [asyncio.create_task(gate.acquire(5)) for _ in range(4)]
    await clock.advance(0)
    tasks[0].cancel()
    tasks[2].cancel()
    await clock.advance(1)

    assert tasks[1].done()
    assert tasks[3].done()
    assert gate.used()[SECOND] == 10


async def test_a_refund_makes_room_at_once_but_not_in_a_later_window() -> None:
    clock = ManualClock(START_MS)
    gate = gate_of(SECOND, clock=clock)
    early = await gate.acquire(10)
    waiting = asyncio.create_task(gate.acquire(10))
    await clock.advance(0.1)
    early.refund()
    early.refund()
    await clock.advance(0)
    assert waiting.done()

    await clock.advance(1)
    late = waiting.result()
    await gate.acquire(10)
    late.refund()
    assert gate.used()[SECOND] == 10, "that window has gone; its refund must not open this one"


async def test_a_grant_is_settled_once_whatever_is_called_again() -> None:
    gate = gate_of(SECOND, clock=ManualClock(START_MS))
    first, second, third = [await gate.acquire(3) for _ in range(3)]
    first.refund()
    first.refund()
    assert gate.used()[SECOND] == 6, "others' use must not be given back with it"

    second.answered()
    second.refund()
    third.refund()
    third.answered()
    third.refund()
    assert gate.used()[SECOND] == 3


async def test_nothing_is_granted_before_the_exchange_allows_it_again() -> None:
    clock = ManualClock(START_MS)
    gate = gate_of(SECOND, clock=clock)
    gate.block_until(START_MS + 5_500)
    gate.block_until(START_MS + 2_000)
    waiting = asyncio.create_task(gate.acquire(1))

    await clock.advance(5.499)
    assert not waiting.done()
    await clock.advance(0.001)
    assert waiting.done()


async def test_a_block_that_comes_during_the_wait_is_heeded() -> None:
    clock = ManualClock(START_MS)
    gate = gate_of(SECOND, clock=clock)
    grant = await gate.acquire(10)
    waiting = asyncio.create_task(gate.acquire(1))
    await clock.advance(0.5)
    gate.block_until(START_MS + 3_000)

    assert not grant.good(), "paid, but the exchange has said stop since"
    await clock.advance(1)
    assert not waiting.done()
    await clock.advance(1.5)
    assert waiting.done()


async def test_a_request_dearer_than_a_window_is_refused_at_once() -> None:
    gate = gate_of(SECOND, clock=ManualClock(START_MS))
    with pytest.raises(CostExceedsLimit):
        await gate.acquire(11)


async def test_a_limit_lowered_below_the_cost_of_a_waiter_is_an_error_not_a_hang() -> None:
    clock = ManualClock(START_MS)
    gate = gate_of(SECOND, clock=clock)
    await gate.acquire(10)
    waiting = asyncio.create_task(gate.acquire(8))
    await clock.advance(0)
    gate.adopt([Limit(amount=5, period_ms=1000)])
    await clock.advance(0)

    assert isinstance(waiting.exception(), CostExceedsLimit)


async def test_a_wait_beyond_the_timeout_is_refused_with_the_instant_to_come_back() -> None:
    clock = ManualClock(START_MS)
    gate = LocalGate(clock, [SECOND], acquire_timeout_ms=1_500, guard_ms=100)
    tasks = [asyncio.create_task(gate.acquire(10)) for _ in range(2)]
    await clock.advance(0)
    with pytest.raises(RateLimited) as caught:
        await gate.acquire(1)

    assert caught.value.retry_at_ms == START_MS + 2_000
    await clock.advance(1)
    assert all(task.done() for task in tasks)


async def test_what_others_at_this_address_use_is_counted_once_the_exchange_tells() -> None:
    clock = ManualClock(START_MS)
    gate = gate_of(SECOND, clock=clock)
    answered, flying = await gate.acquire(1), await gate.acquire(2)
    answered.answered()
    gate.observe("", used=6, window_ms=1000, at_ms=START_MS)

    assert gate.used()[SECOND] == 8, "six it saw, and two that it may not have seen"
    flying.answered()
    gate.observe("", used=8, window_ms=1000, at_ms=START_MS)
    gate.observe("", used=7, window_ms=1000, at_ms=START_MS)
    assert gate.used()[SECOND] == 8, "answers overtake each other; the highest count stands"


async def test_a_count_of_a_window_that_has_gone_is_ignored() -> None:
    clock = ManualClock(START_MS)
    gate = gate_of(SECOND, clock=clock)
    await clock.advance(1)
    gate.observe("", used=9, window_ms=1000, at_ms=START_MS + 950)
    gate.observe("", used=9, window_ms=60_000, at_ms=START_MS + 1000)
    gate.observe("orders", used=9, window_ms=1000, at_ms=START_MS + 1000)

    assert gate.used()[SECOND] == 0


async def test_windows_turn_by_the_exchanges_clock() -> None:
    clock = ManualClock(START_MS)
    gate = gate_of(SECOND, clock=clock)
    gate.align(offset_ms=400, error_ms=30)
    await gate.acquire(10)
    waiting = asyncio.create_task(gate.acquire(1))

    await clock.advance(0.629)
    assert not waiting.done(), "its new second begins at 600 by this clock, give or take 30"
    await clock.advance(0.001)
    assert waiting.done()


async def test_a_grant_that_could_no_longer_arrive_in_its_window_is_not_good() -> None:
    clock = ManualClock(START_MS + 850)
    gate = gate_of(SECOND, clock=clock, guard_ms=100)
    grant = await gate.acquire(1)

    assert grant.good()
    await clock.advance(0.05)
    assert not grant.good()
    await clock.advance(0.2)
    assert not grant.good(), "open again, but for another window"


async def test_adopted_limits_remember_what_was_spent_before() -> None:
    clock = ManualClock(START_MS)
    gate = gate_of(Limit(amount=6000, period_ms=60_000), clock=clock)
    await gate.acquire(21)
    gate.adopt([Limit(amount=100, period_ms=10_000), Limit(amount=300, period_ms=60_000)])

    assert list(gate.used().values()) == [21, 21]
    await clock.advance(10)
    assert list(gate.used().values()) == [0, 21]


async def test_a_paced_limit_lets_a_burst_go_at_once_and_then_keeps_its_distance() -> None:
    clock, sent_ms = ManualClock(START_MS), list[int]()
    gate = gate_of(BUCKET, clock=clock)

    async def ask() -> None:
        await gate.acquire(1)
        sent_ms.append(clock.now_ms() - START_MS)

    tasks = [asyncio.create_task(ask()) for _ in range(18)]
    await clock.advance(1)

    assert all(task.done() for task in tasks)
    assert sent_ms == [0] * 15 + [100, 200, 300]


async def test_each_pair_has_a_limit_of_its_own_where_the_limit_says_so() -> None:
    clock = ManualClock(START_MS)
    gate = gate_of(Limit(amount=100, period_ms=1000), PER_PAIR, clock=clock)
    for category in ("pair/a", "pair/b", "", "other"):
        await gate.acquire(1, category)
    again = [asyncio.create_task(gate.acquire(1, "pair/a")) for _ in range(2)]
    other = asyncio.create_task(gate.acquire(1, "other"))
    await clock.advance(0.999)
    assert other.done(), "it is counted by the limit on all alone"
    assert not again[0].done()

    await clock.advance(0.001)
    assert (again[0].done(), again[1].done()) == (True, False)
    again[1].cancel()


async def test_the_timeout_behind_a_paced_limit_is_reckoned_for_its_own_category_only() -> None:
    clock = ManualClock(START_MS)
    gate = LocalGate(clock, [PER_PAIR], acquire_timeout_ms=2_500)
    busy = [asyncio.create_task(gate.acquire(1, "pair/a")) for _ in range(3)]
    await clock.advance(0)
    with pytest.raises(RateLimited) as caught:
        await gate.acquire(1, "pair/a")
    assert caught.value.retry_at_ms == START_MS + 3_000
    for _ in range(2):
        busy.append(asyncio.create_task(gate.acquire(1, "pair/b")))

    await clock.advance(2)
    assert all(task.done() for task in busy)


async def test_what_a_paced_limit_lacks_is_remembered_when_limits_are_adopted() -> None:
    clock = ManualClock(START_MS)
    gate = gate_of(BUCKET, PER_PAIR, clock=clock)
    await gate.acquire(1, "pair/a")
    for _ in range(12):
        await gate.acquire(1)
    smaller = Limit(amount=5, period_ms=1000, unit="request", kind="paced", burst=6)
    gate.adopt([smaller, PER_PAIR])

    assert gate.used()[smaller] == 6, "thirteen are missing, so a bucket of six is empty"
    waiting = [asyncio.create_task(gate.acquire(1, name)) for name in ("", "pair/a")]
    await clock.advance(0.999)
    assert (waiting[0].done(), waiting[1].done()) == (True, False)
    await clock.advance(0.001)
    assert waiting[1].done()


async def test_a_paced_limit_ignores_counts_of_windows() -> None:
    gate = gate_of(BUCKET, clock=ManualClock(START_MS))
    gate.observe("", used=15, window_ms=1000, at_ms=START_MS)

    assert gate.used()[BUCKET] == 0


async def test_a_request_dearer_than_a_burst_is_refused_at_once() -> None:
    gate = gate_of(Limit(5, 1000, kind="paced", burst=3), clock=ManualClock(START_MS))
    with pytest.raises(CostExceedsLimit):
        await gate.acquire(4)


@given(
    steps=st.lists(
        st.tuples(
            st.sampled_from([0, 0, 0, 0, 0, 30, -870, -930, -955]),
            st.integers(1, 4) | st.integers(1, 10),
            st.sampled_from([0, 100]),
            st.integers(0, 4).map(lambda n: n == 0),
        ),
        min_size=30,
        max_size=60,
    ),
    offset_ms=st.integers(-2000, 2000),
    wrong_by_ms=st.integers(-40, 40),
    start_ms=st.integers(0, 20_000),
)
async def test_no_window_of_the_exchange_is_ever_overfull(
    steps: list[tuple[int, int, int, bool]], offset_ms: int, wrong_by_ms: int, start_ms: int
) -> None:
    """Every request arrives up to the guard band later, on a clock known to within 40 ms.

    A pause below zero lasts until so late in the exchange's second, where it matters most.
    """
    clock = ManualClock(START_MS + start_ms)
    gate = gate_of(SECOND, TEN_SECONDS, REQUESTS, clock=clock, guard_ms=100)
    gate.align(offset_ms + wrong_by_ms, error_ms=40)
    counts = {limit: Counter[int]() for limit in (SECOND, TEN_SECONDS, REQUESTS)}
    served: list[int] = []

    async def ask(number: int, cost: int, uplink_ms: int) -> None:
        await gate.acquire(cost)
        served.append(number)
        arrives_ms = clock.now_ms() + offset_ms + uplink_ms
        for limit, count in counts.items():
            count[arrives_ms // limit.period_ms] += limit.charge(cost, "")

    tasks = []
    for number, (pause_ms, cost, uplink_ms, cancel) in enumerate(steps):
        tasks.append(asyncio.create_task(ask(number, cost, uplink_ms)))
        late_ms = (-pause_ms - clock.now_ms() - offset_ms) % 1000
        await clock.advance((late_ms if pause_ms < 0 else pause_ms) / 1000)
        if cancel:
            tasks[-1].cancel()
    await clock.advance(200)
    await asyncio.gather(*tasks, return_exceptions=True)

    assert served == sorted(served), "first come, first served"
    assert {n for n, step in enumerate(steps) if not step[3]} <= set(served)
    for limit, count in counts.items():
        assert max(count.values(), default=0) <= limit.amount
