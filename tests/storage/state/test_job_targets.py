"""Jobs that were written before jobs had targets: all get one, also if a migration is killed."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from tests.forked import python

from penstock.clock import SystemClock
from penstock.errors import AlreadyExists, StorageError
from penstock.ingest.registry import kinds
from penstock.jobs import Cursor, JobService, Leases, NewJob
from penstock.storage.state import StateStore, Write, open_store
from penstock.storage.state.documents import Document
from penstock.storage.state.job_targets import target_key
from penstock.storage.state.memory import MemoryBackend
from penstock.storage.state.migration import migrate
from penstock.storage.state.schema import JOBS, SCHEMA

BEFORE = SCHEMA[:6]
"""The schema of the version that wrote these documents."""
OLD_JOBS = BEFORE[0][1]
HOUR_MS = 3_600_000
MARKET = {"symbol": "BTC/USDT", "timeframe": "1h"}
shared = pytest.mark.parametrize("backend", ["sqlite", "postgresql", "mongodb"], indirect=True)


def old_job(number: int, type_: str, **fields: Any) -> Document:
    """A document with the fields and values that the version before wrote."""
    return {
        "id": f"01a03e2f8c{number:02}d41d8cd98f00b2", "exchange_id": "binance", "type": type_,
        "symbol": "BTC/USDT", "timeframe": "1h", "status": "active", "state": "idle",
        "schedule": None, "next_run_at": 1_700_000_000_000, "priority": 80, "claim_priority": 80,
        "target_key": None,
        "cursor": {"since_ms": None, "until_ms": None, "page": 0, "last_ts": None, "done": False},
        "stats": {"runs": 0, "success": 0, "fail": 0, "last_run_at": None,
                  "last_success_at": None, "last_error": None},
        "lock": {"locked_by": None, "lock_until": None}, "fence": 0, "attempts": 0,
        "progress": {"rows": 0, "pages": 0, "started_at": None, "resumed_at": None,
                     "resumed_rows": 0, "resumptions": 0, "first_ts": None, "target_ts": None,
                     "checked_ts": None, "recorded": {}},
        "origin": "", "created_at": 1_700_000_000_000, "updated_at": 1_700_000_000_000,
        "wake_at": 1_700_000_000_000,
        "orders": [{"at": 1_700_000_000_000, "what": "created", "detail": "", "by": ""}], **fields,
    }  # fmt: skip


HALF_WAY = {"since_ms": 7 * HOUR_MS, "until_ms": 9 * HOUR_MS, "page": 3, "last_ts": 6 * HOUR_MS,
            "done": False}  # fmt: skip
OLD = {
    old["id"]: (old, target)
    for old, target in [
        (old_job(1, "ohlcv_incremental", schedule={"mode": "interval", "interval_ms": HOUR_MS}),
         MARKET),
        (old_job(2, "ohlcv_backfill", cursor=HALF_WAY, state="queued"), MARKET),
        (old_job(3, "gap_backfill", target_key="0-32400000", cursor=HALF_WAY),
         {**MARKET, "since_ms": 0, "until_ms": 9 * HOUR_MS}),
        (old_job(4, "gap_backfill", target_key="32400000-36000000",
                 cursor={**HALF_WAY, "since_ms": 9 * HOUR_MS, "until_ms": 10 * HOUR_MS}),
         {**MARKET, "since_ms": 9 * HOUR_MS, "until_ms": 10 * HOUR_MS}),
        (old_job(5, "markets_refresh", symbol=None, timeframe=None, status="paused",
                 schedule={"mode": "interval", "interval_ms": 12 * HOUR_MS}), {}),
        (old_job(6, "ohlcv_backfill", status="deleted", state="success", wake_at=None,
                 cursor={**HALF_WAY, "done": True}), MARKET),
        # From before gaps had keys: what is left to do is the target.
        (old_job(7, "gap_backfill", symbol="ETH/USDT", cursor=HALF_WAY),
         {"symbol": "ETH/USDT", "timeframe": "1h", "since_ms": 7 * HOUR_MS,
          "until_ms": 9 * HOUR_MS}),
    ]
}  # fmt: skip


@pytest.fixture
async def old_url(url: str) -> str:
    """A store as the version before left it."""
    store = await open_store(url, schema=BEFORE)
    for document, _ in OLD.values():
        assert (await store.insert_if_absent(OLD_JOBS, document)).created
    await store.close()
    return url


async def check(store: StateStore) -> None:
    """All jobs have their targets, and nothing else of them has changed."""
    found = {one["id"]: one for one in await store.find(JOBS)}
    assert found.keys() == OLD.keys()
    for id_, (document, target) in OLD.items():
        new = {"target": target, "target_key": target_key(target), "version": found[id_]["version"]}
        assert found[id_] == {**document, **new}
    jobs = [*await JobService(store, kinds()).find(), *await JobService(store, kinds()).ended(0)]
    assert all(job.is_known for job in jobs)
    assert len(jobs) == len(OLD)


@shared
async def test_jobs_of_the_version_before_are_read_continued_and_still_unique(old_url: str) -> None:
    for _ in range(2):
        store = await open_store(old_url)
        await check(store)
        await store.close()
    store = await open_store(old_url)
    service, leases = JobService(store, kinds()), Leases(store, kinds())

    for id_, type_ in [(1, "ohlcv_incremental"), (2, "ohlcv_backfill")]:
        with pytest.raises(AlreadyExists) as refusal:
            await service.create(new(type_))
        assert refusal.value.existing_id == old_job(id_, type_)["id"]
    for since_ms, until_ms, id_ in [(8, 9, 3), (9, 10, 4)]:
        range_ = Cursor(since_ms=since_ms * HOUR_MS, until_ms=until_ms * HOUR_MS)
        with pytest.raises(AlreadyExists) as refusal:
            await service.create(new("gap_backfill", range_))
        assert refusal.value.existing_id == old_job(id_, "gap_backfill")["id"]
    # A part that is done may be fetched again.
    await service.create(new("gap_backfill", Cursor(since_ms=0, until_ms=7 * HOUR_MS)))

    claimed = await leases.claim("me", 10, 60_000)
    ended = await leases.finish(claimed, await store.now_ms())
    assert {job.id for job in claimed} >= {one["id"] for one, _ in OLD.values() if due(one)}
    assert None not in ended
    await store.close()


def due(document: Document) -> bool:
    return document["status"] == "active" and document["wake_at"] is not None


def new(type_: str, cursor: Cursor | None = None) -> NewJob:
    return NewJob(
        exchange_id="binance", type=type_, symbol="BTC/USDT", timeframe="1h", cursor=cursor
    )


async def test_a_store_in_memory_is_migrated_too() -> None:
    backend = MemoryBackend(SystemClock())
    await backend.prepare(BEFORE)
    for document, _ in OLD.values():
        assert await backend.insert(OLD_JOBS, document)

    await migrate(backend, SCHEMA, 10.0)

    await check(StateStore(backend, 10.0))


# A process that opens the store and dies after so many batches of one document each, or before the
# last step; the first two steps of a store of the version before are already made then.
DIES = """
import asyncio, os, sys
from penstock.storage.state import migration, open_store, postgresql, mongodb, sqlite

