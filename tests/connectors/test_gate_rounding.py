"""Instants are floats of limited size; the gate does not stumble over what they round away."""

import asyncio

from tests.connectors.conftest import START_MS

from penstock.clock import ManualClock
from penstock.connectors.gate import SharedGate
from penstock.storage.state import open_store
from penstock.throttle.gate import Limit

SECOND = Limit(amount=10, period_ms=1_000)


async def test_a_window_that_opens_in_less_than_a_float_can_tell_is_waited_for() -> None:
    clock = ManualClock(START_MS - START_MS % 1_000 + 2_000)
    store = await open_store("memory:", clock=clock)
    gate = SharedGate(store, "binance", [SECOND], clock, guard_ms=100)
    gate.align(0, 40)
    await clock.advance(0.5)
    (await gate.acquire(1)).answered()
    await clock.advance(0.5)
    # The window opens 10 ns after this instant; near it, floats of ms are 244 ns apart.
    gate.align(0, 40.00001)
    waiting = asyncio.create_task(gate.acquire(1))
    await clock.advance(0.04)
    await clock.advance(0.01)
    assert waiting.done()
    assert waiting.exception() is None
    await gate.aclose()
