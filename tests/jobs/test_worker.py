"""The worker: what it begins and when, and what becomes of jobs that fail, wait or are stopped."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, cast

import pytest
from msgspec.structs import replace
from tests.waiting import PATIENCE_S

from penstock.clock import ManualClock
from penstock.config import Jobs
from penstock.errors import (
    BadRequest,
    Banned,
    CircuitOpen,
    ConnectorPaused,
    ExchangeUnreachable,
    LockLost,
    ProductLocked,
    RateLimited,
    StorageFull,
    StoreUnreachable,
    UnknownSymbol,
)
from penstock.ingest.registry import kinds
from penstock.jobs.facts import JobFailed, JobLost, JobWaits, StoreAnswers, StoreSilent
from penstock.jobs.kinds import AnyKind, JobKind, RequestRate
from penstock.jobs.leases import Leases
from penstock.jobs.model import Cursor, Job, NewJob, Schedule
from penstock.jobs.run import NS_PER_MS, AnyRun
from penstock.jobs.service import JobService
from penstock.jobs.worker import Worker
from penstock.storage.state import Counts, Document, StateStore
from penstock.storage.state.documents import Claim, Write
from penstock.storage.state.memory import MemoryBackend
from penstock.storage.state.schema import JOBS, SCHEMA, Table
from penstock.telemetry import Fact

START_MS = 1_700_000_000_000
SETTINGS = Jobs(concurrency=3, per_exchange=2, lease=30, time_slice=20, attempts=3, first_delay=8)

Work = Callable[[AnyRun], Awaitable[bool]]


@dataclass
class Steady:
    """A clock that no operator steps: the store's own."""

    clock: ManualClock

    def now_ns(self) -> int:
        return self.clock.monotonic_ns()

    def now_ms(self) -> int:
        return self.now_ns() // 1_000_000

    def monotonic_ns(self) -> int:
        return self.clock.monotonic_ns()

    async def sleep(self, seconds: float) -> None:
        await self.clock.sleep(seconds)


class Fallible(MemoryBackend):
    """A store that can fall silent, or be slow to answer; it counts what is written."""

    silent = False
    answers_after_s = 0.0
    writes = 0

    def _answer(self) -> None:
        if self.silent:
            raise StoreUnreachable("memory:", "silent")

    async def counts(self, table: Table) -> Counts:
        self._answer()
        return await super().counts(table)

    async def claim(self, table: Table, claim: Claim) -> list[Document]:
        self._answer()
        return await super().claim(table, claim)

    async def write(self, table: Table, writes: Sequence[Write]) -> list[Document | None]:
        self._answer()
        self.writes += 1
        written = await super().write(table, writes)
        if self.answers_after_s:
            await self._clock.sleep(self.answers_after_s)
        return written


def scripted(kind: AnyKind, work: Work, rate: RequestRate | None) -> JobKind[Any, Any]:
    """A kind whose jobs do what the test says; without a rate, it is not known."""

    async def run(_: object, job_run: AnyRun) -> bool:
        return await work(job_run)

    async def request_rate(_: object, __: Job) -> RequestRate:
        if rate is None:
            raise ExchangeUnreachable("no listing")
        return rate

    made = type(kind.name, (kind,), {"run": run, "request_rate": request_rate})
    return cast("JobKind[Any, Any]", made(None))


