"""Backfills of trades: concurrent, in batches, killed and refused, on each way of paging."""

import asyncio
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace as changed
from tests.jobs_made import made_job

from penstock.clock import ManualClock
from penstock.coverage.gap_rows import GapRows
from penstock.coverage.model import GapRow
from penstock.errors import (
    BadJob,
    CircuitOpen,
    ExchangeError,
    LockLost,
    ProductLocked,
    RateLimited,
    UnexpectedAnswer,
    UnknownSymbol,
)
from penstock.exchanges import registry as exchanges
from penstock.exchanges.base import MarketProgress, Request, TradePage, TradePages
from penstock.exchanges.symbol_map import SymbolMap
from penstock.ingest.chunks import MAX_ATTEMPTS
from penstock.ingest.concurrency import MOST, concurrency_for
from penstock.ingest.context import HandlerContext
from penstock.ingest.registry import build, kinds
from penstock.ingest.trade_range import TradesCursor
from penstock.jobs.kinds import RequestRate
from penstock.jobs.model import Job, NewJob
from penstock.jobs.product_locks import ProductLocks, held_locks, release_lock
from penstock.jobs.run import AnyRun
from penstock.jobs.service import JobService
from penstock.jobs.validation import admitted
from penstock.market.events import Trade
from penstock.market.symbol import Symbol
from penstock.recorder import Recorder
from penstock.storage.log import open_log
from penstock.storage.log.keys import Stream, id_of_key
from penstock.storage.state import open_store
from penstock.throttle.gate import Limit

BTC, ETH = Symbol.parse("btc_usdt"), Symbol.parse("eth_usdt")
STREAM = Stream("binance", "trades", "btc_usdt")
NOW_MS = 1_700_000_000_000
FIRST_MS = NOW_MS - 10_000_000
MS_NS = 1_000_000
LATEST = "latest"
WAYS: tuple[TradePages, ...] = ("from_id", "before_id", "after_ns")
every_way = pytest.mark.parametrize("way", WAYS)
by_id = pytest.mark.parametrize("way", WAYS[:2])


def some(ids: Iterable[int], every_ms: int = 40) -> list[Trade]:
    return [
        Trade(
            exchange="binance", symbol=BTC, received_at_ns=NOW_MS * MS_NS, source="backfill",
            id=number, at_ns=(FIRST_MS + number * every_ms) * MS_NS + 456_789, price_text="1",
            quantity_text="2", taker="buy",
        )
        for number in ids
    ]  # fmt: skip


Spoil = Callable[["Client", int], Awaitable[TradePage | None]]


async def nothing(_client: "Client", _cursor: int) -> None:
    """Let the exchange answer."""


@dataclass
class Client:
    """An exchange with some trades, in pages, whose responses take a few steps of the loop."""

    way: TradePages
    history: list[Trade]
    page: int = 3
    spoil: Spoil = nothing
    """Raises, or answers in place of the exchange."""
    asked: list[int] = field(default_factory=list)
    in_flight: int = 0
    most_in_flight: int = 0
    latency_ms: float | None = 1000.0
    offset: None = None

    def __post_init__(self) -> None:
        rest: Any = Rest(self)
        self.exchange = replace(
            exchanges.load("binance"),
            trade_pages=self.way,
            trade_page_size=self.page,
            rest=lambda _symbols: rest,
        )

    @property
    def gate(self) -> "Client":
        return self

    def used(self) -> dict[Limit, int]:
        return {Limit(4, 1000): 0}

    async def of(self, _exchange_id: str) -> "Client":
        return self

    async def fetch(self, request: Request[Any]) -> Any:
        if request.path == LATEST:
            return request.read(b"", 0)
        cursor = int(request.path)
        self.asked.append(cursor)
        assert len(self.asked) < 2000, "it never ends"
        self.in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self.in_flight)
        try:
            # Later requests may be answered first.
            for _ in range(1 + len(self.asked) * 7 % 5):
                await asyncio.sleep(0)
            spoiled = await self.spoil(self, cursor)
            return request.read(b"", 0) if spoiled is None else spoiled
        finally:
            self.in_flight -= 1

    def answer(self, cursor: int) -> TradePage:
        if self.way == "before_id":
            end = bisect_left(self.history, cursor, key=lambda each: each.id)
            found = self.history[max(0, end - self.page) : end]
            return TradePage(found, found[0].id if found else cursor)
        if self.way == "from_id":
            start = bisect_left(self.history, cursor, key=lambda each: each.id)
        else:
            start = bisect_right(self.history, cursor, key=lambda each: each.at_ns)
        found = self.history[start : start + self.page]
        if not found:
            return TradePage([], cursor)
        return TradePage(found, found[-1].id + 1 if self.way == "from_id" else found[-1].at_ns)


