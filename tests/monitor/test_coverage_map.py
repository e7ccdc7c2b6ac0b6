"""The coverage map, read from the ledger page by page, on every store."""

import time
from pathlib import Path

from penstock.coverage.gap_rows import GapRows
from penstock.coverage.model import Run, SlotCoverage
from penstock.coverage.writing import write_coverage
from penstock.monitor.cells import Columns
from penstock.monitor.coverage_map import MapSeries, read_map
from penstock.monitor.gaps import GapFilter, read_gaps
from penstock.monitor.monitor import FleetMonitor
from penstock.monitor.series import SeriesFilter, is_key
from penstock.storage.state import StateStore, open_store
from penstock.storage.state.schema import COVERAGE, GAPS

from .test_gaps import gap

DAY_MS = 86_400_000
TEN_DAYS = Columns(0, DAY_MS, 10)


def held(
    symbol: str, *days: tuple[int, int], channel: str = "trades", slot: str = "a"
) -> SlotCoverage:
    """Ten ids a day, of whole days."""
    return SlotCoverage(
        exchange="binance", channel=channel, symbol=symbol, log_id=1, slot=slot, number=1, by="id",
        runs=tuple(
            Run(first * 10, last * 10 - 1, first * DAY_MS, last * DAY_MS) for first, last in days
        ),
    )  # fmt: skip


async def every(
    store: StateStore, limit: int, wanted: SeriesFilter | None = None
) -> list[MapSeries]:
    """All series, page by page."""
    found: list[MapSeries] = []
    after = None
    while True:
        page = await read_map(store, TEN_DAYS, wanted or SeriesFilter(), limit, after)
        assert len(page.series) <= limit
        found += page.series
        after = page.more
        if after is None:
            return found
        assert is_key(after)
        assert page.series


async def test_pages_have_every_series_once(store: StateStore) -> None:
    await write_coverage(
        store,
        [
            held("btc_usdt", (0, 3), (4, 6)),
            held("btc_usdt", (3, 4), slot="b"),
            held("eth_usdt", (1, 2), (3, 4)),
            held("eth_usdt", (0, 9), channel="agg_trades"),
            held("xrp_usdt", (2, 5)),
        ],
    )
    rows = GapRows(store)
    await rows.open(gap(20, 29, symbol="eth_usdt", since_ms=2 * DAY_MS, until_ms=3 * DAY_MS))
    # Of a series of which nothing is held.
    await rows.open(gap(20, 29, symbol="dot_usdt", since_ms=2 * DAY_MS, until_ms=3 * DAY_MS))
    await rows.open(gap(40, 49, symbol="xrp_usdt", since_ms=4 * DAY_MS, until_ms=5 * DAY_MS))
    await rows.mark_filled(gap(1, 1, symbol="xrp_usdt").stream, "id", 40, 49)

    expected = [
        ("agg_trades", "ETH/USDT", "fffffffff."),
        ("trades", "BTC/USDT", "ffffff...."),
        ("trades", "DOT/USDT", "..g......."),
        ("trades", "ETH/USDT", ".fgf......"),
        ("trades", "XRP/USDT", "..ffF....."),
    ]
    for limit in (1, 2, 3, 100):
        shown = await every(store, limit)
        assert [(each.channel, each.symbol, each.cells) for each in shown] == expected
        assert [each.share for each in shown][:3] == [1.0, 1.0, 0.0]
    only = SeriesFilter(channel="trades", symbol="eth_usdt")
    assert [each.cells for each in await every(store, 1, only)] == [".fgf......"]


async def test_documents_of_a_newer_version_are_left_out(store: StateStore) -> None:
    await write_coverage(store, [held("btc_usdt", (0, 3))])
    place = {"exchange": "binance", "channel": "trades", "symbol": "btc_usdt"}
    await store.insert_if_absent(COVERAGE, {"id": "new", **place, "by": "magic"})
    await store.insert_if_absent(GAPS, {"id": "new", **place, "by": "magic", "state": "open"})
    assert [each.cells for each in await every(store, 1)] == ["fff......."]
    assert (await read_gaps(store, GapFilter(), 10)).items == []


async def test_an_empty_store_has_an_empty_map(store: StateStore) -> None:
    found = await read_map(store, TEN_DAYS, SeriesFilter(), 10)
    assert (found.series, found.more, found.columns) == ([], None, 10)
    assert (await FleetMonitor().collected(store)).items == []


async def test_collected_markets_are_those_of_the_ledger(store: StateStore) -> None:
    await write_coverage(
        store,
        [
            held("btc_usdt", (0, 3)),
            held("btc_usdt", (0, 5), channel="agg_trades"),
            held("eth_usdt"),
        ],
    )
    shown = (await FleetMonitor().collected(store)).items
    assert [(each.symbol, each.channels, each.last_ms) for each in shown] == [
        ("BTC/USDT", ["agg_trades", "trades"], 5 * DAY_MS),
        ("ETH/USDT", ["trades"], None),
    ]


async def test_a_thousand_series_are_read_fast(tmp_path: Path) -> None:
    store = await open_store(f"sqlite:{tmp_path / 'state.db'}")
    days = [(day, day + 1) for day in range(0, 60, 2)]
    documents = [held(f"s{number:04}_usdt", *days) for number in range(1_000)]
    await write_coverage(store, documents)
    started = time.process_time()
    found = await read_map(store, Columns(0, DAY_MS, 60), SeriesFilter(), 1_000)
    took_s = time.process_time() - started
    assert len(found.series) == 1_000
    assert {each.cells for each in found.series} == {"f0" * 29 + "f."}
    await store.close()
    assert took_s < 3, f"{took_s:.2f} s"
