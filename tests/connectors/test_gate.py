"""The gate on the fleet's budget: several processes, here several gates, never pass a limit."""

import asyncio

import pytest
from tests.connectors.conftest import START_MS

from penstock.clock import ManualClock
from penstock.connectors import ConnectorManager
from penstock.connectors.facts import BudgetReachable, BudgetUnreachable
from penstock.connectors.gate import SharedGate
from penstock.errors import (
    BadCost,
    ConnectorPaused,
    CostExceedsLimit,
    RateLimited,
    StoreUnreachable,
)
from penstock.exchanges.facts import CapacityLow
from penstock.storage.state import Budget, LeaseRequest, StateStore
from penstock.storage.state.budget import LeaseReply as Leased
from penstock.storage.state.memory import MemoryBackend
from penstock.storage.state.schema import SCHEMA
from penstock.telemetry import Fact
from penstock.throttle.gate import Gate, GateGrant, Limit

MINUTE = Limit(amount=600, period_ms=60_000)
SECOND = Limit(amount=10, period_ms=1_000)
REQUESTS = Limit(amount=200, period_ms=60_000, unit="request")
BUCKET = Limit(amount=10, period_ms=1_000, unit="request", kind="paced", burst=3)
PER_PAIR = Limit(amount=1, period_ms=1_000, unit="request", category="pair/*", kind="paced")


class CountingBackend(MemoryBackend):
    """A store in memory that counts what it is asked, and can be away."""

    is_away = False
    leases = 0
    reads = 0

    async def lease(self, key: str, ask: LeaseRequest) -> Leased | None:
        self._answer()
        self.leases += 1
        return await super().lease(key, ask)

    async def budget(self, key: str) -> Budget:
        self._answer()
        self.reads += 1
        return await super().budget(key)

    def _answer(self) -> None:
        if self.is_away:
            raise StoreUnreachable("memory:", "away")


@pytest.fixture
async def backend(clock: ManualClock) -> CountingBackend:
    backend = CountingBackend(clock)
    await backend.prepare(SCHEMA)
    return backend


@pytest.fixture
def store(backend: CountingBackend) -> StateStore:
    return StateStore(backend, 10.0)


async def gates_on(
    store: StateStore,
    clock: ManualClock,
    *limits: Limit,
    count: int = 2,
    acquire_timeout_ms: int = 3_600_000,
    facts: list[Fact] | None = None,
) -> list[SharedGate]:
    """Gates of one connector that knows these limits alone, and the exchange's clock exactly."""
    manager = ConnectorManager(store)
    await manager.ensure_connector("binance")
    gates = [
        SharedGate(
            store, "binance", limits, clock, acquire_timeout_ms=acquire_timeout_ms, guard_ms=100,
            listener=([] if facts is None else facts).append,
        )
        for _ in range(count)
    ]  # fmt: skip
    for gate in gates:
        gate.align(0, 0)
        gate.adopt(limits)
    # A window opens when, by all that is known of three clocks, it surely has begun.
    await clock.advance(0.005)
    return gates


async def soon(clock: ManualClock, grant: asyncio.Task[GateGrant], seconds: float = 0.0) -> bool:
    await clock.advance(seconds)
    return grant.done()


async def test_what_fits_goes_at_once_and_mostly_from_one_lease(
    store: StateStore, clock: ManualClock, backend: CountingBackend
) -> None:
    gate: Gate = (await gates_on(store, clock, MINUTE, REQUESTS, count=1))[0]
    backend.leases = 0
    tasks = [asyncio.create_task(gate.acquire(2)) for _ in range(12)]
    await clock.advance(0)

    assert all(task.done() for task in tasks)
    assert backend.leases == 1
    assert all(task.result().good() for task in tasks)


async def test_blocks_grow_while_a_process_comes_back_and_stay_below_their_share(
    store: StateStore, clock: ManualClock, backend: CountingBackend
) -> None:
    (gate,) = await gates_on(store, clock, MINUTE, count=1)
    backend.leases, sizes = 0, []
    for _ in range(200):
        (await gate.acquire(1)).good()
        taken = (await store.budget("binance")).uses["weight/60000"][1]
        sizes.append(taken)

    blocks = [after - before for before, after in zip([0, *sizes], sizes, strict=False)]
    grown = [block for block in blocks if block]
    assert grown[:5] == [1, 2, 4, 8, 14]
    assert max(grown) <= 0.025 * 600
    assert sizes[-1] <= 200 + 15, "little more is held than was used"


