"""Connections that are cut at random leave no trade missing: every gap is found, filled and told.

A simulator, a bus, a collector of twenty markets, two workers and a subscriber are processes of
their own. Each market has a connection; these are cut one at a time, at moments drawn from a seed,
and one worker is killed in the middle and starts again. In the end the ids of all trades run on
without a hole, the gaps in the ledger are exactly what the collector did not receive, each of these
trades was published once, and no request was refused. ``make chaos-gaps`` does it a thousand times;
``SEED=…`` repeats a run.
"""

import asyncio
import json
import os
import random
import signal
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, closing
from pathlib import Path
from typing import Any, NamedTuple

import aiohttp
import msgspec
from tests.chaos.test_streams import choose

from penstock.cli.judge import gather
from penstock.cli.processes import running
from penstock.coverage.gap_rows import GapRows
from penstock.coverage.model import GapRow
from penstock.market.events import Trade
from penstock.simulator.judge import Findings, Judge
from penstock.storage.log import open_log
from penstock.storage.log.keys import Stream
from penstock.storage.state import open_store

CUTS = int(os.environ.get("PENSTOCK_TEST_CUTS") or 30)
SEED = int(os.environ.get("PENSTOCK_TEST_SEED") or random.SystemRandom().randrange(1 << 32))
EXCHANGE, SYMBOLS = "binance", 20
START_S, FILLED_S, POLL_S = 60.0, 120.0, 0.25
# A collector opens at most 240 connections in five minutes; ten in a minute if they do not last.
PAUSE_S = (0.1, 0.7) if CUTS < 100 else (1.1, 1.5)
LASTS_MS = 4000
# A frame that was sent less than this before a cut may be lost with it, and the first trades after
# a subscription may have been sent just before.
IN_FLIGHT_MS = 2000
FAR_MS = 1 << 62
SETTINGS = {
    "PENSTOCK_COLLECT_CHANNELS": "trades",
    "PENSTOCK_COLLECT_STREAMS_PER_CONNECTION": "1",
    "PENSTOCK_JOBS_GAP_WATCH": "1" if CUTS < 100 else "10",
    # A killed worker's jobs are taken over within seconds.
    "PENSTOCK_JOBS_LEASE": "3",
}


class Stored(NamedTuple):
    """The trades of one market in the log, by id: received live, and filled in."""

    live: dict[int, Trade]
    filled: dict[int, Trade]


