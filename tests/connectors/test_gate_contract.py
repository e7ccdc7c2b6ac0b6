"""What callers of a gate rely on, whether usage is kept in this process or in a shared store."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from penstock.clock import ManualClock
from penstock.connectors.gate import SharedGate
from penstock.errors import BadCost, CostExceedsLimit, RateLimited
from penstock.storage.state import StateStore
from penstock.throttle.gate import Gate, GateGrant, Limit
from penstock.throttle.local_gate import LocalGate

MINUTE = Limit(amount=100, period_ms=60_000)
REQUESTS = Limit(amount=3, period_ms=60_000, unit="request")
CANDLES = Limit(amount=50, period_ms=60_000, category="candle")
BUCKET = Limit(amount=10, period_ms=1_000, unit="request", kind="paced", burst=3)
PER_PAIR = Limit(amount=1, period_ms=1_000, unit="request", category="pair/*", kind="paced")

MakeGate = Callable[..., Awaitable[Gate]]


@pytest.fixture(params=["local", "shared"])
async def gate_of(
    request: pytest.FixtureRequest, store: StateStore, clock: ManualClock
) -> AsyncIterator[MakeGate]:
    shared: list[SharedGate] = []

    async def make(*limits: Limit, acquire_timeout_ms: int = 3_600_000) -> Gate:
        gate: Gate
        if request.param == "local":
            gate = LocalGate(clock, limits, acquire_timeout_ms=acquire_timeout_ms, guard_ms=100)
        else:
            shared.append(
                gate := SharedGate(
                    store, "any", limits, clock, acquire_timeout_ms=acquire_timeout_ms, guard_ms=100
                )
            )
        gate.align(0, 0)
        # A window opens when, by all that is known of three clocks, it surely has begun.
        await clock.advance(0.005)
        return gate

    yield make
    for gate in shared:
        await gate.aclose()


class Waiting:
    """Requests that wait at a gate."""

    def __init__(self, gate: Gate, clock: ManualClock) -> None:
        self._gate, self._clock = gate, clock

    async def asks(self, cost: int, category: str = "") -> asyncio.Task[GateGrant]:
        task = asyncio.create_task(self._wait(cost, category))
        await self._clock.advance(0)
        return task

    async def _wait(self, cost: int, category: str) -> GateGrant:
        return await self._gate.acquire(cost, category)


async def test_what_fits_goes_at_once_and_the_rest_in_the_next_window(
    gate_of: MakeGate, clock: ManualClock
) -> None:
    waiting = Waiting(await gate_of(MINUTE), clock)
    first, second, third = [await waiting.asks(cost) for cost in (60, 40, 1)]
    await clock.advance(0.5)

    assert (first.done(), second.done(), third.done()) == (True, True, False)
    await clock.advance(61)
    assert third.done()
    assert third.result().good()


async def test_a_request_is_charged_to_every_limit_that_counts_it_or_to_none(
    gate_of: MakeGate, clock: ManualClock
) -> None:
    gate = await gate_of(MINUTE, REQUESTS)
    waiting = Waiting(gate, clock)
    tasks = [await waiting.asks(10) for _ in range(4)]
    await clock.advance(0.5)

    assert [task.done() for task in tasks] == [True, True, True, False]
    assert gate.used()[REQUESTS] == 3
    tasks[3].cancel()
    await clock.advance(0.5)
    assert gate.used()[MINUTE] >= 30


async def test_a_cheap_request_does_not_overtake_an_expensive_one(
    gate_of: MakeGate, clock: ManualClock
) -> None:
    waiting = Waiting(await gate_of(MINUTE), clock)
    _, expensive, cheap = [await waiting.asks(cost) for cost in (60, 50, 1)]
    await clock.advance(0.5)

    assert not expensive.done()
    assert not cheap.done()


async def test_a_full_category_delays_no_other(gate_of: MakeGate, clock: ManualClock) -> None:
    waiting = Waiting(await gate_of(CANDLES, Limit(50, 60_000, category="trade")), clock)
    _, late = [await waiting.asks(cost, "candle") for cost in (50, 1)]
    other = await waiting.asks(50, "trade")
    await clock.advance(0.5)

    assert not late.done()
    assert other.done()


async def test_a_cancelled_request_spends_nothing_and_lets_the_next_go(
    gate_of: MakeGate, clock: ManualClock
) -> None:
    waiting = Waiting(await gate_of(MINUTE), clock)
    _, expensive, cheap = [await waiting.asks(cost) for cost in (60, 50, 1)]
    expensive.cancel()
    await clock.advance(0.5)

    assert cheap.done()
    assert not cheap.cancelled()


async def test_a_refund_is_for_others_to_spend_and_counts_once(
    gate_of: MakeGate, clock: ManualClock
) -> None:
    waiting = Waiting(await gate_of(MINUTE), clock)
    whole, late, later = [await waiting.asks(cost) for cost in (100, 60, 60)]
    whole.result().refund()
    whole.result().refund()
    await clock.advance(0.5)

    assert late.done()
    assert not later.done()


async def test_nothing_is_granted_while_the_exchange_orders_a_stop(
    gate_of: MakeGate, clock: ManualClock
) -> None:
    gate = await gate_of(MINUTE)
    waiting = Waiting(gate, clock)
    before = await waiting.asks(1)
    gate.block_until(clock.now_ms() + 5_000)
    during = await waiting.asks(1)
    await clock.advance(4.9)

    assert not before.result().good()
    assert not during.done()
    await clock.advance(0.2)
    assert during.done()


async def test_a_wait_that_would_be_too_long_is_refused_with_its_end(
    gate_of: MakeGate, clock: ManualClock
) -> None:
    waiting = Waiting(await gate_of(MINUTE, acquire_timeout_ms=5_000), clock)
    _, late = [await waiting.asks(cost) for cost in (100, 1)]
    await clock.advance(6)

    with pytest.raises(RateLimited) as refused:
        await late
    assert refused.value.retry_at_ms >= clock.now_ms() - 6_000 + 55_000


async def test_a_cost_that_never_fits_is_refused_at_once(
    gate_of: MakeGate, clock: ManualClock
) -> None:
    gate = await gate_of(MINUTE)
    waiting = Waiting(gate, clock)
    await waiting.asks(1)

    for cost, error in ((101, CostExceedsLimit), (0, BadCost)):
        with pytest.raises(error):
            await gate.acquire(cost)


async def test_the_exchanges_own_count_leaves_less(gate_of: MakeGate, clock: ManualClock) -> None:
    gate = await gate_of(MINUTE)
    waiting = Waiting(gate, clock)
    grant = (await waiting.asks(1)).result()
    grant.answered()
    gate.observe("", 90, MINUTE.period_ms, clock.now_ms())
    late = await waiting.asks(20)
    await clock.advance(0.5)

    assert not late.done()


async def test_a_lower_limit_counts_what_was_used_before(
    gate_of: MakeGate, clock: ManualClock
) -> None:
    gate = await gate_of(MINUTE)
    waiting = Waiting(gate, clock)
    await waiting.asks(60)
    gate.adopt([Limit(amount=70, period_ms=60_000)])
    late = await waiting.asks(20)
    await clock.advance(0.5)

    assert not late.done()


async def test_a_paced_limit_spaces_requests_after_its_burst(
    gate_of: MakeGate, clock: ManualClock
) -> None:
    waiting = Waiting(await gate_of(BUCKET), clock)
    tasks = [await waiting.asks(1) for _ in range(5)]
    await clock.advance(0.01)
    at_once = sum(task.done() for task in tasks)
    await clock.advance(0.3)

    assert at_once == 3
    assert all(task.done() for task in tasks)


async def test_each_pair_has_a_limit_of_its_own(gate_of: MakeGate, clock: ManualClock) -> None:
    waiting = Waiting(await gate_of(PER_PAIR), clock)
    one, again = [await waiting.asks(1, "pair/a") for _ in range(2)]
    other = await waiting.asks(1, "pair/b")
    await clock.advance(0.01)

    assert (one.done(), again.done(), other.done()) == (True, False, True)
