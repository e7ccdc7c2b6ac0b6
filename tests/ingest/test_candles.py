"""Candles page by page: complete, closed, never ahead of what is durable, whatever interrupts."""

import asyncio
from collections.abc import Callable
from typing import Any, cast

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from penstock.errors import (
    BadRequest,
    RateLimited,
    UnexpectedAnswer,
    UnknownInterval,
    UnknownSymbol,
)
from penstock.exchanges.base import Info
from penstock.exchanges.symbol_map import SymbolMap
from penstock.ingest import registry
from penstock.ingest.candle_jobs import CandleTarget
from penstock.ingest.request_rate import request_rate
from penstock.jobs.model import Cursor
from penstock.jobs.run import AnyRun
from penstock.market.interval import Interval
from penstock.recorder import Recorder
from penstock.throttle.gate import Limit

from .worlds import EXCHANGE, MINUTE_MS, NOW_MS, World, every, row, world


async def test_a_backfill_reaches_from_the_first_candle_there_is_to_the_present() -> None:
    there = world()
    job_run = there.job_run("ohlcv_backfill", Cursor())

    done = await there.run(job_run)

    assert done
    assert there.opens() == every(NOW_MS - 100 * MINUTE_MS, NOW_MS)
    assert there.listing.asked[0][0] == 0, "it asks for whatever is the oldest"
    assert job_run.job.cursor.since_ms == NOW_MS
    assert job_run.job.cursor.last_ts == NOW_MS - MINUTE_MS
    assert (job_run.job.cursor.page, job_run.job.progress.rows) == (job_run.job.progress.pages, 100)
    assert job_run.job.progress.first_ts == NOW_MS - 100 * MINUTE_MS
    assert job_run.job.progress.target_ts == NOW_MS + MINUTE_MS


async def test_a_backfill_that_is_stopped_goes_on_from_its_cursor() -> None:
    there = world()
    first = there.job_run("ohlcv_backfill", Cursor(), stop_at=3)

    assert not await there.run(first)
    asked = len(there.listing.asked)
    second = there.job_run("ohlcv_backfill", first.job.cursor)
    assert await there.run(second)

    assert asked == 3
    assert there.listing.asked[3][0] == NOW_MS - 70 * MINUTE_MS
    assert there.opens() == every(NOW_MS - 100 * MINUTE_MS, NOW_MS)
    assert there.recorder.failures == {}


class Disk:
    """A log's writer whose records are on the disk once it is synced, and not before."""

    on_disk = True

    def __init__(self, there: World) -> None:
        self._there, self._writer = there, there.log.writer("disk")
        self.holds: list[int] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._writer, name)

    def sync(self) -> None:
        self.holds = self._there.opens()


async def test_a_page_is_on_the_disk_before_the_cursor_passes_it() -> None:
    there = world()
    disk = Disk(there)
    there.recorder = Recorder(cast("Any", disk))
    job_run = there.job_run("ohlcv_backfill", Cursor())
    save, passed = job_run._save, list[bool]()

    async def checked(job_run: AnyRun) -> None:
        passed.append(job_run.job.cursor.last_ts in disk.holds)
        await save(job_run)

    job_run._save = checked
    assert await there.run(job_run)
    there.recorder.close()

    assert passed
    assert all(passed)


async def test_an_incremental_takes_what_has_closed_since_and_nothing_that_still_runs() -> None:
    there = world(now_ms=NOW_MS + 30_000)
    job_run = there.job_run("ohlcv_incremental", Cursor())

    assert await there.run(job_run)
    first = there.opens()
    assert await there.run(job_run)
    unchanged = there.opens()
    await there.clock.advance(3 * 60)
    assert await there.run(job_run)

    assert first == unchanged == [NOW_MS - MINUTE_MS]
    assert there.opens() == every(NOW_MS - MINUTE_MS, NOW_MS + 3 * MINUTE_MS)


async def test_an_incremental_that_only_knows_its_last_candle_goes_on_behind_it() -> None:
    there = world()
    job_run = there.job_run("ohlcv_incremental", Cursor(last_ts=NOW_MS - 5 * MINUTE_MS))

    assert await there.run(job_run)

    assert there.opens() == every(NOW_MS - 4 * MINUTE_MS, NOW_MS)


async def test_a_gap_is_filled_from_its_beginning_to_its_end_and_no_further() -> None:
    there = world()
    since_ms, until_ms = NOW_MS - 50 * MINUTE_MS, NOW_MS - 35 * MINUTE_MS
    job_run = there.job_run("gap_backfill", Cursor(since_ms=since_ms, until_ms=until_ms))

    assert await there.run(job_run)

    assert there.opens() == every(since_ms, until_ms)
    assert max(end for _, end in there.listing.asked) < until_ms + MINUTE_MS
    assert job_run.job.cursor.since_ms == until_ms


async def test_a_gap_that_has_just_closed_is_waited_for() -> None:
    """Within seconds of its end nobody can be sure of a candle that no other follows."""
    there = world(now_ms=NOW_MS + 1_000)
    there.listing.spoil = lambda rows: [row for row in rows if row[0] < NOW_MS]
    job_run = there.job_run("gap_backfill", Cursor(since_ms=NOW_MS - MINUTE_MS, until_ms=NOW_MS))

    assert await there.run(job_run)

    assert there.opens() == [NOW_MS - MINUTE_MS]
    assert there.clock.now_ms() >= NOW_MS + 10_000


