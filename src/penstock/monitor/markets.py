"""The markets of a data folder, as a server offers them to pages: live documents and charts."""

from collections.abc import Callable
from pathlib import Path

from penstock.clock import Clock
from penstock.monitor.idle_thread import IdleThread
from penstock.monitor.market_candles import CandleRange, CandlesRead, OpenData, read_candles
from penstock.monitor.market_documents import MarketDocument
from penstock.monitor.market_feed import Watch
from penstock.monitor.market_live import LiveMarkets
from penstock.storage.log import EventLog

_IDLE_S = 30.0
"""Opening a log takes some tenths of a second: a chart is often followed by another."""


class Markets:
    """For one event loop. The log is opened when it is first needed, and closed when it is not."""

    def __init__(
        self,
        log: EventLog,
        folder: Path,
        clock: Clock,
        lake: Callable[[], OpenData | None] = lambda: None,
    ) -> None:
        """``folder`` is the data folder; ``lake`` returns how to open the lake, if there is one."""
        self._clock, self._lake = clock, lake
        self._live = LiveMarkets(log, folder, clock)
        # In another thread than live markets, which a long chart must not stop.
        self._charts = IdleThread(log.reader, clock, idle_s=_IDLE_S)

    async def document(self, watch: Watch) -> MarketDocument:
        """One market as of now; see ``LiveMarkets``."""
        return await self._live.document(watch)

    async def candles(self, asked: CandleRange) -> CandlesRead:
        """The candles of a range; see ``read_candles``."""
        now_ms, lake = self._clock.now_ms(), self._lake()
        return await self._charts.run(lambda reader: read_candles(reader, asked, now_ms, lake))

    async def close(self) -> None:
        """Close the log."""
        await self._live.close()
        await self._charts.close()
