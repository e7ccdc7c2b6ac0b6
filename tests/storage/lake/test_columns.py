"""Columns hold records exactly: of every channel, whatever their fields are."""

import functools
import os
import types
from collections.abc import Iterator, Sequence
from datetime import date
from decimal import Decimal
from itertools import chain
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin

import msgspec
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Raw
from tests.events import candle, trade
from tests.exchanges.binance import test_captures as binance
from tests.exchanges.coinbase import test_captures as coinbase
from tests.exchanges.kraken import test_captures as kraken
from tests.exchanges.upbit import test_captures as upbit

from penstock.market import channels
from penstock.market.channels import Channel
from penstock.market.codec import decode, encode
from penstock.market.columns import columns_of
from penstock.market.events import Event
from penstock.market.levels import write_levels
from penstock.market.symbol import Symbol
from penstock.storage.lake.columns import (
    key_columns,
    records_of,
    schema_of,
    slot_text,
    table_of,
    time_column,
)
from penstock.storage.log import Stored
from penstock.storage.log.keys import stream_of

ROWS = list(channels.BY_EVENT.values())
PLAIN = st.builds(
    lambda whole, digits, places: f"{whole}.{digits:010}"[: len(str(whole)) + places],
    st.integers(0, 10**12 - 1), st.integers(0, 10**10 - 1), st.sampled_from([0, *range(2, 12)]),
)  # fmt: skip
ODD = st.sampled_from(
    ["0", "0.0", "007.5", ".5", "5.", "", "-0", "-1.50", "1e5", "NaN", "9" * 30, "0." + "1" * 19,
     "9" * 20 + "." + "9" * 18, "0.000000000000000001", '"', "½", "0.00000000"]
)  # fmt: skip
NUMBERS = PLAIN | ODD
IDS = st.integers(0, 1 << 50) | st.sampled_from([(1 << 63) - 1, 1 << 63, 1 << 80])
TIMES = st.integers(0, 1 << 61) | st.sampled_from([0, -1, (1 << 63) - 1, 1 << 63, 1 << 90])
SYMBOLS = st.sampled_from([Symbol("BTC", "USDT"), Symbol("ETH", "EUR"), Symbol("1000SATS", "USDC")])
LEVELS = st.lists(st.tuples(PLAIN, PLAIN), max_size=3).map(write_levels)


def values_of(field: msgspec.structs.FieldInfo) -> st.SearchStrategy[Any]:
    """Values of one field of an event."""
    if field.name == "symbol":
        return SYMBOLS
    if field.name == "received_at_ns":
        return st.integers(0, (1 << 63) - 1)
    held = field.type
    none: st.SearchStrategy[Any] = st.nothing()
    if get_origin(held) in (Union, types.UnionType):
        held = next(each for each in get_args(held) if each is not types.NoneType)
        none = st.none()
    if field.name.endswith("_text"):
        return none | NUMBERS
    if get_origin(held) is Literal:
        return none | st.sampled_from(get_args(held))
    if get_origin(held) is tuple:
        return st.lists(st.text(max_size=5), max_size=3).map(tuple)
    by_type: dict[Any, st.SearchStrategy[Any]] = {
        int: TIMES if field.name.endswith(("_ns", "_ms")) else IDS,
        bool: st.booleans(), Raw: LEVELS, str: st.text(max_size=8),
    }  # fmt: skip
    return none | by_type[held]


@functools.cache
def events_of(kind: type[Event]) -> st.SearchStrategy[Event]:
    return st.builds(
        kind, **{field.name: values_of(field) for field in msgspec.structs.fields(kind)}
    )


def stored_of(events: Sequence[Event], slot: str = "collect-toy") -> list[Stored]:
    return [
        Stored(stream_of(event), slot, number, b"", encode(event), "")
        for number, event in enumerate(events, 1)
    ]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
@settings(max_examples=12, deadline=None)
@given(data=st.data())
def test_records_come_back_byte_for_byte(row: Channel, data: st.DataObject) -> None:
    stored = stored_of(data.draw(st.lists(events_of(row.event), max_size=8)))

    table = table_of(row, stored, 0xAB)

    assert table.schema == schema_of(row)
    assert records_of(row, table) == [each.record for each in stored]
    assert table["number"].to_pylist() == [each.number for each in stored]
    assert set(table["slot"].to_pylist()) <= {slot_text(0xAB, "collect-toy")}


@given(texts=st.lists(NUMBERS, min_size=1, max_size=20))
@settings(max_examples=30, deadline=None)
def test_a_number_has_its_value_or_none(texts: list[str]) -> None:
    table = table_of(channels.TRADES, stored_of([trade(1, price_text=t) for t in texts]), 1)

    for text, value in zip(texts, table["price"].to_pylist(), strict=True):
        assert value is None or value == Decimal(text)


