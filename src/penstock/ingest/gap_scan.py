"""The gap scan finds candles that are missing in the log, and creates jobs that fetch them.

A job checks the candles of its own market: an incremental job those that it has passed since its
last check, a backfill its whole range once it is done. So every time range is checked once, ten
minutes after its end at the earliest. Candles that the exchange does not have then are not
requested again: the next check starts after them.

Where an exchange has a candle for every interval, the log alone shows what is missing. Where
intervals without trades have no candle, it does not: an incremental job requests each range a
second time, in whole pages, and records what is missing in the log.

What is missing in the log is reported to the ledger as a gap, which its job closes.
"""

from collections.abc import Iterable

from penstock.coverage.candles import CandleGap, HeldCandles, joined, without
from penstock.ingest.candle_jobs import GAP_BACKFILL, OHLCV_BACKFILL, cursor_of
from penstock.ingest.candles import CandleWalk
from penstock.ingest.context import HandlerContext
from penstock.ingest.gap_jobs import NEAR, candle_stream, fetch_gap, report_missing
from penstock.ingest.history import first_open, iso, kept_from_ms, length_ms
from penstock.jobs.model import Job
from penstock.market.interval import DAY_MS, WEEK_MS

ORIGIN = "gap scan"
# A candle that is missing this long after its end is not just late.
SETTLED_MS = 600_000
_EVERY_NS = 3600 * 1_000_000_000
_MOST_JOBS = 50
_MOST_REPORTED = 1000
"""Gaps that a check reports to the ledger."""
# How far back the first check of a job requests candles again: a backfill's responses are final.
_AT_FIRST_MS = WEEK_MS
_PAGE = 500