class Scene:
    """One data folder, and the processes that work on it."""

    def __init__(self, folder: Path, address: str, http: aiohttp.ClientSession) -> None:
        self.folder, self.address, self.http = folder, address, http
        self.symbols = choose(EXCHANGE, SYMBOLS)
        self.chance = random.Random(SEED)
        self.killed, self.seconds = 0, 0.0
        self.known: dict[int, dict[str, Any]] = {}
        """Every connection that there was, by id."""

    @property
    def environment(self) -> Mapping[str, str]:
        return {
            **SETTINGS,
            "PENSTOCK_EXCHANGES_REST_URLS": f"{EXCHANGE}={self.address}",
            "PENSTOCK_EXCHANGES_STREAM_URLS": f"{EXCHANGE}={self.address}",
            "PENSTOCK_COLLECT_DATA_DIR": str(self.folder),
        }

    async def ask(self, question: str, *, post: bool = False, **query: int) -> Any:
        call = self.http.post if post else self.http.get
        async with call(f"{self.address}/_sim/{question}", params=query) as answer:
            assert answer.status == 200, await answer.text()
            return await answer.json(content_type=None)

    async def connections(self) -> list[dict[str, Any]]:
        """Those that are open, with streams. The simulator keeps a thousand of the closed ones."""
        told = await self.ask("connections")
        self.known |= {each["id"]: each for each in (*told["closed"], *told["open"])}
        return [each for each in told["open"] if each["streams"]]

    async def streams(self) -> int:
        """How many are open."""
        return sum(len(each["streams"]) for each in await self.connections())

    async def cut(self) -> None:
        """Cut one connection at random, of those that have lasted."""
        while not (lasting := await self._lasting()):  # noqa: ASYNC110
            await asyncio.sleep(POLL_S)
        await self.ask("disconnect", post=True, connection=self.chance.choice(lasting))

    async def _lasting(self) -> list[int]:
        now_ms = (await self.ask("state"))["at_ms"]
        opened = await self.connections()
        return [each["id"] for each in opened if now_ms - each["opened_ms"] > LASTS_MS]

    def stored(self) -> dict[str, Stored]:
        """Every trade, by market; fails if one is in the log twice."""
        found = {symbol: Stored({}, {}) for symbol in self.symbols}
        with closing(open_log(f"rocksdb:{self.folder}").reader()) as log:
            for stats in log.stats():
                for each in stats.streams:
                    for record in log.numbers(each.stream, stats.slot, 1):
                        if isinstance(trade := record.event, Trade):
                            kept = found[each.stream.symbol]
                            assert trade.id not in kept.live.keys() | kept.filled.keys(), trade
                            filled = trade.source == "backfill"
                            (kept.filled if filled else kept.live)[trade.id] = trade
        return found

    @asynccontextmanager
    async def gaps(self) -> AsyncIterator[GapRows]:
        store = await open_store(f"sqlite:{self.folder}/state.db")
        try:
            yield GapRows(store)
        finally:
            await store.close()

    async def rows(self, state: Any = None) -> list[GapRow]:
        async with self.gaps() as gaps:
            return await gaps.find(exchange=EXCHANGE, channel="trades", state=state)

    async def until_filled(self) -> None:
        """Wait until no gap is open."""
        deadline = time.monotonic() + FILLED_S
        while rows := await self.rows("open"):
            assert time.monotonic() < deadline, f"still open: {rows[:3]}"
            await asyncio.sleep(POLL_S)


@asynccontextmanager
async def scene(folder: Path) -> AsyncIterator[Scene]:
    symbols = ",".join(choose(EXCHANGE, SYMBOLS))
    words = ["sim", EXCHANGE, "--symbols", symbols, "--seed", str(SEED % 1000), "--port", "0"]
    async with AsyncExitStack() as stack:
        simulator = await stack.enter_async_context(running([*words, "--json"], {}))
        assert simulator.stdout is not None
        line = await asyncio.wait_for(simulator.stdout.readline(), START_S)
        http = await stack.enter_async_context(aiohttp.ClientSession())
        yield Scene(folder, json.loads(line)["listening"], http)


async def printed(process: asyncio.subprocess.Process, ids: Counter[tuple[str, int]]) -> None:
    """Count the trades that a subscriber prints."""
    assert process.stdout is not None
    async for line in process.stdout:
        told = msgspec.json.decode(line)
        ids[told["topic"], told["id"]] += 1


async def storm(at: Scene) -> Counter[tuple[str, int]]:
    """Cut connections under a collector and workers; return what a subscriber received."""
    published: Counter[tuple[str, int]] = Counter()
    async with AsyncExitStack() as stack:

        async def begin(*words: str) -> asyncio.subprocess.Process:
            return await stack.enter_async_context(running(words, at.environment))

        bus = await begin("bus", "--json")
        assert bus.stdout is not None
        await asyncio.wait_for(bus.stdout.readline(), START_S)
        tail = await begin("tail", f"{EXCHANGE}.trades.", "--json", "--start", "1")
        reading = asyncio.create_task(printed(tail, published))
        collector = await begin("collect", EXCHANGE, *at.symbols)
        workers = [await begin("work"), await begin("work")]
        async with asyncio.timeout(START_S):
            while await at.streams() < SYMBOLS:  # noqa: ASYNC110
                await asyncio.sleep(POLL_S)
        began_s = time.monotonic()
        for number in range(CUTS):
            await at.cut()
            if number % 50 == CUTS // 2 % 50:
                workers.pop().kill()
                at.killed += 1
                workers.append(await begin("work"))
            await asyncio.sleep(at.chance.uniform(*PAUSE_S))
        at.seconds = time.monotonic() - began_s
        await asyncio.sleep(3)
        collector.send_signal(signal.SIGTERM)
        assert await asyncio.wait_for(collector.wait(), START_S) in (0, 1)
        await at.until_filled()
        for worker in workers:
            worker.send_signal(signal.SIGTERM)
            await asyncio.wait_for(worker.wait(), START_S)
        trades = sum(len(each.live) + len(each.filled) for each in at.stored().values())
        async with asyncio.timeout(START_S):
            while published.total() < trades:  # noqa: ASYNC110
                await asyncio.sleep(POLL_S)
        # Whatever is published twice comes now.
        await asyncio.sleep(1)
        tail.send_signal(signal.SIGTERM)
        await reading
    return published


