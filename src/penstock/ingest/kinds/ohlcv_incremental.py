"""``ohlcv_incremental``: the candles that have closed since the last run."""

from penstock.coverage.candles import HeldCandles
from penstock.errors import BadJob
from penstock.ingest.candle_jobs import (
    OHLCV_BACKFILL,
    OHLCV_INCREMENTAL,
    CandleTarget,
    cursor_of,
)
from penstock.ingest.candle_kind import CandleKind
from penstock.ingest.candles import CandleWalk
from penstock.ingest.gap_scan import live_fetches
from penstock.ingest.history import first_open
from penstock.jobs.kinds import Market
from penstock.jobs.model import Cursor
from penstock.jobs.run import JobRun
from penstock.market.interval import DAY_MS, Interval


class OhlcvIncremental(CandleKind[CandleTarget]):
    """Continues after its last candle; the first run, after the latest candle in the log."""

    name = OHLCV_INCREMENTAL
    priority = 50
    target_type = CandleTarget

    @classmethod
    def target(cls, market: Market, cursor: Cursor) -> CandleTarget:
        """See ``JobKind``."""
        candles = cls._candles(market, cursor)
        if cursor.until_ms is not None:
            raise BadJob("cursor.until_ms", f"a {cls.name} has no end")
        return candles

    @classmethod
    def interval_ms(cls, target: CandleTarget) -> int:
        """Once per candle; longer ones every day, as weeks and months do not fit the grid."""
        return min(Interval.parse(target.timeframe).fixed_ms or DAY_MS, DAY_MS)

    async def run(self, job_run: JobRun[CandleTarget, Cursor]) -> bool:
        """See ``JobKind``."""
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
            if other.type == OHLCV_BACKFILL:
                until_ms = min(cursor_of(other).until_ms or last_closed_ms, last_closed_ms)
                start_ms = max(start_ms, first_open(interval, until_ms))
        return start_ms


KIND = OhlcvIncremental
