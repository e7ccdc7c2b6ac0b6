"""The ledger after a repair, for every kind of position."""

from contextlib import closing
from typing import NamedTuple

import pytest
from tests.events import candle, trade

from penstock.clock import ManualClock
from penstock.collect.repaired_ledger import LostRange, correct_ledger
from penstock.coverage.gap_rows import GapRows
from penstock.coverage.id_scan import ScannedStores
from penstock.coverage.model import By, Run, SlotCoverage
from penstock.coverage.writing import write_coverage
from penstock.storage.log import open_log
from penstock.storage.log.keys import Stream, key_of_id
from penstock.storage.log.repair import Lost
from penstock.storage.state import open_store

TRADES, CANDLES = (Stream("toy", name, "btc_usdt") for name in ("trades", "candles_1m"))
MINUTE_MS = 60_000


class World(NamedTuple):
    stores: ScannedStores
    gaps: GapRows

    async def enter(self, stream: Stream, by: By, first: int, last: int) -> None:
        document = SlotCoverage(
            **stream._asdict(), log_id=1, slot="a", number=1, by=by, runs=(Run(first, last, 1, 1),)
        )
        await write_coverage(self.stores.store, [document])

    async def correct(self, *lost: Lost) -> list[LostRange]:
        return await correct_ledger(lost, self.stores, lambda _: {"trades"})

    async def rows(self) -> list[tuple[str, int, int, str]]:
        return [(row.by, row.first, row.last, row.cause) for row in await self.gaps.find()]


@pytest.fixture
async def world() -> World:
    """Trades without 4 to 6, and candles without the minutes 3 and 4."""
    clock, log = ManualClock(10**9), open_log("memory:")
    with closing(log.writer("a")) as writer:
        writer.append([trade(number) for number in (1, 2, 3, 7, 8, 9)])
        writer.append([candle(minute * MINUTE_MS) for minute in (0, 1, 2, 5, 6)])
    store = await open_store("memory:", clock=clock)
    return World(ScannedStores(store, log.reader(), 1, clock), GapRows(store))


def lost(stream: Stream, after: int | None, before: int | None) -> Lost:
    low, high = (None if each is None else key_of_id(each) for each in (after, before))
    return Lost(stream, low, high, None, None, None)


@pytest.mark.parametrize("ends", [(3, 7), (None, 7), (3, None), (None, None), (7, 3)])
async def test_what_the_ledger_lists_and_was_lost_is_a_gap(
    world: World, ends: tuple[int | None, int | None]
) -> None:
    await world.enter(TRADES, "id", 1, 9)
    await world.enter(CANDLES, "open_ms", 0, 7 * MINUTE_MS - 1)
    beside = {3: 2 * MINUTE_MS, 7: 5 * MINUTE_MS, None: None}

    found = await world.correct(
        lost(TRADES, *ends), lost(CANDLES, *(beside[each] for each in ends))
    )

    expected = [("open_ms", 3 * MINUTE_MS, 5 * MINUTE_MS - 1), ("id", 4, 6)]
    assert [(each.by, each.first, each.last) for each in found] == expected
    assert await world.rows() == [(*each, "damaged") for each in expected]
    again = await world.correct(lost(TRADES, *ends))
    assert again == [], "it is known already"


async def test_what_no_ledger_lists_is_no_gap(world: World) -> None:
    ticker = Stream("toy", "tickers", "btc_usdt")

    assert await world.correct(lost(TRADES, 3, 7), lost(CANDLES, 1, 2), lost(ticker, 1, 2)) == []
    assert await world.rows() == []