class GapScan:
    """Checks candles for one worker."""

    def __init__(self, context: HandlerContext) -> None:
        self._context = context
        self._checked_ns: dict[str, int] = {}
        """The time of this process's last check, by job."""

    async def after_incremental(self, walk: CandleWalk) -> None:
        """Check what an incremental job has passed, unless that was done within the last hour."""
        job, now_ns = walk.job_run.job, self._context.clock.monotonic_ns()
        last_ns = self._checked_ns.get(job.id)
        if last_ns is not None and now_ns - last_ns < _EVERY_NS:
            return
        end_ms = min(walk.interval.open_of(walk.now_ms() - SETTLED_MS), walk.cursor_ms() or 0)
        if walk.gateway.exchange.empty_candles:
            start_ms = job.progress.checked_ts or self._held(walk).oldest_ms()
            if start_ms is not None:
                walk.job_run.checked(await self._check(walk, start_ms, end_ms))
        else:
            await self._ask_again(walk, end_ms)
        self._checked_ns[job.id] = now_ns

    async def after_backfill(self, walk: CandleWalk) -> None:
        """Check the range of a backfill; responses received long after an interval are final."""
        start_ms = walk.job_run.job.progress.first_ts
        if start_ms is None or not walk.gateway.exchange.empty_candles:
            return
        end_ms = min(walk.interval.open_of(walk.now_ms() - SETTLED_MS), walk.cursor_ms() or 0)
        await self._check(walk, start_ms, end_ms)

    async def after_gap(self, walk: CandleWalk, start_ms: int) -> None:
        """Request once more what is still missing in a gap: it is not checked after that."""
        exchange, held = walk.gateway.exchange, self._held(walk)
        if not exchange.empty_candles:
            return
        begin_ms = first_open(walk.interval, max(start_ms, self._kept_ms(walk)))
        until_ms = walk.job_run.cursor.until_ms or 0
        end_ms = min(walk.interval.open_of(walk.now_ms() - SETTLED_MS), until_ms)
        for gap in await held.gaps(begin_ms, end_ms, self._context.clock):
            at_ms = gap.since_ms
            while at_ms < gap.until_ms and not walk.job_run.stopping:
                at_ms = await walk.complete(at_ms, gap.until_ms, held)

    async def _check(self, walk: CandleWalk, start_ms: int, end_ms: int) -> int:
        """Create a job for each gap in [start, end); return the end of the completed part."""
        if start_ms >= end_ms:
            return start_ms
        gaps = await self._held(walk).gaps(start_ms, end_ms, self._context.clock)
        if not gaps:
            return end_ms
        # Without ranges that other live jobs have yet to fetch, and candles no longer kept.
        own_id = walk.job_run.job.id
        others = await live_fetches(self._context, walk)
        known = [_range(job) for job in others if job.id != own_id]
        missing = without(gaps, known)
        await self._report(walk, missing)
        known.append(CandleGap(0, self._kept_ms(walk)))
        near = joined(without(missing, known), NEAR * length_ms(walk.interval))
        # Once more, because a known range may lie between two gaps that were joined.
        fresh = _whole(without(near, known), walk)
        left = fresh[_MOST_JOBS:]
        for gap in fresh[:_MOST_JOBS]:
            if not await self._create(walk, gap):
                left.append(gap)
        return min((gap.since_ms for gap in left), default=end_ms)

    async def _report(self, walk: CandleWalk, missing: list[CandleGap]) -> None:
        """Report gaps to the ledger; what the exchange no longer keeps cannot be filled."""
        job, kept_ms = walk.job_run.job, self._kept_ms(walk)
        await report_missing(self._context, job, missing[:_MOST_REPORTED])
        if kept_ms and missing and missing[0].since_ms < kept_ms:
            reason = f"{job.exchange_id} keeps candles of {walk.interval} from {iso(kept_ms)} on"
            await self._context.gaps.mark_unfillable(
                candle_stream(job), "open_ms", missing[0].since_ms, kept_ms - 1, reason
            )

    def _kept_ms(self, walk: CandleWalk) -> int:
        return kept_from_ms(walk.gateway.exchange, walk.interval, walk.now_ms())

    async def _create(self, walk: CandleWalk, gap: CandleGap) -> bool:
        """Create a job that fills a gap; False if another job overlaps for now."""
        made = await fetch_gap(self._context, walk.job_run.job, gap, ORIGIN)
        if made is None:
            return False
        since, until = iso(gap.since_ms), iso(gap.until_ms)
        walk.job_run.note("missing", f"candles from {since} to {until}; job {made.id} fetches them")
        return True

    async def _ask_again(self, walk: CandleWalk, end_ms: int) -> None:
        exchange, held = walk.gateway.exchange, self._held(walk)
        start_ms = walk.job_run.job.progress.checked_ts
        if start_ms is None:
            oldest_ms = held.oldest_ms()
            start_ms = max(end_ms if oldest_ms is None else oldest_ms, end_ms - _AT_FIRST_MS)
        page_ms = (exchange.candle_span or 1) * length_ms(walk.interval)
        if end_ms - start_ms < min(page_ms, DAY_MS):
            return
        while start_ms < end_ms and not walk.job_run.stopping:
            start_ms = await walk.complete(start_ms, end_ms, held)
            walk.job_run.checked(start_ms)

    def _held(self, walk: CandleWalk) -> HeldCandles:
        return HeldCandles(
            self._context.log, walk.job_run.job.exchange_id, walk.symbol, walk.interval
        )


async def live_fetches(context: HandlerContext, walk: CandleWalk) -> list[Job]:
    """Live gap and backfill jobs of a walk's market and interval."""
    job, found = walk.job_run.job, list[Job]()
    for kind in (GAP_BACKFILL, OHLCV_BACKFILL):
        after: str | None = None
        while page := await context.job_service.find(
            exchange_id=job.exchange_id,
            type=kind,
            symbol=job.symbol,
            timeframe=job.timeframe,
            limit=_PAGE,
            after=after,
        ):
            found += page
            after = page[-1].id
    return found


def _whole(gaps: Iterable[CandleGap], walk: CandleWalk) -> list[CandleGap]:
    """The gaps, each from the open time of its first candle; those without one are dropped."""
    begun = [CandleGap(first_open(walk.interval, gap.since_ms), gap.until_ms) for gap in gaps]
    return [gap for gap in begun if gap.since_ms < gap.until_ms]


def _range(job: Job) -> CandleGap:
    """The range that a job has yet to fetch."""
    cursor = cursor_of(job)
    return CandleGap(cursor.since_ms or 0, cursor.until_ms or _FAR_MS)


_FAR_MS = 253_402_300_799_999
"""The last millisecond of the year 9999."""
