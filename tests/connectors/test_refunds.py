"""Refunds on the fleet's budget: what never left is there once more, and not twice."""

import asyncio

import pytest

from penstock.clock import ManualClock
from penstock.storage.state import StateStore
from penstock.throttle.gate import Limit

from .test_gate import gates_on

TEN = Limit(amount=10, period_ms=60_000)


@pytest.mark.parametrize("first", ["refund", "answered"])
async def test_a_grant_of_the_fleet_is_settled_once(
    store: StateStore, clock: ManualClock, first: str
) -> None:
    (gate,) = await gates_on(store, clock, TEN, count=1)
    asked = [asyncio.create_task(gate.acquire(2)) for _ in range(5)]
    await clock.advance(0)
    grant = asked[0].result()
    getattr(grant, first)()
    grant.refund()
    grant.refund()

    # What came back is one grant of the five, or none; the other four have left.
    waiting = [asyncio.create_task(gate.acquire(2)) for _ in range(3)]
    await clock.advance(1)
    assert sum(task.done() for task in waiting) == (1 if first == "refund" else 0)
    for task in waiting:
        task.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)
    await gate.aclose()
