"""Checks before a worker starts that the log holds what jobs have recorded.

A cursor is saved once the log is synced, so a power cut leaves no cursor ahead of its candles. A
damaged log, one restored from an older copy, and a newer copy of the state can. A job therefore
stores the last number that each slot assigned to its records. If the log is behind that number, gap
jobs fetch what is missing in the job's range.
"""

from collections.abc import AsyncIterator

from penstock.coverage.candles import CandleGap, HeldCandles, joined
from penstock.errors import UnknownExchange
from penstock.exchanges import registry as exchanges
from penstock.ingest.candle_jobs import (
    GAP_BACKFILL,
    OHLCV_BACKFILL,
    OHLCV_INCREMENTAL,
    cursor_of,
)
from penstock.ingest.context import HandlerContext
from penstock.ingest.gap_jobs import NEAR, fetch_gap, report_missing
from penstock.ingest.history import first_open, length_ms
from penstock.jobs.model import Job
from penstock.market.channels import CANDLES
from penstock.market.interval import Interval
from penstock.market.symbol import Symbol
from penstock.storage.log.keys import Stream

ORIGIN = "log check"
_KINDS = (GAP_BACKFILL, OHLCV_BACKFILL, OHLCV_INCREMENTAL)
_PAGE = 500


def place_of(log_id: int, slot: str) -> str:
    """The name of a slot in a job's progress."""
    return f"{log_id:x}/{slot}"


async def check_claims(context: HandlerContext) -> int:
    """Create jobs for recorded candles that the log does not hold; return how many.

    This runs before ``RecordingProcess.continue_numbers`` and before anything is recorded: both
    assign numbers above those of lost records, which then no longer look lost.

    Raises:
        StorageError: the log or the state cannot be read.
    """
    reached = {
        (place_of(context.log_id, stats.slot), each.stream): each.last_number
        for stats in context.log.stats()
        for each in stats.streams
    }
    ours, found = place_of(context.log_id, ""), 0
    async for job in _candle_jobs(context):
        if job.symbol is None or job.timeframe is None:
            continue
        symbol, interval = Symbol.parse(job.symbol), Interval.parse(job.timeframe)
        stream = Stream(job.exchange_id, CANDLES.named(str(interval)), symbol.slug)
        if any(
            place.startswith(ours) and reached.get((place, stream), 0) < number
            for place, number in job.progress.recorded.items()
        ):
            gaps = await _missing(context, job, symbol, interval)
            await report_missing(context, job, gaps)
            for gap in joined(gaps, NEAR * length_ms(interval)):
                found += await fetch_gap(context, job, gap, ORIGIN) is not None
    return found


async def _candle_jobs(context: HandlerContext) -> AsyncIterator[Job]:
    """All candle jobs that are live or done."""
    for kind in _KINDS:
        for state in (None, "success"):
            after: str | None = None
            while page := await context.job_service.find(
                type=kind, state=state, limit=_PAGE, after=after
            ):
                for job in page:
                    if state is not None or job.state != "success":
                        yield job
                after = page[-1].id


async def _missing(
    context: HandlerContext, job: Job, symbol: Symbol, interval: Interval
) -> list[CandleGap]:
    """The gaps in the log within the range that a job has passed."""
    begin_ms, end_ms = job.progress.first_ts, cursor_of(job).since_ms
    if begin_ms is None or end_ms is None or begin_ms >= end_ms:
        return []
    held = HeldCandles(context.log, job.exchange_id, symbol, interval)
    try:
        complete = exchanges.load(job.exchange_id).empty_candles
    except UnknownExchange:
        return []
    if complete:
        begin_ms = first_open(interval, begin_ms)
        return await held.gaps(begin_ms, interval.open_of(end_ms), context.clock)
    # Where intervals may have no candle, the log does not show gaps. A job fetches the oldest
    # first, so what follows the latest candle is missing.
    newest_ms = held.newest_in(begin_ms, end_ms)
    since_ms = begin_ms if newest_ms is None else interval.next_open(newest_ms)
    return [CandleGap(since_ms, end_ms)] if since_ms < end_ms else []
