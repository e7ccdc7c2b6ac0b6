"""Three daemons share 300 symbols, and one of them is killed again and again.

An observer asks the exchange all the time which streams are carried by how many connections: the
symbols of a killed daemon are collected within ten seconds, and none by two for longer.
``make chaos-ticks`` kills for some minutes.
"""

import asyncio
import json
import os
import random
import threading
import time
from collections import Counter, defaultdict
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any
from urllib.request import urlopen

from tests.servers import RedisServer
from tests.waiting import PATIENCE_S

from penstock.cli.processes import running
from penstock.market.symbol import Symbol
from penstock.storage.state import open_store
from penstock.tickers import TickerSymbol, TickerSymbols

SEED = int(os.environ.get("PENSTOCK_TEST_SEED") or random.SystemRandom().randrange(1 << 32))
KILLS = int(os.environ.get("PENSTOCK_TEST_KILLS") or 1)
DAEMONS = 3
SYMBOLS = [TickerSymbol("binance", Symbol(f"SIM{number:03}", "USDT")) for number in range(1, 301)]
WITHIN_S = 10.0
POLL_S = 0.1


class Observer(threading.Thread):
    """How long each stream was carried by no connection, or by several, at the longest."""

    def __init__(self, address: str) -> None:
        super().__init__(daemon=True)
        self._address = address
        self._since: dict[tuple[str, str], float] = {}
        self.ended = threading.Event()
        self.longest_s: dict[str, float] = defaultdict(float)
        self.counts: Counter[str] = Counter()

    @property
    def is_even(self) -> bool:
        """Whether every symbol is collected once."""
        return Counter(self.counts.values()) == {1: len(SYMBOLS)}

    def run(self) -> None:
        streams = [f"{each.symbol.base.lower()}usdt@bookTicker" for each in SYMBOLS]
        while not self.ended.wait(POLL_S):
            try:
                with urlopen(f"{self._address}/_sim/connections", timeout=PATIENCE_S) as answer:
                    told = json.load(answer)["open"]
            except OSError:
                continue  # the machine is busy
            counts = Counter(name for each in told for name in each["streams"])
            now_s = time.monotonic()
            for name in streams:
                self._note("none", name, now_s, holds=counts[name] == 0)
                self._note("several", name, now_s, holds=counts[name] > 1)
            self.counts = counts

    def _note(self, what: str, stream: str, now_s: float, *, holds: bool) -> None:
        if not holds:
            self._since.pop((what, stream), None)
            return
        since_s = self._since.setdefault((what, stream), now_s)
        self.longest_s[what] = max(self.longest_s[what], now_s - since_s)


async def until_even(observer: Observer) -> float:
    """Wait until every symbol is collected once; return how long it took."""
    began = time.monotonic()
    while not observer.is_even:
        passed_s = time.monotonic() - began
        assert passed_s < PATIENCE_S, Counter(observer.counts.values())
        await asyncio.sleep(POLL_S)
    return time.monotonic() - began


async def until_seen(observer: Observer) -> None:
    """Wait until it has seen that a daemon was killed."""
    deadline, before = time.monotonic() + PATIENCE_S, observer.counts
    while observer.counts is before or observer.is_even:
        assert time.monotonic() < deadline, "the observer is blind"
        await asyncio.sleep(POLL_S)


async def kill_again_and_again(folder: Path) -> dict[str, Any]:
    luck = random.Random(SEED)
    store = await open_store(f"sqlite:{folder / 'state.db'}")
    for symbol in SYMBOLS:
        await TickerSymbols(store).add(symbol)
    await store.close()
    async with AsyncExitStack() as stack:
        redis = stack.enter_context(RedisServer())
        names = ",".join(each.symbol.slug for each in SYMBOLS)
        words = ["sim", "binance", "--symbols", names, "--port", "0", "--json"]
        simulator = await stack.enter_async_context(running(words, {}))
        assert simulator.stdout is not None
        address = json.loads(await simulator.stdout.readline())["listening"]
        environment = {
            "PENSTOCK_EXCHANGES_REST_URLS": f"binance={address}",
            "PENSTOCK_EXCHANGES_STREAM_URLS": f"binance={address}",
            "PENSTOCK_LIVE_URL": redis.url,
        }

        async def begin() -> asyncio.subprocess.Process:
            words = ["tickers", "--all", "--data-dir", str(folder)]
            return await stack.enter_async_context(running(words, environment))

        daemons = [await begin() for _ in range(DAEMONS)]
        observer = Observer(address)
        observer.start()
        stack.callback(observer.ended.set)
        await until_even(observer)
        observer.longest_s.clear()
        taken_over_s = []
        for _ in range(KILLS):
            daemons.remove(victim := luck.choice(daemons))
            victim.kill()
            await victim.wait()
            await until_seen(observer)
            taken_over_s.append(round(await until_even(observer), 1))
            daemons.append(await begin())
            # The newcomer takes its part, and the others leave it.
            await asyncio.sleep(luck.uniform(3.0, 8.0))
            await until_even(observer)
        assert all(each.returncode is None for each in daemons), "a daemon has crashed"
        return {
            "kills": KILLS,
            "taken_over_s": taken_over_s,
            "longest_uncollected_s": round(observer.longest_s["none"], 1),
            "longest_collected_twice_s": round(observer.longest_s["several"], 1),
        }


async def test_the_others_take_the_symbols_of_a_killed_daemon_every_time(tmp_path: Path) -> None:
    report = await kill_again_and_again(tmp_path)
    print(json.dumps({"seed": SEED, **report}))

    assert report["longest_uncollected_s"] < WITHIN_S, (SEED, report)
    assert report["longest_collected_twice_s"] < WITHIN_S, (SEED, report)