async def test_processes_share_one_budget_and_the_rest_waits_for_the_next_window(
    store: StateStore, clock: ManualClock
) -> None:
    gates = await gates_on(store, clock, MINUTE, count=4)
    tasks = [asyncio.create_task(gate.acquire(5)) for gate in gates for _ in range(55)]
    await clock.advance(1)
    granted = sum(task.done() for task in tasks)

    assert 116 <= granted <= 120, "all 600 but for what is too little for a request, and no more"
    await clock.advance(57)
    assert sum(task.done() for task in tasks) == granted
    await clock.advance(3)
    assert all(task.done() for task in tasks)


async def test_nothing_leaves_in_the_guard_band_and_old_tokens_die_there(
    store: StateStore, clock: ManualClock
) -> None:
    (gate,) = await gates_on(store, clock, MINUTE, count=1)
    tasks = [asyncio.create_task(gate.acquire(1)) for _ in range(3)]
    await clock.advance(0)
    early, late = tasks[0].result(), tasks[1].result()
    assert early.good()
    await clock.advance(59.95)
    assert not late.good()
    late.refund()
    waiting = asyncio.create_task(gate.acquire(1))
    assert not await soon(clock, waiting, 0.04)
    assert await soon(clock, waiting, 0.02)
    assert waiting.result().good()


async def test_short_windows_are_leased_as_needed(
    store: StateStore, clock: ManualClock, backend: CountingBackend
) -> None:
    gates = await gates_on(store, clock, SECOND, count=2)
    tasks = [asyncio.create_task(gate.acquire(1)) for gate in gates for _ in range(15)]
    await clock.advance(0.5)
    assert sum(task.done() for task in tasks) == 10
    await clock.advance(2.5)
    assert all(task.done() for task in tasks)


async def test_paced_limits_hand_out_instants(store: StateStore, clock: ManualClock) -> None:
    gates, sent_ms = await gates_on(store, clock, BUCKET, count=3), list[float]()

    async def ask(gate: SharedGate) -> None:
        grant = await gate.acquire(1)
        assert grant.good()
        sent_ms.append(clock.now_ms() - START_MS - 5)

    tasks = [asyncio.create_task(ask(gate)) for gate in gates for _ in range(10)]
    await clock.advance(4)
    await asyncio.gather(*tasks)

    assert sent_ms[:3] == [0, 0, 0]
    assert sorted(sent_ms) == sent_ms
    assert sent_ms[3:] == [100 * number for number in range(1, 28)]


async def test_each_pair_is_paced_for_itself(store: StateStore, clock: ManualClock) -> None:
    one, other = await gates_on(store, clock, PER_PAIR)
    tasks = [
        asyncio.create_task(gate.acquire(1, category))
        for gate in (one, other)
        for category in ("pair/a", "pair/b", "pair/c")
    ]
    await clock.advance(0.5)
    assert [task.done() for task in tasks] == [True] * 3 + [False] * 3
    await clock.advance(0.51)
    assert all(task.done() for task in tasks)


async def test_a_cancelled_waiter_leaves_its_instant_to_the_next(
    store: StateStore, clock: ManualClock
) -> None:
    (gate,) = await gates_on(store, clock, PER_PAIR, count=1)
    tasks = [asyncio.create_task(gate.acquire(1, "pair/a")) for _ in range(3)]
    await clock.advance(0.5)
    assert [task.done() for task in tasks] == [True, False, False]
    tasks[1].cancel()

    assert await soon(clock, tasks[2], 0.51)


async def test_a_request_is_charged_to_all_limits_or_to_none(
    store: StateStore, clock: ManualClock
) -> None:
    tight = Limit(amount=4, period_ms=60_000, unit="request")
    (gate,) = await gates_on(store, clock, MINUTE, tight, count=1)
    tasks = [asyncio.create_task(gate.acquire(7)) for _ in range(6)]
    await clock.advance(1)
    assert sum(task.done() for task in tasks) == 4

    connector = await ConnectorManager(store).get("binance")
    assert [limit.used for limit in connector.limits][1] == 4
    for task in tasks:
        task.cancel()