@dataclass
class Rest:
    client: Client

    def trades(self, _symbol: Symbol, cursor: int) -> Request[TradePage]:
        return Request(str(cursor), 1, lambda _body, _at: self.client.answer(cursor))

    def latest(self, _symbol: Symbol, _channel: str) -> Request[MarketProgress]:
        newest = self.client.history[-1].id if self.client.history else -1
        return Request(LATEST, 1, lambda _body, _at: MarketProgress("", newest))


class Maps:
    async def of(self, exchange_id: str) -> SymbolMap:
        return SymbolMap(exchange_id, [("BTCUSDT", BTC), ("ETHUSDT", ETH)])


class World:
    """One exchange, one log, and workers that may be killed."""

    def __init__(self, client: Client, concurrency: int | Literal["auto"] = 4) -> None:
        self.client, self.concurrency, self.clock = client, concurrency, ManualClock(NOW_MS)
        self.log = open_log("memory:")
        self.published: Counter[int] = Counter()
        self.workers = 0

    async def open(self) -> "World":
        self.store = await open_store("memory:", clock=self.clock)
        self.gaps = GapRows(self.store)
        return self

    def context(self, recorder: Recorder) -> HandlerContext:
        return HandlerContext(
            self.client, Maps(), recorder, self.clock, self.log.reader(),  # type: ignore[arg-type]
            JobService(self.store, kinds()), self.gaps, chunk_concurrency=self.concurrency,
        )  # fmt: skip

    async def run(self, job: Job, kill_after: int | None = None, stop_at: int = 999) -> Job:
        """The job as last saved, after a run by a new worker that ends after so many steps."""
        recorder = Recorder(self.log.writer(f"work-{self.workers}"), taps=[self._count])
        self.workers += 1
        saved = [job]

        async def save(job_run: AnyRun) -> None:
            await asyncio.sleep(0)
            for number in self.ids(job_run.job.cursor):
                assert number in self.published, "the cursor is ahead of the data"
            saved.append(job_run.job)
            if len(saved) > stop_at:
                job_run.stop("enough")

        context = self.context(recorder)
        job_run = AnyRun(job, save)
        job_run.good_until_ns = 1 << 62
        running = asyncio.ensure_future(build(context)[job.type].run(job_run))
        if kill_after is not None:
            for _ in range(kill_after):
                await asyncio.sleep(0)
            running.cancel()
        (result,) = await asyncio.gather(running, return_exceptions=True)
        assert self.client.in_flight == 0, "no request outlives its run"
        self.last = saved[-1]
        if isinstance(result, Exception):
            raise result
        if result is True:
            return changed(saved[-1], cursor=kinds()[job.type].ended(saved[-1].cursor))
        return saved[-1]

    def ids(self, cursor: TradesCursor) -> list[int]:
        """Those that exist and that a cursor says are durable."""
        if cursor.last_id is None or cursor.from_id is None:
            return []
        return [
            each.id for each in self.client.history if cursor.from_id <= each.id <= cursor.last_id
        ]

    def _count(self, stored: Any) -> None:
        self.published.update(each.event.id for each in stored)

    def stored(self) -> list[int]:
        return [id_of_key(each.key) or 0 for each in self.log.reader().scan(STREAM)]


def backfill(**cursor: Any) -> Job:
    return made_job("trades_backfill", TradesCursor(**cursor), timeframe=None)  # type: ignore[arg-type]


async def finished(world: World, job: Job, kills: Iterable[int] = ()) -> Job:
    waiting = list(kills)
    for _ in range(100):
        job = await world.run(job, waiting.pop() if waiting else None)
        if job.cursor.done:
            return job
    raise AssertionError("it never ends")


