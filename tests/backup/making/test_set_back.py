"""A log that is restored beside a newer state or lake: no number is used twice, no loss is hidden.

Both survive on a server while the disk of the log is lost. Here they are those of the first folder.
"""

import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from tests.backup.making.conftest import HOUR_NS, World
from tests.events import trade

import penstock
from penstock.app.collector import open_collector
from penstock.backup.restore import restore
from penstock.clock import SystemClock
from penstock.config import Settings, State, Storage
from penstock.coverage.reading import read_ledger, series_of
from penstock.market.events import Event
from penstock.publish.endpoints import log_id
from penstock.runtime.facts import LogSetBack
from penstock.runtime.stores import open_state
from penstock.runtime.trimming import Trimmer
from penstock.storage.lake.documents import read_seals
from penstock.storage.log import Stored, open_log
from penstock.storage.log.keys import Stream
from penstock.storage.log.writer import SlotWriter
from penstock.telemetry import quiet

SLOT, TRADES = "collect-binance", Stream("binance", "trades", "btc_usdt")


def trades(first: int, last: int, age_ns: int = 0) -> list[Event]:
    at_ns = time.time_ns() - age_ns
    return [
        trade(n, exchange="binance", received_at_ns=at_ns + n, at_ns=at_ns)
        for n in range(first, last + 1)
    ]


class KilledError(Exception):
    """A process ended in the middle of its work."""


def killed(*_: object) -> None:
    raise KilledError


@asynccontextmanager
async def collecting(world: World) -> AsyncIterator[Any]:
    """A function that records, as a collector does; at the end its ledger is written."""
    facts = world.facts.append
    async with open_collector(world.settings, "binance", SystemClock(), facts) as collector:

        async def record(events: Sequence[Event]) -> list[Stored]:
            recorded = await collector.recorder.record(events)
            await collector.recorder.sync()
            return list(recorded)

        yield record


async def ledger(settings: Settings) -> list[tuple[str, int, int]]:
    async with open_state(settings, SystemClock()) as store:
        found = await read_ledger(store)
    [series] = [each for each in series_of(found) if each.channel == "trades"]
    return [(each.state, each.first, each.last) for each in series.intervals]


async def trim(world: World) -> None:
    """Delete from the log what is sealed, all but the last record."""
    async with open_state(world.settings, SystemClock()) as store:
        seals = await read_seals(store, log_id(world.data), SLOT)
    with closing(open_log(f"rocksdb:{world.data}").writer(SLOT)) as writer:
        await Trimmer(writer, log_id(world.data), SystemClock(), quiet).trim(seals)


def numbers(folder: Path) -> dict[int, int]:
    """The ids of records in the log by number."""
    with closing(open_log(f"rocksdb:{folder}").reader()) as reader:
        return {each.number: each.event.id for each in reader.numbers(TRADES, SLOT, 1)}  # type: ignore[attr-defined]


@pytest.mark.parametrize("sealed", [True, False], ids=["sealed", "killed on the way"])
async def test_a_log_beside_a_newer_state_and_lake_repeats_no_number_and_hides_no_loss(
    world: World, monkeypatch: pytest.MonkeyPatch, sealed: bool
) -> None:
    async with collecting(world) as record:
        await record(trades(1, 300, 3 * HOUR_NS))
    await world.keep()
    await trim(world)
    assert list(numbers(world.data)) == [300]
    made = await world.back_up(rehearse=False)
    async with collecting(world) as record:
        await record(trades(301, 400, 2 * HOUR_NS))
    if sealed:
        await world.keep()
    async with collecting(world) as record:
        await record(trades(401, 450))  # neither sealed nor in the backup
    assert await ledger(world.settings) == [("complete", 1, 450)]
    first = numbers(world.data)

    restored = World(world.data.parent / "other", world.stack)
    restore(made.written.path, restored.data)
    restored.settings = replace(
        restored.settings,
        state=State(url=f"sqlite:{world.data / 'state.db'}"),
        storage=replace(restored.settings.storage, lake_url=str(world.data / "lake")),
    )
    if not sealed:
        with monkeypatch.context() as patch:
            patch.setattr(SlotWriter, "skip_numbers", killed)  # the ledger is corrected by then
            with pytest.raises(KilledError):
                await collecting(restored).__aenter__()
    async with collecting(restored) as record:
        assert (await ledger(restored.settings))[0][:2] == ("complete", 1)
        assert (await ledger(restored.settings))[0][2] < 301, "before the first record"
        await record(trades(461, 500, HOUR_NS))
    assert [fact.streams for fact in restored.facts if isinstance(fact, LogSetBack)] == [1]

    second = numbers(restored.data)
    assert not {n for n in first.keys() & second.keys() if first[n] != second[n]}
    assert min(second.keys() - {300}) > max(first)
    assert await ledger(restored.settings) == [
        ("complete", 1, 300), ("gap", 301, 460), ("complete", 461, 500),
    ]  # fmt: skip
    await restored.keep()
    lake_url, state_url = restored.settings.storage.lake_url, restored.settings.state.url
    data = penstock.open(restored.data, lake_url=lake_url, state_url=state_url)
    found = sorted(data.trades(on_gap="ignore").polars()["id"].to_list())
    kept = range(1, 401 if sealed else 301)
    assert found == [*kept, *range(461, 501)], "what was sealed, and what is new"
    async with open_state(restored.settings, SystemClock()) as store:
        seals = await read_seals(store, log_id(restored.data), SLOT)
    assert max(each.verified(TRADES) for each in seals) >= max(second)

    assert data.verify().findings == [], "the missing numbers are known"
    assert (await restored.back_up()).rehearsal.verified  # type: ignore[union-attr]
    restored.facts.clear()
    async with collecting(restored) as record:
        [again] = await record(trades(501, 501))
    assert again.number == max(second) + 1
    assert not [fact for fact in restored.facts if isinstance(fact, LogSetBack)]


async def test_a_log_beside_a_lake_in_an_object_store_gets_a_new_id(world: World) -> None:
    async with collecting(world) as record:
        await record(trades(1, 20))
    elsewhere = Storage(lake_url="s3://bucket/lake")
    world.settings = replace(world.settings, storage=elsewhere)
    made = await world.back_up(rehearse=False)
    copy, other = world.data.parent / "copy", world.data.parent / "other"

    found = restore(made.written.path, copy)
    restore(made.written.path, other, keep_log_id=True)

    assert found.log_id == f"{log_id(copy):x}"
    assert log_id(other) == log_id(world.data) != log_id(copy)
    assert len(numbers(copy)) == 20
