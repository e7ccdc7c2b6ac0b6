"""The job service: jobs are created once, found, changed by people, and never by halves."""

import asyncio
from typing import Any

import pytest
from msgspec.structs import replace

from penstock.clock import ManualClock
from penstock.errors import (
    AlreadyExists,
    BadJob,
    GapOverlaps,
    JobEnded,
    JobRunning,
    UnknownJob,
    VersionChanged,
)
from penstock.ingest.kinds.markets_refresh import MarketsRefresh, WholeExchange
from penstock.ingest.registry import kinds
from penstock.jobs.documents import as_document
from penstock.jobs.leases import Leases
from penstock.jobs.model import Cursor, Job, JobEdit, JobProgress, NewJob, Schedule
from penstock.jobs.ranges import held
from penstock.jobs.service import JobService
from penstock.jobs.transitions import ended
from penstock.jobs.validation import admitted
from penstock.storage.state import StateStore, open_store
from penstock.storage.state.schema import JOBS

HOUR_MS = 3_600_000
LEASE_MS = 60_000


def new(**fields: Any) -> NewJob:
    said = {"exchange_id": "sim", "type": "ohlcv_incremental", "symbol": "btc_usdt"}
    return NewJob(**{**said, "timeframe": "1h", **fields})


@pytest.fixture
def job_service(store: StateStore) -> JobService:
    return JobService(store, kinds())


async def test_a_job_is_what_was_said_and_what_follows_from_it(job_service: JobService) -> None:
    before_ms = await job_service.store.now_ms()
    hourly = await job_service.create(new())
    backfill = await job_service.create(new(type="ohlcv_backfill"))
    gap = await job_service.create(new(type="gap_backfill", cursor=Cursor(since_ms=0, until_ms=9)))
    markets = await job_service.create(new(type="markets_refresh", symbol=None, timeframe=None))

    assert (hourly.symbol, hourly.timeframe) == ("BTC/USDT", "1h")
    assert hourly.schedule == Schedule(interval_ms=HOUR_MS)
    assert before_ms <= hourly.next_run_at == hourly.created_at <= await job_service.store.now_ms()
    assert (hourly.status, hourly.state, hourly.fence, hourly.version) == ("active", "idle", 0, 1)
    assert [event.what for event in hourly.events] == ["created"]
    assert backfill.schedule is gap.schedule is None
    assert gap.priority < hourly.priority < backfill.priority
    assert markets.schedule == Schedule(interval_ms=12 * HOUR_MS)
    assert int(markets.id[:12], 16) == markets.created_at, "ids sort by time"
    assert await job_service.get(hourly.id) == hourly


@pytest.mark.parametrize(
    ("timeframe", "interval_ms"),
    [("1m", 60_000), ("1d", 24 * HOUR_MS), ("1w", 24 * HOUR_MS), ("1M", 24 * HOUR_MS)],
)
@pytest.mark.parametrize("backend", ["memory"], indirect=True)
async def test_candles_are_looked_for_at_their_own_pace_and_daily_at_least(
    job_service: JobService, timeframe: str, interval_ms: int
) -> None:
    job = await job_service.create(new(timeframe=timeframe))

    assert job.schedule == Schedule(interval_ms=interval_ms)


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"exchange_id": ""}, "exchange_id"),
        ({"type": "ohlcv_backfil"}, "type"),
        ({"symbol": None}, "symbol"),
        ({"symbol": "btcusdt"}, "symbol"),
        ({"timeframe": None}, "timeframe"),
        ({"timeframe": "1y"}, "timeframe"),
        ({"type": "markets_refresh"}, "symbol"),
        ({"type": "markets_refresh", "symbol": None}, "timeframe"),
        ({"priority": -1}, "priority"),
        ({"priority": 101}, "priority"),
        ({"schedule": Schedule(interval_ms=10)}, "schedule.interval_ms"),
        ({"schedule": Schedule(interval_ms=2**62)}, "schedule.interval_ms"),
        ({"type": "ohlcv_backfill", "schedule": Schedule(interval_ms=HOUR_MS)}, "schedule"),
        ({"cursor": Cursor(since_ms=-1)}, "cursor.since_ms"),
        ({"cursor": Cursor(since_ms="x")}, "cursor.since_ms"),  # type: ignore[arg-type]
        ({"cursor": Cursor(since_ms=2**70)}, "cursor.since_ms"),
        ({"cursor": Cursor(until_ms=5)}, "cursor.until_ms"),
        ({"cursor": Cursor(done=True)}, "cursor.done"),
        ({"type": "ohlcv_backfill", "cursor": Cursor(since_ms=7, until_ms=7)}, "cursor"),
        ({"type": "gap_backfill"}, "cursor"),
        ({"type": "gap_backfill", "cursor": Cursor(since_ms=7)}, "cursor"),
    ],
    ids=str,
)
@pytest.mark.parametrize("backend", ["memory"], indirect=True)
async def test_nonsense_is_refused_and_nothing_is_created(
    job_service: JobService, fields: dict[str, Any], field: str
) -> None:
    with pytest.raises(BadJob) as refusal:
        await job_service.create(new(**fields))

    assert refusal.value.field == field
    assert await job_service.find(status="active") == []


