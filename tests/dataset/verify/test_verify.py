"""A verification finds every defect that is planted, and none in data that is right."""

import asyncio
import functools
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from msgspec.structs import replace
from tests.dataset.stored import NOON_NS, SECOND_NS, dataset, seal, stored
from tests.events import delta, snapshot, trade

from penstock.coverage.model import GapRow, GapState, Run, SlotCoverage, as_document
from penstock.dataset.candles import CandleBuilder, as_candles, candle_rows
from penstock.dataset.cold import Cold
from penstock.dataset.reading import Part, Places, read
from penstock.dataset.times import Range
from penstock.dataset.verify.findings import Report
from penstock.dataset.verify.records import SlotNumbers, check_records
from penstock.market.channels import TRADES
from penstock.market.events import BookDelta, Candle, Event, Trade
from penstock.market.interval import Interval
from penstock.market.levels import write_levels
from penstock.publish.endpoints import log_id
from penstock.storage.lake import open_lake
from penstock.storage.lake.columns import table_of
from penstock.storage.lake.ids import runs_of
from penstock.storage.log import Stored, open_log
from penstock.storage.log.keys import Stream
from penstock.storage.state import open_store
from penstock.storage.state.schema import COVERAGE, GAPS

NOON_MS = NOON_NS // 1_000_000
SECONDS = 600
MINUTE = Interval.parse("1m")


def trades() -> list[Event]:
    return [
        trade(
            1000 + second,
            exchange="binance",
            at_ns=NOON_NS + second * SECOND_NS,
            received_at_ns=NOON_NS + second * SECOND_NS + 5,
            price_text=f"{100 + second % 7}.{second % 10}",
            quantity_text=f"0.{1 + second % 5}",
        )
        for second in range(SECONDS)
    ]


def candles(of: Sequence[Event]) -> list[Event]:
    log = open_log("memory:")
    log.writer("made").append(of)
    builder = CandleBuilder(MINUTE)
    stream = Stream("binance", "trades", "btc_usdt")
    for frame in read(Places(log), Part(TRADES, [stream]), Range(None, None)):
        builder.add(frame)
    rows = candle_rows(builder.candles(NOON_MS + SECONDS * 1000, "skip"), MINUTE)
    return [replace(each, received_at_ns=NOON_NS) for each in as_candles(rows)]


def books() -> list[Event]:
    """A book that is begun, changed each second, and compared with snapshots."""
    found: list[Event] = [book_at(10, 0)]
    for second in range(1, 61):
        at_ns = NOON_NS + second * SECOND_NS
        found.append(
            delta(
                10 + second,
                10 + second,
                exchange="binance",
                at_ns=at_ns,
                received_at_ns=at_ns,
                bids_raw=write_levels([("99.0", f"{second}.0")]),
            )
        )
        if second % 20 == 0:
            found.append(book_at(10 + second, second))
    return found


def book_at(update_id: int, second: int) -> Event:
    bids = [("99.0", f"{second}.0")] if second else []
    return snapshot(
        update_id,
        exchange="binance",
        received_at_ns=NOON_NS + second * SECOND_NS + 1,
        source="rest",
        bids_raw=write_levels([*bids, ("98.0", "1.0")]),
        asks_raw=write_levels([("101.0", "1.0")]),
    )


def ledger(folder: Path, own_id: int) -> str:
    url = f"sqlite:{folder / 'state.db'}"
    common: dict[str, Any] = {
        "exchange": "binance",
        "symbol": "btc_usdt",
        "log_id": own_id,
        "slot": "a",
        "number": 600,
    }
    end_ms = NOON_MS + SECONDS * 1000
    held = [
        SlotCoverage(
            **common,
            channel="trades",
            by="id",
            runs=(Run(1000, 1599, NOON_MS, end_ms - 1000),),
        ),
        SlotCoverage(
            **common,
            channel="candles_1m",
            by="open_ms",
            runs=(Run(NOON_MS, end_ms - 1, NOON_MS, end_ms - 1),),
        ),
    ]

    async def write() -> None:
        store = await open_store(url)
        for each in held:
            await store.insert_if_absent(COVERAGE, as_document(each))
        await store.close()

    asyncio.run(write())
    return url


Plant = Callable[[list[Stored]], list[Stored]]


@functools.cache
def _right() -> tuple[Stored, ...]:
    """Every record, none of which is wrong."""
    made = trades()
    return tuple(each for some in (made, candles(made), books()) for each in _numbered(some))


