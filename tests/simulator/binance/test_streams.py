"""Streams say what the market and the book say, once each, however time is cut."""

from collections.abc import Callable, Sequence
from decimal import Decimal
from itertools import pairwise
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.simulator.binance import Binance
from penstock.simulator.binance.instrument import Instrument
from penstock.simulator.binance.periods import DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS, Period

Get = Callable[..., Any]
FramesOf = Callable[[str, int, int], list[Any]]
Instruments = dict[str, Instrument]

KINDS = (
    *("trade", "aggTrade", "bookTicker", "depth", "depth@100ms", "depth5", "depth20@100ms"),
    *("kline_1s", "kline_1m", "kline_1d@+08:00", "ticker", "miniTicker", "ticker_1h", "avgPrice"),
)


def apply(side: dict[str, str], levels: Sequence[list[str]]) -> None:
    for price, quantity in levels:
        side[price] = quantity
        if quantity == "0.00000000":
            del side[price]


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=12, deadline=None)
@given(cuts=st.lists(st.integers(1, 4999), max_size=12), shift_ms=st.integers(0, 10**7))
def test_cutting_time_differently_changes_nothing(
    exchange: Binance, as_of_ms: int, kind: str, cuts: list[int], shift_ms: int
) -> None:
    stream = f"btcusdt@{kind}"
    begin_ms = as_of_ms - shift_ms
    borders = sorted({0, *cuts, 5000})
    whole, parts = exchange.feed(stream), exchange.feed(stream)
    assert whole is not None
    assert parts is not None

    pieces = [
        frame
        for after, upto in pairwise(borders)
        for frame in parts.frames(begin_ms + after, begin_ms + upto)
    ]

    assert pieces == whole.frames(begin_ms, begin_ms + 5000)
    # A feed that has been asked about the future still knows the past.
    assert parts.frames(begin_ms, begin_ms + 5000) == pieces


def test_trades_are_the_markets_in_order(
    frames: FramesOf, instruments: Instruments, as_of_ms: int
) -> None:
    instrument = instruments["BTCUSDT"]
    market, spelling = instrument.market, instrument.spelling
    first, end = market.id_at(as_of_ms + 1), market.id_at(as_of_ms + MINUTE_MS + 1)

    sent = frames("btcusdt@trade", as_of_ms, as_of_ms + MINUTE_MS)

    assert sent == [
        {
            "e": "trade",
            "E": trade.at_ms,
            "s": "BTCUSDT",
            "t": trade.id,
            "p": spelling.price(trade.price),
            "q": spelling.quantity(trade.quantity),
            "T": trade.at_ms,
            "m": not trade.taker_buys,
            "M": True,
        }
        for trade in market.trades(first, end - first)
    ]
    assert len(sent) > 50


def test_aggregated_trades_are_those_of_rest(frames: FramesOf, get: Get, as_of_ms: int) -> None:
    begin_ms = as_of_ms - 10 * SECOND_MS  # no more than a page holds
    sent = frames("btcusdt@aggTrade", begin_ms, as_of_ms)

    rows = get("aggTrades", symbol="BTCUSDT", startTime=begin_ms + 1, limit=1000)

    assert sent == [{"e": "aggTrade", "E": row["T"], "s": "BTCUSDT", **row} for row in rows]
    assert 100 < len(sent) < 1000
    assert all(frame["f"] == before["l"] + 1 for before, frame in pairwise(sent))


@pytest.mark.parametrize("symbol", ["BTCUSDT", "ETHBTC", "1INCHUSDT"])
@pytest.mark.parametrize("kind", ["depth", "depth@100ms"])
def test_a_book_kept_from_a_snapshot_and_the_stream_is_the_book(
    frames: FramesOf, get: Get, instruments: Instruments, as_of_ms: int, symbol: str, kind: str
) -> None:
    length_ms = 20 * SECOND_MS
    snapshot = get("depth", as_of_ms + 3 * SECOND_MS, symbol=symbol, limit=5000)
    bids, asks = dict(snapshot["bids"]), dict(snapshot["asks"])
    update_id = snapshot["lastUpdateId"]

    sent = frames(f"{symbol.lower()}@{kind}", as_of_ms, as_of_ms + length_ms)

    assert all(frame["U"] == before["u"] + 1 for before, frame in pairwise(sent))
    for frame in sent:
        if frame["u"] > update_id:
            assert frame["U"] <= update_id + 1
            apply(bids, frame["b"])
            apply(asks, frame["a"])
            update_id = frame["u"]
    instrument = instruments[symbol]
    spelling = instrument.spelling
    expected = instrument.book.at(update_id, 100)
    kept = (
        sorted(bids.items(), key=lambda level: -Decimal(level[0])),
        sorted(asks.items(), key=lambda level: Decimal(level[0])),
    )
    for side, levels in zip(kept, expected, strict=True):
        assert side[:100] == [(spelling.price(p), spelling.quantity(q)) for p, q in levels]
    assert all(frame["E"] % (100 if kind.endswith("ms") else 1000) == 0 for frame in sent)


