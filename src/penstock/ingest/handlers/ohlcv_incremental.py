"""``ohlcv_incremental``: the candles that have closed since the last run."""

from penstock.coverage.candles import HeldCandles
from penstock.ingest.candles import CandleWalk
from penstock.ingest.context import HandlerContext
from penstock.ingest.gap_scan import GapScan, live_fetches
from penstock.ingest.history import first_open
from penstock.jobs.kinds import OHLCV_BACKFILL, OHLCV_INCREMENTAL
from penstock.jobs.run import JobRun


class OhlcvIncremental:
    """Continues after its last candle; the first run, after the latest candle in the log."""

    kind = OHLCV_INCREMENTAL

    def __init__(self, context: HandlerContext) -> None:
        self._context, self._gap_scan = context, GapScan(context)

    async def run(self, job_run: JobRun) -> bool:
        """See ``Handler``."""
        walk = await CandleWalk.begin(self._context, job_run)
        start_ms = walk.cursor_ms()
        if start_ms is None:
            start_ms = await self._first_start(walk)
        done = await walk.go(start_ms)
        if done:
            await self._gap_scan.after_incremental(walk)
        return done

    async def _first_start(self, walk: CandleWalk) -> int:
        """The start of the first run, so that it leaves no gap after the log's candles.

        It is the candle that closed last if there are none, or if a backfill fetches the others.
        """
        job, interval = walk.job_run.job, walk.interval
        last_closed_ms = interval.open_of(interval.open_of(walk.now_ms()) - 1)
        held = HeldCandles(self._context.log, job.exchange_id, walk.symbol, interval)
        newest_ms = held.newest_ms()
        if newest_ms is None:
            return last_closed_ms
        start_ms = interval.next_open(newest_ms)
        for other in await live_fetches(self._context, walk):
            if other.type == OHLCV_BACKFILL.name:
                until_ms = min(other.cursor.until_ms or last_closed_ms, last_closed_ms)
                start_ms = max(start_ms, first_open(interval, until_ms))
        return start_ms


HANDLER = OhlcvIncremental