def verified(folder: Path, plant: Plant = list, *, sealed: bool = True) -> Report:
    """The report of a market with defects, in a lake or in a log."""
    folder.mkdir(exist_ok=True)
    log, own_id = open_log(f"rocksdb:{folder}"), log_id(folder)
    url = ledger(folder, own_id)
    records = plant(list(_right()))
    if sealed:
        seal(folder / "lake", records, own_id)
        return dataset(log, folder / "lake", url).verify()
    with closing(log.writer("a")) as writer:
        writer.append([each.event for each in records])
    return dataset(log, None, url).verify()


def _numbered(events: Sequence[Event]) -> list[Stored]:
    """Each stream is numbered by itself."""
    found: list[Stored] = []
    for kind in {type(each) for each in events}:
        found += stored([each for each in events if type(each) is kind], "a")
    return found


def without(kind: type[Event], *positions: int) -> Plant:
    def plant(records: list[Stored]) -> list[Stored]:
        mine = [each for each in records if type(each.event) is kind]
        gone = {id(mine[position]) for position in positions}
        return [each for each in records if id(each) not in gone]

    return plant


def changed(kind: type[Event], position: int, **fields: object) -> Plant:
    def plant(records: list[Stored]) -> list[Stored]:
        mine = [each for each in records if type(each.event) is kind]
        target = mine[position]
        event = replace(target.event, **fields)
        new = stored([event], target.slot)[0]
        new = replace(new, number=target.number)
        return [new if each is target else each for each in records]

    return plant


@pytest.mark.parametrize("sealed", [True, False])
def test_right_data_has_no_findings(tmp_path: Path, sealed: bool) -> None:
    report = verified(tmp_path, sealed=sealed)
    assert report.findings == []
    # The first and last minute are left out: trades may be missing before and after.
    assert +report.compared == {"records": 674, "ids": 600, "candles": 8, "snapshots": 3}


def test_a_deleted_trade_is_found_by_its_number_and_by_its_id(tmp_path: Path) -> None:
    report = verified(tmp_path, without(Trade, 300))
    assert {(each.check, each.first, each.last) for each in report.findings} >= {
        ("records", 301, 301),
        ("ids", 1300, 1300),
    }
    assert "candles" in {each.check for each in report.findings}


def test_trades_that_the_ledger_lists_and_nobody_recorded_are_found(tmp_path: Path) -> None:
    report = verified(tmp_path, without(Trade, *range(300, 310)), sealed=False)
    assert [(each.first, each.last) for each in report.findings if each.check == "ids"] == [
        (1300, 1309)
    ]


@pytest.mark.parametrize(
    ("lost", "found"),
    [
        ([("open", 1300, 1309)], []),
        ([("open", 1300, 1305)], [(1306, 1309)]),
        ([("filled", 1300, 1309)], [(1300, 1304)]),
        ([("filled", 1300, 1303), ("open", 1304, 1309)], [(1300, 1303)]),
    ],
)
def test_trades_that_are_known_to_be_lost_are_no_finding(
    tmp_path: Path, lost: list[tuple[GapState, int, int]], found: list[tuple[int, int]]
) -> None:
    """Another log holds the trades from 1305 on: what was filled there is not here."""
    stream: dict[str, Any] = {"exchange": "binance", "channel": "trades", "symbol": "btc_usdt"}
    runs = (Run(1305, 1400, NOON_MS, NOON_MS),)
    other = SlotCoverage(**stream, log_id=7, slot="work-0", number=1, by="id", runs=runs)
    rows = [
        GapRow(**stream, by="id", first=first, last=last, cause="damaged", state=state)
        for state, first, last in lost
    ]

    async def write() -> None:
        store = await open_store(f"sqlite:{tmp_path / 'state.db'}")
        await store.insert_if_absent(COVERAGE, as_document(other))
        for row in rows:
            await store.insert_if_absent(GAPS, as_document(row))
        await store.close()

    asyncio.run(write())

    report = verified(tmp_path, without(Trade, *range(300, 310)))

    ids = [(each.first, each.last) for each in report.findings if each.check == "ids"]
    assert ids == found
    assert "records" not in {each.check for each in report.findings}


@pytest.mark.parametrize(
    "fields", [{"price_text": "103.99"}, {"quantity_text": "0.11"}, {"taker": "sell"}]
)
def test_a_changed_trade_contradicts_its_candle(tmp_path: Path, fields: dict[str, str]) -> None:
    report = verified(tmp_path, changed(Trade, 300, **fields))
    assert [each.check for each in report.findings] == ["candles"]
    assert report.findings[0].at_ms == NOON_MS + 300_000


def test_a_changed_candle_is_found(tmp_path: Path) -> None:
    report = verified(tmp_path, changed(Candle, 4, high_text="999.0"))
    assert [each.problem for each in report.findings] == ["high 999 but 106.9 from trades"]


