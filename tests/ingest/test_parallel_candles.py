"""Backfills of candles, several pages at a time: complete, in order, killed anywhere."""

import asyncio
from dataclasses import replace
from typing import Any, Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace as changed
from tests.jobs_made import made_job

from penstock.errors import ExchangeError, RateLimited, UnexpectedAnswer
from penstock.exchanges.gateway import Gateway
from penstock.exchanges.paged import PageCost, PagedEndpoint
from penstock.ingest.candle_chunks import CandleChunk
from penstock.ingest.candles import CandleWalk
from penstock.ingest.chunks import MAX_ATTEMPTS
from penstock.ingest.concurrency import concurrency_for
from penstock.jobs.kinds import RequestRate
from penstock.jobs.model import Cursor
from penstock.jobs.run import AnyRun
from penstock.throttle.gate import Limit

from .worlds import EXCHANGE, MINUTE_MS, NOW_MS, World, every, world

FIRST_MS = NOW_MS - 100 * MINUTE_MS


def parallel(
    concurrency: int | Literal["auto"] = 4, *, page: int = 5, real_page: int | None = None
) -> World:
    """An exchange whose pages are known to have so many candles, and that answers in any order."""
    there = world(page=real_page or page)
    pages = PagedEndpoint("candles", "", (PageCost(page, 2),), page)
    there.gateway.exchange = replace(EXCHANGE, paged=(pages,))
    there.listing.steps = lambda number: 1 + number * 7 % 5
    there.chunk_concurrency = concurrency
    return there


class Run(AnyRun):
    """A job run whose every save checks that all data before the cursor was there first."""

    def __init__(self, there: World, kind: str, wanted: Cursor, at: Cursor | None = None) -> None:
        job = made_job(kind, wanted)
        super().__init__(changed(job, cursor=at or wanted), self._check)
        self.there, self.first_ms = there, max(FIRST_MS, wanted.since_ms or 0)
        self.saved = self.cursor

    async def _check(self, _: AnyRun) -> None:
        await asyncio.sleep(0)
        passed = every(self.first_ms, self.cursor.since_ms)
        assert {*passed} <= {*self.there.opens()}, "the cursor is ahead of the data"
        self.saved = self.cursor


async def run(job_run: Run, kill_after: int | None = None) -> bool | None:
    """Whether it is done; None if it was killed after so many steps of the loop."""
    there = job_run.there
    await there.job_service()
    running = asyncio.ensure_future(there.kinds()[job_run.job.type].run(job_run))
    if kill_after is None:
        for _ in range(200):
            if not running.done():
                await there.clock.advance(0.5)
    else:
        for _ in range(kill_after):
            await asyncio.sleep(0)
    running.cancel()
    (result,) = await asyncio.gather(running, return_exceptions=True)
    assert there.listing.in_flight == 0, "no request outlives its run"
    if isinstance(result, Exception):
        raise result
    return None if isinstance(result, asyncio.CancelledError) else bool(result)


@settings(max_examples=30)
@given(
    kind=st.sampled_from(["ohlcv_backfill", "gap_backfill"]),
    ends=st.tuples(st.integers(0, 100), st.integers(0, 100)).filter(lambda e: e[0] != e[1]),
    page=st.integers(1, 9),
    real_page=st.integers(1, 9),
    concurrency=st.integers(1, 5),
    kills=st.lists(st.integers(0, 120), max_size=4),
)
def test_killed_anywhere_each_candle_is_recorded_once(
    kind: str, ends: tuple[int, int], page: int, real_page: int, concurrency: int, kills: list[int]
) -> None:
    since_ms, until_ms = (FIRST_MS + minute * MINUTE_MS for minute in sorted(ends))

    async def go() -> None:
        there = parallel(concurrency, page=page, real_page=real_page)
        wanted, at = Cursor(since_ms=since_ms, until_ms=until_ms), None
        for kill_after in [*kills, None]:
            job_run = Run(there, kind, wanted, at)
            if await run(job_run, kill_after):
                break
            at = job_run.saved

        assert job_run.cursor.since_ms == until_ms
        assert there.opens() == every(since_ms, until_ms)

    asyncio.run(go())


