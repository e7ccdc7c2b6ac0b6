"""Reads the payloads of Kraken's streams, and converts them to events.

Frames have a channel and a list of entries, ``{"channel":"trade","type":"update","data":[…]}``.
Prices and quantities are bare JSON numbers with the zeros that the exchange sent. They are kept as
texts: a decoder with ``float_hook=str`` returns the digits. Each structure quotes the entry it
reads, with its fields in the order in which they are sent, which msgspec reads fastest. Levels of
many frames are converted to the standard format together, and numbers are collected for later
validation.
"""

from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Annotated, Literal

import msgspec
from msgspec import Meta, Raw, Struct, field

from penstock.exchanges.answers import Whole
from penstock.exchanges.deferred_numbers import DeferredNumbers
from penstock.exchanges.frames import Number
from penstock.exchanges.kraken.symbols import NAME
from penstock.exchanges.level_formats import LevelSpelling
from penstock.exchanges.row_events import BookRow, DatedEvents
from penstock.exchanges.rows import CandleRow, TickerRow
from penstock.exchanges.stream_names import Asked
from penstock.market.events import Candle, Event
from penstock.market.interval import Interval

MINUTES = {"1m": 1, "5m": 5, "15m": 15, "30m": 30, "1h": 60, "4h": 240, "1d": 1440}
"""Minutes by interval. 7 and 15 days exist too, but their first day is not documented."""
_INTERVALS = {minutes: Interval.parse(text) for text, minutes in MINUTES.items()}


class _Trade(Struct, gc=False):
    """trade

    {"symbol":"MATIC/USD","side":"sell","price":0.5117,"qty":40.0,"ord_type":"market",
     "trade_id":4665906,"timestamp":"2023-09-25T07:49:37.708706Z"}
    """

    symbol: str
    side: Literal["buy", "sell"]
    price: Number
    quantity: Number = field(name="qty")
    id: Whole = field(name="trade_id")
    at: str = field(name="timestamp")
    ord_type: str = ""


class _Trades(Struct, tag_field="channel", tag="trade", gc=False):
    type: Literal["snapshot", "update"]
    data: list[_Trade]


class _Book(BookRow, Struct, gc=False):
    """book; a snapshot has the same keys

    {"symbol":"MINA/GBP","bids":[{"price":0.0286,"qty":74198.19125726}],"asks":[],
     "checksum":2570005138,"timestamp":"2026-08-16T23:37:04.190019Z"}
    """

    symbol: str
    bids: Raw
    asks: Raw
    checksum: Annotated[int, Meta(ge=0, le=0xFFFF_FFFF)]
    at: str | None = field(name="timestamp", default=None)


class _Books(Struct, tag_field="channel", tag="book", gc=False):
    type: Literal["snapshot", "update"]
    data: list[_Book]


class _Ticker(TickerRow, Struct, gc=False, kw_only=True):
    """ticker

    {"symbol":"ALGO/USD","bid":0.10025,"bid_qty":740.0,"ask":0.10036,"ask_qty":1361.44813783,
     "last":0.10035,"volume":997038.98383185,"vwap":0.10148,"low":0.09979,"high":0.10285,
     "change":-0.00017,"change_pct":-0.17,"timestamp":"2023-09-25T09:04:31.742648Z"}
    """

    symbol: str
    bid: Number
    bid_quantity: Number = field(name="bid_qty")
    ask: Number
    ask_quantity: Number = field(name="ask_qty")
    last: Number
    volume: Number
    low: Number
    high: Number
    at: str | None = field(name="timestamp", default=None)


class _Tickers(Struct, tag_field="channel", tag="ticker", gc=False):
    data: list[_Ticker]


class _Candle(CandleRow, Struct, gc=False):
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
    vwap: Number
    open_at: str = field(name="interval_begin")
    interval: int


class _Candles(Struct, tag_field="channel", tag="ohlc", gc=False):
    type: Literal["snapshot", "update"]
    data: list[_Candle]


class _Heartbeat(Struct, tag_field="channel", tag="heartbeat", gc=False):
    """Sent every second if there is nothing else to send."""


class _Status(Struct, tag_field="channel", tag="status", gc=False):
    """Sent first, and when the status of the exchange changes."""


Message = _Books | _Trades | _Tickers | _Candles | _Heartbeat | _Status
CHANNELS = ("book", "trade", "ticker", "ohlc")
"""Channels with data."""

decode: Callable[[bytes | str], Message] = msgspec.json.Decoder(Message, float_hook=str).decode


class EventMaker:
    """Makes events from decoded messages.

    Numbers in the events are added to ``deferred``, which the caller validates before it passes the
    events on. Candles are as they were sent, none of them closed.
    """

    def __init__(self, asked: Asked, deferred: DeferredNumbers) -> None:
        self._asked = asked
        self._trades, self._books, self._tickers = asked["trade"], asked["book"], asked["ticker"]
        self._dated = DatedEvents(NAME, {"buy": "buy", "sell": "sell"}, deferred)

    def make(
        self, messages: Sequence[Message], received_at_ns: Sequence[int], spell: LevelSpelling
    ) -> list[Event]:
        """The events of these messages, in order.

        Raises:
            KeyError: a message is of a symbol that was not requested.
            ValidationError: a message is not as documented.
        """
        books = [row for each in messages if type(each) is _Books for row in each.data]
        levels = iter(spell([raw for row in books for raw in (row.bids, row.asks)]))
        events: list[Event] = []
        trade, ticker = self._dated.trade, self._dated.ticker
        for message, at_ns in zip(messages, received_at_ns, strict=True):
            # Comparing types takes half the time of ``match``.
            if type(message) is _Books:
                make = self._dated.delta if message.type == "update" else self._dated.snapshot
                for book in message.data:
                    events.append(make(book, self._books[book.symbol], at_ns, levels))
            elif type(message) is _Trades:
                events += [trade(row, self._trades[row.symbol], at_ns) for row in message.data]
            elif type(message) is _Tickers:
                events += [ticker(row, self._tickers[row.symbol], at_ns) for row in message.data]
            elif type(message) is _Candles:
                candles = (self._candle(row, at_ns) for row in message.data)
                events += sorted(candles, key=attrgetter("open_ms"))
        return events

    def _candle(self, row: _Candle, received_at_ns: int) -> Candle:
        symbol = self._asked[f"ohlc-{row.interval}"][row.symbol]
        return self._dated.candle(row, symbol, _INTERVALS[row.interval], received_at_ns)
