"""Stops: an exchange that says stop is believed for a while, and a person can lift it."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import msgspec
import pytest
from aiohttp import web
from tests.api.conftest import Listed
from tests.waiting import PATIENCE_S
from typer.testing import CliRunner

from penstock.api.views import date
from penstock.cli import app
from penstock.cli.instants import day_and_time, instant
from penstock.clock import SystemClock
from penstock.config import Exchanges, Requests, Settings
from penstock.connectors import ConnectorManager
from penstock.connectors.gateways import FleetGateways
from penstock.errors import Banned, RateLimited
from penstock.exchanges.binance.rest import TIME
from penstock.ingest.admin import FleetAdmin
from penstock.ingest.registry import kinds
from penstock.jobs.model import NewJob
from penstock.jobs.service import JobService
from penstock.storage.state import LeaseRequest, StateStore, open_store
from penstock.storage.state.schema import JOBS

DAY_MS = 86_400_000
FOREVER = "Way too much request weight used; IP banned until 9999999999999999. Use streams."


@dataclass
class Exchange:
    """Answers with a ban until it is told to answer."""

    url: str = ""
    bans: bool = True
    asked: int = 0

    async def answer(self, _: web.Request) -> web.Response:
        self.asked += 1
        if self.bans:
            said = {"code": -1003, "msg": FOREVER}
            return web.json_response(said, status=418, headers={"Retry-After": "999999999"})
        return web.json_response({"serverTime": time.time_ns() // 1_000_000})


@asynccontextmanager
async def an_exchange() -> AsyncIterator[Exchange]:
    exchange = Exchange()
    routes = web.Application()
    routes.router.add_get("/api/v3/time", exchange.answer)
    runner = web.AppRunner(routes)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    exchange.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    yield exchange
    await runner.cleanup()


@asynccontextmanager
async def a_process(folder: Path, exchange: Exchange) -> AsyncIterator[FleetGateways]:
    """One process of a fleet: its own handle of the store, its own gateways."""
    settings = Settings(
        exchanges=Exchanges(rest_urls={"binance": exchange.url}), requests=Requests(attempts=1)
    )
    store = await open_store(f"sqlite:{folder / 'state.db'}")
    gateways = FleetGateways(store, settings, SystemClock())
    yield gateways
    await gateways.aclose()
    await store.close()


@asynccontextmanager
async def a_store(folder: Path) -> AsyncIterator[StateStore]:
    store = await open_store(f"sqlite:{folder / 'state.db'}")
    yield store
    await store.close()


async def banned(folder: Path) -> int:
    """Have a process banned for ever, as far as the exchange is concerned; until when it stops."""
    async with an_exchange() as exchange, a_store(folder) as store:
        await ConnectorManager(store).ensure_connector("binance")
        async with a_process(folder, exchange) as process:
            with pytest.raises(Banned) as stopped:
                await process.open("binance").fetch(TIME)
    return stopped.value.until_ms


def test_a_stop_is_believed_for_three_days_and_its_reason_is_shown(tmp_path: Path) -> None:
    begun_ms = time.time_ns() // 1_000_000
    until_ms = asyncio.run(banned(tmp_path))
    assert begun_ms + 3 * DAY_MS <= until_ms <= time.time_ns() // 1_000_000 + 3 * DAY_MS

    run, folder = CliRunner().invoke, ["--data-dir", str(tmp_path)]
    shown = run(app, ["connectors", "show", "binance", *folder])
    assert shown.exit_code == 0, shown.output
    said = " ".join(shown.output.split())
    for part in ("/api/v3/time", "418", "IP banned until", "the year 318", "unblock binance"):
        assert part in said
    listed = run(app, ["connectors", "list", "--json", *folder])
    told = msgspec.json.decode(listed.output.splitlines()[0])
    assert told["blocked_by"]["asked_until"] == 9999999999999999

    for refusal in ("n\n", ""):
        kept = run(app, ["connectors", "unblock", "binance", *folder], input=refusal)
        assert kept.exit_code == 1, kept.output
    lifted = run(app, ["connectors", "unblock", "binance", *folder], input="y\n")
    assert lifted.exit_code == 0, lifted.output
    again = run(app, ["connectors", "unblock", "binance", "--yes", "--json", *folder])
    assert again.exit_code == 0
    assert msgspec.json.decode(again.stdout)["blocked_until"] is None


def test_a_setting_says_for_how_long_a_stop_is_believed() -> None:
    assert Requests().longest_stop == 3 * 86_400


async def test_every_process_sends_again_once_a_stop_was_lifted(tmp_path: Path) -> None:
    async with (
        an_exchange() as exchange,
        a_store(tmp_path) as store,
        a_process(tmp_path, exchange) as one,
        a_process(tmp_path, exchange) as other,
    ):
        manager = ConnectorManager(store)
        await manager.ensure_connector("binance")
        with pytest.raises(Banned):
            await one.open("binance").fetch(TIME)
        for process in (one, other):
            with pytest.raises(RateLimited):
                await process.open("binance").fetch(TIME)
        assert exchange.asked == 1
        exchange.bans = False

        until_ms = (await manager.get("binance")).blocked_until
        assert until_ms is not None
        still = await manager.unblock_connector("binance", until_ms - 1)
        assert still.blocked_until == until_ms, "another stop than the one that was looked at"
        assert (await manager.unblock_connector("binance", until_ms)).blocked_until is None
        for process in (one, other):
            assert await answered(process)
        # Nobody has told the store of the old stop again.
        assert (await manager.get("binance")).blocked_until is None

        exchange.bans = True
        with pytest.raises(Banned):
            await one.open("binance").fetch(TIME)
        with pytest.raises(RateLimited):
            await other.open("binance").fetch(TIME)


async def answered(process: FleetGateways) -> int:
    """What an exchange answers, once this process has heard that it may ask."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            try:
                return await process.open("binance").fetch(TIME)
            except RateLimited:
                await asyncio.sleep(0.05)


async def test_jobs_that_wait_for_the_end_of_a_stop_run_when_it_is_lifted(tmp_path: Path) -> None:
    far_ms = time.time_ns() // 1_000_000 + 3 * DAY_MS
    async with a_store(tmp_path) as store:
        job_service, manager = JobService(store, kinds()), ConnectorManager(store)
        await manager.ensure_connector("binance")
        kind = "ohlcv_incremental"
        new = NewJob(exchange_id="binance", type=kind, symbol="BTC/USDT", timeframe="1h")
        job = await job_service.create(new)
        waits = {"state": "waiting_rate_limit", "next_run_at": far_ms, "wake_at": far_ms}
        await store.update(JOBS, job.id, lambda found: {**found, **waits})
        await store.lease("binance", LeaseRequest(blocked_until_ms=far_ms))
        await FleetAdmin(manager, job_service, Listed()).unblock("binance", far_ms)

        woken = await store.get(JOBS, job.id)
        assert woken is not None
        assert max(woken["next_run_at"], woken["wake_at"]) <= await store.now_ms()


@pytest.mark.parametrize(
    "at", [0, -1, 9_999_999_999_999_999, 10**30, -(10**30), 253_402_300_800_000]
)
def test_any_instant_can_be_shown(at: int) -> None:
    for shown in (day_and_time(at), day_and_time(at / 1e9), instant(at)):
        assert shown
    assert date(at).endswith("Z")