@dataclass
class Shop:
    """A store, its job service, and a worker whose jobs do what a test says."""

    clock: ManualClock
    backend: Fallible
    store: StateStore
    job_service: JobService
    leases: Leases
    facts: list[Fact] = field(default_factory=list)

    async def add(self, symbol: str, type_: str = "ohlcv_incremental", **fields: Any) -> Job:
        said: dict[str, Any] = {"exchange_id": "sim", "timeframe": "1h"}
        said |= {"type": type_, "symbol": f"{symbol}/usdt", **fields}
        if type_ == "gap_backfill":
            said["cursor"] = Cursor(since_ms=0, until_ms=9)
        return await self.job_service.create(NewJob(**said))

    def worker(
        self,
        work: Work,
        settings: Jobs = SETTINGS,
        name: str = "me",
        rate: RequestRate | None = None,
    ) -> Worker:
        made = {type_: scripted(kind, work, rate) for type_, kind in kinds().items()}
        return Worker(name, self.leases, made, self.clock, settings, self.facts.append)

    @asynccontextmanager
    async def at_work(self, worker: Worker) -> AsyncIterator[asyncio.Event]:
        """A worker that runs meanwhile, and stops in the end."""
        stop = asyncio.Event()
        running = asyncio.create_task(worker.run(stop))
        try:
            await self.pass_time(0.1)
            yield stop
        finally:
            stop.set()
            for _ in range(100):
                if running.done():
                    break
                await self.pass_time(0.1)
            await asyncio.wait_for(running, PATIENCE_S)

    async def pass_time(self, seconds: float, step_s: float = 0.1) -> None:
        # In steps, so that what is woken has done its work before the clock goes on.
        steps = max(1, round(seconds / step_s))
        for _ in range(steps):
            await self.clock.advance(seconds / steps)


@pytest.fixture
async def shop() -> Shop:
    clock = ManualClock(START_MS)
    backend = Fallible(Steady(clock))
    await backend.prepare(SCHEMA)
    store = StateStore(backend, 10.0)
    return Shop(clock, backend, store, JobService(store, kinds()), Leases(store, kinds()))


async def at_once(_: AnyRun) -> bool:
    return True


async def for_ever(_: AnyRun) -> bool:
    await asyncio.Event().wait()
    return True


def raising(error: Exception) -> Work:
    async def work(_: AnyRun) -> bool:
        raise error

    return work


async def test_what_a_run_notes_is_among_the_jobs_events(shop: Shop) -> None:
    job = await shop.add("a")

    async def work(job_run: AnyRun) -> bool:
        job_run.note("skipped", "some are not kept")
        return True

    async with shop.at_work(shop.worker(work)):
        pass

    told = (await shop.job_service.get(job.id)).events
    assert [event.what for event in told if event.by] == ["claimed", "skipped", "done"]
    assert next(event.detail for event in told if event.what == "skipped") == "some are not kept"


async def test_a_suspended_worker_releases_its_jobs_and_claims_none_until_it_may(
    shop: Shop,
) -> None:
    job, reasons = await shop.add("a"), [""]

    async def work(job_run: AnyRun) -> bool:
        while not job_run.stopping:
            await shop.clock.sleep(0.1)
        return False

    worker = shop.worker(work)
    worker.suspended = lambda: reasons[0]
    async with shop.at_work(worker):
        assert len(worker.job_runs) == 1
        reasons[0] = "the disk is almost full"
        await shop.pass_time(5)
        held, waiting = len(worker.job_runs), await shop.job_service.get(job.id)
        reasons[0] = ""
        await shop.pass_time(1)
        again = len(worker.job_runs)

    assert (held, again) == (0, 1)
    assert (waiting.state, waiting.lock.locked_by, waiting.attempts) == ("queued", None, 0)
    assert (waiting.events[-1].what, waiting.events[-1].detail) == (
        "waiting",
        "the disk is almost full",
    )
    assert worker.ended["waiting"] == 1
    assert [fact.reason for fact in shop.facts if isinstance(fact, JobWaits)] == [
        "the disk is almost full"
    ]


async def test_a_full_disk_is_no_failure_of_a_job(shop: Shop) -> None:
    job = await shop.add("a")
    worker = shop.worker(raising(StorageFull("log", "No space left on device")))

    async with shop.at_work(worker):
        await shop.pass_time(20 * 60, step_s=1)

    known = await shop.job_service.get(job.id)
    assert (known.status, known.attempts, known.stats.fail) == ("active", 0, 0)
    assert 30 <= worker.ended["waiting"] <= 41, "every half a minute"