class Sent(NamedTuple):
    """When connections had a stream, by the simulator."""

    spans: list[tuple[int, int]]

    def sent(self, trade: Trade, margin_ms: int = 0) -> bool:
        """Whether it happened while one had it, so long after its start and before its end."""
        return any(
            since + margin_ms <= trade.at_ms <= until - margin_ms for since, until in self.spans
        )

    def pauses_s(self) -> float:
        """How long none had it, between the first and the last."""
        spans = sorted(self.spans)
        ends = [max(until for _, until in spans[: n + 1]) for n in range(len(spans))]
        pairs = zip(ends, spans[1:], strict=False)
        return sum(max(0, since - end) for end, (since, _) in pairs) / 1000


def sent(connections: Iterable[Mapping[str, Any]], symbol: str) -> Sent:
    name = f"{symbol.replace('_', '')}@trade"
    return Sent(
        [
            (change["at_ms"], each["closed_ms"] or FAR_MS)
            for each in connections
            for change in each["subscriptions"]
            if name in change["streams"]
        ]
    )


def percentiles(values: list[float]) -> dict[str, float]:
    ordered = sorted(values)
    return {
        name: round(ordered[min(len(ordered) - 1, int(len(ordered) * share))], 2)
        for name, share in (("p50", 0.5), ("p95", 0.95))
    }


async def test_every_gap_is_found_filled_and_told_once(tmp_path: Path) -> None:
    async with scene(tmp_path) as at:
        published = await storm(at)
        stored, rows = at.stored(), await at.rows()
        findings: Findings = await Judge(at.http, at.address).judge(
            gather(tmp_path, open_log(f"rocksdb:{tmp_path}"), EXCHANGE)
        )
        await at.connections()
    connections = at.known.values()
    listed = {symbol: set[int]() for symbol in stored}
    for row in rows:
        assert (row.by, row.state, row.source) == ("id", "filled", "backfill"), row
        listed[row.symbol] |= set(range(row.first, row.last + 1))
    latencies = [
        trade.received_at_ns / 1e9 - trade.at_ns / 1e9
        for each in stored.values()
        for trade in each.filled.values()
    ]
    report = {
        "seed": SEED,
        "cuts": CUTS,
        "workers_killed": at.killed,
        "trades": sum(len(live) + len(filled) for live, filled in stored.values()),
        "filled": len(latencies),
        "seconds": round(at.seconds, 1),
        "seconds_without_a_stream": round(
            sum(sent(connections, symbol).pauses_s() for symbol in stored) / len(stored), 1
        ),
        "gaps": len(rows),
        "filled_after_s": percentiles(latencies) if latencies else {},
        "findings": msgspec.to_builtins(findings),
    }
    print(json.dumps(report))

    for symbol, (live, filled) in stored.items():
        if not live:
            assert not filled  # a quiet market
            continue
        ids = sorted(live.keys() | filled.keys())
        assert ids == [*range(ids[0], ids[-1] + 1)], f"{symbol} has holes"
        assert listed[symbol] == set(filled), f"{symbol}: the ledger is not what was missed"
        there = sent(connections, symbol)
        assert all(there.sent(trade, -IN_FLIGHT_MS) for trade in live.values())
        assert [each for each in filled.values() if there.sent(each, IN_FLIGHT_MS)] == []
        topic = str(Stream(EXCHANGE, "trades", symbol))
        for number in ids:
            assert published[topic, number] == 1, (topic, number, published[topic, number])
    assert latencies, "nothing was ever missing"
    assert findings.clean, report
