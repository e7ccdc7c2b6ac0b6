"""Processes that share a budget in SQLite: they use the windows up, and never pass the limit."""

import asyncio
import json
import subprocess
from collections import Counter
from pathlib import Path

from tests.forked import python

from penstock.connectors import ConnectorManager
from penstock.storage.state import open_store
from penstock.throttle.gate import Limit

PROCESSES, TASKS = 4, 10
AMOUNT, PERIOD_MS, WINDOWS = 90, 1_500, 3

# A process with several tasks that ask for leave without a pause, and say in which window of the
# store's clock, which here is the exchange's too, each request left.
CHILD = f"""
import asyncio, sys
from penstock.clock import SystemClock
from penstock.connectors.gate import SharedGate
from penstock.storage.state import open_store
from penstock.throttle.gate import Limit

async def main():
    store, clock, left = await open_store(sys.argv[1]), SystemClock(), []
    gate = SharedGate(store, "binance", [Limit({AMOUNT}, {PERIOD_MS})], clock, guard_ms=100)
    async def ask():
        while True:
            grant = await gate.acquire(2)
            if grant.good():
                left.append(await store.now_ms())
                grant.answered()
            else:
                grant.refund()
    print("ready", flush=True)
    until_ms = int(await asyncio.to_thread(sys.stdin.readline))
    gate.align(await store.now_ms() - clock.now_ms(), 5)
    tasks = [asyncio.create_task(ask()) for _ in range({TASKS})]
    await clock.sleep((until_ms - await store.now_ms()) / 1000)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    await gate.aclose()
    print(left)
    await store.close()

asyncio.run(main())
"""


async def test_processes_use_up_every_window_and_pass_none(tmp_path: Path) -> None:
    url = f"sqlite:{tmp_path / 'state.db'}"
    store = await open_store(url)
    limit = Limit(AMOUNT, PERIOD_MS)
    await ConnectorManager(store).ensure_connector("binance", [limit])
    children = [
        python("-c", CHILD, url, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        for _ in range(PROCESSES)
    ]
    try:
        for child in children:
            assert child.stdout is not None
            assert (await asyncio.to_thread(child.stdout.readline)).strip() == "ready"
        first = await store.now_ms() // PERIOD_MS + 1
        until_ms = (first + WINDOWS) * PERIOD_MS
        for child in children:
            assert child.stdin is not None
            child.stdin.write(f"{until_ms}\n")
            child.stdin.flush()
        said = await asyncio.gather(*(asyncio.to_thread(child.communicate) for child in children))
    finally:
        for child in children:
            child.kill()
            child.communicate()
    shares = [json.loads(out) for out, _ in said]
    sent = Counter[int]()
    for left in shares:
        sent.update(at_ms // PERIOD_MS for at_ms in left)
    used = [2 * sent[window] for window in range(first, first + WINDOWS)]
    print("used per window", used, "requests per process", [len(left) for left in shares])

    # The windows turn by the store's clock, and what left is counted a moment later.
    assert max(2 * count for count in sent.values()) <= AMOUNT
    assert max(used) >= 0.9 * AMOUNT, "what may be used is used"
    await store.close()
