"""Parses arguments: times and names of streams."""

from datetime import UTC, datetime, timedelta

import typer

from penstock.errors import MalformedSymbol
from penstock.market.symbol import Symbol

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def instant_ns(text: str | None, option: str) -> int | None:
    """Parse an ISO 8601 time, in UTC unless it has an offset, to nanoseconds.

    Raises:
        typer.BadParameter: it is not a time.
    """
    if text is None:
        return None
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        problem = f"{text!r} is not a time such as 2026-11-01T12:00 or 2026-11-01"
        raise typer.BadParameter(problem, param_hint=option) from None
    at = at if at.tzinfo else at.replace(tzinfo=UTC)
    return (at - _EPOCH) // timedelta(microseconds=1) * 1000


def stream_name(text: str) -> str:
    """Return a stream's name as stored; the symbol may have any spelling."""
    beginning, dot, symbol = text.rpartition(".")
    try:
        return f"{beginning}{dot}{Symbol.parse(symbol).slug}" if dot else text
    except MalformedSymbol:
        return text
