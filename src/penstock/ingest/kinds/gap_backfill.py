"""``gap_backfill``: records of one market that are missing, candles by time or trades by id."""

from typing import Any

from penstock.ingest.candle_gap import CandleGapFill, CandleGapTarget
from penstock.ingest.candle_jobs import GAP_BACKFILL
from penstock.ingest.context import HandlerContext
from penstock.ingest.id_range_fill import IdRangeFill
from penstock.ingest.id_ranges import IdRangeCursor, IdRangeTarget
from penstock.jobs.kinds import JobKind, Market, RequestRate
from penstock.jobs.model import Cursor, Job
from penstock.jobs.run import JobRun

Target = CandleGapTarget | IdRangeTarget
GapCursor = Cursor | IdRangeCursor


class GapBackfill(JobKind[Target, GapCursor]):
    """Fetches a gap and ends; the form of its target decides how."""

    name = GAP_BACKFILL
    priority = CandleGapFill.priority
    claimed_first = True
    target_type = Target
    cursor_type = GapCursor

    def __init__(self, context: HandlerContext) -> None:
        self._candles, self._ids = CandleGapFill(context), IdRangeFill(context)

    @classmethod
    def target(cls, market: Market, cursor: GapCursor) -> Target:
        """See ``JobKind``."""
        if isinstance(cursor, IdRangeCursor):
            return IdRangeFill.target(market, cursor)
        return CandleGapFill.target(market, cursor)

    @classmethod
    def check_exchange(cls, exchange_id: str, target: Target) -> None:
        """See ``JobKind``."""
        if isinstance(target, IdRangeTarget):
            IdRangeFill.check_exchange(exchange_id, target)

    @classmethod
    def market(cls, target: Target) -> Market:
        """See ``JobKind``."""
        if isinstance(target, IdRangeTarget):
            return IdRangeFill.market(target)
        return CandleGapFill.market(target)

    @classmethod
    def span(cls, target: Target, cursor: GapCursor) -> tuple[int, int]:
        """See ``JobKind``."""
        if isinstance(target, IdRangeTarget):
            assert isinstance(cursor, IdRangeCursor)
            return IdRangeFill.span(target, cursor)
        assert isinstance(cursor, Cursor)
        return CandleGapFill.span(target, cursor)

    @classmethod
    def channel(cls, target: Target) -> str:
        """See ``JobKind``."""
        return target.channel if isinstance(target, IdRangeTarget) else ""

    @classmethod
    def ended(cls, cursor: GapCursor) -> GapCursor:
        """See ``JobKind``."""
        if isinstance(cursor, IdRangeCursor):
            return IdRangeFill.ended(cursor)
        return CandleGapFill.ended(cursor)

    @classmethod
    def rows_left(cls, job: Job) -> float:
        """See ``JobKind``."""
        by_id = isinstance(job.target, IdRangeTarget)
        return (IdRangeFill if by_id else CandleGapFill).rows_left(job)

    async def run(self, job_run: JobRun[Any, Any]) -> bool:
        """See ``JobKind``."""
        return await self._of(job_run.job).run(job_run)

    async def request_rate(self, job: Job) -> RequestRate:
        """See ``JobKind``."""
        return await self._of(job).request_rate(job)

    def _of(self, job: Job) -> CandleGapFill | IdRangeFill:
        return self._ids if isinstance(job.target, IdRangeTarget) else self._candles


KIND = GapBackfill
