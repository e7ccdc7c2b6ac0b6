"""Three daemons share 300 symbols; one is killed, and the others collect its symbols soon."""

import asyncio
import json
import os
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from urllib.request import urlopen

from tests.forked import command
from tests.waiting import PATIENCE_S

from penstock.live import ProcessCache, ProcessType
from penstock.market.symbol import Symbol
from penstock.storage.state import open_store
from penstock.tickers import TickerSymbol, TickerSymbols

SYMBOLS = [TickerSymbol("binance", Symbol(f"SIM{number:03}", "USDT")) for number in range(1, 301)]
TAKEN_OVER_S = 10.0


@contextmanager
def running(*words: str, folder: Path, **environment: str) -> Iterator[subprocess.Popen[str]]:
    told = {**os.environ, **environment}
    process = command(
        words, cwd=folder, env=told, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    with process:
        try:
            yield process
        finally:
            process.kill()


def subscribed(address: str) -> Counter[str]:
    """How many open connections carry each stream, as the exchange sees it."""
    with urlopen(f"{address}/_sim/connections") as answer:
        connections = json.load(answer)["open"]
    return Counter(stream for each in connections for stream in each["streams"])


def wait_for_each_once(address: str, patience_s: float) -> float:
    """Wait until every symbol is collected once; return how long it took."""
    began = time.monotonic()
    while (shared := Counter(subscribed(address).values())) != {1: len(SYMBOLS)}:
        assert time.monotonic() - began < patience_s, shared
        time.sleep(0.1)
    return time.monotonic() - began


async def add_symbols(folder: Path) -> None:
    store = await open_store(f"sqlite:{folder / 'state.db'}")
    table = TickerSymbols(store)
    for symbol in SYMBOLS:
        await table.add(symbol)
    await store.close()


async def collectors(folder: Path) -> Counter[int]:
    """How many symbols each process reports."""
    async with ProcessCache(f"sqlite:{folder / 'live.db'}") as cache:
        found = await cache.get_active_processes(ProcessType.TICK)
    return Counter(each.pid for each in found)


def test_the_symbols_of_a_killed_daemon_are_collected_by_the_others(tmp_path: Path) -> None:
    names = ",".join(each.symbol.slug for each in SYMBOLS)
    asyncio.run(add_symbols(tmp_path))
    with ExitStack() as stack:
        sim = stack.enter_context(
            running("sim", "--port", "0", "--json", "--symbols", names, folder=tmp_path)
        )
        assert sim.stdout is not None
        address = json.loads(sim.stdout.readline())["listening"]
        environment = {
            "PENSTOCK_EXCHANGES_REST_URLS": f"binance={address}",
            "PENSTOCK_EXCHANGES_STREAM_URLS": f"binance={address}",
        }
        words = ("tickers", "--all", "--data-dir", ".")
        daemons = [
            stack.enter_context(running(*words, folder=tmp_path, **environment)) for _ in range(3)
        ]
        wait_for_each_once(address, PATIENCE_S)
        before = _settled_shares(tmp_path, [daemon.pid for daemon in daemons])
        victim, *others = daemons
        assert before[victim.pid] > 60

        victim.send_signal(signal.SIGKILL)
        victim.wait()
        took_s = wait_for_each_once(address, TAKEN_OVER_S)

        assert took_s < TAKEN_OVER_S
        after = _settled_shares(tmp_path, [daemon.pid for daemon in others])
        for daemon in others:
            assert after[daemon.pid] > before[daemon.pid]


def _settled_shares(folder: Path, pids: list[int]) -> Counter[int]:
    """Wait until these processes, and no others, report all symbols; return how many each."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        shares = asyncio.run(collectors(folder))
        if shares.keys() == set(pids) and shares.total() == len(SYMBOLS):
            return shares
        assert time.monotonic() < deadline, shares
        time.sleep(0.2)
