"""Connections that are replaced every five seconds lose nothing and bring nothing twice.

Two servers, each a process of its own. The simulator streams its markets at their own speed to a
whole collector, and in the end the judge compares every trade and every book that was shown with
its ledger. A flood of numbered frames shows the same at thousands of messages a second: in the log
are all numbers, each once. ``make chaos-rotation`` does both for two minutes.
"""

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, closing
from pathlib import Path
from random import random
from typing import Any

import aiohttp
import msgspec
import pytest
from msgspec import Raw
from tests.waiting import PATIENCE_S

from penstock.app.collector import open_collector
from penstock.books.commands import FetchSnapshot
from penstock.cli.judge import gather
from penstock.cli.processes import running
from penstock.clock import SystemClock
from penstock.collect.session import Endpoint, Session, SessionHooks
from penstock.collect.status import CollectorStatus, read_status
from penstock.config import Collect, Exchanges, Settings
from penstock.exchanges.binance.stream import BinanceDialect
from penstock.exchanges.symbol_map import SymbolMap
from penstock.market.events import BookSnapshot
from penstock.market.symbol import Symbol
from penstock.recorder import Recorder
from penstock.simulator.judge import Judge
from penstock.storage.log import open_log
from penstock.storage.log.keys import Stream, id_of_key
from penstock.streaming.commands import Subscription
from penstock.streaming.shard import Shard
from penstock.streaming.shard_connection import Plan

from .flood import MARKETS

SECONDS = float(os.environ.get("PENSTOCK_TEST_SECONDS") or 8)
PER_SECOND = int(os.environ.get("PENSTOCK_TEST_RATE") or 1_500)
LONG = SECONDS > 60
SIMULATED = {
    "binance": "btc_usdt eth_usdt bnb_usdt sol_usdt",
    "kraken": "btc_usd eth_usd sol_usd",
    "coinbase": "btc_usd eth_usd",
    "upbit": "btc_krw eth_krw",
}
START_S = PATIENCE_S
ROTATE_S = 5.0 if LONG else 2.0
OVERLAP_S = 0.5
FLOODED = [Symbol(f"SIM{market}", "USDT") for market in range(MARKETS)]


def least_rotations() -> float:
    """Every rotation takes as long as the overlap and some; a machine that is busy, longer."""
    return SECONDS / ROTATE_S / 3


async def enough(task: "asyncio.Task[None]", rotations: Callable[[], int]) -> None:
    """Let it run for so many seconds, and on a busy machine until connections were replaced."""
    await asyncio.wait([task], timeout=SECONDS)
    async with asyncio.timeout(START_S):
        while rotations() < least_rotations() and not task.done():  # noqa: ASYNC110
            await asyncio.sleep(0.1)
    assert not task.done(), "it ended by itself"