def test_both_ways_of_joining_a_snapshot_occur(frames: FramesOf, get: Get, as_of_ms: int) -> None:
    sent = frames("btcusdt@depth@100ms", as_of_ms, as_of_ms + 5 * SECOND_MS)
    ways = set()

    for at_ms in range(as_of_ms + SECOND_MS, as_of_ms + 4 * SECOND_MS, 37):
        last = get("depth", at_ms, symbol="BTCUSDT", limit=1)["lastUpdateId"]
        follows = next(frame for frame in sent if frame["u"] > last)
        assert follows["U"] <= last + 1
        ways.add("after" if follows["U"] == last + 1 else "inside")

    assert ways == {"after", "inside"}


def test_a_quiet_book_is_silent(frames: FramesOf, as_of_ms: int) -> None:
    sent = frames("1inchusdt@depth@100ms", as_of_ms, as_of_ms + MINUTE_MS)

    assert max(frame["E"] - before["E"] for before, frame in pairwise(sent)) >= SECOND_MS


@pytest.mark.parametrize(("kind", "count"), [("depth5", 5), ("depth10", 10), ("depth20@100ms", 20)])
def test_the_best_levels_are_those_of_a_book_kept_by_deltas(
    frames: FramesOf, instruments: Instruments, as_of_ms: int, kind: str, count: int
) -> None:
    instrument = instruments["BTCUSDT"]
    spelling = instrument.spelling
    every = "@100ms" if kind.endswith("ms") else ""

    sent = frames(f"btcusdt@{kind}", as_of_ms, as_of_ms + 5 * SECOND_MS)
    deltas = frames(f"btcusdt@depth{every}", as_of_ms, as_of_ms + 5 * SECOND_MS)

    assert [frame["lastUpdateId"] for frame in sent] == [delta["u"] for delta in deltas]
    for frame in sent:
        bids, asks = instrument.book.at(frame["lastUpdateId"], count)
        assert frame["bids"] == [[spelling.price(p), spelling.quantity(q)] for p, q in bids]
        assert frame["asks"] == [[spelling.price(p), spelling.quantity(q)] for p, q in asks]
        assert len(bids) == len(asks) == count


def test_the_touch_is_sent_as_the_book_tells_it(
    frames: FramesOf, instruments: Instruments, as_of_ms: int
) -> None:
    instrument = instruments["BTCUSDT"]
    price, quantity = instrument.spelling.price, instrument.spelling.quantity
    steps = instrument.book.touches(as_of_ms, as_of_ms + 10 * SECOND_MS)

    sent = frames("btcusdt@bookTicker", as_of_ms, as_of_ms + 10 * SECOND_MS)

    assert sent == [
        {
            "u": update_id,
            "s": "BTCUSDT",
            "b": price(bid),
            "B": quantity(bid_quantity),
            "a": price(ask),
            "A": quantity(ask_quantity),
        }
        for update_id, bid, bid_quantity, ask, ask_quantity in steps
    ]
    assert sent


@pytest.mark.parametrize("stream", ["btcusdt@bookTicker", "1inchusdt@bookTicker"])
def test_no_change_of_the_touch_is_overlooked_in_small_steps(
    exchange: Binance, instruments: Instruments, as_of_ms: int, stream: str
) -> None:
    book = instruments[stream.partition("@")[0].upper()].book
    feed = exchange.feed(stream)
    assert feed is not None

    sent = sum(
        len(feed.frames(at_ms, at_ms + 10)) for at_ms in range(as_of_ms, as_of_ms + MINUTE_MS, 10)
    )

    assert sent == len(book.touches(as_of_ms, as_of_ms + MINUTE_MS)) > 0


