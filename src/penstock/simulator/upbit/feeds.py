"""Computes the frames of streams, as pure functions of time: a snapshot, then updates.

A book is sent whole whenever it has changed. Trades do not always arrive in order: about one in a
hundred is delayed by a moment, as observed on the real exchange.
"""

from functools import partial

from penstock.simulator.engine.exchange import StreamFeed
from penstock.simulator.engine.pacing import DueTrades, every
from penstock.simulator.market.book import Book
from penstock.simulator.market.market import Trade
from penstock.simulator.market.rng import key, mix
from penstock.simulator.upbit import ticker as tickers
from penstock.simulator.upbit.candles import candle_at
from penstock.simulator.upbit.formats import encode, part
from penstock.simulator.upbit.instrument import Instrument, book_time_ms
from penstock.simulator.upbit.periods import SECOND_MS, Period
from penstock.simulator.upbit.spelling import (
    compact,
    difference,
    kst,
    stream_number,
    utc,
)
from penstock.simulator.upbit.ticker import Fields

SNAPSHOT, REALTIME = '"SNAPSHOT"', '"REALTIME"'
MOST_UNITS = 30

_HELD_MS = 300
_ONE_IN = 128


def trades(name: str, instrument: Instrument, form: str) -> StreamFeed:
    """``trade``."""
    in_time, held = DueTrades(instrument.market), DueTrades(instrument.market)
    bits = key(instrument.market.purpose, "held up")

    def is_held(trade: Trade) -> bool:
        return mix(bits ^ trade.id) % _ONE_IN == 0

    def frames(after_ms: int, upto_ms: int) -> list[bytes]:
        due = [(each.at_ms, each) for each in in_time(after_ms, upto_ms) if not is_held(each)]
        late = held(after_ms - _HELD_MS, upto_ms - _HELD_MS)
        due += [(each.at_ms + _HELD_MS, each) for each in late if is_held(each)]
        due.sort()
        return [_sent(_trade(instrument, each), REALTIME, form) for _, each in due]

    def opening(at_ms: int) -> list[bytes]:
        last = instrument.market.last_before(at_ms + 1)
        return [_sent(_trade(instrument, last), SNAPSHOT, form)] if last.id else []

    return StreamFeed(name, frames, opening)


def ticker(name: str, instrument: Instrument, form: str) -> StreamFeed:
    """``ticker``: one frame for all trades of the same time."""
    due = DueTrades(instrument.market)

    def frames(after_ms: int, upto_ms: int) -> list[bytes]:
        instants = dict.fromkeys(trade.at_ms for trade in due(after_ms, upto_ms))
        return [_sent(_ticker(instrument, at_ms), REALTIME, form) for at_ms in instants]

    def opening(at_ms: int) -> list[bytes]:
        return [_sent(_ticker(instrument, at_ms), SNAPSHOT, form)]

    return StreamFeed(name, frames, opening)


def book(name: str, instrument: Instrument, form: str, units: int) -> StreamFeed:
    """``orderbook``: the best levels, whenever the book has changed."""

    def at(due_ms: int) -> bytes | None:
        update_id = instrument.update_id_at(due_ms)
        if update_id == instrument.update_id_at(due_ms - Book.SLOT_MS):
            return None
        return _sent(_book(instrument, update_id, units, form), REALTIME, form)

    def opening(at_ms: int) -> list[bytes]:
        update_id = instrument.update_id_at(at_ms)
        return [_sent(_book(instrument, update_id, units, form), SNAPSHOT, form)]

    return StreamFeed(name, every(Book.SLOT_MS, at, instrument.listed_at_ms), opening)


def candle(name: str, instrument: Instrument, form: str, period: Period) -> StreamFeed:
    """``candle.1s`` … ``candle.240m``: the current candle, every second if it has changed.

    The frame of a second has the trades before that second.
    """
    kind, market = name.partition(":")[0], instrument.market
    current = partial(_candle, kind, instrument, period)

    def at(due_ms: int) -> bytes | None:
        if market.id_at(due_ms - SECOND_MS) == market.id_at(due_ms):
            return None
        fields = current(due_ms - 1)
        return None if fields is None else _sent(fields, REALTIME, form)

    def opening(at_ms: int) -> list[bytes]:
        # The last candle with a trade, if the current one has none yet.
        fields = current(at_ms) or current(market.last_before(at_ms + 1).at_ms)
        return [] if fields is None else [_sent(fields, SNAPSHOT, form)]

    return StreamFeed(name, every(SECOND_MS, at, instrument.listed_at_ms), opening)


