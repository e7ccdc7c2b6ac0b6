"""Missing candles are found and fetched; what an exchange does not have is asked for once."""

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests import events

from penstock.clock import ManualClock
from penstock.coverage.candles import CandleGap, HeldCandles, joined, without
from penstock.coverage.gap_rows import GapRows
from penstock.coverage.model import Run, SlotCoverage
from penstock.coverage.reading import read_ledger, series_of
from penstock.coverage.writing import write_coverage
from penstock.ingest.facts import CandlesMissing
from penstock.jobs.model import Cursor, Job, NewJob
from penstock.jobs.run import AnyRun
from penstock.market.events import Candle
from penstock.market.interval import DAY_MS, HOUR_MS, Interval
from penstock.storage.log import open_log

from .worlds import BTC, MINUTE_MS, NOW_MS, World, every, world

HOUR_S = 3600


def lacking(*minutes: int) -> Callable[[list[Any]], list[Any]]:
    """What an exchange answers that has no candle of these minutes, counted from now."""
    lost = {NOW_MS + minute * MINUTE_MS for minute in minutes}
    return lambda rows: [row for row in rows if row[0] not in lost]


def told(rows: list[Any]) -> list[Any]:
    return rows


async def gaps(there: World) -> list[Job]:
    found = await (await there.job_service()).find(type="gap_backfill")
    return sorted(found, key=lambda gap: gap.cursor.since_ms or 0)


async def fill(there: World, gap: Job) -> None:
    """Do a gap as a worker would: when it is done, it is gone."""
    job_run = there.job_run("gap_backfill", gap.cursor)
    assert await there.run(job_run)
    await (await there.job_service()).delete(gap.id)


async def later(there: World, job_run: AnyRun, hours: float) -> None:
    """The next run of an incremental, after a while."""
    await there.clock.advance(hours * HOUR_S)
    assert await there.run(job_run)


async def other(there: World, kind: str, cursor: Cursor) -> Job:
    """Another job of the same market."""
    new = NewJob(exchange_id="binance", type=kind, symbol="BTC/USDT", timeframe="1m", cursor=cursor)
    return await (await there.job_service()).create(new)


async def hold(there: World, first: int, end: int) -> None:
    """Let the log hold these minutes, counted from now."""
    cursor = Cursor(since_ms=NOW_MS + first * MINUTE_MS, until_ms=NOW_MS + end * MINUTE_MS)
    assert await there.run(there.job_run("gap_backfill", cursor))


async def test_the_first_run_of_an_incremental_continues_behind_what_the_log_holds() -> None:
    there = world()
    await hold(there, -30, -12)

    assert await there.run(there.job_run("ohlcv_incremental", Cursor()))

    assert there.opens() == every(NOW_MS - 30 * MINUTE_MS, NOW_MS)


@pytest.mark.parametrize(("until", "first"), [(None, -1), (-5, -5)])
async def test_what_a_backfill_still_fetches_an_incremental_does_not_fetch_too(
    until: int | None, first: int
) -> None:
    there = world()
    await hold(there, -30, -12)
    until_ms = None if until is None else NOW_MS + until * MINUTE_MS
    await other(there, "ohlcv_backfill", Cursor(since_ms=NOW_MS - HOUR_MS, until_ms=until_ms))

    assert await there.run(there.job_run("ohlcv_incremental", Cursor()))

    fetched = [open_ms for open_ms in there.opens() if open_ms >= NOW_MS - 12 * MINUTE_MS]
    assert fetched == every(NOW_MS + first * MINUTE_MS, NOW_MS)
    assert await gaps(there) == [], "the backfill will come so far"


