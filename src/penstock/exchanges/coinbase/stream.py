"""Coinbase's stream dialect has channels by product, and one channel per message.

The response to a message is a list of all subscriptions of the connection, or an error that names a
product at best; neither refers to the message. So a stream counts as acknowledged when it is
listed. A book's stream begins with the whole book; its deltas have neither numbers nor a checksum,
since the exchange guarantees to deliver all of them. Heartbeats are requested with every
subscription, so that a quiet product is not taken for a dead connection.
"""

import re
from collections.abc import Sequence

import msgspec
from msgspec import Struct

from penstock.books.rules import BookRules
from penstock.exchanges.coinbase.layouts import LAYOUTS
from penstock.exchanges.coinbase.limits import STREAM_LIMITS
from penstock.exchanges.coinbase.payloads import TYPES, EventMaker, decode
from penstock.exchanges.coinbase.symbols import NAME
from penstock.exchanges.deferred_numbers import DeferredNumbers
from penstock.exchanges.frame_reader import FrameReader
from penstock.exchanges.frames import json_text, malformed
from penstock.exchanges.layouts import Reads, usual_first
from penstock.exchanges.level_formats import changes_at_once, changes_with_care
from penstock.exchanges.stream_names import StreamNames
from penstock.exchanges.symbol_map import SymbolMap
from penstock.streaming.dialect import Ack, Malformed, Received, Refusal

# A snapshot is the whole book, with some tens of thousands of levels.
LARGEST_FRAME = 16_000_000
_HEARTBEAT = "heartbeat"
_CHANNELS = {"trades": "matches", "book_deltas": "level2_batch", "tickers": "ticker"}
_find_kind = re.compile(rb'"type":"(\w+)"').search
_find_product = re.compile(rb'"product_id":"([^"]+)"').search
# Another name of the book channel in lists of subscriptions.
_ALSO_CALLED = {"level2": "level2_batch"}


class _Subscribed(Struct):
    name: str
    product_ids: list[str] = []


class _Message(Struct):
    """Any message of the exchange, with the fields that distinguish its kinds.

    {"type":"match",…}                                                               data
    {"type":"subscriptions","channels":[{"name":"ticker",                            everything
     "product_ids":["YFI-BTC","NU-GBP"]}]}                                           there is now
    {"type":"error","message":"Failed to subscribe",                                 refused
     "reason":"XXX-YYY is not a valid product"}
    """

    type: str
    channels: list[_Subscribed] = []
    message: str = ""
    reason: str = ""


_decode_message = msgspec.json.Decoder(_Message).decode


class CoinbaseDialect:
    """See ``Dialect``."""

    limits = STREAM_LIMITS
    books = BookRules(begins="stream")
    channels: Sequence[str] = tuple(_CHANNELS)

    def __init__(self, symbols: SymbolMap) -> None:
        names, deferred = StreamNames(symbols, _CHANNELS), DeferredNumbers()
        self.streams, self._names, self._streams = names.add, names, names.streams
        make = EventMaker(names.symbols, deferred).make
        self._reader = FrameReader(
            largest_frame=LARGEST_FRAME,
            deferred=deferred,
            events=lambda frames, at_ns: make(list(map(decode, frames)), at_ns, changes_at_once),
            answers=self._answers,
            with_care=lambda frame, at_ns: make([decode(frame)], [at_ns], changes_with_care),
        )
        self.read, self.read_many = usual_first(
            NAME,
            LARGEST_FRAME,
            [(each, names.symbols[kind]) for kind, each in LAYOUTS],
            Reads(self._read_unusual, self._reader.read_many),
        )
        self._unanswered: dict[int, set[str]] = {}
        """Streams that were requested and not listed since, by request, the oldest first."""

    def url(self, base: str) -> str:
        """The feed is at the root."""
        return base

    def subscribe(self, names: Sequence[str], request_id: int) -> str:
        """``{"type":"subscribe","product_ids":["BTC-USD"],"channels":["matches","heartbeat"]}``

        All streams are of one channel.
        """
        self._forget(names)
        self._unanswered[request_id] = set(names)
        return self._control("subscribe", names, _HEARTBEAT)

    def unsubscribe(self, names: Sequence[str], request_id: int) -> str:  # noqa: ARG002
        """``{"type":"unsubscribe","product_ids":["BTC-USD"],"channels":["matches"]}``"""
        self._forget(names)
        return self._control("unsubscribe", names)

    def _read_unusual(self, frame: bytes | str, received_at_ns: int) -> list[Received]:
        events = self._reader.read_many((frame,), (received_at_ns,))
        if events is not None:
            return [*events]
        return [
            each._replace(stream=_stream_of(frame)) if isinstance(each, Malformed) else each
            for each in self._reader.read_carefully(frame, received_at_ns)
        ]

    def _answers(self, frame: bytes) -> list[Received] | None:
        message = _decode_message(frame)
        if message.type in TYPES:
            return None
        if message.type == "subscriptions":
            return self._read_listing(message, frame)
        if message.type == "error":
            return [self._read_refusal(message)]
        return [malformed("unknown_message", f"of type {message.type!r}", frame)]

    def _read_listing(self, message: _Message, frame: bytes) -> list[Received]:
        listed = [
            f"{_ALSO_CALLED.get(channel.name, channel.name)}:{native}"
            for channel in message.channels
            if channel.name != _HEARTBEAT
            for native in channel.product_ids
        ]
        known = tuple(name for name in listed if name in self._streams)
        self._forget(known)
        said: list[Received] = [Ack(None, known)] if known else []
        unknown = next((name for name in listed if name not in self._streams), None)
        if unknown is not None:
            said.append(malformed("not_asked_for", f"{unknown!r} was not subscribed", frame))
        return said

    def _read_refusal(self, message: _Message) -> Refusal:
        """The refusal of the oldest unanswered request, since responses come in order.

        If the error names a product, that one is at fault. The other products of the request were
        refused too, and are requested again because nothing acknowledges them.
        """
        named = set(message.reason.split()) & {each.native for each in self._streams.values()}
        for request_id, names in self._unanswered.items():
            at_fault = {name for name in names if self._streams[name].native in named}
            if at_fault or not named:
                self._forget(names.copy())
                words = message.reason or message.message
                refused = tuple(sorted(at_fault))
                return Refusal(request_id, message.message, words, refused)
        return Refusal(None, message.message, message.reason or message.message)

    def _forget(self, names: Sequence[str] | set[str]) -> None:
        """Stop waiting for these streams."""
        for request_id, waiting in list(self._unanswered.items()):
            waiting.difference_update(names)
            if not waiting:
                del self._unanswered[request_id]

    def _control(self, kind: str, names: Sequence[str], *besides: str) -> str:
        channel, natives = self._names.of_one_kind(names)
        return json_text({"type": kind, "product_ids": natives, "channels": [channel, *besides]})


def _stream_of(frame: bytes | str) -> str:
    """The stream of a frame that cannot be read; empty if it may be any book."""
    if isinstance(frame, str):
        frame = frame.encode(errors="replace")
    kind, product = _find_kind(frame), _find_product(frame)
    if kind is None:
        return ""
    if kind[1] not in (b"snapshot", b"l2update"):
        return kind[1].decode()
    return f"level2_batch:{product[1].decode(errors='replace')}" if product else ""
