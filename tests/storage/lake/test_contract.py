"""What every lake promises, in a folder and in an object store."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from tests.events import candle, delta, ticker, trade
from tests.storage.lake.conftest import OpenLake
from tests.storage.lake.test_columns import stored_of

from penstock.errors import SealConflict, StorageError
from penstock.market import channels
from penstock.market.channels import Channel
from penstock.market.events import Event
from penstock.market.symbol import Symbol
from penstock.storage.lake import Lake, NumberRange, TableStats
from penstock.storage.lake.columns import slot_text, table_of
from penstock.storage.lake.sorting import sorted_batches
from penstock.storage.log import Stored
from penstock.storage.log.keys import Stream, stream_of

TRADES, CANDLES = channels.TRADES, channels.CANDLES
SLOT = slot_text(0xAB, "collect-toy")
BTC = Stream("toy", "trades", "btc_usdt")
DAY_NS = 86_400 * 10**9


def rows_of(row: Channel, events: Sequence[Event], first: int = 1) -> pa.Table:
    stored = [
        Stored(each.stream, each.slot, number, b"", each.record, "")
        for number, each in enumerate(stored_of(events), first)
    ]
    return table_of(row, stored, 0xAB)


def trades(first: int, last: int, **fields: Any) -> pa.Table:
    """Rows of trades whose ids are their numbers."""
    return rows_of(TRADES, [trade(n, **fields) for n in range(first, last + 1)], first)


def seal(lake: Lake, first: int, last: int, **fields: Any) -> pa.Table:
    rows = trades(first, last, **fields)
    lake.seal(TRADES, SLOT, rows, {BTC: NumberRange(first, last)})
    return rows


def stats(lake: Lake) -> dict[str, TableStats]:
    return {each.name: each for each in lake.stats()}


def test_what_is_sealed_is_there_once_and_known(lake: Lake) -> None:
    assert lake.sealed(TRADES, SLOT, [BTC]) == {BTC: 0}

    first, second = seal(lake, 1, 10), seal(lake, 11, 30)

    assert lake.sealed(TRADES, SLOT, [BTC]) == {BTC: 30}
    assert lake.sealed(TRADES, "ab/another", [BTC]) == {BTC: 0}
    assert lake.equal(TRADES, first)
    assert lake.equal(TRADES, pa.concat_tables([second, first]))
    assert stats(lake)["trades"].rows == 30


def test_every_channel_has_a_table(lake: Lake) -> None:
    events: list[list[Event]] = [
        [delta(1, 2), delta(None, None)], [ticker(5, bid_text="1.50")], [candle(0), candle(60_000)],
    ]  # fmt: skip
    for group in events:
        row = channels.BY_EVENT[type(group[0])]
        rows = rows_of(row, group)
        lake.seal(row, SLOT, rows, {stream_of(group[0]): NumberRange(1, len(group))})
        assert lake.equal(row, rows)

    assert stats(lake).keys() == {"book_deltas", "tickers", "candles"}


def test_a_range_that_overlaps_or_leaves_a_hole_is_refused(lake: Lake) -> None:
    seal(lake, 1, 10)
    before = stats(lake)

    for first, last in ((1, 10), (5, 15), (12, 15)):
        with pytest.raises(SealConflict, match=r"is sealed up to number 10.*Nothing was written"):
            seal(lake, first, last)

    assert stats(lake) == before


def test_a_seal_of_several_streams_is_refused_as_a_whole(lake: Lake) -> None:
    seal(lake, 1, 10)
    eth = Symbol("ETH", "USDT")
    rows = rows_of(TRADES, [trade(1, eth), trade(2)])
    other = stream_of(trade(1, eth))

    with pytest.raises(SealConflict):
        lake.seal(TRADES, SLOT, rows, {other: NumberRange(1, 1), BTC: NumberRange(2, 2)})

    assert lake.sealed(TRADES, SLOT, [other, BTC]) == {other: 0, BTC: 10}
    assert stats(lake)["trades"].rows == 10


def test_two_keepers_seal_a_range_once(opened: OpenLake) -> None:
    one, other = opened(), opened()
    seal(one, 1, 5)
    other.sealed(TRADES, SLOT, [BTC])
    seal(one, 6, 10)

    with pytest.raises(SealConflict):
        seal(other, 6, 10)

    seal(other, 11, 12)
    assert stats(one)["trades"].rows == 12


def test_keepers_of_different_slots_do_not_disturb_each_other(opened: OpenLake) -> None:
    lakes, together = [opened() for _ in range(4)], Barrier(4)
    seal(lakes[0], 1, 1)

    def run(number: int) -> None:
        slot = slot_text(number, "work-0")
        rows = table_of(TRADES, stored_of([trade(1), trade(2)], "work-0"), number)
        together.wait()
        lakes[number].seal(TRADES, slot, rows, {BTC: NumberRange(1, 2)})

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(run, range(4)))

    assert stats(opened())["trades"].rows == 9


def test_rows_that_differ_are_not_equal(lake: Lake) -> None:
    seal(lake, 1, 10)

    assert not lake.equal(TRADES, trades(1, 11)), "one is missing"
    assert not lake.equal(TRADES, trades(1, 10, price_text="2")), "another price"
    assert not lake.equal(TRADES, trades(1, 10, price_text="1.0")), "another digit"


def test_a_row_that_is_there_twice_is_not_equal(lake: Lake) -> None:
    rows = seal(lake, 1, 3)
    # Only a writer that ignores what is sealed can do that.
    again = Stream("toy", "trades", "eth_usdt")
    lake.seal(TRADES, SLOT, rows, {again: NumberRange(1, 3)})

    assert not lake.equal(TRADES, rows)


def test_compaction_keeps_every_row_in_one_file(lake: Lake) -> None:
    parts = [seal(lake, 1, 4), seal(lake, 5, 8), seal(lake, 9, 9, at_ns=DAY_NS)]
    (first, second) = lake.partitions(TRADES)
    assert (first.files, first.rows, second.rows) == (2, 8, 1)

    assert lake.compact(TRADES, first)

    assert [each.files for each in lake.partitions(TRADES)] == [1, 1]
    assert all(lake.equal(TRADES, rows) for rows in parts)
    assert lake.sealed(TRADES, SLOT, [BTC]) == {BTC: 9}
    seal(lake, 10, 11)


def test_compaction_gives_way_to_a_seal(opened: OpenLake, monkeypatch: pytest.MonkeyPatch) -> None:
    one, other = opened(), opened()
    seal(one, 1, 4)
    rows = seal(one, 5, 8)
    name = "penstock.storage.lake.delta.sorted_batches"

    def sealing_meanwhile(*args: Any) -> Any:
        monkeypatch.setattr(name, sorted_batches)
        seal(other, 9, 12)
        return sorted_batches(*args)

    monkeypatch.setattr(name, sealing_meanwhile)
    (partition,) = one.partitions(TRADES)

    assert not one.compact(TRADES, partition)
    assert stats(one)["trades"].rows == 12
    assert one.compact(TRADES, partition)
    assert stats(one)["trades"].rows == 12
    assert one.equal(TRADES, rows)


def test_a_compaction_that_would_lose_rows_is_not_made(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = pa.concat_tables([seal(lake, 1, 4), seal(lake, 5, 8)])
    (partition,) = lake.partitions(TRADES)

    def losing(dataset: Any, *args: Any) -> Any:
        return sorted_batches(dataset.filter(pc.field("number") > 2), *args)

    with monkeypatch.context() as patch:
        patch.setattr("penstock.storage.lake.delta.sorted_batches", losing)
        with pytest.raises(StorageError, match="2 rows too few were read"):
            lake.compact(TRADES, partition)

    assert lake.equal(TRADES, rows)
    assert lake.partitions(TRADES) == [partition]


def test_deleting_partitions_keeps_what_is_sealed(lake: Lake) -> None:
    seal(lake, 1, 4)
    rows = seal(lake, 5, 6, at_ns=3 * DAY_NS)
    old, _ = lake.partitions(TRADES)

    assert lake.delete(TRADES, [old])

    assert stats(lake)["trades"].rows == 2
    assert lake.equal(TRADES, rows)
    assert lake.sealed(TRADES, SLOT, [BTC]) == {BTC: 6}, "deleted rows are not sealed again"


def test_vacuum_removes_what_no_version_uses(lake: Lake) -> None:
    rows = pa.concat_tables([seal(lake, 1, 4), seal(lake, 5, 8)])
    (partition,) = lake.partitions(TRADES)
    lake.compact(TRADES, partition)

    assert lake.vacuum(TRADES, 168) == 0, "they are too young"
    assert lake.vacuum(TRADES, 0, dry_run=True) == 2
    assert len(lake.unused_files(TRADES, 0)) == 2
    assert lake.unused_files(TRADES, 168) == []
    assert lake.vacuum(TRADES, 0) == 2
    assert lake.equal(TRADES, rows)


def test_nothing_there_is_nothing_done(lake: Lake) -> None:
    assert lake.stats() == []
    assert lake.partitions(CANDLES) == []
    assert lake.vacuum(CANDLES, 0) == 0
    assert not lake.delete(CANDLES, [])
    assert lake.equal(CANDLES, rows_of(CANDLES, []))


def test_ids_of_a_stream_are_found_as_runs(lake: Lake) -> None:
    assert lake.ids(TRADES, BTC, 1, 9) is None, "there is no table"
    seal(lake, 1, 10)
    seal(lake, 11, 30)
    eth = BTC._replace(symbol="eth_usdt")

    assert lake.ids(TRADES, BTC, 5, 20) == ([(5, 20)], False, None)
    assert lake.ids(TRADES, BTC, 31, 99) == ([], False, None)
    assert lake.ids(TRADES, eth, 1, 99) == ([], False, None)


def test_ids_that_retention_deleted_are_told_by_the_lowest_that_is_left(lake: Lake) -> None:
    seal(lake, 1, 10)
    seal(lake, 11, 30, at_ns=5 * DAY_NS)
    assert lake.delete(TRADES, lake.partitions(TRADES)[:1])
    assert lake.ids(TRADES, BTC, 1, 20) == ([(11, 20)], True, 11)

    assert lake.delete(TRADES, lake.partitions(TRADES))
    assert lake.ids(TRADES, BTC, 1, 99) == ([], True, None)