@pytest.mark.parametrize("backend", ["memory"], indirect=True)
async def test_a_misspelt_type_is_told_what_was_meant(job_service: JobService) -> None:
    with pytest.raises(BadJob, match="did you mean ohlcv_backfill"):
        await job_service.create(new(type="ohlcv_backfil"))


@pytest.mark.parametrize("backend", ["memory"], indirect=True)
async def test_a_kind_of_ones_own_is_passed_to_the_service(store: StateStore) -> None:
    class Digest(MarketsRefresh):
        name = "digest"
        priority = 30

        @classmethod
        def interval_ms(cls, target: WholeExchange) -> int:
            return 5_000

    job = await JobService(store, {"digest": Digest}).create(NewJob(exchange_id="x", type="digest"))

    assert (job.priority, job.schedule) == (30, Schedule(interval_ms=5_000))


async def test_a_twin_is_refused_with_the_id_of_the_first(job_service: JobService) -> None:
    first = await job_service.create(new())

    with pytest.raises(AlreadyExists) as refusal:
        await job_service.create(new(symbol="BTC/USDT", priority=3))
    other = await job_service.create(new(timeframe="1m"))

    assert refusal.value.existing_id == first.id
    assert {job.id for job in await job_service.find()} == {first.id, other.id}
    await job_service.delete(first.id)
    again = await job_service.create(new())
    assert again.id != first.id


async def test_several_gaps_of_one_market_live_side_by_side(job_service: JobService) -> None:
    def gap(since_ms: int, until_ms: int) -> NewJob:
        return new(type="gap_backfill", cursor=Cursor(since_ms=since_ms, until_ms=until_ms))

    first = await job_service.create(gap(0, HOUR_MS))
    second = await job_service.create(gap(HOUR_MS, 2 * HOUR_MS))
    both = {first.id, second.id}
    for since_ms, until_ms, overlapped in (
        (0, HOUR_MS, {first.id}), (HOUR_MS - 1, HOUR_MS, {first.id}), (0, 9 * HOUR_MS, both),
    ):  # fmt: skip
        with pytest.raises(GapOverlaps, match="Choose a range that does not") as refusal:
            await job_service.create(gap(since_ms, until_ms))
        assert refusal.value.existing_id in overlapped
    with pytest.raises(GapOverlaps):
        await job_service.edit(
            second.id, JobEdit(cursor=gap(0, HOUR_MS).cursor or Cursor()), version=None
        )
    moved = Cursor(since_ms=HOUR_MS, until_ms=3 * HOUR_MS)
    edited = await job_service.edit(second.id, JobEdit(cursor=moved), version=None)

    assert edited.target_key not in (first.target_key, second.target_key)
    await job_service.delete(first.id)
    assert (await job_service.create(gap(0, HOUR_MS))).target_key == first.target_key


async def test_of_gaps_that_overlap_and_are_made_at_once_one_gets_in(
    job_service: JobService,
) -> None:
    gaps = [
        new(type="gap_backfill", cursor=Cursor(since_ms=n * HOUR_MS, until_ms=(n + 9) * HOUR_MS))
        for n in range(8)
    ]
    made = await asyncio.gather(*map(job_service.create, gaps), return_exceptions=True)

    live = [job.id for job in await job_service.find()]
    assert len(live) == 1
    assert [one.id for one in made if isinstance(one, Job)] == live
    assert sum(isinstance(one, GapOverlaps) for one in made) == 7
    await job_service.delete(live[0])
    assert (await job_service.create(gaps[3])).id, "nothing is left behind"


