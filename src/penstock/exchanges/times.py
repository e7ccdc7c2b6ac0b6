"""Converts timestamps of exchanges to integer nanoseconds since 1970.

Nothing is rounded: a text keeps all its digits, and milliseconds are multiplied. A time outside
1970 to 2262 does not fit into 64 bits and is rejected like any other malformed value.
"""

import re
from datetime import UTC, datetime
from decimal import Decimal
from typing import Annotated

from msgspec import Meta, ValidationError

MS_NS = 1_000_000
SECOND_NS = 1_000_000_000
LATEST_NS = (1 << 63) - 1
Millis = Annotated[int, Meta(ge=0, le=LATEST_NS // MS_NS)]
"""A time in milliseconds that fits into 64 bits in nanoseconds."""

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

# Messages that arrive together have times in the same few seconds, nearly all with six decimals. So
# parsing a time takes three slices and three lookups, which also validate every character.
_heads_ns: dict[str, int] = {}
"""Cache of recent seconds, by their text up to the decimal point."""
_MILLIS = {f"{number:03}": number * MS_NS for number in range(1000)}
_MICROS = {f"{number:03}Z": number * 1000 for number in range(1000)} | {"Z": 0}


def epoch_ns(text: str) -> int:
    """The time of an RFC 3339 text, ``2023-09-25T07:49:37.708706Z``, with up to nine decimals.

    Raises:
        ValidationError: the text is not a time, or outside 1970 to 2262.
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


def seconds_ns(at_s: Decimal) -> int:
    """The time of seconds since 1970, with any number of decimals.

    Raises:
        ValidationError: it is outside 1970 to 2262.
    """
    if not (at_s.is_finite() and 0 <= at_s <= LATEST_NS // SECOND_NS):
        raise ValidationError(f"{at_s} s is not between 1970 and 2262")
    return int(at_s * SECOND_NS)


def iso_text(at_ms: int) -> str:
    """The RFC 3339 text of a time in milliseconds, cut to whole seconds."""
    return f"{datetime.fromtimestamp(at_ms // 1000, UTC):%Y-%m-%dT%H:%M:%SZ}"


def _read(text: str) -> int:
    found = _RFC3339(text)
    if found is None:
        raise ValidationError(f"{text[:40]!r} is not a time as RFC 3339 spells it")
    fraction, sign, hours, minutes = found.group(7, 8, 9, 10)
    year, month, day, hour, minute, second = map(int, found.group(1, 2, 3, 4, 5, 6))
    try:
        at = datetime(year, month, day, hour, minute, second, tzinfo=UTC)
        if sign:
            # Also rejects hours above 23 and minutes above 59.
            ahead = _EPOCH.replace(hour=int(hours), minute=int(minutes)) - _EPOCH
            at = at - ahead if sign == "+" else at + ahead
    except (ValueError, OverflowError) as error:
        raise ValidationError(f"{text!r} is not a time: {error}") from error
    since = at - _EPOCH
    second_ns = (since.days * 86_400 + since.seconds) * SECOND_NS
    # The last second of the range is not cached: only a part of it fits into 64 bits.
    if fraction and text.endswith("Z") and 0 <= second_ns <= LATEST_NS - SECOND_NS:
        if len(_heads_ns) >= _MOST_HEADS:
            _heads_ns.clear()
        _heads_ns[text[:_HEAD]] = second_ns
    return _within(second_ns + int((fraction or "").ljust(9, "0")), text)


def _within(at_ns: int, text: str) -> int:
    if not 0 <= at_ns <= LATEST_NS:
        raise ValidationError(f"{text!r} is not between 1970 and 2262")
    return at_ns
