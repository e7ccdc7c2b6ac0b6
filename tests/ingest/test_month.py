"""A month of incrementals: workers are away at times and a page is lost, and nothing is missing.

Worker, store, log, requests and the exchange's answers are the real ones; only the socket between
them is left out, so that a month passes in seconds.
"""

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from decimal import Decimal
from random import Random
from typing import Any

import msgspec
import pytest

from penstock.clock import ManualClock
from penstock.config import Jobs, Simulator
from penstock.coverage.gap_rows import GapRows
from penstock.exchanges import registry as exchanges
from penstock.exchanges.base import Info
from penstock.exchanges.gateway import Gateway
from penstock.exchanges.symbol_map import SymbolMap
from penstock.exchanges.transport import Answer
from penstock.ingest import registry
from penstock.ingest.context import HandlerContext
from penstock.ingest.registry import kinds
from penstock.jobs.leases import Leases
from penstock.jobs.model import Job, NewJob
from penstock.jobs.service import JobService
from penstock.jobs.worker import Worker
from penstock.market.events import Candle
from penstock.market.interval import DAY_MS, HOUR_MS, Interval
from penstock.market.symbol import Symbol
from penstock.recorder import Recorder
from penstock.resilience.backoff import Backoff
from penstock.simulator import registry as simulators
from penstock.simulator.engine.exchange import Asked
from penstock.simulator.engine.ledger import Ledger
from penstock.simulator.engine.routing import Router
from penstock.simulator.market.market import Market, library_of
from penstock.storage.log import EventLog, open_log
from penstock.storage.log.keys import Stream
from penstock.storage.state import open_store
from penstock.throttle.gate import Limit
from penstock.throttle.local_gate import LocalGate

BEGIN_MS = 1_767_225_600_000
"""2026-01-01."""
LOST_CANDLES = 5


@dataclass
class Exchange:
    """A simulated exchange without its server; one page that it answers is lost on the way."""

    clock: ManualClock
    router: Router
    lose_after_ms: int
    lost: int = 0
    requests: int = 0

    async def send(
        self, path: str, params: Mapping[str, str | int], leaving: Callable[[], None]
    ) -> Answer:
        leaving()
        self.requests += 1
        found = self.router.find(path)
        assert found is not None, path
        route, named = found
        query = {**{name: str(value) for name, value in params.items()}, **named}
        body = route.answer(Asked(query, {"User-Agent": "test"}), self.clock.now_ms())
        assert isinstance(body, bytes)
        return Answer(200, {}, self._damaged(body))

    def _damaged(self, body: bytes) -> bytes:
        rows = msgspec.json.decode(body)
        is_page = isinstance(rows, list) and len(rows) > LOST_CANDLES + 2
        if self.lost or not is_page or self.clock.now_ms() < self.lose_after_ms:
            return body
        # All but the newest that is closed and the one that runs: the cursor moves on behind it.
        kept = sorted(row[0] for row in rows)[-2:]
        self.lost = len(rows) - 2
        return msgspec.json.encode([row for row in rows if row[0] in kept])

    async def close(self) -> None: ...


@dataclass
class Fleet:
    """Workers on the jobs of one market, each with a slot of its own."""

    clock: ManualClock
    gateway: Gateway
    symbols: SymbolMap
    log: EventLog
    job_service: JobService
    running: dict[str, tuple[Worker, asyncio.Event, "asyncio.Task[None]", Any]] = field(
        default_factory=dict
    )

    async def of(self, _exchange_id: str) -> Any:
        return self.gateway

    def begin(self, name: str) -> None:
        writer, reader = self.log.writer(name), self.log.reader()
        maps = _Maps(self.symbols)
        context = HandlerContext(
            self,
            maps,
            Recorder(writer),
            self.clock,
            reader,
            self.job_service,
            GapRows(self.job_service.store),
        )
        settings = Jobs(lease=7200, poll_interval=7200)  # it wakes when something is due
        leases = Leases(self.job_service.store, kinds())
        worker = Worker(name, leases, registry.build(context), self.clock, settings)
        stop = asyncio.Event()
        self.running[name] = (worker, stop, asyncio.create_task(worker.run(stop)), writer)

    async def end(self, name: str, *, kill: bool) -> None:
        """Stop a worker in order, or in the middle of whatever it does."""
        _, stop, task, writer = self.running.pop(name)
        if kill:
            task.cancel()
        stop.set()
        while not task.done():
            await self.clock.advance(0.1)
        with suppress(asyncio.CancelledError):
            task.result()
        writer.close()

    async def advance(self, ms: int) -> None:
        await self.clock.advance(ms / 1000)
        while any(worker.job_runs for worker, *_ in self.running.values()):
            await self.clock.advance(0.5)

    def candles(self, stream: Stream) -> list[Candle]:
        found = [stored.event for stored in self.log.reader().scan(stream)]
        return [event for event in found if isinstance(event, Candle)]


@dataclass
class _Maps:
    symbols: SymbolMap

    async def of(self, _exchange_id: str) -> SymbolMap:
        return self.symbols

    async def refresh(self, exchange_id: str, info: Info) -> object:
        raise AssertionError("no candle needs that")


