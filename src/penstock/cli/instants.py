"""Instants for people. Whatever number an exchange or a store has, it can be shown."""

from datetime import UTC, datetime

_YEAR_S = 31_556_952


def day_and_time(seconds: float) -> str:
    """A day and a time, UTC; the year alone, if there is no calendar for it."""
    try:
        return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M:%S}"
    except (ValueError, OverflowError, OSError):
        return f"the year {1970 + int(seconds) // _YEAR_S}"


def instant(at_ms: int | None) -> str:
    """An instant, to the second."""
    return "" if at_ms is None else f"{day_and_time(at_ms // 1000)} UTC"
