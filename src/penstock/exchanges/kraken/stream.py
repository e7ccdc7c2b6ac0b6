"""Kraken's stream dialect is version 2 of its protocol, with one channel per message.

Each stream is acknowledged or refused separately. A book's stream begins with a snapshot, and every
delta has a checksum, which is the only way to detect a lost frame. The checksum covers ten levels
per side, so no more are requested: a book with the right checksum is then right as a whole.
"""

from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from penstock.books.rules import BookRules
from penstock.exchanges.deferred_numbers import DeferredNumbers
from penstock.exchanges.frame_reader import FrameReader
from penstock.exchanges.frames import RunningCandles, json_text, malformed
from penstock.exchanges.kraken.checksum import CHECKSUM
from penstock.exchanges.kraken.layouts import LAYOUTS
from penstock.exchanges.kraken.limits import STREAM_LIMITS
from penstock.exchanges.kraken.payloads import CHANNELS, MINUTES, EventMaker, decode
from penstock.exchanges.kraken.rest import DEEPEST_BOOK
from penstock.exchanges.kraken.symbols import NAME
from penstock.exchanges.level_formats import objects_at_once, objects_with_care
from penstock.exchanges.stream_names import StreamNames
from penstock.exchanges.symbol_map import SymbolMap
from penstock.streaming.counting import AckCounts
from penstock.streaming.dialect import Ack, Received, Refusal

# A snapshot of a thousand levels per side takes a tenth of this.
LARGEST_FRAME = 1_000_000

_KINDS = {
    "trades": "trade",
    "book_deltas": "book",
    "tickers": "ticker",
    **{f"candles_{text}": f"ohlc-{minutes}" for text, minutes in MINUTES.items()},
}
_OPTIONS: dict[str, dict[str, Any]] = {
    "book": {"depth": CHECKSUM.levels},
    "ticker": {"event_trigger": "bbo"},
    **{f"ohlc-{each}": {"interval": each} for each in MINUTES.values()},
}


class _Result(Struct):
    channel: str = ""
    symbol: str = ""
    interval: int | None = None


class _Message(Struct):
    """Any message of the exchange, with the fields that distinguish its kinds.

    {"channel":"book","type":"update","data":[…]}                                   data
    {"method":"subscribe","result":{"channel":"book","depth":10,"snapshot":true,    acknowledged,
     "symbol":"MINA/GBP"},"success":true,"time_in":"…","time_out":"…","req_id":7}   one per symbol
    {"error":"Currency pair not supported XBT/EUR","method":"subscribe",            refused
     "success":false,"symbol":"XBT/EUR","time_in":"…","time_out":"…","req_id":7}
    """

    channel: str = ""
    data: Raw | UnsetType = UNSET
    method: str = ""
    result: _Result | None = None
    error: str = ""
    success: bool | None = None
    symbol: str = ""
    req_id: int | None = None


_decode_message = msgspec.json.Decoder(_Message).decode


class KrakenDialect:
    """See ``Dialect``."""

    limits = STREAM_LIMITS
    # Quantities have three decimals in fetched books, eight in streamed ones.
    books = BookRules(
        begins="stream",
        depth=CHECKSUM.levels,
        checksum=CHECKSUM,
        fetched_levels=DEEPEST_BOOK,
        fetched_decimals=3,
    )
    channels: Sequence[str] = tuple(_KINDS)

    def __init__(self, symbols: SymbolMap) -> None:
        names, deferred = StreamNames(symbols, _KINDS), DeferredNumbers()
        self.streams, self._names, self._streams = names.add, names, names.streams
        self._running = RunningCandles()
        make = EventMaker(names.symbols, deferred).make
        reader = FrameReader(
            largest_frame=LARGEST_FRAME,
            deferred=deferred,
            events=lambda frames, at_ns: make(list(map(decode, frames)), at_ns, objects_at_once),
            answers=self._answers,
            with_care=lambda frame, at_ns: make([decode(frame)], [at_ns], objects_with_care),
            accepted=self._running.closed,
        )
        layouts = [(each, names.symbols.get(kind)) for kind, each in LAYOUTS.items()]
        self.read, self.read_many = reader.after(NAME, layouts)
        self._counts = AckCounts()

    def url(self, base: str) -> str:
        """The endpoint of version 2."""
        return base.rstrip("/") + "/v2"

    def subscribe(self, names: Sequence[str], request_id: int) -> str:
        """``{"method":"subscribe","params":{"channel":"book","symbol":["BTC/USD"],…},"req_id":7}``

        All streams are of one channel.
        """
        for stream in map(self._streams.__getitem__, names):
            self._running.forget((stream.symbol, stream.channel.removeprefix("candles_")))
        self._counts.ask(self._streams[names[0]].kind, names)
        self._names.remember(request_id, names)
        # The snapshot of trades has the fifty newest: those missed during a short disconnect.
        return self._control("subscribe", names, request_id, snapshot=True)

    def unsubscribe(self, names: Sequence[str], request_id: int) -> str:
        """The same with ``"method":"unsubscribe"``."""
        return self._control("unsubscribe", names, request_id)

    def _answers(self, frame: bytes) -> list[Received] | None:
        message = _decode_message(frame)
        if message.data is UNSET:
            return self._read_control(message, frame)
        if message.channel not in CHANNELS:
            raise KeyError(message.channel)
        return None

    def _read_control(self, message: _Message, frame: bytes) -> list[Received]:
        if message.error or message.success is False:
            return [self._read_refusal(message)]
        if message.method in ("unsubscribe", "pong"):
            return []
        result = message.result
        if message.method != "subscribe" or result is None:
            return [malformed("unknown_message", "neither data nor an answer", frame)]
        minutes = result.interval
        kind = result.channel if minutes is None else f"{result.channel}-{minutes}"
        name = f"{kind}:{result.symbol}"
        if not result.symbol:
            answered = self._counts.unnamed(kind)
            return [Ack(None, answered)] if answered else []
        self._counts.named(kind, name)
        if name not in self._streams:
            return [malformed("not_asked_for", f"{name!r} was not subscribed", frame)]
        return [Ack(message.req_id, (name,))]

    def _read_refusal(self, message: _Message) -> Ack | Refusal:
        # It has no channel, which the request had.
        name = self._names.requested(message.req_id or 0).get(message.symbol)
        if name is not None and message.error.startswith("Already subscribed"):
            return Ack(message.req_id, (name,))  # the first acknowledgement was lost
        # A refusal of a symbol that was not requested applies to no request.
        request_id = None if message.symbol and name is None else message.req_id
        return Refusal(request_id, message.method, message.error, (name,) if name else ())

    def _control(self, method: str, names: Sequence[str], request_id: int, **options: bool) -> str:
        kind, natives = self._names.of_one_kind(names)
        channel = kind.partition("-")[0]
        params = {"channel": channel, **_OPTIONS.get(kind, {}), **options, "symbol": natives}
        return json_text({"method": method, "params": params, "req_id": request_id})
