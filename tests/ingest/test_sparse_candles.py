"""Candles where minutes without trades have none and a page looks at a stretch of time."""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.jobs_made import made_job
from tests.waiting import PATIENCE_S

from penstock.clock import ManualClock
from penstock.coverage.batches import by_stream
from penstock.coverage.gap_rows import GapRows
from penstock.coverage.projection import Projection
from penstock.coverage.writing import CoverageWriter, read_coverage
from penstock.exchanges import registry as exchanges
from penstock.exchanges.base import Exchange, Info
from penstock.exchanges.gateway import Gateway
from penstock.exchanges.symbol_map import SymbolMap
from penstock.exchanges.transport import Answer
from penstock.ingest import registry
from penstock.ingest.candle_chunks import EMPTY_CHUNKS
from penstock.ingest.context import HandlerContext
from penstock.ingest.history import first_open, kept_from_ms, span_end
from penstock.ingest.registry import kinds
from penstock.jobs.model import Cursor, JobProgress
from penstock.jobs.run import AnyRun
from penstock.jobs.service import JobService
from penstock.market.events import Candle
from penstock.market.interval import DAY_MS, HOUR_MS, MINUTE_MS, Interval
from penstock.market.symbol import Symbol
from penstock.recorder import Recorder
from penstock.resilience.backoff import Backoff
from penstock.storage.log import EventLog, open_log
from penstock.storage.log.keys import Stream
from penstock.storage.state import open_store
from penstock.throttle.gate import Limit
from penstock.throttle.local_gate import LocalGate

OPENED_MS = 1_700_006_400_000
"""A whole hour."""
assert OPENED_MS % HOUR_MS == 0


def sparse(span: int) -> Exchange:
    return replace(
        exchanges.load("binance"),
        intervals=("1m", "1h"),
        empty_candles=False,
        candle_span=span,
        opened_ms=OPENED_MS,
    )


@dataclass
class Market:
    """An exchange that has candles of some minutes, and of the hours around them."""

    clock: ManualClock
    traded: frozenset[int]
    """Minutes since it opened."""
    span: int
    asked: list[str] = field(default_factory=list)

    async def send(
        self, _path: str, params: Mapping[str, str | int], leaving: Callable[[], None]
    ) -> Answer:
        leaving()
        interval = Interval.parse(str(params["interval"]))
        self.asked.append(interval.text)
        # Later requests may be answered first.
        for _ in range(len(self.asked) * 7 % 5):
            await asyncio.sleep(0)
        start_ms, last_ms = int(params["startTime"]), int(params["endTime"])
        end_ms = min(last_ms + 1, span_end(interval, start_ms, self.span))
        trades = [OPENED_MS + minute * MINUTE_MS for minute in self.traded]
        opens = {interval.open_of(at_ms) for at_ms in trades if at_ms <= self.clock.now_ms()}
        rows = [
            [at_ms, "1", "1", "1", "1", "1", interval.next_open(at_ms) - 1, "1", 1, "1", "1"]
            for at_ms in sorted(opens)
            if start_ms <= at_ms < end_ms
        ]
        return Answer(200, {}, msgspec.json.encode(rows))

    async def close(self) -> None: ...


@dataclass
class World:
    """One such exchange, a log, and a job."""

    market: Market
    gateway: Gateway
    log: EventLog
    recorder: Recorder
    coverage: CoverageWriter
    concurrency: int = 1

    async def of(self, _exchange_id: str) -> Gateway:
        return self.gateway

    async def run(
        self, kind: str, cursor: Cursor, stop_at: int = 9_999, progress: JobProgress | None = None
    ) -> AnyRun:
        async def save(job_run: AnyRun) -> None:
            assert set(self.opens()) >= {job_run.job.cursor.last_ts} - {None}, "ahead of the data"
            if job_run.job.progress.pages >= stop_at:
                job_run.stop("enough")

        job = made_job(kind, cursor, progress=progress or JobProgress())
        job_run = AnyRun(job, save)
        clock = self.market.clock
        store = await open_store("memory:", clock=clock)
        self.coverage.store, job_service = store, JobService(store, kinds())
        context = HandlerContext(
            self,
            Maps(),
            self.recorder,
            clock,
            self.log.reader(),
            job_service,
            GapRows(store),
            coverage=self.coverage,
            chunk_concurrency=self.concurrency,
        )
        running = asyncio.ensure_future(registry.build(context)[kind].run(job_run))
        for _ in range(1_000):
            if running.done():
                break
            await self.market.clock.advance(0.5)
        assert (await asyncio.wait_for(running, PATIENCE_S)) or job_run.stopping
        return job_run

    def opens(self) -> list[int]:
        found = self.log.reader().scan(Stream("binance", "candles_1m", "btc_usdt"))
        events = [stored.event for stored in found]
        return [event.open_ms for event in events if isinstance(event, Candle)]