@pytest.mark.parametrize("hours", [-1, 1])
async def test_the_exchanges_clock_decides_what_has_closed(hours: int) -> None:
    there = world(now_ms=NOW_MS + 30_000 - hours * 3_600_000, ahead_ms=hours * 3_600_000)
    await there.gateway.measure_clock()

    assert await there.run(there.job_run("ohlcv_backfill", Cursor()))

    assert there.opens()[-1] == NOW_MS - MINUTE_MS


async def test_nothing_in_the_range_is_an_end_too() -> None:
    there = world()
    early = there.job_run("gap_backfill", Cursor(since_ms=0, until_ms=MINUTE_MS))
    late = there.job_run("gap_backfill", Cursor(since_ms=NOW_MS * 2, until_ms=NOW_MS * 2 + 1))

    assert await there.run(early)
    assert await there.run(late)

    assert there.opens() == []


@pytest.mark.parametrize(
    ("kind", "timeframe", "symbol", "error"),
    [
        ("ohlcv_backfill", "7m", "BTC/USDT", UnknownInterval),
        ("ohlcv_backfill", "1m", "BTC/USD", UnknownSymbol),
    ],
)
async def test_what_nobody_could_answer_is_not_asked(
    kind: str, timeframe: str, symbol: str, error: type[Exception]
) -> None:
    there = world()
    job_run = there.job_run(kind, Cursor(), timeframe)
    target = CandleTarget(symbol=symbol, timeframe=timeframe)
    job_run.job = msgspec.structs.replace(job_run.job, target=target)

    with pytest.raises(error):
        await there.run(job_run)

    assert there.listing.asked == []


@pytest.mark.parametrize(
    "spoil",
    [
        lambda rows: rows[::-1],
        lambda rows: [rows[0], *rows],
        lambda rows: [row(0, Interval.parse("1m"))],
    ],
    ids=["newest first", "twice", "from elsewhere"],
)
async def test_a_page_of_something_else_is_not_recorded(
    spoil: Callable[[list[Any]], list[Any]],
) -> None:
    there = world(spoil=spoil)
    since_ms = NOW_MS - 50 * MINUTE_MS

    with pytest.raises(UnexpectedAnswer, match="oldest first"):
        await there.run(there.job_run("ohlcv_backfill", Cursor(since_ms=since_ms)))

    assert there.opens() == []


async def test_errors_are_left_to_the_worker() -> None:
    there = world(status=400)
    with pytest.raises(BadRequest):
        await there.run(there.job_run("ohlcv_backfill", Cursor()))
    there = world(page=1)
    there.gateway.gate.adopt([Limit(6, 86_400_000)])
    job_run = there.job_run("ohlcv_backfill", Cursor())
    with pytest.raises(RateLimited):
        await there.run(job_run)

    assert len(there.opens()) == 3, "three pages of weight two"
    assert job_run.job.cursor.page == 3
    rate = await there.kinds()["ohlcv_backfill"].request_rate(job_run.job)
    assert rate == (3, 86_400_000), "so many of those that wait are due in each window"


async def test_a_refresh_learns_what_the_exchange_lists() -> None:
    there = world()
    info = Info(SymbolMap("binance", []), ())

    async def learn() -> Info:
        return info

    there.gateway.learn = learn  # type: ignore[method-assign]

    assert await there.run(there.job_run("markets_refresh", Cursor()))
    assert there.info is info


def test_every_kind_of_the_specification_has_somebody_who_does_it() -> None:
    specified = {"markets_refresh", "ohlcv_incremental", "ohlcv_backfill", "gap_backfill"}
    assert set(registry.kinds()) >= specified


def test_the_tightest_limit_says_how_many_are_served() -> None:
    request = EXCHANGE.time
    assert request is not None
    limits = [Limit(100, 60_000), Limit(500, 600_000), Limit(7, 1_000, category="other")]

    assert request_rate(limits, request) == (500, 600_000)
    assert request_rate([], request) == (1, 0)


@settings(max_examples=20)
@example("1m", 0, 1, [(1, False)] * 5, 777_500)
@given(
    st.sampled_from(["1m", "5m", "1h", "1d", "1w", "1M"]),
    st.integers(0, 40),
    st.integers(1, 7),
    st.lists(st.tuples(st.integers(1, 4), st.booleans()), max_size=6),
    st.integers(0, 86_400_000),
)
def test_whatever_interrupts_it_every_closed_candle_is_there_once(
    timeframe: str, back: int, page: int, stops: list[tuple[int, bool]], phase_ms: int
) -> None:
    interval, now_ms = Interval.parse(timeframe), NOW_MS + phase_ms
    listed_ms = now_ms
    for _ in range(back):
        listed_ms = interval.open_of(interval.open_of(listed_ms) - 1)

    async def go() -> None:
        there = world(now_ms=now_ms, listed_ms=listed_ms, page=page)
        cursor, done = Cursor(), False
        for stop_at, crashes in [*stops, (99, False)]:
            job_run = there.job_run("ohlcv_backfill", cursor, timeframe, stop_at)
            done = await there.run(job_run)
            # Whoever dies before the save has recorded a page that is then asked for again.
            cursor = cursor if crashes else job_run.job.cursor
        assert done
        first_ms = interval.open_of(listed_ms)
        # Time passes while pages are waited for, so later ones may have closed meanwhile.
        expected = list(interval.opens(first_ms, interval.open_of(now_ms)))
        closed = list(interval.opens(first_ms, interval.open_of(there.clock.now_ms())))
        found = there.opens(timeframe)
        assert found[: len(expected)] == expected
        assert found == closed[: len(found)]
        assert all(candle.closed for candle in there.candles(timeframe))

    asyncio.run(go())
