"""The table of channels: what every row promises, and what cannot be in it."""

import re
from collections.abc import Hashable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw
from msgspec.structs import replace

import penstock
from penstock.errors import NotOurRecord, UnknownChannel
from penstock.exchanges import registry
from penstock.exchanges.symbol_map import SymbolMap
from penstock.market import channels
from penstock.market.channels import Channel, Probe
from penstock.market.codec import decode, encode
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
from penstock.storage.log import keys, open_log
from penstock.storage.log.keys import Stream
from penstock.storage.log.spans import market_ns
from penstock.streaming.commands import Subscription
from penstock.streaming.wanted import WantedStreams

SOURCES = Path(penstock.__file__).parent
BTC, ETH = Symbol("BTC", "USDT"), Symbol("ETH", "USDT")
HEAD: dict[str, Any] = {"exchange": "toy", "symbol": BTC, "received_at_ns": 77}
PRICES: dict[str, Any] = {"at_ns": 5, "price_text": "1.0", "quantity_text": "2", "taker": "buy"}
SIDES: dict[str, Any] = {"at_ns": 5, "bids_raw": Raw(b'[["1","2"]]'), "asks_raw": Raw(b"[]")}
EXAMPLES: list[tuple[Event, Event]] = [
    (Trade(**HEAD, id=4, **PRICES), Trade(**HEAD, id=5, **PRICES)),
    (
        AggTrade(**HEAD, id=4, first_trade_id=6, last_trade_id=7, **PRICES),
        AggTrade(**HEAD, id=5, first_trade_id=8, last_trade_id=9, **PRICES),
    ),
    (
        BookDelta(**HEAD, first_update_id=1, final_update_id=4, **SIDES),
        BookDelta(**HEAD, first_update_id=2, final_update_id=5, **SIDES),
    ),
    (BookSnapshot(**HEAD, update_id=4, **SIDES), BookSnapshot(**HEAD, update_id=5, **SIDES)),
    (Ticker(**HEAD, update_id=4, bid_text="1"), Ticker(**HEAD, update_id=5, bid_text="1")),
    (Ticker24h(**HEAD, at_ns=4, last_text="1"), Ticker24h(**HEAD, at_ns=4, last_text="2")),
    (
        Candle(
            **HEAD, interval="1m", open_ms=0, close_ms=59_999, open_text="1", high_text="2",
            low_text="1", close_text="2", volume_text="3",
        ),
        Candle(
            **HEAD, interval="1m", open_ms=60_000, close_ms=119_999, open_text="1",
            high_text="2", low_text="1", close_text="2", volume_text="3",
        ),
    ),
    (
        Disconnect(**HEAD, channels=("trades",), reason="cut"),
        Disconnect(**HEAD | {"received_at_ns": 78}, channels=("trades",), reason="cut"),
    ),
]  # fmt: skip
"""For every row, two events of one channel that are not the same."""
ROWS = [
    pytest.param(channels.BY_EVENT[type(one)], one, other, id=channels.BY_EVENT[type(one)].name)
    for one, other in EXAMPLES
]
each_row = pytest.mark.parametrize(("row", "one", "other"), ROWS)


def key_of(event: Event) -> Hashable | None:
    return channels.DEDUPE_KEYS[type(event)](event)


def test_every_row_has_an_example() -> None:
    ours = {event for event in channels.BY_EVENT if event.__module__.startswith("penstock.")}

    assert {type(one) for one, _ in EXAMPLES} == ours


@each_row
def test_a_channel_is_found_by_name_and_by_event(row: Channel, one: Event, other: Event) -> None:
    assert type(one) is type(other) is row.event
    assert channels.find(row.name_of(one)) is row
    assert row.name_of(one) == row.name_of(other) in row.names()
    assert channels.recorded_in(row.name_of(one))[0] == row.name_of(one)


@each_row
def test_a_record_is_read_back_from_its_stream_under_its_key(
    row: Channel, one: Event, other: Event
) -> None:
    log = open_log("memory:")
    written = log.writer("test").append([one, other])
    reader = log.reader()
    stream = Stream("toy", row.name_of(one), "btc_usdt")

    assert decode(encode(one)) == one
    assert reader.streams() == [stream]
    assert [each.event for each in reader.scan(stream)] == [one, other]
    assert keys.place_of(one) == (stream, written[0].key)
    assert keys.id_of_key(written[0].key) == row.id_of(one) == keys.id_of(one)
    assert (row.id_of(one) is None) is (row.id_kind == "receipt")


@each_row
def test_an_event_and_its_record_have_the_same_market_time(
    row: Channel, one: Event, other: Event
) -> None:
    for event in (one, other):
        assert event.market_ns == market_ns(encode(event))
        assert event.market_ms == event.market_ns // 1_000_000


@each_row
def test_a_topic_names_the_stream(row: Channel, one: Event, other: Event) -> None:
    (stored,) = open_log("memory:").writer("test").append([one])
    exchange, channel, symbol = stored.topic.split(".")

    assert Stream(exchange, channel, symbol) == stored.stream
    assert channels.find(channel) is row


@each_row
def test_copies_share_a_key_and_no_other_event_has_it(
    row: Channel, one: Event, other: Event
) -> None:
    key = key_of(one)
    copy = decode(encode(one))
    if row is not channels.DISCONNECTS:
        copy = replace(copy, received_at_ns=99)

    assert key is not None
    assert key_of(copy) == key != key_of(other)
    assert key_of(replace(one, symbol=ETH)) != key
    others = [each for pair in EXAMPLES for each in pair if type(each) is not row.event]
    assert key not in set(map(key_of, others))


