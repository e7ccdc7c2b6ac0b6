"""Recorded traffic: what Binance really sent is read whole, frame by frame and row by row."""

import json
import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from tests.paths import both_paths  # noqa: F401 (each test runs on both)

from penstock.books.order_book import OrderBook
from penstock.errors import UnknownSymbol
from penstock.exchanges.base import Info
from penstock.exchanges.binance.rest import BinanceRest
from penstock.exchanges.binance.stream import BinanceDialect
from penstock.exchanges.binance.symbols import INFO
from penstock.market.events import AggTrade, BookDelta, BookSnapshot, Candle, Ticker
from penstock.market.interval import MINUTE_MS, Interval
from penstock.market.levels import read_levels
from penstock.market.symbol import Symbol
from penstock.streaming.dialect import Received
from penstock.throttle.gate import Limit

CHANNELS = {
    "aggTrade": "agg_trades",
    "depth@100ms": "book_deltas",
    "bookTicker": "tickers",
    "kline_1m": "candles_1m",
}
BTC = Symbol("BTC", "USDT")


@pytest.fixture(scope="module")
def captures() -> Path:
    beside = Path(__file__).parents[4] / "shared" / "captures"
    found = Path(os.environ.get("PENSTOCK_TEST_CAPTURES", beside))
    if not found.is_dir():
        pytest.skip(
            f"no recorded traffic at {found}; PENSTOCK_TEST_CAPTURES may name another place"
        )
    return found


def answers(file: Path) -> Iterator[tuple[str, bytes]]:
    """(address, body) of recorded answers."""
    for line in file.read_text().splitlines():
        url, arrow, rest = line.partition(" -> ")
        if arrow:
            yield url, rest.partition(": ")[2].encode()


def info_of(captures: Path, name: str) -> tuple[Info, list[dict[str, Any]]]:
    ((_, body),) = answers(captures / "cryptofeed" / f"{name}.0")
    return INFO.read(body, 1), json.loads(body)["symbols"]


def read_all(captures: Path, name: str) -> list[Received]:
    """Everything a recorded connection received, as a dialect that asked for it reads it."""
    info, _ = info_of(captures, name)
    dialect = BinanceDialect(info.symbols)
    received: list[Received] = []
    for line in (captures / "cryptofeed" / f"{name}.ws.1.0").read_text().splitlines():
        if line.startswith("wss://"):
            streams = parse_qs(urlsplit(line.partition(" <-> ")[0]).query)["streams"][0]
            for stream in streams.split("/"):
                native, _, kind = stream.partition("@")
                names = dialect.streams(CHANNELS[kind], [info.symbols.symbol(native.upper())])
                assert names == [stream]
        elif line[:1].isdigit():
            at_s, _, frame = line.partition(": ")
            received += dialect.read(frame.encode(), int(float(at_s) * 1e9))
    return received


def recorded(captures: Path, path: str) -> list[dict[str, Any]]:
    file = captures / "gocryptotrader" / "binance_spot_public_http.json"
    routes = json.loads(file.read_text())["routes"]
    found: list[dict[str, Any]] = routes[path]["GET"]
    return found


@pytest.mark.parametrize(
    ("name", "counts"),
    [
        ("BINANCE", {BookDelta: 177, Ticker: 84, AggTrade: 2, Candle: 2}),
        ("BINANCE_US", {BookDelta: 336, Ticker: 128, AggTrade: 11, Candle: 5}),
    ],
)
def test_every_recorded_frame_becomes_the_event_it_should(
    captures: Path, name: str, counts: dict[type, int]
) -> None:
    assert Counter(type(event) for event in read_all(captures, name)) == counts


@pytest.mark.parametrize("name", ["BINANCE", "BINANCE_US"])
def test_recorded_deltas_follow_each_other_and_join_their_snapshots(
    captures: Path, name: str
) -> None:
    info, _ = info_of(captures, name)
    rest = BinanceRest(info.symbols)
    joined = 0
    for url, body in answers(captures / "cryptofeed" / f"{name}.http.0.0"):
        native = parse_qs(urlsplit(url).query)["symbol"][0]
        symbol = info.symbols.symbol(native)
        snapshot = rest.book(symbol).read(body, 1)
        assert isinstance(snapshot, BookSnapshot)
        book, last_id = OrderBook(), snapshot.update_id
        book.load(read_levels(snapshot.bids_raw), read_levels(snapshot.asks_raw))
        for delta in read_all(captures, name):
            if isinstance(delta, BookDelta) and delta.symbol == symbol:
                first_id, final_id = delta.first_update_id, delta.final_update_id
                assert first_id is not None
                assert final_id is not None
                if final_id <= last_id:
                    continue
                assert first_id <= last_id + 1 <= final_id
                book.apply(read_levels(delta.bids_raw), read_levels(delta.asks_raw))
                last_id = final_id
        assert not book.crossed()
        joined += 1
    assert joined == 4


