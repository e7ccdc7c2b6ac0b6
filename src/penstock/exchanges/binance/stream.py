"""Binance's stream dialect has combined streams on one connection, requested by message.

Reading is fast for two reasons. First, a frame begins with the name of its stream,

    {"stream":"btcusdt@bookTicker","data":{"u":499869768,"s":"BTCUSDT","b":"0.35210000",…

so the requested streams are a tagged union for the decoder: one call decodes any frame into the
payload of its stream, and rejects a frame that is not as documented. Second, numbers are validated
once for all frames that arrive together. A frame that cannot be read in this way is read again by
itself, to find out whether it is a response, a notice, or malformed, and why.
"""

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, Final, Literal, NamedTuple, NoReturn, Union

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType
from msgspec.structs import replace

from penstock.books.rules import BookRules
from penstock.errors import UnknownChannel
from penstock.exchanges.base import SymbolMap
from penstock.exchanges.binance import payloads
from penstock.exchanges.binance.limits import STREAM_LIMITS
from penstock.exchanges.binance.payloads import Reader
from penstock.exchanges.binance.rest import DEEPEST_BOOK
from penstock.exchanges.deferred_numbers import DeferredNumbers
from penstock.exchanges.frames import NOT_READ, malformed, unreadable
from penstock.market.channels import DedupeKey, contents
from penstock.market.events import AnyEvent, Ticker24h
from penstock.market.interval import COMMON
from penstock.market.symbol import Symbol
from penstock.streaming.dialect import Ack, Notice, Received, Refusal

# The longest frame seen is some hundred kilobytes: a whole second of a busy book.
LARGEST_FRAME = 4_000_000
_UNREADABLE = (msgspec.DecodeError, UnicodeError, RecursionError)


class _Channel(NamedTuple):
    suffix: str
    """The end of its streams' names."""
    payload: Any
    """The structure of its payloads; generic in the symbol, where they contain it."""
    reader: Callable[[DeferredNumbers], Reader]


_CHANNELS: Final[dict[str, _Channel]] = {
    "trades": _Channel("trade", payloads.TradePayload, payloads.trade_reader),
    "agg_trades": _Channel("aggTrade", payloads.AggTradePayload, payloads.agg_trade_reader),
    "book_deltas": _Channel("depth@100ms", payloads.DeltaPayload, payloads.delta_reader),
    "book_snapshots": _Channel("depth20@100ms", payloads.DepthPayload, payloads.depth_reader),
    "tickers": _Channel("bookTicker", payloads.BookTickerPayload, payloads.book_ticker_reader),
    "tickers_24h": _Channel("ticker", payloads.DayTickerPayload, payloads.day_ticker_reader),
    **{
        f"candles_{text}": _Channel(f"kline_{text}", payloads.CandlePayload, payloads.candle_reader)
        for text in COMMON
    },
}


class _Error(Struct):
    code: int | str = ""
    msg: str = ""


class _Message(Struct):
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
    code: int | str = ""
    msg: str = ""
    e: str = ""
    E: int | None = None


def _envelope(stream: str, native: str, payload: Any) -> type[Struct]:
    """The structure of one stream's frames; the stream's name is the tag of the union."""
    data = payload[Literal[native]] if hasattr(payload, "__parameters__") else payload
    return msgspec.defstruct("Envelope", [("data", data)], tag_field="stream", tag=stream, gc=False)


def _decode_nothing(_frame: bytes | str) -> NoReturn:
    raise msgspec.ValidationError("Nothing was asked for")


_decode_message = msgspec.json.Decoder(_Message).decode
_encode = msgspec.json.Encoder().encode


def _untimed(ticker: Ticker24h) -> Hashable:
    return contents(replace(ticker, at_ns=None))