def test_missing_candles_are_found(tmp_path: Path) -> None:
    report = verified(tmp_path, without(Candle, 4, 5))
    assert [(each.check, each.at_ms) for each in report.findings] == [("ids", NOON_MS + 240_000)]


def test_a_missing_minute_of_trades_is_one_finding_of_each_check(tmp_path: Path) -> None:
    report = verified(tmp_path, without(Trade, *range(240, 300)))
    found = [(each.check, each.first, each.last) for each in report.findings]
    assert found[:2] == [("records", 241, 300), ("ids", 1240, 1299)]
    assert report.findings[2].problem.endswith("but no trades")


def test_a_changed_level_contradicts_the_next_snapshot(tmp_path: Path) -> None:
    levels = write_levels([("97.0", "5.0")])
    report = verified(tmp_path, changed(BookDelta, 5, bids_raw=levels))
    assert {each.check for each in report.findings} == set()
    report = verified(tmp_path / "b", changed(BookDelta, 19, bids_raw=levels))
    assert [each.check for each in report.findings] == ["books"]


def test_a_lost_change_is_found_by_its_number(tmp_path: Path) -> None:
    report = verified(tmp_path, without(BookDelta, 30))
    assert [(each.check, each.first) for each in report.findings] == [("records", 31)]


def test_a_truncated_file_of_the_lake_is_found(tmp_path: Path) -> None:
    verified(tmp_path)
    file = next((tmp_path / "lake" / "trades").rglob("*.parquet"))
    file.write_bytes(file.read_bytes()[:-100])
    report = again(tmp_path)
    assert [(each.check, each.channel) for each in report.findings] == [("files", "trades")]
    assert "bytes instead of" in report.findings[0].problem


def test_a_damaged_list_of_files_is_found(tmp_path: Path) -> None:
    verified(tmp_path)
    listed = sorted((tmp_path / "lake" / "trades" / "_delta_log").glob("*.json"))[0]
    listed.write_bytes(listed.read_bytes()[:-100])
    report = again(tmp_path)
    assert {(each.check, each.channel) for each in report.findings} == {("files", "trades")}


def test_a_changed_byte_of_a_file_is_found(tmp_path: Path) -> None:
    verified(tmp_path)
    rows = table_of(TRADES, _numbered(trades()), log_id(tmp_path))
    assert open_lake(str(tmp_path / "lake")).equal(TRADES, rows)
    assert again(tmp_path).clean
    file = next((tmp_path / "lake" / "trades").rglob("*.parquet"))
    right = file.read_bytes()
    for place in (0.1, 0.3, 0.5, 0.7, 0.9):
        content = bytearray(right)
        content[int(len(content) * place)] ^= 1
        file.write_bytes(content)
        report = again(tmp_path)
        found = [(each.check, each.channel) for each in report.findings]
        assert found == [("files", "trades")], place
        assert report.findings[0].problem.endswith("is changed")


def test_a_verification_writes_nothing_to_the_lake(tmp_path: Path) -> None:
    verified(tmp_path)
    lake = tmp_path / "lake"
    before = {path: path.stat().st_mtime_ns for path in lake.rglob("*")}
    assert again(tmp_path).clean
    assert {path: path.stat().st_mtime_ns for path in lake.rglob("*")} == before


@pytest.mark.parametrize("known", [True, False], ids=["before", "meanwhile"])
def test_rows_that_retention_has_deleted_are_not_missing(tmp_path: Path, known: bool) -> None:
    times = [NOON_NS + day * 86_400 * SECOND_NS for day in range(3)]
    records = stored([trade(i, at_ns=ns, received_at_ns=ns) for i, ns in enumerate(times, 1)], "a")
    seal(tmp_path, records)
    lake = open_lake(str(tmp_path))
    assert lake.delete(TRADES, lake.partitions(TRADES)[1:2])
    places, found = Places(None, Cold(str(tmp_path))), SlotNumbers()
    stream = records[0].stream
    assert list(check_records(places, TRADES, stream, found, lambda: known)) == []
    assert [gap for _, gap in found.gaps()] == [(2, 2)]
    report = dataset(None, tmp_path).verify()
    assert report.clean
    assert "ids of trades: retention has deleted rows" in report.not_checked


def again(folder: Path) -> Report:
    log, url = open_log(f"rocksdb:{folder}"), f"sqlite:{folder / 'state.db'}"
    return dataset(log, folder / "lake", url).verify()


def test_runs_of_numbers_in_any_order() -> None:
    assert list(runs_of(pl.Series([5, 1, 2, 3, 9, 2]))) == [(1, 3), (5, 5), (9, 9)]
    assert list(runs_of(pl.Series([], dtype=pl.Int64))) == []
