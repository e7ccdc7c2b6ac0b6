"""``gap_backfill``: the candles of one stretch of time that was missed."""

from penstock.errors import BadJob
from penstock.ingest.candles import CandleWalk
from penstock.ingest.gap_scan import GapScan
from penstock.ingest.means import Means
from penstock.jobs.kinds import GAP_BACKFILL
from penstock.jobs.turn import Turn


class GapBackfill:
    """Goes from the beginning of the gap to its end."""

    kind = GAP_BACKFILL

    def __init__(self, means: Means) -> None:
        self._means, self._gap_scan = means, GapScan(means)

    async def run(self, turn: Turn) -> bool:
        """See ``Handler``."""
        walk = await CandleWalk.begin(self._means, turn)
        start_ms = walk.cursor_ms()
        if start_ms is None or turn.job.cursor.until_ms is None:
            raise BadJob("cursor", "a gap has a beginning and an end")
        done = await walk.go(start_ms)
        if done:
            await self._gap_scan.after_gap(walk, start_ms)
        return done


HANDLER = GapBackfill
