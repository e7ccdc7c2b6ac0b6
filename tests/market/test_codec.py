"""The codec: what is written is what is read, to the last digit."""

from decimal import Decimal
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from penstock.errors import MalformedLevels, NotOurRecord
from penstock.market.codec import VERSION, decode, encode
from penstock.market.events import (
    AggTrade,
    BookDelta,
    BookSnapshot,
    Candle,
    Disconnect,
    Event,
    Ticker,
    Ticker24h,
    Trade,
)
from penstock.market.levels import read_levels, write_levels
from penstock.market.symbol import Symbol

numbers = st.decimals(
    min_value=0, allow_nan=False, allow_infinity=False, places=None
).map(lambda d: format(d, "f"))  # fmt: skip
ids = st.integers(0, 2**63 - 1)
levels = st.lists(st.tuples(numbers, numbers), max_size=5).map(write_levels)
maybe = st.none() | numbers
head = {
    "exchange": st.sampled_from(["binance", "kraken"]),
    "symbol": st.sampled_from([Symbol("BTC", "USDT"), Symbol("币", "A.B")]),
    "received_at_ns": ids,
    "source": st.sampled_from(["live", "rest", "backfill"]),
}
sides = st.sampled_from(["buy", "sell"])
trades = st.builds(
    Trade, **head, id=ids, at_ns=ids, price_text=numbers, quantity_text=numbers, taker=sides
)
agg_trades = st.builds(
    AggTrade, **head, id=ids, at_ns=ids, first_trade_id=ids, last_trade_id=ids,
    price_text=numbers, quantity_text=numbers, taker=sides,
)  # fmt: skip
deltas = st.builds(
    BookDelta, **head, first_update_id=ids, final_update_id=ids, at_ns=ids,
    bids_raw=levels, asks_raw=levels,
)  # fmt: skip
snapshots = st.builds(
    BookSnapshot, **head, update_id=ids, at_ns=st.none() | ids, bids_raw=levels, asks_raw=levels
)
tickers = st.builds(
    Ticker, **head, at_ns=st.none() | ids, update_id=st.none() | ids, bid_text=maybe,
    bid_quantity_text=maybe, ask_text=maybe, ask_quantity_text=maybe, last_text=maybe,
    open_text=maybe, high_text=maybe, low_text=maybe, volume_text=maybe, quote_volume_text=maybe,
)  # fmt: skip
tickers_24h = st.builds(Ticker24h, **head, at_ns=ids, last_text=maybe, high_text=maybe)
candles = st.builds(
    Candle, **head, interval=st.sampled_from(["1m", "1M"]), open_ms=ids, close_ms=ids,
    open_text=numbers, high_text=numbers, low_text=numbers, close_text=numbers,
    volume_text=numbers, quote_volume_text=maybe, trades=st.none() | ids, closed=st.booleans(),
    taker_buy_volume_text=maybe, taker_buy_quote_volume_text=maybe, vwap_text=maybe,
    first_trade_id=st.none() | ids, last_trade_id=st.none() | ids,
)  # fmt: skip
disconnects = st.builds(
    Disconnect, **head, channels=st.lists(st.text(max_size=9), max_size=3).map(tuple),
    reason=st.text(max_size=20),
)  # fmt: skip


@given(trades | agg_trades | deltas | snapshots | tickers | tickers_24h | candles | disconnects)
def test_every_event_comes_back_as_it_was(event: Event) -> None:
    assert decode(encode(event)) == event


@given(numbers, numbers, ids)
def test_numbers_and_ids_keep_every_digit(price: str, quantity: str, trade_id: int) -> None:
    trade = Trade(
        exchange="binance", symbol=Symbol("BTC", "USDT"), received_at_ns=1, id=trade_id, at_ns=2,
        price_text=price, quantity_text=quantity, taker="buy",
    )  # fmt: skip

    read = decode(encode(trade))

    assert isinstance(read, Trade)
    assert (str(read.price), str(read.quantity)) == (str(Decimal(price)), str(Decimal(quantity)))
    assert read.id == trade_id