@asynccontextmanager
async def flooding() -> AsyncIterator[str]:
    """The address of a flood."""
    server = await asyncio.create_subprocess_exec(
        sys.executable, str(Path(__file__).with_name("flood.py")), str(PER_SECOND),
        stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    try:
        assert server.stdout is not None
        line = await asyncio.wait_for(server.stdout.readline(), START_S)
        yield line.decode().strip()
    finally:
        server.kill()
        await server.wait()


async def test_at_thousands_of_messages_a_second_nothing_is_lost_and_nothing_comes_twice(
    tmp_path: Path,
) -> None:
    symbols = SymbolMap("binance", [(each.base + each.quote, each) for each in FLOODED])
    wanted = [Subscription(each, tuple(FLOODED)) for each in ("trades", "book_deltas")]
    plan = Plan(rotate_after_s=ROTATE_S, overlap_s=OVERLAP_S)
    shard = Shard("binance", lambda: BinanceDialect(symbols), wanted, random, plan)
    clock, stop = SystemClock(), asyncio.Event()
    async with flooding() as address, aiohttp.ClientSession() as http:

        async def at(query: str = "") -> int:
            async with http.get(f"{address}/at{query}") as answer:
                newest: int = (await answer.json())["at"]
                return newest

        async def fetch_book(command: FetchSnapshot, _: Callable[[], bool]) -> BookSnapshot:
            return BookSnapshot(
                exchange="binance", symbol=command.symbol, received_at_ns=clock.now_ns(),
                update_id=await at(), source="rest", bids_raw=Raw(b"[]"), asks_raw=Raw(b"[]"),
            )  # fmt: skip

        with closing(open_log(f"rocksdb:{tmp_path}").writer("flood")) as log:
            recorder = Recorder(log)
            hooks = SessionHooks(recorder.record, fetch_book)
            session = Session(shard, Endpoint("binance", f"{address}/stream", 30.0), hooks, clock)
            streaming, began_ns = asyncio.create_task(session.run(stop)), clock.monotonic_ns()
            await enough(streaming, lambda: shard.stats.rotations["old age"])
            last = await at("?stop=1")
            seconds = (clock.monotonic_ns() - began_ns) / 1e9
            async with asyncio.timeout(START_S):
                while any(book.update_id < last for book in shard.books.values()):  # noqa: ASYNC110
                    await asyncio.sleep(0.05)
            await asyncio.sleep(1)
            stop.set()
            await streaming
            recorder.close()
            counts = log.counts
    missing, recorded = 0, 0
    for channel in ("trades", "book_deltas"):
        for symbol in FLOODED:
            ids = recorded_ids(tmp_path, Stream("binance", channel, symbol.slug))
            missing += len(set(range(ids[0], last + 1)) - set(ids))
            recorded += len(ids)
    report: dict[str, Any] = {
        "seconds": round(seconds, 1),
        "messages_per_second": round(recorded / seconds),
        "rotations": dict(shard.stats.rotations),
        "given_up": dict(shard.stats.given_up),
        "copies_dropped": shard.deduplicator.dropped,
        "recorded": recorded,
        "missing": missing,
        "duplicated": counts.repeated,
    }
    print(json.dumps(report))

    assert (missing, counts.repeated) == (0, 0), report
    # How many are sent in a few seconds depends on what else the machine does.
    assert not LONG or report["messages_per_second"] >= 0.7 * PER_SECOND, report
    assert shard.stats.rotations["old age"] >= least_rotations(), report
    assert not shard.stats.reconnects, report
    assert shard.deduplicator.dropped > 0, "nothing overlapped"
    for book in shard.books.values():
        assert (book.state, book.resyncs, book.update_id) == ("synced", 0, last)
        assert book.levels is not None
        shown = {str(price): str(quantity) for price, quantity in book.levels.texts()[0]}
        assert shown == {f"{n % 7 + 1}.00": f"{n}.00" for n in range(last - 6, last + 1)}


def recorded_ids(folder: Path, stream: Stream) -> list[int]:
    with closing(open_log(f"rocksdb:{folder}").reader()) as log:
        return [id_of_key(stored.key) or 0 for stored in log.scan(stream)]


@pytest.mark.parametrize("exchange", list(SIMULATED) if LONG else ["binance", "kraken"])
async def test_while_connections_are_replaced_trades_and_books_are_the_exchanges(
    tmp_path: Path, exchange: str
) -> None:
    symbols = SIMULATED[exchange].split()
    sim = ["sim", exchange, "--symbols", ",".join(symbols), "--port", "0", "--json"]
    async with running(sim, {}) as simulator, aiohttp.ClientSession() as http:
        assert simulator.stdout is not None
        line = await asyncio.wait_for(simulator.stdout.readline(), START_S)
        address = json.loads(line)["listening"]
        status = await collect(exchange, symbols, address, tmp_path)
        findings = await Judge(http, address).judge(
            gather(tmp_path, open_log(f"rocksdb:{tmp_path}"), exchange)
        )
    [shard] = status.shards
    report: dict[str, Any] = {
        "exchange": exchange,
        "rotations": shard.rotations,
        "given_up": shard.given_up,
        "reconnects": shard.reconnects,
        "copies_dropped": shard.dropped,
        "resyncs": sum(book.resyncs for book in status.books),
        "findings": msgspec.to_builtins(findings),
    }
    print(json.dumps(report))

    assert findings.trades > 0, report
    assert findings.honest, report
    assert (findings.trades_missing, findings.books_synced) == (0, len(symbols)), report
    assert rotations_of(status) >= least_rotations(), report
    assert (shard.reconnects, report["resyncs"]) == ({}, 0), report
    assert shard.dropped > 0, "nothing overlapped"


def rotations_of(status: CollectorStatus) -> int:
    return sum(sum(shard.rotations.values()) for shard in status.shards)


async def collect(exchange: str, symbols: list[str], address: str, folder: Path) -> CollectorStatus:
    """Run a collector whose connections do not live long; its last status."""
    urls = {exchange: address}
    settings = Settings(
        collect=Collect(
            data_dir=str(folder), rotate_after=ROTATE_S, overlap=OVERLAP_S, book_every=1.0
        ),
        exchanges=Exchanges(rest_urls=urls, stream_urls=urls),
    )
    stop = asyncio.Event()
    async with open_collector(settings, exchange, SystemClock()) as collector:
        collecting = asyncio.create_task(collector.run(symbols, stop))
        await enough(collecting, lambda: rotations_of(collector.reporter.status("running")))
        stop.set()
        await collecting
    status = read_status(folder, f"collect-{exchange}")
    assert status is not None
    return status