async def test_a_range_that_a_killed_process_left_behind_lapses() -> None:
    clock = ManualClock(HOUR_MS)
    store = await open_store("memory:", clock=clock)
    gap = new(type="gap_backfill", cursor=Cursor(since_ms=0, until_ms=HOUR_MS))
    job = admitted(gap, kinds(), "killed", clock.now_ms())
    holding = held(store, job, "", (0, HOUR_MS))
    await holding.__aenter__()

    with pytest.raises(GapOverlaps):
        await JobService(store, kinds()).create(gap)
    await clock.advance(61)
    assert (await JobService(store, kinds()).create(gap)).status == "active"
    await store.close()


async def test_twenty_who_create_the_same_make_one(job_service: JobService) -> None:
    made = await asyncio.gather(
        *(job_service.create(new()) for _ in range(20)), return_exceptions=True
    )

    refused = [one for one in made if isinstance(one, AlreadyExists)]
    (job,) = await job_service.find()
    assert len(refused) == 19
    assert {one.existing_id for one in refused} == {job.id}


async def test_jobs_are_found_by_what_they_are_page_by_page(job_service: JobService) -> None:
    created = [await job_service.create(new(symbol=f"a{n}/usdt")) for n in range(5)]
    made = sorted(created, key=lambda job: job.id)
    other = await job_service.create(new(exchange_id="other"))
    await job_service.pause(made[1].id)
    await job_service.delete(made[2].id)

    first = await job_service.find(exchange_id="sim", limit=2)
    second = await job_service.find(exchange_id="sim", limit=2, after=first[-1].id)

    assert [job.id for job in first + second] == [made[n].id for n in (0, 1, 3, 4)]
    assert [job.id for job in await job_service.find(status="paused")] == [made[1].id]
    assert [job.id for job in await job_service.find(status="deleted")] == [made[2].id]
    assert [job.id for job in await job_service.find(symbol="BTC/USDT")] == [other.id]
    assert await job_service.find(type="gap_backfill") == []
    assert await job_service.counts() == {"sim": {"idle": 4}, "other": {"idle": 1}}
    with pytest.raises(UnknownJob):
        await job_service.get("nobody")
    with pytest.raises(UnknownJob):
        await job_service.pause("nobody")


async def test_an_edit_changes_what_it_names_if_nobody_was_quicker(job_service: JobService) -> None:
    job = await job_service.create(new())

    changed = await job_service.edit(
        job.id, JobEdit(schedule=Schedule(interval_ms=5_000), priority=7), version=job.version
    )
    with pytest.raises(VersionChanged) as refusal:
        await job_service.edit(job.id, JobEdit(priority=8), version=job.version)
    with pytest.raises(BadJob):
        await job_service.edit(
            job.id, JobEdit(priority=9, cursor=Cursor(since_ms=-5)), version=None
        )

    assert (changed.schedule, changed.priority) == (Schedule(interval_ms=5_000), 7)
    assert changed.cursor == job.cursor
    assert (refusal.value.expected, refusal.value.found) == (1, 2)
    assert await job_service.get(job.id) == changed
    same = await job_service.edit(job.id, JobEdit(priority=7), version=changed.version)
    assert same.version == changed.version, "nothing to change, nothing written"


async def test_a_cursor_is_left_alone_while_somebody_works_with_it(job_service: JobService) -> None:
    job = await job_service.create(new(type="ohlcv_backfill"))
    leases = Leases(job_service.store, kinds())
    (held,) = await leases.claim("me", 1, LEASE_MS)

    with pytest.raises(JobRunning, match="is being run by me"):
        await job_service.edit(job.id, JobEdit(cursor=Cursor(since_ms=5)), version=None)
    kept = await job_service.edit(job.id, JobEdit(priority=3), version=None)
    await leases.release(held, await job_service.store.now_ms(), "stopped")
    moved = await job_service.edit(job.id, JobEdit(cursor=Cursor(since_ms=5)), version=None)

    assert kept.cursor == Cursor()
    assert (moved.cursor.since_ms, moved.progress) == (5, JobProgress())
    assert await leases.heartbeat([held], LEASE_MS) == [None], "who held it before is fenced off"


async def test_a_pause_is_kept_until_the_job_is_resumed(job_service: JobService) -> None:
    job = await job_service.create(new())
    leases = Leases(job_service.store, kinds())

    paused = await job_service.pause(job.id)
    again = await job_service.pause(job.id)
    nothing = await leases.claim("me", 1, LEASE_MS)
    resumed = await job_service.resume(job.id)
    (held,) = await leases.claim("me", 1, LEASE_MS)

    assert (paused.status, again.version) == ("paused", paused.version)
    assert nothing == []
    assert resumed.status == "active"
    assert held.id == job.id
    assert [e.what for e in held.events] == ["created", "paused", "resumed", "claimed"]
    untouched = await job_service.resume(job.id)
    assert (untouched.state, untouched.lock.locked_by) == ("running", "me")


