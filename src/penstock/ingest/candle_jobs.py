"""Candle jobs: their names, so that one kind can look for jobs of another, and their targets."""

from typing import TypeVar

from msgspec import Struct

from penstock.jobs.model import Cursor, Job

OHLCV_INCREMENTAL = "ohlcv_incremental"
OHLCV_BACKFILL = "ohlcv_backfill"
GAP_BACKFILL = "gap_backfill"


class CandleTarget(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The candles of one market."""

    symbol: str
    timeframe: str


K = TypeVar("K", bound=CandleTarget)


def cursor_of(job: Job) -> Cursor:
    """The cursor of a candle job; an empty one if a newer version wrote it."""
    return job.cursor if isinstance(job.cursor, Cursor) else Cursor()