@given(
    way=st.sampled_from(WAYS),
    exist=st.sets(st.integers(1, 60), min_size=1),
    ends=st.tuples(st.integers(1, 60), st.integers(1, 60)).map(sorted),
    page=st.integers(1, 7),
    concurrency=st.integers(1, 5),
    kills=st.lists(st.integers(0, 80), max_size=4),
)
def test_killed_anywhere_each_trade_is_recorded_once(
    way: TradePages, exist: set[int], ends: list[int], page: int, concurrency: int, kills: list[int]
) -> None:
    for number in range(61):
        # Without a hole as long as a page, which counts as a wrong one.
        if exist.isdisjoint(range(number - page + 1, number + 1)):
            exist.add(number)

    async def go() -> None:
        world = await World(Client(way, some(sorted(exist)), page), concurrency).open()
        first, last = min(ends[0], max(exist)), min(ends[1], max(exist))

        await finished(world, backfill(from_id=first, to_id=last), kills)

        wanted = [number for number in sorted(exist) if first <= number <= last]
        assert world.stored() == wanted
        assert world.published == Counter(wanted)

    # More than a page is left, so that the concurrency applies.
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("penstock.ingest.trade_backfill.FEW_TRADES", 0)
        asyncio.run(go())


@every_way
@given(data=st.data())
def test_times_are_the_ids_of_trades_in_between(way: TradePages, data: Any) -> None:
    holes = data.draw(st.sets(st.integers(1, 300), max_size=20))
    ids = {number for number in range(300) if number % 9 == 0 or number not in holes}
    history = some(sorted(ids), 400)
    times = st.integers(FIRST_MS - 5_000, FIRST_MS + 130_000)
    since_ms, until_ms = sorted((data.draw(times), data.draw(times)))

    async def go() -> None:
        world = await World(Client(way, history, 10)).open()

        await finished(world, backfill(since_ms=since_ms, until_ms=until_ms + 1))

        assert world.stored() == [e.id for e in history if since_ms <= e.at_ms <= until_ms]

    asyncio.run(go())


@every_way
async def test_the_ids_of_times_take_few_requests(way: TradePages) -> None:
    world = await World(Client(way, some(range(1, 100_001), 100), 1000)).open()

    job = await finished(
        world, backfill(since_ms=FIRST_MS + 2_500_000, until_ms=FIRST_MS + 3_000_000)
    )

    assert (job.cursor.from_id, job.cursor.to_id) == (25_000, 29_999)
    assert world.stored() == [*range(25_000, 30_000)]
    assert len(world.client.asked) <= 5 + 8


@by_id
@pytest.mark.parametrize("concurrency", [1, 3, 7])
async def test_so_many_pages_are_in_flight_and_none_is_requested_twice(
    way: TradePages, concurrency: int
) -> None:
    world = await World(Client(way, some(range(1, 5001)), 100), concurrency).open()

    job = await finished(world, backfill(from_id=1, to_id=5000))

    assert world.client.most_in_flight == concurrency
    assert len(world.client.asked) <= 50 + 2
    assert job.progress.rows == 5000
    assert job.cursor.last_id == 5000


async def test_auto_is_rate_times_latency() -> None:
    world = await World(Client("from_id", some(range(1, 5001)), 100), "auto").open()

    await finished(world, backfill())

    assert world.client.most_in_flight == concurrency_for(RequestRate(4, 1000), 1000.0) == 6


@pytest.mark.parametrize(
    ("requests", "window_ms", "latency_ms", "expected"),
    [
        (10, 1000, 3000.0, 34),
        (10, 1000, 500.0, 7),
        (15, 1000, 3000.0, 51),
        (240, 60_000, 100.0, 2),
        (10, 1000, None, 1),
        (10, 1000, 1e9, MOST),
        (1, 0, 100.0, 5),
    ],
)
def test_littles_law(
    requests: int, window_ms: int, latency_ms: float | None, expected: int
) -> None:
    assert concurrency_for(RequestRate(requests, window_ms), latency_ms) == expected


