"""The keeper: every record is in the lake once, and leaves the log only then."""

import asyncio
import shutil
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest
from tests.events import candle, delta, ticker, trade
from tests.keep.conftest import HOUR_NS, LOG_ID, NOW_NS, SLOT, World, trades
from tests.waiting import PATIENCE_S

from penstock.errors import ConfigError, StorageError
from penstock.keep.facts import (
    ChannelSealed,
    KeepingFailed,
    LakeMeasured,
    LogMeasured,
    RecordsSealed,
)
from penstock.market import channels
from penstock.market.symbol import Symbol
from penstock.runtime.trimming import Trimmer
from penstock.storage.lake.delta import DeltaLake
from penstock.storage.lake.documents import SealState, read_seals
from penstock.storage.log import Stored
from penstock.storage.log.keys import Stream
from penstock.storage.log.reader import MergedReader
from penstock.storage.state import open_store

TRADES, CANDLES = channels.TRADES, channels.CANDLES
BTC = Stream("toy", "trades", "btc_usdt")
ETH = Symbol("ETH", "USDT")


async def state_of(world: World, table: str = "trades") -> SealState:
    states = {s.channel: s for s in await read_seals(world.store, LOG_ID, SLOT)}
    return states[table]


async def trim(world: World) -> int:
    """Delete as the owner of the slot does."""
    trimmer = Trimmer(world.writer, LOG_ID, world.clock, world.facts.append)
    return await trimmer.trim(await read_seals(world.store, LOG_ID, SLOT))


async def test_every_record_is_sealed_once(world: World) -> None:
    world.append([*trades(1, 50), *trades(1, 30, symbol=ETH)])
    world.append([candle(60_000), delta(1, 2), ticker(5, bid_text="1.5")])
    keeper = world.keeper(seal_rows=20)

    await keeper.seal_all()
    world.append(trades(51, 60))
    await keeper.seal_all()
    await keeper.seal_all()

    assert keeper.problems == {}
    assert keeper.rows == 93
    for row in (TRADES, CANDLES, channels.BOOK_DELTAS, channels.TICKERS):
        if row is not CANDLES:
            assert world.in_lake(row) == world.in_log(row)
    assert len(world.in_lake(CANDLES)) == 1
    assert (await state_of(world)).numbers == {str(BTC): 60, "toy.trades.eth_usdt": 30}


async def test_records_that_have_not_settled_stay_for_later(world: World) -> None:
    world.append(trades(1, 5))
    world.append(trades(6, 9, age_ns=10**9))
    keeper = world.keeper(settle=30)

    await keeper.seal_all()
    assert len(world.in_lake(TRADES)) == 5

    await world.clock.advance(60)
    await keeper.seal_all()
    assert world.in_lake(TRADES) == world.in_log(TRADES)


async def test_sizes_and_how_far_is_sealed_are_reported_with_every_seal(world: World) -> None:
    world.append(trades(1, 50))
    keeper = world.keeper(most=10**9, settle=30)

    await keeper.seal_all()

    (log,) = (fact for fact in world.facts if isinstance(fact, LogMeasured))
    (lake,) = (fact for fact in world.facts if isinstance(fact, LakeMeasured))
    assert log.max_bytes == 10**9
    assert set(log.slots) == {SLOT}
    assert sum(log.slots.values()) == keeper.log_bytes
    assert lake.tables["trades"] > 0
    assert sum(lake.tables.values()) == keeper.lake_bytes
    (sealed,) = (fact for fact in world.facts if isinstance(fact, ChannelSealed))
    before_ms = NOW_NS // 1_000_000 - 30_000
    assert (sealed.slot, sealed.table, sealed.before_ms) == (SLOT, "trades", before_ms)


async def test_what_is_sealed_is_known_without_the_state_store(world: World) -> None:
    world.append(trades(1, 50))
    await world.keeper(seal_rows=20).seal_all()
    world.append(trades(51, 60))
    empty = await open_store("memory:")

    keeper = world.keeper(store=empty)
    await keeper.seal_all()

    assert keeper.problems == {}
    assert world.in_lake(TRADES) == world.in_log(TRADES)
    (state,) = await read_seals(empty, LOG_ID, SLOT)
    assert state.numbers == {str(BTC): 60}, "and what was sealed is verified again"
    await empty.close()


