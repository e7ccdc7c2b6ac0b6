"""``ohlcv_incremental``: the candles that have closed since the last run."""

from penstock.ingest.candles import CandleWalk
from penstock.ingest.means import Means
from penstock.jobs.kinds import OHLCV_INCREMENTAL
from penstock.jobs.turn import Turn


class OhlcvIncremental:
    """Goes on behind the last candle; the first run takes the one that closed last."""

    kind = OHLCV_INCREMENTAL

    def __init__(self, means: Means) -> None:
        self._means = means

    async def run(self, turn: Turn) -> bool:
        """See ``Handler``."""
        walk = await CandleWalk.begin(self._means, turn)
        start_ms = walk.cursor_ms()
        if start_ms is None:
            start_ms = walk.interval.open_of(walk.interval.open_of(walk.now_ms()) - 1)
        return await walk.go(start_ms)


HANDLER = OhlcvIncremental
