"""The walk through the trades of a range of ids, on exchanges that page in each of three ways."""

import asyncio
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.jobs_made import made_job

from penstock.clock import ManualClock
from penstock.coverage.gap_rows import GapRows
from penstock.coverage.model import GapRow
from penstock.errors import BadJob, BadRequest, UnexpectedAnswer
from penstock.exchanges import registry as exchanges
from penstock.exchanges.base import Request, TradePage, TradePages
from penstock.exchanges.symbol_map import SymbolMap
from penstock.ingest.context import HandlerContext
from penstock.ingest.gap_jobs import GAP_WATCH
from penstock.ingest.id_ranges import IdRangeCursor
from penstock.ingest.registry import build, kinds
from penstock.jobs.model import Job, JobEdit, NewJob
from penstock.jobs.run import AnyRun
from penstock.jobs.service import JobService
from penstock.jobs.validation import admitted
from penstock.market.events import Trade
from penstock.market.symbol import Symbol
from penstock.recorder import Recorder
from penstock.storage.log import open_log
from penstock.storage.log.keys import Stream, id_of_key
from penstock.storage.state import open_store

BTC = Symbol.parse("btc_usdt")
STREAM = Stream("binance", "trades", "btc_usdt")
NOW_MS = 1_700_000_000_000
MS_NS = 1_000_000
WAYS: tuple[TradePages, ...] = ("from_id", "after_ns", "before_id")
every_way = pytest.mark.parametrize("way", WAYS)


class Killed(Exception):
    """The process ends here."""


def trade(number: int, at_ms: int) -> Trade:
    return Trade(
        exchange="binance",
        symbol=BTC,
        received_at_ns=NOW_MS * MS_NS,
        source="backfill",
        id=number,
        at_ns=at_ms * MS_NS + 456_789,
        price_text="1",
        quantity_text="2",
        taker="buy",
    )


