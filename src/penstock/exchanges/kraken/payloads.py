"""What Kraken's streams carry, and the events each frame becomes.

Frames name their channel and bring a list of entries, ``{"channel":"trade","type":"update","data":
[…]}``. Prices and quantities are bare JSON numbers with the zeros the exchange wrote, so they are
kept as texts: a decoder that is given ``float_hook=str`` hands over the digits. Each structure
quotes the entry it reads, with its fields in the wire's order, which is what msgspec reads fastest.
"""

from collections.abc import Callable, Mapping
from typing import Annotated, Literal

import msgspec
from msgspec import Meta, Raw, Struct, ValidationError

from penstock.exchanges.answers import Whole
from penstock.exchanges.frames import Instant, Number, RunningCandles, epoch_ms, number_text
from penstock.exchanges.kraken.symbols import NAME
from penstock.market.events import AnyEvent, BookDelta, BookSnapshot, Candle, Ticker, Trade
from penstock.market.interval import MINUTE_MS
from penstock.market.levels import plain_levels, write_levels
from penstock.market.symbol import Symbol

Asked = Mapping[str, Symbol]
"""Symbols asked for, by the exchange's spelling."""
Reader = Callable[[bytes, int], list[AnyEvent]]
"""(frame, received_at_ns) → events. Raises what msgspec raises, and KeyError for other symbols."""

Candles = Mapping[tuple[str, int], tuple[Symbol, str]]
"""Symbol and name of the interval, by the exchange's spelling and minutes."""


class _Trade(Struct, gc=False):
    """trade

    {"symbol":"MATIC/USD","side":"sell","price":0.5117,"qty":40.0,"ord_type":"market",
     "trade_id":4665906,"timestamp":"2023-09-25T07:49:37.708706Z"}
    """

    symbol: str
    side: Literal["buy", "sell"]
    price: Number
    qty: Number
    trade_id: Whole
    timestamp: Instant
    ord_type: str = ""


class _Trades(Struct, gc=False):
    channel: Literal["trade"]
    type: Literal["snapshot", "update"]
    data: list[_Trade]


class _Book(Struct, gc=False):
    """book; a snapshot has the same keys

    {"symbol":"MINA/GBP","bids":[{"price":0.0286,"qty":74198.19125726}],"asks":[],
     "checksum":2570005138,"timestamp":"2026-08-16T23:37:04.190019Z"}
    """

    symbol: str
    bids: Raw
    asks: Raw
    checksum: Annotated[int, Meta(ge=0, le=0xFFFF_FFFF)]
    timestamp: Instant | None = None


class _Books(Struct, gc=False):
    channel: Literal["book"]
    type: Literal["snapshot", "update"]
    data: list[_Book]


class _Level(Struct, gc=False):
    price: Number
    qty: Number


class _Ticker(Struct, gc=False):
    """ticker

    {"symbol":"ALGO/USD","bid":0.10025,"bid_qty":740.0,"ask":0.10036,"ask_qty":1361.44813783,
     "last":0.10035,"volume":997038.98383185,"vwap":0.10148,"low":0.09979,"high":0.10285,
     "change":-0.00017,"change_pct":-0.17,"timestamp":"2023-09-25T09:04:31.742648Z"}
    """

    symbol: str
    bid: Number
    bid_qty: Number
    ask: Number
    ask_qty: Number
    last: Number
    volume: Number
    low: Number
    high: Number
    timestamp: Instant | None = None


class _Tickers(Struct, gc=False):
    channel: Literal["ticker"]
    data: list[_Ticker]


class _Candle(Struct, gc=False):
    """ohlc

    {"symbol":"ETH/USDT","open":1642.2,"high":1642.2,"low":1642.2,"close":1642.2,"trades":12,
     "volume":3.2,"vwap":1642.2,"interval_begin":"2023-10-04T16:25:00.000000000Z","interval":5,
     "timestamp":"2023-10-04T16:30:00.000000Z"}
    """

    symbol: str
    open: Number
    high: Number
    low: Number
    close: Number
    trades: Whole
    volume: Number
    interval_begin: Instant
    interval: int


class _Candles(Struct, gc=False):
    channel: Literal["ohlc"]
    type: Literal["snapshot", "update"]
    data: list[_Candle]


_decode_trades = msgspec.json.Decoder(_Trades, float_hook=str).decode
_decode_books = msgspec.json.Decoder(_Books).decode
_decode_levels = msgspec.json.Decoder(list[_Level], float_hook=str).decode
_decode_tickers = msgspec.json.Decoder(_Tickers, float_hook=str).decode
_decode_candles = msgspec.json.Decoder(_Candles, float_hook=str).decode


