"""Times as callers write them, converted to nanoseconds since the epoch.

Accepted are a ``datetime`` or ``date`` (UTC unless it has an offset), ISO 8601 text, ``now``, text
relative to now such as ``-1h``, and integers: milliseconds as exchanges send them, or nanoseconds.
"""

import re
from datetime import UTC, date, datetime, timedelta
from typing import NamedTuple

from penstock.errors import BadTime
from penstock.market.interval import DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS, WEEK_MS

Time = datetime | date | str | int
"""A time in any of the accepted forms."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MS_NS = 1_000_000
_LEAST_MS, _END_MS = 10**11, 10**15
"""Milliseconds of 1973 and of the year 33658: a lower number is likely seconds, a higher one
microseconds."""
_LEAST_NS, _END_NS = 10**17, 1 << 63
_UNITS = {"s": SECOND_MS, "m": MINUTE_MS, "h": HOUR_MS, "d": DAY_MS, "w": WEEK_MS}
_RELATIVE = re.compile(r"-([0-9]{1,9})([smhdw])")
_NUMBER = re.compile(r"[0-9]{9,19}")


class Range(NamedTuple):
    """A range of time, [since, until); None where it is open."""

    since_ns: int | None = None
    until_ns: int | None = None


def time_range(since: Time | None, until: Time | None, now_ns: int) -> Range:
    """Parse both ends of a range.

    Raises:
        BadTime: one of them is not a time, or the range is empty.
    """
    since_ns = None if since is None else time_ns(since, now_ns)
    until_ns = None if until is None else time_ns(until, now_ns)
    if since_ns is not None and until_ns is not None and since_ns >= until_ns:
        raise BadTime(f"The range is empty: since {since} is not before until {until}.")
    return Range(since_ns, until_ns)


def time_ns(value: Time, now_ns: int) -> int:
    """Parse one time; ``now_ns`` is what relative times count from.

    A time before 1970 is the beginning of 1970.

    Raises:
        BadTime: it is not a time, or later than 2262, which no column can hold.
    """
    found = max(0, _parsed(value, now_ns))
    if found >= _END_NS:
        raise BadTime(f"{value} is too late: times end in 2262.")
    return found


def _parsed(value: Time, now_ns: int) -> int:
    if isinstance(value, bool):
        raise BadTime(f"{value!r} is not a time.")
    if isinstance(value, int):
        return _of_number(value)
    if isinstance(value, datetime):
        return _of_datetime(value)
    if isinstance(value, date):
        return _of_datetime(datetime(value.year, value.month, value.day, tzinfo=UTC))
    if isinstance(value, str):
        return _of_text(value.strip(), now_ns)
    raise BadTime(f"{value!r} is not a time: {type(value).__name__} is not accepted.")


def _of_number(value: int) -> int:
    if value == 0 or _LEAST_MS <= value < _END_MS:
        return value * _MS_NS
    if _LEAST_NS <= value < _END_NS:
        return value
    raise BadTime(f"{value} is not a time: a number is in milliseconds or in nanoseconds.")


def _of_datetime(value: datetime) -> int:
    at = value if value.tzinfo is not None else value.replace(tzinfo=UTC)
    micros = (at - _EPOCH) // timedelta(microseconds=1)
    # A pandas Timestamp is a datetime that has three more digits.
    return micros * 1000 + int(getattr(value, "nanosecond", 0))


def _of_text(text: str, now_ns: int) -> int:
    if text == "now":
        return now_ns
    if relative := _RELATIVE.fullmatch(text):
        return now_ns - int(relative[1]) * _UNITS[relative[2]] * _MS_NS
    if _NUMBER.fullmatch(text):
        return _of_number(int(text))
    try:
        return _of_datetime(datetime.fromisoformat(text))
    except (ValueError, OverflowError):
        raise BadTime(
            f"{text!r} is not a time. Write 2026-11-01, 2026-11-01T12:00, -1h, or now."
        ) from None


def iso(at_ms: int) -> str:
    """A time for messages, in UTC: to the second, or to the millisecond where it has some."""
    at = _EPOCH + timedelta(milliseconds=at_ms)
    text = at.strftime("%Y-%m-%dT%H:%M:%S")
    return f"{text}.{at_ms % 1000:03}Z" if at_ms % 1000 else f"{text}Z"