async def test_the_queue_is_served_in_order_and_a_dear_request_is_not_overtaken(
    store: StateStore, clock: ManualClock
) -> None:
    (gate,), order = await gates_on(store, clock, SECOND, count=1), []

    async def ask(name: str, cost: int) -> None:
        await gate.acquire(cost)
        order.append(name)

    asking = (("first", 3), ("dear", 10), ("a", 1), ("b", 1))
    tasks = [asyncio.create_task(ask(name, cost)) for name, cost in asking]
    await clock.advance(3)

    assert order == ["first", "dear", "a", "b"]
    assert all(task.done() for task in tasks)


async def test_a_busy_category_holds_up_no_other(store: StateStore, clock: ManualClock) -> None:
    limits = [Limit(amount=1, period_ms=60_000, category=name) for name in ("a", "b")]
    (gate,) = await gates_on(store, clock, *limits, count=1)
    busy = [asyncio.create_task(gate.acquire(1, "a")) for _ in range(2)]
    await clock.advance(0)
    other = asyncio.create_task(gate.acquire(1, "b"))

    assert await soon(clock, other)
    assert [task.done() for task in busy] == [True, False]
    busy[1].cancel()


async def test_categories_that_share_a_limit_do_not_overtake_each_other_on_it(
    store: StateStore, clock: ManualClock
) -> None:
    (gate,) = await gates_on(store, clock, SECOND, count=1)
    await gate.acquire(8)
    dear = asyncio.create_task(gate.acquire(5, "a"))
    await clock.advance(0)
    cheap = asyncio.create_task(gate.acquire(1, "b"))

    assert not await soon(clock, cheap, 0.5), "there is room for it, but it came later"
    assert await soon(clock, cheap, 0.6)
    assert dear.done()


async def test_cancelled_waiters_cost_nothing(store: StateStore, clock: ManualClock) -> None:
    (gate,) = await gates_on(store, clock, SECOND, count=1)
    await gate.acquire(10)
    tasks = [asyncio.create_task(gate.acquire(5)) for _ in range(4)]
    await clock.advance(0)
    tasks[0].cancel()
    tasks[2].cancel()
    await clock.advance(1.1)

    assert tasks[1].done()
    assert tasks[3].done()


async def test_a_waiter_cancelled_in_the_moment_of_its_grant_gives_back(
    store: StateStore, clock: ManualClock
) -> None:
    (gate,) = await gates_on(store, clock, Limit(amount=1, period_ms=60_000), count=1)
    waiting = asyncio.create_task(gate.acquire(1))
    await asyncio.sleep(0)
    future = gate._queues[""].waiters[0].future
    for _ in range(20):
        if future.done():
            break
        await asyncio.sleep(0)
    assert waiting.cancel(), "it is granted, but it does not know yet"
    with pytest.raises(asyncio.CancelledError):
        await waiting

    assert (await gate.acquire(1)).good()


async def test_a_refund_makes_room_here_but_never_in_a_later_window(
    store: StateStore, clock: ManualClock
) -> None:
    (gate,) = await gates_on(store, clock, SECOND, count=1)
    early = await gate.acquire(10)
    waiting = asyncio.create_task(gate.acquire(10))
    await clock.advance(0.1)
    early.refund()
    early.refund()
    assert await soon(clock, waiting)

    await clock.advance(1)
    assert (await gate.acquire(10)).good()
    waiting.result().refund()
    another = asyncio.create_task(gate.acquire(1))
    assert not await soon(clock, another, 0.5)
    another.cancel()


async def test_a_stop_reaches_every_process_before_it_sends_again(
    store: StateStore, clock: ManualClock, backend: CountingBackend
) -> None:
    told, other = await gates_on(store, clock, MINUTE)
    held = [asyncio.create_task(other.acquire(1)) for _ in range(5)]
    await clock.advance(0)
    told.block_until(START_MS + 20_000)
    await clock.advance(0.03)

    assert not any(task.result().good() for task in held), "paid, but somebody was told to stop"
    waiting = asyncio.create_task(other.acquire(1))
    await clock.advance(0.01)
    backend.leases = 0
    assert not await soon(clock, waiting, 19.95)
    assert backend.leases == 0, "nobody asks for what cannot be had"
    assert await soon(clock, waiting, 0.02)
    assert waiting.result().good()


