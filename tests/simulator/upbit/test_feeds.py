"""The streams tell the market as it is, in each format and in the recorded shapes."""

import ast
from collections.abc import Callable
from decimal import Decimal
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.simulator.answers import opened

from penstock.simulator.market.book import Book
from penstock.simulator.upbit import Upbit
from penstock.simulator.upbit.instrument import Instrument

Frames = Callable[..., list[Any]]
Instruments = dict[str, Instrument]
CODES = ("KRW-BTC", "BTC-ETH", "KRW-LINK", "BTC-XRP")
SECOND_MS, DAY_MS = 1000, 86_400_000


def _price(instrument: Instrument, ticks: int) -> float:
    listing = instrument.market.listing
    return float(Decimal(ticks * listing.price_step).scaleb(-listing.price_decimals))


def _volume(instrument: Instrument, lots: int) -> float:
    return float(Decimal(lots).scaleb(-instrument.market.listing.quantity_decimals))


@pytest.mark.parametrize("code", CODES)
def test_every_trade_is_told_once_though_not_always_in_order(
    frames: Frames, instruments: Instruments, code: str, as_of_ms: int
) -> None:
    instrument, market = instruments[code], instruments[code].market
    until_ms = as_of_ms + 120 * SECOND_MS
    snapshot, *told = frames(f"trade:{code}", as_of_ms, until_ms, opening=True)

    last = market.last_before(as_of_ms + 1)
    assert snapshot["stream_type"] == "SNAPSHOT"
    assert snapshot["sequential_id"] == instrument.sequential_id(last)
    first, end = market.id_at(as_of_ms + 1), market.id_at(until_ms + 1)
    truth = {
        instrument.sequential_id(each): each for each in market.trades(first - 50, end - first + 50)
    }
    ids = [each["sequential_id"] for each in told]
    assert len(set(ids)) == len(ids)
    missing = {each.at_ms for number, each in truth.items() if each.id >= first} - {
        each["trade_timestamp"] for each in told
    }
    assert all(at_ms > until_ms - 400 for at_ms in missing), "held up at the end"
    for each in told:
        trade = truth[each["sequential_id"]]
        assert each["stream_type"] == "REALTIME"
        assert each["trade_price"] == _price(instrument, trade.price)
        assert each["trade_volume"] == _volume(instrument, trade.quantity)
        assert each["ask_bid"] == ("BID" if trade.taker_buys else "ASK")
        assert each["trade_timestamp"] == trade.at_ms
        assert each["best_bid_price"] < each["best_ask_price"]
        touched = each["best_ask_price" if trade.taker_buys else "best_bid_price"]
        assert touched == each["trade_price"]
        before = market.last_before(trade.at_ms - trade.at_ms % DAY_MS).price
        assert each["prev_closing_price"] == _price(instrument, before)
        assert each["change_price"] == _price(instrument, abs(trade.price - before))


def test_now_and_then_a_later_trade_comes_first(frames: Frames, as_of_ms: int) -> None:
    told = frames("trade:KRW-BTC", as_of_ms, as_of_ms + 600 * SECOND_MS)

    inverted = sum(a["sequential_id"] > b["sequential_id"] for a, b in pairwise(told))
    assert 0 < inverted < len(told) / 30


