"""Reading frames: what every exchange's dialect shares.

A frame that cannot be read is returned as what is wrong with it; numbers are kept as the digits
that were sent; a candle is closed when a later one begins, where the exchange does not say so.
"""

import re
from collections.abc import Hashable
from decimal import Decimal
from typing import Any

from msgspec import ValidationError
from msgspec.structs import replace

from penstock.exchanges.answers import UNREADABLE
from penstock.market.events import Candle
from penstock.market.numbers import is_plain
from penstock.streaming.dialect import Malformed, Reason

Number = Any
"""A bare JSON number as a decoder with ``float_hook=str`` gives it: the digits of one with a point,
an int of one without."""
NOT_READ = (*UNREADABLE, KeyError)
"""What readers of frames raise; KeyError over a symbol that nobody asked for."""

_EXCERPT = 120
# Two digits of exponent: three would spell a number that means nothing at great length.
_as_scientific = re.compile(r"[0-9]+(?:\.[0-9]+)?[eE][+-]?[0-9]{1,2}").fullmatch


class NotANumber(ValidationError):
    """Something else stands where a plain number belongs."""


def malformed(reason: Reason, words: str, frame: bytes) -> Malformed:
    """A frame that is not what the exchange's documentation says."""
    return Malformed(reason, words[:200], frame[:_EXCERPT].decode(errors="replace"))


def unreadable(error: Exception, frame: bytes) -> Malformed:
    """What is wrong with a frame over which a reader raised one of ``NOT_READ``."""
    match error:
        case KeyError():
            return malformed("not_asked_for", f"nobody asked for {error.args[0]!r}", frame)
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
        NotANumber: it is not a plain one.
    """
    text = str(number) if type(number) is int else number
    if type(text) is not str or not is_plain(text):
        raise NotANumber(f"{str(text)[:40]!r} is not a plain number")
    return text


def spelled_out(number: Number) -> str:
    """The digits of a bare number that may have been sent as ``8.428e-05``.

    Raises:
        NotANumber: it is not a plain one, however it is spelled.
    """
    if type(number) is str:
        if is_plain(number):
            return number
        if _as_scientific(number) is not None:
            return f"{Decimal(number):f}"
    return number_text(number)


class RunningCandles:
    """The newest candle of each stream of an exchange that never says that one is closed.

    One is over when a later one begins. What was last heard of it is then its final state, unless
    the stream was asked for anew in between: then what comes at its head has that.
    """

    def __init__(self) -> None:
        self._running: dict[Hashable, Candle] = {}

    def forget(self, stream: Hashable) -> None:
        """The stream is asked for anew."""
        self._running.pop(stream, None)

    def note(self, stream: Hashable, candle: Candle) -> list[Candle]:
        """What is known now: the candle that this one closes, if it does, and itself."""
        before = self._running.get(stream)
        if before is None or before.open_ms <= candle.open_ms:
            self._running[stream] = candle
        if before is None or before.open_ms == candle.open_ms:
            return [candle]
        if before.open_ms > candle.open_ms:
            return [replace(candle, closed=True)]
        return [replace(before, closed=True, received_at_ns=candle.received_at_ns), candle]