async def test_tokens_are_not_spent_on_old_knowledge(
    store: StateStore, clock: ManualClock, backend: CountingBackend
) -> None:
    (gate,) = await gates_on(store, clock, MINUTE, count=1)
    tasks = [asyncio.create_task(gate.acquire(1)) for _ in range(4)]
    await clock.advance(0)
    for task in tasks:
        assert task.result().good()
    await clock.advance(5)
    await store.lease("binance", LeaseRequest(blocked_until_ms=clock.now_ms() + 1_000))
    waiting = asyncio.create_task(gate.acquire(1))

    assert not await soon(clock, waiting, 0.99)
    assert await soon(clock, waiting, 0.02)


async def test_a_stop_longer_than_the_timeout_is_told_at_once(
    store: StateStore, clock: ManualClock
) -> None:
    (gate,) = await gates_on(store, clock, MINUTE, count=1, acquire_timeout_ms=5_000)
    gate.block_until(START_MS + 60_000)
    with pytest.raises(RateLimited) as caught:
        await gate.acquire(1)
    assert 0 <= caught.value.retry_at_ms - START_MS - 60_000 <= 2


async def test_a_wait_beyond_the_timeout_is_refused_with_the_instant_to_come_back(
    store: StateStore, clock: ManualClock
) -> None:
    (gate,) = await gates_on(store, clock, MINUTE, count=1, acquire_timeout_ms=30_000)
    while True:
        task = asyncio.create_task(gate.acquire(50))
        await clock.advance(0)
        if task.done() and task.exception():
            break
    error = task.exception()
    assert isinstance(error, RateLimited)
    assert START_MS + 60_000 <= error.retry_at_ms <= START_MS + 60_010
    assert (await store.budget("binance")).uses["weight/60000"][1] == 600


async def test_who_waits_longer_than_the_timeout_is_sent_away(
    store: StateStore, clock: ManualClock
) -> None:
    (gate,) = await gates_on(store, clock, SECOND, count=1, acquire_timeout_ms=1_500)
    tasks = [asyncio.create_task(gate.acquire(10)) for _ in range(4)]
    await clock.advance(1.6)

    assert [task.exception() is None for task in tasks] == [True, True, False, False]


async def test_what_could_never_go_is_refused_at_once(
    store: StateStore, clock: ManualClock
) -> None:
    (gate,) = await gates_on(store, clock, SECOND, count=1)
    for _ in range(2):
        with pytest.raises(CostExceedsLimit):
            await gate.acquire(11)
    with pytest.raises(BadCost):
        await gate.acquire(0)


async def test_a_pause_stops_every_process_until_it_is_resumed(
    store: StateStore, clock: ManualClock
) -> None:
    manager = ConnectorManager(store)
    one, other = await gates_on(store, clock, SECOND)
    grant = await one.acquire(10)
    waiting = asyncio.create_task(other.acquire(1))
    await clock.advance(0)
    await manager.pause_connector("binance")
    await clock.advance(1.1)

    assert isinstance(waiting.exception(), ConnectorPaused)
    assert not grant.good()
    grant.refund()
    for gate in (one, other):
        with pytest.raises(ConnectorPaused):
            await gate.acquire(1)
    await manager.resume_connector("binance")
    await clock.advance(0.2)
    assert (await one.acquire(1)).good()


async def test_what_was_paid_before_a_pause_does_not_leave_in_it(
    store: StateStore, clock: ManualClock
) -> None:
    (gate,) = await gates_on(store, clock, MINUTE, count=1)
    grant = await gate.acquire(1)
    await ConnectorManager(store).pause_connector("binance")
    await clock.advance(0.2)

    assert not grant.good()