@pytest.mark.parametrize("code", CODES)
@pytest.mark.parametrize("units", [1, 5, 15, 30])
def test_a_book_is_told_whole_whenever_it_has_changed(
    frames: Frames, instruments: Instruments, code: str, units: int, as_of_ms: int
) -> None:
    instrument, until_ms = instruments[code], as_of_ms + 10 * SECOND_MS
    told = frames(f"orderbook:{code}.{units}", as_of_ms, until_ms, opening=True)

    changed = [
        ms
        for ms in range(as_of_ms // 100 * 100 + 100, until_ms + 1, Book.SLOT_MS)
        if instrument.update_id_at(ms) != instrument.update_id_at(ms - Book.SLOT_MS)
    ]
    assert [each["timestamp"] for each in told[1:]] == changed
    assert changed
    assert [each["stream_type"] for each in told[:2]] == ["SNAPSHOT", "REALTIME"]
    for each in told:
        bids, asks = instrument.book.at(instrument.update_id_at(each["timestamp"]), 30)
        assert len(each["orderbook_units"]) == units
        for unit, bid, ask in zip(each["orderbook_units"], bids, asks, strict=False):
            assert (unit["bid_price"], unit["bid_size"]) == (
                _price(instrument, bid[0]),
                _volume(instrument, bid[1]),
            )
            assert (unit["ask_price"], unit["ask_size"]) == (
                _price(instrument, ask[0]),
                _volume(instrument, ask[1]),
            )
        assert each["total_ask_size"] == _volume(instrument, sum(size for _, size in asks))


def test_any_other_number_of_levels_means_thirty(frames: Frames, as_of_ms: int) -> None:
    for name in ("KRW-BTC", "KRW-BTC.7", "KRW-BTC.x"):
        (snapshot,) = frames(f"orderbook:{name}", as_of_ms, as_of_ms, opening=True)
        assert len(snapshot["orderbook_units"]) == 30
        assert snapshot["code"] == "KRW-BTC"


@pytest.mark.parametrize("code", CODES)
def test_a_ticker_follows_every_instant_with_a_trade(
    frames: Frames, instruments: Instruments, code: str, as_of_ms: int
) -> None:
    instrument, market = instruments[code], instruments[code].market
    until_ms = as_of_ms + 20 * SECOND_MS
    snapshot, *told = frames(f"ticker:{code}", as_of_ms, until_ms, opening=True)

    first, end = market.id_at(as_of_ms + 1), market.id_at(until_ms + 1)
    instants = dict.fromkeys(each.at_ms for each in market.trades(first, end - first))
    assert [each["timestamp"] for each in told] == list(instants)
    assert snapshot["stream_type"] == "SNAPSHOT"
    for each in [snapshot, *told]:
        at_ms = each["timestamp"]
        today = market.sums(at_ms - at_ms % DAY_MS, at_ms + 1)
        last = market.last_before(at_ms + 1)
        assert each["trade_timestamp"] == last.at_ms
        assert each["trade_price"] == _price(instrument, last.price)
        assert each["high_price"] == _price(instrument, today.high)
        assert each["acc_bid_volume"] == _volume(instrument, today.taker_volume)
        assert each["acc_trade_volume"] == _volume(instrument, today.volume)
        assert each["market_state"] == "ACTIVE"


@pytest.mark.parametrize(
    ("kind", "step_ms"),
    [("candle.1s", SECOND_MS), ("candle.1m", 60_000), ("candle.240m", 14_400_000)],
)
@pytest.mark.parametrize("code", CODES)
def test_a_candle_is_told_while_it_grows(
    frames: Frames, instruments: Instruments, code: str, kind: str, step_ms: int, as_of_ms: int
) -> None:
    instrument, market = instruments[code], instruments[code].market
    until_ms = as_of_ms + 60 * SECOND_MS
    snapshot, *told = frames(f"{kind}:{code}", as_of_ms, until_ms, opening=True)

    assert snapshot["type"] == kind
    seconds = range(as_of_ms // 1000 * 1000 + 1000, until_ms + 1, 1000)
    due = [ms for ms in seconds if market.id_at(ms - 1000) < market.id_at(ms)]
    assert len(told) == len(due) > 0
    for each, due_ms in zip(told, due, strict=True):
        open_ms = (due_ms - 1) // step_ms * step_ms
        sums = market.sums(open_ms, due_ms)
        assert each["trade_price"] == _price(instrument, sums.close)
        assert each["opening_price"] == _price(instrument, sums.open)
        assert each["low_price"] == _price(instrument, sums.low)
        assert each["candle_acc_trade_volume"] == _volume(instrument, sums.volume)
        assert each["timestamp"] == market.last_before(due_ms).at_ms


@given(st.lists(st.integers(0, 1500), min_size=1, max_size=8))
def test_frames_do_not_depend_on_how_often_one_asks(
    exchange: Upbit, as_of_ms: int, pieces: list[int]
) -> None:
    for kind in ("trade", "orderbook", "ticker", "candle.1s"):
        feed = exchange.feed(f"{kind}:KRW-BTC")
        assert feed is not None
        cut, at_ms = list[bytes](), as_of_ms
        for piece_ms in pieces:
            cut += feed.frames(at_ms, at_ms + piece_ms)
            at_ms += piece_ms
        assert cut == feed.frames(as_of_ms, at_ms)


@pytest.mark.parametrize("kind", ["trade", "orderbook", "ticker", "candle.1m"])
def test_a_format_changes_names_and_nothing_else(frames: Frames, kind: str, as_of_ms: int) -> None:
    until_ms = as_of_ms + 5 * SECOND_MS
    plain, simple, listed, both = (
        frames(f"{kind}:KRW-BTC:{form}", as_of_ms, until_ms, opening=True)
        for form in ("DEFAULT", "SIMPLE", "JSON_LIST", "SIMPLE_LIST")
    )

    assert [[each] for each in plain] == listed
    assert [[each] for each in simple] == both
    assert len(plain) == len(simple)
    for long, short in zip(plain, simple, strict=True):
        assert all(len(name) <= 6 for name in short)
        if kind != "orderbook":
            assert list(long.values()) == list(short.values())
        else:
            units = zip(long["orderbook_units"], short["obu"], strict=True)
            assert all([*a.values()] == [*b.values()] for a, b in units)


def test_a_stream_may_be_without_its_snapshot_or_nothing_else(exchange: Upbit) -> None:
    realtime, snapshot = (
        exchange.feed(f"trade:KRW-BTC:SIMPLE:{part}") for part in ("realtime", "snapshot")
    )

    assert realtime is not None
    assert snapshot is not None
    start_ms = 1_741_178_096_789
    assert realtime.opening is None
    assert realtime.frames(start_ms, start_ms + 10_000)
    assert snapshot.opening is not None
    assert len(opened(snapshot, start_ms)) == 1
    assert snapshot.frames(start_ms, start_ms + 10_000) == []


@pytest.mark.parametrize(
    "stream", ["trade:KRW-NO", "nothing:KRW-BTC", "trade", "", "candle.2m:KRW-BTC"]
)
def test_a_stream_that_does_not_exist_is_none(exchange: Upbit, stream: str) -> None:
    assert exchange.feed(stream) is None


NEWER = {"trade": ("bap", "bas", "bbp", "bbs"), "orderbook": ("lv",)}


@pytest.fixture(scope="module")
def recorded() -> dict[str, dict[str, Any]]:
    """A recorded frame of each type, in the simple format."""
    beside = Path(__file__).parents[4] / "shared" / "captures"
    if not beside.is_dir():
        pytest.skip(f"there are no recordings at {beside}")
    lines = (beside / "cryptofeed" / "UPBIT.ws.62.0").read_text().splitlines()
    literals = [line.partition(": ")[2] for line in lines]
    found = [ast.literal_eval(text) for text in literals if text.startswith("b'")]
    decoded = [msgspec.json.decode(each) for each in found]
    return {each["ty"]: each for each in decoded}


@pytest.mark.parametrize("kind", ["trade", "orderbook"])
def test_frames_have_the_recorded_shape(
    frames: Frames, recorded: dict[str, dict[str, Any]], kind: str, as_of_ms: int
) -> None:
    told = frames(f"{kind}:KRW-BTC.15:SIMPLE:realtime", as_of_ms, as_of_ms + 5 * SECOND_MS)

    frame = {name: value for name, value in told[0].items() if name not in NEWER[kind]}
    assert list(frame) == list(recorded[kind])
    assert [type(value) for value in frame.values()] == [
        type(value) for value in recorded[kind].values()
    ]
    if kind == "orderbook":
        assert [list(unit) for unit in frame["obu"]] == [
            list(unit) for unit in recorded[kind]["obu"]
        ]