async def test_records_that_one_reader_overlooks_are_not_sealed(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.append(trades(1, 50))
    keeper, numbers = world.keeper(seal_rows=20), MergedReader.numbers

    def overlooks(reader: MergedReader, *range_: Any) -> Iterator[Stored]:
        found = numbers(reader, *range_)
        return (s for s in found if reader is not keeper._reader or s.number not in (30, 31))

    with monkeypatch.context() as patch:
        patch.setattr(MergedReader, "numbers", overlooks)
        await keeper.seal_all()
    assert "numbers 21–42, one reader finds 20 records and another one 22" in str(keeper.problems)
    assert (await state_of(world)).numbers == {str(BTC): 20}

    await keeper.seal_all()
    assert keeper.problems == {}
    assert world.in_lake(TRADES) == world.in_log(TRADES)


async def test_numbers_that_are_missing_in_the_log_are_passed_over(world: World) -> None:
    world.append(trades(1, 50))
    world.writer.skip_numbers({BTC: 70})
    world.append(trades(51, 60))
    keeper = world.keeper()

    await keeper.seal_all()

    assert keeper.problems == {}
    assert len(world.in_lake(TRADES)) == 60
    assert (await state_of(world)).numbers == {str(BTC): 80}


async def test_a_seal_that_was_not_verified_is_verified_later(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.append(trades(1, 50))

    def broken(*_: Any) -> bool:
        raise StorageError("the lake", "went away")

    with monkeypatch.context() as patch:
        patch.setattr(DeltaLake, "equal", broken)
        await world.keeper(seal_rows=20).seal_all()
    assert await read_seals(world.store, LOG_ID, SLOT) == []

    keeper = world.keeper(seal_rows=30)
    await keeper.seal_all()

    assert keeper.problems == {}
    assert world.in_lake(TRADES) == world.in_log(TRADES)
    assert (await state_of(world)).numbers == {str(BTC): 50}


async def test_rows_that_come_back_different_are_reported_and_nothing_is_deleted(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.append(trades(1, 50, age_ns=100 * HOUR_NS))
    monkeypatch.setattr(DeltaLake, "equal", lambda *_: False)
    keeper = world.keeper()

    await keeper.run_once()

    (problem,) = keeper.problems.values()
    assert "differs from the log: toy.trades.btc_usdt 1–50" in problem
    assert keeper.report().problems[0].startswith("sealing trades of collect-toy: ")
    assert [fact.what for fact in world.facts if isinstance(fact, KeepingFailed)]
    assert not [fact for fact in world.facts if isinstance(fact, RecordsSealed | ChannelSealed)]
    assert await trim(world) == 0
    assert len(world.in_log(TRADES)) == 50


async def test_an_older_copy_of_the_log_is_reported(world: World) -> None:
    world.append(trades(1, 50))
    keeper = world.keeper()
    await keeper.seal_all()
    world.writer.close()
    shutil.rmtree(world.folder / "log" / SLOT)
    world.writer = world.log.writer(SLOT)
    world.append(trades(1, 20, price_text="2"))

    await keeper.run_once()

    (problem,) = keeper.problems.values()
    assert "its last record of toy.trades.btc_usdt has number 20, but 50 is sealed" in problem
    assert len(world.in_log(TRADES)) == 20


async def test_two_keepers_of_one_log_seal_everything_once(world: World) -> None:
    world.append([*trades(1, 200), *trades(1, 200, symbol=ETH)])
    keepers = [world.keeper(seal_rows=30) for _ in range(2)]

    for _ in range(20):
        await asyncio.gather(*(keeper.seal_all() for keeper in keepers))

    assert world.in_lake(TRADES) == world.in_log(TRADES)
    assert all(keeper.problems == {} for keeper in keepers)


async def test_a_correction_is_sealed_beside_what_it_corrects(world: World) -> None:
    old = candle(60_000, received_at_ns=NOW_NS - HOUR_NS)
    world.append([old])
    await world.keeper().seal_all()
    world.append([candle(60_000, received_at_ns=NOW_NS - HOUR_NS + 1, close_text="2")])

    await world.keeper().seal_all()

    assert len(world.in_lake(CANDLES)) == 2, "readers take the last"
    state = await state_of(world, "candles")
    assert state.numbers == {"toy.candles_1m.btc_usdt": 2}


async def test_the_log_keeps_what_is_young_and_the_last_record(world: World) -> None:
    world.append(trades(1, 50, age_ns=100 * HOUR_NS))
    world.append(trades(51, 60))
    world.append(trades(1, 9, symbol=ETH, age_ns=100 * HOUR_NS))
    keeper = world.keeper(hot=48 * 3600)
    before = world.in_log(TRADES)

    await keeper.seal_all()
    await keeper.trim_all()
    assert world.in_log(TRADES) == before, "only the owner deletes"
    assert await trim(world) == 2

    with closing(world.log.reader()) as reader:
        left = {str(s): [r.event.id for r in reader.scan(s)] for s in reader.streams()}  # type: ignore[attr-defined]
    assert left == {str(BTC): list(range(51, 61)), "toy.trades.eth_usdt": [9]}
    assert world.in_lake(TRADES) == before
    world.append([*trades(61, 61), *trades(60, 60)])
    assert world.writer.last_numbers()[BTC] == 61, "numbers and duplicates go on as before"


async def test_a_late_record_with_a_low_id_is_never_deleted_unsealed(world: World) -> None:
    world.append([*trades(1, 10, age_ns=100 * HOUR_NS), *trades(20, 30, age_ns=100 * HOUR_NS)])
    world.append(trades(31, 31))
    keeper = world.keeper()
    await keeper.seal_all()
    await keeper.trim_all()

    world.append(trades(11, 19, source="backfill", age_ns=10**9))  # fills a gap, after the plan
    await trim(world)

    kept = [record for record in world.in_log(TRADES) if b"backfill" in record]
    assert len(kept) == 9
    await world.clock.advance(60)
    await keeper.seal_all()
    assert len(world.in_lake(TRADES)) == 31


async def test_candles_and_disconnects_stay_in_the_log(world: World) -> None:
    world.append([candle(n * 60_000, received_at_ns=n) for n in range(1, 9)])
    keeper = world.keeper()

    await keeper.run_once()

    assert await trim(world) == 0


async def test_the_keeper_trims_a_slot_without_an_owner(world: World) -> None:
    world.append(trades(1, 50, age_ns=100 * HOUR_NS))
    world.append(trades(51, 60))
    world.writer.close()

    await world.keeper().run_once()

    assert len(world.in_log(TRADES)) == 10
    assert len(world.in_lake(TRADES)) == 60
    world.writer = world.log.writer(SLOT)
    world.append(trades(61, 61))
    assert world.writer.last_numbers()[BTC] == 61


async def test_a_log_above_its_maximum_is_trimmed_sooner(world: World) -> None:
    for n in range(20):
        events = [
            trade(n * 500 + i, received_at_ns=NOW_NS - (20 - n) * HOUR_NS + i, price_text=f"{i}")
            for i in range(500)
        ]
        world.append(events)
    size = world.writer.stats().size_bytes
    keeper = world.keeper(most=size // 2)
    await keeper.seal_all()

    await keeper.trim_all()
    await trim(world)

    assert world.writer.stats().size_bytes < size // 2
    assert 1000 < len(world.in_log(TRADES)) < 6000
    assert len(world.in_lake(TRADES)) == 10_000
    assert f"of {size // 2 / 1e6:,.1f} MB" in keeper.report().doing


async def test_a_running_keeper_trims_as_soon_as_the_log_exceeds_its_maximum(world: World) -> None:
    keeper, stop = world.keeper(most=20_000, seal_every=5.0), asyncio.Event()
    running = asyncio.create_task(keeper.run(stop))
    async with asyncio.timeout(PATIENCE_S):
        while not keeper.log_bytes:  # noqa: ASYNC110 (it has no event for that)
            await asyncio.sleep(0.01)
        world.append(trades(1, 5000, age_ns=100 * HOUR_NS))
        began_ms = world.clock.now_ms()
        while not any(each.deletions for each in await read_seals(world.store, LOG_ID, SLOT)):
            if world.clock.next_wake_ns() is not None:  # It has nothing to do until then.
                await world.clock.advance(1)
            await asyncio.sleep(0.01)
        stop.set()
        await running

    assert world.clock.now_ms() - began_ms <= 15_000
    assert await trim(world) == 1


async def test_days_are_compacted_once_they_are_over(world: World) -> None:
    keeper = world.keeper(seal_rows=10)
    world.append([*trades(1, 50, age_ns=72 * HOUR_NS), *trades(51, 70, age_ns=HOUR_NS)])
    await keeper.seal_all()
    before = world.in_lake(TRADES)
    assert [each.files for each in world.lake.partitions(TRADES)] == [5, 2]

    await keeper.maintain()

    assert [each.files for each in world.lake.partitions(TRADES)] == [1, 2]
    assert world.in_lake(TRADES) == before
    assert keeper.problems == {}


async def test_retention_deletes_whole_days(world: World) -> None:
    world.append([*trades(1, 50, age_ns=240 * HOUR_NS), *trades(51, 70)])
    keeper = world.keeper(retention={"trades": "7d"})
    await keeper.seal_all()

    planned = await keeper.plan()
    assert [(each.action, each.table, each.records) for each in planned] == [
        ("delete", "trades", 50)
    ]
    await keeper.maintain()
    await keeper.seal_all()

    assert len(world.in_lake(TRADES)) == 20, "what was deleted is not sealed again"
    assert keeper.problems == {}
    assert await keeper.plan() == []


async def test_a_plan_changes_nothing(world: World) -> None:
    world.append(trades(1, 50))
    keeper = world.keeper()

    (planned,) = await keeper.plan()

    assert (planned.action, planned.table, planned.where, planned.records) == (
        "seal", "trades", SLOT, 50,
    )  # fmt: skip
    assert world.lake.stats() == []
    assert await read_seals(world.store, LOG_ID, SLOT) == []


@pytest.mark.parametrize(
    "rules", [{"trade": "7d"}, {"trades": "7"}, {"trades": "0d"}, {"trades": "-1GB"}]
)
def test_a_rule_of_retention_that_cannot_be_read(world: World, rules: dict[str, str]) -> None:
    with pytest.raises(ConfigError, match=r"keep\.retention\.trade"):
        world.keeper(retention=rules)


async def test_a_running_keeper_stops_when_asked(world: World) -> None:
    world.append(trades(1, 50))
    keeper, stop = world.keeper(), asyncio.Event()
    running = asyncio.create_task(keeper.run(stop))
    async with asyncio.timeout(PATIENCE_S):
        while keeper.rows < 50:  # noqa: ASYNC110 (it has no event for that)
            await asyncio.sleep(0.01)
        stop.set()
        await running

    assert world.in_lake(TRADES) == world.in_log(TRADES)
