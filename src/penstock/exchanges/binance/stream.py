"""Binance's stream dialect: combined streams on one connection, asked for by message.

Reading is fast because most of it is done once. A frame without its digits is its *shape*:

    {"stream":"btcusdt@bookTicker","data":{"u":,"s":"BTCUSDT","b":".","B":".","a":".","A":"."}}

Frames of one stream share a few shapes, and two frames of one shape differ in nothing but digits:
what was a plain number in one is a plain number in the other. So a frame is read with care when its
shape is new, and with one call of the decoder ever after. NaN, a sign, an exponent, a missing field
or a text where a number belongs all change the shape. Levels, of which a frame holds any number,
are compared with the shape of levels, undecoded.
"""

import re
from collections.abc import Callable, Sequence
from typing import Final

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from penstock.errors import MalformedLevels, UnknownChannel
from penstock.exchanges.base import SymbolMap
from penstock.exchanges.binance import payloads
from penstock.exchanges.binance.limits import STREAM_LIMITS
from penstock.exchanges.binance.payloads import Asked, Reader
from penstock.market.events import AnyEvent, BookDelta, BookSnapshot
from penstock.market.interval import COMMON
from penstock.market.levels import read_levels
from penstock.market.symbol import Symbol
from penstock.streaming.dialect import Ack, BookRules, Malformed, Notice, Reason, Received, Refusal

# The longest frame seen is some hundred kilobytes: a whole second of a busy book.
LARGEST_FRAME = 4_000_000
_EXCERPT = 120
# What is remembered of frames is bounded; book deltas of many levels are compared every time.
_SHAPES = 20_000
_LONGEST_SHAPE = 512
_DIGITS = b"0123456789"
_LEVELS_SHAPE = b'[".","."],' * 10_000
_DOTTED = re.compile(r"[0-9]+\.[0-9]+").fullmatch
_UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError, KeyError)

_READERS: Final[dict[str, tuple[str, Callable[[Asked], Reader]]]] = {
    "trades": ("trade", payloads.trade_reader),
    "agg_trades": ("aggTrade", payloads.agg_trade_reader),
    "book_deltas": ("depth@100ms", payloads.delta_reader),
    "book_snapshots": ("depth20@100ms", payloads.depth_reader),
    "tickers": ("bookTicker", payloads.book_ticker_reader),
    "tickers_24h": ("ticker", payloads.day_ticker_reader),
    **{f"candles_{text}": (f"kline_{text}", payloads.candle_reader) for text in COMMON},
}


class _Error(Struct):
    code: int | str = ""
    msg: str = ""


