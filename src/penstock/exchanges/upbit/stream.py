"""Upbit's stream dialect has one request that names all streams, and no acknowledgements.

A request replaces the previous one, so each names all streams that are wanted by then. A stream
begins with the current state; its first frame counts as the acknowledgement. Every frame of a book
is a whole book, so there is nothing to sync.
"""

from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import UNSET, Struct, UnsetType

from penstock.books.rules import BookRules
from penstock.exchanges.frames import NOT_READ, json_text, malformed, unreadable
from penstock.exchanges.layouts import usual_reader
from penstock.exchanges.stream_names import StreamNames
from penstock.exchanges.symbol_map import SymbolMap
from penstock.exchanges.upbit.layouts import LAYOUTS
from penstock.exchanges.upbit.limits import STREAM_LIMITS
from penstock.exchanges.upbit.payloads import Reader, book_reader, ticker_reader, trade_reader
from penstock.exchanges.upbit.rest import DEEPEST_BOOK
from penstock.exchanges.upbit.symbols import NAME
from penstock.market.events import Event
from penstock.market.symbol import Symbol
from penstock.streaming.dialect import Ack, Received, Refusal

# Thirty levels per side take a hundredth of this.
LARGEST_FRAME = 1_000_000
_HEAD = len(b'{"ty":"tra')
"""The number of leading bytes that distinguish the types of frames."""
_KINDS = {"trades": "trade", "book_deltas": "orderbook", "tickers": "ticker"}


class _Error(Struct):
    name: str | int = ""
    message: str = ""


class _Message(Struct):
    """Any message of the exchange, with the fields that distinguish its kinds.

    {"ty":"trade","cd":"KRW-BTC",…}                                    data
    {"status":"UP"}                                                    to a ping
    {"error":{"name":"WRONG_FORMAT","message":"Format 이 맞지 않습니다."}}     refused
    """

    ty: str = ""
    cd: str = ""
    status: str = ""
    error: _Error | UnsetType = UNSET


_decode_message = msgspec.json.Decoder(_Message).decode


class UpbitDialect:
    """See ``Dialect``."""

    limits = STREAM_LIMITS
    books = BookRules(begins="frame", depth=30, fetched_levels=DEEPEST_BOOK)
    channels: Sequence[str] = tuple(_KINDS)

    def __init__(self, symbols: SymbolMap) -> None:
        self._symbols, names = symbols, StreamNames(symbols, _KINDS)
        self.streams = names.add
        self._readers: dict[str, Reader] = {
            "trade": trade_reader(names.symbols["trade"]),
            "orderbook": book_reader(names.symbols["orderbook"]),
            "ticker": ticker_reader(names.symbols["ticker"]),
        }
        self._heads: dict[bytes | str, tuple[str, Reader]] = {
            f'{{"ty":"{kind}"'.encode()[:_HEAD]: (kind, reader)
            for kind, reader in self._readers.items()
        }
        self._usual = usual_reader(
            NAME, LARGEST_FRAME, [(each, names.symbols[kind]) for kind, each in LAYOUTS.items()]
        )
        self._wanted: dict[str, tuple[str, str]] = {}
        """Kind and market of the streams currently requested, by stream name."""
        self._unheard: set[str] = set()
        """Streams without a frame since they were requested."""
        self._latest: tuple[str, ...] = ()
        """Streams that the newest request added or requested again."""

    def url(self, base: str) -> str:
        """The public endpoint."""
        return base.rstrip("/") + "/websocket/v1"

    def subscribe(self, names: Sequence[str], request_id: int) -> str:
        """``[{"ticket":"penstock-1"},{"type":"trade","codes":["KRW-BTC"]},{"format":"SIMPLE"}]``"""
        for name in names:
            kind, _, native = name.partition(":")
            self._wanted[name] = kind, native
        self._unheard.update(names)
        self._latest = tuple(names)
        return self._request(request_id)

    def unsubscribe(self, names: Sequence[str], request_id: int) -> str:
        """The request for the other streams; empty if there are none: it would be rejected."""
        for name in names:
            self._wanted.pop(name, None)
        self._unheard.difference_update(names)
        return self._request(request_id) if self._wanted else ""

    def read(self, frame: bytes | str, received_at_ns: int) -> list[Received]:
        """See ``Dialect``."""
        if self._usual is not None and not self._unheard:
            # Any: mypy does not take a list of events for one of ``Received``.
            events: list[Any] | None = self._usual.read(frame, received_at_ns)
            if events is not None:
                return events
        if isinstance(frame, str):
            frame = frame.encode(errors="replace")
        kind, read = self._heads.get(frame[:_HEAD], ("", None))
        if read is not None and len(frame) <= LARGEST_FRAME:
            try:
                event = read(frame, received_at_ns)
            except NOT_READ:
                pass  # _read_carefully finds out what is wrong
            else:
                return [*self._first_ack(kind, event.symbol), event] if self._unheard else [event]
        return self._read_carefully(frame, received_at_ns)

    def read_many(
        self, frames: Sequence[bytes | str], received_at_ns: Sequence[int]
    ) -> list[Event] | None:
        """See ``ReadsMany``; None while a frame may be the acknowledgement of a stream."""
        if self._unheard:
            return None
        if self._usual is not None:
            events = self._usual.read_many(frames, received_at_ns)
            if events is not None:
                return events
        if max(map(len, frames), default=0) > LARGEST_FRAME:
            return None
        heads = self._heads
        try:
            return [
                heads[frame[:_HEAD]][1](frame, at_ns)
                for frame, at_ns in zip(frames, received_at_ns, strict=True)
            ]
        except NOT_READ:
            return None

    def _read_carefully(self, frame: bytes, received_at_ns: int) -> list[Received]:
        if len(frame) > LARGEST_FRAME:
            return [malformed("too_large", f"{len(frame)} bytes", frame)]
        try:
            message = _decode_message(frame)
            read = self._readers.get(message.ty)
            if read is not None:
                event = read(frame, received_at_ns)
                return [*self._first_ack(message.ty, event.symbol), event]
        except NOT_READ as error:
            return [unreadable(error, frame)]
        if message.error is not UNSET:
            # The error does not name the streams: all that the request added and that have no frame
            # yet count as refused. Older streams without a frame may be of quiet markets.
            said, names = message.error, tuple(sorted(self._unheard.intersection(self._latest)))
            return [Refusal(None, said.name, said.message or str(said.name), names)]
        if message.status:
            return []
        return [malformed("unknown_message", "neither data nor an answer", frame)]

    def _first_ack(self, kind: str, symbol: Symbol) -> list[Ack]:
        """The acknowledgement, if this is the first frame of a stream."""
        name = f"{kind}:{self._symbols.stream_name(symbol)}"
        if name not in self._unheard:
            return []
        self._unheard.discard(name)
        return [Ack(None, (name,))]

    def _request(self, request_id: int) -> str:
        codes: dict[str, list[str]] = {}
        for kind, native in self._wanted.values():
            codes.setdefault(kind, []).append(native)
        wanted = [{"type": kind, "codes": natives} for kind, natives in codes.items()]
        return json_text([{"ticket": f"penstock-{request_id}"}, *wanted, {"format": "SIMPLE"}])
