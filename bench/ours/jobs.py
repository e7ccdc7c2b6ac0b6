"""Our side of the jobs benchmark: jobs that do nothing, created, claimed and finished, fenced.

By ``service``, jobs are created by ``JobService``, and workers of one process claim and finish them
by ``Leases``, a batch at a time. By ``worker``, ``Worker`` runs them, as ``penstock work`` does: a
task, a lease and a permit for each, and its kind is called. By ``store``, documents of jobs are
claimed and written by the functions beneath, which keep no events. Each line it reads is ``{"url":
…, "jobs": …, "batch": …, "workers": …, "warm": …, "how": …}``. The clock starts once the store is
filled and the first ``warm`` jobs are done.
"""

import asyncio
import json
import sys
import time
from collections.abc import Awaitable, Callable
from typing import Any, cast

import asyncpg

from penstock.cli.memory import keep_for_good
from penstock.clock import SystemClock
from penstock.config import Jobs
from penstock.ingest.registry import kinds
from penstock.jobs.facts import JobDone
from penstock.jobs.kinds import JobKind
from penstock.jobs.leases import JobQueue, Leases
from penstock.jobs.model import NewJob, Schedule
from penstock.jobs.service import JobService
from penstock.jobs.worker import Worker
from penstock.storage.state import Claim, Document, StateStore, Write, open_store
from penstock.storage.state.documents import Add, Condition, StoreNow
from penstock.storage.state.schema import JOBS
from penstock.telemetry import Fact

HOUR_MS, YEAR_MS, LEASE_MS = 3_600_000, 31_536_000_000, 30_000
PRIORITY = 50
AT_ONCE = 16

CLAIM = Claim(
    query=JobQueue("sim", "ohlcv_incremental", PRIORITY).query(
        Condition("wake_at", "<=", StoreNow())
    ),
    order=("wake_at",),
    patch={
        "state": "running", "fence": Add(1), "attempts": Add(1), "lock.locked_by": "worker",
        "lock.lock_until": StoreNow(LEASE_MS), "wake_at": StoreNow(LEASE_MS),
        "updated_at": StoreNow(),
    },
)  # fmt: skip
DONE = {
    "state": "idle", "attempts": 0, "lock": {"locked_by": None, "lock_until": None},
    "stats.runs": Add(1), "stats.success": Add(1), "stats.last_run_at": StoreNow(),
    "updated_at": StoreNow(),
}  # fmt: skip

Step = Callable[[], Awaitable[int]]
"""Claim a batch and finish it; how many there were."""


def job(number: int, now_ms: int) -> Document:
    """A job with every field it has by specification."""
    return {
        "id": f"{now_ms:012x}{number:012x}", "exchange_id": "sim", "type": "ohlcv_incremental",
        "symbol": f"A{number}/USDT", "timeframe": "1m", "status": "active", "state": "idle",
        "schedule": {"mode": "interval", "interval_ms": HOUR_MS},
        "next_run_at": now_ms, "priority": PRIORITY, "claim_priority": PRIORITY,
        "wake_at": now_ms - YEAR_MS + number, "fence": 0, "attempts": 0,
        "target": {}, "target_key": str(number),
        "cursor": {"since_ms": now_ms, "until_ms": None, "page": 0, "last_ts": None, "done": False},
        "stats": {"runs": 0, "success": 0, "fail": 0, "last_run_at": None, "last_error": None},
        "lock": {"locked_by": None, "lock_until": None},
        "created_at": now_ms, "updated_at": now_ms,
    }  # fmt: skip


def finished(claimed: Document) -> Write:
    """What becomes of a job that was done, if it is still ours."""
    due_ms = claimed["next_run_at"] + HOUR_MS
    due = {"next_run_at": due_ms, "wake_at": due_ms}
    return Write(claimed["id"], {"fence": claimed["fence"]}, {**DONE, **due})


def by_store(store: StateStore, batch: int) -> Step:
    async def step() -> int:
        claimed = await store.claim(JOBS, CLAIM._replace(most=batch))
        written = await store.write(JOBS, [finished(one) for one in claimed])
        return sum(one is not None for one in written)

    return step