@pytest.mark.parametrize("name", ["BINANCE", "BINANCE_US"])
def test_every_recorded_symbol_maps_both_ways(captures: Path, name: str) -> None:
    info, rows = info_of(captures, name)
    check_both_ways(info, rows)
    if name == "BINANCE":
        assert len(rows) == 1695


def test_the_small_listing_maps_both_ways_too(captures: Path) -> None:
    (answer,) = recorded(captures, "/api/v3/exchangeInfo")
    info = INFO.read(json.dumps(answer["data"]).encode(), 1)

    assert len(info.symbols) == 25
    check_both_ways(info, answer["data"]["symbols"])


def check_both_ways(info: Info, rows: list[dict[str, Any]]) -> None:
    assert len(info.symbols) == len(rows) == len(set(info.symbols))
    for row in rows:
        symbol = info.symbols.symbol(row["symbol"])
        assert (symbol.base, symbol.quote) == (row["baseAsset"], row["quoteAsset"])
        assert info.symbols.native(symbol) == row["symbol"]
        for typed in (symbol.slug, symbol.unified, row["symbol"], row["symbol"].lower()):
            assert info.symbols.find(typed) == symbol


def test_a_mistyped_symbol_of_many_is_named_with_near_matches(captures: Path) -> None:
    info, _ = info_of(captures, "BINANCE")
    with pytest.raises(UnknownSymbol) as caught:
        info.symbols.find("btc_ustd")
    assert "btc_usdt" in caught.value.near


def test_the_recorded_limits_are_those_of_their_day(captures: Path) -> None:
    info, _ = info_of(captures, "BINANCE")

    assert info.limits == (
        Limit(1200, MINUTE_MS, "weight"),
        Limit(6100, 5 * MINUTE_MS, "request"),
    )


def test_recorded_answers_are_read_row_by_row(captures: Path) -> None:
    (small,) = recorded(captures, "/api/v3/exchangeInfo")
    info = INFO.read(json.dumps(small["data"]).encode(), 1)
    rest = BinanceRest(info.symbols)
    page, candles = [], 0
    for answer in recorded(captures, "/api/v3/trades"):
        page.append(rest.recent_trades(BTC).read(json.dumps(answer["data"]).encode(), 1))
    assert max(map(len, page)) == 1000
    longest = max(page, key=len)
    assert [trade.id for trade in longest] == list(range(longest[0].id, longest[0].id + 1000))
    for answer in recorded(captures, "/api/v3/klines"):
        body = json.dumps(answer["data"]).encode()
        rows = rest.candles(BTC, Interval.parse("1m"), 0, 1 << 60).read(body, 1)
        assert [row.open_ms for row in rows] == [row[0] for row in answer["data"]]
        taken = [(row.taker_buy_volume_text, row.taker_buy_quote_volume_text) for row in rows]
        assert taken == [(row[9], row[10]) for row in answer["data"]]
        assert {row.first_trade_id for row in rows} <= {None}, "requests do not tell them"
        candles += len(rows)
    assert candles == 3396
    (tickers,) = [a for a in recorded(captures, "/api/v3/ticker/24hr") if "%5B" in a["queryString"]]
    (first, _) = rest.tickers([BTC]).read(json.dumps(tickers["data"]).encode(), 1)
    assert (first.symbol, first.bid_text, first.at_ms) == (BTC, "69624.00000000", 1730439018472)
    for answer in recorded(captures, "/api/v3/depth"):
        snapshot = rest.book(BTC).read(json.dumps(answer["data"]).encode(), 1)
        assert snapshot.update_id == answer["data"]["lastUpdateId"]
        assert len(snapshot.bids) == len(answer["data"]["bids"]) > 0
