"""The kinds of jobs, with the parameters that each requires and their defaults.

These four are in the specification. Any other kind is declared by its handler class and passed to
the job service.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from penstock.jobs.model import Cursor
from penstock.jobs.schedule import GAP
from penstock.market.interval import DAY_MS, HOUR_MS, Interval


@dataclass(frozen=True, slots=True)
class JobKind:
    """One kind of jobs."""

    name: str
    priority: int
    """The default; lower runs first."""
    of_market: bool = True
    """Whether it works on one market's candles, and so has a symbol and a timeframe."""
    repeats: bool = False
    """Whether it has a schedule; otherwise it runs until it is done."""
    of_range: bool = False
    """Whether it requires a start and an end."""
    claimed_first: bool = False
    """Whether it runs before all other due jobs, whatever its priority."""
    every_ms: int | None = None
    """The default interval; None: once per candle."""

    def claim_priority(self, priority: int) -> int:
        """The priority by which its jobs are claimed."""
        return GAP if self.claimed_first else priority

    def target_key(self, cursor: Cursor) -> str | None:
        """The key that distinguishes jobs of one symbol and timeframe; None: only one is live."""
        return f"{cursor.since_ms}-{cursor.until_ms}" if self.of_range else None

    def interval_ms(self, timeframe: str | None) -> int:
        """The default interval of a job of this kind."""
        if self.every_ms is not None or timeframe is None:
            return self.every_ms or DAY_MS
        # Longer candles are checked every day: weeks and months do not fit a grid of intervals.
        return min(Interval.parse(timeframe).fixed_ms or DAY_MS, DAY_MS)


MARKETS_REFRESH = JobKind(
    "markets_refresh", priority=40, of_market=False, repeats=True, every_ms=12 * HOUR_MS
)
OHLCV_INCREMENTAL = JobKind("ohlcv_incremental", priority=50, repeats=True)
OHLCV_BACKFILL = JobKind("ohlcv_backfill", priority=80)
GAP_BACKFILL = JobKind("gap_backfill", priority=10, of_range=True, claimed_first=True)

SPECIFIED: Mapping[str, JobKind] = MappingProxyType(
    {kind.name: kind for kind in (MARKETS_REFRESH, OHLCV_INCREMENTAL, OHLCV_BACKFILL, GAP_BACKFILL)}
)
