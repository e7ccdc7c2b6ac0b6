"""``ohlcv_backfill``: all candles, from the earliest the exchange has up to the present."""

from penstock.ingest.candle_jobs import OHLCV_BACKFILL, CandleTarget
from penstock.ingest.candle_kind import CandleKind
from penstock.ingest.candles import CandleWalk
from penstock.jobs.kinds import Market
from penstock.jobs.model import Cursor
from penstock.jobs.run import JobRun

# A page from here starts with the oldest candle: no exchange is older than the epoch.
_BEFORE_ALL_MS = 0


class OhlcvBackfill(CandleKind[CandleTarget]):
    """Fetches from its cursor to the end, oldest first."""

    name = OHLCV_BACKFILL
    priority = 80
    target_type = CandleTarget

    @classmethod
    def target(cls, market: Market, cursor: Cursor) -> CandleTarget:
        """See ``JobKind``."""
        return cls._candles(market, cursor)

    async def run(self, job_run: JobRun[CandleTarget, Cursor]) -> bool:
        """See ``JobKind``."""
        walk = await CandleWalk.begin(self._context, job_run)
        done = await walk.go(walk.cursor_ms() or _BEFORE_ALL_MS, several=True)
        if done:
            await self._gap_scan.after_backfill(walk)
        return done


KIND = OhlcvBackfill