@given(st.lists(st.tuples(numbers, numbers), max_size=5))
def test_levels_are_exact_when_somebody_asks(pairs: list[tuple[str, str]]) -> None:
    delta = BookDelta(
        exchange="binance", symbol=Symbol("BTC", "USDT"), received_at_ns=1, first_update_id=1,
        final_update_id=1, at_ns=1, bids_raw=write_levels(pairs), asks_raw=Raw(b"[]"),
    )  # fmt: skip

    read = decode(encode(delta))

    assert isinstance(read, BookDelta)
    assert read.bids == [(Decimal(price), Decimal(quantity)) for price, quantity in pairs]
    assert read_levels(read.bids_raw) == pairs


def test_a_record_is_json_anybody_can_read() -> None:
    trade = Trade(
        exchange="binance", symbol=Symbol("BTC", "USDT"), received_at_ns=5, id=2**60, at_ns=4,
        price_text="1.50", quantity_text="2", taker="sell",
    )  # fmt: skip

    assert msgspec.json.decode(encode(trade)[1:]) == {
        "kind": "trade", "exchange": "binance", "symbol": "BTC/USDT", "received_at_ns": 5,
        "id": 2**60, "at_ns": 4, "price": "1.50", "quantity": "2", "taker": "sell",
    }  # fmt: skip


HEAD_1 = '"exchange":"binance","symbol":"BTC/USDT","received_at_ns":1633998523970123456'
AT_1 = 1_633_998_523_963_000_000
# Written by the version before ``at_ns``; what each must be read as.
FORMAT_1: list[tuple[str, type[Event], dict[str, object]]] = [
    (
        f'{{"kind":"trade",{HEAD_1},"id":7,"at_ms":1633998523963,"price":"1.10","quantity":"2",'
        '"taker":"buy"}',
        Trade,
        {"id": 7, "at_ns": AT_1, "price_text": "1.10", "quantity_text": "2", "taker": "buy"},
    ),
    (
        f'{{"kind":"trade",{HEAD_1},"source":"backfill","id":1,"at_ms":0,"price":"1",'
        '"quantity":"2","taker":"sell"}',
        Trade,
        {"source": "backfill", "id": 1, "at_ns": 0, "price_text": "1", "quantity_text": "2",
         "taker": "sell"},
    ),
    (
        f'{{"kind":"agg_trade",{HEAD_1},"id":7,"first_trade_id":8,"last_trade_id":9,'
        '"at_ms":1633998523963,"price":"1.10","quantity":"2","taker":"buy"}',
        AggTrade,
        {"id": 7, "first_trade_id": 8, "last_trade_id": 9, "at_ns": AT_1, "price_text": "1.10",
         "quantity_text": "2", "taker": "buy"},
    ),
    (
        f'{{"kind":"book_delta",{HEAD_1},"first_update_id":1,"final_update_id":2,'
        '"at_ms":1633998523963,"bids":[["1.10","2"]],"asks":[],"checksum":5}',
        BookDelta,
        {"first_update_id": 1, "final_update_id": 2, "at_ns": AT_1, "checksum": 5,
         "bids_raw": Raw(b'[["1.10","2"]]'), "asks_raw": Raw(b"[]")},
    ),
    (
        f'{{"kind":"book_snapshot",{HEAD_1},"update_id":3,"bids":[["1.10","2"]],"asks":[]}}',
        BookSnapshot,
        {"update_id": 3, "bids_raw": Raw(b'[["1.10","2"]]'), "asks_raw": Raw(b"[]")},
    ),
    (
        f'{{"kind":"book_snapshot",{HEAD_1},"at_ms":1633998523963,"bids":[],"asks":[]}}',
        BookSnapshot,
        {"at_ns": AT_1, "bids_raw": Raw(b"[]"), "asks_raw": Raw(b"[]")},
    ),
    (
        f'{{"kind":"ticker",{HEAD_1},"at_ms":1633998523963,"last":"1.1"}}',
        Ticker,
        {"at_ns": AT_1, "last_text": "1.1"},
    ),
    (
        f'{{"kind":"ticker",{HEAD_1},"update_id":4,"bid":"1.1"}}',
        Ticker,
        {"update_id": 4, "bid_text": "1.1"},
    ),
    (
        f'{{"kind":"candle",{HEAD_1},"source":"rest","interval":"1m","open_ms":1633998480000,'
        '"close_ms":1633998539999,"open":"1","high":"2","low":"0.5","close":"1.5","volume":"10",'
        '"quote_volume":"12","trades":30,"closed":false}',
        Candle,
        {"source": "rest", "interval": "1m", "open_ms": 1633998480000, "close_ms": 1633998539999,
         "open_text": "1", "high_text": "2", "low_text": "0.5", "close_text": "1.5",
         "volume_text": "10", "quote_volume_text": "12", "trades": 30, "closed": False},
    ),
    (
        f'{{"kind":"disconnect",{HEAD_1},"channels":["trades","book_deltas"],'
        r'"reason":"closed: {\"a\":1,\"at_ms\":5}"}',
        Disconnect,
        {"channels": ("trades", "book_deltas"), "reason": 'closed: {"a":1,"at_ms":5}'},
    ),
]  # fmt: skip


