"""What an exchange declares about its pages of old records: endpoints, sizes and costs."""

from collections.abc import Sequence
from typing import NamedTuple


class PageCost(NamedTuple):
    """The cost of a request for a page of up to so many rows."""

    rows: int
    cost: int


def cost_of(costs: Sequence[tuple[int, int]], size: int, beyond: int) -> int:
    """The cost of the first step (most rows, cost) that includes ``size``; else ``beyond``."""
    return next((cost for most, cost in costs if size <= most), beyond)


class PagedEndpoint(NamedTuple):
    """An endpoint that returns old records of a channel in pages."""

    channel: str
    """``trades``, ``agg_trades`` or ``candles``."""
    path: str
    """It may have one ``{}``, for the market or the interval."""
    costs: tuple[PageCost, ...]
    """By size, ascending; the last has the most rows in a page."""
    default_rows: int
    """How many rows a page has if the request names no size."""
    span_ms: int | None = None
    """The time that a page covers at most, from one multiple of it to the next; None: any."""
    kept_days: int | None = None
    """The days before today of which there are records; None: all."""
