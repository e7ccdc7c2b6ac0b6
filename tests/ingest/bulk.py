"""A simulated Binance with published files, and jobs that are killed at any point."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from aiohttp import ClientSession
from tests.jobs_made import made_job

from penstock.app.simulator import build_simulator
from penstock.clock import SystemClock
from penstock.config import (
    Collect,
    Exchanges,
    Ingest,
    Requests,
    Settings,
    SimulatedBinance,
    Simulator,
)
from penstock.coverage.gap_rows import GapRows
from penstock.exchanges import registry as exchanges
from penstock.exchanges.base import Info
from penstock.exchanges.bulk_files import BulkFile, FileSeries, FileSpan
from penstock.exchanges.clients import gateway_for
from penstock.exchanges.gateway import Gateway
from penstock.exchanges.symbol_map import SymbolMap
from penstock.ingest import registry
from penstock.ingest.context import HandlerContext
from penstock.ingest.file_source import source_of
from penstock.ingest.published_files import PublishedFiles
from penstock.ingest.trade_range import TradesCursor
from penstock.jobs.model import Cursor, Job
from penstock.jobs.run import AnyRun
from penstock.jobs.service import JobService
from penstock.market.events import Candle, Event, Trade
from penstock.market.interval import DAY_MS
from penstock.market.symbol import Symbol
from penstock.recorder import Recorder
from penstock.storage.log import EventLog, Stored, open_log
from penstock.storage.log.keys import Stream
from penstock.storage.state import open_store

SYMBOL = Symbol("SIM002", "USDT")
OTHER = Symbol("SIM003", "USDT")
FIRST_MS = int(datetime(2024, 12, 30, tzinfo=UTC).timestamp()) * 1000
"""From the second day after on, times in files are in microseconds."""
PAGE = 1000


class Killed(BaseException):
    """The end of a process, at any point."""


@dataclass
class Place:
    """A simulated Binance with files, and everything that a job is given."""

    address: str
    gateway: Gateway
    symbols: SymbolMap
    settings: Settings
    log: EventLog
    stack: AsyncExitStack
    recorded: list[int] = field(default_factory=list)
    """Every id, or open time of a candle, as often as it was recorded."""
    kill_at: int = -1
    """The point at which the next run ends."""
    points: int = 0
    runs: int = 0
    files: PublishedFiles | None = None

    async def of(self, _exchange_id: str) -> Any:
        return self.gateway

    def point(self) -> None:
        self.points += 1
        if self.points == self.kill_at:
            raise Killed

    def job(self, **range_: int) -> Job:
        cursor: Any = TradesCursor(**range_)  # type: ignore[arg-type]
        return made_job("trades_backfill", cursor, symbol=SYMBOL.unified, timeframe=None)

    def candle_job(self, since_ms: int, until_ms: int) -> Job:
        cursor = Cursor(since_ms=since_ms, until_ms=until_ms)
        return made_job("ohlcv_backfill", cursor, symbol=SYMBOL.unified, timeframe="1m")

    async def run(self, job: Job, stop_at: int = 9999, source: str | None = None) -> Job:
        """The job after a run, whose cursor was never ahead of what is durable."""
        latest = [job]

        async def save(job_run: AnyRun) -> None:
            cursor = job_run.job.cursor
            if isinstance(cursor, Cursor):
                assert cursor.last_ts in self.recorded
            elif cursor.last_id is not None:
                assert set(self.recorded).issuperset(range(cursor.from_id, cursor.last_id + 1))
            self.point()
            latest[0] = job_run.job
            if job_run.job.progress.pages >= stop_at:
                job_run.stop("enough")

        self.runs += 1
        job_run = AnyRun(job, save)
        job_run.good_until_ns = 1 << 62
        if source is not None or self.files is None:
            place = f"{self.address}" if source is None else source
            chosen = Settings(
                collect=self.settings.collect, requests=self.settings.requests,
                ingest=Ingest(files=place),
            )  # fmt: skip
            found = source_of(chosen, SystemClock())
            self.files = None if found is None else PublishedFiles(found, SystemClock())
            if self.files is not None:
                self.stack.push_async_callback(self.files.aclose)
        writer = self.log.writer("work-0")
        recorder: Any = Watched(self, Recorder(writer))
        service = JobService(await open_store("memory:"), registry.kinds())
        context = HandlerContext(
            self, Maps(self.symbols), recorder, SystemClock(), self.log.reader(), service,
            GapRows(service.store), files=self.files,
        )  # fmt: skip
        try:
            await registry.build(context)[job.type].run(job_run)
        except Killed:
            self.files = None
        finally:
            writer.close()
        return latest[0]

    def forget(self) -> None:
        """Begin with an empty log."""
        self.log, self.files = open_log("memory:"), None
        self.recorded.clear()

    def trades(self) -> list[Trade]:
        found = self.log.reader().scan(Stream("binance", "trades", SYMBOL.slug))
        return [each.event for each in found if isinstance(each.event, Trade)]

    def candles(self) -> list[Candle]:
        found = self.log.reader().scan(Stream("binance", "candles_1m", SYMBOL.slug))
        return [each.event for each in found if isinstance(each.event, Candle)]

    async def ask(self, path: str, **query: str | int) -> Any:
        url = f"{self.address}/_sim/{path}"
        async with ClientSession() as http, http.get(url, params=query) as answer:
            return await answer.json()

    async def plan(self, text: str) -> None:
        url = f"{self.address}/_sim/faults"
        async with ClientSession() as http, http.post(url, json={"plan": text}) as answer:
            assert answer.status == 200

    async def ids(self, *times_ms: int) -> list[int]:
        asked = [self.ask("ledger/ids", symbol=SYMBOL.slug, at_ms=at_ms) for at_ms in times_ms]
        return [(await each)["next_trade_id"] for each in asked]

    async def check(self, since_ms: int, until_ms: int) -> None:
        """What is stored is the ledger, each trade recorded once."""
        first, end = await self.ids(since_ms, until_ms)
        rows: list[Any] = []
        for start in range(first, end, 10_000):
            limit = min(10_000, end - start)
            asked = self.ask("ledger/trades", symbol=SYMBOL.slug, from_id=start, limit=limit)
            rows += (await asked)["trades"]
        truth = [
            (row["id"], row["at_ms"], Decimal(row["price"]), Decimal(row["quantity"]))
            for row in rows
        ]
        stored = [(each.id, each.at_ms, each.price, each.quantity) for each in self.trades()]
        assert stored == truth
        assert sorted(self.recorded) == list(range(first, end))

    async def requests(self, name: str = "historicalTrades") -> int:
        """Those for pages of trades."""
        rows = (await self.ask("requests"))["requests"]
        return sum(row["path"] == f"/api/v3/{name}" for row in rows)

    async def download(self, folder: Path, day: int, symbol: Symbol = SYMBOL) -> Path:
        """Put a day's file and its checksum into a folder, without the exchange's folders."""
        file = file_of(day, symbol)
        found: dict[str, bytes] = {}
        async with ClientSession() as http:
            for path in (file.path, file.checksum_path):
                async with http.get(f"{self.address}/{path}") as answer:
                    assert answer.status == 200
                    found[path.rpartition("/")[2]] = await answer.read()
        folder.mkdir(parents=True, exist_ok=True)  # noqa: ASYNC240
        for name, data in found.items():
            (folder / name).write_bytes(data)
        return folder / file.name


@dataclass
class Watched:
    """A recorder that counts, and at which a process may end before and after each write."""

    place: Place
    recorder: Recorder

    async def record(self, events: list[Event]) -> list[Stored]:
        self.place.point()
        stored = await self.recorder.record(events)
        for event in (each.event for each in stored):
            if isinstance(event, Trade | Candle):
                self.place.recorded.append(event.id if isinstance(event, Trade) else event.open_ms)
        self.place.point()
        return stored

    async def sync(self) -> None:
        self.place.point()
        await self.recorder.sync()
        self.place.point()


@dataclass
class Maps:
    symbols: SymbolMap

    async def of(self, _exchange_id: str) -> SymbolMap:
        return self.symbols

    async def refresh(self, exchange_id: str, info: Info) -> object:
        raise AssertionError("no trade needs that")


def series_of(symbol: Symbol = SYMBOL) -> FileSeries[Trade]:
    files = exchanges.load("binance").bulk_files
    assert files is not None
    series = files.trades(f"{symbol.base}{symbol.quote}", symbol)
    assert series is not None
    return series


def file_of(day: int, symbol: Symbol = SYMBOL) -> BulkFile:
    since_ms = FIRST_MS + day * DAY_MS
    return series_of(symbol).file(FileSpan("daily", since_ms, since_ms + DAY_MS))


@pytest.fixture
async def place(tmp_path: Path) -> AsyncIterator[Place]:
    async with AsyncExitStack() as stack:
        wide = SimulatedBinance(weight_limit=1_000_000)
        simulator = Simulator(
            port=0, symbols=(SYMBOL.slug, OTHER.slug), uplink_ms=0, latency_ms=1, binance=wide
        )
        server = build_simulator(simulator, SystemClock(), exchange="binance")
        await server.start()
        stack.push_async_callback(server.stop)
        address = f"http://{server.address}"
        settings = Settings(
            exchanges=Exchanges(rest_urls={"binance": address}),
            requests=Requests(guard_ms=0, attempts=2, first_delay=0.01),
            collect=Collect(data_dir=str(tmp_path)),
        )
        gateway = gateway_for(exchanges.load("binance"), settings, SystemClock())
        stack.push_async_callback(gateway.aclose)
        symbols = (await gateway.learn()).symbols
        log = open_log("memory:")
        yield Place(address, gateway, symbols, settings, log, stack)