@pytest.mark.parametrize(("written", "kind", "told"), FORMAT_1)
def test_records_that_tell_milliseconds_are_still_read(
    written: str, kind: type[Event], told: dict[str, Any]
) -> None:
    base: dict[str, Any] = {
        "exchange": "binance", "symbol": Symbol("BTC", "USDT"),
        "received_at_ns": 1633998523970123456,
    }  # fmt: skip

    event = decode(b"\x01" + written.encode())

    assert event == kind(**base, **told)
    assert decode(encode(event)) == event
    assert encode(event)[0] == VERSION == 2


@pytest.mark.parametrize(
    ("record", "says"),
    [
        (b"", "damaged"),
        (bytes([VERSION + 1]) + b"{}", "upgrade"),
        (bytes([VERSION]) + b"{}", "damaged"),
        (bytes([VERSION]) + b'{"kind":"trade"}', "damaged"),
        (bytes([VERSION]) + b'{"kind":"' + b"\xff" + b'"}', "damaged"),
        (bytes([VERSION]) + b"[" * 100_000, "damaged"),
    ],
)
def test_what_is_no_record_is_refused(record: bytes, says: str) -> None:
    with pytest.raises(NotOurRecord, match=says):
        decode(record)


def test_a_record_with_a_symbol_that_is_none_is_refused() -> None:
    record = bytes([VERSION]) + (
        b'{"kind":"book_snapshot","exchange":"x","symbol":"BTC","received_at_ns":1,'
        b'"update_id":1,"bids":[],"asks":[]}'
    )
    with pytest.raises(NotOurRecord, match="not a symbol"):
        decode(record)


@pytest.mark.parametrize(
    "raw",
    [
        b'[["NaN","1"]]',
        b'[["1e999","1"]]',
        b'[["-1","1"]]',
        b'[["1.0","."]]',
        b'[["1.0","1.2.3"]]',
        b'[["1.0",""]]',
        b'[["1.0","\\u0041.0"]]',
        b'[["1"]]',
        b"[[1,2]]",
        b'["1","2"]',
        b"[[[[",
    ],
)
def test_levels_that_are_no_plain_numbers_are_refused(raw: bytes) -> None:
    with pytest.raises(MalformedLevels):
        read_levels(Raw(raw))


def test_levels_with_two_points_are_refused_when_asked_for() -> None:
    delta = BookSnapshot(
        exchange="x", symbol=Symbol("A", "B"), received_at_ns=1, update_id=1,
        bids_raw=Raw(b'[["1.2.3","1"]]'), asks_raw=Raw(b"[]"),
    )  # fmt: skip
    with pytest.raises(MalformedLevels):
        _ = delta.bids
