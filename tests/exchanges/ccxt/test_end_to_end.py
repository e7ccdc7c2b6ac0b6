"""Connectors, jobs and collectors of ``ccxt:`` exchanges, from settings to log, as of any other."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from aiohttp import ClientSession
from msgspec.structs import replace
from tests.waiting import PATIENCE_S

from penstock.app.admin import open_admin
from penstock.app.collector import open_collector
from penstock.app.fetcher import open_fetcher
from penstock.app.simulator import build_simulator
from penstock.app.worker import open_worker
from penstock.cli.judge import gather
from penstock.clock import SystemClock
from penstock.collect.facts import ConnectionLost
from penstock.collect.fetcher import Fetcher
from penstock.collect.status import CollectorStatus, read_status
from penstock.config import (
    Collect,
    ConnectorPlan,
    Fetch,
    Jobs,
    LimitPlan,
    Requests,
    Settings,
    Simulator,
)
from penstock.connectors import ConnectorManager
from penstock.errors import UnknownChannel
from penstock.exchanges.facts import RequestSent
from penstock.ingest.apply import carry_out, prepare
from penstock.jobs.model import Cursor, NewJob
from penstock.market.events import Candle, Trade
from penstock.market.interval import DAY_MS, MINUTE_MS
from penstock.market.symbol import Symbol
from penstock.runtime.stores import open_state
from penstock.simulator.judge import Judge
from penstock.storage.log import open_log
from penstock.storage.log.keys import Stream
from penstock.telemetry import Fact

from .simulated import SIMULATED, addresses


@dataclass
class Place:
    """A simulated exchange, a folder, and settings that join them."""

    name: str
    address: str
    symbol: Symbol
    settings: Settings
    facts: list[Fact]

    async def ask(self, path: str, **query: str | int) -> Any:
        url = f"http://{self.address}/_sim/{path}"
        async with ClientSession() as http, http.get(url, params=query) as answer:
            return await answer.json()

    def recorded_ids(self) -> list[int]:
        stream = Stream(self.name, "trades", self.symbol.slug)
        with closing(open_log(f"rocksdb:{self.settings.collect.data_dir}").reader()) as log:
            trades = [stored.event for stored in log.scan(stream)]
        assert all(isinstance(each, Trade) and each.source == "live" for each in trades)
        return [each.id for each in trades if isinstance(each, Trade)]

    async def plan_faults(self, plan: str) -> None:
        url = f"http://{self.address}/_sim/faults"
        async with ClientSession() as http, http.post(url, json={"plan": plan}) as answer:
            assert answer.status == 200, await answer.text()

    async def all_was_paid(self) -> None:
        arrivals = (await self.ask("requests"))["requests"]
        arrived = [each["path"] for each in arrivals if each["unit"] != "connect"]
        sent = [fact.path for fact in self.facts if isinstance(fact, RequestSent)]
        assert sorted(arrived) == sorted(sent)
        assert {each["status"] for each in arrivals} == {200}


@asynccontextmanager
async def placed(name: str, folder: Path, **collect: Any) -> AsyncIterator[Place]:
    server = build_simulator(
        Simulator(port=0, latency_ms=1), SystemClock(), exchange=SIMULATED[name]
    )
    await server.start()
    settings = Settings(
        exchanges=addresses(name, server.address),
        collect=Collect(data_dir=str(folder), **collect),
        jobs=Jobs(poll_interval=0.2),
        requests=Requests(attempts=2),
    )
    symbol = sorted(map(Symbol.parse, server.symbols))[0]
    try:
        yield Place(name, server.address, symbol, settings, [])
    finally:
        await server.stop()


async def done(place: Place, new: NewJob) -> list[Candle]:
    """What a worker has recorded once a job is through."""
    async with open_admin(place.settings, SystemClock(), place.facts.append) as admin:
        job, stop = await admin.add(new), asyncio.Event()
        async with open_worker(place.settings, SystemClock(), place.facts.append) as worker:
            working = asyncio.create_task(worker.run(stop))
            async with asyncio.timeout(PATIENCE_S):
                while (await admin.job_service.get(job.id)).state != "success":  # noqa: ASYNC110
                    await asyncio.sleep(0.05)
            stop.set()
            await working
        assert (await admin.connectors.get(place.name)).status == "active"
    with closing(open_log(f"rocksdb:{place.settings.collect.data_dir}").reader()) as log:
        stream = Stream(place.name, f"candles_{new.timeframe}", place.symbol.slug)
        found = [stored.event for stored in log.scan(stream)]
    return [each for each in found if isinstance(each, Candle)]


@pytest.mark.parametrize("name", ["ccxt:binance", "ccxt:upbit"])
async def test_a_gap_is_filled_with_the_ledgers_candles_by_a_worker(
    name: str, tmp_path: Path
) -> None:
    async with placed(name, tmp_path) as place:
        now_ms = SystemClock().now_ms() // MINUTE_MS * MINUTE_MS
        since_ms, until_ms = now_ms - 90 * MINUTE_MS, now_ms - 30 * MINUTE_MS
        gap = Cursor(since_ms=since_ms, until_ms=until_ms)
        candles = await done(
            place,
            NewJob(
                exchange_id=name,
                type="gap_backfill",
                symbol=place.symbol.slug,
                timeframe="1m",
                cursor=gap,
            ),
        )
        told = await place.ask(
            "ledger/candles",
            symbol=place.symbol.slug,
            start_ms=since_ms,
            end_ms=until_ms,
            step_ms=MINUTE_MS,
        )

        traded = [row for row in told["candles"] if row["trades"]]
        assert [candle.open_ms for candle in candles] == [row["start_ms"] for row in traded]
        for candle, row in zip(candles, traded, strict=True):
            assert (candle.close, candle.volume) == (Decimal(row["close"]), Decimal(row["volume"]))
        await place.all_was_paid()


@pytest.mark.parametrize("name", ["ccxt:binance", "ccxt:coinbaseexchange"])
async def test_a_backfill_finds_the_first_day_there_was(name: str, tmp_path: Path) -> None:
    async with placed(name, tmp_path) as place:
        new = NewJob(
            exchange_id=name, type="ohlcv_backfill", symbol=place.symbol.slug, timeframe="1d"
        )
        opens = [candle.open_ms for candle in await done(place, new)]
        today_ms = SystemClock().now_ms() // DAY_MS * DAY_MS
        told = await place.ask(
            "ledger/candles",
            symbol=place.symbol.slug,
            start_ms=opens[0] - 2 * DAY_MS,
            end_ms=opens[0] + DAY_MS,
            step_ms=DAY_MS,
        )

        assert opens[0] == min(row["start_ms"] for row in told["candles"] if row["trades"])
        assert opens == list(range(opens[0], today_ms, DAY_MS))
        await place.all_was_paid()


async def test_a_plan_names_it_and_may_add_limits(tmp_path: Path) -> None:
    name = "ccxt:kraken"
    async with placed(name, tmp_path) as place:
        limit = LimitPlan(amount=3, period_ms=10_000, unit="request")
        plan = ConnectorPlan(symbols=(place.symbol.slug,), timeframes=("1m",), limits=(limit,))
        async with open_admin(place.settings, SystemClock(), place.facts.append) as admin:
            for step in await prepare({name: plan}, admin, "a test"):
                await carry_out(step, admin)
            connector = await admin.connectors.get(name)
            jobs = await admin.job_service.find(exchange_id=name)

        units = [(each.unit, each.amount, each.kind) for each in connector.limits]
        assert ("request", 3, "aligned") in units
        assert ("weight", 10_000, "paced") in units, "ccxt's own pace holds beside it"
        assert {job.type for job in jobs} == {"markets_refresh", "ohlcv_incremental"}


def is_streaming(status: CollectorStatus) -> bool:
    channels = {stream.channel for stream in status.streams if stream.records >= 3}
    return {"trades", "book_snapshots"} <= channels


@pytest.mark.parametrize("name", ["ccxt:binance", "ccxt:upbit"])
async def test_a_collector_records_what_ccxt_streams_and_the_judge_finds_nothing_wrong(
    name: str, tmp_path: Path
) -> None:
    async with placed(name, tmp_path, book_levels=5) as place:
        status = await collected(place, is_streaming)
        slot = name.replace(":", "-")
        assert status == read_status(tmp_path, f"collect-{slot}")
        async with ClientSession() as http:
            judge = Judge(http, f"http://{place.address}")
            findings = await judge.judge(gather(tmp_path, open_log(f"rocksdb:{tmp_path}"), name))
        assert not findings.trades_wrong, findings
        assert not findings.trades_duplicated, findings
        assert not findings.book_mismatches, findings
        assert findings.books_checked
        assert findings.trades
        assert not findings.http_429
        await place.all_was_paid()
        if name == "ccxt:binance":  # whose ids rise by one
            ids = place.recorded_ids()
            assert ids == list(range(ids[0], ids[0] + len(ids))), "nothing fell between two looks"


async def collected(place: Place, until: Callable[[CollectorStatus], bool]) -> CollectorStatus:
    """The status of a collector that ran until something was so."""
    stop = asyncio.Event()
    async with open_collector(
        place.settings, place.name, SystemClock(), place.facts.append
    ) as collector:
        running = asyncio.create_task(collector.run([place.symbol.slug], stop))
        async with asyncio.timeout(PATIENCE_S):
            while not until(collector.reporter.status("running")):
                assert not running.done(), running.result()
                await asyncio.sleep(0.05)
        stop.set()
        await running
    assert collector.reporter.latest is not None
    return collector.reporter.latest


def _all_fetched(fetcher: Fetcher) -> bool:
    return all(each.fetches for each in fetcher.reporter.status("running").fetches)


@pytest.mark.parametrize("name", ["ccxt:coinbaseexchange", "ccxt:upbit"])
async def test_a_fetcher_asks_it_again_and_again(name: str, tmp_path: Path) -> None:
    async with placed(name, tmp_path) as place:
        settings = replace(place.settings, fetch=Fetch(every=0.3))
        stop, symbols = asyncio.Event(), [place.symbol.slug]
        async with open_fetcher(settings, name, symbols, SystemClock(), place.facts.append) as at:
            fetching = asyncio.create_task(at.run(stop))
            async with asyncio.timeout(PATIENCE_S):
                while not _all_fetched(at):  # noqa: ASYNC110 (nobody tells)
                    await asyncio.sleep(0.05)
            stop.set()
            await fetching

        status = read_status(tmp_path, f"fetch-{name.replace(':', '-')}")
        assert status is not None
        assert {each.what for each in status.fetches} == {"trades", "book", "info", "tickers"}
        assert not any(each.errors for each in status.fetches)
        assert {each.channel for each in status.streams} == {"trades", "book_snapshots", "tickers"}
        arrivals = (await place.ask("requests"))["requests"]
        sent = [fact for fact in place.facts if isinstance(fact, RequestSent)]
        assert {each["status"] for each in arrivals} == {200}
        # Each loop may have been stopped with a request under way.
        assert len(sent) <= len(arrivals) <= len(sent) + len(status.fetches)


async def test_what_was_cut_off_is_told_and_goes_on(tmp_path: Path) -> None:
    def has_gone_on(status: CollectorStatus) -> bool:
        return status.connection == "connected" and sum(status.reconnects.values()) >= 2

    async with placed("ccxt:binance", tmp_path, channels=("trades",)) as place:
        await place.plan_faults("cut=2s")
        status = await collected(place, has_gone_on)

        assert status.reconnects
        ids = place.recorded_ids()
        assert len(set(ids)) == len(ids) > 0
        assert any(isinstance(fact, ConnectionLost) for fact in place.facts)


async def test_what_an_exchange_refuses_to_stream_is_told_and_the_rest_is_collected(
    tmp_path: Path,
) -> None:
    """Coinbase gives books to those alone who have signed in."""

    def is_known(status: CollectorStatus) -> bool:
        traded = any(each.channel == "trades" and each.records for each in status.streams)
        return traded and bool(status.refused)

    async with placed("ccxt:coinbaseexchange", tmp_path) as place:
        status = await collected(place, is_known)

        assert any("apiKey" in refused for refused in status.refused)
        (book,) = status.books
        assert book.state != "synced"
        assert "apiKey" in book.reason
        assert place.recorded_ids()


async def test_a_channel_that_ccxt_does_not_stream_is_refused_with_those_it_does(
    tmp_path: Path,
) -> None:
    async with placed("ccxt:kraken", tmp_path, channels=("trades", "agg_trades")) as place:
        with pytest.raises(UnknownChannel, match="trades book_deltas tickers"):
            await collected(place, lambda _: False)


async def test_a_connector_of_a_family_is_kept_like_any_other(tmp_path: Path) -> None:
    settings = Settings(collect=Collect(data_dir=str(tmp_path)))
    async with open_state(settings, SystemClock()) as store:
        manager = ConnectorManager(store)
        made = (await manager.ensure_connector("ccxt:okx")).connector
        await manager.pause_connector("ccxt:okx")

        assert made.id == made.exchange_id == "ccxt:okx"
        assert [each.status for each in await manager.find()] == ["paused"]
        await manager.delete("ccxt:okx")
        assert await manager.find() == []
