"""The gaps of the ledger as pages, and one of them filled, on every store."""

import asyncio
from typing import Any

import pytest

from penstock.coverage.gap_rows import GapRows
from penstock.coverage.model import GapRow
from penstock.errors import GapNotFillable, UnknownGap
from penstock.ingest.gap_fill import fill_gap, why_not
from penstock.ingest.gap_jobs import GAP_WATCH
from penstock.ingest.gap_watch import MOST_PAGES, PAGE, GapBatch, new_job
from penstock.ingest.id_ranges import IdRange
from penstock.ingest.registry import kinds
from penstock.jobs import JobService
from penstock.monitor.gaps import GapFilter, GapView, find_gap, is_token, read_gaps
from penstock.monitor.monitor import FleetMonitor, open_gap_counts
from penstock.monitor.series import SeriesFilter
from penstock.storage.state import StateStore, open_store


def gap(first: int, last: int, **fields: Any) -> GapRow:
    return GapRow(
        **{
            "exchange": "binance", "channel": "trades", "symbol": "btc_usdt", "by": "id",
            "first": first, "last": last, "cause": "disconnected", **fields,
        }
    )  # fmt: skip


async def every(store: StateStore, wanted: GapFilter, limit: int) -> list[GapView]:
    """All gaps, page by page."""
    found: list[GapView] = []
    after = None
    while True:
        page = await read_gaps(store, wanted, limit, after)
        assert len(page.items) >= min(1, len(found))
        found += page.items
        after = page.more
        if after is None:
            return found
        assert is_token(after)


async def test_pages_have_every_gap_once_in_order(store: StateStore) -> None:
    rows = GapRows(store)
    for symbol in ("btc_usdt", "eth_usdt"):
        for first in (5, 10, 100, 900, 1_000):
            await rows.open(gap(first, first + 1, symbol=symbol))
    await rows.open(gap(7, 8, exchange="kraken", by="received_ns"))
    places = [
        (each.exchange, each.symbol, each.first) for each in await every(store, GapFilter(), 3)
    ]
    assert places == [
        *(("binance", symbol, first) for symbol in ("BTC/USDT", "ETH/USDT")
          for first in (5, 10, 100, 900, 1_000)),
        ("kraken", "BTC/USDT", 7),
    ]  # fmt: skip
    only = GapFilter(SeriesFilter("binance", "trades", "eth_usdt"), "open")
    assert {each.symbol for each in await every(store, only, 2)} == {"ETH/USDT"}
    assert await open_gap_counts(store) == {"binance": 10, "kraken": 1}


async def test_a_gap_that_is_partly_filled_is_shown_as_its_parts(store: StateStore) -> None:
    rows = GapRows(store)
    await rows.open(gap(1, 100))
    stream = gap(1, 100).stream
    await rows.mark_filled(stream, "id", 40, 60)
    await rows.mark_unfillable(stream, "id", 90, 95, "too old")

    shown = await every(store, GapFilter(), 1)
    parts = {(each.first, each.last): each for each in shown}
    assert {place: each.state for place, each in parts.items()} == {
        (1, 39): "open", (40, 60): "filled", (61, 89): "open", (90, 95): "unfillable",
        (96, 100): "open",
    }  # fmt: skip
    assert [each.first for each in await every(store, GapFilter(state="open"), 10)] == [1, 61, 96]
    assert len({each.id for each in shown}) == 5
    for place, each in parts.items():
        found = await find_gap(store, each.id)
        assert (found.first, found.last, found.state) == (*place, each.state)
    assert parts[1, 39].fillable
    assert (parts[40, 60].fillable, parts[40, 60].why_not) == (False, "it is filled")
    assert "too old" in parts[90, 95].why_not
    for wrong in ("nothing", parts[1, 39].id + "@500", parts[1, 39].id + "@", "@"):
        with pytest.raises(UnknownGap):
            await find_gap(store, wrong)


async def test_gaps_are_found_by_their_time(store: StateStore) -> None:
    rows = GapRows(store)
    for number in range(5):
        at_ms = number * 1_000
        times = {"since_ms": at_ms, "until_ms": at_ms + 500}
        await rows.open(gap(number * 100, number * 100 + 9, **times))
        await rows.open(gap(at_ms, at_ms + 499, channel="candles_1m", by="open_ms", **times))
        await rows.open(
            gap(
                at_ms * 10**6, (at_ms + 500) * 10**6 - 1, channel="books", by="received_ns", **times
            )
        )
    shown = await every(store, GapFilter(from_ms=1_600, until_ms=3_000), 2)
    assert [(each.by, each.since_ms) for each in shown] == [
        ("received_ns", 2_000), ("open_ms", 2_000), ("id", 2_000)
    ]  # fmt: skip
    assert len(await every(store, GapFilter(from_ms=3_500), 2)) == 3 + 1
    assert len(await every(store, GapFilter(until_ms=1), 2)) == 3