async def test_a_hole_behind_an_incremental_is_found_and_fetched() -> None:
    there = world()
    job_run = there.job_run("ohlcv_incremental", Cursor(since_ms=NOW_MS - 60 * MINUTE_MS))
    there.listing.spoil = lacking(-40, -39, -38)
    assert await there.run(job_run)
    there.listing.spoil = told

    (gap,) = await gaps(there)
    await fill(there, gap)

    assert (gap.cursor.since_ms, gap.cursor.until_ms) == (
        NOW_MS - 40 * MINUTE_MS,
        NOW_MS - 37 * MINUTE_MS,
    )
    assert gap.priority == 10
    assert gap.origin == "gap scan"
    assert there.opens() == every(NOW_MS - 60 * MINUTE_MS, NOW_MS)
    assert [fact.job for fact in there.facts if isinstance(fact, CandlesMissing)] == [gap.id]
    assert [event.what for event in job_run.job.events] == ["missing"]
    assert gap.id in job_run.job.events[0].detail
    await later(there, job_run, 2)
    assert await gaps(there) == []


async def test_a_hole_from_before_the_first_check_is_found_wherever_it_is() -> None:
    """A job of an older version left a hole between a backfill and where it began itself."""
    there = world()
    await hold(there, -90, -62)
    job_run = there.job_run("ohlcv_incremental", Cursor(since_ms=NOW_MS - 60 * MINUTE_MS))

    assert await there.run(job_run)
    (gap,) = await gaps(there)
    await fill(there, gap)

    assert there.opens() == every(NOW_MS - 90 * MINUTE_MS, NOW_MS)


async def test_what_the_exchange_has_no_candle_for_is_asked_for_once() -> None:
    there = world()
    job_run = there.job_run("ohlcv_incremental", Cursor(since_ms=NOW_MS - 60 * MINUTE_MS))
    there.listing.spoil = lacking(-40, -39, 70)
    assert await there.run(job_run)
    (gap,) = await gaps(there)
    await fill(there, gap)

    found = []
    for _ in range(6):
        await later(there, job_run, 1.1)
        for each in await gaps(there):
            found.append(each.cursor.since_ms)
            await fill(there, each)

    assert found == [NOW_MS + 70 * MINUTE_MS], "only what is new"
    checked_ms = job_run.job.progress.checked_ts or 0
    assert checked_ms >= NOW_MS + 6 * HOUR_MS, "the check went on"


@pytest.mark.parametrize("lost", [(-45, -44, -41), range(-46, -39)])
async def test_a_gap_is_not_done_before_what_it_still_lacks_was_asked_for_again(
    lost: Iterable[int],
) -> None:
    there = world()
    answers = [lacking(*lost)]

    def spoilt(rows: list[Any]) -> list[Any]:
        return (answers.pop() if answers else told)(rows)

    there.listing.spoil = spoilt
    await hold(there, -46, -40)

    assert there.opens() == every(NOW_MS - 46 * MINUTE_MS, NOW_MS - 40 * MINUTE_MS)
    assert len(there.listing.asked) <= 3, "once more for each hole"


async def test_a_hole_that_a_live_job_fetches_gets_no_second_job() -> None:
    there = world()
    since_ms, until_ms = NOW_MS - 45 * MINUTE_MS, NOW_MS - 38 * MINUTE_MS
    mine = await other(there, "gap_backfill", Cursor(since_ms=since_ms, until_ms=until_ms))
    there.listing.spoil = lacking(-50, -40, -39, -20)

    job_run = there.job_run("ohlcv_incremental", Cursor(since_ms=NOW_MS - 60 * MINUTE_MS))
    assert await there.run(job_run)

    before, first, after = await gaps(there)
    assert first.id == mine.id
    assert before.cursor.until_ms == since_ms, "near holes are one job, but not across another's"
    assert after.cursor.since_ms == until_ms


async def test_candles_are_not_missed_before_the_exchange_had_time_to_tell_them() -> None:
    there = world()
    job_run = there.job_run("ohlcv_incremental", Cursor(since_ms=NOW_MS - 60 * MINUTE_MS))
    there.listing.spoil = lacking(-9)
    assert await there.run(job_run)
    early = await gaps(there)

    await later(there, job_run, 1.1)

    assert early == []
    assert [gap.cursor.since_ms for gap in await gaps(there)] == [NOW_MS - 9 * MINUTE_MS]