class _Message(Struct):
    """Anything the exchange sends, as far as it must be told apart.

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


_decode_message = msgspec.json.Decoder(_Message).decode
_encode = msgspec.json.Encoder().encode


class BinanceDialect:
    """See ``Dialect``."""

    limits = STREAM_LIMITS
    books = BookRules(begins="rest")
    channels: Sequence[str] = tuple(_READERS)

    def __init__(self, symbols: SymbolMap) -> None:
        self._symbols = symbols
        self._asked: dict[str, dict[str, Symbol]] = {}
        self._readers: dict[str, Reader] = {}
        """By stream name."""
        self._shapes: dict[bytes, Reader] = {}
        self._heads: dict[bytes, Reader] = {}
        """Shapes of book deltas up to their levels."""

    def url(self, base: str) -> str:
        """The combined endpoint; streams are asked for by message."""
        return base.rstrip("/") + "/stream"

    def streams(self, channel: str, symbols: Sequence[Symbol]) -> list[str]:
        """See ``Dialect``; stream names are in lower case."""
        if channel not in _READERS:
            raise UnknownChannel(self._symbols.exchange, channel, self.channels)
        suffix, reader_for = _READERS[channel]
        natives = [self._symbols.native(symbol) for symbol in symbols]
        names = [f"{native.lower()}@{suffix}" for native in natives]
        asked = self._asked.setdefault(channel, {})
        asked.update(zip(natives, symbols, strict=True))
        self._readers.update(dict.fromkeys(names, reader_for(asked)))
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
        shape = frame.translate(None, _DIGITS)
        read = self._shapes.get(shape) or self._delta_reader(shape)
        if read is not None:
            try:
                return [read(frame, received_at_ns)]
            except _UNREADABLE:
                pass  # the careful way finds out what is wrong
        return [self._read_carefully(frame, shape, received_at_ns)]

    def _delta_reader(self, shape: bytes) -> Reader | None:
        """The reader of a book delta that is known but for its number of levels.

        What follows the head must be ``[".","."]],"a":[[".","."]]}}`` with any number of levels.
        Only brackets could still be wrong, and those the decoder checks.
        """
        head, _, levels = shape.partition(b',"b":[')
        read = self._heads.get(head)
        if read is None:
            return None
        bids, separator, asks = levels.partition(b'],"a":[')
        plain = _LEVELS_SHAPE.startswith(bids) and _LEVELS_SHAPE.startswith(asks[:-3])
        if not (separator and plain and asks.endswith(b"]}}")):
            return None
        if len(shape) <= _LONGEST_SHAPE and len(self._shapes) < _SHAPES // 2:
            self._shapes[shape] = read
        return read

    def _read_carefully(self, frame: bytes, shape: bytes, received_at_ns: int) -> Received:
        if len(frame) > LARGEST_FRAME:
            return _malformed("too_large", f"{len(frame)} bytes", frame)
        try:
            message = _decode_message(frame)
            if message.data is UNSET or not message.stream:
                return _read_control(message, frame)
            if message.stream == "!serverShutdown":
                return Notice("closing", _decode_message(message.data).E)
            read = self._readers[message.stream]
            event = read(frame, received_at_ns)
        except KeyError as error:
            return _malformed("not_asked_for", f"nobody asked for {error.args[0]!r}", frame)
        except RecursionError:
            return _malformed("too_deep", "nested deeper than anything sensible", frame)
        except payloads.NotANumber as error:
            return _malformed("not_a_number", str(error), frame)
        except msgspec.ValidationError as error:
            return _malformed("wrong_shape", str(error), frame)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            return _malformed("not_json", str(error), frame)
        return self._checked(event, frame, shape, read)

    def _checked(
        self, event: AnyEvent, frame: bytes, shape: bytes, read: Reader
    ) -> AnyEvent | Malformed:
        """The event, if its numbers are numbers; its shape is then remembered."""
        try:
            texts = _numbers(event)
        except (MalformedLevels, RecursionError) as error:
            return _malformed("not_a_number", str(error), frame)
        for text in texts:
            if payloads.as_plain(text) is None:
                return _malformed("not_a_number", f"{text[:40]!r} is not a plain number", frame)
        # A number without a point has the shape of an empty text, and an escaped character may
        # be anything: such frames are read with care every time.
        if b"\\" not in frame and all(map(_DOTTED, texts)):
            self._remember(event, shape, read)
        return event

    def _remember(self, event: AnyEvent, shape: bytes, read: Reader) -> None:
        if isinstance(event, BookSnapshot) or len(self._shapes) + len(self._heads) >= _SHAPES:
            return
        if isinstance(event, BookDelta):
            shape, _, _ = shape.partition(b',"b":[')
            self._heads[shape] = read
        elif len(shape) <= _LONGEST_SHAPE:
            self._shapes[shape] = read


def _control(method: str, names: Sequence[str], request_id: int) -> str:
    return _encode({"method": method, "params": list(names), "id": request_id}).decode()


def _read_control(message: _Message, frame: bytes) -> Received:
    # Numbers are all that is ever sent as an id; anything else answers to nobody here.
    request_id = message.id if isinstance(message.id, int) else None
    if message.e == "serverShutdown":
        return Notice("closing", message.E)
    if message.error is not UNSET:
        return Refusal(request_id, message.error.code, message.error.msg)
    if message.code != "":
        return Refusal(request_id, message.code, message.msg)
    if message.result is not UNSET and request_id is not None:
        return Ack(request_id)
    return _malformed("unknown_message", "neither data nor an answer", frame)


def _numbers(event: AnyEvent) -> list[str]:
    """Every number of an event that is kept as text."""
    if isinstance(event, BookDelta | BookSnapshot):
        levels = read_levels(event.bids_raw) + read_levels(event.asks_raw)
        return [text for level in levels for text in level]
    names = [name for name in event.__struct_fields__ if name.endswith("_text")]
    values: list[str | None] = [getattr(event, name) for name in names]
    return [value for value in values if value is not None]


def _malformed(reason: Reason, words: str, frame: bytes) -> Malformed:
    return Malformed(reason, words[:200], frame[:_EXCERPT].decode(errors="replace"))
