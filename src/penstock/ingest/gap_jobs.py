"""Creates a gap job for a range of candles that is missing in the log."""

from penstock.coverage.candles import CandleGap
from penstock.errors import AlreadyExists
from penstock.ingest.candle_jobs import GAP_BACKFILL
from penstock.ingest.context import HandlerContext
from penstock.ingest.facts import CandlesMissing
from penstock.ingest.history import iso
from penstock.jobs.model import Cursor, Job, NewJob
from penstock.market.symbol import Symbol

GAP_WATCH = "gap watch"
"""The origin of jobs that the gap watch creates."""
NEAR = 100
"""Gaps with fewer candles between them are fetched as one: the request costs the same."""


async def fetch_gap(context: HandlerContext, job: Job, gap: CandleGap, origin: str) -> Job | None:
    """Create a job that fills a gap in a job's market; None if another job overlaps for now."""
    new = NewJob(
        exchange_id=job.exchange_id,
        type=GAP_BACKFILL,
        symbol=job.symbol,
        timeframe=job.timeframe,
        cursor=Cursor(since_ms=gap.since_ms, until_ms=gap.until_ms),
    )
    try:
        made = await context.job_service.create(new, origin)
    except AlreadyExists:
        return None
    context.emit(
        CandlesMissing(
            exchange=job.exchange_id,
            symbol=Symbol.parse(job.symbol or "").slug,
            interval=job.timeframe or "",
            since=iso(gap.since_ms),
            until=iso(gap.until_ms),
            job=made.id,
        )
    )
    return made
