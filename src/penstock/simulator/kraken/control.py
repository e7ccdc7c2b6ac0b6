"""Handles the messages of stream clients, with one reply per pair.

A request that is invalid as a whole, for example in its depth, gets one error without a pair; an
invalid pair gets its own error and the others are subscribed. Error texts that were never recorded
are made up. A client gets heartbeats while it has any subscription.
"""

from typing import Any

import msgspec

from penstock.simulator.engine.exchange import ControlReply, Subscriber
from penstock.simulator.kraken import times
from penstock.simulator.kraken.rest import INTERVALS
from penstock.simulator.kraken.streams import HEARTBEAT, INSTRUMENT, Stream, Streams, read

DEPTHS = (10, 25, 100, 500, 1000)
TRIGGERS = ("trades", "bbo")
_SNAPSHOTS = {"trade": False, "ticker": True, "book": True, "ohlc": True, INSTRUMENT: True}
"""Channel → whether a snapshot is sent by default."""
_OPTIONS: dict[str, tuple[str, tuple[object, ...], str]] = {
    "book": ("depth", DEPTHS, "Subscription depth not supported"),
    "ohlc": ("interval", INTERVALS, "Subscription ohlc interval not supported"),
    "ticker": ("event_trigger", TRIGGERS, "Subscription event_trigger not supported"),
}
"""Channel → name of its option, allowed values (the default first), error for other values."""
_THINKING_US = 35
_MALFORMED = "Malformed request"
_TOO_FAST = "Exceeded msg rate"
_OLD_OHLC = ["timestamp is deprecated, use interval_begin"]

Said = dict[str, Any]


class _Wrong(Exception):
    pass


class MessageHandler:
    """Applies clients' messages."""

    def __init__(self, streams: Streams) -> None:
        self._streams = streams

    def answer(self, text: str, subscriber: Subscriber, at_ms: int) -> list[ControlReply]:
        """Apply one message and return the replies."""
        message = _read(text)
        said = _said(message, at_ms)
        match message.get("method"):
            case "ping":
                pong = _encode({**said, "method": "pong"})
                return [ControlReply(pong, acknowledges=False)]
            case "subscribe" | "unsubscribe" as method:
                try:
                    wanted = _wanted(message.get("params"))
                except _Wrong as wrong:
                    return [_refused(said, str(wrong))]
                carry_out = self._subscribe if method == "subscribe" else self._unsubscribe
                replies = [carry_out(each, subscriber, said, at_ms) for each in wanted]
                _keep_heartbeat(subscriber)
                return replies
        return [_refused(said, _MALFORMED)]

    def _subscribe(
        self, stream: Stream, subscriber: Subscriber, said: Said, at_ms: int
    ) -> ControlReply:
        if stream.symbol and not self._streams.lists(stream.symbol, at_ms):
            return _refused(said, f"Currency pair not supported {stream.symbol}", stream.symbol)
        if any(read(name).place == stream.place for name in subscriber.streams):
            return _refused(said, "Already subscribed", stream.symbol)
        subscriber.streams[stream.name] = None
        return _acknowledged(said, stream, stream.name)

    def _unsubscribe(
        self, stream: Stream, subscriber: Subscriber, said: Said, _at_ms: int
    ) -> ControlReply:
        for name in subscriber.streams:
            if read(name)._replace(snapshot=stream.snapshot) == stream:
                del subscriber.streams[name]
                return _acknowledged(said, stream, name)
        return _refused(said, "Subscription Not Found", stream.symbol)


def overrun(text: str) -> bytes:
    """The error for a message over the limit, which is not validated."""
    return _refused(_repeated(_read(text)), _TOO_FAST).text


def refusal_of(reply: bytes) -> bytes:
    """An error for the same request as an acknowledgement, to be sent instead of it."""
    said = msgspec.json.decode(reply)
    symbol = said.pop("result").get("symbol", "")
    del said["success"]
    return _refused(said, _TOO_FAST, symbol).text


def _read(text: str) -> Said:
    try:
        message = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        return {}
    return message if isinstance(message, dict) else {}


def _said(message: Said, at_ms: int) -> Said:
    """The fields of every reply: the message's method and id, and the times in and out."""
    at_us = times.reported_us(at_ms)
    answered = {"time_in": times.iso(at_us), "time_out": times.iso(at_us + _THINKING_US)}
    return {**_repeated(message), **answered}


def _repeated(message: Said) -> Said:
    kinds = {"method": str, "req_id": int}
    return {name: message[name] for name in kinds if isinstance(message.get(name), kinds[name])}


def _wanted(params: object) -> list[Stream]:
    """The streams of a request."""
    if not isinstance(params, dict):
        raise _Wrong(_MALFORMED)
    channel = params.get("channel")
    if not isinstance(channel, str) or channel not in _SNAPSHOTS:
        raise _Wrong("Channel not supported")
    snapshot = params.get("snapshot", _SNAPSHOTS[channel])
    if not isinstance(snapshot, bool):
        raise _Wrong(_MALFORMED)
    option = _option(channel, params)
    if channel == INSTRUMENT:
        return [Stream(channel, snapshot=snapshot)]
    symbols = params.get("symbol")
    if not isinstance(symbols, list) or not symbols:
        raise _Wrong(_MALFORMED)
    if not all(isinstance(symbol, str) for symbol in symbols):
        raise _Wrong(_MALFORMED)
    return [Stream(channel, symbol, option, snapshot) for symbol in symbols]


def _option(channel: str, params: Said) -> str:
    if channel not in _OPTIONS:
        return ""
    name, allowed, refusal = _OPTIONS[channel]
    value = params.get(name, allowed[0])
    if isinstance(value, bool) or value not in allowed:
        raise _Wrong(refusal)
    return str(value)


def _acknowledged(said: Said, stream: Stream, name: str) -> ControlReply:
    result: Said = {"channel": stream.channel}
    if stream.channel in _OPTIONS:
        option = _OPTIONS[stream.channel][0]
        result[option] = int(stream.option) if stream.option.isdigit() else stream.option
    if said["method"] == "subscribe":
        result["snapshot"] = stream.snapshot
    if stream.symbol:
        result["symbol"] = stream.symbol
    if stream.channel == "ohlc" and said["method"] == "subscribe":
        result["warnings"] = _OLD_OHLC
    text = _encode({"method": said["method"], "result": result, "success": True, **said})
    return ControlReply(text, acknowledges=True, concerns=(name,))


def _refused(said: Said, error: str, symbol: str = "") -> ControlReply:
    about = {"symbol": symbol} if symbol else {}
    method = {"method": said["method"]} if "method" in said else {}
    text = _encode({"error": error, **method, "success": False, **about, **said})
    return ControlReply(text, acknowledges=False)


def _keep_heartbeat(subscriber: Subscriber) -> None:
    others = [name for name in subscriber.streams if name != HEARTBEAT]
    if others:
        subscriber.streams.setdefault(HEARTBEAT, None)
    else:
        subscriber.streams.pop(HEARTBEAT, None)


def _encode(answer: Said) -> bytes:
    return msgspec.json.encode(answer)
