"""The boxes of the specification's checklist that are about jobs, each a test of its name.

Worker, store, log and requests are real; the exchange is the simulator, with windows of its own.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from aiohttp import ClientSession
from msgspec.structs import replace
from tests.waiting import PATIENCE_S

from penstock.app.simulator import build_simulator
from penstock.app.worker import open_worker
from penstock.clock import SystemClock
from penstock.config import (
    Collect,
    Exchanges,
    Ingest,
    Jobs,
    Requests,
    Settings,
    SimulatedBinance,
    Simulator,
)
from penstock.connectors import ConnectorManager
from penstock.exchanges.facts import RequestSent
from penstock.ingest.registry import kinds
from penstock.jobs import Cursor, Job, JobService, NewJob, Schedule
from penstock.jobs.facts import JobDone
from penstock.jobs.schedule import next_due
from penstock.market.events import Candle
from penstock.simulator.registry import catalogue
from penstock.storage.log import open_log
from penstock.storage.log.keys import Stream
from penstock.storage.state import open_store
from penstock.telemetry import Fact

MINUTE_MS = 60_000
DAY_MS = 24 * 60 * MINUTE_MS
WITHOUT_END = Simulator(
    port=0, symbols=("btc_usdt",), binance=SimulatedBinance(weight_limit=600_000)
)


@dataclass
class Lab:
    """A simulated exchange, a data folder, and the job service of its store."""

    address: str
    settings: Settings
    job_service: JobService
    facts: list[Fact] = field(default_factory=list)

    async def add(self, type_: str, timeframe: str | None = "1m", **fields: Any) -> Job:
        await ConnectorManager(self.job_service.store).ensure_connector("binance")
        said: dict[str, Any] = {"symbol": "BTC/USDT" if timeframe else None, **fields}
        return await self.job_service.create(
            NewJob(exchange_id="binance", type=type_, timeframe=timeframe, **said)
        )

    @asynccontextmanager
    async def at_work(self) -> AsyncIterator[None]:
        """A worker that runs meanwhile."""
        stop = asyncio.Event()
        async with open_worker(self.settings, SystemClock(), self.facts.append) as worker:
            working = asyncio.create_task(worker.run(stop))
            try:
                yield
            finally:
                stop.set()
                await working

    async def wait_until(self, holds: Callable[[], Awaitable[bool]]) -> None:
        async with asyncio.timeout(PATIENCE_S):
            while not await holds():  # noqa: ASYNC110 (other tasks do it, and tell nobody)
                await asyncio.sleep(0.05)

    async def wait_for_state(self, job: Job, state: str) -> Job:
        async def reached() -> bool:
            return (await self.job_service.get(job.id)).state == state

        await self.wait_until(reached)
        return await self.job_service.get(job.id)

    def opens(self, timeframe: str = "1m") -> list[int]:
        """The beginnings of the candles that a reader finds."""
        reader = open_log(f"rocksdb:{self.settings.collect.data_dir}").reader()
        found = list(reader.scan(Stream("binance", f"candles_{timeframe}", "btc_usdt")))
        reader.close()
        events = [stored.event for stored in found]
        return [event.open_ms for event in events if isinstance(event, Candle)]

    async def arrivals(self) -> list[dict[str, Any]]:
        """Every request that reached the exchange."""
        async with ClientSession() as session, session.get(f"{self.address}/_sim/requests") as got:
            requests: list[dict[str, Any]] = json.loads(await got.text())["requests"]
            return requests

    async def now_ms(self) -> int:
        return await self.job_service.store.now_ms()

    async def minutes(self, back: int, count: int) -> Cursor:
        """A range of so many minutes that begins so many minutes ago."""
        since_ms = (await self.now_ms() // MINUTE_MS - back) * MINUTE_MS
        return Cursor(since_ms=since_ms, until_ms=since_ms + count * MINUTE_MS)


Open = Callable[..., Awaitable[Lab]]


@pytest.fixture
async def lab(tmp_path: Path) -> AsyncIterator[Open]:
    """Open a lab for the length of a test."""
    closing: list[Callable[[], Awaitable[None]]] = []

    async def opened(simulator: Simulator = WITHOUT_END, **jobs: Any) -> Lab:
        server = build_simulator(simulator, SystemClock())
        await server.start()
        closing.append(server.stop)
        address = f"http://{server.address}"
        settings = Settings(
            exchanges=Exchanges(rest_urls={"binance": address}),
            requests=Requests(guard_ms=50),
            collect=Collect(data_dir=str(tmp_path / "data")),
            jobs=Jobs(**{"poll_interval": 0.5, "acquire_timeout": 0.2, **jobs}),
        )
        store = await open_store(f"sqlite:{tmp_path / 'data' / 'state.db'}")
        closing.append(store.close)
        return Lab(address, settings, JobService(store, kinds()))

    yield opened
    for close in reversed(closing):
        await close()


def scarce(weight: int, window_s: float) -> Simulator:
    return Simulator(
        port=0,
        symbols=("btc_usdt",),
        binance=SimulatedBinance(weight_limit=weight, weight_window=window_s),
        uplink_ms=0,
    )


async def test_every_request_calls_acquire_token_first(lab: Open) -> None:
    """Of a day's budget nothing is sent beyond what was paid for, however much is to be done."""
    # On a busy machine a lease takes longer than the others allow, and the job waits too soon.
    at = await lab(scarce(100, 86_400), acquire_timeout=2.0)
    job = await at.add("ohlcv_backfill")

    async with at.at_work():
        await at.wait_for_state(job, "waiting_rate_limit")

    arrivals = await at.arrivals()
    sent = [fact for fact in at.facts if isinstance(fact, RequestSent)]
    connector = await ConnectorManager(at.job_service.store).get("binance")
    weight = sum(arrival["weight"] for arrival in arrivals)
    assert 90 <= weight <= connector.rate_limit_usage <= connector.rate_limit == 100
    assert len(arrivals) == len(sent) > 10
    assert {arrival["status"] for arrival in arrivals} == {200}, "the exchange never had to say no"


