"""Formats that several exchanges share."""

from datetime import UTC, datetime

from msgspec import Raw

_SECOND_NS = 1_000_000_000
MS_NS = 1_000_000


def iso(at_ns: int) -> str:
    """A time as RFC 3339, with microseconds, or nanoseconds if there are any."""
    second, fraction = divmod(at_ns, _SECOND_NS)
    digits = f"{fraction:09}"
    digits = digits[:6] if digits.endswith("000") else digits
    return f"{datetime.fromtimestamp(second, UTC):%Y-%m-%dT%H:%M:%S}.{digits}Z"


def text(raw: Raw) -> str:
    """Levels as they were recorded: ``[["1.10","5"],…]``."""
    return bytes(raw).decode()
