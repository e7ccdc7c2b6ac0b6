"""Wrappers on a shared budget: several processes together never pass a limit."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from tests.forked import python
from tests.throttled.conftest import WEIGHT, WINDOW_S, Simulated, simulator
from tests.waiting import PATIENCE_S

from penstock import open_budget
from penstock.clock import SystemClock
from penstock.connectors import ConnectorManager
from penstock.connectors.gate import SharedGate
from penstock.errors import ConnectorPaused, WaitTimedOut
from penstock.storage.state import StateStore, open_store
from penstock.throttle.gate import Limit
from penstock.throttled import BinanceSpotThrottler, UpbitSpotThrottler

# One process of two: asks for candles without a pause until it is stopped.
ASKING = """
import asyncio, sys
from penstock import open_budget
from penstock.errors import RateLimited, Banned
from penstock.throttled import UpbitSpotThrottler

async def main(address, store, seconds):
    async with open_budget("upbit", store) as gate:
        upbit = UpbitSpotThrottler(base_url=address, gate=gate)

        async def ask():
            while True:
                try:
                    await upbit.get_candles_minutes("KRW-BTC", count=1)
                except (RateLimited, Banned):
                    await asyncio.sleep(0.05)

        tasks = [asyncio.create_task(ask()) for _ in range(4)]
        done, _ = await asyncio.wait(tasks, timeout=seconds, return_when=asyncio.FIRST_EXCEPTION)
        for task in tasks:
            task.cancel()
        for task in done:
            task.result()
        await upbit.aclose()

asyncio.run(main(sys.argv[1], sys.argv[2], float(sys.argv[3])))
"""


@pytest.fixture(scope="module")
def upbit() -> Iterator[Simulated]:
    with simulator("upbit") as simulated:
        yield simulated


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[StateStore]:
    store = await open_store(f"sqlite:{tmp_path / 'state.db'}")
    yield store
    await store.close()


def test_two_upbit_processes_are_never_refused(upbit: Simulated, tmp_path: Path) -> None:
    state = f"sqlite:{tmp_path / 'state.db'}"
    processes = [python("-c", ASKING, upbit.address, state, "4") for _ in range(2)]

    assert [process.wait(PATIENCE_S) for process in processes] == [0, 0]
    statuses = upbit.statuses()
    assert set(statuses) == {200}, json.dumps(statuses)
    assert len(statuses) > 12, "eight a second, as far as the machine has time"


async def test_a_binance_wrapper_pays_from_the_budget_that_others_pay_from(
    quick: Simulated, store: StateStore
) -> None:
    limits = (Limit(WEIGHT, WINDOW_S * 1000),)
    gates = [SharedGate(store, "binance", limits, SystemClock()) for _ in range(2)]
    wrappers = [BinanceSpotThrottler(base_url=quick.address, gate=gate) for gate in gates]

    async def ask(wrapper: BinanceSpotThrottler) -> None:
        for _ in range(9):
            await wrapper.get_trades("BTCUSDT", limit=1)

    await asyncio.gather(*(ask(wrapper) for wrapper in wrappers for _ in range(2)))
    for wrapper, gate in zip(wrappers, gates, strict=True):
        await wrapper.aclose()
        await gate.aclose()

    requests = quick.requests()
    assert [each["status"] for each in requests] == [200] * 36
    assert sum(each["weight"] for each in requests) == 36 * 25 > 3 * WEIGHT


async def test_a_pause_of_the_connector_stops_the_wrapper(
    upbit: Simulated, store: StateStore, tmp_path: Path
) -> None:
    manager = ConnectorManager(store)
    await manager.ensure_connector("upbit")
    await manager.pause_connector("upbit")
    upbit.look()
    async with open_budget("upbit", f"sqlite:{tmp_path / 'state.db'}") as gate:
        wrapper = UpbitSpotThrottler(base_url=upbit.address, gate=gate)
        with pytest.raises(ConnectorPaused):
            await wrapper.get_markets()
        await wrapper.aclose()
    assert upbit.statuses() == []


async def test_timeouts_and_priorities_hold_on_a_shared_budget(
    upbit: Simulated, store: StateStore
) -> None:
    slow = (Limit(2, 1000, "request", category="market", kind="paced"),)
    gate = SharedGate(store, "upbit", slow, SystemClock())
    wrapper, order = UpbitSpotThrottler(base_url=upbit.address, gate=gate), list[str]()
    await wrapper.get_markets()

    async def ask(name: str, priority: int) -> None:
        await wrapper.get_markets(priority=priority)
        order.append(name)

    tasks = []
    for name, priority in (("first", 0), ("low", 0), ("high", 1)):
        tasks.append(asyncio.create_task(ask(name, priority)))
        await asyncio.sleep(0)
    with pytest.raises(WaitTimedOut):
        await wrapper.get_markets(timeout=0.05)
    await asyncio.gather(*tasks)
    await wrapper.aclose()
    await gate.aclose()

    assert order == ["first", "high", "low"]
