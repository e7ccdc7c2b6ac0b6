"""One exchange with a candle for every interval, and everything that kinds of jobs are given."""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import msgspec
from tests.jobs_made import made_job
from tests.waiting import PATIENCE_S

from penstock.clock import Clock, ManualClock
from penstock.coverage.gap_rows import GapRows
from penstock.exchanges import registry as exchanges
from penstock.exchanges.base import Info
from penstock.exchanges.gateway import Gateway
from penstock.exchanges.symbol_map import SymbolMap
from penstock.exchanges.transport import Answer
from penstock.ingest import registry
from penstock.ingest.context import HandlerContext
from penstock.ingest.registry import kinds
from penstock.jobs.kinds import JobKind
from penstock.jobs.model import Cursor
from penstock.jobs.run import AnyRun
from penstock.jobs.service import JobService
from penstock.market.events import Candle
from penstock.market.interval import Interval
from penstock.market.symbol import Symbol
from penstock.recorder import Recorder
from penstock.resilience.backoff import Backoff
from penstock.storage.log import EventLog, LogReader, open_log
from penstock.storage.log.keys import Stream
from penstock.storage.state import open_store
from penstock.telemetry import Fact
from penstock.throttle.gate import Limit
from penstock.throttle.local_gate import LocalGate

EXCHANGE = exchanges.load("binance")
BTC = Symbol.parse("btc_usdt")
MINUTE_MS = 60_000
NOW_MS = 1_700_000_040_000
"""A whole minute."""
assert NOW_MS % MINUTE_MS == 0


@dataclass
class Listing:
    """An exchange of one market, with a candle for every interval since it was listed."""

    clock: Clock
    listed_ms: int = NOW_MS - 100 * MINUTE_MS
    page: int = 10
    ahead_ms: int = 0
    """How far its clock is ahead."""
    asked: list[tuple[int, int]] = field(default_factory=list)
    steps: Callable[[int], int] = lambda _number: 0
    """After how many steps of the loop a request is answered, by its number."""
    in_flight: int = 0
    most_in_flight: int = 0
    spoil: Callable[[list[Any]], Any] = lambda rows: rows
    status: int = 200

    async def send(
        self, path: str, params: Mapping[str, str | int], leaving: Callable[[], None]
    ) -> Answer:
        leaving()
        now_ms = self.clock.now_ms() + self.ahead_ms
        if path == "/api/v3/time":
            return Answer(200, {}, msgspec.json.encode({"serverTime": now_ms}))
        if self.status != 200:
            return Answer(self.status, {}, b'{"code":-1100,"msg":"no"}')
        interval = Interval.parse(str(params["interval"]))
        start_ms, end_ms = int(params["startTime"]), int(params["endTime"])
        self.asked.append((start_ms, end_ms))
        self.in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self.in_flight)
        try:
            for _ in range(self.steps(len(self.asked))):
                await asyncio.sleep(0)
        finally:
            self.in_flight -= 1
        first_ms = max(start_ms, interval.open_of(self.listed_ms))
        opens = interval.opens(first_ms, min(end_ms, now_ms) + 1)
        rows = [row(open_ms, interval) for open_ms, _ in zip(opens, range(self.page), strict=False)]
        return Answer(200, {}, msgspec.json.encode(self.spoil(rows)))

    async def close(self) -> None: ...


def row(open_ms: int, interval: Interval) -> list[Any]:
    close_ms = interval.next_open(open_ms) - 1
    return [open_ms, "1.0", "2.0", "0.5", "1.5", "10", close_ms, "15", 3, "0", "0", "0"]


@dataclass
class World:
    """One exchange, one log, and everything a kind of job is given."""

    clock: ManualClock
    listing: Listing
    gateway: Gateway
    log: EventLog
    recorder: Recorder
    reader: LogReader
    info: Info | None = None
    chunk_concurrency: int | Literal["auto"] = "auto"
    facts: list[Fact] = field(default_factory=list)
    _means: HandlerContext | None = None
    _kinds: Mapping[str, JobKind[Any, Any]] = field(default_factory=dict)

    def job_run(
        self, kind: str, cursor: Cursor, timeframe: str = "1m", stop_at: int = 99
    ) -> AnyRun:
        """A job run whose every save checks that the data was there first."""
        pages = 0

        async def save(job_run: AnyRun) -> None:
            nonlocal pages
            pages += 1
            last_ts = job_run.job.cursor.last_ts
            assert last_ts in self.opens(timeframe), "the cursor is ahead of the data"
            if pages >= stop_at:
                job_run.stop("enough")

        fields = {} if kind == "markets_refresh" else {"timeframe": timeframe}
        job = made_job(kind, cursor, priority=1, **fields)
        return AnyRun(job, save)

    async def job_service(self) -> JobService:
        """The other jobs, which a job may look at and add to."""
        if self._means is None:
            job_service = JobService(await open_store("memory:", clock=self.clock), kinds())
            ways = _Gateways(self.gateway), _Maps(self), self.recorder, self.clock
            self._means = HandlerContext(
                *ways, self.reader, job_service, GapRows(job_service.store), self.facts.append,
                chunk_concurrency=self.chunk_concurrency,
            )  # fmt: skip
            self._kinds = registry.build(self._means)
        return self._means.job_service

    def kinds(self) -> Mapping[str, JobKind[Any, Any]]:
        """The kinds of jobs, once one was run."""
        return self._kinds

    async def run(self, job_run: AnyRun) -> bool:
        await self.job_service()
        running = asyncio.ensure_future(self._kinds[job_run.job.type].run(job_run))
        for _ in range(100):
            if running.done():
                break
            await self.clock.advance(0.5)
        return await asyncio.wait_for(running, PATIENCE_S)

    def candles(self, timeframe: str = "1m") -> list[Candle]:
        stream = Stream("binance", f"candles_{timeframe}", "btc_usdt")
        found = [stored.event for stored in self.reader.scan(stream)]
        return [event for event in found if isinstance(event, Candle)]

    def opens(self, timeframe: str = "1m") -> list[int]:
        return [candle.open_ms for candle in self.candles(timeframe)]


@dataclass
class _Gateways:
    gateway: Gateway

    async def of(self, exchange_id: str) -> Gateway:
        assert exchange_id == "binance"
        return self.gateway


@dataclass
class _Maps:
    world: World

    async def of(self, exchange_id: str) -> SymbolMap:
        return SymbolMap(exchange_id, [("BTCUSDT", BTC)])

    async def refresh(self, exchange_id: str, info: Info) -> object:
        self.world.info = info
        return None


def world(*, now_ms: int = NOW_MS, **listing: Any) -> World:
    clock = ManualClock(now_ms)
    there = Listing(clock, **listing)
    gate = LocalGate(clock, [Limit(1000, 86_400_000)], acquire_timeout_ms=0, guard_ms=0)
    gateway = Gateway(EXCHANGE, there, gate, clock, Backoff(attempts=1))
    log = open_log("memory:")
    recorder = Recorder(log.writer("work-0"))
    return World(clock, there, gateway, log, recorder, log.reader())


def every(first_ms: int, end_ms: int, step_ms: int = MINUTE_MS) -> list[int]:
    return list(range(first_ms, end_ms, step_ms))
