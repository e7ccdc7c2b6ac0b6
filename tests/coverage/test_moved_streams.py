"""Streams that move to another slot: what the slot before holds is neither missing nor repeated."""

from collections.abc import AsyncIterator

import pytest
from tests import events
from tests.coverage.test_gap_reports import BTC, TRADES, Process, gaps, trade

from penstock.coverage.gap_rows import GapRows
from penstock.coverage.model import By, Run, SlotCoverage
from penstock.coverage.writing import write_coverage
from penstock.market.events import Disconnect
from penstock.storage.log import open_log
from penstock.storage.log.keys import Stream
from penstock.storage.state import StateStore, open_store

TICKERS = Stream("toy", "tickers", "btc_usdt")


@pytest.fixture
async def store() -> AsyncIterator[StateStore]:
    store = await open_store("memory:")
    yield store
    await store.close()


async def held(
    store: StateStore, slot: str, stream: Stream, by: By, *runs: tuple[int, int], log_id: int = 7
) -> None:
    """Another slot holds this, of which nothing is in the log any more."""
    document = SlotCoverage(
        **stream._asdict(), log_id=log_id, slot=slot, number=runs[-1][1], by=by,
        runs=tuple(Run(first, last, first, last) for first, last in runs),
    )  # fmt: skip
    await write_coverage(store, [document])


async def begun(store: StateStore) -> Process:
    process = Process(open_log("memory:"), store)
    await process.coverage.take_up_others("toy", lambda stream: stream.symbol == "btc_usdt")
    process.reports.resume()
    return process


async def test_only_what_no_slot_has_received_is_missing(store: StateStore) -> None:
    await held(store, "collect-toy-1", TRADES, "id", (1, 5000))
    mine = await begun(store)
    mine.receive(trade(5050))
    await mine.later()

    assert [gap[:2] for gap in await gaps(store)] == [(5001, 5049)]


async def test_what_the_slot_before_has_recorded_is_not_recorded_again(store: StateStore) -> None:
    await held(store, "collect-toy-1", TRADES, "id", (1, 5000))
    mine = await begun(store)

    assert mine.reports.admitted([trade(4999), trade(5001)]) == [trade(5001)]


@pytest.mark.parametrize(
    ("slot", "stream", "log_id"),
    [
        ("collect-toy-1", TRADES._replace(symbol="eth_usdt"), 7),
        ("collect-toy-1", TRADES, 8),
        ("work-0", TRADES, 7),
    ],
)
async def test_other_markets_and_other_logs_tell_nothing(
    store: StateStore, slot: str, stream: Stream, log_id: int
) -> None:
    await held(store, slot, stream, "id", (1, 5000), log_id=log_id)
    mine = await begun(store)
    mine.receive(trade(5050))
    await mine.later()

    assert mine.continuity.status()[0].seen == [(5050, 5050)]
    assert await gaps(store) == []


async def test_a_stream_that_comes_back_was_not_absent_while_another_slot_had_it(
    store: StateStore,
) -> None:
    mine = await begun(store)
    mine.receive(events.ticker(10, BTC, "toy"))
    stopped = Disconnect(
        exchange="toy", symbol=BTC, received_at_ns=20, channels=("tickers",), reason="stopped",
        cause="stopped",
    )  # fmt: skip
    mine.receive(stopped)
    await mine.later()
    await held(store, "collect-toy-1", TICKERS, "received_ns", (25, 80))
    mine = mine.killed()
    await mine.coverage.take_up_others("toy", lambda _: True)
    mine.reports.resume()
    await mine.later()
    mine.receive(events.ticker(100, BTC, "toy"))
    await mine.later()

    rows = [(row.first, row.last, row.cause) for row in await GapRows(store).find()]
    assert sorted(rows) == [(21, 24, "stopped"), (81, 99, "stopped")]