@each_row
def test_liveness_and_price_are_read_from_its_events(
    row: Channel, one: Event, other: Event
) -> None:
    assert (row.liveness is not None) is row.is_subscribed
    probe = row.liveness or Probe()
    assert isinstance(probe.id_of(one), int | None)
    assert row.price_of is None or row.price_of(one)
    assert row.is_final is None or row.is_final(one) is True
    assert one.summary


@each_row
def test_no_other_channel_shares_its_stream(row: Channel, one: Event, other: Event) -> None:
    writer = open_log("memory:").writer("test")
    stored = writer.append([event for event, _ in EXAMPLES])

    assert [each.event for each in stored if each.stream.channel == row.name_of(one)] == [one]


@given(st.text(max_size=12) | st.sampled_from(["", "_", "candles_", "candles_1m"]))
def test_the_suffix_of_a_family_is_read_from_its_names(suffix: str) -> None:
    assert channels.CANDLES.suffix_in(channels.CANDLES.named(suffix)) == suffix


@given(st.text(max_size=12) | st.sampled_from(["candles", "candles_", "_", "trades_1m", "trade"]))
def test_what_is_not_in_the_table_is_not_found_and_cannot_be_subscribed(name: str) -> None:
    known = {n for row in channels.BY_EVENT.values() for n in row.names()}
    if name in known or (name.startswith("candles_") and name != "candles_"):
        return
    assert channels.find(name) is None
    assert channels.recorded_in(name) == [name]
    with pytest.raises(UnknownChannel):
        channels.check([name])


@pytest.mark.parametrize(
    ("name", "near"),
    [("trade", "trades"), ("bookdeltas", "book_deltas"), ("candle_1m", "candles_1m"),
     ("ticker_24", "tickers_24h"), ("disconnects", "It has: trades")],
)  # fmt: skip
def test_an_unknown_channel_is_named_with_near_matches(name: str, near: str) -> None:
    with pytest.raises(UnknownChannel, match=f"penstock has no channel '{name}'.*{near}"):
        channels.check(["trades", name])


def test_a_channel_that_the_exchange_does_not_offer_is_refused() -> None:
    channels.check(["trades", "candles_7m"])
    with pytest.raises(UnknownChannel, match=r"kraken has no channel 'tickers_24h'\. Did you mean"):
        channels.check(["trades", "tickers_24h"], "kraken", ["trades", "tickers"])


@pytest.mark.parametrize("name", registry.names())
def test_every_dialect_offers_registered_channels_only(name: str) -> None:
    dialect = registry.load(name).dialect(SymbolMap(name, []))

    channels.check(dialect.channels)


def test_a_channel_that_is_not_registered_is_not_added_to_a_connection() -> None:
    wanted = WantedStreams(registry.load("binance").dialect(SymbolMap("binance", [])))
    with pytest.raises(UnknownChannel, match="penstock has no channel 'funding'"):
        wanted.add(Subscription("funding", (BTC,)))
    assert len(wanted) == 0


READERS = (
    "storage", "publish", "stats", "cli", "api", "recorder.py", "streaming/dedupe.py",
    "streaming/liveness.py", "collect/absences.py", "coverage/continuity.py", "collect/missing.py",
    "collect/reporter.py", "collect/stall_detector.py", "collect/status.py",
)  # fmt: skip
_EVENT = r"isinstance\([^)]*\b(Trade|AggTrade|BookDelta|BookSnapshot|Ticker|Ticker24h|Candle)\b"
_NAME = r'"(agg_trades|book_deltas|book_snapshots|tickers|tickers_24h|disconnects|candles_.*)"'


@pytest.mark.parametrize("part", READERS)
def test_who_reads_the_table_decides_by_nothing_else(part: str) -> None:
    folder = SOURCES / part
    for path in folder.rglob("*.py") if folder.is_dir() else [folder]:
        if path.name == "fleet_examples.py":  # it names channels, and decides nothing by them
            continue
        # A command, and so a kind of processes, may be named like a channel.
        names = r"_(COMMANDS|STAYING|PRODUCERS|STREAMING) = \(.*?\)"
        text = re.sub(names, "", path.read_text(), flags=re.DOTALL)
        assert not re.search(f'{_EVENT}|{_NAME}|== "trades"|startswith\\("candles', text), path


def test_a_record_of_a_channel_that_is_not_registered_is_named_as_such() -> None:
    record = encode(EXAMPLES[0][0]).replace(b'"kind":"trade"', b'"kind":"unheard_of"')
    with pytest.raises(NotOurRecord, match=r"a record of an unknown channel: .*unheard_of"):
        decode(record)


class _Again(Event, frozen=True, kw_only=True, gc=False, tag="trade"):
    pass


class _Other(Event, frozen=True, kw_only=True, gc=False, tag="other"):
    pass


@pytest.mark.parametrize(("name", "event"), [("trades", _Other), ("other", Trade), ("o", _Again)])
def test_a_row_cannot_share_name_event_or_tag_with_another(name: str, event: type[Event]) -> None:
    before = dict(channels.BY_EVENT)
    row = Channel(name=name, event=event, id_kind="receipt", dedupe_key=channels.contents)
    with pytest.raises(ValueError, match="is registered"):
        channels.register(row)

    assert before == channels.BY_EVENT
