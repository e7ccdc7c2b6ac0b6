"""Recorded traffic: what Coinbase really sent is read whole, ids and books hold together.

The books were recorded from the channel that has since been closed to strangers, ``level2``; its
frames are those of ``level2_batch`` with one change each.
"""

import json
import os
from collections import Counter, defaultdict
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from tests.paths import both_paths  # noqa: F401 (each test runs on both)

from penstock.books.streamed import StreamedBook
from penstock.exchanges.base import Info
from penstock.exchanges.coinbase.rest import CoinbaseRest
from penstock.exchanges.coinbase.stream import CoinbaseDialect
from penstock.exchanges.coinbase.symbols import INFO
from penstock.market.events import BookDelta, BookSnapshot, Ticker, Trade
from penstock.market.interval import Interval
from penstock.market.symbol import Symbol
from penstock.streaming.dialect import Ack, Received


@pytest.fixture(scope="module")
def captures() -> Path:
    beside = Path(__file__).parents[4] / "shared" / "captures"
    found = Path(os.environ.get("PENSTOCK_TEST_CAPTURES", beside))
    if not found.is_dir():
        pytest.skip(
            f"no recorded traffic at {found}; PENSTOCK_TEST_CAPTURES may name another place"
        )
    return found


def products(captures: Path) -> bytes:
    first = (captures / "cryptofeed" / "COINBASE.0").read_text().splitlines()[0]
    return first.partition(": ")[2].encode()


def listing(captures: Path) -> Info:
    return INFO.read(products(captures), 1)


def read_all(captures: Path) -> Iterator[tuple[Any, list[Received]]]:
    """Every recorded frame, decoded by somebody else, and what the dialect says to it."""
    symbols = listing(captures).symbols
    dialect = CoinbaseDialect(symbols)
    for channel in dialect.channels:
        dialect.streams(channel, list(symbols))
    lines = (captures / "cryptofeed" / "COINBASE.ws.28.0").read_text().splitlines()
    for line in lines:
        if line[:1].isdigit():
            at_s, _, text = line.partition(": ")
            yield json.loads(text), dialect.read(text.encode(), int(float(at_s) * 1e9))


def test_every_recorded_frame_becomes_the_event_it_should(captures: Path) -> None:
    kinds: Counter[tuple[str, type]] = Counter()
    for message, said in read_all(captures):
        (each,) = said
        kinds[message["type"], type(each)] += 1

    assert kinds == {
        ("subscriptions", Ack): 3,
        ("snapshot", BookSnapshot): 10,
        ("l2update", BookDelta): 9_719,
        ("ticker", Ticker): 107,
        ("match", Trade): 97,
        ("last_match", Trade): 10,
    }


def test_recorded_trades_are_consecutive_and_tell_the_takers_side(captures: Path) -> None:
    ids: dict[Symbol, list[int]] = defaultdict(list)
    takers: dict[int, str] = {}
    for message, said in read_all(captures):
        for each in said:
            if isinstance(each, Trade):
                ids[each.symbol].append(each.id)
                takers[each.id] = each.taker
                assert (each.price_text, each.quantity_text) == (message["price"], message["size"])
            elif isinstance(each, Ticker) and message["trade_id"] in takers:
                # A ticker tells the taker's side, of the same trade.
                assert takers[message["trade_id"]] == message["side"]

    assert sum(map(len, ids.values())) == 107
    for seen in ids.values():
        assert [b - a for a, b in pairwise(seen)] == [1] * (len(seen) - 1)


def test_recorded_tickers_keep_their_digits(captures: Path) -> None:
    for message, said in read_all(captures):
        for each in said:
            if isinstance(each, Ticker):
                assert (each.bid_text, each.ask_text, each.last_text, each.volume_text) == (
                    message["best_bid"], message["best_ask"], message["price"],
                    message["volume_24h"],
                )  # fmt: skip
                assert each.update_id == message["sequence"]


def test_recorded_books_never_cross_and_end_as_their_changes_say(captures: Path) -> None:
    books: dict[Symbol, StreamedBook] = {}
    latest: dict[tuple[Symbol, str, float], float] = {}
    for message, said in read_all(captures):
        for each in said:
            if isinstance(each, BookSnapshot):
                books[each.symbol] = StreamedBook(CoinbaseDialect.books)
                books[each.symbol].begin(each)
                for side, name in (("buy", "bids"), ("sell", "asks")):
                    for price, size in message[name]:
                        latest[each.symbol, side, float(price)] = float(size)
            elif isinstance(each, BookDelta):
                books[each.symbol].receive(each)
                for side, price, size in message["changes"]:
                    latest[each.symbol, side, float(price)] = float(size)

    assert len(books) == 10
    for symbol, sync in books.items():
        assert (sync.state, sync.resyncs) == ("synced", 0)
        assert sync.levels is not None
        kept = {
            (symbol, side, float(price)): float(size)
            for side, levels in zip(("buy", "sell"), sync.levels.texts(), strict=True)
            for price, size in levels
        }
        told = {key: size for key, size in latest.items() if key[0] is symbol and size}
        assert kept == told


def test_every_recorded_product_maps_both_ways(captures: Path) -> None:
    for body in (
        products(captures),
        (captures / "xchange" / "coinbase_products.json").read_bytes(),
    ):
        rows, symbols = json.loads(body), INFO.read(body, 1).symbols
        assert len(symbols) == len(rows) > 0
        for row in rows:
            symbol = symbols.symbol(row["id"])
            assert symbols.native(symbol) == row["id"]
            assert (symbol.base, symbol.quote) == (row["base_currency"], row["quote_currency"])
            for typed in (symbol.slug, symbol.unified, row["id"], row["id"].lower()):
                assert symbols.find(typed) is symbol


def test_recorded_candles_are_read_row_by_row(captures: Path) -> None:
    body = (captures / "xchange" / "coinbase_candles.json").read_bytes()
    rows = json.loads(body, parse_float=str)[::-1]
    symbols = listing(captures).symbols
    request = CoinbaseRest(symbols).candles(
        Symbol("BTC", "USD"), Interval.parse("1m"), 1_517_443_200_000, 1_517_443_800_000
    )
    candles = request.read(body, 1_517_443_741_000_000_000)

    assert len(candles) == 10
    assert [
        [c.open_ms // 1000, c.low_text, c.high_text, c.open_text, c.close_text, c.volume_text]
        for c in candles
    ] == [[row[0], *map(str, row[1:])] for row in rows]
    assert [c.closed for c in candles] == [True] * 9 + [False]