def only_realtime(feed: StreamFeed) -> StreamFeed:
    """The stream without its snapshot."""
    return StreamFeed(feed.name, feed.frames)


def only_snapshot(feed: StreamFeed) -> StreamFeed:
    """The stream with its snapshot only."""
    return StreamFeed(feed.name, lambda _, __: [], feed.opening)


def _sent(fields: Fields, stream_type: str, form: str) -> bytes:
    return encode({**fields, "stream_type": stream_type}, form)


def _trade(instrument: Instrument, trade: Trade) -> Fields:
    price, volume = instrument.spelling.price, instrument.spelling.volume
    touch = instrument.book.touch(trade)
    date, _, clock = utc(trade.at_ms).partition("T")
    return {
        "type": '"trade"',
        "code": f'"{instrument.code}"',
        "timestamp": str(trade.at_ms),
        "trade_date": f'"{date}"',
        "trade_time": f'"{clock}"',
        "trade_timestamp": str(trade.at_ms),
        "trade_price": price(trade.price, stream_number),
        "trade_volume": volume(trade.quantity, stream_number),
        "ask_bid": _side(trade),
        **tickers.change(instrument, trade.price, trade.at_ms, difference),
        "sequential_id": str(instrument.sequential_id(trade)),
        "best_ask_price": price(touch.ask, stream_number),
        "best_ask_size": volume(touch.ask_quantity, stream_number),
        "best_bid_price": price(touch.bid, stream_number),
        "best_bid_size": volume(touch.bid_quantity, stream_number),
    }


def _ticker(instrument: Instrument, at_ms: int) -> Fields:
    volume, now = instrument.spelling.volume, tickers.market_state(instrument, at_ms)
    date, clock = compact(utc(now.last.at_ms))
    return {
        "type": '"ticker"',
        "code": f'"{instrument.code}"',
        **tickers.prices(now, stream_number),
        **tickers.changes(now, stream_number, difference),
        "trade_volume": volume(now.last.quantity, stream_number),
        **tickers.sums(now, stream_number),
        "trade_date": f'"{date}"',
        "trade_time": f'"{clock}"',
        "trade_timestamp": str(now.last.at_ms),
        "ask_bid": _side(now.last),
        "acc_ask_volume": volume(now.today.volume - now.today.taker_volume, stream_number),
        "acc_bid_volume": volume(now.today.taker_volume, stream_number),
        **tickers.year(now, stream_number),
        "market_state": '"ACTIVE"',
        "is_trading_suspended": "false",
        "delisting_date": "null",
        "market_warning": '"NONE"',
        "timestamp": str(at_ms),
    }


def _book(instrument: Instrument, update_id: int, units: int, form: str) -> Fields:
    price, volume = instrument.spelling.price, instrument.spelling.volume
    bids, asks = instrument.book.at(update_id, MOST_UNITS)
    shown = [
        part(
            {
                "ask_price": price(ask, stream_number),
                "bid_price": price(bid, stream_number),
                "ask_size": volume(ask_size, stream_number),
                "bid_size": volume(bid_size, stream_number),
            },
            form,
        )
        for (bid, bid_size), (ask, ask_size) in zip(bids[:units], asks[:units], strict=True)
    ]
    total_ask, total_bid = (sum(size for _, size in side) for side in (asks, bids))
    return {
        "type": '"orderbook"',
        "code": f'"{instrument.code}"',
        "timestamp": str(book_time_ms(update_id)),
        "total_ask_size": volume(total_ask, stream_number),
        "total_bid_size": volume(total_bid, stream_number),
        "orderbook_units": f"[{','.join(shown)}]",
        "level": "0",
    }


def _candle(kind: str, instrument: Instrument, period: Period, at_ms: int) -> Fields | None:
    found = candle_at(instrument, period, at_ms)
    if found is None:
        return None
    spelling, sums = instrument.spelling, found.sums
    return {
        "type": f'"{kind}"',
        "code": f'"{instrument.code}"',
        "candle_date_time_utc": f'"{utc(found.open_ms)}"',
        "candle_date_time_kst": f'"{kst(found.open_ms)}"',
        "opening_price": spelling.price(sums.open, stream_number),
        "high_price": spelling.price(sums.high, stream_number),
        "low_price": spelling.price(sums.low, stream_number),
        "trade_price": spelling.price(sums.close, stream_number),
        "candle_acc_trade_volume": spelling.volume(sums.volume, stream_number),
        "candle_acc_trade_price": spelling.amount(sums.quote, stream_number),
        "timestamp": str(found.last_ms),
    }


def _side(trade: Trade) -> str:
    return '"BID"' if trade.taker_buys else '"ASK"'
