"""Handles the messages of clients: JSON arrays with a ticket, streams and a format.

A valid request is not acknowledged; the data follows. An invalid one gets an error and changes
nothing. The names of errors are the exchange's; of the messages only that about the format is
known. Markets that are not listed are ignored without an error.

A stream's name contains everything that determines its frames:
``orderbook:KRW-BTC.5:SIMPLE:realtime``.
"""

from collections.abc import Collection, Iterator
from typing import Any, NamedTuple

import msgspec

from penstock.simulator.engine.exchange import ControlReply, Subscriber
from penstock.simulator.upbit.formats import FORMATS
from penstock.simulator.upbit.periods import MINUTES, Period

PING, PONG = "PING", b'{"status":"UP"}'
LIST = "LIST_SUBSCRIPTIONS"
CANDLES = {
    "candle.1s": Period("seconds"),
    **{f"candle.{unit}m": Period("minutes", unit) for unit in MINUTES},
}
TYPES = ("trade", "ticker", "orderbook", *CANDLES)
UNITS = (1, 5, 15, 30)
"""The numbers of levels that can be requested."""
BOTH, ONLY_REALTIME, ONLY_SNAPSHOT = "", "realtime", "snapshot"

_SENTENCES = {
    "WRONG_FORMAT": "Format 이 맞지 않습니다.",
    "NO_TICKET": "Ticket 이 없습니다.",
    "NO_TYPE": "Type 이 없습니다.",
    "NO_CODES": "Codes 가 없습니다.",
    "INVALID_PARAM": "지원하지 않는 Parameter 입니다.",
}


class Stream(NamedTuple):
    """The parts of a stream's name."""

    type: str
    code: str
    """As requested, possibly with the number of levels."""
    form: str
    part: str

    @property
    def name(self) -> str:
        """The name of the stream."""
        form = "" if self.form == FORMATS[0] and not self.part else f":{self.form}"
        return f"{self.type}:{self.code}{form}{f':{self.part}' if self.part else ''}"


def read_name(name: str) -> Stream:
    """Parse the name of a stream."""
    kind, code, form, part, *_ = [*name.split(":"), "", "", ""]
    return Stream(kind, code, form or FORMATS[0], part)


class _Wrong(Exception):
    def __init__(self, name: str) -> None:
        self.error = {"error": {"name": name, "message": _SENTENCES[name]}}
        super().__init__(name)


class MessageHandler:
    """Applies clients' messages about these markets."""

    def __init__(self, codes: Collection[str], replaces: bool) -> None:
        """``replaces``: whether a request ends all previous subscriptions."""
        self._codes, self._replaces = frozenset(codes), replaces

    def answer(self, text: str, subscriber: Subscriber) -> list[ControlReply]:
        """Apply one message and return the replies."""
        if text == PING:
            return [ControlReply(PONG, acknowledges=False)]
        try:
            request = _read(text)
            if any(part.get("method") == LIST for part in request):
                return [ControlReply(_listed(request, subscriber), acknowledges=False)]
            wanted = [stream.name for stream in _streams(request) if self._lists(stream)]
        except _Wrong as wrong:
            return [ControlReply(msgspec.json.encode(wrong.error), acknowledges=False)]
        if self._replaces:
            subscriber.streams.clear()
        subscriber.streams.update(dict.fromkeys(wanted))
        subscriber.renewed.update(wanted)
        return []

    def _lists(self, stream: Stream) -> bool:
        return stream.code.partition(".")[0] in self._codes


def refusal() -> bytes:
    """An error reply."""
    return msgspec.json.encode(_Wrong("WRONG_FORMAT").error)


def _read(text: str) -> list[dict[str, Any]]:
    try:
        request = msgspec.json.decode(text, type=list[dict[str, Any]])
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        raise _Wrong("WRONG_FORMAT") from None
    if not any(part.get("ticket") for part in request):
        raise _Wrong("NO_TICKET")
    return request


def _listed(request: list[dict[str, Any]], subscriber: Subscriber) -> bytes:
    ticket = next(part["ticket"] for part in request if part.get("ticket"))
    by_type: dict[str, list[str]] = {}
    for name in subscriber.streams:
        stream = read_name(name)
        by_type.setdefault(stream.type, []).append(stream.code)
    result = [{"type": kind, "codes": codes} for kind, codes in by_type.items()]
    return msgspec.json.encode({"method": LIST, "result": result, "ticket": ticket})


def _streams(request: list[dict[str, Any]]) -> Iterator[Stream]:
    form = next((part["format"] for part in request if "format" in part), FORMATS[0])
    if form not in FORMATS:
        raise _Wrong("WRONG_FORMAT")
    kinds = [part for part in request if "type" in part]
    if not kinds:
        raise _Wrong("NO_TYPE")
    for kind in kinds:
        if kind["type"] not in TYPES:
            raise _Wrong("INVALID_PARAM")
        for code in _codes(kind):
            yield Stream(kind["type"], code, form, _part(kind))


def _codes(kind: dict[str, Any]) -> list[str]:
    codes = kind.get("codes")
    if not codes:
        raise _Wrong("NO_CODES")
    if not isinstance(codes, list) or not all(isinstance(code, str) for code in codes):
        raise _Wrong("INVALID_PARAM")
    return [_code(code) for code in codes]


def _code(asked: str) -> str:
    """The code with a supported number of levels; any other number means all levels."""
    code, _, units = asked.partition(".")
    return asked if units in map(str, UNITS) else code


def _part(kind: dict[str, Any]) -> str:
    snapshot = _flag(kind, "is_only_snapshot", "isOnlySnapshot")
    realtime = _flag(kind, "is_only_realtime", "isOnlyRealtime")
    if snapshot == realtime:
        return BOTH
    return ONLY_SNAPSHOT if snapshot else ONLY_REALTIME


def _flag(kind: dict[str, Any], *names: str) -> bool:
    value = next((kind[name] for name in names if name in kind), False)
    if not isinstance(value, bool):
        raise _Wrong("INVALID_PARAM")
    return value