async def test_backfill_pauses_on_rate_limit_and_resumes_later_from_cursor(lab: Open) -> None:
    at = await lab(scarce(30, 4.0))
    # Of several at a time, one that arrives while an earlier one has to wait is asked for again.
    at.settings = replace(at.settings, ingest=Ingest(chunk_concurrency=1))
    cursor = await at.minutes(80_000, 10_000)
    job = await at.add("ohlcv_backfill", cursor=cursor)

    async with at.at_work():
        done = await at.wait_for_state(job, "success")

    happened = [event.what for event in done.events]
    assert "waiting" in happened
    assert happened.index("waiting") < happened.index("claimed", happened.index("waiting"))
    assert (done.attempts, done.stats.fail, done.progress.rows) == (0, 0, 10_000)
    assert done.progress.resumptions >= 1
    assert at.opens() == list(range(cursor.since_ms or 0, cursor.until_ms or 0, MINUTE_MS))
    asked = [arrival for arrival in await at.arrivals() if arrival["path"].endswith("klines")]
    assert len(asked) == 10, "it goes on from its cursor: no page is asked for twice"
    assert {arrival["status"] for arrival in await at.arrivals()} == {200}


async def test_no_duplicate_candles(lab: Open) -> None:
    at = await lab()
    wide, narrow = await at.minutes(9_000, 3_000), await at.minutes(8_000, 500)
    first = await at.add("ohlcv_backfill", cursor=wide)
    async with at.at_work():
        await at.wait_for_state(first, "success")

    second = await at.add("ohlcv_backfill", cursor=wide)
    third = await at.add("gap_backfill", cursor=narrow)
    async with at.at_work(), at.at_work():
        await at.wait_for_state(second, "success")
        await at.wait_for_state(third, "success")

    assert at.opens() == list(range(wide.since_ms or 0, wide.until_ms or 0, MINUTE_MS))


async def test_backfill_reaches_earliest_available_history(lab: Open) -> None:
    at = await lab()
    (listing,) = catalogue("binance").find(["btc_usdt"])
    job = await at.add("ohlcv_backfill", "1d")

    async with at.at_work():
        done = await at.wait_for_state(job, "success")

    opens = at.opens("1d")
    today_ms = await at.now_ms() // DAY_MS * DAY_MS
    assert opens[0] == listing.listed_at_ms
    assert opens == list(range(listing.listed_at_ms, opens[-1] + 1, DAY_MS))
    assert opens[-1] in (today_ms - DAY_MS, today_ms - 2 * DAY_MS), "up to the last that closed"
    assert (done.status, done.cursor.done) == ("deleted", True)


async def test_incremental_runs_at_timeframe_cadence(lab: Open) -> None:
    at = await lab()
    job = await at.add("ohlcv_incremental", "1s")
    began_ms = await at.now_ms()

    async def ran_often() -> bool:
        return (await at.job_service.get(job.id)).stats.success >= 6

    async with at.at_work():
        await at.wait_until(ran_often)
        found = await at.job_service.get(job.id)

    took_ms = await at.now_ms() - began_ms
    assert found.schedule == Schedule(interval_ms=1000)
    assert found.stats.success <= took_ms / 1000 + 2, "not more often than once a candle"
    assert found.next_run_at == next_due(job.id, 1000, found.next_run_at - 1), "on its grid"
    opens = at.opens("1s")
    assert len(opens) >= 4
    assert opens == list(range(opens[0], opens[-1] + 1, 1000)), "and none is missed between"


async def test_gap_backfill_preempts_incremental(lab: Open) -> None:
    at = await lab(concurrency=1)
    for timeframe in ("1m", "5m", "15m"):
        await at.add("ohlcv_incremental", timeframe)
    gap = await at.add("gap_backfill", cursor=await at.minutes(500, 50))

    async with at.at_work():
        await at.wait_for_state(gap, "success")

        async def all_ran() -> bool:
            found = await at.job_service.find(type="ohlcv_incremental")
            return all(job.stats.success for job in found)

        await at.wait_until(all_ran)

    order = [fact.kind for fact in at.facts if isinstance(fact, JobDone)]
    assert order[:4] == ["gap_backfill", *["ohlcv_incremental"] * 3]


async def test_waiting_rate_limit_jobs_schedule_resume_at_reset_time(lab: Open) -> None:
    at = await lab(scarce(100, 86_400))
    job = await at.add("ohlcv_backfill")

    async def waits_long() -> bool:
        found = await at.job_service.get(job.id)
        # On a busy machine it may wait for a moment before, or for the end of a minute.
        waits_ms = found.next_run_at - found.updated_at
        return found.state == "waiting_rate_limit" and waits_ms > 60_000

    async with at.at_work():
        await at.wait_until(waits_long)
        waits = await at.job_service.get(job.id)

    reset_ms = (await ConnectorManager(at.job_service.store).get("binance")).rate_limit_reset_at
    # As exactly as the exchange's clock is known, on a machine that may be busy.
    assert reset_ms == pytest.approx((waits.updated_at // DAY_MS + 1) * DAY_MS, abs=10_000)
    assert reset_ms <= waits.next_run_at <= reset_ms + 15_000
    assert waits.cursor.page > 0
    assert waits.lock.locked_by is None
