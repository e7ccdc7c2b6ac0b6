"""Gaps of candles: the time range that a job fetches."""

from penstock.errors import BadJob
from penstock.ingest.candle_jobs import GAP_BACKFILL, CandleTarget
from penstock.ingest.candle_kind import CandleKind
from penstock.ingest.candles import CandleWalk
from penstock.jobs.kinds import Market
from penstock.jobs.model import Cursor
from penstock.jobs.run import JobRun


class CandleGapTarget(CandleTarget, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The candles of one market in [since, until)."""

    since_ms: int
    until_ms: int


class CandleGapFill(CandleKind[CandleGapTarget]):
    """Fetches from the start of the gap to its end."""

    name = GAP_BACKFILL
    priority = 10
    target_type = CandleGapTarget

    @classmethod
    def target(cls, market: Market, cursor: Cursor) -> CandleGapTarget:
        """See ``JobKind``."""
        candles = cls._candles(market, cursor)
        if cursor.since_ms is None or cursor.until_ms is None:
            raise BadJob("cursor", f"a {cls.name} needs since_ms and until_ms, or ids of trades")
        return CandleGapTarget(
            symbol=candles.symbol,
            timeframe=candles.timeframe,
            since_ms=cursor.since_ms,
            until_ms=cursor.until_ms,
        )

    @classmethod
    def span(cls, target: CandleGapTarget, cursor: Cursor) -> tuple[int, int]:
        """See ``JobKind``."""
        since_ms = target.since_ms if cursor.since_ms is None else cursor.since_ms
        until_ms = target.until_ms if cursor.until_ms is None else cursor.until_ms
        return since_ms, until_ms

    async def run(self, job_run: JobRun[CandleGapTarget, Cursor]) -> bool:
        """See ``JobKind``."""
        walk = await CandleWalk.begin(self._context, job_run)
        start_ms, _ = self.span(job_run.target, job_run.cursor)
        done = await walk.go(start_ms)
        if done:
            await self._gap_scan.after_gap(walk, start_ms)
        return done