async def test_a_backfill_checks_all_that_it_brought() -> None:
    there = world()
    there.listing.spoil = lacking(-77, -76)

    assert await there.run(there.job_run("ohlcv_backfill", Cursor()))

    (gap,) = await gaps(there)
    assert gap.cursor.since_ms == NOW_MS - 77 * MINUTE_MS
    assert gap.cursor.until_ms == NOW_MS - 75 * MINUTE_MS


async def test_a_market_is_checked_once_an_hour() -> None:
    there = world()
    job_run = there.job_run("ohlcv_incremental", Cursor(since_ms=NOW_MS - 60 * MINUTE_MS))
    assert await there.run(job_run)
    first = job_run.job.progress.checked_ts

    await later(there, job_run, 0.5)
    soon = job_run.job.progress.checked_ts
    await later(there, job_run, 0.6)

    assert first == soon == NOW_MS - 10 * MINUTE_MS
    assert (job_run.job.progress.checked_ts or 0) > NOW_MS + 50 * MINUTE_MS


async def test_holes_far_apart_are_fetched_by_jobs_of_their_own_and_near_ones_by_one() -> None:
    there = world(listed_ms=NOW_MS - DAY_MS, page=1000)
    there.listing.spoil = lacking(-900, -700, -650, -200)

    job_run = there.job_run("ohlcv_incremental", Cursor(since_ms=NOW_MS - 1000 * MINUTE_MS))
    assert await there.run(job_run)

    found = [(gap.cursor.since_ms, gap.cursor.until_ms) for gap in await gaps(there)]
    expected = [(-900, -899), (-700, -649), (-200, -199)]
    assert found == [tuple(NOW_MS + each * MINUTE_MS for each in ends) for ends in expected]


async def rows(there: World) -> list[tuple[int, int, str, str]]:
    """The gaps in the ledger, in minutes from now, the end excluded."""
    found = await GapRows((await there.job_service()).store).find()
    return [
        (
            (row.first - NOW_MS) // MINUTE_MS,
            (row.last + 1 - NOW_MS) // MINUTE_MS,
            row.state,
            row.cause,
        )
        for row in found
    ]


async def test_a_hole_is_a_gap_in_the_ledger_until_it_is_filled() -> None:
    there = world()
    job_run = there.job_run("ohlcv_incremental", Cursor(since_ms=NOW_MS - 60 * MINUTE_MS))
    there.listing.spoil = lacking(-40, -39, -38, -30)

    assert await there.run(job_run)

    assert await rows(there) == [(-40, -37, "open", "missing"), (-30, -29, "open", "missing")]
    (gap,) = await gaps(there)
    found = await GapRows((await there.job_service()).store).find()
    assert {row.job_id for row in found} == {gap.id}, "one job fetches both"
    there.listing.spoil = lacking(-39)
    await fill(there, gap)
    assert await rows(there) == [
        (-40, -39, "filled", "missing"), (-39, -38, "unfillable", "missing"),
        (-38, -37, "filled", "missing"), (-30, -29, "filled", "missing"),
    ]  # fmt: skip
    await later(there, job_run, 2)
    assert len(await rows(there)) == 4, "each range is checked once"


async def test_candles_that_the_ledger_lists_and_the_log_lacks_were_lost() -> None:
    there = world()
    service = await there.job_service()
    begin_ms = NOW_MS - 60 * MINUTE_MS
    runs = (Run(begin_ms, NOW_MS - 35 * MINUTE_MS - 1, 1, 1),)
    document = SlotCoverage(
        exchange="binance", channel="candles_1m", symbol="btc_usdt", slot="a", log_id=0, number=1,
        by="open_ms", runs=runs,
    )  # fmt: skip
    await write_coverage(service.store, [document])
    there.listing.spoil = lacking(-40, -39, -20)

    assert await there.run(there.job_run("ohlcv_incremental", Cursor(since_ms=begin_ms)))

    assert await rows(there) == [(-40, -38, "open", "damaged"), (-20, -19, "open", "missing")]
    (series,) = series_of(await read_ledger(service.store))
    assert series.size("gap") == 3 * MINUTE_MS


