"""Jobs on every exchange, against its simulator: what is recorded is what was traded.

The simulator lives in the first hours of a market, so that all of its history is a few pages.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest
from aiohttp import ClientSession
from tests.jobs_made import made_job
from tests.quick_limits import simulated_limits

from penstock.app.simulator import build_simulator
from penstock.clock import SystemClock
from penstock.config import Exchanges, Settings, Simulator
from penstock.coverage.gap_rows import GapRows
from penstock.exchanges import registry as exchanges
from penstock.exchanges.base import Info
from penstock.exchanges.clients import gateway_for
from penstock.exchanges.gateway import Gateway
from penstock.exchanges.symbol_map import SymbolMap
from penstock.exchanges.transport import Answer, Transport
from penstock.ingest import registry
from penstock.ingest.context import HandlerContext
from penstock.ingest.registry import kinds
from penstock.ingest.trade_range import TradesCursor
from penstock.jobs.model import Cursor, Job
from penstock.jobs.run import AnyRun
from penstock.jobs.service import JobService
from penstock.market.events import Candle, Trade
from penstock.market.interval import DAY_MS, HOUR_MS, MINUTE_MS
from penstock.market.symbol import Symbol
from penstock.recorder import Recorder
from penstock.simulator import registry as simulators
from penstock.storage.log import EventLog, open_log
from penstock.storage.log.keys import Stream
from penstock.storage.state import open_store

LISTED_MS = int(datetime(2021, 1, 2, tzinfo=UTC).timestamp()) * 1000
"""When the market that is made by rule as number one begins."""
FEW_REQUESTS = 30


class LaterClock(SystemClock):
    """The machine's clock, set to another time, and forward at will."""

    def __init__(self, now_ms: int) -> None:
        super().__init__()
        self._ahead_ns = now_ms * 1_000_000 - super().now_ns()

    def now_ns(self) -> int:
        return super().now_ns() + self._ahead_ns

    def pass_by(self, ms: int) -> None:
        self._ahead_ns += ms * 1_000_000


@dataclass
class Undated:
    """A transport that leaves out the date of answers: a library's, which knows the real one."""

    transport: Transport

    async def send(
        self, path: str, params: Mapping[str, str | int], leaving: Callable[[], None]
    ) -> Answer:
        status, headers, body = await self.transport.send(path, params, leaving)
        return Answer(status, {k: v for k, v in headers.items() if k != "date"}, body)

    async def close(self) -> None:
        await self.transport.close()


@dataclass
class Simulated:
    """A simulated exchange, and everything a job is given to ask it."""

    name: str
    symbol: Symbol
    clock: LaterClock
    address: str
    gateway: Gateway
    info: Info
    log: EventLog
    recorder: Recorder

    async def of(self, _exchange_id: str) -> Gateway:
        return self.gateway

    async def run(
        self,
        kind: str,
        cursor: Cursor | TradesCursor,
        timeframe: str | None = "1m",
        stop_at: int = 999,
    ) -> Job:
        """The job, after a run."""
        market = {"symbol": self.symbol.unified, "timeframe": timeframe}
        job = made_job(kind, cursor, exchange_id=self.name, **market)  # type: ignore[arg-type]
        return await self.resume(job, stop_at)

    async def resume(self, job: Job, stop_at: int = 999) -> Job:
        """The same, from where a job stands."""

        async def save(job_run: AnyRun) -> None:
            if job_run.job.progress.pages >= stop_at:
                job_run.stop("enough")

        job_run = AnyRun(job, save)
        job_run.good_until_ns = 1 << 62
        maps, reader = _Maps(self.info.symbols), self.log.reader()
        job_service = JobService(await open_store("memory:", clock=self.clock), kinds())
        context = HandlerContext(
            self, maps, self.recorder, self.clock, reader, job_service, GapRows(job_service.store)
        )
        is_done = await registry.build(context)[job.type].run(job_run)
        assert is_done or job_run.stopping
        return job_run.job

    def candles(self, timeframe: str = "1m") -> list[Candle]:
        stream = Stream(self.name, f"candles_{timeframe}", self.symbol.slug)
        reader = self.log.reader()
        found = [stored.event for stored in reader.scan(stream)]
        return [event for event in found if isinstance(event, Candle)]

    def trades(self) -> list[Trade]:
        reader = self.log.reader()
        found = [each.event for each in reader.scan(Stream(self.name, "trades", self.symbol.slug))]
        return [event for event in found if isinstance(event, Trade)]

    async def traded(self, since_ms: int, until_ms: int) -> list[Any]:
        """Every trade of this time, as numbers."""
        first, end = [
            (await self.ask("ledger/ids", symbol=self.symbol.slug, at_ms=at_ms))["next_trade_id"]
            for at_ms in (since_ms, until_ms)
        ]
        rows: list[Any] = []
        for start in range(first, end, 10_000):
            limit = min(10_000, end - start)
            asked = {"symbol": self.symbol.slug, "from_id": start, "limit": limit}
            rows += (await self.ask("ledger/trades", **asked))["trades"]
        return [(row["at_ms"], Decimal(row["price"]), Decimal(row["quantity"])) for row in rows]

    async def ask(self, path: str, **query: str | int) -> Any:
        url = f"http://{self.address}/_sim/{path}"
        async with ClientSession() as http, http.get(url, params=query) as answer:
            return await answer.json()

    async def truth(self, start_ms: int, end_ms: int, step_ms: int = MINUTE_MS) -> list[Any]:
        """Every candle the exchange has of this time, as numbers."""
        told = await self.ask(
            "ledger/candles",
            symbol=self.symbol.slug,
            start_ms=start_ms,
            end_ms=end_ms,
            step_ms=step_ms,
        )
        has_empty = self.gateway.exchange.empty_candles
        fields = ("open", "high", "low", "close", "volume")
        return [
            (row["start_ms"], *(Decimal(row[each]) for each in fields))
            for row in told["candles"]
            if row["trades"] or has_empty
        ]

    async def requests(self) -> list[dict[str, Any]]:
        """Those that arrived; none was ever refused."""
        arrived: list[dict[str, Any]] = (await self.ask("requests"))["requests"]
        assert {each["status"] for each in arrived} == {200}
        return arrived


