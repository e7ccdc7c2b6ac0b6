"""Parses the addresses and the messages of stream clients.

Errors are nested, ``{"error":{…},"id":…}``, as observed on the live server; the documentation shows
them flat. Text that is not JSON has no id, so its error is flat. A stream that does not exist can
be subscribed to without an error; it never sends anything. A wrong ``timeUnit`` in the address is
refused as over REST; the live server's behaviour is unknown.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import unquote

import msgspec

from penstock.simulator.binance.units import PARAMETER, time_unit
from penstock.simulator.engine.exchange import ControlReply, Opening, Query, Subscriber

_METHODS = ("SUBSCRIBE", "UNSUBSCRIBE", "LIST_SUBSCRIPTIONS", "SET_PROPERTY", "GET_PROPERTY")
_WORD_ID = re.compile(r"[A-Za-z0-9\-_]{1,36}")
_PROPERTY = "combined"


class _Wrong(Exception):
    def __init__(self, code: int, message: str) -> None:
        self.code, self.message = code, message
        super().__init__(message)


def opening(path: str, query: Query) -> Opening | None:
    """Parse ``/ws``, ``/ws/<stream>/<stream>`` or ``/stream?streams=<stream>/<stream>``."""
    head, *names = path.strip("/").split("/")
    if head == "ws":
        return Opening(_streams(names), wrapped=False, dialect=_dialect(query))
    if head == "stream" and not names:
        # A plus sign in a query is decoded as a space, and stream names have no spaces.
        text = query.get("streams", "").replace(" ", "+")
        return Opening(_streams(text.split("/")), wrapped=True, dialect=_dialect(query))
    return None


def answer(text: str, subscriber: Subscriber) -> list[ControlReply]:
    """Apply one message and return the replies."""
    try:
        message = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        flat = {"code": 3, "msg": "Invalid JSON: expected value at line 1 column 1"}
        return [ControlReply(msgspec.json.encode(flat), acknowledges=False)]
    request_id = message.get("id") if isinstance(message, dict) else None
    try:
        _check_id(request_id)
    except _Wrong as wrong:
        return [_error(wrong, None)]
    try:
        method = _method(message)
        result = _CARRY_OUT[method](_params(message), subscriber)
    except _Wrong as wrong:
        return [_error(wrong, request_id)]
    reply = msgspec.json.encode({"result": result, "id": request_id})
    return [ControlReply(reply, acknowledges=result is None)]


def refusal_of(reply: bytes) -> bytes:
    """An error with the id of an acknowledgement, to be sent instead of it."""
    request_id = msgspec.json.decode(reply).get("id")
    return _error(_Wrong(2, "Invalid request: too many parameters"), request_id).text


def _dialect(query: Query) -> str:
    return time_unit(query.get(PARAMETER)).dialect


def _streams(names: list[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(unquote(name) for name in names if name))


def _error(wrong: _Wrong, request_id: object) -> ControlReply:
    error = {"code": wrong.code, "msg": wrong.message}
    return ControlReply(msgspec.json.encode({"error": error, "id": request_id}), acknowledges=False)


def _check_id(request_id: object) -> None:
    is_number = (
        isinstance(request_id, int)
        and not isinstance(request_id, bool)
        and -(1 << 63) <= request_id < 1 << 63
    )
    is_word = isinstance(request_id, str) and _WORD_ID.fullmatch(request_id)
    if not (request_id is None or is_number or is_word):
        raise _Wrong(2, "Invalid request: request ID must be an unsigned integer")


def _method(message: object) -> str:
    if not isinstance(message, dict) or "method" not in message:
        raise _Wrong(2, "Invalid request: missing field `method` at line 1 column 2")
    method = message["method"]
    if method not in _METHODS:
        expected = ", ".join(f"`{name}`" for name in _METHODS)
        raise _Wrong(
            2,
            f"Invalid request: unknown variant `{method}`, expected one of {expected}"
            " at line 1 column 28",
        )
    return str(method)


def _params(message: dict[str, Any]) -> list[Any]:
    params = message.get("params") or []
    if not isinstance(params, list):
        raise _Wrong(2, "Invalid request: params must be an array")
    return params


def _names(params: list[Any]) -> list[str]:
    if not params or not all(isinstance(name, str) for name in params):
        raise _Wrong(2, "Invalid request: stream name must be a string")
    return params


def _subscribe(params: list[Any], subscriber: Subscriber) -> None:
    for name in _names(params):
        subscriber.streams[name] = None


def _unsubscribe(params: list[Any], subscriber: Subscriber) -> None:
    for name in _names(params):
        subscriber.streams.pop(name, None)


def _list_subscriptions(params: list[Any], subscriber: Subscriber) -> list[str]:
    if params:
        raise _Wrong(2, "Invalid request: too many parameters")
    return list(subscriber.streams)


def _set_property(params: list[Any], subscriber: Subscriber) -> None:
    _check_property(params, count=2)
    if not isinstance(params[1], bool):
        raise _Wrong(1, "Invalid value type: expected Boolean")
    subscriber.wrapped = params[1]


def _get_property(params: list[Any], subscriber: Subscriber) -> bool:
    _check_property(params, count=1)
    return subscriber.wrapped


def _check_property(params: list[Any], count: int) -> None:
    if not params or not isinstance(params[0], str):
        raise _Wrong(2, "Invalid request: property name must be a string")
    if params[0] != _PROPERTY:
        raise _Wrong(0, "Unknown property")
    if len(params) > count:
        raise _Wrong(2, "Invalid request: too many parameters")
    if len(params) < count:
        raise _Wrong(1, "Invalid value type: expected Boolean")


_CARRY_OUT: Mapping[str, Callable[[list[Any], Subscriber], object]] = {
    "SUBSCRIBE": _subscribe,
    "UNSUBSCRIBE": _unsubscribe,
    "LIST_SUBSCRIPTIONS": _list_subscriptions,
    "SET_PROPERTY": _set_property,
    "GET_PROPERTY": _get_property,
}
