"""Keys: their order is the order of the ids, and they can be read back."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from penstock.errors import NotOurRecord, UnusableId
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
from penstock.market.symbol import Symbol
from penstock.storage.log import keys
from penstock.storage.log.keys import Batch, Stream

ids = st.integers(0, 2**64) | st.integers(0, 2**300)
instants = st.integers(0, 2**64 - 1)
some_keys = ids.map(keys.key_of_id) | st.builds(
    keys.key_of_arrival, instants, st.integers(0, 2**32 - 1)
)
HEAD: dict[str, Any] = {"exchange": "sim", "symbol": Symbol("BTC", "USDT"), "received_at_ns": 77}
NONE = Raw(b"[]")


@given(ids, ids)
def test_keys_sort_as_the_ids_do(one: int, other: int) -> None:
    assert (keys.key_of_id(one) < keys.key_of_id(other)) == (one < other)


@given(ids)
def test_an_id_is_read_back_from_its_key(number: int) -> None:
    key = keys.key_of_id(number)

    assert keys.id_of_key(key) == number
    assert keys.arrival_of_key(key) is None
    assert keys.key_text(key) == str(number)


@given(st.tuples(instants, st.integers(0, 9)), st.tuples(instants, st.integers(0, 9)))
def test_arrivals_sort_by_time_then_counter(one: tuple[int, int], other: tuple[int, int]) -> None:
    first, second = keys.key_of_arrival(*one), keys.key_of_arrival(*other)

    assert (first < second) == (one < other)
    assert keys.arrival_of_key(first) == one[0]
    assert keys.id_of_key(first) is None
    assert keys.key_text(first) == f"received:{one[0]}/{one[1]}"


@given(some_keys)
def test_every_key_lies_within_its_stream(key: bytes) -> None:
    base = keys.prefix(b"r", 7)

    assert base <= base + key < keys.past(base) <= keys.prefix(b"r", 8)
    assert key < keys.key_after(key) < keys.AFTER_ALL


@given(ids, instants)
def test_ids_and_arrivals_never_meet(number: int, received_at_ns: int) -> None:
    assert keys.key_of_id(number) != keys.key_of_arrival(received_at_ns)


@pytest.mark.parametrize("number", [-1, -(2**70), 2 ** (8 * 255)])
def test_what_cannot_be_a_key_is_refused(number: int) -> None:
    with pytest.raises(UnusableId):
        keys.key_of_id(number)


@given(
    st.builds(
        Batch, st.integers(1, 2**63), st.integers(1, 2**32 - 1), some_keys, some_keys,
        instants, instants,
    )
)  # fmt: skip
def test_a_batch_is_read_as_it_was_written(batch: Batch) -> None:
    entry = keys.prefix(b"n", 3) + batch.first_number.to_bytes(8, "big")

    assert keys.read_batch(entry, keys.write_batch(batch)) == batch


def test_damaged_index_entries_are_named() -> None:
    with pytest.raises(NotOurRecord):
        keys.read_batch(b"n", b"")
    with pytest.raises(NotOurRecord):
        keys.read_stream(b"no zero bytes")


@pytest.mark.parametrize(
    ("event", "channel", "key"),
    [
        (
            Trade(**HEAD, id=5, at_ns=1, price_text="1", quantity_text="1", taker="buy"),
            "trades", keys.key_of_id(5),
        ),
        (
            AggTrade(
                **HEAD, id=6, first_trade_id=1, last_trade_id=2, at_ns=1,
                price_text="1", quantity_text="1", taker="buy",
            ),
            "agg_trades", keys.key_of_id(6),
        ),
        (
            BookDelta(
                **HEAD, first_update_id=8, final_update_id=9, at_ns=1, bids_raw=NONE, asks_raw=NONE
            ),
            "book_deltas", keys.key_of_id(9),
        ),
        (
            BookSnapshot(**HEAD, update_id=9, bids_raw=NONE, asks_raw=NONE),
            "book_snapshots", keys.key_of_arrival(77),
        ),
        (Ticker(**HEAD, update_id=4), "tickers", keys.key_of_id(4)),
        (Ticker(**HEAD, last_text="1"), "tickers", keys.key_of_arrival(77)),
        (Ticker24h(**HEAD, last_text="1"), "tickers_24h", keys.key_of_arrival(77)),
        (
            Candle(
                **HEAD, interval="1m", open_ms=60_000, close_ms=119_999, open_text="1",
                high_text="1", low_text="1", close_text="1", volume_text="1",
            ),
            "candles_1m", keys.key_of_id(60_000),
        ),
        (
            Disconnect(**HEAD, channels=("trades",), reason="cut off"),
            "disconnects", keys.key_of_arrival(77),
        ),
    ],
)  # fmt: skip
def test_every_event_has_a_place(event: Event, channel: str, key: bytes) -> None:
    assert keys.place_of(event) == (Stream("sim", channel, "btc_usdt"), key)


def test_a_stream_is_named_like_its_topic() -> None:
    stream = Stream("sim", "trades", "btc_usdt")

    assert str(stream) == "sim.trades.btc_usdt"
    assert keys.read_stream(keys.write_stream(stream)) == stream
