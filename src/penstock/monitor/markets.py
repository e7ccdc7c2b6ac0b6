"""The markets of a data folder, as a server offers them to pages: live documents and charts."""

from collections.abc import Callable
from pathlib import Path

from penstock.clock import Clock
from penstock.monitor.idle_thread import IdleThread
from penstock.monitor.market_candles import CandleRange, CandlesRead, OpenData, read_candles
from penstock.monitor.market_documents import MarketDocument
from penstock.monitor.market_feed import Watch
from penstock.monitor.market_live import LiveMarkets
from penstock.storage.log import EventLog, LogReader

_IDLE_S = 30.0
"""Opening a log takes some tenths of a second: a chart is often followed by another."""
_SHARE = 50
"""A chart is returned again for this many times as long as reading it took, so that reading one
takes a fiftieth of a core at most, however many viewers ask for it."""
_KEPT_NS = 1_000_000_000, 30_000_000_000
"""For how long at least, and at most."""
_MOST_KEPT = 16


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
        self._kept: dict[CandleRange, tuple[int, CandlesRead]] = {}
        """The latest charts, and until when each is returned again."""

    async def document(self, watch: Watch) -> MarketDocument:
        """One market as of now; see ``LiveMarkets``."""
        return await self._live.document(watch)

    async def candles(self, asked: CandleRange) -> CandlesRead:
        """The candles of a range; see ``read_candles``. Those that took long may be older."""
        return await self._charts.run(lambda reader: self._read(reader, asked))

    async def close(self) -> None:
        """Close the log."""
        await self._live.close()
        await self._charts.close()

    def _read(self, reader: LogReader, asked: CandleRange) -> CandlesRead:
        begun_ns = self._clock.monotonic_ns()
        until_ns, kept = self._kept.pop(asked, (0, None))
        if kept is None or begun_ns >= until_ns:
            kept = read_candles(reader, asked, self._clock.now_ms(), self._lake())
            now_ns = self._clock.monotonic_ns()
            least_ns, most_ns = _KEPT_NS
            until_ns = now_ns + min(max((now_ns - begun_ns) * _SHARE, least_ns), most_ns)
        self._kept[asked] = until_ns, kept
        for oldest in [*self._kept][:-_MOST_KEPT]:
            del self._kept[oldest]
        return kept