async def test_a_hole_that_a_live_job_has_yet_to_fetch_is_no_gap() -> None:
    there = world()
    since_ms, until_ms = NOW_MS - 45 * MINUTE_MS, NOW_MS - 38 * MINUTE_MS
    await other(there, "gap_backfill", Cursor(since_ms=since_ms, until_ms=until_ms))
    there.listing.spoil = lacking(-40, -20)

    job_run = there.job_run("ohlcv_incremental", Cursor(since_ms=NOW_MS - 60 * MINUTE_MS))
    assert await there.run(job_run)

    assert await rows(there) == [(-20, -19, "open", "missing")]


async def test_candles_that_the_exchange_no_longer_keeps_are_unfillable() -> None:
    there = world()
    await hold(there, -29, -25)
    there.gateway.exchange = replace(there.gateway.exchange, latest_candles=20)

    job_run = there.job_run("ohlcv_incremental", Cursor(since_ms=NOW_MS - 10 * MINUTE_MS))
    assert await there.run(job_run)

    assert await rows(there) == [(-25, -20, "unfillable", "missing"), (-20, -10, "open", "missing")]
    (lost, _) = await GapRows((await there.job_service()).store).find()
    assert lost.reason == "binance keeps candles of 1m from 2023-11-14T21:54:00Z on"


months = st.sampled_from(["1m", "1w", "1M"])


@given(months, st.sets(st.integers(0, 40)), st.integers(0, 20), st.integers(1, 20))
def test_holes_are_exactly_what_is_missing(
    timeframe: str, held: set[int], first: int, count: int
) -> None:
    interval = Interval.parse(timeframe)
    opens = [interval.open_of(NOW_MS)]
    while len(opens) <= 41:
        opens.append(interval.next_open(opens[-1]))
    log = open_log("memory:")
    # Two slots, as two workers leave them.
    for slot in (0, 1):
        mine = [each for each in held if each % 3 in (slot, 2)]
        log.writer(f"work-{slot}").append(
            [candle(opens[n], opens[n + 1] - 1, timeframe) for n in mine]
        )
    start_ms, end_ms = opens[first], opens[first + count]

    found = asyncio.run(
        HeldCandles(log.reader(), "binance", BTC, interval).gaps(start_ms, end_ms, ManualClock())
    )

    missing = [at for hole in found for at in interval.opens(hole.since_ms, hole.until_ms)]
    assert missing == [opens[n] for n in range(first, first + count) if n not in held]
    assert joined(found, 0) == found, "no two of them touch"


async def test_a_hole_is_found_though_nothing_follows_it() -> None:
    log = open_log("memory:")
    log.writer("work-0").append([candle(0, MINUTE_MS - 1, "1m")])
    held = HeldCandles(log.reader(), "binance", BTC, Interval.parse("1m"))

    found = await held.gaps(0, 3 * MINUTE_MS, ManualClock())

    assert found == [CandleGap(MINUTE_MS, 3 * MINUTE_MS)]


def candle(open_ms: int, close_ms: int, timeframe: str) -> Candle:
    return events.candle(open_ms, timeframe, BTC, "binance", close_ms=close_ms)


ranges = st.lists(st.tuples(st.integers(0, 30), st.integers(1, 10)), max_size=5)


@given(ranges, ranges, st.integers(0, 4))
def test_stretches_are_taken_away_and_joined_as_sets_of_instants(
    some: list[tuple[int, int]], others: list[tuple[int, int]], near: int
) -> None:
    def instants(gaps: list[CandleGap]) -> set[int]:
        return {at for hole in gaps for at in range(*hole)}

    mine = [CandleGap(first, first + length) for first, length in some]
    known = [CandleGap(first, first + length) for first, length in others]

    assert instants(without(mine, known)) == instants(mine) - instants(known)
    one = joined(mine, near)
    assert instants(one) >= instants(mine)
    assert all(b.since_ms - a.until_ms > near for a, b in pairwise(one))
