"""Leases: the most urgent first, one holder at a time, and no write of one whose time is over."""

from typing import Any

import pytest
from msgspec.structs import replace

from penstock.ingest.registry import kinds
from penstock.jobs.leases import Leases, Reset
from penstock.jobs.model import Cursor, Job, JobProgress, NewJob, Schedule
from penstock.jobs.schedule import AGEING_MS, next_due
from penstock.jobs.service import JobService
from penstock.storage.state import StateStore
from penstock.storage.state.schema import CONNECTORS, JOBS

LEASE_MS = 60_000
GONE = -1
"""A lease that has run out as soon as it begins."""


@pytest.fixture
def leases(store: StateStore) -> Leases:
    return Leases(store, kinds())


@pytest.fixture
def job_service(store: StateStore) -> JobService:
    return JobService(store, kinds())


async def add(
    job_service: JobService, symbol: str, type_: str = "ohlcv_incremental", **fields: Any
) -> Job:
    said: dict[str, Any] = {"exchange_id": "sim", "type": type_, "symbol": f"{symbol}/usdt"}
    if type_ == "gap_backfill":
        said["cursor"] = Cursor(since_ms=0, until_ms=9)
    return await job_service.create(NewJob(**{**said, "timeframe": "1h", **fields}))


async def wait_so_long(job_service: JobService, job: Job, waited_ms: int) -> None:
    """As if the job had been due for so long."""

    def due_before(document: dict[str, Any]) -> dict[str, Any]:
        moved = {name: document[name] - waited_ms for name in ("next_run_at", "wake_at")}
        return {**document, **moved}

    await job_service.store.update(JOBS, job.id, due_before)


def ids(jobs: list[Job]) -> list[str]:
    return [job.id for job in jobs]


async def test_jobs_are_claimed_by_priority_then_by_how_long_they_wait(
    job_service: JobService, leases: Leases
) -> None:
    backfill = await add(job_service, "a", "ohlcv_backfill")
    fresh = await add(job_service, "b")
    overdue = await add(job_service, "c")
    gap = await add(job_service, "d", "gap_backfill")
    patient = await add(job_service, "e", "ohlcv_backfill")
    await wait_so_long(job_service, overdue, 30 * AGEING_MS)
    await wait_so_long(job_service, patient, 100 * AGEING_MS)

    taken = await leases.claim("me", 10, LEASE_MS)

    assert ids(taken) == [job.id for job in (gap, patient, overdue, fresh, backfill)]
    assert all(job.state == "running" and job.lock.locked_by == "me" for job in taken)
    assert all((job.fence, job.events[-1].what) == (1, "claimed") for job in taken)
    assert await leases.claim("other", 10, LEASE_MS) == []


async def test_runs_asked_for_and_gaps_go_before_every_backlog(
    job_service: JobService, leases: Leases
) -> None:
    for symbol in "abc":
        await wait_so_long(
            job_service, await add(job_service, symbol, priority=0), 5_000 * AGEING_MS
        )
    gap = await add(job_service, "d", "gap_backfill", priority=100)
    asked = await add(job_service, "e", "ohlcv_backfill")
    await job_service.run(asked.id)

    first, second, *rest = await leases.claim("me", 10, LEASE_MS)

    assert [first.id, second.id] == [asked.id, gap.id]
    assert len(rest) == 3
    now_ms = await job_service.store.now_ms()
    waits = await leases.wait(first, now_ms, Reset(now_ms), "used up")
    assert waits is not None
    assert waits.claim_priority == first.claim_priority, "somebody still waits for it"


async def test_a_run_that_was_asked_for_is_an_ordinary_one_again_afterwards(
    job_service: JobService, leases: Leases
) -> None:
    job = await add(job_service, "a", priority=7)
    await job_service.run(job.id)
    (held,) = await leases.claim("me", 1, LEASE_MS)

    (done,) = await leases.finish([held], await job_service.store.now_ms())

    assert held.claim_priority != 7
    assert done is not None
    assert done.claim_priority == 7


async def test_a_resumed_job_does_not_go_before_those_that_waited_meanwhile(
    job_service: JobService, leases: Leases
) -> None:
    rested, waiting = await add(job_service, "a"), await add(job_service, "b")
    await job_service.pause(rested.id)
    await wait_so_long(job_service, rested, 60 * AGEING_MS)
    await wait_so_long(job_service, waiting, AGEING_MS)

    resumed = await job_service.resume(rested.id)

    assert resumed.next_run_at > rested.next_run_at - AGEING_MS
    assert ids(await leases.claim("me", 2, LEASE_MS)) == [waiting.id, rested.id]