async def opened(
    name: str, base: str, days: int, rng: Random
) -> tuple[Fleet, Exchange, Ledger, Symbol]:
    clock, settings = ManualClock(BEGIN_MS + 30_000), Simulator(seed=rng.randrange(1000))
    catalogue = simulators.catalogue(name)
    symbol = Symbol(base, catalogue.all()[0].quote)
    listings = catalogue.find([symbol.slug])
    markets = [Market(each, settings.seed, library_of(each)) for each in listings]
    router = Router(simulators.build(name, markets, settings).routes)
    exchange = Exchange(clock, router, BEGIN_MS + rng.randrange(1, days // 2) * DAY_MS)
    gate = LocalGate(clock, [Limit(10**9, DAY_MS)], acquire_timeout_ms=0, guard_ms=0)
    gateway = Gateway(exchanges.load(name), exchange, gate, clock, Backoff(attempts=1))
    job_service = JobService(await open_store("memory:", clock=clock), kinds())
    info = await gateway.fetch(gateway.exchange.info)
    fleet = Fleet(clock, gateway, info.symbols, open_log("memory:"), job_service)
    return fleet, exchange, Ledger(markets, clock), symbol


def truth(ledger: Ledger, symbol: Symbol, span: tuple[int, int], step_ms: int) -> list[Any]:
    """Every candle that begins in a span, as numbers, and how many trades it sums up."""
    rows: list[Any] = []
    for start_ms in range(*span, 1000 * step_ms):
        query = {
            "symbol": symbol.slug,
            "start_ms": str(start_ms),
            "end_ms": str(min(start_ms + 1000 * step_ms, span[1])),
            "step_ms": str(step_ms),
        }
        answer: dict[str, Any] = ledger.answer("candles", query)
        rows += answer["candles"]
    fields = ("open", "high", "low", "close", "volume")
    return [
        (row["start_ms"], *(Decimal(row[each] or 0) for each in fields), row["trades"])
        for row in rows
    ]


def as_numbers(candles: list[Candle]) -> list[Any]:
    return [(c.open_ms, c.open, c.high, c.low, c.close, c.volume) for c in candles]


async def live(fleet: Fleet, rng: Random, add: Callable[[], Any], days: int, step_ms: int) -> None:
    """Jobs run, workers come and go, and for some hours the job itself is gone."""
    job: Job = await add()
    gone_at = rng.randrange(days // 3 * DAY_MS, days * DAY_MS * 2 // 3) // step_ms * step_ms
    for passed_ms in range(0, days * DAY_MS, step_ms):
        if passed_ms == gone_at:
            await fleet.job_service.delete(job.id)
        elif passed_ms == gone_at + 7 * step_ms:
            job = await add()
        for name in ("work-0", "work-1"):
            if name in fleet.running and rng.random() < 2 * step_ms / DAY_MS:
                await fleet.end(name, kill=rng.random() < 0.5)
            elif name not in fleet.running and rng.random() < 2 * step_ms / DAY_MS:
                fleet.begin(name)
        await fleet.advance(step_ms)
    for name in {"work-0", "work-1"} - fleet.running.keys():
        fleet.begin(name)
    for _ in range(3 * HOUR_MS // step_ms):
        await fleet.advance(step_ms)


@pytest.mark.parametrize(
    ("name", "base", "timeframe", "days", "seed"),
    [("binance", "SIM001", "1h", 30, 1), ("coinbase", "SIM300", "5m", 4, 2)],
)
async def test_a_month_of_incrementals_leaves_no_hole(
    name: str, base: str, timeframe: str, days: int, seed: int
) -> None:
    rng, interval = Random(seed), Interval.parse(timeframe)
    fleet, exchange, ledger, symbol = await opened(name, base, days, rng)
    step_ms = interval.fixed_ms or 0

    async def add() -> Job:
        new = NewJob(
            exchange_id=name, type="ohlcv_incremental", symbol=symbol.unified, timeframe=timeframe
        )
        return await fleet.job_service.create(new)

    await live(fleet, rng, add, days, step_ms)

    candles = fleet.candles(Stream(name, f"candles_{timeframe}", symbol.slug))
    end_ms = interval.open_of(fleet.clock.now_ms()) - step_ms
    expected = truth(ledger, symbol, (candles[0].open_ms, end_ms), step_ms)
    if not fleet.gateway.exchange.empty_candles:
        assert sum(not row[-1] for row in expected) > 20, "intervals without trades"
        expected = [row for row in expected if row[-1]]
    assert exchange.lost >= LOST_CANDLES
    assert [row for row in as_numbers(candles) if row[0] < end_ms] == [row[:-1] for row in expected]
    gaps = await fleet.job_service.find(type="gap_backfill", state="success")
    assert bool(gaps) == fleet.gateway.exchange.empty_candles
    assert await fleet.job_service.find(type="gap_backfill") == []
    for each in list(fleet.running):
        await fleet.end(each, kill=False)