async def test_no_more_run_at_once_than_allowed_in_all_and_per_exchange(shop: Shop) -> None:
    for exchange in ("one", "two", "three"):
        for symbol in "abc":
            await shop.add(symbol, exchange_id=exchange)
    worker = shop.worker(for_ever)

    async with shop.at_work(worker):
        running = [job_run.job.exchange_id for job_run in worker.job_runs.values()]
        await shop.pass_time(12)
        assert len(worker.job_runs) == 3

    assert max(running.count(name) for name in running) <= 2
    assert len(running) == 3
    assert worker.job_runs == {}


async def test_workers_together_run_no_more_of_an_exchange_than_allowed(shop: Shop) -> None:
    for symbol in "abcdefgh":
        await shop.add(symbol)
    workers = [shop.worker(for_ever, name=name) for name in ("one", "two", "three")]

    async with AsyncExitStack() as stack:
        for worker in workers:
            await stack.enter_async_context(shop.at_work(worker))
        await shop.pass_time(2 * SETTINGS.lease)
        running = [len(worker.job_runs) for worker in workers]
        counts = await shop.job_service.counts()

    assert sum(running) == SETTINGS.per_exchange
    assert counts["sim"]["running"] == SETTINGS.per_exchange


async def test_a_run_that_is_asked_for_elsewhere_wakes_an_idle_worker_at_once(shop: Shop) -> None:
    job = await shop.add("a")
    async with shop.at_work(shop.worker(at_once, Jobs())):
        await shop.pass_time(10)
        before = (await shop.job_service.get(job.id)).stats.success
        await shop.job_service.run(job.id)
        await shop.pass_time(0.3)
        after = (await shop.job_service.get(job.id)).stats.success

    assert (before, after) == (1, 2)


async def test_one_exchange_never_gets_more_than_its_share(shop: Shop) -> None:
    for symbol in "abcd":
        await shop.add(symbol)
    other = await shop.add("z", exchange_id="other", priority=100)
    worker = shop.worker(for_ever)

    async with shop.at_work(worker):
        assert len(worker.job_runs) == 3
        assert other.id in worker.job_runs