@given(st.integers(1, 1000), st.floats(1, 10_000))
def test_the_limit_is_used_and_little_more(per_s: int, latency_ms: float) -> None:
    in_flight = concurrency_for(RequestRate(per_s, 1000), latency_ms)

    needed = per_s * latency_ms / 1000
    assert min(MOST, needed) <= in_flight <= 1.1 * needed + 2


def test_jobs_share_the_limit() -> None:
    assert concurrency_for(RequestRate(10, 1000), 3000.0, jobs=3) == 12


async def test_jobs_of_one_worker_share_the_limit_and_the_last_one_has_all_of_it() -> None:
    world = await World(Client("from_id", some(range(1, 9001)), 100), "auto").open()
    world.client.latency_ms = 5000.0
    context = world.context(Recorder(world.log.writer("work-0")))
    kind, in_flight = build(context)["trades_backfill"], []

    async def save(job_run: AnyRun) -> None:
        in_flight.append(world.client.in_flight)

    cursor: Any = TradesCursor(from_id=2001, to_id=9000)
    other = made_job("trades_backfill", cursor, timeframe=None, id="k", symbol="ETH/USDT")
    jobs = [backfill(from_id=1, to_id=2000), other]
    job_runs = [AnyRun(job, save) for job in jobs]
    for job_run in job_runs:
        job_run.good_until_ns = 1 << 62

    assert await asyncio.gather(*map(kind.run, job_runs)) == [True, True]

    alone, shared = (concurrency_for(RequestRate(4, 1000), 5000.0, jobs=n) for n in (1, 2))
    assert (alone, shared) == (23, 12)
    assert max(in_flight[:5]) <= 2 * shared
    assert shared < world.client.most_in_flight <= 2 * shared
    assert world.stored() == [*range(1, 9001)]


@by_id
async def test_few_trades_are_fetched_one_page_at_a_time(way: TradePages) -> None:
    world = await World(Client(way, some(range(1, 5001)), 100)).open()

    await finished(world, backfill(from_id=1001, to_id=2000))

    assert world.client.most_in_flight == 1
    assert world.stored() == [*range(1001, 2001)]


@by_id
async def test_a_429_puts_the_chunk_back(way: TradePages) -> None:
    refused = Counter[int]()

    async def spoil(_client: Client, cursor: int) -> None:
        refused[cursor] += 1
        if refused[cursor] % 3:
            raise RateLimited("binance blocks this address", retry_at_ms=NOW_MS, status=429)

    world = await World(Client(way, some(range(1, 3001)), 100, spoil)).open()
    world.client.spoil = nothing
    job = await world.run(backfill(from_id=1, to_id=3000), stop_at=1)
    world.client.spoil = spoil

    job = await world.run(job)

    assert job.cursor.done
    assert world.stored() == [*range(1, 3001)]


@by_id
async def test_a_chunk_that_is_refused_ten_times_fails_its_batch(way: TradePages) -> None:
    async def spoil(_client: Client, cursor: int) -> None:
        if 2400 <= cursor <= 2500:
            raise RateLimited("binance blocks this address", retry_at_ms=NOW_MS, status=429)

    world = await World(Client(way, some(range(1, 5001)), 100, spoil)).open()

    with pytest.raises(ExchangeError, match="requested 10 times: binance blocks this address"):
        await world.run(backfill(from_id=1, to_id=5000))

    refused = [cursor for cursor in world.client.asked if 2400 <= cursor <= 2500]
    assert len(refused) >= MAX_ATTEMPTS
    last_id = world.last.cursor.last_id
    assert 1500 <= last_id < 2500
    assert world.stored() == [*range(1, last_id + 1)], "all or nothing of a batch"
    world.client.spoil = nothing
    await finished(world, world.last)
    assert world.stored() == [*range(1, 5001)]


@by_id
async def test_without_budget_fewer_pages_are_requested_and_then_the_job_waits(
    way: TradePages,
) -> None:
    tokens = 40

    async def spoil(client: Client, _cursor: int) -> None:
        nonlocal tokens
        if client.in_flight > 3:
            raise RateLimited("no capacity", retry_at_ms=NOW_MS)
        tokens -= 1
        if tokens < 0:
            raise RateLimited("no capacity", retry_at_ms=NOW_MS + 5)

    world = await World(Client(way, some(range(1, 5001)), 100, spoil), 8).open()

    with pytest.raises(RateLimited) as refusal:
        await world.run(backfill(from_id=1, to_id=5000))

    assert refusal.value.retry_at_ms == NOW_MS + 5
    assert len(world.stored()) > 2000
    tokens = 999
    await finished(world, world.last)
    assert world.stored() == [*range(1, 5001)]
    assert max(world.published.values()) == 1