async def test_jobs_of_an_earlier_version_are_claimed_by_their_priority(
    job_service: JobService, leases: Leases
) -> None:
    def as_before(document: dict[str, Any]) -> dict[str, Any]:
        new = ("claim_priority", "target", "target_key")
        return {name: value for name, value in document.items() if name not in new}

    old, low = await add(job_service, "a"), await add(job_service, "b", "ohlcv_backfill")
    for job in (old, low):
        await job_service.store.update(JOBS, job.id, as_before)
    new = await add(job_service, "c", priority=60)

    taken = await leases.claim("me", 10, LEASE_MS)

    assert ids(taken) == [old.id, new.id, low.id]
    (done,) = await leases.finish(taken[:1], await job_service.store.now_ms())
    assert done is not None
    assert done.claim_priority == 50


async def test_busy_exchanges_and_paused_connectors_are_left_alone(
    job_service: JobService, leases: Leases
) -> None:
    await add(job_service, "a", exchange_id="busy")
    await add(job_service, "a", exchange_id="resting")
    mine = await add(job_service, "a", exchange_id="open")
    for exchange_id, status in (("resting", "paused"), ("open", "active")):
        connector = {"id": exchange_id, "exchange_id": exchange_id, "status": status}
        await job_service.store.insert_if_absent(CONNECTORS, connector)

    assert await leases.next_due_ms(("busy", "open")) is None
    assert await leases.next_waiting(("busy",)) is not None
    assert ids(await leases.claim("me", 10, LEASE_MS, ("busy",))) == [mine.id]
    assert await leases.next_waiting(("busy",)) is None
    assert (await leases.next_due_ms(("busy",)) or 0) > await job_service.store.now_ms()


async def test_with_some_ids_no_other_job_is_claimed_or_waited_for(
    job_service: JobService, store: StateStore
) -> None:
    urgent = await add(job_service, "a", "gap_backfill")
    first, other, last = [await add(job_service, name, "ohlcv_backfill") for name in "bcd"]
    leases = Leases(store, kinds(), only=[first.id, last.id])

    waiting = await leases.next_waiting()
    taken = await leases.claim("me", 9, LEASE_MS)

    assert waiting is not None
    assert waiting.queue.type == "ohlcv_backfill"
    assert sorted(ids(taken)) == sorted([first.id, last.id])
    assert await leases.claim("me", 9, LEASE_MS) == []
    assert sorted(ids(await Leases(store, kinds()).claim("you", 9, LEASE_MS))) == sorted(
        [urgent.id, other.id]
    )
    assert await Leases(store, kinds(), only=[]).claim("me", 9, LEASE_MS) == []


async def test_a_heartbeat_renews_saves_and_brings_news_for_all_jobs_at_once(
    job_service: JobService, leases: Leases
) -> None:
    for symbol in "ab":
        await add(job_service, symbol)
    first, second = await leases.claim("me", 2, 1_000)
    first = replace(first, cursor=Cursor(since_ms=7, page=3), progress=JobProgress(rows=5))
    await job_service.pause(second.id)

    one, two = await leases.heartbeat([first, second], LEASE_MS)

    assert one is not None
    assert two is not None
    assert (one.cursor, one.progress) == (first.cursor, first.progress)
    assert (one.lock.lock_until or 0) > (first.lock.lock_until or 0) + 30_000
    assert (one.status, two.status) == ("active", "paused")
    assert await job_service.get(first.id) == one


async def test_a_lease_that_ran_out_is_taken_over_and_its_holder_writes_nothing(
    job_service: JobService, leases: Leases
) -> None:
    await add(job_service, "a", "ohlcv_backfill")
    (slow,) = await leases.claim("slow", 1, GONE)
    (quick,) = await leases.claim("quick", 1, LEASE_MS)
    late = replace(slow, cursor=Cursor(since_ms=99, page=9))
    now_ms = await job_service.store.now_ms()

    assert quick.fence == slow.fence + 1
    assert quick.events[-1].what == "taken_over"
    assert await leases.heartbeat([late], LEASE_MS) == [None]
    assert await leases.finish([late], now_ms) == [None]
    assert await leases.fail(late, now_ms, "x") is None
    assert await leases.wait(late, now_ms, Reset(now_ms + 1), "x") is None
    assert await leases.release(late, now_ms, "x") is None
    found = await job_service.get(quick.id)
    assert (found.cursor, found.state, found.fence) == (Cursor(), "running", 2)
    assert found.lock.locked_by == "quick"


