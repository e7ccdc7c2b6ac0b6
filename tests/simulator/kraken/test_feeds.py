"""Every channel against the market and the book, on any stretch of time."""

import json
from collections.abc import Callable
from datetime import datetime
from decimal import Decimal
from hashlib import sha256
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.simulator.answers import opened

from penstock.simulator.engine.exchange import StreamFeed
from penstock.simulator.kraken import Kraken
from penstock.simulator.kraken.checksum import checksum
from penstock.simulator.kraken.instrument import DAY_MS, Instrument
from penstock.simulator.market.book import Book

Instruments = dict[str, Instrument]
MINUTE_MS = 60_000
ALL = (
    "trade/ETH/USD+snapshot",
    "ticker-trades/ETH/USD+snapshot",
    "ohlc-5/ETH/USD+snapshot",
    "book-10/ETH/USD+snapshot",
    "book-100/XTZ/USD+snapshot",
    "heartbeat",
    "instrument+snapshot",
)


def _read(frame: bytes) -> Any:
    """Numbers stay as they are written."""
    return json.loads(frame, parse_float=str, parse_int=str)


def _feed(exchange: Kraken, name: str) -> StreamFeed:
    feed = exchange.feed(name)
    assert feed is not None
    return feed


@pytest.fixture
def frames(exchange: Kraken) -> Callable[[str, int, int], list[Any]]:
    def ask(name: str, after_ms: int, upto_ms: int) -> list[Any]:
        return [_read(frame) for frame in _feed(exchange, name).frames(after_ms, upto_ms)]

    return ask


@pytest.fixture
def opening(exchange: Kraken) -> Callable[[str, int], Any]:
    def ask(name: str, at_ms: int) -> Any:
        feed = _feed(exchange, name)
        assert feed.opening is not None
        (frame,) = opened(feed, at_ms)
        return _read(frame)

    return ask


@settings(max_examples=30)
@given(
    name=st.sampled_from(ALL),
    start=st.integers(0, 5000),
    cuts=st.lists(st.integers(0, 1500), max_size=8),
)
def test_a_stretch_cut_anywhere_gives_the_same_frames(
    exchange: Kraken, as_of_ms: int, name: str, start: int, cuts: list[int]
) -> None:
    borders = [as_of_ms + start]
    for cut in cuts:
        borders.append(borders[-1] + cut)

    whole = _feed(exchange, name).frames(borders[0], borders[-1])
    feed = _feed(exchange, name)
    assert [f for pair in pairwise(borders) for f in feed.frames(*pair)] == whole


def test_trades_are_told_as_they_happen_and_together_if_at_once(
    frames: Callable[..., list[Any]], instruments: Instruments, as_of_ms: int
) -> None:
    market = instruments["ETH/USD"].market
    first, end = market.id_at(as_of_ms + 1), market.id_at(as_of_ms + 20_001)
    told = frames("trade/ETH/USD", as_of_ms, as_of_ms + 20_000)
    rows = [row for frame in told for row in frame["data"]]

    assert len(told) < len(rows) == end - first
    assert {(frame["channel"], frame["type"]) for frame in told} == {("trade", "update")}
    for row, trade in zip(rows, market.trades(first, end - first), strict=True):
        assert row["symbol"] == "ETH/USD"
        assert int(row["trade_id"]) == trade.id
        assert row["price"] == f"{trade.price // 100}.{trade.price % 100:02}"
        assert row["qty"] == f"{Decimal(trade.quantity).scaleb(-4):.8f}"
        assert row["side"] == ("buy" if trade.taker_buys else "sell")
        assert row["ord_type"] in ("limit", "market")
        assert _ms(row["timestamp"]) == trade.at_ms


def _ms(text: str) -> int:
    """A time, cut back to the market's milliseconds."""
    at = datetime.fromisoformat(text)
    return int(at.replace(microsecond=0).timestamp()) * 1000 + at.microsecond // 1000


