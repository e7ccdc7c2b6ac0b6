"""``ohlcv_backfill``: all candles, from the earliest the exchange has up to the present."""

from penstock.ingest.candles import CandleWalk
from penstock.ingest.gap_scan import GapScan
from penstock.ingest.means import Means
from penstock.jobs.kinds import OHLCV_BACKFILL
from penstock.jobs.turn import Turn

# A page that begins here begins with whatever is the oldest: no exchange is older than the epoch.
_BEFORE_ALL_MS = 0


class OhlcvBackfill:
    """Goes from wherever it stands to the end, oldest first."""

    kind = OHLCV_BACKFILL

    def __init__(self, means: Means) -> None:
        self._means, self._gap_scan = means, GapScan(means)

    async def run(self, turn: Turn) -> bool:
        """See ``Handler``."""
        walk = await CandleWalk.begin(self._means, turn)
        done = await walk.go(walk.cursor_ms() or _BEFORE_ALL_MS)
        if done:
            await self._gap_scan.after_backfill(walk)
        return done


HANDLER = OhlcvBackfill
