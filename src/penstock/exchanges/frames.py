"""Helpers for reading stream frames, shared by the dialects of all exchanges.

A frame that cannot be read is returned as ``Malformed``. Numbers keep the digits that were sent.
Where the exchange does not mark closed candles, a candle is closed when a later one begins.
"""

import re
from collections.abc import Hashable, Sequence
from decimal import Decimal
from typing import Any

import msgspec
from msgspec import UNSET, ValidationError
from msgspec.structs import replace

from penstock.exchanges.answers import UNREADABLE
from penstock.market.events import Candle, Event
from penstock.market.numbers import is_plain
from penstock.streaming.dialect import Malformed, Reason

Number = Any
"""A bare JSON number from a decoder with ``float_hook=str``: a text if it has a decimal point, else
an int."""
NOT_READ = (*UNREADABLE, KeyError)
"""What readers of frames raise; KeyError for a symbol that was not requested."""

_EXCERPT = 120
_encode = msgspec.json.Encoder().encode
# Exponents have at most two digits: three would expand to a very long, meaningless number.
_as_scientific = re.compile(r"[0-9]+(?:\.[0-9]+)?[eE][+-]?[0-9]{1,2}").fullmatch


class NotANumber(ValidationError):
    """A value is not a plain number."""


def json_text(message: object) -> str:
    """The text of a message to the exchange."""
    return _encode(message).decode()


def malformed(reason: Reason, words: str, frame: bytes) -> Malformed:
    """The ``Malformed`` for a frame that is not as documented."""
    return Malformed(reason, words[:200], frame[:_EXCERPT].decode(errors="replace"))


def unreadable(error: Exception, frame: bytes) -> Malformed:
    """The ``Malformed`` for a frame for which a reader raised one of ``NOT_READ``."""
    match error:
        case KeyError():
            return malformed("not_asked_for", f"{error.args[0]!r} was not subscribed", frame)
        case RecursionError():
            return malformed("too_deep", "nested deeper than anything sensible", frame)
        case NotANumber():
            return malformed("not_a_number", str(error), frame)
        case ValidationError():
            return malformed("wrong_shape", str(error), frame)
    return malformed("not_json", str(error), frame)


def number_text(number: Number) -> str:
    """The digits of a bare number.

    Raises:
        NotANumber: it is not a plain number.
    """
    text = str(number) if type(number) is int else number
    if type(text) is not str or not is_plain(text):
        raise NotANumber(f"{str(text)[:40]!r} is not a plain number")
    return text


def spelled_out(number: Number) -> str:
    """The digits of a bare number, which may be in scientific notation, ``8.428e-05``.

    Raises:
        NotANumber: it is not a number in either notation.
    """
    if type(number) is str:
        if is_plain(number):
            return number
        if _as_scientific(number) is not None:
            return f"{Decimal(number):f}"
    return number_text(number)


def spelled_out_all(numbers: Sequence[Any]) -> list[str | None]:
    """The same for several; None for UNSET."""
    return [None if number is UNSET else spelled_out(number) for number in numbers]


class RunningCandles:
    """The newest candle of each stream, for exchanges that do not mark closed candles.

    A candle is closed when a later one begins. Its last received state is then final, unless the
    stream was requested again in between: then the start of the new stream has the final state.
    """

    def __init__(self) -> None:
        self._running: dict[Hashable, Candle] = {}

    def forget(self, stream: Hashable) -> None:
        """Discard the candle of a stream that is requested again."""
        self._running.pop(stream, None)

    def note(self, stream: Hashable, candle: Candle) -> list[Candle]:
        """Store a candle; return the candle that it closes, if any, and the candle itself."""
        before = self._running.get(stream)
        if before is None or before.open_ms <= candle.open_ms:
            self._running[stream] = candle
        if before is None or before.open_ms == candle.open_ms:
            return [candle]
        if before.open_ms > candle.open_ms:
            return [replace(candle, closed=True)]
        return [replace(before, closed=True, received_at_ns=candle.received_at_ns), candle]

    def closed(self, events: list[Event]) -> list[Event]:
        """The same events; a candle that is closed by a later one is repeated before it."""
        if Candle not in map(type, events):
            return events
        closed: list[Event] = []
        for event in events:
            if type(event) is Candle:
                closed += self.note((event.symbol, event.interval), event)
            else:
                closed.append(event)
        return closed
