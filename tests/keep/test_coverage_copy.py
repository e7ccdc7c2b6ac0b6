"""The lake's copy of the ledger: what is complete, and never before the records are there."""

from typing import Any

import pytest
from deltalake import DeltaTable
from tests.keep.conftest import HOUR_NS, LOG_ID, SLOT, World, trades

from penstock.coverage.model import GapRow, Run, SlotCoverage, as_document
from penstock.market.channels import TRADES
from penstock.market.symbol import Symbol
from penstock.storage.state.schema import COVERAGE, GAPS


def held(last: int, slot: str = SLOT, symbol: str = "btc_usdt") -> SlotCoverage:
    return SlotCoverage(
        exchange="toy", channel="trades", symbol=symbol, log_id=LOG_ID, slot=slot, number=last,
        by="id", runs=(Run(1, last, 1_000, 2_000),),
    )  # fmt: skip


async def put(world: World, coverage: SlotCoverage) -> None:
    document = as_document(coverage)
    if not (await world.store.insert_if_absent(COVERAGE, document)).created:
        await world.store.update(COVERAGE, coverage.id, lambda old: {**old, **document})


def copied(world: World) -> list[tuple[Any, ...]]:
    folder = world.folder / "lake" / "coverage"
    if not DeltaTable.is_deltatable(str(folder)):
        return []
    rows = DeltaTable(folder).to_pyarrow_table().to_pylist()
    return sorted((r["symbol"], r["first"], r["last"], r["state"], r["by"]) for r in rows)


async def test_what_the_ledger_says_is_copied_once_its_records_are_sealed(world: World) -> None:
    world.append(trades(1, 50))
    await put(world, held(50))
    keeper = world.keeper()
    await keeper.seal_all()
    assert copied(world) == [("BTC/USDT", 1, 50, "complete", "id")]

    world.append(trades(51, 60, age_ns=10**9))
    await put(world, held(60))
    await keeper.seal_all()
    assert copied(world) == [("BTC/USDT", 1, 50, "complete", "id")], "not sealed yet"

    await world.clock.advance(60)
    world.append(trades(61, 70, age_ns=-60 * 10**9))
    await put(world, held(70))
    await keeper.seal_all()
    assert copied(world) == [("BTC/USDT", 1, 60, "complete", "id")], "what it said before"
    assert keeper.problems == {}


async def test_a_series_waits_for_every_slot_that_has_records_of_it(world: World) -> None:
    world.append([*trades(1, 50), *trades(1, 30, symbol=Symbol("ETH", "USDT"))])
    await put(world, held(50))
    await put(world, held(40, slot="work-0"))
    await put(world, held(30, symbol="eth_usdt"))
    keeper = world.keeper()

    for _ in range(3):
        await keeper.seal_all()
        await world.clock.advance(60)

    assert copied(world) == [("ETH/USDT", 1, 30, "complete", "id")]


@pytest.mark.parametrize("state", ["open", "filled", "unfillable"])
async def test_gaps_are_copied_with_their_reasons(world: World, state: Any) -> None:
    world.append(trades(1, 10))
    await put(world, held(10))
    gap = GapRow(
        exchange="toy", channel="trades", symbol="btc_usdt", by="id", first=11, last=15,
        since_ms=2_000, until_ms=3_000, state=state, cause="disconnected", origin="ours",
        reason="no answer", slot=SLOT, log_id=LOG_ID,
    )  # fmt: skip
    await world.store.insert_if_absent(GAPS, as_document(gap))
    keeper = world.keeper()

    for _ in range(3):
        await keeper.seal_all()
        await world.clock.advance(60)

    shown = "gap" if state == "open" else state
    assert copied(world) == [
        ("BTC/USDT", 1, 10, "complete", "id"),
        ("BTC/USDT", 11, 15, shown, "id"),
    ]


async def test_a_change_replaces_what_was_said_of_a_series_and_of_no_other(world: World) -> None:
    world.append([*trades(1, 50), *trades(1, 30, symbol=Symbol("ETH", "USDT"))])
    await put(world, held(20))
    await put(world, held(30, symbol="eth_usdt"))
    keeper = world.keeper()
    for _ in range(2):
        await keeper.seal_all()
        await world.clock.advance(60)

    await put(world, held(50))
    for _ in range(3):
        await keeper.seal_all()
        await world.clock.advance(60)

    assert copied(world) == [
        ("BTC/USDT", 1, 50, "complete", "id"),
        ("ETH/USDT", 1, 30, "complete", "id"),
    ]
    version = DeltaTable(world.folder / "lake" / "coverage").version()
    await keeper.seal_all()
    assert DeltaTable(world.folder / "lake" / "coverage").version() == version, "nothing changed"


async def test_nothing_is_deleted_that_the_ledger_has_not_seen(world: World) -> None:
    world.append(trades(1, 50, age_ns=100 * HOUR_NS))
    world.append(trades(51, 60))
    await put(world, held(20))
    world.writer.close()
    keeper = world.keeper()

    await keeper.run_once()
    assert len(world.in_log(TRADES)) > 30
    await put(world, held(60))
    await keeper.run_once()

    assert len(world.in_log(TRADES)) == 10
