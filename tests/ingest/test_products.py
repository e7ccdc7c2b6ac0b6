"""The jobs of ``penstock ingest``: found, continued, or refused, before anything changes."""

import os
import platform
import subprocess
from collections.abc import AsyncIterator
from typing import Any

import pytest

from penstock.connectors import ConnectorManager
from penstock.exchanges.symbol_map import SymbolMap
from penstock.ingest.admin import FleetAdmin
from penstock.ingest.products import (
    IngestRange,
    IngestRequest,
    Product,
    find_products,
    left_of,
    start_job,
)
from penstock.ingest.registry import kinds
from penstock.ingest.trade_range import TradesCursor
from penstock.jobs.leases import Leases
from penstock.jobs.model import Job
from penstock.jobs.service import JobService
from penstock.market.symbol import Symbol
from penstock.storage.state import StateStore, open_store
from penstock.storage.state.schema import JOBS

BTC, ETH = Symbol.parse("btc_usdt"), Symbol.parse("eth_usdt")
ALL = IngestRange()
SOME = IngestRange(from_id=1, to_id=9)
LEASE_MS = 60_000


class Listed:
    async def of(self, exchange_id: str) -> SymbolMap:
        return SymbolMap(exchange_id, [("BTCUSDT", BTC), ("ETHUSDT", ETH)])


@pytest.fixture
async def store() -> AsyncIterator[StateStore]:
    opened = await open_store("memory:")
    yield opened
    await opened.close()


@pytest.fixture
def admin(store: StateStore) -> FleetAdmin:
    return FleetAdmin(ConnectorManager(store), JobService(store, kinds()), Listed())


@pytest.fixture
def dead_pid() -> int:
    """The id of a process that has ended."""
    with subprocess.Popen(["true"]) as process:
        process.wait()
    return process.pid


async def found(admin: FleetAdmin, range_: IngestRange, *timeframes: str) -> Product:
    request = IngestRequest("binance", ["BTC/USDT"], range_, timeframes)
    (product,) = await find_products(admin, request)
    return product


async def started(admin: FleetAdmin, product: Product) -> Job:
    return await start_job(admin, Leases(admin.job_service.store, kinds()), product)


async def claimed(store: StateStore, by: str) -> Job:
    (job,) = await Leases(store, kinds()).claim(by, 9, LEASE_MS)
    return job


async def test_spellings_of_one_market_are_one_product(admin: FleetAdmin) -> None:
    request = IngestRequest("binance", ["BTC/USDT", "btc_usdt", "ETHUSDT", "BTCUSDT"], ALL)

    products = await find_products(admin, request)

    assert [product.native for product in products] == ["BTCUSDT", "ETHUSDT"]
    assert await admin.job_service.find() == []
    assert await admin.connectors.find() == []


@pytest.mark.parametrize("timeframes", [(), ("1m",)])
async def test_the_same_range_is_the_same_job_and_another_one_is_not(
    admin: FleetAdmin, timeframes: tuple[str, ...]
) -> None:
    since = IngestRange(since_ms=1000)
    job = await started(admin, await found(admin, since, *timeframes))

    same = await found(admin, since, *timeframes)
    other = await found(admin, IngestRange(since_ms=2000), *timeframes)
    ended = await found(admin, IngestRange(since_ms=1000, until_ms=5000), *timeframes)

    assert same.job == job
    assert (other.job, other.other) == (None, job)
    assert ended.other == job


@pytest.mark.parametrize("timeframes", [(), ("1m",)])
async def test_a_job_that_is_done_is_found_by_its_range(
    admin: FleetAdmin, store: StateStore, timeframes: tuple[str, ...]
) -> None:
    await started(admin, await found(admin, IngestRange(since_ms=1000), *timeframes))
    job = await claimed(store, "me")
    await Leases(store, kinds()).finish([job], await store.now_ms())

    done = await found(admin, IngestRange(since_ms=1000), *timeframes)
    new = await found(admin, IngestRange(since_ms=2000), *timeframes)

    assert done.is_done
    assert (await started(admin, done)).id == job.id
    assert (new.job, new.other) == (None, None)
    assert left_of(done) is None


async def test_what_is_left_follows_the_cursor(admin: FleetAdmin, store: StateStore) -> None:
    job = await started(admin, await found(admin, SOME))
    at = {"from_id": 1, "to_id": 9, "is_resolved": True, "last_id": 4}

    def moved(document: dict[str, Any]) -> dict[str, Any]:
        return {**document, "cursor": {**document["cursor"], **at}}

    assert left_of(await found(admin, SOME)) == TradesCursor(from_id=1, to_id=9)
    await store.update(JOBS, job.id, moved)
    assert left_of(await found(admin, SOME)) == TradesCursor(from_id=5, to_id=9)


async def test_the_job_of_a_process_that_was_killed_is_free_at_once(
    admin: FleetAdmin, store: StateStore, dead_pid: int
) -> None:
    await started(admin, await found(admin, SOME))
    killed = await claimed(store, f"{platform.node()}/ingest-0/{dead_pid}")

    freed = await started(admin, await found(admin, SOME))

    assert (freed.state, freed.lock.locked_by) == ("queued", None)
    assert await Leases(store, kinds()).heartbeat([killed], LEASE_MS) == [None]
    assert (await claimed(store, "me")).id == killed.id


@pytest.mark.parametrize("host", [platform.node(), "far"], ids=["here", "far"])
async def test_the_job_of_a_process_that_may_run_is_left_alone(
    admin: FleetAdmin, store: StateStore, host: str
) -> None:
    holder = f"{host}/ingest-0/{os.getpid()}"
    await started(admin, await found(admin, SOME))
    held = await claimed(store, holder)

    job = await started(admin, await found(admin, SOME))

    assert (job.state, job.lock.locked_by) == ("running", holder)
    (renewed,) = await Leases(store, kinds()).heartbeat([held], LEASE_MS)
    assert renewed is not None


async def test_a_paused_or_failed_job_runs_again(admin: FleetAdmin, store: StateStore) -> None:
    job = await started(admin, await found(admin, SOME))
    await admin.job_service.pause(job.id)

    assert (await started(admin, await found(admin, SOME))).status == "active"

    failing = await claimed(store, "me")
    await Leases(store, kinds()).fail(failing, await store.now_ms(), "no answer")
    assert (await started(admin, await found(admin, SOME))).state == "queued"