left = int(sys.argv[2])
migration._BATCH = 1

def dying(write):
    async def written(self, table, writes):
        global left
        if left == 0:
            os._exit(9)
        left -= 1
        return await write(self, table, writes)
    return written

for backend in (postgresql.PostgresqlBackend, mongodb.MongodbBackend, sqlite.SqliteBackend):
    backend.write = dying(backend.write)
    prepare = backend.prepare
    async def prepared(self, schema, known=None, prepare=prepare):
        if known is None:
            os._exit(9)
        return await prepare(self, schema, known)
    backend.prepare = prepared
asyncio.run(open_store(sys.argv[1]))
"""


@shared
@pytest.mark.parametrize("batches", [0, 3, 99])
async def test_a_migration_of_jobs_killed_half_way_is_finished_by_the_next(
    old_url: str, batches: int
) -> None:
    assert await asyncio.to_thread(python("-c", DIES, old_url, str(batches)).wait) == 9

    store = await open_store(old_url)

    await check(store)
    await store.close()


class Meddled(MemoryBackend):
    """A store in which somebody changes a job between the reading and the writing of it."""

    meddled = False

    async def write(self, table: Any, writes: Any) -> Any:
        if not self.meddled:
            self.meddled = True
            moved = {"fence": 1, "target_key": "0-3600000"}
            await super().write(table, [Write(old_job(3, "")["id"], {}, moved)])
        return await super().write(table, writes)


async def test_a_job_that_is_edited_during_the_migration_gets_its_latest_target() -> None:
    backend = Meddled(SystemClock())
    await backend.prepare(BEFORE)
    for document, _ in OLD.values():
        await backend.insert(OLD_JOBS, document)

    await migrate(backend, SCHEMA, 10.0)

    found = await StateStore(backend, 10.0).get(JOBS, old_job(3, "")["id"])
    assert found is not None
    assert found["target"] == {**MARKET, "since_ms": 0, "until_ms": HOUR_MS}


@shared
async def test_an_older_penstock_that_still_runs_saves_its_jobs_and_adds_none(
    old_url: str, backend: str
) -> None:
    old = await open_store(old_url, schema=BEFORE)
    store = await open_store(old_url)
    running, cursor = old_job(2, "")["id"], {**HALF_WAY, "since_ms": 8 * HOUR_MS, "page": 4}

    # A claim, a heartbeat and an update as it makes them.
    assert await old.write(
        OLD_JOBS, [Write(running, {"fence": 0}, {"fence": 1, "state": "running"})]
    )
    assert await old.write(OLD_JOBS, [Write(running, {"fence": 1}, {"cursor": cursor})])
    ended = {"status": "deleted", "state": "success"}
    assert await old.update(OLD_JOBS, running, lambda found: {**found, **ended})
    late = old_job(8, "ohlcv_backfill", symbol="LATE/USDT")
    if backend == "mongodb":
        assert (await old.insert_if_absent(OLD_JOBS, late)).created
    else:
        with pytest.raises(StorageError, match="an older penstock sent it"):
            await old.insert_if_absent(OLD_JOBS, late)

    done = await JobService(store, kinds()).get(running)
    assert (done.state, done.cursor.page, done.target.symbol) == ("success", 4, "BTC/USDT")
    for job in await JobService(store, kinds()).find(symbol="LATE/USDT"):
        assert (job.is_known, job.target.symbol) == (True, "LATE/USDT")
    for each in (old, store):
        await each.close()


@pytest.mark.parametrize("backend", ["sqlite"], indirect=True)
async def test_a_reader_sees_targets_and_changes_nothing(old_url: str) -> None:
    read = Path(old_url.removeprefix("sqlite:")).read_bytes
    before = await asyncio.to_thread(read)

    store = await open_store(old_url, read_only=True)

    await check(store)
    await store.close()
    assert await asyncio.to_thread(read) == before