@pytest.mark.parametrize("concurrency", [1, 3, 7])
async def test_so_many_pages_are_in_flight_and_none_is_requested_twice(concurrency: int) -> None:
    there = parallel(concurrency)

    assert await run(Run(there, "ohlcv_backfill", Cursor()))

    assert there.opens() == every(FIRST_MS, NOW_MS)
    assert there.listing.most_in_flight == concurrency
    starts = [start_ms for start_ms, _ in there.listing.asked]
    assert len(starts) == len({*starts}) <= 100 // 5 + 2


async def test_auto_is_rate_times_latency() -> None:
    there = parallel("auto")
    there.gateway.gate.adopt([Limit(8000, 1000)])
    # Weight two each.
    expected = concurrency_for(RequestRate(4000, 1000), 2.0)
    assert 5 < expected < 20

    class Slow(Gateway):
        """The clock stands still, so that each response would show a latency of zero."""

        def __setattr__(self, name: str, value: object) -> None:
            super().__setattr__(name, 2.0 if name == "latency_ms" else value)

    there.gateway.__class__ = Slow
    assert await run(Run(there, "ohlcv_backfill", Cursor()))

    assert there.opens() == every(FIRST_MS, NOW_MS)
    assert there.listing.most_in_flight == expected


async def test_an_incremental_requests_one_page_after_the_other() -> None:
    there = parallel()

    assert await run(Run(there, "ohlcv_incremental", Cursor(since_ms=FIRST_MS)))

    assert there.opens() == every(FIRST_MS, NOW_MS)
    assert there.listing.most_in_flight == 1


async def test_a_run_that_is_to_stop_keeps_what_is_in_flight_and_continues_there() -> None:
    there = parallel()
    first = Run(there, "ohlcv_backfill", Cursor())
    first.stop("enough")

    assert not await run(first)
    asked = len(there.listing.asked)
    assert await run(Run(there, "ohlcv_backfill", Cursor(), first.saved))

    assert asked == 1
    assert there.opens() == every(FIRST_MS, NOW_MS)


async def test_a_failure_ends_the_run_behind_what_is_complete() -> None:
    there = parallel()
    asked = 0

    def spoil(rows: list[Any]) -> Any:
        nonlocal asked
        asked += 1
        return rows[::-1] if asked == 9 else rows

    there.listing.spoil = spoil
    job_run = Run(there, "ohlcv_backfill", Cursor())

    with pytest.raises(UnexpectedAnswer, match="oldest first"):
        await run(job_run)

    cursor = job_run.saved
    assert cursor.since_ms is not None
    assert every(FIRST_MS, cursor.since_ms) == there.opens()
    assert FIRST_MS < cursor.since_ms < NOW_MS - 30 * MINUTE_MS
    assert await run(Run(there, "ohlcv_backfill", Cursor(), cursor))
    assert there.opens() == every(FIRST_MS, NOW_MS)


async def test_a_chunk_that_is_refused_is_requested_again_and_not_for_ever(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    there, whole, refused = parallel(), CandleWalk._whole, list[int]()
    for_ever = False

    async def refusing(walk: CandleWalk, chunk: CandleChunk) -> Any:
        if for_ever or chunk.start_ms not in refused:
            refused.append(chunk.start_ms)
            raise RateLimited("too fast", retry_at_ms=0, status=429)
        return await whole(walk, chunk)

    monkeypatch.setattr(CandleWalk, "_whole", refusing)
    assert await run(Run(there, "ohlcv_backfill", Cursor()))
    assert there.opens() == every(FIRST_MS, NOW_MS)
    assert len(refused) >= 15

    there, for_ever = parallel(), True
    with pytest.raises(ExchangeError, match=f"{MAX_ATTEMPTS} times: too fast"):
        await run(Run(there, "ohlcv_backfill", Cursor()))
