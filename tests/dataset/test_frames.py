"""Frames have the documented columns and types, from the log, the lake or both."""

from decimal import Decimal
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pytest
from deltalake import DeltaTable
from tests.dataset.stored import NOON_NS, SECOND_NS, dataset, seal, stored
from tests.events import NOTHING, candle, delta, snapshot, ticker, trade

from penstock import GapWarning
from penstock.dataset.dataset import Dataset
from penstock.errors import BadQuery, BadTime, NotCollected, StorageError, UnknownInterval
from penstock.market.events import AggTrade, Event
from penstock.market.levels import write_levels
from penstock.market.symbol import Symbol
from penstock.storage.log import open_log

INSTANT = pl.Datetime("us", "UTC")
BTC = Symbol("BTC", "USDT")
LEVELS = pl.List(pl.Struct({"price": pl.Float64, "quantity": pl.Float64}))
ENDING = {
    "source": pl.String, "received": INSTANT, "time_ns": pl.Int64, "received_ns": pl.Int64,
}  # fmt: skip
TRADE = {
    "exchange": pl.String, "symbol": pl.String, "time": INSTANT, "id": pl.Int64,
    "price": pl.Float64, "quantity": pl.Float64, "taker": pl.String, **ENDING,
}  # fmt: skip


def at(second: int) -> dict[str, Any]:
    return {"at_ns": NOON_NS + second * SECOND_NS, "received_at_ns": NOON_NS + second * SECOND_NS}