@dataclass
class _Maps:
    symbols: SymbolMap

    async def of(self, _exchange_id: str) -> SymbolMap:
        return self.symbols

    async def refresh(self, exchange_id: str, info: Info) -> object:
        raise AssertionError("no candle needs that")


def numbers(candles: Sequence[Candle]) -> list[Any]:
    return [(c.open_ms, c.open, c.high, c.low, c.close, c.volume) for c in candles]


Open = Callable[[str, int], Awaitable[Simulated]]


@pytest.fixture
async def simulated(quick_kraken: None) -> AsyncIterator[Open]:
    """Open a simulated exchange for the length of a test, so long after its market began."""
    closing: list[Callable[[], Awaitable[None]]] = []

    async def opened(name: str, age_ms: int) -> Simulated:
        clock = LaterClock(LISTED_MS + age_ms)
        quote = simulators.catalogue(name).all()[0].quote
        symbol = Symbol("SIM001", quote)
        settings = Simulator(
            port=0, symbols=(symbol.slug,), uplink_ms=0, latency_ms=1, limits=simulated_limits(name)
        )
        server = build_simulator(settings, clock, exchange=name)
        await server.start()
        closing.append(server.stop)
        urls = Exchanges(rest_urls={name: f"http://{server.address}"})
        gateway = gateway_for(exchanges.load(name), Settings(exchanges=urls), clock)
        gateway.transport = Undated(gateway.transport)
        closing.append(gateway.aclose)
        info, log = await gateway.learn(), open_log("memory:")
        recorder = Recorder(log.writer("work-0"))
        return Simulated(name, symbol, clock, server.address, gateway, info, log, recorder)

    yield opened
    for close in reversed(closing):
        await close()


every_exchange = pytest.mark.parametrize(
    "name", [name for name in exchanges.names() if name in simulators.names()]
)


@every_exchange
async def test_a_backfill_finds_the_beginning_and_goes_on_from_its_cursor(
    name: str, simulated: Open
) -> None:
    at = await simulated(name, 6 * HOUR_MS + 30_000)

    first = await at.run("ohlcv_backfill", Cursor(), stop_at=1)
    last = await at.run("ohlcv_backfill", first.cursor)

    candles = at.candles()
    assert candles[0].open_ms == LISTED_MS
    assert candles[-1].open_ms >= LISTED_MS + 6 * HOUR_MS - 5 * MINUTE_MS
    end_ms = candles[-1].open_ms + MINUTE_MS
    assert numbers(candles) == await at.truth(LISTED_MS, end_ms)
    assert first.progress.rows + last.progress.rows == len(candles), "nothing was asked for twice"
    assert len(await at.requests()) <= FEW_REQUESTS


@every_exchange
async def test_an_incremental_adds_what_has_closed_since(name: str, simulated: Open) -> None:
    at = await simulated(name, 3 * HOUR_MS + 30_000)

    job = await at.run("ohlcv_incremental", Cursor())
    begin_ms = (job.cursor.since_ms or 0) - MINUTE_MS
    at.clock.pass_by(4 * MINUTE_MS)
    before_ms = at.clock.now_ms() // MINUTE_MS * MINUTE_MS
    job = await at.run("ohlcv_incremental", job.cursor)
    now_ms = at.clock.now_ms()

    candles = at.candles()
    end_ms = candles[-1].open_ms + MINUTE_MS
    assert before_ms - MINUTE_MS <= end_ms <= now_ms
    assert numbers(candles) == await at.truth(begin_ms, end_ms)
    assert len(candles) >= 4
    await at.requests()