def test_ordinary_numbers_need_no_text() -> None:
    texts = ["60000.01000000", "0.00000000", "12", "0.1", "99999999999999999999.999999999999999999"]

    table = table_of(channels.TRADES, stored_of([trade(1, price_text=t) for t in texts]), 1)

    assert table["price"].to_pylist() == [Decimal(text) for text in texts]
    assert table["price_digits"].to_pylist() == [8, 8, 0, 1, 18]
    assert table["price_text"].null_count == len(texts)
    assert table["record"].null_count == len(texts)


def test_an_id_of_more_than_64_bits_is_a_text() -> None:
    table = table_of(channels.TRADES, stored_of([trade(5), trade(1 << 64)]), 1)

    assert table["id"].to_pylist() == [5, None]
    assert table["id_text"].to_pylist() == [None, str(1 << 64)]


def test_a_record_of_an_older_format_is_kept_whole() -> None:
    old = b'\x01{"kind":"trade","exchange":"toy","symbol":"BTC/USDT","received_at_ns":9,"id":4,' \
          b'"at_ms":5,"price":"1.0","quantity":"2","taker":"buy"}'  # fmt: skip
    new = encode(trade(5))
    stored = [Stored(stream_of(decode(record)), "old", 1, b"", record, "") for record in (old, new)]

    table = table_of(channels.TRADES, stored, 1)

    assert table["at_ns"].to_pylist() == [5_000_000, 0]
    assert table["record"].to_pylist() == [old, None]
    assert records_of(channels.TRADES, table) == [old, new]


def test_rows_are_in_the_day_of_their_market_and_candles_in_its_month() -> None:
    day_ns = 86_400 * 10**9
    late = trade(1, at_ns=20_000 * day_ns - 1, received_at_ns=20_000 * day_ns)
    bar = candle(20_000 * 86_400_000)

    days = table_of(channels.TRADES, stored_of([late]), 1)["date"].to_pylist()
    months = table_of(channels.CANDLES, stored_of([bar]), 1)["date"].to_pylist()

    assert (days, months) == ([date(2024, 10, 3)], [date(2024, 10, 1)])


def test_the_columns_of_time_and_key() -> None:
    assert time_column(channels.TRADES) == "at"
    assert time_column(channels.CANDLES) == "open_at"
    assert time_column(channels.TICKERS) == "received_ns"
    assert key_columns(channels.TRADES) == ("exchange", "symbol", "id", "id_text")
    assert key_columns(channels.CANDLES) == ("exchange", "symbol", "interval", "open_at")
    assert key_columns(channels.BOOK_SNAPSHOTS) == ("exchange", "symbol", "slot", "number")


def test_part_of_a_table_gives_its_records() -> None:
    stored = stored_of([trade(n) for n in range(10)])
    table = table_of(channels.TRADES, stored, 1)
    parts = pa.concat_tables([table.slice(7, 3), table.slice(2, 3)])

    expected = [each.record for each in stored[7:] + stored[2:5]]
    assert records_of(channels.TRADES, parts) == expected


def recorded_traffic(captures: Path) -> Iterator[Event]:
    """Every event that real exchanges sent."""
    for name in ("BINANCE", "BINANCE_US"):
        yield from binance.read_all(captures, name)  # type: ignore[misc]
    frames = [kraken.read_all(captures, number) for number in (48, 49, 50)]
    for _, read in chain(*frames, coinbase.read_all(captures), upbit.read_all(captures)):
        yield from read  # type: ignore[misc]


def test_recorded_traffic_comes_back_and_needs_no_text() -> None:
    beside = Path(__file__).parents[4] / "shared" / "captures"
    captures = Path(os.environ.get("PENSTOCK_TEST_CAPTURES", beside))
    if not captures.is_dir():
        pytest.skip(f"no recorded traffic at {captures}")
    by_kind: dict[type[Event], list[Event]] = {}
    for event in recorded_traffic(captures):
        if isinstance(event, Event):
            by_kind.setdefault(type(event), []).append(event)

    assert len(by_kind) == 6
    for kind, events in by_kind.items():
        stored = stored_of(events)
        table = table_of(channels.BY_EVENT[kind], stored, 1)
        assert records_of(channels.BY_EVENT[kind], table) == [each.record for each in stored]
        for name in table.column_names:
            if name.endswith("_text") or name == "record":
                assert table[name].null_count == len(events), f"{kind.__name__}.{name}"


def test_a_field_of_another_type_is_refused() -> None:
    class Odd(Event, frozen=True, kw_only=True, gc=False, tag="odd"):
        share: float

    with pytest.raises(TypeError, match=r"share: no kind of column holds"):
        columns_of(Odd)