async def test_a_job_that_repeats_is_due_again_on_its_grid(
    job_service: JobService, leases: Leases
) -> None:
    job = await add(job_service, "a", schedule=Schedule(interval_ms=10_000))
    (held,) = await leases.claim("me", 1, LEASE_MS)
    now_ms = await job_service.store.now_ms()

    (done,) = await leases.finish([held], now_ms)

    assert done is not None
    assert done.next_run_at == next_due(job.id, 10_000, now_ms)
    assert (done.state, done.status, done.lock.locked_by) == ("idle", "active", None)
    assert (done.stats.runs, done.stats.success, done.stats.fail) == (1, 1, 0)
    assert done.stats.last_success_at == now_ms
    assert await leases.claim("me", 1, LEASE_MS) == []
    assert await leases.next_due_ms() == done.next_run_at


async def test_a_job_that_is_done_makes_room_for_the_next(
    job_service: JobService, leases: Leases
) -> None:
    job = await add(job_service, "a", "ohlcv_backfill")
    (held,) = await leases.claim("me", 1, LEASE_MS)
    held = replace(held, cursor=Cursor(since_ms=7, page=3), progress=JobProgress(rows=5))

    (done,) = await leases.finish([held], await job_service.store.now_ms())

    assert done is not None
    assert (done.state, done.status, done.stats.success) == ("success", "deleted", 1)
    assert done.cursor == Cursor(since_ms=7, page=3, done=True)
    assert done.progress.rows == 5
    assert [event.what for event in done.events] == ["created", "claimed", "done"]
    assert await leases.claim("me", 1, LEASE_MS) == []
    assert await job_service.find() == []
    assert ids(await job_service.find(state="success")) == [job.id]
    again = await add(job_service, "a", "ohlcv_backfill")
    assert again.id != job.id


async def test_a_failure_is_tried_again_later_or_rests_until_somebody_says_so(
    job_service: JobService, leases: Leases
) -> None:
    job = await add(job_service, "a")
    (held,) = await leases.claim("me", 1, LEASE_MS)
    now_ms = await job_service.store.now_ms()
    again = await leases.fail(held, now_ms, "first", now_ms)
    (held,) = await leases.claim("me", 1, LEASE_MS)

    rests = await leases.fail(held, now_ms, "second")
    nothing = await leases.claim("me", 1, LEASE_MS)
    resumed = await job_service.resume(job.id)

    assert again is not None
    assert rests is not None
    assert (again.state, again.attempts, again.next_run_at) == ("idle", 1, now_ms)
    assert (rests.state, rests.attempts, rests.stats.last_error) == ("failed", 2, "second")
    assert (rests.stats.runs, rests.stats.fail, rests.stats.success) == (2, 2, 0)
    assert nothing == []
    assert (resumed.state, resumed.attempts) == ("idle", 0)
    assert ids(await leases.claim("me", 1, LEASE_MS)) == [job.id]


async def test_waiting_for_budget_is_no_attempt_and_ends_in_the_queue(
    job_service: JobService, leases: Leases
) -> None:
    for symbol in "abcd":
        await add(job_service, symbol)
    await add(job_service, "e", "gap_backfill")
    gap, *held = await leases.claim("me", 5, LEASE_MS)
    now_ms = await job_service.store.now_ms()
    reset = Reset(now_ms + 40_000, serves=2, window_ms=10_000)

    waits = [await leases.wait(job, now_ms, reset, "used up") for job in [*held, gap]]

    told = [job.next_run_at - reset.at_ms for job in waits if job]
    assert told == [0, 0, 10_000, 10_000, 0], "two a window, and the urgent first"
    for job in waits:
        assert job is not None
        assert (job.state, job.attempts) == ("waiting_rate_limit", 0)
        assert (job.stats.runs, job.stats.fail) == (0, 0)
    assert await leases.claim("me", 1, LEASE_MS) == []


async def test_a_parked_job_is_taken_up_at_once_where_it_stood(
    job_service: JobService, leases: Leases
) -> None:
    await add(job_service, "a", "ohlcv_backfill")
    (held,) = await leases.claim("me", 1, LEASE_MS)
    pages = replace(held.progress, pages=3)
    held = replace(held, cursor=Cursor(since_ms=7, page=3), progress=pages)

    await leases.release(held, await job_service.store.now_ms(), "stopping")
    (taken,) = await leases.claim("other", 1, LEASE_MS)

    assert taken.cursor == held.cursor
    assert (taken.progress.started_at, taken.progress.resumptions) == (
        held.progress.started_at,
        1,
    )
    assert (taken.progress.resumed_at or 0) >= (held.progress.started_at or 0)
    assert taken.events[-1].what == "claimed"
    assert taken.events[-1].by == "other"


async def test_a_pause_meanwhile_is_not_undone_by_the_end_of_a_run(
    job_service: JobService, leases: Leases
) -> None:
    job = await add(job_service, "a")
    (held,) = await leases.claim("me", 1, LEASE_MS)
    await job_service.pause(job.id)

    (done,) = await leases.finish([held], await job_service.store.now_ms())

    assert done is not None
    assert (done.status, done.state) == ("paused", "idle")