@by_id
async def test_an_open_breaker_makes_the_job_wait_and_keeps_complete_batches(
    way: TradePages,
) -> None:
    async def spoil(client: Client, _cursor: int) -> None:
        if len(client.asked) > 30:
            raise CircuitOpen("binance", retry_at_ms=NOW_MS + 5, reason="it failed")

    world = await World(Client(way, some(range(1, 5001)), 100, spoil)).open()

    with pytest.raises(CircuitOpen):
        await world.run(backfill(from_id=1, to_id=5000))

    assert len(world.stored()) >= 2000
    assert world.last.cursor.last_id == world.stored()[-1]


@every_way
@pytest.mark.parametrize("what", ["the same page", "an empty page"])
async def test_an_exchange_that_repeats_itself_ends_with_an_error(
    way: TradePages, what: str
) -> None:
    world = await World(Client(way, some(range(1, 5001)), 100)).open()
    job = await world.run(backfill(from_id=1, to_id=5000), stop_at=1)
    asked = len(world.client.asked)
    same = TradePage(world.client.history[:100], 101 if way == "from_id" else 1)

    async def spoil(_client: Client, cursor: int) -> TradePage:
        return same if what == "the same page" else TradePage([], cursor)

    world.client.spoil = spoil
    with pytest.raises((ExchangeError, UnexpectedAnswer)):
        await world.run(await world.run(job))

    assert len(world.client.asked) - asked < 150
    assert world.stored() in ([], [*range(1, 101)])


@every_way
async def test_a_range_before_the_listing_starts_with_the_first_trade_and_says_so(
    way: TradePages,
) -> None:
    world = await World(Client(way, some(range(500, 700)), 50)).open()

    for cursor in ({"from_id": 1, "to_id": 510}, {"since_ms": 1, "until_ms": FIRST_MS + 511 * 40}):
        job = await finished(world, backfill(**cursor))
        assert job.cursor.from_id == 500
        (event,) = job.events
        assert event.what == "skipped"
        assert "begins before the listing: the first trade has the id 500" in event.detail

    assert world.stored() == [*range(500, 511)]


@every_way
@pytest.mark.parametrize(
    ("cursor", "problem"),
    [
        ({"since_ms": NOW_MS + 1}, "in the future"),
        ({"until_ms": NOW_MS + 1}, "in the future"),
        ({"from_id": 21}, "after the newest trade, 20"),
        ({"to_id": 21}, "after the newest trade, 20"),
    ],
)
async def test_the_future_is_refused(way: TradePages, cursor: dict[str, int], problem: str) -> None:
    world = await World(Client(way, some(range(1, 21)))).open()

    with pytest.raises(BadJob, match=problem):
        await world.run(backfill(**cursor))


async def test_what_does_not_exist_is_refused() -> None:
    world = await World(Client("from_id", [])).open()

    with pytest.raises(BadJob, match="has no trades of this market"):
        await world.run(backfill())
    job = made_job("trades_backfill", TradesCursor(), symbol="nix/usdt", timeframe=None)  # type: ignore[arg-type]
    with pytest.raises(UnknownSymbol):
        await world.run(job)


@by_id
async def test_a_run_that_is_to_stop_keeps_what_is_in_flight_and_continues_there(
    way: TradePages,
) -> None:
    world = await World(Client(way, some(range(1, 5001)), 100)).open()

    stopped = await world.run(backfill(from_id=1, to_id=5000), stop_at=3)
    assert not stopped.cursor.done
    asked = len(world.client.asked)
    await finished(world, stopped)

    assert world.stored() == [*range(1, 5001)]
    assert asked <= 30
    assert len(world.client.asked) <= 50 + 12


