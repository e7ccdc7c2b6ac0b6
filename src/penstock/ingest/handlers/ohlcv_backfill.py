"""``ohlcv_backfill``: all candles, from the earliest the exchange has up to the present."""

from penstock.ingest.candles import CandleWalk
from penstock.ingest.context import HandlerContext
from penstock.ingest.gap_scan import GapScan
from penstock.jobs.kinds import OHLCV_BACKFILL
from penstock.jobs.run import JobRun

# A page from here starts with the oldest candle: no exchange is older than the epoch.
_BEFORE_ALL_MS = 0


class OhlcvBackfill:
    """Fetches from its cursor to the end, oldest first."""

    kind = OHLCV_BACKFILL

    def __init__(self, context: HandlerContext) -> None:
        self._context, self._gap_scan = context, GapScan(context)

    async def run(self, job_run: JobRun) -> bool:
        """See ``Handler``."""
        walk = await CandleWalk.begin(self._context, job_run)
        done = await walk.go(walk.cursor_ms() or _BEFORE_ALL_MS)
        if done:
            await self._gap_scan.after_backfill(walk)
        return done


HANDLER = OhlcvBackfill
