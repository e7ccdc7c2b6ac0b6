"""Recorded traffic: what Kraken really sent is read whole, and every checksum in it agrees.

The streams were recorded in version 1 of the protocol, which brings the same books, trades and
tickers as arrays of texts. They are spelled here as version 2 does, digit by digit, and read by the
dialect.
"""

import json
import os
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any
from zlib import crc32

import pytest
from tests.paths import both_paths  # noqa: F401 (each test runs on both)

from penstock.books.rules import BookRules
from penstock.books.streamed import StreamedBook
from penstock.exchanges.base import Info
from penstock.exchanges.kraken.checksum import CHECKSUM
from penstock.exchanges.kraken.rest import KrakenRest
from penstock.exchanges.kraken.stream import KrakenDialect
from penstock.exchanges.kraken.symbols import ASSETS, INFO, info_with
from penstock.market.events import BookDelta, BookSnapshot, Ticker, Trade
from penstock.market.interval import Interval
from penstock.market.levels import read_levels
from penstock.market.symbol import Symbol
from penstock.streaming.dialect import Ack, Received

RENAMED = {"XBT": "BTC", "XDG": "DOGE"}
CHANNELS = {"trade": "trades", "ticker": "tickers", "book-1000": "book_deltas"}
DEEP = BookRules(begins="stream", depth=1000, checksum=CHECKSUM)


@pytest.fixture(scope="module")
def captures() -> Path:
    beside = Path(__file__).parents[4] / "shared" / "captures"
    found = Path(os.environ.get("PENSTOCK_TEST_CAPTURES", beside))
    if not found.is_dir():
        pytest.skip(
            f"no recorded traffic at {found}; PENSTOCK_TEST_CAPTURES may name another place"
        )
    return found


def listing(captures: Path) -> tuple[Info, dict[str, Any]]:
    first = (captures / "cryptofeed" / "KRAKEN.0").read_text().splitlines()[0]
    body = first.partition(": ")[2]
    return INFO.read(body.encode(), 1), json.loads(body)["result"]


def example(captures: Path, what: str) -> bytes:
    return (captures / "xchange" / f"kraken_example-{what}-data.json").read_bytes()


def frames(captures: Path, number: int) -> Iterator[tuple[float, Any]]:
    """(second of receipt, message) of a recorded connection."""
    lines = (captures / "cryptofeed" / f"KRAKEN.ws.{number}.0").read_text().splitlines()
    for line in lines:
        if line[:1].isdigit():
            at_s, _, text = line.partition(": ")
            yield float(at_s), json.loads(text)


def v2_symbol(wsname: str) -> str:
    return "/".join(RENAMED.get(asset, asset) for asset in wsname.split("/"))


def instant(at_s: str) -> str:
    at = datetime.fromtimestamp(int(Decimal(at_s)), UTC)
    return f"{at:%Y-%m-%dT%H:%M:%S}.{int(Decimal(at_s) % 1 * 1_000_000):06}Z"


def v2_levels(rows: list[list[str]]) -> str:
    return "[" + ",".join(f'{{"price":{row[0]},"qty":{row[1]}}}' for row in rows) + "]"