_NO_LEVELS = Raw(b"[]")


def trade_reader(asked: Asked) -> Reader:
    """Reads the trade channel."""

    def read(frame: bytes, received_at_ns: int) -> list[AnyEvent]:
        return [
            Trade(
                exchange=NAME,
                symbol=asked[row.symbol],
                received_at_ns=received_at_ns,
                id=row.trade_id,
                at_ms=epoch_ms(row.timestamp),
                price_text=number_text(row.price),
                quantity_text=number_text(row.qty),
                taker=row.side,
            )
            for row in _decode_trades(frame).data
        ]

    return read


def book_reader(asked: Asked) -> Reader:
    """Reads the book channel: a snapshot first, then changes, each with a checksum."""

    def read(frame: bytes, received_at_ns: int) -> list[AnyEvent]:
        books = _decode_books(frame)
        if books.type == "snapshot":
            return [_snapshot(row, asked[row.symbol], received_at_ns) for row in books.data]
        return [
            BookDelta(
                exchange=NAME,
                symbol=asked[row.symbol],
                received_at_ns=received_at_ns,
                at_ms=_time_of_change(row),
                bids_raw=_levels(row.bids),
                asks_raw=_levels(row.asks),
                checksum=row.checksum,
            )
            for row in books.data
        ]

    return read


def _time_of_change(row: _Book) -> int:
    if row.timestamp is None:  # as it is in an older server's snapshots
        raise ValidationError("a change without a time")
    return epoch_ms(row.timestamp)


def _snapshot(row: _Book, symbol: Symbol, received_at_ns: int) -> BookSnapshot:
    return BookSnapshot(
        exchange=NAME,
        symbol=symbol,
        received_at_ns=received_at_ns,
        at_ms=epoch_ms(row.timestamp) if row.timestamp else None,
        bids_raw=_levels(row.bids),
        asks_raw=_levels(row.asks),
        checksum=row.checksum,
    )


def ticker_reader(asked: Asked) -> Reader:
    """Reads the ticker channel."""

    def read(frame: bytes, received_at_ns: int) -> list[AnyEvent]:
        return [
            Ticker(
                exchange=NAME,
                symbol=asked[row.symbol],
                received_at_ns=received_at_ns,
                at_ms=epoch_ms(row.timestamp) if row.timestamp else None,
                bid_text=number_text(row.bid),
                bid_quantity_text=number_text(row.bid_qty),
                ask_text=number_text(row.ask),
                ask_quantity_text=number_text(row.ask_qty),
                last_text=number_text(row.last),
                high_text=number_text(row.high),
                low_text=number_text(row.low),
                volume_text=number_text(row.volume),
            )
            for row in _decode_tickers(frame).data
        ]

    return read


def candle_reader(asked: Candles, running: RunningCandles) -> Reader:
    """Reads the ohlc channel, which brings a candle that changed, and first those before it."""

    def read(frame: bytes, received_at_ns: int) -> list[AnyEvent]:
        rows = sorted(_decode_candles(frame).data, key=lambda row: row.interval_begin)
        events: list[AnyEvent] = []
        for row in rows:
            stream = row.symbol, row.interval
            symbol, interval = asked[stream]
            events += running.note(stream, _candle(row, symbol, interval, received_at_ns))
        return events

    return read


def _candle(row: _Candle, symbol: Symbol, interval: str, received_at_ns: int) -> Candle:
    open_ms = epoch_ms(row.interval_begin)
    return Candle(
        exchange=NAME,
        symbol=symbol,
        received_at_ns=received_at_ns,
        interval=interval,
        open_ms=open_ms,
        close_ms=open_ms + row.interval * MINUTE_MS - 1,
        open_text=number_text(row.open),
        high_text=number_text(row.high),
        low_text=number_text(row.low),
        close_text=number_text(row.close),
        volume_text=number_text(row.volume),
        trades=row.trades,
        closed=False,
    )


def _levels(raw: Raw) -> Raw:
    """Levels in the one spelling: ``[{"price":0.0286,"qty":74.1}]`` as ``[["0.0286","74.1"]]``.

    Written so, as the exchange does, three replacements get it there. What is written otherwise
    is not levels then, and is decoded with care.
    """
    written = bytes(raw)
    if written == b"[]":
        return _NO_LEVELS
    pairs = written.replace(b'{"price":', b'["').replace(b',"qty":', b'","').replace(b"}", b'"]')
    if plain_levels(pairs):
        return Raw(pairs)
    rows = _decode_levels(written)
    return write_levels((number_text(row.price), number_text(row.qty)) for row in rows)
