"""Times as exchanges tell them, in integer nanoseconds since 1970.

Nothing is rounded: a text keeps every digit it has, and a count of milliseconds is multiplied. What
lies outside 1970 to 2262 does not fit into 64 bits and is refused like any other malformed value.
"""

import re
from datetime import UTC, datetime
from typing import Annotated

from msgspec import Meta, ValidationError

MS_NS = 1_000_000
SECOND_NS = 1_000_000_000
LATEST_NS = (1 << 63) - 1
Millis = Annotated[int, Meta(ge=0, le=LATEST_NS // MS_NS)]
"""A time in milliseconds that can be told in nanoseconds."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_RFC3339 = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)[Tt ](\d\d):(\d\d):(\d\d)(?:\.(\d{1,9}))?(?:[Zz]|([+-])(\d\d):(\d\d))",
    re.ASCII,
).fullmatch
_SCALES: tuple[int, ...] = tuple(10 ** (9 - digits) for digits in range(10))
"""Nanoseconds in one unit of a fraction's last digit, by the number of its digits."""
_HEAD = len("2023-09-25T07:49:37.")
_MS_END = _HEAD + 3
_MOST_HEADS = 1000

# Messages that come together tell the same few seconds, and nearly all of them six digits. So a
# time costs three slices and three look-ups, which also prove that every character is a right one.
_heads_ns: dict[str, int] = {}
"""Seconds seen lately, by their text up to the point."""
_MILLIS = {f"{number:03}": number * MS_NS for number in range(1000)}
_MICROS = {f"{number:03}Z": number * 1000 for number in range(1000)} | {"Z": 0}


def epoch_ns(text: str) -> int:
    """A time as RFC 3339 spells it, ``2023-09-25T07:49:37.708706Z``; up to nine digits are kept.

    Raises:
        ValidationError: it is none, or outside 1970 to 2262.
    """
    try:
        return _heads_ns[text[:_HEAD]] + (_MILLIS[text[_HEAD:_MS_END]] + _MICROS[text[_MS_END:]])
    except KeyError:
        pass
    digits = text[_HEAD:-1]
    if digits.isdecimal() and text[-1] == "Z" and text.isascii() and len(digits) <= 9:
        head_ns = _heads_ns.get(text[:_HEAD])
        if head_ns is not None:
            return head_ns + int(digits) * _SCALES[len(digits)]
    return _read(text)


def _read(text: str) -> int:
    found = _RFC3339(text)
    if found is None:
        raise ValidationError(f"{text[:40]!r} is not a time as RFC 3339 spells it")
    fraction, sign, hours, minutes = found.group(7, 8, 9, 10)
    year, month, day, hour, minute, second = map(int, found.group(1, 2, 3, 4, 5, 6))
    try:
        at = datetime(year, month, day, hour, minute, second, tzinfo=UTC)
        if sign:
            # Also refuses hours and minutes that no clock shows.
            ahead = _EPOCH.replace(hour=int(hours), minute=int(minutes)) - _EPOCH
            at = at - ahead if sign == "+" else at + ahead
    except (ValueError, OverflowError) as error:
        raise ValidationError(f"{text!r} is not a time: {error}") from error
    since = at - _EPOCH
    second_ns = (since.days * 86_400 + since.seconds) * SECOND_NS
    # The last second that fits is not remembered: not all of it does.
    if fraction and text.endswith("Z") and 0 <= second_ns <= LATEST_NS - SECOND_NS:
        if len(_heads_ns) >= _MOST_HEADS:
            _heads_ns.clear()
        _heads_ns[text[:_HEAD]] = second_ns
    return _within(second_ns + int((fraction or "").ljust(9, "0")), text)


def _within(at_ns: int, text: str) -> int:
    if not 0 <= at_ns <= LATEST_NS:
        raise ValidationError(f"{text!r} is not between 1970 and 2262")
    return at_ns
