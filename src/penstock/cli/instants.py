"""Times in readable form, also for values outside the calendar's range."""

from datetime import UTC, datetime

_YEAR_S = 31_556_952


def day_and_time(seconds: float) -> str:
    """A date and time in UTC; only the year if it is outside the calendar's range."""
    try:
        return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M:%S}"
    except (ValueError, OverflowError, OSError):
        return f"the year {1970 + int(seconds) // _YEAR_S}"


def instant(at_ms: int | None) -> str:
    """A time to the second, with its zone; empty for None."""
    return "" if at_ms is None else f"{day_and_time(at_ms // 1000)} UTC"
