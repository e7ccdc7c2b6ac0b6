"""Formats that several exchanges share."""

from datetime import UTC, datetime

from msgspec import Raw

from penstock.market.levels import split_levels, write_levels
from penstock.simulator.engine.exchange import Query

_SECOND_NS = 1_000_000_000
MS_NS = 1_000_000


def iso(at_ns: int) -> str:
    """A time as RFC 3339, with microseconds, or nanoseconds if there are any."""
    second, fraction = divmod(at_ns, _SECOND_NS)
    digits = f"{fraction:09}"
    digits = digits[:6] if digits.endswith("000") else digits
    return f"{datetime.fromtimestamp(second, UTC):%Y-%m-%dT%H:%M:%S}.{digits}Z"


def text(raw: Raw, most: int | None = None) -> str:
    """Levels as they were recorded, ``[["1.10","5"],…]``, at most as many of the best."""
    if most is not None:
        raw = write_levels(split_levels(raw)[:most])
    return bytes(raw).decode()


def number(query: Query, name: str) -> int | None:
    """A parameter that is a whole number; None if it is not given, or is something else."""
    given = query.get(name, "")
    return int(given) if given.isdecimal() and given.isascii() else None