@pytest.mark.parametrize(
    ("kind", "interval", "zone"),
    [
        ("kline_1s", "1s", "0"),
        ("kline_1m", "1m", "0"),
        ("kline_5m", "5m", "0"),
        ("kline_1h@+08:00", "1h", "8"),
    ],
)
def test_every_candle_closes_once_and_as_rest_shows_it(
    frames: FramesOf, get: Get, as_of_ms: int, kind: str, interval: str, zone: str
) -> None:
    begin_ms = as_of_ms - (100 * SECOND_MS if interval == "1s" else 3 * HOUR_MS)

    sent = frames(f"1inchusdt@{kind}", begin_ms, as_of_ms)

    closed = [frame for frame in sent if frame["k"]["x"]]
    rows = get("klines", symbol="1INCHUSDT", interval=interval, timeZone=zone, startTime=0, limit=1)
    length_ms = rows[0][6] + 1 - rows[0][0]
    rows = get(
        "klines",
        symbol="1INCHUSDT",
        interval=interval,
        startTime=begin_ms // length_ms * length_ms,
        limit=1000,
    )[:-1]
    assert [frame["E"] for frame in closed] == [row[6] + 1 for row in rows]
    names = ("t", "o", "h", "l", "c", "v", "T", "q", "n", "V", "Q", "B")
    assert [[frame["k"][name] for name in names] for frame in closed] == rows
    for frame in closed:
        candle = frame["k"]
        expected = (-1, -1) if not candle["n"] else (candle["f"], candle["f"] + candle["n"] - 1)
        assert (candle["f"], candle["L"]) == expected
        assert (frame["e"], frame["s"], candle["s"]) == ("kline", "1INCHUSDT", "1INCHUSDT")
        assert candle["i"] == interval