class Spelling:
    """Messages of version 1, spelled as version 2 spells them."""

    def __init__(self) -> None:
        self.trades = 0

    def of(self, message: Any) -> str:
        if isinstance(message, dict):
            return self._event(message)
        *payloads, channel, pair = message[1:]
        symbol = v2_symbol(pair)
        merged = {name: value for payload in payloads if isinstance(payload, dict)
                  for name, value in payload.items()}  # fmt: skip
        if channel == "trade":
            rows = ",".join(self._trade(symbol, row) for row in payloads[0])
            return f'{{"channel":"trade","type":"update","data":[{rows}]}}'
        if channel == "ticker":
            return self._ticker(symbol, merged)
        return self._book(symbol, merged)

    def _event(self, message: dict[str, Any]) -> str:
        if message["event"] == "heartbeat":
            return '{"channel":"heartbeat"}'
        if message["event"] == "systemStatus":
            return '{"channel":"status","type":"update","data":[{"system":"online"}]}'
        channel, _, _ = message["channelName"].partition("-")
        result = {"channel": channel, "symbol": v2_symbol(message["pair"])}
        answer = {"method": "subscribe", "result": result, "success": True, "req_id": 1}
        return json.dumps(answer, separators=(",", ":"))

    def _trade(self, symbol: str, row: list[str]) -> str:
        self.trades += 1
        side = {"b": "buy", "s": "sell"}[row[3]]
        return (
            f'{{"symbol":"{symbol}","side":"{side}","price":{row[0]},"qty":{row[1]},'
            f'"ord_type":"market","trade_id":{self.trades},"timestamp":"{instant(row[2])}"}}'
        )

    def _ticker(self, symbol: str, t: dict[str, Any]) -> str:
        return (
            f'{{"channel":"ticker","type":"update","data":[{{"symbol":"{symbol}",'
            f'"bid":{t["b"][0]},"bid_qty":{t["b"][2]},"ask":{t["a"][0]},"ask_qty":{t["a"][2]},'
            f'"last":{t["c"][0]},"volume":{t["v"][1]},"vwap":{t["p"][1]},"low":{t["l"][1]},'
            f'"high":{t["h"][1]},"change":-0.1,"change_pct":-0.17}}]}}'
        )

    def _book(self, symbol: str, book: dict[str, Any]) -> str:
        kind = "snapshot" if "as" in book else "update"
        bids, asks = book.get("bs", book.get("b", [])), book.get("as", book.get("a", []))
        # Version 1 sends no checksum with a snapshot.
        proof = book.get("c") or crc32(b"".join(map(digits, [*asks[:10], *bids[:10]])))
        at_s = max((row[2] for row in [*bids, *asks]), key=Decimal)
        return (
            f'{{"channel":"book","type":"{kind}","data":[{{"symbol":"{symbol}",'
            f'"bids":{v2_levels(bids)},"asks":{v2_levels(asks)},"checksum":{proof},'
            f'"timestamp":"{instant(at_s)}"}}]}}'
        )


def digits(row: list[str]) -> bytes:
    return "".join(text.replace(".", "").lstrip("0") for text in row[:2]).encode()


def read_all(captures: Path, number: int) -> Iterator[tuple[Any, list[Received]]]:
    """Every recorded message, and what the dialect says to it."""
    info, _ = listing(captures)
    dialect, spelling = KrakenDialect(info.symbols), Spelling()
    for channel in CHANNELS.values():
        dialect.streams(channel, list(info.symbols))
    for at_s, message in frames(captures, number):
        yield message, dialect.read(spelling.of(message), int(at_s * 1e9))


def count(captures: Path, number: int) -> Counter[type]:
    return Counter(type(each) for _, said in read_all(captures, number) for each in said)


def test_every_recorded_frame_becomes_the_event_it_should(captures: Path) -> None:
    assert count(captures, 48) == {Ack: 10, Trade: 10}, "eight frames hold ten"
    assert count(captures, 49) == {Ack: 10, Ticker: 18}
    assert count(captures, 50) == {Ack: 10, BookSnapshot: 10, BookDelta: 4_269}


def test_recorded_trades_keep_their_digits_sides_and_times(captures: Path) -> None:
    seen = 0
    for message, said in read_all(captures, 48):
        trades = [each for each in said if isinstance(each, Trade)]
        for row, trade in zip(message[1] if trades else (), trades, strict=True):
            assert (trade.price_text, trade.quantity_text) == (row[0], row[1])
            assert trade.taker == {"b": "buy", "s": "sell"}[row[3]]
            assert trade.at_ns == int(Decimal(row[2]) * 10**9)
            seen += 1
    assert seen == 10


def test_recorded_tickers_keep_their_digits(captures: Path) -> None:
    for message, said in read_all(captures, 49):
        for ticker in said:
            if isinstance(ticker, Ticker):
                told = message[1]
                assert (ticker.bid_text, ticker.ask_text) == (told["b"][0], told["a"][0])
                assert (ticker.last_text, ticker.volume_text) == (told["c"][0], told["v"][1])