async def test_a_job_runs_when_it_is_due_and_the_worker_sleeps_until_then(shop: Shop) -> None:
    job = await shop.add("a", schedule=Schedule(interval_ms=60_000))
    ran_at: list[int] = []

    async def work(_: AnyRun) -> bool:
        ran_at.append(await shop.store.now_ms())
        return True

    async with shop.at_work(shop.worker(work, replace(SETTINGS, poll_interval=1000))):
        await shop.pass_time(200)

    first, *rest = ran_at
    assert first < START_MS + 1_000
    grid = {at_ms // 60_000 for at_ms in rest}
    assert len(grid) == len(rest) == 3
    late = [at_ms % 60_000 for at_ms in rest]
    assert max(late) - min(late) <= 150, "no drift"
    assert (await shop.job_service.get(job.id)).stats.success == 4


async def test_a_job_of_another_process_is_seen_within_the_next_look(shop: Shop) -> None:
    worker = shop.worker(at_once)

    async with shop.at_work(worker):
        await shop.pass_time(60)
        job = await shop.add("a")
        await shop.pass_time(SETTINGS.poll_interval + 0.1)
        assert (await shop.job_service.get(job.id)).stats.success == 1


@pytest.mark.parametrize(
    ("error", "state", "attempts"),
    [
        (ExchangeUnreachable("no answer"), "idle", 1),
        (ValueError("a bug"), "idle", 1),
        (BadRequest("x", status=400, code=-1, message="no"), "failed", 1),
        (UnknownSymbol("sim", "A/USDT"), "failed", 1),
        (RateLimited("full", retry_at_ms=START_MS + 9_000), "waiting_rate_limit", 0),
        (Banned("sim", until_ms=START_MS + 9_000, status=418), "waiting_rate_limit", 0),
        (
            CircuitOpen("sim", retry_at_ms=START_MS + 9_000, reason="it fails"),
            "waiting_rate_limit",
            0,
        ),
        (StoreUnreachable("memory:", "silent"), "queued", 0),
        (ConnectorPaused("sim", "paused"), "queued", 0),
        (ProductLocked("k", "h", "j", since_ms=START_MS, until_ms=START_MS), "queued", 0),
        (LockLost("k", "h took it"), "queued", 0),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else str(value),
)
async def test_an_error_is_answered_by_its_remedy(
    shop: Shop, error: Exception, state: str, attempts: int
) -> None:
    job = await shop.add("a")

    async with shop.at_work(shop.worker(raising(error))):
        found = await shop.job_service.get(job.id)

    assert (found.state, found.attempts) == (state, attempts)
    assert found.lock.locked_by is None
    if state == "waiting_rate_limit":
        assert found.next_run_at >= START_MS + 9_000, "not before the budget comes back"
        assert found.stats.fail == 0
    if state in ("idle", "failed"):
        assert str(error) in (found.stats.last_error or "")
        assert found.stats.fail == 1
    if state == "queued":
        assert found.next_run_at > START_MS + 500, "not on the spot"


async def test_a_job_waits_for_a_lock_without_delaying_others(shop: Shop) -> None:
    job, other = await shop.add("a"), await shop.add("b")
    error = ProductLocked(
        "k", "host/work-0/1", "j", since_ms=START_MS, until_ms=START_MS + 7_200_000
    )

    async def work(job_run: AnyRun) -> bool:
        if job_run.job.id == job.id:
            raise error
        return True

    worker = shop.worker(work)
    async with shop.at_work(worker):
        await shop.pass_time(70)
        found = await shop.job_service.get(job.id)
        assert (await shop.job_service.get(other.id)).stats.success == 1

    assert worker.ended["waiting"] == 3, "at once, and every thirty seconds"
    assert (found.events[-1].what, found.events[-1].detail) == ("waiting", str(error))
    assert found.stats.fail == 0
    assert [fact.reason for fact in shop.facts if isinstance(fact, JobWaits)] == [str(error)] * 3


async def test_failures_back_off_and_end_with_the_reason(shop: Shop) -> None:
    job = await shop.add("a")
    ran_at: list[int] = []

    async def work(_: AnyRun) -> bool:
        ran_at.append(await shop.store.now_ms())
        raise ExchangeUnreachable("nobody there")

    async with shop.at_work(shop.worker(work)):
        await shop.pass_time(120)
        other = await shop.add("b")
        await shop.pass_time(6)

    found = await shop.job_service.get(job.id)
    assert (found.state, found.attempts) == ("failed", 3)
    assert found.stats.last_error == "nobody there"
    assert 4_000 <= ran_at[1] - ran_at[0] <= 8_200
    assert 8_000 <= ran_at[2] - ran_at[1] <= 16_200
    told = [fact for fact in shop.facts if isinstance(fact, JobFailed) and fact.job == job.id]
    assert [fact.given_up for fact in told] == [False, False, True]
    assert (await shop.job_service.get(other.id)).attempts >= 1, "the worker goes on"


async def test_a_step_forward_makes_failures_forgotten(shop: Shop) -> None:
    job = await shop.add("a", "ohlcv_backfill")

    async def work(job_run: AnyRun) -> bool:
        page = job_run.job.cursor.page + 1
        await job_run.save(Cursor(page=page), rows=10)
        if page < 8:
            raise ExchangeUnreachable("now and then")
        return True

    async with shop.at_work(shop.worker(work)):
        await shop.pass_time(100)

    found = await shop.job_service.get(job.id)
    assert (found.state, found.cursor.page, found.progress.rows) == ("success", 8, 80)
    assert found.stats.fail == 7


async def test_an_exchange_without_budget_is_left_alone_until_it_has_some(shop: Shop) -> None:
    for symbol in "abcde":
        await shop.add(symbol)
    other = await shop.add("z", exchange_id="other", priority=100)
    asked: list[tuple[str, int]] = []

    async def work(job_run: AnyRun) -> bool:
        now_ms = await shop.store.now_ms()
        asked.append((job_run.job.exchange_id, now_ms))
        if job_run.job.exchange_id == "sim" and now_ms < START_MS + 30_000:
            raise RateLimited("used up", retry_at_ms=shop.clock.now_ms() + 30_000)
        return True

    async with shop.at_work(shop.worker(work)):
        await shop.pass_time(20)
        before = [at_ms for name, at_ms in asked if name == "sim"]
        await shop.pass_time(20)
        counted = (await shop.job_service.counts())["sim"]

    assert len(before) <= SETTINGS.per_exchange, "nobody asks in vain after the first no"
    assert (await shop.job_service.get(other.id)).stats.success == 1
    assert counted == {"idle": 5}
    assert len([name for name, _ in asked if name == "sim"]) == len(before) + 5


@pytest.mark.parametrize("rate", [RequestRate(2, 60_000), None], ids=["known", "unknown"])
async def test_of_the_jobs_that_wait_so_many_are_due_per_window_as_their_kind_says(
    shop: Shop, rate: RequestRate | None
) -> None:
    jobs = [await shop.add(symbol) for symbol in "abc"]
    reset_ms = START_MS + 9_000
    no_budget = raising(RateLimited("full", retry_at_ms=reset_ms))

    async with shop.at_work(shop.worker(no_budget, replace(SETTINGS, per_exchange=3), rate=rate)):
        found = [await shop.job_service.get(job.id) for job in jobs]

    windows = sorted((job.next_run_at - reset_ms) // 60_000 for job in found)
    assert windows == ([0, 0, 1] if rate else [0, 0, 0])


async def test_a_pause_stops_a_job_at_the_end_of_the_page(shop: Shop) -> None:
    job = await shop.add("a", "ohlcv_backfill")

    async def work(job_run: AnyRun) -> bool:
        while await job_run.save(Cursor(page=job_run.job.cursor.page + 1)):
            await shop.clock.sleep(1)
        return False

    async with shop.at_work(shop.worker(work)):
        await shop.pass_time(5)
        await shop.job_service.pause(job.id)
        await shop.pass_time(1.5)
        paused = await shop.job_service.get(job.id)
        await shop.pass_time(60)
        still = await shop.job_service.get(job.id)
        await shop.job_service.resume(job.id)
        await shop.pass_time(10)
        resumed = await shop.job_service.get(job.id)

    assert (paused.status, paused.state, paused.lock.locked_by) == ("paused", "idle", None)
    assert still == paused
    assert resumed.cursor.page > paused.cursor.page >= 5
    assert resumed.progress.resumptions == 1


async def test_a_job_that_says_nothing_learns_of_its_deletion_from_the_heartbeat(
    shop: Shop,
) -> None:
    job = await shop.add("a", "ohlcv_backfill")

    async def work(job_run: AnyRun) -> bool:
        while not job_run.stopping:
            await shop.clock.sleep(0.5)
        return False

    async with shop.at_work(shop.worker(work)):
        await shop.pass_time(35)
        kept = await shop.job_service.get(job.id)
        await shop.job_service.delete(job.id)
        await shop.pass_time(SETTINGS.lease / 3 + 1)
        gone = await shop.job_service.get(job.id)

    assert (kept.state, kept.lock.locked_by) == ("running", "me")
    assert (kept.lock.lock_until or 0) > START_MS + 50_000, "renewed"
    assert (gone.status, gone.lock.locked_by) == ("deleted", None)


@pytest.mark.parametrize("hangs", [False, True])
async def test_told_to_stop_it_parks_everything_within_ten_seconds(shop: Shop, hangs: bool) -> None:
    job = await shop.add("a", "ohlcv_backfill")

    async def work(job_run: AnyRun) -> bool:
        while await job_run.save(Cursor(page=job_run.job.cursor.page + 1)):
            await shop.clock.sleep(1000 if hangs else 1)
        return False

    stop = asyncio.Event()
    running = asyncio.create_task(shop.worker(work).run(stop))
    await shop.pass_time(3)
    stop.set()
    await shop.pass_time(9.9)

    assert running.done()
    await running
    found = await shop.job_service.get(job.id)
    assert (found.state, found.lock.locked_by) == ("queued", None)
    assert found.cursor.page >= 1
    assert found.events[-1].what == "parked"
    (taken,) = await shop.leases.claim("other", 1, 1000)
    assert taken.cursor == found.cursor, "another takes it up at once"


async def test_it_stops_in_time_even_if_the_store_hangs(shop: Shop) -> None:
    job = await shop.add("a", "ohlcv_backfill")
    hangs = asyncio.Event()

    async def work(job_run: AnyRun) -> bool:
        while await job_run.save(Cursor(page=job_run.job.cursor.page + 1)):
            await shop.clock.sleep(1)
        return False

    async def hang(_: object = None, *__: object) -> list[Any]:
        await hangs.wait()
        return []

    stop = asyncio.Event()
    running = asyncio.create_task(shop.worker(work).run(stop))
    await shop.pass_time(3)
    page = (await shop.job_service.get(job.id)).cursor.page
    shop.backend.claim = shop.backend.write = hang  # type: ignore[method-assign,assignment]
    await shop.pass_time(3)
    stop.set()
    await shop.pass_time(9.9)

    assert running.done()
    await running
    assert (await shop.job_service.get(job.id)).cursor.page >= page


async def test_a_silent_store_stops_jobs_before_their_leases_end_and_is_told_once(
    shop: Shop,
) -> None:
    job = await shop.add("a", "ohlcv_backfill")
    stopped_ms: list[int] = []

    async def work(job_run: AnyRun) -> bool:
        try:
            while await job_run.save(Cursor(page=job_run.job.cursor.page + 1)):
                await shop.clock.sleep(1)
        except asyncio.CancelledError:
            stopped_ms.append(await shop.store.now_ms())
            raise
        return False

    worker = shop.worker(work)
    async with shop.at_work(worker):
        await shop.pass_time(3)
        before = await shop.job_service.get(job.id)
        shop.backend.silent = True
        await shop.pass_time(60)
        nothing_runs = dict(worker.job_runs)
        shop.backend.silent = False
        await shop.pass_time(5)
        after = await shop.job_service.get(job.id)

    assert stopped_ms[0] < (before.lock.lock_until or 0)
    assert nothing_runs == {}
    assert after.cursor.page > before.cursor.page
    assert after.events[-1].what in ("claimed", "taken_over")
    told = [fact for fact in shop.facts if isinstance(fact, StoreSilent | StoreAnswers)]
    assert [type(fact) for fact in told] == [StoreSilent, StoreAnswers]


async def test_a_lease_is_believed_no_longer_than_the_store_keeps_it(shop: Shop) -> None:
    job = await shop.add("a")
    worker = shop.worker(for_ever)

    async with shop.at_work(worker):
        shop.backend.answers_after_s = 3.0
        await shop.pass_time(18)
        believed_ms = worker.job_runs[job.id].good_until_ns // NS_PER_MS
        kept_ms = (await shop.job_service.get(job.id)).lock.lock_until
        shop.backend.answers_after_s = 0.0

    assert kept_ms is not None
    assert START_MS + 30_000 < believed_ms <= kept_ms, "it was renewed, and not for longer"


async def test_a_lease_that_another_took_is_left_at_once_and_nothing_is_written(
    shop: Shop,
) -> None:
    job = await shop.add("a", "ohlcv_backfill")

    async with shop.at_work(shop.worker(for_ever)):
        await shop.store.update(JOBS, job.id, lambda found: {**found, "wake_at": START_MS})
        (taken,) = await shop.leases.claim("other", 1, 1_000_000)
        await shop.pass_time(SETTINGS.lease / 3 + 1)
        lost = [fact for fact in shop.facts if isinstance(fact, JobLost)]
        found = await shop.job_service.get(job.id)

    assert [fact.job for fact in lost] == [job.id]
    assert (found.lock.locked_by, found.fence) == ("other", taken.fence)


async def test_a_wall_clock_stepped_by_an_hour_moves_nothing(shop: Shop) -> None:
    job = await shop.add("a", schedule=Schedule(interval_ms=60_000))
    held = await shop.add("b", "ohlcv_backfill")
    ran_at: list[int] = []

    async def work(job_run: AnyRun) -> bool:
        if job_run.job.id == held.id:
            return await for_ever(job_run)
        ran_at.append(await shop.store.now_ms())
        return True

    worker = shop.worker(work)
    async with shop.at_work(worker):
        for step_s in (3600, -7200, 3600):
            await shop.pass_time(60)
            shop.clock.step_wall(step_s)
        await shop.pass_time(60)
        fence = (await shop.job_service.get(held.id)).fence

    assert fence == 1, "the lease was kept throughout"
    assert not [fact for fact in shop.facts if isinstance(fact, JobLost)]
    assert len(ran_at) == 5
    assert len({at_ms // 60_000 for at_ms in ran_at[1:]}) == 4
    assert (await shop.job_service.get(job.id)).stats.runs == 5


@pytest.mark.parametrize("caps", [{"concurrency": 1}, {"concurrency": 3, "per_exchange": 1}])
async def test_a_gap_takes_the_place_of_a_backfill_that_had_its_time_slice(
    shop: Shop, caps: dict[str, int]
) -> None:
    alone = replace(SETTINGS, **caps)
    backfill = await shop.add("a", "ohlcv_backfill")
    order: list[str] = []

    async def work(job_run: AnyRun) -> bool:
        order.append(job_run.job.type)
        if job_run.job.type == "gap_backfill":
            return True
        while await job_run.save(Cursor(page=job_run.job.cursor.page + 1)):
            await shop.clock.sleep(0.5)
        return False

    async with shop.at_work(shop.worker(work, alone)):
        await shop.pass_time(30)
        gap = await shop.add("b", "gap_backfill")
        await shop.pass_time(10)
        filled = await shop.job_service.get(gap.id)

    assert filled.state == "success"
    assert order == ["ohlcv_backfill", "gap_backfill", "ohlcv_backfill"]
    found = await shop.job_service.get(backfill.id)
    assert found.cursor.page > 70


async def test_backfills_of_one_priority_take_turns(shop: Shop) -> None:
    alone = replace(SETTINGS, concurrency=1)
    jobs = [await shop.add(symbol, "ohlcv_backfill") for symbol in "abc"]

    async def work(job_run: AnyRun) -> bool:
        while await job_run.save(Cursor(page=job_run.job.cursor.page + 1)):
            await shop.clock.sleep(0.5)
        return False

    async with shop.at_work(shop.worker(work, alone)):
        await shop.pass_time(150)

    pages = [(await shop.job_service.get(job.id)).cursor.page for job in jobs]
    assert min(pages) > 60, "nobody starves"


async def test_jobs_that_save_at_once_share_a_write(shop: Shop) -> None:
    for symbol in "abcdef":
        await shop.add(symbol, "ohlcv_backfill")
    many = Jobs(concurrency=10, per_exchange=10)
    pages = 20

    async def work(job_run: AnyRun) -> bool:
        for page in range(pages):
            await job_run.save(Cursor(page=page + 1))
        return True

    async with shop.at_work(shop.worker(work, many)):
        await shop.pass_time(1)

    ended = await shop.job_service.find(state="success")
    assert [job.cursor.page for job in ended] == [pages] * 6
    assert shop.backend.writes <= 2 * pages