@every_exchange
async def test_a_gap_is_filled_whatever_was_before(name: str, simulated: Open) -> None:
    at = await simulated(name, 3 * HOUR_MS + 30_000)
    since_ms, until_ms = LISTED_MS + HOUR_MS, LISTED_MS + 2 * HOUR_MS

    await at.run("gap_backfill", Cursor(since_ms=since_ms, until_ms=until_ms))

    assert numbers(at.candles()) == await at.truth(since_ms, until_ms)
    assert len(await at.requests()) <= FEW_REQUESTS


@every_exchange
async def test_nothing_before_the_listing_is_soon_known(name: str, simulated: Open) -> None:
    at = await simulated(name, 3 * HOUR_MS + 30_000)

    await at.run("gap_backfill", Cursor(since_ms=0, until_ms=LISTED_MS))

    assert at.candles() == []
    assert len(await at.requests()) <= FEW_REQUESTS


@pytest.mark.parametrize(
    "name", [name for name in exchanges.names() if exchanges.load(name).latest_candles]
)
async def test_a_cursor_older_than_what_is_kept_goes_on_at_the_oldest_and_says_so(
    name: str, simulated: Open
) -> None:
    at = await simulated(name, DAY_MS + 30_000)

    gap = await at.run("gap_backfill", Cursor(since_ms=LISTED_MS, until_ms=LISTED_MS + HOUR_MS))
    job = await at.run("ohlcv_backfill", Cursor(since_ms=LISTED_MS))
    fresh = await at.run("ohlcv_incremental", job.cursor)

    candles = at.candles()
    assert len(candles) >= (at.gateway.exchange.latest_candles or 0) - 1
    assert candles[0].open_ms > LISTED_MS + HOUR_MS
    end_ms = candles[-1].open_ms + MINUTE_MS
    assert numbers(candles) == await at.truth(candles[0].open_ms, end_ms)
    assert [event.what for event in gap.events] == ["skipped"]
    assert [event.what for event in job.events] == ["skipped"]
    assert "2021-01-02T00:00:00Z" in job.events[0].detail
    assert fresh.events == ()


@pytest.mark.parametrize(
    ("name", "timeframe"),
    [(name, each) for name in exchanges.names() for each in exchanges.load(name).candle_days],
)
async def test_what_is_kept_for_some_days_is_not_looked_for_before_them(
    name: str, timeframe: str, simulated: Open
) -> None:
    at = await simulated(name, 200 * DAY_MS + 30_000)

    job = await at.run("ohlcv_backfill", Cursor(since_ms=LISTED_MS), timeframe, stop_at=3)

    days = at.gateway.exchange.candle_days[timeframe]
    kept_ms = at.clock.now_ms() - days * DAY_MS
    assert len(at.candles(timeframe)) > 0
    assert abs(at.candles(timeframe)[0].open_ms - kept_ms) < HOUR_MS
    assert [event.what for event in job.events] == ["skipped"]


@every_exchange
async def test_trades_between_two_times_are_those_of_the_ledger(name: str, simulated: Open) -> None:
    at = await simulated(name, 3 * HOUR_MS + 30_000)
    since_ms, until_ms = LISTED_MS + HOUR_MS + 123, LISTED_MS + HOUR_MS + 20 * MINUTE_MS
    cursor = TradesCursor(since_ms=since_ms, until_ms=until_ms)

    job = await at.run("trades_backfill", cursor, None)

    trades = [(each.at_ms, each.price, each.quantity) for each in at.trades()]
    assert trades == await at.traded(since_ms, until_ms)
    assert job.progress.rows == len(trades) > 100
    if "trades" in at.gateway.exchange.consecutive:
        ids = [each.id for each in at.trades()]
        assert ids == [*range(ids[0], ids[0] + len(ids))]
    await at.requests()


@every_exchange
async def test_all_trades_begin_with_the_first_and_go_on_from_the_cursor(
    name: str, simulated: Open
) -> None:
    at = await simulated(name, HOUR_MS)
    until_ms = LISTED_MS + 20 * MINUTE_MS
    cursor = TradesCursor(until_ms=until_ms)

    first = await at.run("trades_backfill", cursor, None, stop_at=2)
    at.recorder = Recorder(at.log.writer("work-1"))
    job = await at.resume(first)

    trades = [(each.at_ms, each.price, each.quantity) for each in at.trades()]
    assert trades == await at.traded(LISTED_MS, until_ms)
    assert job.progress.rows == len(trades)
    await at.requests()
