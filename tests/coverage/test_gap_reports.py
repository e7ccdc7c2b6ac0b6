"""Gaps that a collector reports: after a grace, with their cause; late events are kept out."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import closing
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests import events

from penstock.clock import ManualClock
from penstock.coverage.batches import by_stream
from penstock.coverage.continuity import Continuity
from penstock.coverage.facts import CoverageNotStored, LateDropped
from penstock.coverage.gap_reports import GRACE_NS, GapReports, ReportingSlot
from penstock.coverage.gap_rows import GapRows
from penstock.coverage.ledger import intervals
from penstock.coverage.projection import Projection
from penstock.coverage.writing import CoverageWriter, read_coverage
from penstock.errors import StoreUnreachable
from penstock.market.events import Cause, Disconnect, Event
from penstock.market.symbol import Symbol
from penstock.storage.log import EventLog, open_log
from penstock.storage.log.keys import Stream
from penstock.storage.state import StateStore, open_store
from penstock.telemetry import Fact, quiet

BTC = Symbol("BTC", "USDT")
TRADES = Stream("toy", "trades", "btc_usdt")


@pytest.fixture
async def store() -> AsyncIterator[StateStore]:
    store = await open_store("memory:")
    yield store
    await store.close()


def trade(number: int) -> Event:
    return events.trade(number, BTC, "toy", received_at_ns=number + 1)


def cut(at_ns: int, reason: str = "cut off", cause: Cause = "disconnected") -> Disconnect:
    return Disconnect(
        exchange="toy", symbol=BTC, received_at_ns=at_ns, channels=("trades",), reason=reason,
        cause=cause,
    )  # fmt: skip


class Process:
    """A collector without sockets: what a recording process does with its events."""

    def __init__(self, log: EventLog, store: StateStore | None) -> None:
        self.clock, self.facts = ManualClock(1_700_000_000_000), list[Fact]()
        self.log = log
        self.writer = log.writer("collect-toy")
        self.continuity = Continuity(["trades"], quiet)
        with closing(log.reader()) as reader:
            self.continuity.resume("toy", (), reader)
        projection = Projection(7, "collect-toy", lambda _: {"trades"}, is_streamed=True)
        slot = ReportingSlot("collect-toy", 7)
        self.reports = GapReports(self.continuity, slot, self.clock, self.facts.append)
        projection.found = self.reports.find
        self.coverage = CoverageWriter(
            projection, self.reports, log, self.writer.last_numbers, self.clock, self.facts.append
        )
        self.coverage.store = store
        self.syncs = 0
        self.coverage.sync = self.sync
        self.reports.resume()

    async def sync(self) -> None:
        self.syncs += 1

    def receive(self, *some: Event) -> None:
        stored = self.writer.append(self.reports.admitted(some))
        batches = by_stream(stored)
        self.continuity.take(batches)
        self.coverage.projection.take(batches)

    async def later(self, ns: int = GRACE_NS) -> None:
        await self.clock.advance(ns / 1e9)
        self.reports.confirm()
        await self.coverage.write()

    def killed(self) -> "Process":
        self.writer.close()
        return Process(self.log, self.coverage.store)


async def gaps(store: StateStore) -> list[tuple[int, int, str, str]]:
    return [(row.first, row.last, row.cause, row.origin) for row in await GapRows(store).find()]


async def test_a_gap_opens_after_the_grace(store: StateStore) -> None:
    mine = Process(open_log("memory:"), store)
    mine.receive(trade(1), trade(5), trade(3))

    await mine.later(GRACE_NS - 1_000_000)
    assert await gaps(store) == []
    await mine.later(1_000_000)

    assert await gaps(store) == [(2, 2, "lost", "unknown"), (4, 4, "lost", "unknown")]
    [row, _] = await GapRows(store).find()
    assert (row.slot, row.log_id, row.opened_ms) == ("collect-toy", 7, mine.clock.now_ms())
    assert (row.since_ms, row.until_ms) == (
        events.trade(1).at_ms, events.trade(5).at_ms,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("reason", "cause", "origin"),
    [
        ("cut off", "disconnected", "unknown"),
        ("closed by the exchange (1001)", "disconnected", "exchange"),
        ("stopped", "stopped", "ours"),
        ("not running: ended without stopping", "not_running", "ours"),
    ],
)
async def test_a_gap_has_the_cause_of_the_marker_before_it(
    store: StateStore, reason: str, cause: Cause, origin: str
) -> None:
    mine = Process(open_log("memory:"), store)
    mine.receive(trade(1), trade(2))
    mine.receive(cut(4, reason, cause))
    mine.receive(trade(9))
    await mine.later()

    assert await gaps(store) == [(3, 8, cause, origin)]
    assert (await GapRows(store).find())[0].reason == reason


async def test_a_marker_in_the_batch_of_the_next_record_counts_too(store: StateStore) -> None:
    mine = Process(open_log("memory:"), store)
    mine.receive(trade(1), trade(3), cut(5), trade(9))
    await mine.later()

    assert [row[:3] for row in await gaps(store)] == [(2, 2, "lost"), (4, 8, "disconnected")]


async def test_late_events_are_dropped_once_the_gap_is_open(store: StateStore) -> None:
    mine = Process(open_log("memory:"), store)
    mine.receive(trade(1), trade(5))
    mine.receive(trade(2))
    await mine.later()
    mine.receive(trade(3), trade(6))

    assert mine.continuity.status()[0].seen == [(1, 2), (5, 6)]
    assert mine.reports.late == {TRADES: 1}
    assert mine.facts == [LateDropped(exchange="toy", channel="trades", symbol="btc_usdt", count=1)]
    assert [row[:2] for row in await gaps(store)] == [(3, 4)]


async def test_what_was_missing_is_reported_after_a_kill_and_kept_out(store: StateStore) -> None:
    first = Process(open_log("memory:"), store)
    first.receive(trade(1), trade(2))
    first.receive(cut(4, "closed by the exchange (1001)"))
    first.receive(trade(9))

    second = first.killed()
    second.receive(trade(4), trade(10))
    await second.coverage.write()

    assert await gaps(store) == [(3, 8, "disconnected", "exchange")]
    assert second.reports.late == {TRADES: 1}
    # And it is not reported again once it is filled, though its records are in another log.
    await GapRows(store).mark_filled(TRADES, "id", 3, 8)
    third = second.killed()
    await third.coverage.write()
    assert [row.state for row in await GapRows(store).find()] == ["filled"]


async def test_what_a_job_has_filled_is_not_missing_any_more(store: StateStore) -> None:
    mine = Process(open_log("memory:"), store)
    mine.receive(trade(1), trade(5), trade(9))
    await mine.later()
    await GapRows(store).mark_filled(TRADES, "id", 2, 4)
    await GapRows(store).mark_unfillable(TRADES, "id", 6, 8, "no such trades")

    await mine.later(5_000_000_000)

    [ids] = mine.continuity.status()
    assert (ids.seen, ids.missing) == ([(1, 5), (9, 9)], [(6, 8)])
    mine.receive(trade(3), trade(10))
    assert mine.writer.counts.recorded == 4, "and it is not recorded again"


async def test_a_hole_after_a_stop_has_the_cause_of_the_stop(store: StateStore) -> None:
    first = Process(open_log("memory:"), store)
    first.receive(trade(1))
    first.receive(cut(4, "stopped", "stopped"))
    second = first.killed()
    second.receive(trade(6))
    await second.later()

    assert await gaps(store) == [(2, 5, "stopped", "ours")]


async def test_at_the_end_everything_is_reported_at_once(store: StateStore) -> None:
    mine = Process(open_log("memory:"), store)
    mine.receive(trade(1), trade(3))
    mine.continuity.note_latest(TRADES, 5)

    await mine.coverage.finish()

    assert [row[:2] for row in await gaps(store)] == [(2, 2), (4, 5)]
    [held] = await read_coverage(store)
    assert [(run.first, run.last) for run in held.runs] == [(1, 1), (3, 3)]
    assert mine.syncs == 1


async def test_while_the_store_is_down_gaps_wait(store: StateStore) -> None:
    mine = Process(open_log("memory:"), BrokenStore())  # type: ignore[arg-type]
    mine.receive(trade(1), trade(3))
    await mine.clock.advance(5)
    assert not await mine.coverage._try()
    assert not await mine.coverage._try()
    assert mine.reports.waiting == 1
    assert [type(fact) for fact in mine.facts] == [CoverageNotStored]

    mine.coverage.store = store
    mine.receive(trade(4))
    assert await mine.coverage._try()

    assert [row[:2] for row in await gaps(store)] == [(2, 2)]
    assert [(run.first, run.last) for each in await read_coverage(store) for run in each.runs] == [
        (1, 1), (3, 4),
    ]  # fmt: skip


class BrokenStore:
    def __getattr__(self, name: str) -> Any:
        raise StoreUnreachable("memory:", "gone")


async def test_nothing_is_stored_that_is_not_synced(store: StateStore) -> None:
    mine = Process(open_log("memory:"), store)
    mine.receive(trade(1))

    async def sync() -> None:
        mine.receive(trade(2))  # recorded during the sync: not on the disk yet

    mine.coverage.sync = sync
    await mine.coverage.write()

    [held] = await read_coverage(store)
    assert (held.number, [(run.first, run.last) for run in held.runs]) == (1, [(1, 1)])


STEPS = st.lists(
    st.lists(st.integers(0, 40), min_size=1, max_size=6)
    | st.sampled_from(["later", "write", "kill", "fill", "cut"]),
    max_size=25,
)


@given(STEPS)
def test_any_history_equals_sets_of_ids(steps: list[Any]) -> None:
    """Records, gaps, fills and kills: the ledger is the truth, and no id is recorded twice."""
    asyncio.run(history(steps))


async def history(steps: list[Any]) -> None:
    store, log = await open_store("memory:"), open_log("memory:")
    mine, filler = Process(log, store), log.writer("work-0")
    live, filled, clock = set[int](), set[int](), 100
    for step in steps:
        clock += 1
        if step == "later":
            await mine.later()
        elif step == "write":
            await mine.coverage.write()
        elif step == "kill":
            mine = mine.killed()
        elif step == "cut":
            mine.receive(cut(clock))
        elif step == "fill":
            for row in (await GapRows(store).find(state="open"))[:1]:
                ids = list(range(row.first, row.last + 1))[:5]
                filler.append(list(map(trade, ids)))
                filled |= set(ids)
                await GapRows(store).mark_filled(TRADES, "id", ids[0], ids[-1])
        else:
            mine.receive(*map(trade, step))
            with closing(log.reader()) as reader:
                numbers = reader.numbers(TRADES, "collect-toy", 1)
                live = {each.event.id for each in numbers}  # type: ignore[attr-defined]
        assert not live & filled, "recorded by the stream and by the job"
        rows, covered = await GapRows(store).find(), await read_coverage(store)
        held = {id_ for each in covered for run in each.runs for id_ in ids_of(run)}
        assert held <= live
        assert {id_ for row in rows if row.state == "filled" for id_ in ids_of(row)} <= filled
        assert not {id_ for row in rows for id_ in ids_of(row)} & live, (
            "a gap is never recorded live"
        )
    await mine.coverage.finish()

    seen = live | filled
    everything = set(range(min(seen), max(seen) + 1)) if seen else set()
    told = intervals(await read_coverage(store), await GapRows(store).find())
    by_state: dict[str, set[int]] = {}
    for each in told:
        by_state.setdefault(each.state, set()).update(ids_of(each))
    assert by_state.get("complete", set()) == live
    assert by_state.get("filled", set()) == filled
    assert by_state.get("gap", set()) == everything - seen


def ids_of(each: Any) -> range:
    return range(each.first, each.last + 1)
