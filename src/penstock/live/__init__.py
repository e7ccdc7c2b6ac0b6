"""What is true now, and only while it is fresh: the latest ticks, and the processes that run.

    async with TickCache() as cache:
        await cache.set_ticker(ticker)
        tick = await cache.get_ticker("BTC/USDT", "sim")

Both caches share a store of live values, by URL: a file for one machine, Redis for several.
"""

from penstock.live.opening import is_there, live_url
from penstock.live.process_cache import ProcessCache
from penstock.live.process_model import (
    BEAT_S,
    Outcome,
    ProcessInfo,
    ProcessReport,
    ProcessStatus,
    ProcessType,
    Registration,
)
from penstock.live.tick_cache import Tick, TickCache
from penstock.live.tick_writer import TickWriter

__all__ = [
    "BEAT_S",
    "Outcome",
    "ProcessCache",
    "ProcessInfo",
    "ProcessReport",
    "ProcessStatus",
    "ProcessType",
    "Registration",
    "Tick",
    "TickCache",
    "TickWriter",
    "is_there",
    "live_url",
]
