"""Others at the same address: what they use is expected again, and left to them."""

import asyncio
from collections import Counter

import pytest
from tests.connectors.conftest import START_MS

from penstock.clock import ManualClock
from penstock.connectors import ConnectorManager
from penstock.connectors.gate import SharedGate
from penstock.errors import RateLimited
from penstock.storage.state import open_store
from penstock.storage.state.budget import Budget, LeaseRequest, WindowDemand, lease, window_use
from penstock.throttle.gate import Limit

MINUTE_MS = 60_000
LIMIT = Limit(amount=600, period_ms=MINUTE_MS)


class Exchange:
    """It counts everybody at this address together, and refuses what is too much."""

    def __init__(self, clock: ManualClock) -> None:
        self.clock = clock
        self.used, self.refused = Counter[int](), Counter[int]()

    @property
    def window(self) -> int:
        return self.clock.now_ms() // MINUTE_MS

    def receive(self, *, ours: bool) -> bool:
        self.used[self.window] += 1
        is_too_much = self.used[self.window] > LIMIT.amount
        self.refused[self.window] += is_too_much and ours
        return not is_too_much

    async def foreign(self, share: float) -> None:
        pause_s = 60 / (LIMIT.amount * share)
        while True:
            await self.clock.sleep(pause_s)
            if self.used[self.window] < LIMIT.amount:
                self.receive(ours=False)


async def call(gate: SharedGate, exchange: Exchange) -> None:
    clock = exchange.clock
    while True:
        grant = await gate.acquire(1)
        if not grant.good():
            grant.refund()
            continue
        sent_ms = clock.now_ms()
        await clock.sleep(0.02)
        answered = exchange.receive(ours=True)
        used = exchange.used[exchange.window]
        await clock.sleep(0.02)
        grant.answered()
        gate.observe("", used, MINUTE_MS, sent_ms)
        if not answered:
            gate.block_until((clock.now_ms() // MINUTE_MS + 1) * MINUTE_MS)


async def beside(share: float, windows: int, gates: int, callers: int) -> Exchange:
    clock = ManualClock(START_MS - START_MS % MINUTE_MS)
    store = await open_store("memory:", clock=clock)
    await ConnectorManager(store).ensure_connector("binance")
    made = [
        SharedGate(store, "binance", [LIMIT], clock, acquire_timeout_ms=10**9) for _ in range(gates)
    ]
    exchange = Exchange(clock)
    for gate in made:
        gate.align(0, 10)
        gate.adopt([LIMIT])
    tasks = [asyncio.create_task(exchange.foreign(share))]
    tasks += [asyncio.create_task(call(gate, exchange)) for gate in made for _ in range(callers)]
    await clock.advance(60 * windows - 0.001)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    for gate in made:
        await gate.aclose()
    return exchange


def test_what_nobody_here_took_is_counted_and_expected_again() -> None:
    window = WindowDemand("weight", 100, MINUTE_MS, need=10)
    begins_ms = START_MS - START_MS % MINUTE_MS
    number = begins_ms // MINUTE_MS
    budget, _ = lease(Budget(), LeaseRequest((window,)), begins_ms)
    told = WindowDemand("weight", 100, MINUTE_MS, need=0, seen=30, seen_in=number)
    budget, _ = lease(budget, LeaseRequest((told,)), begins_ms + MINUTE_MS // 2)
    use = window_use(budget.uses["weight"])
    assert use is not None
    assert (use.used, use.foreign, use.projected) == (30, 20, 40)

    budget, _ = lease(budget, LeaseRequest((window,)), begins_ms + MINUTE_MS)
    use = window_use(budget.uses["weight"])
    assert use is not None
    assert (use.used, use.foreign, use.expected) == (10, 0, 44)
    assert use.next_expected() == 33, "who is not seen is forgotten slowly"


async def test_a_fleet_is_not_refused_beside_one_who_uses_a_third() -> None:
    exchange = await beside(0.3, windows=3, gates=8, callers=10)
    first = START_MS // MINUTE_MS
    refused = [exchange.refused[first + number] for number in range(3)]
    assert refused[0] <= 1
    assert refused[1:] == [0, 0]
    used = sum(min(count, LIMIT.amount) for count in exchange.used.values())
    assert used >= 0.92 * 3 * LIMIT.amount


async def test_beside_one_who_uses_it_all_the_answer_says_when_to_come_back() -> None:
    clock = ManualClock(START_MS - START_MS % MINUTE_MS)
    store = await open_store("memory:", clock=clock)
    gate = SharedGate(store, "binance", [LIMIT], clock, acquire_timeout_ms=5_000)
    gate.align(0, 10)
    await clock.advance(1)
    (await gate.acquire(1)).answered()
    gate.observe("", LIMIT.amount, MINUTE_MS, clock.now_ms())
    await clock.advance(1)
    asking = asyncio.create_task(gate.acquire(1))
    await clock.advance(6)
    with pytest.raises(RateLimited) as caught:
        await asking
    next_ms = (START_MS // MINUTE_MS + 1) * MINUTE_MS
    assert caught.value.retry_at_ms >= next_ms

    await clock.advance((next_ms - clock.now_ms()) / 1000 + 1)
    dear = asyncio.create_task(gate.acquire(50))
    await clock.advance(0.1)
    assert dear.done(), "the first of a window finds out how it is"
    dear.result().answered()
    gate.observe("", LIMIT.amount, MINUTE_MS, clock.now_ms())
    await clock.advance(0.2)
    second = asyncio.create_task(gate.acquire(1))
    await clock.advance(6)
    assert isinstance(second.exception(), RateLimited)
    await gate.aclose()


def main(gates: int = 8, callers: int = 50, windows: int = 4) -> None:
    """Tell the figures for a whole fleet."""
    exchange = asyncio.run(beside(0.3, windows, gates, callers))
    print("refused", dict(exchange.refused), "used", dict(exchange.used))


if __name__ == "__main__":
    main()