def by_service(store: StateStore, batch: int) -> Step:
    leases = Leases(store, kinds())

    async def step() -> int:
        claimed = await leases.claim("worker", batch, LEASE_MS)
        written = await leases.finish(claimed, await store.now_ms())
        return sum(one is not None for one in written)

    return step


async def by_worker(store: StateStore, asked: dict[str, Any], count: "Count") -> None:
    """Have workers run everything that is due."""
    kind, stop = kinds()["ohlcv_incremental"], asyncio.Event()

    async def run(_kind: object, _job_run: object) -> bool:
        return True

    def note(fact: Fact) -> None:
        if isinstance(fact, JobDone):
            count.add(1)
            if count.done == asked["jobs"]:
                stop.set()

    made = cast("JobKind[Any, Any]", type("Noop", (kind,), {"run": run})(None))
    settings = Jobs(concurrency=asked["batch"], per_exchange=asked["batch"] * asked["workers"])
    ours = {kind.name: made}
    workers = [
        Worker(f"worker-{number}", Leases(store, kinds()), ours, SystemClock(), settings, note)
        for number in range(asked["workers"])
    ]
    await asyncio.gather(*(worker.run(stop) for worker in workers))


async def fill(store: StateStore, jobs: int, job_service: bool) -> None:
    now_ms, numbers = await store.now_ms(), iter(range(jobs))
    service = JobService(store, kinds())

    async def create() -> None:
        for number in numbers:
            if job_service:
                # The service's jobs are due at fixed intervals; none may be due again meanwhile.
                schedule = Schedule(mode="interval", interval_ms=YEAR_MS)
                symbol = f"A{number}/USDT"
                await service.create(
                    NewJob(
                        exchange_id="sim", type="ohlcv_incremental", symbol=symbol,
                        timeframe="1m", schedule=schedule,
                    )
                )  # fmt: skip
            else:
                await store.insert_if_absent(JOBS, job(number, now_ms))

    await asyncio.gather(*(create() for _ in range(AT_ONCE)))


async def settle(url: str) -> None:
    """What PostgreSQL does by itself after a while, and the peers' sides ask for as well."""
    if url.startswith("postgresql:"):
        connection = await asyncpg.connect(url)
        await connection.execute("ANALYZE")
        await connection.close()


class Count:
    """How many were done, and when there were enough to start the clock."""

    def __init__(self, warm: int) -> None:
        self.done, self.warm, self.began_s, self.before = 0, warm, 0.0, 0
        self.last_s = 0.0

    def add(self, count: int) -> None:
        self.done += count
        self.last_s = time.perf_counter()
        if not self.began_s and self.done >= self.warm:
            self.began_s, self.before = self.last_s, self.done


async def work(step: Step, count: Count) -> None:
    while done := await step():
        count.add(done)


async def measure(asked: dict[str, Any]) -> dict[str, float]:
    store = await open_store(asked["url"])
    await fill(store, asked["jobs"], asked["how"] != "store")
    await settle(asked["url"])
    count = Count(asked["warm"])
    if asked["how"] == "worker":
        await by_worker(store, asked, count)
    else:
        step = (by_service if asked["how"] == "service" else by_store)(store, asked["batch"])
        await asyncio.gather(*(work(step, count) for _ in range(asked["workers"])))
    took_s = count.last_s - count.began_s
    left = await store.find(JOBS, [[Condition("wake_at", "<=", StoreNow())]], limit=1)
    for one in await store.find(JOBS, limit=asked["jobs"]):
        assert one["stats"]["runs"] == 1, "each was done once"
    await store.close()
    measured = count.done - count.before
    return {"done": count.done, "left": len(left), "measured": measured, "wall_s": took_s}


def main() -> None:
    keep_for_good()  # as every process of ours does when it starts
    for line in sys.stdin:
        print(json.dumps(asyncio.run(measure(json.loads(line)))), flush=True)


if __name__ == "__main__":
    main()
