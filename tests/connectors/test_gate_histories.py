"""Random histories of several gates on one budget: no window the exchange counts is overfull."""

import asyncio
from collections import Counter
from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.connectors.conftest import START_MS

from penstock.clock import ManualClock
from penstock.connectors import ConnectorManager
from penstock.connectors.gate import BLOCK_CHECK_MS, SharedGate
from penstock.errors import RateLimited
from penstock.storage.state import StateStore, open_store
from penstock.throttle.gate import Limit

LONG = Limit(amount=40, period_ms=10_000)
SHORT = Limit(amount=12, period_ms=1_000)
REQUESTS = Limit(amount=6, period_ms=1_000, unit="request")
PACED = Limit(amount=5, period_ms=1_000, unit="request", category="pair/*", kind="paced", burst=2)
LIMITS = (LONG, SHORT, REQUESTS, PACED)
GUARD_MS, ERROR_MS, GATES = 100, 40, 3

STEP = st.tuples(
    st.integers(0, GATES - 1),
    st.sampled_from([0, 0, 0, 0, 7, 40, 400, -900, -960]),
    st.integers(1, 4) | st.integers(1, 12),
    st.sampled_from(["", "", "pair/a", "pair/b"]),
    st.sampled_from(["send", "send", "send", "cancel", "refund", "late", "foreign", "block"]),
)


@dataclass
class Exchange:
    """What an exchange counts, on a clock that penstock knows within 40 ms."""

    clock: ManualClock
    ahead_ms: int
    counts: dict[Limit, Counter[int]] = field(default_factory=dict)
    sent: list[tuple[int, str]] = field(default_factory=list)
    stop_ms: list[tuple[int, int]] = field(default_factory=list)

    def receive(self, cost: int, category: str, uplink_ms: int) -> None:
        self.sent.append((self.clock.now_ms(), category))
        arrives_ms = self.clock.now_ms() + self.ahead_ms + uplink_ms
        for limit in (LONG, SHORT, REQUESTS):
            count = self.counts.setdefault(limit, Counter())
            count[arrives_ms // limit.period_ms] += limit.charge(cost, category)

    def used(self, limit: Limit) -> int:
        window = (self.clock.now_ms() + self.ahead_ms) // limit.period_ms
        return self.counts.get(limit, Counter())[window]


async def ask(gate: SharedGate, exchange: Exchange, cost: int, category: str, what: str) -> None:
    """What a gateway does: pay, connect, look again, send, and tell what the answer says."""
    while True:
        grant = await gate.acquire(cost, category)
        if what == "refund":
            grant.refund()
            return
        await exchange.clock.sleep(0.15 if what == "late" else 0)
        if grant.good():
            break
        grant.refund()
    sent_ms = exchange.clock.now_ms()
    exchange.receive(cost, category, GUARD_MS if what == "late" else 0)
    await exchange.clock.sleep(0.02)
    grant.answered()
    for limit in (LONG, SHORT):
        gate.observe("", exchange.used(limit), limit.period_ms, sent_ms)
    if what == "block":
        until_ms = exchange.clock.now_ms() + 1_700
        exchange.stop_ms.append((exchange.clock.now_ms(), until_ms))
        gate.block_until(until_ms)


async def gates_on(store: StateStore, clock: ManualClock, offset_ms: int) -> list[SharedGate]:
    await ConnectorManager(store).ensure_connector("binance")
    gates = [
        SharedGate(store, "binance", LIMITS, clock, guard_ms=GUARD_MS, acquire_timeout_ms=3_600_000)
        for _ in range(GATES)
    ]
    for gate in gates:
        gate.align(offset_ms, ERROR_MS)
        gate.adopt(LIMITS)
    await clock.advance(0.2)
    return gates


@settings(max_examples=20, deadline=None)
@given(
    steps=st.lists(STEP, min_size=20, max_size=50),
    offset_ms=st.integers(-2_000, 2_000),
    wrong_by_ms=st.integers(-ERROR_MS, ERROR_MS),
)
async def test_no_window_is_ever_overfull_and_nobody_sends_once_told_to_stop(
    steps: list[tuple[int, int, int, str, str]], offset_ms: int, wrong_by_ms: int
) -> None:
    """A pause below zero lasts until so late in the exchange's second, where it matters most."""
    clock = ManualClock(START_MS)
    store = await open_store("memory:", clock=clock)
    gates = await gates_on(store, clock, offset_ms + wrong_by_ms)
    exchange = Exchange(clock, offset_ms)
    tasks = []
    for number, pause_ms, cost, category, what in steps:
        task = asyncio.create_task(ask(gates[number], exchange, cost, category, what))
        tasks.append(task)
        late_ms = (-pause_ms - clock.now_ms() - offset_ms) % 1000
        await clock.advance((late_ms if pause_ms < 0 else pause_ms) / 1000)
        if what == "cancel":
            task.cancel()
        if what == "foreign" and exchange.used(SHORT) < SHORT.amount - 4 * GATES:
            gates[number].observe("", exchange.used(SHORT) + 1, SHORT.period_ms, clock.now_ms())
    await clock.advance(180)
    ended = await asyncio.gather(*tasks, return_exceptions=True)
    for gate in gates:
        await gate.aclose()

    for end in ended:
        assert end is None or isinstance(end, asyncio.CancelledError | RateLimited), repr(end)
    for limit, count in exchange.counts.items():
        assert max(count.values()) <= limit.amount
    for category in ("pair/a", "pair/b"):
        sent = [at_ms for at_ms, name in exchange.sent if name == category]
        for first, last in zip(sent, sent[PACED.amount + PACED.burst :], strict=False):
            # Who was slow to connect leaves after its instant, at most by the guard band.
            assert last - first >= PACED.period_ms - 150
    for told_ms, until_ms in exchange.stop_ms:
        late = [at for at, _ in exchange.sent if told_ms + BLOCK_CHECK_MS < at < until_ms]
        assert not late, "told to stop, and some process sent all the same"