async def test_without_a_connector_all_pay_from_one_budget_nevertheless(
    store: StateStore, clock: ManualClock
) -> None:
    one, other = (
        SharedGate(store, "nowhere", [MINUTE], clock, acquire_timeout_ms=1) for _ in range(2)
    )
    await clock.advance(1.0)
    await one.acquire(MINUTE.amount)

    with pytest.raises(RateLimited):
        await other.acquire(1)


async def test_an_unreachable_store_fails_closed_is_told_once_and_recovers(
    store: StateStore, clock: ManualClock, backend: CountingBackend
) -> None:
    facts: list[Fact] = []
    (gate,) = await gates_on(store, clock, MINUTE, count=1, facts=facts)
    grants = [asyncio.create_task(gate.acquire(1)) for _ in range(4)]
    await clock.advance(0)
    assert grants[0].result().good()
    backend.is_away = True
    await clock.advance(0.3)

    assert not grants[1].result().good(), "nobody knows whether somebody was told to stop"
    for _ in range(3):
        with pytest.raises(StoreUnreachable):
            await gate.acquire(1)
        await clock.advance(1)
    assert [type(fact) for fact in facts] == [BudgetUnreachable]
    backend.is_away = False
    assert (await gate.acquire(1)).good()
    assert [type(fact) for fact in facts] == [BudgetUnreachable, BudgetReachable]


async def test_a_stop_is_told_again_until_the_store_has_heard_it(
    store: StateStore, clock: ManualClock, backend: CountingBackend
) -> None:
    told, other = await gates_on(store, clock, MINUTE)
    backend.is_away = True
    told.block_until(START_MS + 20_000)
    await clock.advance(3)
    backend.is_away = False
    await clock.advance(1)

    waiting = asyncio.create_task(other.acquire(1))
    assert not await soon(clock, waiting, 15.9)
    assert await soon(clock, waiting, 0.2)


async def test_foreign_usage_that_the_exchange_counts_leaves_less_for_everybody(
    store: StateStore, clock: ManualClock
) -> None:
    one, other = await gates_on(store, clock, MINUTE)
    (await one.acquire(1)).answered()
    one.observe("", used=590, window_ms=60_000, at_ms=START_MS)
    await clock.advance(0)
    tasks = [asyncio.create_task(gate.acquire(1)) for gate in (one, other) for _ in range(20)]
    await clock.advance(1)

    assert sum(task.done() for task in tasks) <= 10
    connector = await ConnectorManager(store).get("binance")
    assert connector.limits[0].server_used == 590
    for task in tasks:
        task.cancel()


async def test_what_is_held_is_worth_no_more_than_the_exchange_leaves(
    store: StateStore, clock: ManualClock
) -> None:
    (gate,) = await gates_on(store, clock, MINUTE, count=1)
    tasks = [asyncio.create_task(gate.acquire(1)) for _ in range(30)]
    await clock.advance(0)
    for task in tasks:
        task.result().refund()
    gate.observe("", used=597, window_ms=60_000, at_ms=START_MS)
    tasks = [asyncio.create_task(gate.acquire(1)) for _ in range(30)]
    await clock.advance(1)

    assert sum(task.done() for task in tasks) == 3
    for task in tasks:
        task.cancel()


async def test_counts_of_other_windows_and_of_windows_that_have_gone_are_ignored(
    store: StateStore, clock: ManualClock
) -> None:
    (gate,) = await gates_on(store, clock, SECOND, count=1)
    await clock.advance(1)
    gate.observe("", used=10, window_ms=1_000, at_ms=START_MS + 950)
    gate.observe("", used=10, window_ms=5_000, at_ms=START_MS + 1_000)
    gate.observe("orders", used=10, window_ms=1_000, at_ms=START_MS + 1_000)

    assert (await gate.acquire(10)).good()


async def test_announced_limits_reach_every_process_and_a_smaller_one_is_kept_at_once(
    store: StateStore, clock: ManualClock
) -> None:
    one, other = await gates_on(store, clock, MINUTE)
    tasks = [asyncio.create_task(gate.acquire(1)) for gate in (one, other) for _ in range(20)]
    await clock.advance(0)
    for task in tasks:
        task.result().answered()
    one.adopt([Limit(amount=50, period_ms=60_000)])
    await clock.advance(0.2)

    connector = await ConnectorManager(store).get("binance")
    assert [limit.amount for limit in connector.limits] == [50]
    tasks = [asyncio.create_task(gate.acquire(1)) for gate in (one, other) for _ in range(20)]
    await clock.advance(1)
    assert sum(task.done() for task in tasks) <= 10
    with pytest.raises(CostExceedsLimit):
        await other.acquire(51)
    for task in tasks:
        task.cancel()