def test_a_snapshot_of_trades_has_the_last_fifty_and_the_stream_goes_on_from_there(
    opening: Callable[..., Any],
    frames: Callable[..., list[Any]],
    as_of_ms: int,
) -> None:
    snapshot = opening("trade/ETH/USD+snapshot", as_of_ms)
    following = frames("trade/ETH/USD+snapshot", as_of_ms, as_of_ms + 10_000)

    assert snapshot["type"] == "snapshot"
    assert len(snapshot["data"]) == 50
    ids = [int(row["trade_id"]) for frame in (snapshot, *following) for row in frame["data"]]
    assert ids == list(range(ids[0], ids[0] + len(ids)))


def test_a_stream_without_a_snapshot_has_none(exchange: Kraken) -> None:
    for name in ALL:
        feed = exchange.feed(name.removesuffix("+snapshot"))
        assert feed is not None
        assert feed.opening is None


@pytest.mark.parametrize(("symbol", "depth"), [("ETH/USD", 10), ("ETH/USD", 25), ("XTZ/USD", 100)])
def test_a_book_is_the_ledgers_after_every_update_and_has_its_checksum(
    opening: Callable[..., Any],
    frames: Callable[..., list[Any]],
    instruments: Instruments,
    as_of_ms: int,
    symbol: str,
    depth: int,
) -> None:
    instrument, name = instruments[symbol], f"book-{depth}/{symbol}+snapshot"
    snapshot = opening(name, as_of_ms)
    updates = frames(name, as_of_ms, as_of_ms + 120_000)

    sides: dict[str, dict[str, str]] = {"bids": {}, "asks": {}}
    assert len(updates) > 3
    for frame in (snapshot, *updates):
        (data,) = frame["data"]
        for side, levels in sides.items():
            for row in data[side]:
                assert len(row["qty"].partition(".")[2]) == 8
                levels[row["price"]] = row["qty"]
            kept = [level for level in levels.items() if float(level[1])]
            kept.sort(key=lambda level: Decimal(level[0]), reverse=side == "bids")
            levels.clear()
            levels.update(kept[:depth])
        book, decimals = instrument.book, instrument.market.listing
        # The time on an update names the book, as the ledger finds it.
        update_id = book.update_id(_ms(data["timestamp"]) // Book.SLOT_MS - 1)
        truth = book.at(update_id, depth)
        for levels, side_truth in zip(sides.values(), truth, strict=True):
            assert [
                (
                    int(Decimal(price).scaleb(decimals.price_decimals)),
                    int(Decimal(quantity).scaleb(decimals.quantity_decimals)),
                )
                for price, quantity in levels.items()
            ] == side_truth
        assert int(data["checksum"]) == checksum(*truth, instrument.spelling.lot)


def test_a_book_is_silent_while_nothing_that_is_shown_changes(
    frames: Callable[..., list[Any]], as_of_ms: int
) -> None:
    told = frames("book-10/XTZ/USD", as_of_ms, as_of_ms + 600_000)

    assert 0 < len(told) < 600
    assert all(frame["data"][0]["bids"] or frame["data"][0]["asks"] for frame in told)


def test_a_ticker_counts_the_last_day_whenever_somebody_trades(
    opening: Callable[..., Any],
    frames: Callable[..., list[Any]],
    instruments: Instruments,
    as_of_ms: int,
) -> None:
    market = instruments["ETH/USD"].market
    told = frames("ticker-bbo/ETH/USD", as_of_ms, as_of_ms + 3000)
    assert told
    for frame in (opening("ticker-trades/ETH/USD+snapshot", as_of_ms), *told):
        (row,) = frame["data"]
        at_ms = _ms(row["timestamp"])
        day = market.sums(at_ms + 1 - DAY_MS, at_ms + 1)
        assert Decimal(row["last"]) * 100 == market.last_before(at_ms + 1).price
        assert Decimal(row["volume"]).scaleb(4) == day.volume
        assert Decimal(row["low"]) * 100 == day.low
        assert Decimal(row["high"]) * 100 == day.high
        assert Decimal(row["change"]) * 100 == day.close - day.open
        percent = Decimal(100 * (day.close - day.open)) / day.open
        assert abs(Decimal(row["change_pct"]) - percent) <= Decimal("0.005")
        assert Decimal(row["bid"]) < Decimal(row["ask"])


@pytest.mark.parametrize("minutes", [1, 60, 21600])
def test_candles_are_told_with_each_trade_and_never_without_one(
    frames: Callable[..., list[Any]], instruments: Instruments, as_of_ms: int, minutes: int
) -> None:
    instrument, step_ms = instruments["XTZ/USD"], minutes * MINUTE_MS
    told = frames(f"ohlc-{minutes}/XTZ/USD", as_of_ms, as_of_ms + 300_000)

    assert told
    for frame in told:
        (row,) = frame["data"]
        start_ms, at_ms = _ms(row["interval_begin"][:-4] + "Z"), _ms(frame["timestamp"])
        assert start_ms == at_ms // step_ms * step_ms
        assert _ms(row["timestamp"]) == start_ms + step_ms
        sums = instrument.market.sums(max(start_ms, instrument.listed_at_ms), at_ms + 1)
        assert int(row["trades"]) == sums.trades > 0
        prices = [Decimal(row[name]) * 10**4 for name in ("open", "high", "low", "close")]
        assert prices == [sums.open, sums.high, sums.low, sums.close]
        assert Decimal(row["volume"]).scaleb(4) == sums.volume
        assert int(row["interval"]) == minutes


def test_a_snapshot_of_candles_ends_with_the_running_one(
    opening: Callable[..., Any], as_of_ms: int
) -> None:
    rows = opening("ohlc-5/ETH/USD+snapshot", as_of_ms)["data"]

    begins = [_ms(row["interval_begin"][:-4] + "Z") for row in rows]
    assert begins == list(range(begins[0], begins[0] + 10 * 300_000, 300_000))
    assert begins[-1] <= as_of_ms < begins[-1] + 300_000


def test_instruments_are_an_object_of_assets_and_pairs(
    exchange: Kraken, instruments: Instruments, as_of_ms: int
) -> None:
    feed = _feed(exchange, "instrument+snapshot")
    assert feed.opening is not None
    (frame,) = opened(feed, as_of_ms)
    data = json.loads(frame)["data"]

    assert {row["id"] for row in data["assets"]} == {
        "BTC", "ETH", "USD", "EUR", "XTZ", "USDT", "SHIB",
    }  # fmt: skip
    assert {row["symbol"] for row in data["pairs"]} == set(instruments)
    row = next(row for row in data["pairs"] if row["symbol"] == "BTC/EUR")
    assert (row["base"], row["quote"], row["price_precision"]) == ("BTC", "EUR", 1)
    assert (row["tick_size"], row["qty_increment"]) == (0.1, 1e-08)
    assert b'"qty_increment":1e-08' in frame


def test_a_heartbeat_comes_each_second(frames: Callable[..., list[Any]], as_of_ms: int) -> None:
    assert frames("heartbeat", as_of_ms, as_of_ms + 10_000) == [{"channel": "heartbeat"}] * 10


@pytest.mark.parametrize("name", ["trade/XBT/USD", "nothing/ETH/USD", "", "book-10/NO/NE"])
def test_there_is_no_stream_of_other_names(exchange: Kraken, name: str) -> None:
    assert exchange.feed(name) is None


def test_frames_are_the_same_on_every_machine(exchange: Kraken, as_of_ms: int) -> None:
    digest = sha256()
    for name in ALL:
        feed = _feed(exchange, name)
        for frame in opened(feed, as_of_ms):
            digest.update(frame)
        for frame in feed.frames(as_of_ms, as_of_ms + 5000):
            digest.update(frame)

    assert digest.hexdigest() == "788cedec520ede137ce65b1454f62237bd78eab199893d616539ca34812ce455"