@pytest.mark.parametrize(
    ("row", "word"),
    [
        (gap(1, 2, state="unfillable", reason="too old"), "too old"),
        (gap(1, 2, state="filled"), "filled"),
        (gap(1, 2, exchange="nowhere"), "nowhere"),
        (gap(1, 2, channel="book_deltas", by="received_ns"), "cannot be requested"),
        (gap(1, 2, channel="candles_7x", by="open_ms"), "cannot be requested"),
        (gap(1, 2, symbol="§"), "cannot be requested"),
    ],
)
async def test_a_gap_that_no_job_can_fill_says_why(row: GapRow, word: str) -> None:
    assert word in why_not(row)
    store = await open_store("memory:")
    with pytest.raises(GapNotFillable, match="Nothing was changed"):
        await fill_gap(JobService(store, kinds()), GapRows(store), row)
    assert await JobService(store, kinds()).find() == []


async def test_a_gap_gets_the_job_that_the_gap_watch_would_make(store: StateStore) -> None:
    rows, jobs = GapRows(store), JobService(store, kinds())
    for first, last in ((100, 199), (300, 399), (90_000, 90_099)):
        await rows.open(gap(first, last))
    [near, second, far] = await rows.find()

    made = await fill_gap(jobs, rows, second)
    assert (made.is_new, made.job.origin, made.job.type) == (True, GAP_WATCH, "gap_backfill")
    # One page covers both.
    assert (made.job.cursor.first_id, made.job.cursor.last_id) == (100, 399)
    assert [row.job_id for row in await rows.find()] == [made.job.id, made.job.id, ""]

    again = await fill_gap(jobs, rows, await find_gap(store, near.id))
    assert (again.is_new, again.job.id, again.job.state) == (False, made.job.id, "queued")
    # Also for one who read the gap before the job was noted there.
    again = await fill_gap(jobs, rows, second)
    assert (again.is_new, again.job.id) == (False, made.job.id)
    await jobs.pause(made.job.id)
    again = await fill_gap(jobs, rows, await find_gap(store, near.id))
    assert (again.job.id, again.job.status) == (made.job.id, "active")
    assert (await fill_gap(jobs, rows, far)).is_new
    assert len(await jobs.find()) == 2


async def test_two_clients_at_once_get_one_job() -> None:
    store = await open_store("memory:")
    rows, jobs = GapRows(store), JobService(store, kinds())
    await rows.open(gap(100, 199))
    [row] = await rows.find()
    both = await asyncio.gather(*(fill_gap(jobs, rows, row) for _ in range(5)))
    assert sum(each.is_new for each in both) == 1
    assert len({each.job.id for each in both}) == len(await jobs.find()) == 1


async def test_a_job_that_was_not_noted_at_its_gap_is_found_again() -> None:
    store = await open_store("memory:")
    rows, jobs = GapRows(store), JobService(store, kinds())
    await rows.open(gap(100, 199))
    [row] = await rows.find()
    # Killed between the two writes.
    new = new_job(GapBatch(row.stream, row.by, IdRange(row.first, row.last)))
    assert new is not None
    job = await jobs.create(new, GAP_WATCH)

    found = await fill_gap(jobs, rows, row)
    assert (found.is_new, found.job.id, found.job.state) == (False, job.id, "queued")
    assert [each.job_id for each in await rows.find()] == [job.id]


async def test_a_long_gap_gets_several_jobs_and_a_closed_one_none() -> None:
    store = await open_store("memory:")
    rows, jobs = GapRows(store), JobService(store, kinds())
    await rows.open(gap(1, 3 * MOST_PAGES * PAGE))
    [row] = await rows.find()
    assert (await fill_gap(jobs, rows, row)).job.cursor.first_id == 1
    assert len(await jobs.find()) == 3

    await rows.open(gap(10**9, 10**9))
    closed = (await rows.find())[-1]
    await rows.mark_filled(closed.stream, closed.by, closed.first, closed.last)
    with pytest.raises(GapNotFillable, match="closed meanwhile"):
        await fill_gap(jobs, rows, closed)


async def test_counts_say_when_they_changed(store: StateStore) -> None:
    monitor, rows = FleetMonitor(), GapRows(store)
    empty = await monitor.gap_counts(store)
    assert (empty.gaps_open, empty.gaps_filled) == (0, 0)
    assert await monitor.gap_counts(store) == empty
    await rows.open(gap(1, 9))
    changed = await monitor.gap_counts(store)
    assert changed.gaps_open == 1
    assert changed.changed_ms >= empty.changed_ms
    assert await monitor.gap_counts(store) == changed
    await rows.mark_filled(gap(1, 9).stream, "id", 1, 9)
    filled = await monitor.gap_counts(store)
    assert (filled.gaps_open, filled.gaps_filled, filled.gaps_unfillable) == (0, 1, 0)