class Maps:
    """One market."""

    async def of(self, exchange_id: str) -> SymbolMap:
        return SymbolMap(exchange_id, [("BTCUSDT", Symbol("BTC", "USDT"))])

    async def refresh(self, _exchange_id: str, _info: Info) -> Any:
        raise AssertionError("no candle needs that")


def world(traded: frozenset[int], now_ms: int, span: int = 7) -> World:
    clock = ManualClock(now_ms)
    market = Market(clock, traded, span)
    gate = LocalGate(clock, [Limit(100_000, DAY_MS)], acquire_timeout_ms=0, guard_ms=0)
    gateway = Gateway(sparse(span), market, gate, clock, Backoff(attempts=1))
    log = open_log("memory:")
    writer = log.writer("work-0")
    projection = Projection(1, "work-0", lambda _: (), is_streamed=False)
    recorder = Recorder(writer, taps=[lambda recorded: projection.take(by_stream(recorded))])
    coverage = CoverageWriter(projection, None, log, writer.last_numbers, clock)
    coverage.sync = recorder.sync
    return World(market, gateway, log, recorder, coverage)


minutes = st.frozensets(st.integers(0, 1_500), max_size=30)


@settings(max_examples=20)
@given(
    minutes,
    st.integers(1, 90_000_000),
    st.integers(1, 80),
    st.lists(st.integers(1, 4), max_size=4),
    st.integers(1, 5),
)
def test_every_closed_candle_is_there_once_however_few_there_are(
    traded: frozenset[int], age_ms: int, span: int, stops: list[int], concurrency: int
) -> None:
    async def go() -> None:
        there = world(traded, OPENED_MS + age_ms, span)
        there.concurrency = concurrency
        cursor = Cursor()
        for stop_at in [*stops, 9_999]:
            cursor = (await there.run("ohlcv_backfill", cursor, stop_at)).job.cursor
        # What closed at the last moment is for whoever comes next.
        await there.market.clock.advance(60)
        await there.run("ohlcv_incremental", going_on(cursor))
        closed = range((there.market.clock.now_ms() - OPENED_MS) // MINUTE_MS)
        expected = [OPENED_MS + each * MINUTE_MS for each in sorted(traded) if each in closed]
        assert there.opens() == expected

    asyncio.run(go())


def going_on(cursor: Cursor) -> Cursor:
    """A cursor to go on with; at the exchange's opening if nothing was found yet."""
    return Cursor(since_ms=OPENED_MS) if cursor.since_ms is None else cursor


@settings(max_examples=20)
@given(minutes, st.integers(0, 1_500), st.integers(1, 500))
def test_a_gap_holds_what_was_traded_in_it(traded: frozenset[int], first: int, length: int) -> None:
    async def go() -> None:
        since_ms = OPENED_MS + first * MINUTE_MS
        until_ms = since_ms + length * MINUTE_MS
        there = world(traded, until_ms)
        await there.run("gap_backfill", Cursor(since_ms=since_ms, until_ms=until_ms))
        wanted = [each for each in sorted(traded) if first <= each < first + length]
        assert there.opens() == [OPENED_MS + each * MINUTE_MS for each in wanted]

    asyncio.run(go())


async def test_minutes_without_trades_are_known_as_such_once_the_job_is_done() -> None:
    there = world(frozenset({3, 50}), OPENED_MS + DAY_MS)
    since_ms, until_ms = OPENED_MS + MINUTE_MS, OPENED_MS + 100 * MINUTE_MS

    await there.run("gap_backfill", Cursor(since_ms=since_ms, until_ms=until_ms))

    assert there.coverage.store is not None
    [held] = await read_coverage(there.coverage.store)
    [run] = held.runs
    assert (held.by, run.first, run.last) == ("open_ms", since_ms, until_ms - 1)


async def test_minutes_without_trades_are_no_gaps() -> None:
    there = world(frozenset({0, 30}), OPENED_MS + 2 * DAY_MS)

    await there.run("ohlcv_incremental", Cursor(since_ms=OPENED_MS))

    assert there.coverage.store is not None
    assert await GapRows(there.coverage.store).find() == []


async def test_long_silence_is_crossed_with_few_requests_and_kept_in_the_cursor() -> None:
    there = world(frozenset({0, 100_000}), OPENED_MS + 100_010 * MINUTE_MS, span=300)

    # The first page, empty ones until this is a long silence, and those in flight then.
    pages = 1 + EMPTY_CHUNKS + 1
    job_run = await there.run("ohlcv_backfill", Cursor(), stop_at=pages + 1)

    assert job_run.job.progress.rows == 1
    assert job_run.job.cursor.last_ts == OPENED_MS
    assert (job_run.job.cursor.since_ms or 0) > OPENED_MS + 99_000 * MINUTE_MS
    assert there.market.asked == [*["1m"] * pages, "1m", *["1h"] * 6]


async def test_an_incremental_is_not_stuck_behind_a_stretch_longer_than_a_page() -> None:
    there = world(frozenset({0, 50}), OPENED_MS + MINUTE_MS + 30_000)
    job_run = await there.run("ohlcv_incremental", Cursor())
    await there.market.clock.advance(60 * 60)

    await there.run("ohlcv_incremental", job_run.job.cursor)

    assert there.opens() == [OPENED_MS, OPENED_MS + 50 * MINUTE_MS]


async def test_candles_that_were_told_late_are_found_when_they_are_asked_for_again() -> None:
    there = world(frozenset({0, 30}), OPENED_MS + 10 * MINUTE_MS + 30_000)
    early = await there.run("ohlcv_incremental", Cursor(since_ms=OPENED_MS))
    there.market.traded |= {3, 5}
    await there.market.clock.advance(40 * 60)

    late = await there.run("ohlcv_incremental", early.job.cursor, progress=early.job.progress)
    asked = len(there.market.asked)
    await there.run("ohlcv_incremental", late.job.cursor, progress=late.job.progress)

    assert there.opens() == [OPENED_MS + minute * MINUTE_MS for minute in (0, 3, 5, 30)]
    assert [event.what for event in late.job.events] == ["missing"]
    assert len(there.market.asked) - asked <= 1, "nothing is asked for a third time"


async def test_a_candle_that_is_told_late_is_waited_for_before_a_gap_is_called_filled() -> None:
    there = world(frozenset({3}), OPENED_MS + 4 * MINUTE_MS)
    there.market.traded = frozenset()
    cursor = Cursor(since_ms=OPENED_MS, until_ms=OPENED_MS + 4 * MINUTE_MS)
    running = asyncio.ensure_future(there.run("gap_backfill", cursor))
    for _ in range(1_000):
        if len(there.market.asked) >= 3:
            break
        await asyncio.sleep(0)
    there.market.traded = frozenset({3})

    await running

    assert there.opens() == [OPENED_MS + 3 * MINUTE_MS]


def test_what_is_kept_is_counted_in_candles_or_in_days() -> None:
    exchange = replace(sparse(7), latest_candles=10, candle_days={"1h": 2})
    now_ms = OPENED_MS + 90_000

    assert kept_from_ms(exchange, Interval.parse("1m"), now_ms) == OPENED_MS - 9 * MINUTE_MS
    assert kept_from_ms(exchange, Interval.parse("1h"), now_ms) == OPENED_MS - 10 * HOUR_MS
    forever = replace(exchange, latest_candles=None)
    assert kept_from_ms(forever, Interval.parse("1m"), now_ms) == 0
    days_ms = kept_from_ms(forever, Interval.parse("1h"), now_ms)
    assert days_ms == OPENED_MS - 2 * DAY_MS + HOUR_MS


def test_a_page_begins_with_a_whole_interval() -> None:
    minute = Interval.parse("1m")

    assert first_open(minute, OPENED_MS) == OPENED_MS
    assert first_open(minute, OPENED_MS + 1) == OPENED_MS + MINUTE_MS
    assert span_end(minute, OPENED_MS + 1, 2) == OPENED_MS + 3 * MINUTE_MS
