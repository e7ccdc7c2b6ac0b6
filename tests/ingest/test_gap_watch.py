"""The gap watch, and workers that fill what it finds, against simulated exchanges."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from aiohttp import ClientSession
from hypothesis import given
from hypothesis import strategies as st
from tests.cli.conftest import invoke
from tests.ingest.simulated import Open

from penstock.clock import ManualClock
from penstock.coverage.gap_rows import GapRows
from penstock.coverage.model import GapRow
from penstock.ingest.context import HandlerContext
from penstock.ingest.gap_jobs import GAP_WATCH
from penstock.ingest.gap_watch import MOST_PAGES, PAGE, GapWatch, batches
from penstock.ingest.registry import kinds
from penstock.jobs import JobService, Leases
from penstock.jobs.model import NewJob
from penstock.market.events import Candle
from penstock.storage.log import open_log
from penstock.storage.log.keys import Stream
from penstock.storage.state import StateStore, open_store

MINUTE_MS, HOUR_MS = 60_000, 3_600_000


def gap(first: int, last: int, job_id: str = "", symbol: str = "btc_usdt", **fields: Any) -> GapRow:
    return GapRow(
        **{
            "exchange": "binance", "channel": "trades", "symbol": symbol, "by": "id",
            "first": first, "last": last, "cause": "disconnected", "job_id": job_id, **fields,
        }
    )  # fmt: skip


length = st.one_of(st.integers(1, 5), st.integers(1, 3000))
lengths = st.lists(st.tuples(length, length, st.booleans()))


@given(lengths)
def test_every_gap_without_a_job_is_fetched_in_as_few_pages(
    drawn: list[tuple[int, int, bool]],
) -> None:
    rows, at = [], 1
    for between, size, busy in drawn:
        rows.append(gap(at + between, at + between + size - 1, "live" if busy else "ended"))
        at += between + size

    found = list(batches(rows, {"live": None}))

    ids = [number for batch in found for number in range(batch.ids.first, batch.ids.last + 1)]
    assert len(ids) == len(set(ids)), "no id is fetched by two jobs"
    free = [row for row in rows if row.job_id != "live"]
    taken = set(ids)
    assert all(set(range(row.first, row.last + 1)) <= taken for row in free)
    assert not any(row.first in taken or row.last in taken for row in rows if row not in free)
    assert all(batch.ids.size <= MOST_PAGES * PAGE for batch in found)
    assert _pages(batch.ids.size for batch in found) <= _pages(row.size for row in free)


def _pages(sizes: Any) -> int:
    return sum(-(-size // PAGE) for size in sizes)


def test_neighbours_share_a_job_if_one_page_covers_both() -> None:
    rows = [gap(1, 10), gap(1000, 1000), gap(1001, 1002), gap(9000, 9000)]
    assert [batch.ids for batch in batches(rows, {})] == [(1, 1000), (1001, 1002), (9000, 9000)]
    rows = [gap(1, 2), gap(5, 6, "live"), gap(9, 9)]
    assert [batch.ids for batch in batches(rows, {"live": None})] == [(1, 2), (9, 9)]
    (batch,) = batches([gap(5, 5, since_ms=7), gap(9, 9, since_ms=8)], {})
    assert (batch.ids, batch.since_ms) == ((5, 9), 7)


class Watched:
    """A store with gaps, and watches of several workers."""

    def __init__(self, store: StateStore, clock: ManualClock) -> None:
        self.store, self.clock, self.gaps = store, clock, GapRows(store)
        self.service = JobService(store, kinds())

    def watch(self) -> GapWatch:
        context = HandlerContext(
            None, None, None, self.clock, None, self.service, self.gaps  # type: ignore[arg-type]
        )  # fmt: skip
        return GapWatch(context, 10)


@pytest.fixture
async def watched() -> AsyncIterator[Watched]:
    clock = ManualClock(HOUR_MS)
    store = await open_store("memory:", clock=clock)
    yield Watched(store, clock)
    await store.close()


async def test_a_gap_gets_one_job_however_many_look(watched: Watched) -> None:
    for row in (gap(5, 9), gap(20, 2500), gap(3, 4, symbol="eth_usdt", since_ms=77)):
        await watched.gaps.open(row)

    made = await asyncio.gather(*(watched.watch().check() for _ in range(4)))

    assert sum(made) == 2
    jobs = {job.symbol: job for job in await watched.service.find()}
    assert {(job.type, job.origin) for job in jobs.values()} == {("gap_backfill", GAP_WATCH)}
    assert jobs["BTC/USDT"].cursor.left == (5, 2500)
    assert jobs["ETH/USDT"].cursor.since_ms == 77
    attached = {(row.symbol, row.job_id) for row in await watched.gaps.find()}
    assert attached == {("btc_usdt", jobs["BTC/USDT"].id), ("eth_usdt", jobs["ETH/USDT"].id)}
    assert await watched.watch().check() == 0


async def test_a_job_of_a_worker_that_died_before_it_noted_it_is_noted(watched: Watched) -> None:
    new = NewJob(
        exchange_id="binance", type="gap_backfill", symbol="btc_usdt",
        cursor={"first_id": 7, "last_id": 9},
    )  # fmt: skip
    job = await watched.service.create(new)
    await watched.gaps.open(gap(5, 9))

    assert await watched.watch().check() == 0

    (row,) = await watched.gaps.find()
    assert row.job_id == job.id
    await watched.service.delete(job.id)
    assert await watched.watch().check() == 1


async def test_a_long_gap_gets_several_jobs(watched: Watched) -> None:
    await watched.gaps.open(gap(1, 45_000))

    assert await watched.watch().check() == 3

    ranges = sorted(job.cursor.left for job in await watched.service.find())
    assert ranges == [(1, 20_000), (20_001, 40_000), (40_001, 45_000)]
    assert len({row.job_id for row in await watched.gaps.find()}) == 3


async def test_a_job_that_failed_is_tried_again_later_each_time(watched: Watched) -> None:
    await watched.gaps.open(gap(5, 9))
    await watched.watch().check()
    leases, waits = Leases(watched.store, kinds()), []
    for _ in range(4):
        (job,) = await leases.claim("me", 1, 30_000)
        await leases.fail(job, watched.clock.now_ms(), "no such symbol", None)
        for minutes in range(1, 200):
            await watched.clock.advance(60)
            await watched.watch().check()
            if (await watched.service.get(job.id)).state == "idle":
                waits.append(minutes)
                break

    assert waits == [10, 20, 40, 80]
    (row,) = await watched.gaps.find()
    assert (row.state, row.job_id) == ("open", job.id)


async def test_a_job_that_a_user_paused_stays_paused(watched: Watched) -> None:
    await watched.gaps.open(gap(5, 9))
    await watched.watch().check()
    (job,) = await watched.service.find()
    await watched.service.pause(job.id)

    assert await watched.watch().check() == 0
    assert (await watched.service.get(job.id)).status == "paused"


async def test_gaps_that_cannot_be_requested_get_no_job(watched: Watched) -> None:
    await watched.gaps.open(gap(5, 9, channel="book_deltas", by="received_ns"))
    await watched.gaps.open(gap(5, 9, by="received_ns"))
    await watched.gaps.open(gap(5, 9, exchange="never_heard_of", by="received_ns"))

    assert await watched.watch().check() == 0
    assert await watched.service.find() == []


# Workers and simulators.


MARKETS = {"binance": "btc_usdt", "kraken": "btc_usd", "coinbase": "btc_usd"}


@pytest.mark.parametrize("name", MARKETS)
async def test_gaps_are_filled_without_anybody_asking(name: str, opened: Open) -> None:
    at = await opened(name, MARKETS[name])
    last = await at.latest_id() - 3000
    ranges = [(last - 9000, last - 9000), (last - 8990, last - 8800), (last - 5000, last - 2500)]
    for first, end in ranges:
        await at.gaps.open(gap(first, end, exchange=name, symbol=at.slug))

    await at.work(at.is_closed, workers=2)

    stored = at.stored()
    expected = [row for first, end in ranges for row in await at.truth(first, end)]
    assert [each.id for each in stored] == [number for number, _, _ in expected]
    assert all(each.source == "backfill" for each in stored)
    assert [(float(e.price), float(e.quantity)) for e in stored] == [
        (float(price), float(quantity)) for _, price, quantity in expected
    ]
    rows = await at.gaps.find()
    assert {(row.state, row.source, row.job_id) for row in rows} == {("filled", "backfill", "")}
    assert sum(row.filled_rows for row in rows) == len(expected)
    requests = (await at.ask("requests"))["requests"]
    assert {each["status"] for each in requests} == {200}


@pytest.mark.parametrize("name", MARKETS)
async def test_what_is_before_the_first_trade_is_unfillable(name: str, opened: Open) -> None:
    at = await opened(name, MARKETS[name])
    await at.gaps.open(gap(0, 3, exchange=name, symbol=at.slug))

    await at.work(at.is_closed)

    assert [each.id for each in at.stored()] == [1, 2, 3]
    assert [(row.first, row.last, row.state) for row in await at.gaps.find()] == [
        (0, 0, "unfillable"), (1, 3, "filled")
    ]  # fmt: skip


async def test_aggregated_trades_are_filled(opened: Open) -> None:
    at = await opened("binance", "btc_usdt")
    await at.gaps.open(gap(5000, 6500, channel="agg_trades"))

    await at.work(at.is_closed)

    stored = at.stored("agg_trades")
    assert [each.id for each in stored] == [*range(5000, 6501)]
    assert at.stored() == [], "an aggregate is not a trade"


async def test_candles_are_filled_and_those_that_do_not_exist_are_unfillable(
    opened: Open,
) -> None:
    at = await opened("binance", "btc_usdt")
    now_ms = (await at.ask("state"))["at_ms"]
    first_ms = now_ms // MINUTE_MS * MINUTE_MS - 30 * MINUTE_MS
    candles = {"channel": "candles_1m", "by": "open_ms", "cause": "missing"}
    await at.gaps.open(gap(first_ms, first_ms + 5 * MINUTE_MS - 1, **candles))
    await at.gaps.open(gap(0, MINUTE_MS - 1, **candles))

    await at.work(at.is_closed)

    reader = open_log(f"rocksdb:{at.settings.collect.data_dir}").reader()
    stored = [each.event for each in reader.scan(Stream("binance", "candles_1m", "btc_usdt"))]
    reader.close()
    assert [each.open_ms for each in stored if isinstance(each, Candle)] == [
        *range(first_ms, first_ms + 5 * MINUTE_MS, MINUTE_MS)
    ]
    rows = await at.gaps.find()
    assert [(row.state, row.filled_rows) for row in rows] == [("unfillable", 0), ("filled", 5)]
    assert rows[0].reason == "binance has no candles of 1m of this time"


async def test_a_gap_by_time_is_filled_where_ids_begin_with_it(opened: Open) -> None:
    at = await opened("upbit", "btc_krw")
    now_ms = (await at.ask("state"))["at_ms"]
    since_ms, until_ms = now_ms - 600_000, now_ms - 300_000
    times = {"by": "received_ns", "exchange": "upbit", "symbol": "btc_krw"}
    week_ms = 8 * 86_400_000
    for back_ms in (week_ms, 0):
        first, last = ((ms - back_ms) * 1_000_000 for ms in (since_ms, until_ms))
        await at.gaps.open(gap(first, last, **times))

    await at.work(at.is_closed, workers=2)

    stored = at.stored()
    # Trades may have been seconds late, and clocks differ.
    since_ms, until_ms = since_ms - 10_000, until_ms + 10_000
    assert all(since_ms <= each.at_ms <= until_ms for each in stored)
    span = [(await at.ask("ledger/ids", symbol=at.slug, at_ms=ms))["next_trade_id"]
            for ms in (since_ms, until_ms + 1)]  # fmt: skip
    assert len(stored) == span[1] - span[0]
    rows = await at.gaps.find()
    assert [row.state for row in rows] == ["unfillable", "filled"]
    assert rows[1].filled_rows == len(stored)
    assert rows[0].reason.startswith("upbit: ")


async def test_a_user_may_name_ids_that_are_not_consecutive(
    opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    at = await opened("upbit", "btc_krw")
    url = f"{at.address}/v1/trades/ticks"
    asked: dict[str, str | int] = {"market": "KRW-BTC", "count": 500}
    async with ClientSession() as http, http.get(url, params=asked) as answer:
        ids = sorted(row["sequential_id"] for row in await answer.json())
    monkeypatch.setenv("PENSTOCK_EXCHANGES_REST_URLS", f"upbit={at.address}")
    monkeypatch.setenv("PENSTOCK_COLLECT_DATA_DIR", at.settings.collect.data_dir)
    cursor = json.dumps({"first_id": ids[0], "last_id": ids[-1]})
    words = ("jobs", "add", "upbit", "gap_backfill", "btc_krw", "--cursor", cursor)

    made = await asyncio.to_thread(invoke, *words, "--json")
    assert made.returncode == 0, made.stderr
    job_id = json.loads(made.stdout)["id"]
    twin = await asyncio.to_thread(invoke, *words)
    assert (twin.returncode, job_id in twin.stderr) == (2, True)
    service = JobService(at.store, kinds())

    async def is_done() -> bool:
        return (await service.get(job_id)).state == "success"

    await at.work(is_done)

    assert [each.id for each in at.stored()] == ids
    assert (await service.get(job_id)).cursor.done


async def test_trades_of_an_unknown_market_or_channel_are_rejected(
    opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    at = await opened("binance", "btc_usdt")
    monkeypatch.setenv("PENSTOCK_EXCHANGES_REST_URLS", f"binance={at.address}")
    monkeypatch.setenv("PENSTOCK_COLLECT_DATA_DIR", at.settings.collect.data_dir)
    for market, cursor, problem in (
        ("btc_usdx", {"first_id": 1, "last_id": 2}, "btc_usdx"),
        ("btc_usdt", {"first_id": 1, "last_id": 2, "channel": "tickers"}, "cursor.channel"),
        ("btc_usdt", {"first_id": 2, "last_id": 1}, "first_id 2 is after last_id 1"),
        ("btc_usdt", {"first_id": 2}, "last_id"),
    ):
        words = ("jobs", "add", "binance", "gap_backfill", market, "--cursor", json.dumps(cursor))
        refused = await asyncio.to_thread(invoke, *words)
        assert refused.returncode == 2
        assert problem in refused.stderr
    assert await JobService(at.store, kinds()).find() == []
