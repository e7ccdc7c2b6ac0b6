"""``gap_backfill``: the candles of one time range that are missing."""

from penstock.errors import BadJob
from penstock.ingest.candles import CandleWalk
from penstock.ingest.context import HandlerContext
from penstock.ingest.gap_scan import GapScan
from penstock.jobs.kinds import GAP_BACKFILL
from penstock.jobs.run import JobRun


class GapBackfill:
    """Fetches from the start of the gap to its end."""

    kind = GAP_BACKFILL

    def __init__(self, context: HandlerContext) -> None:
        self._context, self._gap_scan = context, GapScan(context)

    async def run(self, job_run: JobRun) -> bool:
        """See ``Handler``."""
        walk = await CandleWalk.begin(self._context, job_run)
        start_ms = walk.cursor_ms()
        if start_ms is None or job_run.job.cursor.until_ms is None:
            raise BadJob("cursor", "a gap has a beginning and an end")
        done = await walk.go(start_ms)
        if done:
            await self._gap_scan.after_gap(walk, start_ms)
        return done


HANDLER = GapBackfill
