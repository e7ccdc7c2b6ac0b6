"""Binance's wrapper at full demand, counted by the simulator: alone, and beside a foreign client.

Fifty tasks ask without a pause for whole windows of one minute. Alone they should use the budget
up and never be refused. Beside a second program at the same address, which has a limiter of its own
and spends a quarter of the budget, nobody should be shut out, the limit should be broken by no more
than what the foreign client had under way, and from the second window on nobody should be refused.
The simulator counts, in a process of its own; a window in which it lagged is not sound.
"""

import asyncio
import json
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from itertools import cycle, islice
from typing import Any
from urllib.request import urlopen

from bench import _foreign_client
from binance.error import ClientError

from penstock.throttled import BinanceSpotThrottler

TASKS = 50
LIMIT, WINDOW_S = 6000, 60
ALONE_WINDOWS, BESIDE_WINDOWS = 2, 3
STRANGERS_WEIGHT = 1500
EARLY_S = 0.5

Call = Callable[[], Awaitable[Any]]


class Server:
    """The simulator's process, from outside."""

    def __init__(self, address: str) -> None:
        self.address = address

    def ask(self, question: str) -> Any:
        """Ask the simulator what truly happened."""
        with urlopen(f"{self.address}/_sim/{question}", timeout=30) as answer:
            return json.load(answer)


@contextmanager
def serving() -> Iterator[Server]:
    """A simulator under the real limits."""
    outside = {
        name: value for name, value in os.environ.items() if not name.startswith("PENSTOCK_")
    }
    process = subprocess.Popen(
        [sys.executable, "-m", "penstock", "sim", "--port", "0", "--json"],
        env=outside,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    try:
        assert process.stdout is not None
        yield Server(json.loads(process.stdout.readline())["listening"])
    finally:
        process.terminate()
        process.communicate()


def calls(throttler: BinanceSpotThrottler) -> list[Call]:
    """What is asked for, in turn: weights of 2, 5, 4 and 2."""
    return [
        lambda: throttler.get_kline("BTCUSDT", "1m", limit=10),
        lambda: throttler.get_depth("BTCUSDT", limit=100),
        lambda: throttler.get_agg_trades("BTCUSDT", limit=10),
        lambda: throttler.get_avg_price("ETHUSDT"),
    ]


async def demand(address: str, windows: int) -> Mapping[str, int]:
    """Ask from the beginning of a window through so many; what was heard, by status."""
    throttler, heard = BinanceSpotThrottler(base_url=address), Counter[str]()

    async def ask(number: int) -> None:
        for call in islice(cycle(calls(throttler)), number, None):
            try:
                await call()
                heard["200"] += 1
            except ClientError as error:
                heard[str(error.status_code)] += 1

    tasks = [asyncio.create_task(ask(number)) for number in range(TASKS)]
    try:
        # The last moments are not used anyway; the next window must not be begun.
        await asyncio.sleep(windows * WINDOW_S - EARLY_S)
    finally:
        for task in tasks:
            task.cancel()
        with suppress(asyncio.CancelledError):
            await asyncio.gather(*tasks)
        await throttler.aclose()
    return heard


def await_window() -> int:
    """Sleep until a window begins; its number."""
    window = int(time.time() // WINDOW_S) + 1
    time.sleep(window * WINDOW_S + 0.05 - time.time())
    return window


def closed_windows(server: Server, first: int, count: int) -> list[dict[str, Any]]:
    """The simulator's count of so many windows."""
    time.sleep(max(0.0, (first + count) * WINDOW_S + 0.1 - time.time()))
    reports = [r for r in server.ask("windows")["windows"] if first <= r["window"] < first + count]
    print("  ", json.dumps(reports), flush=True)
    return reports


def statuses_of(server: Server, first: int) -> Counter[int]:
    """How often the limits said what, from a window on."""
    requests = server.ask("requests?after=0")["requests"]
    return Counter(each["status"] for each in requests if each["window"] >= first)


def measure_alone() -> dict[str, object]:
    """Nobody else at this address."""
    with serving() as server:
        first = await_window()
        heard = asyncio.run(demand(server.address, ALONE_WINDOWS))
        windows = closed_windows(server, first, ALONE_WINDOWS)
        return {
            "alone_shares": [round(each["weight"] / LIMIT, 4) for each in windows],
            "alone_least_share": round(min(each["weight"] for each in windows) / LIMIT, 4),
            "alone_429": statuses_of(server, first)[429],
            "alone_heard": dict(heard),
            "alone_sound": all(each["sound"] for each in windows),
        }


def measure_beside() -> dict[str, object]:
    """A foreign client takes a quarter."""
    seconds = BESIDE_WINDOWS * WINDOW_S - 1
    with serving() as server:
        first = await_window()
        wanted = (server.address, str(seconds), str(STRANGERS_WEIGHT))
        foreign = subprocess.Popen(
            [sys.executable, "-m", "bench._foreign_client", *wanted], stdout=subprocess.PIPE
        )
        heard = asyncio.run(demand(server.address, BESIDE_WINDOWS))
        said, _ = foreign.communicate()
        windows = closed_windows(server, first, BESIDE_WINDOWS)
        return {
            "beside_shares": [round(each["weight"] / LIMIT, 4) for each in windows],
            "beside_418": statuses_of(server, first)[418],
            "beside_overshoot": max(0, *(each["max_used"] - LIMIT for each in windows)),
            "beside_foreign_cost_in_flight": _foreign_client.COST,
            "beside_429_by_window": [each["refusals"] for each in windows],
            "beside_429_from_second_window": statuses_of(server, first + 1)[429],
            "beside_heard": dict(heard),
            "beside_foreign_heard": json.loads(said),
            "beside_sound": all(each["sound"] for each in windows),
        }


def main() -> Mapping[str, object]:
    """Both, one after the other: about seven minutes."""
    return {**measure_alone(), **measure_beside()}