def test_a_running_candle_is_sent_only_while_it_changes(
    frames: FramesOf, instruments: Instruments, get: Get, as_of_ms: int
) -> None:
    market = instruments["1INCHUSDT"].market

    sent = frames("1inchusdt@kline_1h", as_of_ms - HOUR_MS, as_of_ms)

    running = [frame for frame in sent if not frame["k"]["x"]]
    ticks = range((as_of_ms - HOUR_MS) // 2000 * 2000 + 2000, as_of_ms + 1, 2000)
    changing = [
        tick for tick in ticks if market.id_at(tick - 2000) < market.id_at(tick) and tick % HOUR_MS
    ]
    assert [frame["E"] for frame in running] == changing
    for frame in running:
        candle = frame["k"]
        (row,) = get("klines", frame["E"] - 1, symbol="1INCHUSDT", interval="1h", limit=1)
        assert [candle["t"], candle["o"], candle["c"], candle["v"], candle["n"]] == [
            *(row[0], row[1], row[4], row[5], row[8])
        ]


def test_a_week_in_another_zone_closes_on_its_own_monday(frames: FramesOf, as_of_ms: int) -> None:
    period = Period("1w", 8 * HOUR_MS)
    close_ms = period.open_ms(period.number(as_of_ms))

    (frame,) = frames("1inchusdt@kline_1w@+08:00", close_ms - 1, close_ms)

    assert frame["k"]["x"]
    assert (frame["k"]["t"], frame["k"]["T"]) == (close_ms - 7 * DAY_MS, close_ms - 1)


def test_a_ticker_is_what_rest_would_answer(frames: FramesOf, get: Get, as_of_ms: int) -> None:
    sent = frames("ethbtc@ticker", as_of_ms - 3 * SECOND_MS, as_of_ms)

    assert len(sent) == 3
    for frame in sent:
        row = get("ticker/24hr", frame["E"], symbol="ETHBTC")
        assert frame == {
            "e": "24hrTicker",
            "E": row["closeTime"],
            "s": "ETHBTC",
            "p": row["priceChange"],
            "P": row["priceChangePercent"],
            "w": row["weightedAvgPrice"],
            "x": row["prevClosePrice"],
            "c": row["lastPrice"],
            "Q": row["lastQty"],
            "b": row["bidPrice"],
            "B": row["bidQty"],
            "a": row["askPrice"],
            "A": row["askQty"],
            "o": row["openPrice"],
            "h": row["highPrice"],
            "l": row["lowPrice"],
            "v": row["volume"],
            "q": row["quoteVolume"],
            "O": row["openTime"],
            "C": row["closeTime"],
            "F": row["firstId"],
            "L": row["lastId"],
            "n": row["count"],
        }


@pytest.mark.parametrize("size", ["1h", "4h", "1d"])
def test_a_rolling_ticker_is_what_rest_would_answer(
    frames: FramesOf, get: Get, as_of_ms: int, size: str
) -> None:
    (frame,) = frames(f"ethbtc@ticker_{size}", as_of_ms - SECOND_MS, as_of_ms)

    row = get("ticker", frame["E"], symbol="ETHBTC", windowSize=size)
    assert frame == {
        "e": f"{size}Ticker",
        "E": row["closeTime"],
        "s": "ETHBTC",
        "p": row["priceChange"],
        "P": row["priceChangePercent"],
        "o": row["openPrice"],
        "h": row["highPrice"],
        "l": row["lowPrice"],
        "c": row["lastPrice"],
        "w": row["weightedAvgPrice"],
        "v": row["volume"],
        "q": row["quoteVolume"],
        "O": row["openTime"],
        "C": row["closeTime"],
        "F": row["firstId"],
        "L": row["lastId"],
        "n": row["count"],
    }


def test_all_mini_tickers_are_those_that_traded(
    frames: FramesOf, instruments: Instruments, as_of_ms: int
) -> None:
    sent = frames("!miniTicker@arr", as_of_ms - 30 * SECOND_MS, as_of_ms)

    absent = 0
    for array in sent:
        due_ms = array[0]["E"]
        traded = [
            each.symbol
            for each in instruments.values()
            if each.market.last_before(due_ms + 1).at_ms > due_ms - SECOND_MS
        ]
        absent += len(instruments) - len(traded)
        assert [each["s"] for each in array] == traded
        for each in array:
            stream = f"{each['s'].lower()}@miniTicker"
            assert frames(stream, due_ms - 1, due_ms) == [each]
            assert list(each) == ["e", "E", "s", "c", "o", "h", "l", "v", "q"]
    assert absent, "some symbol must have been quiet for a second"


def test_the_average_price_is_sent_every_second(frames: FramesOf, get: Get, as_of_ms: int) -> None:
    sent = frames("1inchusdt@avgPrice", as_of_ms - 2 * SECOND_MS, as_of_ms)

    for frame in sent:
        body = get("avgPrice", frame["E"], symbol="1INCHUSDT")
        assert frame == {
            "e": "avgPrice",
            "E": frame["E"],
            "s": "1INCHUSDT",
            "i": "5m",
            "w": body["price"],
            "T": body["closeTime"],
        }
    assert len(sent) == 2


@pytest.mark.parametrize(
    "stream",
    [
        *("0", "", "btcusdt", "BTCUSDT@trade", "nosuch@trade", "btcusdt@trades", "btcusdt@depth7"),
        *("btcusdt@kline_7m", "btcusdt@kline_1m@+09:00", "!ticker@arr", "!bookTicker"),
        *("btcusdt@depth@250ms", "btcusdt@ticker_2h", "btcusdt@kline_1M ", "!serverShutdown"),
    ],
)
def test_a_name_without_a_stream_is_no_feed(exchange: Binance, stream: str) -> None:
    assert exchange.feed(stream) is None


def test_a_symbol_that_is_not_ascii_streams(frames: FramesOf, as_of_ms: int) -> None:
    sent = frames("币安人生usdt@trade", as_of_ms - HOUR_MS, as_of_ms)

    assert {frame["s"] for frame in sent} == {"币安人生USDT"}


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_is_sent_before_the_listing(
    exchange: Binance, instruments: Instruments, kind: str
) -> None:
    listed_ms = instruments["1INCHUSDT"].listed_at_ms
    feed = exchange.feed(f"1inchusdt@{kind}")
    assert feed is not None

    assert feed.frames(listed_ms - 10 * SECOND_MS, listed_ms) == []
    after = [
        msgspec.json.decode(frame) for frame in feed.frames(listed_ms - 5000, listed_ms + MINUTE_MS)
    ]
    assert all(frame.get("E", listed_ms + 1) > listed_ms for frame in after)