class BinanceDialect:
    """See ``Dialect``."""

    limits = STREAM_LIMITS
    books = BookRules(begins="rest", fetched_levels=DEEPEST_BOOK)
    channels: Sequence[str] = tuple(_CHANNELS)
    # ``E`` differs between connections.
    dedupe_keys: Mapping[type[AnyEvent], DedupeKey] = {Ticker24h: _untimed}

    def __init__(self, symbols: SymbolMap) -> None:
        self._symbols = symbols
        self._streams: dict[str, type[Struct]] = {}
        """The structure of each stream's frames."""
        self._readers: dict[type[Struct], tuple[Reader, Symbol]] = {}
        self._decode: Callable[[bytes | str], Any] = _decode_nothing
        self._deferred = DeferredNumbers()

    def url(self, base: str) -> str:
        """The combined endpoint; streams are requested by message."""
        return base.rstrip("/") + "/stream"

    def streams(self, channel: str, symbols: Sequence[Symbol]) -> list[str]:
        """See ``Dialect``; stream names are in lower case."""
        if channel not in _CHANNELS:
            raise UnknownChannel(self._symbols.exchange, channel, self.channels)
        wanted = _CHANNELS[channel]
        read = wanted.reader(self._deferred)
        natives = [self._symbols.native(symbol) for symbol in symbols]
        names = [f"{native.lower()}@{wanted.suffix}" for native in natives]
        for name, native, symbol in zip(names, natives, symbols, strict=True):
            if name not in self._streams:
                envelope = self._streams[name] = _envelope(name, native, wanted.payload)
                self._readers[envelope] = read, symbol
        if self._streams:
            any_of_them: Any = Union[tuple(self._streams.values())]  # noqa: UP007 (of any number)
            self._decode = msgspec.json.Decoder(any_of_them).decode
        return names

    def subscribe(self, names: Sequence[str], request_id: int) -> str:
        """``{"method":"SUBSCRIBE","params":["btcusdt@aggTrade"],"id":1}``"""
        return _control("SUBSCRIBE", names, request_id)

    def unsubscribe(self, names: Sequence[str], request_id: int) -> str:
        """``{"method":"UNSUBSCRIBE","params":["btcusdt@depth"],"id":312}``"""
        return _control("UNSUBSCRIBE", names, request_id)

    def read(self, frame: bytes | str, received_at_ns: int) -> list[Received]:
        """See ``Dialect``."""
        if isinstance(frame, str):
            frame = frame.encode(errors="replace")
        if len(frame) <= LARGEST_FRAME:
            try:
                envelope = self._decode(frame)
                read, symbol = self._readers[type(envelope)]
                event = read(envelope.data, symbol, received_at_ns)
            except _UNREADABLE:
                pass
            else:
                if self._deferred.are_plain():
                    return [event]
        return [self._read_carefully(frame, received_at_ns)]

    def read_many(
        self, frames: Sequence[bytes | str], received_at_ns: Sequence[int]
    ) -> list[AnyEvent] | None:
        """See ``ReadsMany``."""
        if max(map(len, frames), default=0) <= LARGEST_FRAME:
            try:
                envelopes = list(map(self._decode, frames))
                readers = map(self._readers.__getitem__, map(type, envelopes))
                events = [
                    read(envelope.data, symbol, at_ns)
                    for (read, symbol), envelope, at_ns in zip(
                        readers, envelopes, received_at_ns, strict=True
                    )
                ]
            except _UNREADABLE:
                pass
            else:
                if self._deferred.are_plain():
                    return events
        self._deferred.forget()
        return None

    def _read_carefully(self, frame: bytes, received_at_ns: int) -> Received:
        """The content of a frame of any kind."""
        self._deferred.forget()
        if len(frame) > LARGEST_FRAME:
            return malformed("too_large", f"{len(frame)} bytes", frame)
        try:
            message = _decode_message(frame)
            if message.data is UNSET or not message.stream:
                return _read_control(message, frame)
            if message.stream == "!serverShutdown":
                return Notice("closing", _decode_message(message.data).E)
            if message.stream not in self._streams:
                raise KeyError(message.stream)
            envelope = self._decode(frame)
            read, symbol = self._readers[type(envelope)]
            event = read(envelope.data, symbol, received_at_ns)
        except NOT_READ as error:
            return unreadable(error, frame)
        problem = self._deferred.problem()
        if problem is not None:
            return malformed("not_a_number", problem, frame)
        return event


def _control(method: str, names: Sequence[str], request_id: int) -> str:
    return _encode({"method": method, "params": list(names), "id": request_id}).decode()


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