def some(ids: Iterable[int], every_ms: int = 400) -> list[Trade]:
    """Trades at intervals; those of an interval below 1 ms share a millisecond."""
    return [trade(number, NOW_MS - 10_000_000 + number * every_ms // 10) for number in ids]


@dataclass
class Client:
    """An exchange with some trades, in pages."""

    way: TradePages
    history: list[Trade]
    page: int = 3
    late: int = 0
    """Requests that are answered as if there were no trades yet."""
    refusal: BadRequest | None = None
    asked: list[int] = field(default_factory=list)
    gate: Any = None

    def __post_init__(self) -> None:
        rest: Any = Rest(self)
        self.exchange = replace(
            exchanges.load("binance"), trade_pages=self.way, rest=lambda _symbols: rest
        )

    async def of(self, _exchange_id: str) -> "Client":
        return self

    async def fetch(self, request: Request[TradePage]) -> TradePage:
        self.asked.append(int(request.path))
        assert len(self.asked) < 500, "it never ends"
        if self.refusal is not None:
            raise self.refusal
        return request.read(b"", 0)

    def answer(self, cursor: int) -> TradePage:
        history = [] if len(self.asked) <= self.late else self.history
        if self.way == "before_id":
            end = bisect_left(history, cursor, key=lambda each: each.id)
            found = history[max(0, end - self.page) : end]
            return TradePage(found, found[0].id if found else cursor)
        if self.way == "from_id":
            start = bisect_left(history, cursor, key=lambda each: each.id)
        else:
            start = bisect_right(history, cursor, key=lambda each: each.at_ns)
        found = history[start : start + self.page]
        if not found:
            return TradePage([], cursor)
        return TradePage(found, found[-1].id + 1 if self.way == "from_id" else found[-1].at_ns)


@dataclass
class Rest:
    client: Client

    def trades(self, _symbol: Symbol, cursor: int) -> Request[TradePage]:
        return Request(str(cursor), 1, lambda _body, _at: self.client.answer(cursor))


class Maps:
    async def of(self, exchange_id: str) -> SymbolMap:
        return SymbolMap(exchange_id, [("BTCUSDT", BTC)])


class Kill(NamedTuple):
    """After so many calls of one kind, the process ends before or after one."""

    what: str
    after: int
    done: bool


class Ran(NamedTuple):
    """The job as it was last saved, and how the run ended."""

    job: Job
    done: bool
    error: str = ""


class World:
    """One client, one log, the gaps, and workers that may be killed."""

    def __init__(self, client: Client, held: Iterable[int] = ()) -> None:
        self.client, self.clock = client, ManualClock(NOW_MS)
        self.log = open_log("memory:")
        self.published: Counter[int] = Counter()
        self.workers = 0
        times = {each.id: each for each in client.history}
        live = [times.get(number) or trade(number, NOW_MS) for number in sorted(set(held))]
        self.log.writer("collect-binance").append(live)

    async def open(self) -> None:
        self.store = await open_store("memory:", clock=self.clock)
        self.gaps = GapRows(self.store)

    async def missing(self, first: int, last: int) -> None:
        """Report a gap."""
        await self.gaps.open(
            GapRow(
                exchange="binance", channel="trades", symbol="btc_usdt", by="id",
                first=first, last=last, cause="disconnected",
            )
        )  # fmt: skip

    async def run(self, job: Job, kill: Kill | None = None, stop_at: int = 999) -> "Ran":
        """Run a job by a new worker."""
        writer = self.log.writer(f"work-{self.workers}")
        self.workers += 1
        recorder = Recorder(writer, taps=[self._count])
        saved, pages = [job], 0

        async def save(job_run: AnyRun) -> None:
            nonlocal pages
            pages += 1
            saved.append(job_run.job)
            if pages >= stop_at:
                job_run.stop("enough")

        context = HandlerContext(
            self.client, Maps(), recorder, self.clock, self.log.reader(),  # type: ignore[arg-type]
            JobService(self.store, kinds()), GapRows(self.store),
        )  # fmt: skip
        job_run = AnyRun(job, save)
        if kill is not None:
            owners = {"record": recorder, "sync": recorder, "_save": job_run}
            _kill_at(owners.get(kill.what, context.gaps), kill)
        job_run.good_until_ns = 1 << 62
        try:
            done = await build(context)["gap_backfill"].run(job_run)
        except (Killed, UnexpectedAnswer) as error:
            return Ran(saved[-1], False, str(error))
        return Ran(job_run.job, done)

    def _count(self, stored: Any) -> None:
        self.published.update(each.event.id for each in stored)

    def stored(self) -> list[int]:
        return [id_of_key(each.key) or 0 for each in self.log.reader().scan(STREAM)]

    async def states(self) -> dict[int, str]:
        """The state of every id that was missing."""
        return {
            number: row.state
            for row in await self.gaps.find()
            for number in range(row.first, row.last + 1)
        }


def _kill_at(owner: Any, kill: Kill) -> None:
    original, calls = getattr(owner, kill.what), 0

    async def call(*args: Any, **kwargs: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls <= kill.after:
            return await original(*args, **kwargs)
        if kill.done:
            await original(*args, **kwargs)
        raise Killed

    setattr(owner, kill.what, call)


def gap_job(first: int, last: int, origin: str = GAP_WATCH, **cursor: Any) -> Job:
    said = IdRangeCursor(first_id=first, last_id=last, **cursor)
    return made_job("gap_backfill", said, timeframe=None, origin=origin)  # type: ignore[arg-type]


async def finished(world: World, job: Job, kills: Iterable[Kill] = ()) -> Job:
    """Run a job to its end, by workers that are killed."""
    waiting = list(kills)
    for _ in range(100):
        job, done, _ = await world.run(job, waiting.pop() if waiting else None)
        if done:
            return job
    raise AssertionError("it never ends")


kills = st.lists(
    st.builds(
        Kill,
        st.sampled_from(["record", "sync", "mark_filled", "mark_unfillable", "_save"]),
        st.integers(0, 3),
        st.booleans(),
    ),
    max_size=4,
)


class Case(NamedTuple):
    """What an exchange has, what a collector has, and what happens."""

    way: TradePages
    exist: set[int]
    held: set[int]
    ends: list[int]
    page: int
    every_ms: int
    origin: str
    kills: list[Kill]


cases = st.builds(
    Case,
    way=st.sampled_from(WAYS),
    exist=st.sets(st.integers(1, 40)),
    held=st.sets(st.integers(1, 40)),
    ends=st.tuples(st.integers(1, 40), st.integers(1, 40)).map(sorted),
    page=st.integers(1, 7),
    every_ms=st.sampled_from([3, 10, 400, 100_000]),
    origin=st.sampled_from([GAP_WATCH, ""]),
    kills=kills,
)


killed_at_the_end = [Kill("mark_unfillable", 0, done=False), Kill("record", 0, done=False)]


@given(case=cases)
@example(case=Case("from_id", set(), {2}, [1, 1], 1, 3, GAP_WATCH, killed_at_the_end))
def test_what_exists_and_was_missing_is_recorded_once(case: Case) -> None:
    """Whatever the exchange skipped, the collector has, and wherever workers are killed."""
    way, exist, held, (first, last), page, every_ms, origin, kills = case
    exist |= held
    # As many trades in one millisecond as a page has cannot be paged through by time.
    if way == "after_ns":
        page = max(page, 5)

    async def go() -> None:
        world = World(Client(way, some(sorted(exist), every_ms), page), held)
        await world.open()
        for number in set(range(first, last + 1)) - held:
            await world.missing(number, number)

        job = await finished(world, gap_job(first, last, origin), kills)

        wanted = {number for number in exist if first <= number <= last}
        assert world.stored() == sorted(held | wanted)
        assert world.published == Counter(wanted - held), "each missing trade once"
        for number, state in (await world.states()).items():
            assert state == ("filled" if number in wanted else "unfillable"), number
        assert not any(row.job_id for row in await world.gaps.find())
        rows = sum(row.filled_rows for row in await world.gaps.find())
        assert rows == len(wanted - held)
        assert job.cursor.left.size == 0 or origin == GAP_WATCH

    asyncio.run(go())


@every_way
@pytest.mark.parametrize("size", [1, 3, 4, 100])
async def test_a_gap_takes_as_few_pages_as_it_has(way: TradePages, size: int) -> None:
    world = World(Client(way, some(range(1, 1001)), 10), held=[499])
    await world.open()
    await world.missing(500, 499 + size)

    job = await finished(world, gap_job(500, 499 + size))

    assert world.stored() == [*range(499, 500 + size)]
    # By time, a page also has the trade before.
    assert len(world.client.asked) <= -(-size // (8 if way == "after_ns" else 10))
    assert job.progress.rows == size


@every_way
async def test_the_start_of_history_is_found_without_any_stored_trade(way: TradePages) -> None:
    world = World(Client(way, some(range(5, 2000)), 10))
    await world.open()
    await world.missing(1, 7)

    await finished(world, gap_job(1, 7))

    assert world.stored() == [5, 6, 7]
    assert await world.states() == {
        **dict.fromkeys(range(1, 5), "unfillable"), **dict.fromkeys((5, 6, 7), "filled")
    }  # fmt: skip
    assert len(world.client.asked) < 40


@pytest.mark.parametrize("since_ms", [None, 0, NOW_MS - 20_000_000, NOW_MS - 1000])
async def test_the_time_of_an_id_is_searched_for_if_it_is_not_known(since_ms: int | None) -> None:
    world = World(Client("after_ns", some(range(1, 100_000)), 10))
    await world.open()
    await world.missing(54_321, 54_330)

    await finished(world, gap_job(54_321, 54_330, since_ms=since_ms))

    assert world.stored() == [*range(54_321, 54_331)]
    assert len(world.client.asked) < 45


async def test_the_nearest_time_that_is_known_is_used() -> None:
    world = World(Client("after_ns", some(range(1, 1001)), 10), held=[3])
    await world.open()
    await world.missing(500, 503)

    since_ms = world.client.history[498].at_ms
    await finished(world, gap_job(500, 503, since_ms=since_ms))

    assert world.stored() == [3, *range(500, 504)]
    assert len(world.client.asked) == 1


@every_way
async def test_ids_that_a_page_lacks_are_requested_again_before_they_count_as_skipped(
    way: TradePages,
) -> None:
    history = some(range(1, 20))
    late = history.pop(9)
    world = World(Client(way, history, 5), held=[8])
    await world.open()
    await world.missing(9, 12)

    first = await world.run(gap_job(9, 12))
    assert "binance has no trades with ids from 10 to 10" in first.error
    history.insert(9, late)
    second = await world.run(first.job)

    assert second.done
    assert set((await world.states()).values()) == {"filled"}
    assert world.published == Counter(range(9, 13))


@every_way
async def test_an_exchange_that_is_behind_its_stream_is_asked_again(way: TradePages) -> None:
    world = World(Client(way, some(range(1, 20)), 30, late=4), held=[8])
    await world.open()
    await world.missing(9, 12)

    await finished(world, gap_job(9, 12))

    assert set((await world.states()).values()) == {"filled"}


async def test_trades_beyond_the_end_end_with_a_reason() -> None:
    world = World(Client("from_id", some(range(1, 20))))
    await world.open()
    await world.missing(18, 30)

    job = await finished(world, gap_job(18, 30))

    rows = await world.gaps.find()
    assert [(row.first, row.last, row.state) for row in rows] == [
        (18, 19, "filled"), (20, 30, "unfillable")
    ]  # fmt: skip
    assert rows[1].reason == "binance: it has no trades from id 20 on"
    assert [event.detail for event in job.events if event.what == "skipped"] == [
        "ids from 20 to 30: binance: it has no trades from id 20 on"
    ]
    assert len(world.client.asked) < 20


@every_way
async def test_a_refusal_makes_the_rest_unfillable_in_the_words_of_the_exchange(
    way: TradePages,
) -> None:
    refusal = BadRequest("x", status=400, code=-1121, message="Invalid symbol.")
    world = World(Client(way, [], refusal=refusal), held=[4])
    await world.open()
    await world.missing(5, 9)

    await finished(world, gap_job(5, 9))

    (row,) = await world.gaps.find()
    assert (row.state, row.origin) == ("unfillable", "exchange")
    assert row.reason == "binance: Invalid symbol."
    assert len(world.client.asked) == 2


async def test_a_refusal_of_the_client_says_nothing_about_the_trades() -> None:
    refusal = BadRequest("x", status=403, code=0, message="Forbidden")
    world = World(Client("from_id", [], refusal=refusal))
    await world.open()
    await world.missing(5, 9)

    with pytest.raises(BadRequest):
        await world.run(gap_job(5, 9))

    assert set((await world.states()).values()) == {"open"}


async def test_a_client_may_fill_what_was_unfillable() -> None:
    world = World(Client("from_id", some(range(1, 20))))
    await world.open()
    await world.missing(5, 9)
    await world.gaps.mark_unfillable(STREAM, "id", 5, 9, "maintenance")

    await finished(world, gap_job(5, 9, origin=""))

    assert set((await world.states()).values()) == {"filled"}


async def test_a_job_whose_gaps_are_closed_requests_nothing() -> None:
    world = World(Client("from_id", some(range(1, 20))))
    await world.open()
    await world.missing(5, 9)
    await world.gaps.mark_filled(STREAM, "id", 5, 9)

    assert (await world.run(gap_job(5, 9))).done
    assert world.client.asked == []


async def test_what_another_machine_holds_between_gaps_is_left_out() -> None:
    world = World(Client("from_id", some(range(1, 20)), 30))
    await world.open()
    await world.missing(5, 6)
    await world.missing(9, 9)

    await finished(world, gap_job(5, 9))

    assert world.stored() == [5, 6, 9]


async def test_a_worker_whose_lease_has_ended_records_nothing() -> None:
    world = World(Client("from_id", some(range(1, 20)), 30))
    await world.open()
    await world.missing(5, 6)

    async def save(_: AnyRun) -> None: ...

    job_run = AnyRun(gap_job(5, 6), save)
    context = HandlerContext(
        world.client, Maps(), Recorder(world.log.writer("work-0")), world.clock,  # type: ignore[arg-type]
        world.log.reader(), JobService(world.store, kinds()), world.gaps,
    )  # fmt: skip

    assert not await build(context)["gap_backfill"].run(job_run)
    assert job_run.lost
    assert world.stored() == []


async def test_a_run_that_is_to_stop_stops_after_its_page_and_continues_there() -> None:
    world = World(Client("before_id", some(range(1, 40)), 5), held=[9])
    await world.open()
    await world.missing(10, 21)

    stopped = await world.run(gap_job(10, 21), stop_at=1)
    assert (stopped.done, stopped.job.cursor.left) == (False, (10, 16))
    await finished(world, stopped.job)

    assert world.client.asked == [22, 17, 12]
    assert world.stored() == [*range(9, 22)]


async def test_a_page_that_is_not_in_order_is_rejected() -> None:
    history = some([1, 2, 5, 4, 6])
    world = World(Client("from_id", history, 9))
    await world.open()

    assert "not in order" in (await world.run(gap_job(1, 6, origin=""))).error
    assert world.stored() == []


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"cursor": {"first_id": 5, "last_id": 4}}, "cursor"),
        ({"cursor": {"first_id": -1, "last_id": 4}}, "cursor.first_id"),
        ({"cursor": {"first_id": 1, "last_id": 2**63}}, "cursor.last_id"),
        ({"cursor": {"first_id": 1}}, "cursor"),
        ({"cursor": {"first_id": 1, "last_id": 2, "channel": "tades"}}, "cursor.channel"),
        ({"cursor": {"first_id": 1, "last_id": 2, "channel": "book_deltas"}}, "cursor.channel"),
        ({"cursor": {"first_id": 1, "last_id": 2, "done": True}}, "cursor.done"),
        ({"cursor": {"first_id": 1, "last_id": 2, "until_ms": 2}}, "first_id"),
        ({"cursor": {"first_id": 1, "last_id": 2}, "timeframe": "1m"}, "timeframe"),
        ({"cursor": {"first_id": 1, "last_id": 2}, "symbol": None}, "symbol"),
        ({"cursor": {"first_id": 1, "last_id": 2}, "symbol": "?"}, "symbol"),
    ],
)
def test_a_range_that_cannot_be_is_rejected(fields: dict[str, Any], field: str) -> None:
    said = {"exchange_id": "binance", "type": "gap_backfill", "symbol": "btc_usdt", **fields}

    with pytest.raises(BadJob) as refusal:
        admitted(NewJob(**said), kinds(), "", 0)

    assert refusal.value.field == field