@by_id
async def test_gaps_are_closed_and_ids_that_do_not_exist_are_named(way: TradePages) -> None:
    history = some([*range(1, 2450), *range(2453, 5001)])
    world = await World(Client(way, history, 100)).open()
    for first, last in ((100, 199), (2445, 2460), (4990, 5010)):
        row = GapRow(
            exchange="binance", channel="trades", symbol="btc_usdt", by="id",
            first=first, last=last, cause="disconnected",
        )  # fmt: skip
        await world.gaps.open(row)

    job = await finished(world, backfill(from_id=1, to_id=5000))

    found = {(row.first, row.last): row.state for row in await world.gaps.find()}
    assert found == {
        (100, 199): "filled", (2445, 2449): "filled", (2450, 2452): "unfillable",
        (2453, 2460): "filled", (4990, 5000): "filled", (5001, 5010): "open",
    }  # fmt: skip
    assert [event.detail for event in job.events] == [
        "ids from 2450 to 2452: binance skipped these ids"
    ]


async def test_a_worker_whose_lease_has_ended_records_nothing() -> None:
    world = await World(Client("from_id", some(range(1, 20)), 30)).open()

    async def save(_: AnyRun) -> None: ...

    job_run = AnyRun(backfill(from_id=1, to_id=19), save)
    context = world.context(Recorder(world.log.writer("work-0")))

    await build(context)["trades_backfill"].run(job_run)

    assert job_run.lost
    assert world.stored() == []


LOCK = "product:binance:BTCUSDT"


async def test_a_market_that_another_job_fetches_is_not_touched() -> None:
    world = await World(Client("from_id", some(range(1, 20)))).open()
    locks = ProductLocks(world.store, world.clock)
    other = await locks.take(LOCK, changed(backfill(from_id=1), id="other"))

    with pytest.raises(ProductLocked, match="for job other"):
        await world.run(backfill(from_id=1, to_id=19))
    assert (world.client.asked, world.stored()) == ([], [])

    await other.release()
    await finished(world, backfill(from_id=1, to_id=19))
    assert world.stored() == [*range(1, 20)]
    assert await held_locks(world.store) == []


@every_way
async def test_a_run_that_has_lost_its_lock_records_nothing_more(way: TradePages) -> None:
    world = await World(Client(way, some(range(1, 40)))).open()
    locks = ProductLocks(world.store, world.clock)
    stored: list[int] = []

    async def spoil(_client: Client, _cursor: int) -> None:
        if world.stored() and not stored:
            stored.extend(world.stored())
            await release_lock(world.store, LOCK)
            await locks.take(LOCK, changed(backfill(from_id=1), id="other"))

    world.client.spoil = spoil
    with pytest.raises(LockLost, match="took it"):
        await world.run(backfill(from_id=1, to_id=39))

    assert stored
    assert world.stored() == stored
    (held,) = await held_locks(world.store)
    assert held.job_id == "other"


async def test_a_job_continues_although_its_killed_worker_has_not_released_the_lock() -> None:
    world = await World(Client("from_id", some(range(1, 20)))).open()
    job = backfill(from_id=1, to_id=19)
    await ProductLocks(world.store, world.clock).take(LOCK, job)

    await finished(world, job)

    assert world.stored() == [*range(1, 20)]


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"cursor": {"from_id": 5, "to_id": 4}}, "cursor"),
        ({"cursor": {"from_id": -1}}, "cursor.from_id"),
        ({"cursor": {"from_id": 1, "since_ms": 1}}, "cursor.since_ms"),
        ({"cursor": {"to_id": 1, "until_ms": 1}}, "cursor.until_ms"),
        ({"cursor": {"since_ms": 5, "until_ms": 5}}, "cursor"),
        ({"cursor": {"last_id": 5}}, "cursor.last_id"),
        ({"cursor": {"done": True}}, "cursor.done"),
        ({"timeframe": "1m"}, "timeframe"),
        ({"symbol": None}, "symbol"),
        ({"symbol": "?"}, "symbol"),
    ],
)
def test_a_range_that_cannot_be_is_rejected(fields: dict[str, Any], field: str) -> None:
    said = {"exchange_id": "binance", "type": "trades_backfill", "symbol": "btc_usdt", **fields}

    with pytest.raises(BadJob) as refusal:
        admitted(NewJob(**said), kinds(), "", 0)

    assert refusal.value.field == field