async def test_a_limit_lowered_below_the_cost_of_a_waiter_is_an_error_not_a_hang(
    store: StateStore, clock: ManualClock
) -> None:
    one, other = await gates_on(store, clock, SECOND)
    await one.acquire(10)
    waiting = asyncio.create_task(other.acquire(8))
    await clock.advance(0)
    one.adopt([Limit(amount=5, period_ms=1_000)])
    await clock.advance(2)

    assert isinstance(waiting.exception(), CostExceedsLimit)


async def test_windows_of_another_length_remember_what_was_spent_before(
    store: StateStore, clock: ManualClock
) -> None:
    one, other = await gates_on(store, clock, MINUTE)
    (await one.acquire(21)).answered()
    await clock.advance(0.05)
    (await one.acquire(1)).answered()
    one.adopt([Limit(amount=100, period_ms=10_000)])
    await clock.advance(0.2)
    tasks = [asyncio.create_task(other.acquire(1)) for _ in range(100)]
    await clock.advance(5)

    assert sum(task.done() for task in tasks) <= 100 - 21
    for task in tasks:
        task.cancel()


async def test_an_operators_limit_is_not_raised_by_an_announcement(
    store: StateStore, clock: ManualClock
) -> None:
    (gate,) = await gates_on(store, clock, MINUTE, count=1)
    manager = ConnectorManager(store)
    await manager.edit("binance", version=None, limits=[Limit(amount=20, period_ms=60_000)])
    await clock.advance(0.2)
    (await gate.acquire(1)).answered()
    gate.adopt([Limit(amount=1200, period_ms=60_000)])
    await clock.advance(0.2)

    with pytest.raises(CostExceedsLimit):
        await gate.acquire(21)
    assert (await manager.get("binance")).rate_limit == 20


async def test_the_connector_shows_how_far_the_exchanges_clock_is_ahead(
    store: StateStore, clock: ManualClock
) -> None:
    (gate,) = await gates_on(store, clock, MINUTE, count=1)
    (await gate.acquire(1)).answered()
    await clock.advance(11)
    gate.align(offset_ms=3_000, error_ms=5)
    await clock.advance(0)

    shown = (await ConnectorManager(store).get("binance")).exchange_offset_ms
    assert abs(shown - 3_000) <= 1


async def test_windows_turn_by_the_exchanges_clock(store: StateStore, clock: ManualClock) -> None:
    (gate,) = await gates_on(store, clock, SECOND, count=1)
    gate.align(offset_ms=400, error_ms=30)
    await gate.acquire(10)
    waiting = asyncio.create_task(gate.acquire(1))

    assert not await soon(clock, waiting, 0.62), "its second begins at 600 here, give or take 30"
    assert await soon(clock, waiting, 0.02)


async def test_low_capacity_is_told_once_per_window(store: StateStore, clock: ManualClock) -> None:
    facts: list[Fact] = []
    (gate,) = await gates_on(store, clock, SECOND, count=1, facts=facts)
    for _ in range(3):
        for _ in range(8):
            (await gate.acquire(1)).answered()
        await clock.advance(0.03)
        (await gate.acquire(1)).answered()
        await clock.advance(0.97)

    told = [fact for fact in facts if isinstance(fact, CapacityLow)]
    assert len(told) == 3
    assert told[0].timeframe == "1000ms"


async def test_use_is_that_of_the_whole_fleet(store: StateStore, clock: ManualClock) -> None:
    one, other = await gates_on(store, clock, SECOND)
    (await one.acquire(3)).answered()
    (await other.acquire(4)).answered()
    await clock.advance(0.03)
    (await one.acquire(1)).answered()

    assert one.used() == {SECOND: 7}, "when the store was last asked"
    await clock.advance(1)
    assert one.used() == {SECOND: 0}