@pytest.mark.parametrize("name", ["coinbase", "kraken", "upbit"])
async def test_a_channel_that_an_exchange_lacks_is_rejected_when_the_job_is_created(
    name: str,
) -> None:
    service = JobService(await open_store("memory:", clock=ManualClock(NOW_MS)), kinds())
    said: dict[str, Any] = {"exchange_id": name, "type": "gap_backfill", "symbol": "btc_usdt"}
    ids = {"first_id": 1, "last_id": 2}
    made = await service.create(NewJob(**said, cursor=ids))
    lacking = {**ids, "channel": "agg_trades"}

    with pytest.raises(BadJob, match=f"{name} has no agg_trades"):
        await service.create(NewJob(**said, cursor=lacking))
    with pytest.raises(BadJob, match=f"{name} has no agg_trades"):
        await service.edit(made.id, JobEdit(cursor=lacking), version=None)

    assert await service.find() == [made], "nothing was stored"


async def test_a_channel_that_the_exchange_does_not_have_is_rejected() -> None:
    world = World(Client("from_id", []))
    world.client.exchange = replace(world.client.exchange, agg_trades=None)
    await world.open()

    with pytest.raises(BadJob, match="binance has no agg_trades"):
        await world.run(gap_job(1, 2, channel="agg_trades"))


async def test_ids_without_an_order_cannot_be_requested_by_time() -> None:
    world = World(Client("after_ns", []))
    world.client.exchange = replace(world.client.exchange, consecutive=frozenset())
    await world.open()

    with pytest.raises(BadJob, match="cannot be asked for ids"):
        await world.run(gap_job(1, 2))
