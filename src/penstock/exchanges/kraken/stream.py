"""Kraken's stream dialect is version 2 of its protocol, with one channel per message.

Each stream is acknowledged or refused separately. A book's stream begins with a snapshot, and every
delta has a checksum, which is the only way to detect a lost frame. The checksum covers ten levels
per side, so no more are requested: a book with the right checksum is then right as a whole.
"""

from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from penstock.errors import UnknownChannel
from penstock.exchanges.base import SymbolMap
from penstock.exchanges.deferred_numbers import DeferredNumbers
from penstock.exchanges.frame_reader import FrameReader
from penstock.exchanges.frames import RunningCandles, malformed
from penstock.exchanges.kraken.checksum import CHECKSUM
from penstock.exchanges.kraken.limits import STREAM_LIMITS
from penstock.exchanges.kraken.payloads import CHANNELS, EventMaker, decode
from penstock.exchanges.kraken.rest import DEEPEST_BOOK, MINUTES
from penstock.exchanges.level_formats import objects_at_once, objects_with_care
from penstock.market.events import AnyEvent
from penstock.market.interval import Interval
from penstock.market.symbol import Symbol
from penstock.streaming.counting import AckCounts
from penstock.streaming.dialect import Ack, BookRules, Received, Refusal

# A snapshot of a thousand levels per side takes a tenth of this.
LARGEST_FRAME = 1_000_000
DEPTH = CHECKSUM.levels
_REMEMBERED_REQUESTS = 100

_OPTIONS: dict[str, dict[str, Any]] = {
    # The snapshot has the fifty newest trades: those missed during a short disconnect.
    "trades": {"channel": "trade", "snapshot": True},
    "book_deltas": {"channel": "book", "depth": DEPTH, "snapshot": True},
    "tickers": {"channel": "ticker", "event_trigger": "bbo", "snapshot": True},
    **{
        f"candles_{text}": {"channel": "ohlc", "interval": minutes, "snapshot": True}
        for text, minutes in MINUTES.items()
    },
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
_encode = msgspec.json.Encoder().encode


class KrakenDialect:
    """See ``Dialect``."""

    limits = STREAM_LIMITS
    # Quantities have three decimals in fetched books, eight in streamed ones.
    books = BookRules(
        begins="stream",
        depth=DEPTH,
        checksum=CHECKSUM,
        fetched_levels=DEEPEST_BOOK,
        fetched_decimals=3,
    )
    channels: Sequence[str] = tuple(_OPTIONS)

    def __init__(self, symbols: SymbolMap) -> None:
        self._symbols = symbols
        self._streams: dict[str, tuple[str, str]] = {}
        """penstock's channel and the exchange's symbol, by stream name."""
        self._asked: dict[str, dict[str, Symbol]] = {"trade": {}, "book": {}, "ticker": {}}
        self._candles_asked: dict[tuple[str, int], tuple[Symbol, Interval]] = {}
        self._running = RunningCandles()
        deferred = DeferredNumbers()
        self._make = EventMaker(self._asked, self._candles_asked, deferred).make
        reader = FrameReader(self, LARGEST_FRAME, deferred, self._running.closed)
        self.read, self.read_many = reader.read, reader.read_many
        self._counts = AckCounts()
        self._requests: dict[int, dict[str, str]] = {}
        """Stream names by the exchange's symbol, for the newest requests: a refusal does not name
        its channel."""

    def url(self, base: str) -> str:
        """The endpoint of version 2."""
        return base.rstrip("/") + "/v2"

    def streams(self, channel: str, symbols: Sequence[Symbol]) -> list[str]:
        """See ``Dialect``; ``book:BTC/USD``, ``ohlc-5:BTC/USD``."""
        options = _OPTIONS.get(channel)
        if options is None:
            raise UnknownChannel(self._symbols.exchange, channel, self.channels)
        kind, minutes = options["channel"], options.get("interval")
        natives = [self._symbols.stream_name(symbol) for symbol in symbols]
        for native, symbol in zip(natives, symbols, strict=True):
            if minutes is None:
                self._asked[kind][native] = symbol
            else:
                interval = Interval.parse(channel.removeprefix("candles_"))
                self._candles_asked[native, minutes] = symbol, interval
        names = [_name(kind, minutes, native) for native in natives]
        self._streams.update(zip(names, [(channel, native) for native in natives], strict=True))
        return names

    def subscribe(self, names: Sequence[str], request_id: int) -> str:
        """``{"method":"subscribe","params":{"channel":"book","symbol":["BTC/USD"],…},"req_id":7}``

        All streams are of one channel.
        """
        for name in names:
            channel, native = self._streams[name]
            if "interval" in _OPTIONS[channel]:
                symbol, interval = self._candles_asked[native, _OPTIONS[channel]["interval"]]
                self._running.forget((symbol, interval.text))
        return self._control("subscribe", names, request_id)

    def unsubscribe(self, names: Sequence[str], request_id: int) -> str:
        """The same with ``"method":"unsubscribe"``."""
        return self._control("unsubscribe", names, request_id)

    def events(
        self, frames: Sequence[bytes | str], received_at_ns: Sequence[int]
    ) -> list[AnyEvent]:
        """See ``ReadsFrames``."""
        return self._make(list(map(decode, frames)), received_at_ns, objects_at_once)

    def events_of(self, frame: bytes, received_at_ns: int) -> list[AnyEvent]:
        """See ``ReadsFrames``."""
        return self._make([decode(frame)], [received_at_ns], objects_with_care)

    def answers(self, frame: bytes) -> list[Received] | None:
        """See ``ReadsFrames``."""
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
        name = _name(result.channel, result.interval, result.symbol)
        key = _key(message.method, name)
        if not result.symbol:
            answered = self._counts.unnamed(key)
            return [Ack(None, answered)] if answered else []
        self._counts.named(key, name)
        if name not in self._streams:
            return [malformed("not_asked_for", f"nobody asked for {name!r}", frame)]
        return [Ack(message.req_id, (name,))]

    def _read_refusal(self, message: _Message) -> Ack | Refusal:
        asked = self._requests.get(message.req_id or 0, {})
        name = asked.get(message.symbol)
        if name is not None and message.error.startswith("Already subscribed"):
            return Ack(message.req_id, (name,))  # the first acknowledgement was lost
        # A refusal of a symbol that was not requested applies to no request.
        request_id = None if message.symbol and name is None else message.req_id
        return Refusal(request_id, message.method, message.error, (name,) if name else ())

    def _control(self, method: str, names: Sequence[str], request_id: int) -> str:
        (channel,) = {self._streams[name][0] for name in names}
        natives = {self._streams[name][1]: name for name in names}
        if method == "subscribe":
            self._requests[request_id] = natives
            self._counts.ask(_key(method, names[0]), names)
            if len(self._requests) > _REMEMBERED_REQUESTS:
                del self._requests[next(iter(self._requests))]
        params = {**_OPTIONS[channel], "symbol": list(natives)}
        if method == "unsubscribe":
            del params["snapshot"]
        return _encode({"method": method, "params": params, "req_id": request_id}).decode()


def _name(kind: str, minutes: int | None, native: str) -> str:
    return f"{kind}:{native}" if minutes is None else f"{kind}-{minutes}:{native}"


def _key(method: str, name: str) -> str:
    """The key that responses to one kind of request share: ``subscribe-book``."""
    return f"{method}-{name.partition(':')[0]}"