EVENTS: list[Event] = [
    *(trade(i, **at(i), price_text=f"{100 + i}.10", quantity_text="0.50") for i in range(1, 11)),
    AggTrade(
        exchange="toy", symbol=BTC, id=1, first_trade_id=1, last_trade_id=2, price_text="1",
        quantity_text="2", taker="sell", **at(1),
    ),
    *(candle(NOON_NS // 1_000_000 + i * 60_000, received_at_ns=NOON_NS + i) for i in range(3)),
    snapshot(5, received_at_ns=NOON_NS, bids_raw=write_levels([("9.5", "1")]), asks_raw=NOTHING),
    delta(6, 7, **at(1), bids_raw=write_levels([("9.5", "0"), ("9.25", "3")]), asks_raw=NOTHING),
    ticker(NOON_NS, bid_text="1.5", ask_text="2.5"),
]  # fmt: skip


@pytest.fixture(scope="module", params=["log", "lake", "both"])
def data(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    """Of all tests, which only read it."""
    lake = tmp_path_factory.mktemp("lake")
    log = open_log("memory:")
    written = log.writer("a").append(EVENTS)
    if request.param == "log":
        return dataset(log)
    seal(lake, written)
    return dataset(log if request.param == "both" else None, lake)


def test_trades_have_these_types(data: Dataset) -> None:
    query = data.trades("BTC/USDT", on_gap="ignore")

    frame = query.polars()
    assert dict(frame.schema) == dict(query.schema) == TRADE
    assert frame["price"].to_list() == [100 + i + 0.1 for i in range(1, 11)]
    assert frame.row(0, named=True)["time_ns"] == NOON_NS + SECOND_NS
    assert query.arrow().schema.field("time").type == pa.timestamp("us", tz="UTC")
    assert query.pandas().dtypes.astype(str).to_dict() == {
        "exchange": "str", "symbol": "str", "time": "datetime64[us, UTC]", "id": "int64",
        "price": "float64", "quantity": "float64", "taker": "str", "source": "str",
        "received": "datetime64[us, UTC]", "time_ns": "int64", "received_ns": "int64",
    }  # fmt: skip
    assert query.duckdb().aggregate("count(*)").fetchall() == [(10,)]
    assert query.lazy().collect().equals(frame)
    assert query.arrow_batches().read_all().num_rows == 10
    assert [event.id for event in query] == list(range(1, 11))


def test_numbers_may_be_exact(data: Dataset) -> None:
    exact = data.trades(numbers="decimal", on_gap="ignore").polars()
    texts = data.trades(numbers="text", on_gap="ignore").polars()

    assert exact.schema["price"] == pl.Decimal(38, 18)
    assert exact["price"][0] == Decimal("101.1")
    assert texts["price"][0] == "101.10"
    assert texts["quantity"][0] == "0.50"


def test_a_range_includes_its_beginning_and_not_its_end(data: Dataset) -> None:
    since, until = NOON_NS + 2 * SECOND_NS, NOON_NS + 5 * SECOND_NS
    query = data.trades(since=since, until=until, on_gap="ignore")

    assert query.polars()["id"].to_list() == [2, 3, 4]
    assert [event.id for event in query] == [2, 3, 4]


def test_a_filter_of_a_lazy_frame_narrows_what_is_read(data: Dataset) -> None:
    lazy = data.trades(on_gap="ignore").lazy()
    time = pl.lit(NOON_NS // 1000 + 3_000_000).cast(INSTANT)

    assert lazy.filter(pl.col("time") >= time).select("id").collect()["id"][0] == 3
    assert lazy.filter(pl.col("symbol") == "ETH/USDT").collect().height == 0
    assert lazy.head(2).collect()["id"].to_list() == [1, 2]


def test_other_channels_have_frames_too(data: Dataset) -> None:
    candles = data.candles("1m", on_gap="ignore").polars()
    assert candles["time"].is_sorted()
    assert candles.height == 3
    assert data.agg_trades(on_gap="ignore").polars()["last_trade_id"].to_list() == [2]
    assert data.tickers(on_gap="ignore").polars()["bid"].to_list() == [1.5]
    assert data.tickers_24h(on_gap="ignore").polars().height == 0


def test_books_are_changes_and_snapshots(data: Dataset) -> None:
    books = data.books(on_gap="ignore").polars()

    assert books.schema["bids"] == LEVELS
    assert books["is_snapshot"].to_list() == [True, False]
    assert books["bids"][1].to_list() == [
        {"price": 9.5, "quantity": 0.0}, {"price": 9.25, "quantity": 3.0},
    ]  # fmt: skip


def test_columns_may_have_the_names_of_tardis(data: Dataset) -> None:
    trades = data.trades(columns="tardis", on_gap="ignore").polars()
    assert trades.columns == [
        "exchange", "symbol", "timestamp", "local_timestamp", "id", "side", "price", "amount",
    ]  # fmt: skip
    assert trades["timestamp"][0] == NOON_NS // 1000 + 1_000_000
    query = data.books(columns="tardis", on_gap="ignore")
    books = query.polars()
    assert dict(books.schema) == dict(query.schema)
    assert books.rows()[-1][4:] == (False, "bid", 9.25, 3.0)
    quotes = data.tickers(columns="tardis", on_gap="ignore").polars()
    assert quotes.rows()[0][4:] == (None, 2.5, 1.5, None)
    with pytest.raises(BadQuery, match="Tardis has no columns for candles"):
        data.candles("1m", columns="tardis")


def test_stored_columns_are_available_as_they_are(data: Dataset) -> None:
    frame = data.trades(columns="stored", on_gap="ignore").polars()

    assert {"slot", "number", "price_digits", "record"} <= set(frame.columns)


def test_a_range_without_data_is_an_empty_frame(data: Dataset) -> None:
    query = data.trades(since="2020-01-01", until="2020-01-02", on_gap="ignore")

    assert query.polars().is_empty()
    assert dict(query.polars().schema) == TRADE
    assert list(query) == []


def test_a_kind_of_data_that_was_not_collected_is_said(data: Dataset) -> None:
    with pytest.warns(GapWarning, match="nothing of this kind was collected"):
        assert data.candles("1h", "BTC/USDT").polars().is_empty()


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"symbols": "XRP/USDT"}, NotCollected),
        ({"exchange": "elsewhere"}, NotCollected),
        ({"since": "tomorrow"}, BadTime),
        ({"on_gap": "panic"}, BadQuery),
        ({"numbers": "int"}, BadQuery),
        ({"columns": "tardi"}, BadQuery),
    ],
)
def test_bad_arguments_are_refused(
    data: Dataset, arguments: dict[str, str], error: type[Exception]
) -> None:
    with pytest.raises(error):
        data.trades(**arguments)  # type: ignore[arg-type]


def test_an_unknown_interval_is_refused(data: Dataset) -> None:
    with pytest.raises(UnknownInterval):
        data.candles("1 minute")


def test_files_of_other_symbols_are_not_read(tmp_path: Path) -> None:
    for base in ("BTC", "ETH"):
        seal(tmp_path, stored([trade(1, Symbol(base, "USDT"), at_ns=NOON_NS)], base))
    data = dataset(None, tmp_path)
    assert len(data.streams()) == 2  # all files are read once, as nothing is known of coverage
    # Of the first file the schema is read.
    files = DeltaTable(str(tmp_path / "trades")).file_uris()
    kept, lost = (pl.read_parquet(each)["symbol"][0] for each in files)
    Path(files[1]).unlink()

    assert data.trades(kept, on_gap="ignore").polars().height == 1
    with pytest.raises(StorageError, match="is missing"):
        data.trades(lost, on_gap="ignore").polars()


def test_a_damaged_file_of_the_lake_is_named(tmp_path: Path) -> None:
    log = open_log("memory:")
    seal(tmp_path, log.writer("a").append(EVENTS))
    file = next((tmp_path / "trades").rglob("*.parquet"))
    file.write_bytes(file.read_bytes()[:-50])

    with pytest.raises(StorageError, match="damaged or missing"):
        dataset(None, tmp_path).trades(on_gap="ignore").polars()
