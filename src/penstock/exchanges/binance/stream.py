"""Binance's stream dialect has combined streams on one connection, requested by message.

A frame begins with the name of its stream (``named_frames.py``):

    {"stream":"btcusdt@bookTicker","data":{"u":499869768,"s":"BTCUSDT","b":"0.35210000",…

A frame that cannot be read as one of a requested stream is read again by itself, to find out
whether it is a response, a notice, or malformed, and why.
"""

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType
from msgspec.structs import replace

from penstock.books.rules import BookRules
from penstock.exchanges.binance import payloads
from penstock.exchanges.binance.layouts import LAYOUTS
from penstock.exchanges.binance.limits import STREAM_LIMITS
from penstock.exchanges.binance.rest import DEEPEST_BOOK
from penstock.exchanges.binance.symbols import NAME
from penstock.exchanges.deferred_numbers import DeferredNumbers
from penstock.exchanges.frame_reader import FrameReader
from penstock.exchanges.frames import json_text, malformed
from penstock.exchanges.layouts import NamedLayouts, Reads
from penstock.exchanges.named_frames import NamedChannel, NamedFrames
from penstock.exchanges.row_events import StampedEvents
from penstock.exchanges.symbol_map import SymbolMap
from penstock.market.channels import DedupeKey, contents
from penstock.market.events import Event, Ticker24h
from penstock.market.interval import COMMON
from penstock.market.symbol import Symbol
from penstock.streaming.dialect import Ack, Notice, Received, Refusal

# The longest frame seen is some hundred kilobytes: a whole second of a busy book.
LARGEST_FRAME = 4_000_000


_CHANNELS: Final[dict[str, NamedChannel]] = {
    "trades": NamedChannel("trade", payloads.TradePayload, StampedEvents.trade),
    "agg_trades": NamedChannel("aggTrade", payloads.AggTradePayload, StampedEvents.agg_trade),
    "book_deltas": NamedChannel("depth@100ms", payloads.DeltaPayload, StampedEvents.delta),
    "book_snapshots": NamedChannel("depth20@100ms", payloads.DepthPayload, StampedEvents.snapshot),
    "tickers": NamedChannel("bookTicker", payloads.BookTickerPayload, StampedEvents.best),
    "tickers_24h": NamedChannel("ticker", payloads.DayTickerPayload, StampedEvents.ticker_24h),
    **{
        f"candles_{text}": NamedChannel(f"kline_{text}", payloads.CandlePayload, payloads.candle)
        for text in COMMON
    },
}


class _Error(Struct):
    code: int | str = ""
    msg: str = ""


class _Message(_Error):
    """Any message of the exchange, with the fields that distinguish its kinds.

    {"stream":"btcusdt@trade","data":{…}}                      data
    {"result":null,"id":1}                                     an acknowledgement
    {"error":{"code":2,"msg":"Invalid request: …"},"id":1}     a refusal; documented flat:
    {"code":2,"msg":"Invalid request: …","id":1}
    {"e":"serverShutdown","E":1770123456789}                   a notice; also in the envelope,
    {"stream":"!serverShutdown","data":{"e":"serverShutdown","E":1770123456789}}
    """

    stream: str = ""
    data: Raw | UnsetType = UNSET
    result: Raw | UnsetType = UNSET
    error: _Error | UnsetType = UNSET
    id: int | str | None = None
    e: str = ""
    E: int | None = None


_decode_message = msgspec.json.Decoder(_Message).decode


class BinanceDialect:
    """See ``Dialect``."""

    limits = STREAM_LIMITS
    books = BookRules(begins="rest", fetched_levels=DEEPEST_BOOK)
    channels: Sequence[str] = tuple(_CHANNELS)
    # ``E`` differs between connections.
    dedupe_keys: Mapping[type[Event], DedupeKey] = {
        Ticker24h: lambda ticker: contents(replace(ticker, at_ns=None))
    }

    def __init__(self, symbols: SymbolMap) -> None:
        deferred = DeferredNumbers()
        maker = StampedEvents(NAME, deferred)
        self._streams = NamedFrames(
            symbols, _CHANNELS, maker, lambda native, suffix: f"{native.lower()}@{suffix}"
        )
        reader = FrameReader(
            largest_frame=LARGEST_FRAME,
            deferred=deferred,
            events=self._streams.events,
            answers=self._answers,
            with_care=self._streams.event,
        )
        unusual = Reads(reader.read, reader.read_many)
        self._usual = NamedLayouts(symbols.exchange, LARGEST_FRAME, LAYOUTS, unusual)
        self.read, self.read_many = self._usual.reads

    def url(self, base: str) -> str:
        """The combined endpoint; streams are requested by message."""
        return base.rstrip("/") + "/stream"

    def streams(self, channel: str, symbols: Sequence[Symbol]) -> list[str]:
        """See ``Dialect``; stream names are in lower case."""
        streams = self._streams.add(channel, symbols)
        for each in streams:
            self._usual.add(channel, *each)
        return [name for name, _, _ in streams]

    def subscribe(self, names: Sequence[str], request_id: int) -> str:
        """``{"method":"SUBSCRIBE","params":["btcusdt@aggTrade"],"id":1}``"""
        return json_text({"method": "SUBSCRIBE", "params": names, "id": request_id})

    def unsubscribe(self, names: Sequence[str], request_id: int) -> str:
        """``{"method":"UNSUBSCRIBE","params":["btcusdt@depth"],"id":312}``"""
        return json_text({"method": "UNSUBSCRIBE", "params": names, "id": request_id})

    def _answers(self, frame: bytes) -> list[Received] | None:
        message = _decode_message(frame)
        if message.data is UNSET or not message.stream:
            return [_read_control(message, frame)]
        if message.stream == "!serverShutdown":
            return [Notice("closing", _decode_message(message.data).E)]
        if message.stream not in self._streams:
            raise KeyError(message.stream)
        return None


def _read_control(message: _Message, frame: bytes) -> Received:
    # Only numbers are sent as ids; any other id belongs to no request.
    request_id = message.id if isinstance(message.id, int) else None
    if message.e == "serverShutdown":
        return Notice("closing", message.E)
    if message.error is not UNSET:
        return Refusal(request_id, message.error.code, message.error.msg)
    if message.code != "":
        return Refusal(request_id, message.code, message.msg)
    if message.result is not UNSET and request_id is not None:
        return Ack(request_id)
    return malformed("unknown_message", "neither data nor an answer", frame)
