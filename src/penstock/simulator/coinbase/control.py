"""Handles the messages of feed clients: subscribe and unsubscribe, with signatures.

Each message gets one acknowledgement, which lists all subscriptions of the connection in no
particular order. A message that is invalid in any part changes nothing. The error texts about
products, channels and signatures are the exchange's; those about a message without them are a
guess.
"""

import base64
import binascii
from collections.abc import Collection, Iterator
from typing import Any

import msgspec

from penstock.simulator.engine.exchange import ControlReply, Subscriber
from penstock.simulator.market.rng import key

SIGNED = ("level2", "level3", "full", "user")
PUBLIC = (
    "heartbeat",
    "status",
    "ticker",
    "ticker_batch",
    "level2_batch",
    "matches",
    "rfq_matches",
    "auctionfeed",
)
STATUS = "status"
"""The only channel without products."""

_NOT_HERE = ("level3", "full")
_SIGNATURE_BYTES = 32
_NO_SIGNATURE = (
    "level2, level3, and full channels now require authentication."
    " https://docs.cloud.coinbase.com/exchange/docs/websocket-auth"
)


class _Wrong(Exception):
    def __init__(self, message: str, reason: str | None = None) -> None:
        self.error = {"type": "error", "message": message}
        if reason is not None:
            self.error["reason"] = reason
        super().__init__(message)


class MessageHandler:
    """Applies clients' messages about these products."""

    def __init__(self, product_ids: Collection[str]) -> None:
        self._product_ids = frozenset(product_ids)

    def answer(self, text: str, subscriber: Subscriber) -> list[ControlReply]:
        """Apply one message and return the replies."""
        try:
            message = _read(text)
            if message.get("type") == "subscribe":
                for stream in [*self._wanted(message)]:
                    subscriber.streams[stream] = None
            else:
                for stream in [*_unwanted(message, subscriber)]:
                    subscriber.streams.pop(stream, None)
        except _Wrong as wrong:
            return [ControlReply(msgspec.json.encode(wrong.error), acknowledges=False)]
        return [ControlReply(subscriptions(subscriber), acknowledges=True)]

    def _wanted(self, message: dict[str, Any]) -> Iterator[str]:
        for channel, product_ids in _channels(message):
            if channel in SIGNED:
                _check_signature(channel, message)
            if channel not in (*PUBLIC, *SIGNED) or channel in _NOT_HERE:
                raise _failed(f"{channel} is not a valid channel")
            if channel == STATUS:
                yield STATUS
                continue
            if not product_ids:
                raise _failed(f"{channel} needs product_ids")
            for product_id in product_ids:
                if product_id not in self._product_ids:
                    raise _failed(f"{product_id} is not a valid product")
                yield f"{channel}:{product_id}"


def subscriptions(subscriber: Subscriber) -> bytes:
    """The acknowledgement with all subscriptions of a connection."""
    channels: dict[str, list[str]] = {}
    for stream in subscriber.streams:
        channel, _, product_id = stream.partition(":")
        channels.setdefault(channel, []).extend([product_id] if product_id else [])
    listed = [
        # The order is undefined, so it differs from the client's on purpose.
        {"name": name, "product_ids": sorted(ids, key=key), "account_ids": None}
        for name, ids in channels.items()
    ]
    return msgspec.json.encode({"type": "subscriptions", "channels": listed})


def refusal() -> bytes:
    """An error to send instead of an acknowledgement."""
    return msgspec.json.encode(_failed("Internal error").error)


def _read(text: str) -> dict[str, Any]:
    try:
        message = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        raise _Wrong("Malformed JSON") from None
    if not isinstance(message, dict) or message.get("type") not in ("subscribe", "unsubscribe"):
        raise _Wrong("Type has to be either subscribe or unsubscribe")
    return message


def _unwanted(message: dict[str, Any], subscriber: Subscriber) -> Iterator[str]:
    """The streams to unsubscribe; without products, all of a channel."""
    for channel, product_ids in _channels(message):
        for stream in subscriber.streams:
            name, _, product_id = stream.partition(":")
            if name == channel and (not product_ids or product_id in product_ids):
                yield stream


def _channels(message: dict[str, Any]) -> Iterator[tuple[str, list[str]]]:
    """Each channel once, with its products: its own, and those given for all channels."""
    channels, shared = message.get("channels"), _names(message.get("product_ids"))
    if not isinstance(channels, list) or not channels:
        raise _failed("No channels provided")
    own: dict[str, list[str]] = {}
    for channel in channels:
        if isinstance(channel, str):
            own.setdefault(channel, [])
        elif isinstance(channel, dict) and isinstance(channel.get("name"), str):
            own.setdefault(channel["name"], []).extend(_names(channel.get("product_ids")))
        else:
            raise _failed("Invalid channel")
    for name, product_ids in own.items():
        yield name, [*dict.fromkeys(product_ids + shared)]


def _names(value: object) -> list[str]:
    if value is None:
        return []
    if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
        raise _failed("Invalid product_ids")
    return value


def _check_signature(channel: str, message: dict[str, Any]) -> None:
    """Accept any well-formed signature, since there are no accounts."""
    parts = {name: message.get(name) for name in ("key", "passphrase", "signature", "timestamp")}
    if not any(parts.values()):
        if channel == "user":
            raise _Wrong("Authentication Failed", '{"message":"Missing API Key"}')
        raise _failed(_NO_SIGNATURE)
    if not all(isinstance(parts[name], str) and parts[name] for name in ("key", "passphrase")):
        raise _Wrong("Authentication Failed", '{"message":"Invalid API Key"}')
    if not _is_signature(parts["signature"]) or not _is_number(parts["timestamp"]):
        raise _Wrong("Authentication Failed", '{"message":"invalid signature"}')


def _is_signature(value: object) -> bool:
    try:
        return len(base64.b64decode(str(value), validate=True)) == _SIGNATURE_BYTES
    except (binascii.Error, ValueError):
        return False


def _is_number(value: object) -> bool:
    return str(value).replace(".", "", 1).isdecimal()


def _failed(reason: str) -> _Wrong:
    return _Wrong("Failed to subscribe", reason)
