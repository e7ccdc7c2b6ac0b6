"""Recorded traffic: what Upbit really sent is read whole, whatever order its ids came in."""

import ast
import json
import os
from collections import Counter, defaultdict
from collections.abc import Iterator
from decimal import Decimal
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from tests.paths import both_paths  # noqa: F401 (each test runs on both)

from penstock.books.whole import WholeBook
from penstock.errors import UnexpectedAnswer
from penstock.exchanges.symbol_map import SymbolMap
from penstock.exchanges.upbit.rest import UpbitRest
from penstock.exchanges.upbit.stream import UpbitDialect
from penstock.exchanges.upbit.symbols import INFO
from penstock.market.events import BookSnapshot, Trade
from penstock.market.symbol import Symbol
from penstock.storage.log import open_log
from penstock.storage.log.keys import Stream
from penstock.streaming.dialect import Ack, Received

ETH = Symbol("ETH", "BTC")


@pytest.fixture(scope="module")
def captures() -> Path:
    beside = Path(__file__).parents[4] / "shared" / "captures"
    found = Path(os.environ.get("PENSTOCK_TEST_CAPTURES", beside))
    if not found.is_dir():
        pytest.skip(
            f"no recorded traffic at {found}; PENSTOCK_TEST_CAPTURES may name another place"
        )
    return found


def markets(captures: Path) -> bytes:
    first = (captures / "cryptofeed" / "UPBIT.0").read_text().splitlines()[0]
    return first.partition(": ")[2].encode()


def symbols_of(captures: Path) -> SymbolMap:
    return INFO.read(markets(captures), 1).symbols


def read_all(captures: Path) -> Iterator[tuple[Any, list[Received]]]:
    """Every recorded frame, decoded by somebody else, and what the dialect says to it."""
    symbols = symbols_of(captures)
    dialect = UpbitDialect(symbols)
    for channel in dialect.channels:
        dialect.subscribe(dialect.streams(channel, list(symbols)), 1)
    for line in (captures / "cryptofeed" / "UPBIT.ws.62.0").read_text().splitlines():
        if line[:1].isdigit():
            at_s, _, literal = line.partition(": ")
            frame: bytes = ast.literal_eval(literal)
            message = json.loads(frame, parse_float=Decimal)
            yield message, dialect.read(frame, int(float(at_s) * 1e9))


def body(captures: Path, what: str) -> bytes:
    return (captures / "xchange" / f"upbit_{what}.json").read_bytes()


def test_every_recorded_frame_becomes_the_event_it_should(captures: Path) -> None:
    kinds: Counter[tuple[str, type]] = Counter()
    streams: Counter[str] = Counter()
    for message, said in read_all(captures):
        *acks, event = said
        kinds[message["ty"], type(event)] += 1
        for ack in acks:
            assert isinstance(ack, Ack)
            assert ack.names == (f"{message['ty']}:{message['cd']}",)
            streams.update(ack.names)

    assert kinds == {("trade", Trade): 304, ("orderbook", BookSnapshot): 145}
    assert set(streams.values()) == {1}, "the first frame of a stream acknowledges it"


def test_recorded_trades_keep_their_digits_sides_and_times(captures: Path) -> None:
    for message, said in read_all(captures):
        trade = said[-1]
        if isinstance(trade, Trade):
            assert (trade.price, trade.quantity) == (message["tp"], message["tv"])
            assert trade.price_text == str(message["tp"])
            assert trade.taker == {"BID": "buy", "ASK": "sell"}[message["ab"]]
            assert (trade.id, trade.at_ms) == (message["sid"], message["ttms"])


def test_recorded_ids_are_unique_and_kept_though_some_come_late(captures: Path) -> None:
    trades: dict[Symbol, list[Trade]] = defaultdict(list)
    for _, said in read_all(captures):
        if isinstance(said[-1], Trade):
            trades[said[-1].symbol].append(said[-1])
    inversions = [
        (a.id, b.id) for each in trades.values() for a, b in pairwise(each) if b.id < a.id
    ]
    log = open_log("memory:")
    writer = log.writer("collect-upbit")
    for _ in range(2):  # as after a reconnect: what is known already is dropped
        for each in trades.values():
            writer.append(each)

    assert inversions
    for symbol, each in trades.items():
        stream = Stream("upbit", "trades", symbol.slug)
        stored = [record.event for record in log.reader().scan(stream)]
        assert stored == sorted(each, key=lambda trade: trade.id)


def test_recorded_books_are_whole_every_time(captures: Path) -> None:
    for message, said in read_all(captures):
        event = said[-1]
        if isinstance(event, BookSnapshot):
            book = WholeBook(UpbitDialect.books)
            book.begin(event)
            assert (book.state, book.at_ns) == ("synced", message["tms"] * 1_000_000)
            assert book.levels is not None
            told = [
                [(unit[price], unit[size]) for unit in message["obu"] if unit[size]]
                for price, size in (("bp", "bs"), ("ap", "as"))
            ]
            shown = [[(Decimal(p), Decimal(q)) for p, q in side] for side in book.levels.texts()]
            assert shown == told


def test_every_recorded_market_maps_both_ways(captures: Path) -> None:
    rows, symbols = json.loads(markets(captures)), symbols_of(captures)

    assert len(symbols) == len(rows) > 200
    for row in rows:
        symbol, (quote, base) = symbols.symbol(row["market"]), row["market"].split("-")
        assert symbol == Symbol(base, quote)
        assert symbols.native(symbol) == row["market"]
        for typed in (symbol.slug, symbol.unified, row["market"], row["market"].lower()):
            assert symbols.find(typed) is symbol


def test_recorded_answers_become_the_events_they_should(captures: Path) -> None:
    symbols = symbols_of(captures)
    rest = UpbitRest(symbols)
    (book_row,) = json.loads(body(captures, "orderbook"), parse_float=Decimal)
    book = rest.book(ETH, 30).read(body(captures, "orderbook"), 1)
    (ticker_row,) = json.loads(body(captures, "ticker"), parse_float=Decimal)
    (ticker,) = rest.tickers([Symbol("BTC", "KRW")]).read(body(captures, "ticker"), 1)

    assert book.at_ms == book_row["timestamp"]
    assert book.asks == [(u["ask_price"], u["ask_size"]) for u in book_row["orderbook_units"]]
    assert book.bids == [(u["bid_price"], u["bid_size"]) for u in book_row["orderbook_units"]]
    assert (ticker.symbol.unified, ticker.last) == ("BTC/KRW", ticker_row["trade_price"])
    assert ticker.volume_text == str(ticker_row["acc_trade_volume_24h"])


def test_recorded_trades_of_an_answer_have_to_have_ids(captures: Path) -> None:
    """These were recorded before there were any; the ids here are made as the exchange does."""
    recorded = body(captures, "trades")
    request = UpbitRest(symbols_of(captures)).recent_trades(ETH, 100)
    with pytest.raises(UnexpectedAnswer, match="sequential_id"):
        request.read(recorded, 1)
    rows = json.loads(recorded, parse_float=Decimal)
    for number, row in enumerate(rows):
        row["sequential_id"] = row["timestamp"] * 10_000 + len(rows) - number
    trades = request.read(json.dumps(rows, default=float).encode(), 1)

    assert [trade.id for trade in trades] == [row["sequential_id"] for row in reversed(rows)]
    assert [(trade.price, trade.quantity, trade.at_ms) for trade in trades] == [
        (row["trade_price"], row["trade_volume"], row["timestamp"]) for row in reversed(rows)
    ]
    assert len(trades) == 100
