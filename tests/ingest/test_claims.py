"""Claims: what a job says that it recorded, and the log does not hold, is fetched again."""

from dataclasses import dataclass, field
from dataclasses import replace as changed

import pytest

from penstock.ingest import registry
from penstock.ingest.claims import check_claims
from penstock.ingest.context import HandlerContext
from penstock.ingest.facts import CandlesMissing
from penstock.ingest.registry import kinds
from penstock.jobs.leases import Leases
from penstock.jobs.model import Cursor, Job, NewJob
from penstock.jobs.run import AnyRun
from penstock.recorder import Recorder
from penstock.storage.log import EventLog, open_log
from penstock.storage.log.keys import Stream

from .worlds import MINUTE_MS, NOW_MS, World, every, world

CANDLES = Stream("binance", "candles_1m", "btc_usdt")
BEGIN_MS = NOW_MS - 100 * MINUTE_MS


@dataclass
class Scene:
    """One worker on the jobs of a store."""

    there: World = field(default_factory=world)

    async def done(self) -> Job:
        """A backfill that was claimed, run and finished as a worker does it."""
        job_service = await self.there.job_service()
        leases = Leases(job_service.store, kinds())
        await job_service.create(
            NewJob(
                exchange_id="binance", type="ohlcv_backfill", symbol="BTC/USDT", timeframe="1m",
                cursor=Cursor(since_ms=BEGIN_MS, until_ms=NOW_MS - 20 * MINUTE_MS),
            )
        )  # fmt: skip
        return await self.run_next(leases)

    async def run_next(self, leases: Leases) -> Job:
        [job] = await leases.claim("w", 1, 60_000)

        async def save(job_run: AnyRun) -> None:
            await leases.heartbeat([job_run.job], 60_000)

        job_run = AnyRun(job, save)
        assert await self.there.run(job_run)
        [ended] = await leases.finish([job_run.job], self.there.clock.now_ms())
        assert ended is not None
        return ended

    async def with_log(self, log: EventLog) -> HandlerContext:
        """A worker that begins with another log in the place of this one."""
        await self.there.job_service()
        assert self.there._means is not None
        self.there.recorder = Recorder(log.writer("work-0"))
        self.there.reader = log.reader()
        self.there._means = changed(
            self.there._means, recorder=self.there.recorder, log=self.there.reader
        )
        self.there._kinds = registry.build(self.there._means)
        return self.there._means

    def log_with(self, opens: list[int]) -> EventLog:
        """A log that holds so much of what was recorded."""
        log = open_log("memory:")
        writer = log.writer("work-0")
        writer.append([each for each in self.there.candles() if each.open_ms in opens])
        writer.close()
        return log


@pytest.mark.parametrize(
    "lost",
    [every(NOW_MS - 50 * MINUTE_MS, NOW_MS - 20 * MINUTE_MS), every(BEGIN_MS, NOW_MS)],
    ids=["a tail", "everything"],
)
async def test_what_a_finished_job_recorded_and_the_log_lost_is_walked_again(
    lost: list[int],
) -> None:
    scene = Scene()
    job = await scene.done()
    complete = every(BEGIN_MS, NOW_MS - 20 * MINUTE_MS)
    assert (job.state, scene.there.opens()) == ("success", complete)
    context = await scene.with_log(scene.log_with([ms for ms in complete if ms not in lost]))

    assert await check_claims(context) == 1

    [told] = [fact for fact in scene.there.facts if isinstance(fact, CandlesMissing)]
    [gap] = await context.job_service.find(type="gap_backfill")
    assert told.job == gap.id
    assert gap.cursor.since_ms == max(lost[0], BEGIN_MS)
    [row] = await context.gaps.find()
    assert (row.first, row.state, row.job_id) == (gap.cursor.since_ms, "open", gap.id)
    await scene.run_next(Leases(context.job_service.store, kinds()))
    assert scene.there.opens() == complete
    assert [each.state for each in await context.gaps.find()] == ["filled"]
    assert await check_claims(context) == 0, "and that is that"


async def test_a_log_that_holds_everything_is_not_asked_twice() -> None:
    scene = Scene()
    await scene.done()
    context = await scene.with_log(scene.log_with(scene.there.opens()))

    assert await check_claims(context) == 0


async def test_what_was_recorded_in_another_machines_log_is_not_looked_for_in_this() -> None:
    scene = Scene()
    await scene.done()
    context = changed(await scene.with_log(open_log("memory:")), log_id=7)

    assert await check_claims(context) == 0


async def test_a_state_older_than_the_log_leads_to_no_duplicates() -> None:
    scene = Scene()
    await scene.done()
    before = scene.there.opens()
    restored = Cursor(since_ms=BEGIN_MS, until_ms=NOW_MS - 20 * MINUTE_MS)

    await scene.there.run(scene.there.job_run("ohlcv_backfill", restored))

    assert scene.there.opens() == before
    numbers = [each.number for each in scene.there.reader.numbers(CANDLES, "work-0", 1)]
    assert numbers == list(range(1, len(before) + 1)), "nothing is numbered twice"