def test_every_recorded_checksum_agrees(captures: Path) -> None:
    books: dict[Symbol, StreamedBook] = {}
    agreed = 0
    for _, said in read_all(captures, 50):
        for each in said:
            if isinstance(each, BookSnapshot):
                book = books[each.symbol] = StreamedBook(DEEP)
                book.begin(each)
            elif isinstance(each, BookDelta):
                book = books[each.symbol]
                book.receive(each)
                agreed += book.state == "synced"
                assert book.at_ns == each.at_ns
    assert agreed == 4_269
    assert len(books) == 10
    assert [book.resyncs for book in books.values()] == [0] * 10


def test_a_recorded_change_that_is_lost_is_noticed(captures: Path) -> None:
    """Of a book that is ten deep, as the dialect asks for, nothing can be lost unseen."""
    (symbol, told) = next(
        (said[0].symbol, said[0])
        for _, said in read_all(captures, 50)
        if said and isinstance(said[0], BookSnapshot)
    )
    assert isinstance(told, BookSnapshot)
    book = StreamedBook(DEEP)
    book.begin(told)
    top = {text for side in (told.bids_raw, told.asks_raw) for text, _ in read_levels(side)[:10]}
    lost = False
    for _, said in read_all(captures, 50):
        for each in said:
            if isinstance(each, BookDelta) and each.symbol == symbol and book.state == "synced":
                levels = read_levels(each.bids_raw) + read_levels(each.asks_raw)
                if not lost and any(price in top for price, _ in levels):
                    lost = True
                    continue
                book.receive(each)
    assert lost
    assert book.state == "stale"
    assert "checksum" in book.reason


def test_every_recorded_pair_with_a_wsname_maps_both_ways(captures: Path) -> None:
    info, pairs = listing(captures)
    named = {pair_id: pair for pair_id, pair in pairs.items() if "wsname" in pair}

    assert (len(pairs), len(named), len(info.symbols)) == (304, 293, 293)
    for pair_id, pair in named.items():
        symbol = info.symbols.symbol(pair_id)
        assert symbol.unified == info.symbols.stream_name(symbol) == v2_symbol(pair["wsname"])
        assert info.symbols.native(symbol) == pair_id
        for typed in (symbol.slug, symbol.unified, pair_id, pair["altname"], pair["wsname"]):
            assert info.symbols.find(typed) == symbol


def test_the_assets_chain_leads_to_the_same_names(captures: Path) -> None:
    """XXBT is called XBT by its asset and BTC by everybody; no letter is ever stripped."""
    assets = json.loads(example(captures, "assets"))["result"]
    body = example(captures, "assetpairs")
    names = ASSETS.read(example(captures, "assets"), 1)
    info, pairs = info_with(names).read(body, 1), json.loads(body)["result"]
    without = json.loads(body)
    for pair in without["result"].values():
        if "wsname" in pair:
            pair["wsname"] = "?/?"  # only says that the pair can be streamed
    assert list(info_with(names).read(json.dumps(without).encode(), 1).symbols) == list(
        info.symbols
    )

    def name(asset: str) -> str:
        altname: str = assets[asset]["altname"]
        return RENAMED.get(altname, altname)

    assert (len(assets), len(pairs), len(info.symbols)) == (27, 86, 75)
    for pair_id, pair in pairs.items():
        symbol = info.symbols.get(pair_id)
        assert (symbol is None) == pair_id.endswith(".d")
        if symbol is not None:
            assert (symbol.base, symbol.quote) == (name(pair["base"]), name(pair["quote"]))


def test_recorded_candles_are_read_row_by_row(captures: Path) -> None:
    body = example(captures, "ohlc")
    (rows,) = [rows for key, rows in json.loads(body)["result"].items() if key != "last"]
    info = INFO.read(example(captures, "assetpairs"), 1)
    request = KrakenRest(info.symbols).candles(
        Symbol("BTC", "USD"), Interval.parse("1m"), 0, 1 << 50
    )
    candles = request.read(body, 1)

    assert len(candles) == len(rows) == 720
    assert [c.open_ms for c in candles] == [row[0] * 1000 for row in rows]
    assert [(c.open_text, c.volume_text, c.trades) for c in candles] == [
        (row[1], row[6], row[7]) for row in rows
    ]
    assert [c.vwap_text for c in candles] == [row[5] for row in rows]
    assert [c.closed for c in candles] == [True] * 719 + [False]