async def test_what_made_a_job_and_why_it_rests_is_remembered(job_service: JobService) -> None:
    by_hand, planned = (
        await job_service.create(new()),
        await job_service.create(new(timeframe="1d"), "a plan"),
    )

    rested = await job_service.pause(planned.id, "no longer planned")

    assert (by_hand.origin, rested.origin) == ("", "a plan")
    assert (rested.events[-1].what, rested.events[-1].detail) == ("paused", "no longer planned")
    assert (await job_service.resume(planned.id)).origin == "a plan"


async def test_a_job_that_was_asked_for_runs_before_all_others(job_service: JobService) -> None:
    gap = await job_service.create(new(type="gap_backfill", cursor=Cursor(since_ms=0, until_ms=9)))
    low = await job_service.create(new(type="ohlcv_backfill"))
    leases = Leases(job_service.store, kinds())
    for _ in range(3):
        (job,) = await leases.claim("me", 1, LEASE_MS, ())
        if job.id == low.id:
            break
        await leases.fail(job, await job_service.store.now_ms(), "broken")
    await leases.fail(job, await job_service.store.now_ms(), "broken")

    await job_service.resume(gap.id)
    asked = await job_service.run(low.id)
    taken = await leases.claim("me", 2, LEASE_MS)

    assert (asked.state, asked.attempts) == ("queued", 0)
    assert [job.id for job in taken] == [low.id, gap.id]


async def test_those_that_are_done_are_found_by_when_they_were(job_service: JobService) -> None:
    made: list[Job] = []
    for timeframe in ("1m", "1h", "1d"):
        job = await job_service.create(new(type="ohlcv_backfill", timeframe=timeframe))
        done = ended(job, job.created_at + len(made))
        made.append(done)
        await job_service.store.update(
            JOBS,
            job.id,
            lambda old, done=done: {**old, **as_document(done)},  # type: ignore[misc]
        )
    lives = await job_service.create(new())
    await job_service.delete((await job_service.create(new(symbol="eth_usdt"))).id)
    _, second, third = made

    ids = sorted(job.id for job in made)  # of one millisecond they come in any order
    assert [job.id for job in await job_service.ended(0)] == ids
    assert [job.id for job in await job_service.ended(0, limit=1)] == ids[-1:], "the newest"
    assert [job.id for job in await job_service.ended(third.updated_at - 1)] == [third.id]
    assert [job.id for job in await job_service.ended(0, timeframe="1h", symbol=None)] == [
        second.id
    ]
    assert [job.id for job in await job_service.find()] == [lives.id]


async def test_what_has_ended_is_not_begun_again(job_service: JobService) -> None:
    job = await job_service.create(new())
    deleted = await job_service.delete(job.id)

    assert deleted.status == "deleted"
    assert await job_service.delete(job.id) == deleted
    for change in (job_service.pause, job_service.resume, job_service.run):
        with pytest.raises(JobEnded, match="was deleted"):
            await change(job.id)
    with pytest.raises(JobEnded):
        await job_service.edit(job.id, JobEdit(priority=1), version=None)
    with pytest.raises(VersionChanged):
        await job_service.delete((await job_service.create(new())).id, version=9)


async def test_people_and_workers_do_not_overwrite_each_others_events(
    job_service: JobService,
) -> None:
    job = await job_service.create(new())
    leases = Leases(job_service.store, kinds())
    (held,) = await leases.claim("me", 1, LEASE_MS)

    await job_service.pause(job.id)
    (known,) = await leases.heartbeat([held], LEASE_MS)
    await job_service.resume(job.id)
    await leases.release(
        replace(held, cursor=Cursor(page=1)), await job_service.store.now_ms(), "x"
    )

    assert known is not None
    assert known.status == "paused"
    found = await job_service.get(job.id)
    assert {e.what for e in found.events} == {"created", "claimed", "paused", "resumed", "parked"}
    assert (found.status, found.state, found.cursor.page) == ("active", "queued", 1)


@pytest.mark.parametrize("backend", ["memory"], indirect=True)
async def test_only_the_last_events_are_kept(job_service: JobService) -> None:
    job = await job_service.create(new())
    for _ in range(60):
        await job_service.pause(job.id)
        job = await job_service.resume(job.id)

    assert len(job.events) == 25
    assert job.events[-1].what == "resumed"
