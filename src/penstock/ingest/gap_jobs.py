"""Reports candles that are missing in the log, and creates gap jobs for them."""

from collections.abc import Iterable

from penstock.coverage.candle_gaps import report_candles
from penstock.coverage.candles import CandleGap
from penstock.errors import AlreadyExists
from penstock.ingest.candle_jobs import GAP_BACKFILL
from penstock.ingest.context import HandlerContext
from penstock.ingest.facts import CandlesMissing
from penstock.ingest.history import iso
from penstock.jobs.model import Cursor, Job, NewJob
from penstock.market.channels import CANDLES
from penstock.market.symbol import Symbol
from penstock.storage.log.keys import Stream

GAP_WATCH = "gap watch"
"""The origin of jobs that the gap watch creates."""
NEAR = 100
"""Gaps with fewer candles between them are fetched as one: the request costs the same."""


def candle_stream(job: Job) -> Stream:
    """The stream of a job's candles."""
    symbol = Symbol.parse(job.symbol or "").slug
    return Stream(job.exchange_id, CANDLES.named(job.timeframe or ""), symbol)


async def report_missing(context: HandlerContext, job: Job, gaps: Iterable[CandleGap]) -> None:
    """Report gaps in a job's market to the ledger."""
    await report_candles(context.job_service.store, context.log_id, candle_stream(job), gaps)


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
    stream = candle_stream(job)
    await context.gaps.attach(stream, "open_ms", gap.since_ms, gap.until_ms - 1, made.id)
    context.emit(
        CandlesMissing(
            exchange=job.exchange_id,
            symbol=stream.symbol,
            interval=job.timeframe or "",
            since=iso(gap.since_ms),
            until=iso(gap.until_ms),
            job=made.id,
        )
    )
    return made
