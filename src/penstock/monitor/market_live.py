"""Live markets: one follower of the log for all viewers, while there are any.

There is no subscription to end. Whoever shows a market asks for its document again and again; a
market that nobody asked for in five seconds is followed no longer, and without markets the log is
closed. The log is read in a thread of its own, once for all that ask at the same time.
"""

import asyncio
from pathlib import Path

from penstock.clock import Clock
from penstock.errors import PenstockError, TooManyMarkets
from penstock.monitor.idle_thread import IdleThread
from penstock.monitor.market_documents import MarketDocument
from penstock.monitor.market_feed import MarketFeed, Watch
from penstock.storage.log import EventLog

MOST_MARKETS = 32
_LINGER_S = 5.0
_FRESH_NS = 50_000_000
"""A document of this age is returned again; the console asks every 100 ms."""


class LiveMarkets:
    """The documents of markets, for one event loop."""

    def __init__(self, log: EventLog, folder: Path, clock: Clock) -> None:
        """``folder`` is the data folder, with the statuses of collectors."""
        self._clock = clock
        self._thread = IdleThread(lambda: MarketFeed(log, folder, clock), clock, idle_s=_LINGER_S)
        self._asked: dict[Watch, int] = {}
        """When each was last asked for."""
        self._made: dict[Watch, MarketDocument | PenstockError] = {}
        self._made_ns = 0
        self._making: asyncio.Task[None] | None = None

    @property
    def is_following(self) -> bool:
        """Whether the log is open."""
        return self._thread.is_open

    async def document(self, watch: Watch) -> MarketDocument:
        """One market as of now.

        Raises:
            NotCollected, NoData: there is no such market, or nothing at all.
            TooManyMarkets: too many are shown at the same time.
            StorageError: the log cannot be read; the next call tries again.
        """
        now_ns = self._clock.monotonic_ns()
        self._forget(now_ns)
        others = {(each.exchange, each.symbol) for each in self._asked}
        if (watch.exchange, watch.symbol) not in others and len(others) >= MOST_MARKETS:
            raise TooManyMarkets(MOST_MARKETS)
        self._asked[watch] = now_ns
        if watch not in self._made or now_ns - self._made_ns > _FRESH_NS:
            await self._make(watch)
        found = self._made[watch]
        if isinstance(found, PenstockError):
            self._asked.pop(watch, None)
            raise found
        return found

    async def close(self) -> None:
        """Stop following."""
        await self._thread.close()

    def _forget(self, now_ns: int) -> None:
        """Forget what was not asked for lately."""
        until_ns = now_ns - round(_LINGER_S * 1e9)
        for watch in [each for each, asked_ns in self._asked.items() if asked_ns < until_ns]:
            del self._asked[watch]

    async def _make(self, watch: Watch) -> None:
        """Wait for documents that are made from now on, or are being made with this one."""
        while True:
            if self._making is None:
                self._making = asyncio.create_task(self._make_all(watch))
                self._making.add_done_callback(_retrieve)
            await asyncio.shield(self._making)
            if watch in self._made:
                return

    async def _make_all(self, watch: Watch) -> None:
        asked = {**self._asked, watch: 0}
        self._made = {}
        try:
            self._made = await self._thread.run(lambda feed: feed.documents(asked))
            self._made_ns = self._clock.monotonic_ns()
        finally:
            self._making = None


def _retrieve(task: asyncio.Task[None]) -> None:
    """Mark an error as seen: those who wait for the task raise it, if there is anyone."""
    if not task.cancelled():
        task.exception()
