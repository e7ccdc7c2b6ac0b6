"""Writes ticks to a cache in the background, in batches, without making anyone wait.

A batch is everything that came while the one before was written: a tick that comes alone is written
at once, and a flood in large batches. While the store does not answer, the newest tick of each
market waits, so memory is bounded by the number of markets; ticks that expire meanwhile are
dropped.
"""

import asyncio
from collections.abc import Iterable
from random import random

from msgspec import Struct

from penstock.clock import Clock
from penstock.errors import StorageError
from penstock.live.facts import TicksNotWritten, TicksWritten
from penstock.live.tick_cache import TickCache, check_tick, order_of
from penstock.market.events import Ticker
from penstock.market.symbol import Symbol
from penstock.resilience.backoff import Backoff
from penstock.storage.cache import replaces
from penstock.telemetry import Listener, quiet

_BACKOFF = Backoff(first_s=0.05, longest_s=1.0)
MOST = 100_000
"""Ticks that may wait."""


class WriteCounts(Struct):
    """What became of the ticks."""

    offered: int = 0
    written: int = 0
    """Sent to the store, which may have had newer ones already."""
    superseded: int = 0
    """Not written, since a newer one of the market came first."""
    expired: int = 0
    dropped: int = 0
    """Not written, since too many were waiting."""
    batches: int = 0
    failures: int = 0
    """Attempts to write a batch that failed."""


class Pending:
    """Ticks that wait to be written: all of them, or the newest of each market. No I/O."""

    def __init__(self, counts: WriteCounts, *, coalesce: bool, most: int) -> None:
        self._counts, self._coalesce, self._most = counts, coalesce, most
        self._all: list[Ticker] = []
        self._newest: dict[tuple[str, Symbol], Ticker] = {}

    def __len__(self) -> int:
        return len(self._all) + len(self._newest)

    def add(self, ticker: Ticker) -> None:
        if self._coalesce:
            self._add_newest(ticker)
            return
        self._all.append(ticker)
        if len(self) > self._most:
            self._keep_newest()

    def put_back(self, tickers: Iterable[Ticker]) -> None:
        """Add what could not be written: from now on only the newest of each market."""
        for ticker in tickers:
            self._add_newest(ticker)
        self._keep_newest()

    def take(self) -> list[Ticker]:
        """Return and forget all."""
        taken = [*self._newest.values(), *self._all]
        self._newest, self._all = {}, []
        return taken

    def _keep_newest(self) -> None:
        tickers, self._all = self._all, []
        for ticker in tickers:
            self._add_newest(ticker)

    def _add_newest(self, ticker: Ticker) -> None:
        key = ticker.exchange, ticker.symbol
        known = self._newest.get(key)
        if known is None and len(self._newest) >= self._most:
            self._counts.dropped += 1
            return
        if known is not None:
            self._counts.superseded += 1
            if not replaces(order_of(ticker), order_of(known)):
                return
        self._newest[key] = ticker


class TickWriter:
    """Writes what is offered, for as long as ``run`` runs. For one event loop."""

    def __init__(
        self,
        cache: TickCache,
        clock: Clock,
        *,
        coalesce: bool = True,
        interval_s: float = 0.0,
        listener: Listener = quiet,
    ) -> None:
        """With ``coalesce`` a tick that is superseded before it is written is not written.

        ``interval_s`` is the least time from one batch to the next: larger batches, later ticks.
        """
        self._cache, self._clock, self._listener = cache, clock, listener
        self._interval_s = interval_s
        self.counts = WriteCounts()
        self._pending = Pending(self.counts, coalesce=coalesce, most=MOST)
        self._some, self._idle = asyncio.Event(), asyncio.Event()
        self._idle.set()
        self._retries = 0

    @property
    def waiting(self) -> int:
        """How many ticks wait to be written."""
        return len(self._pending)

    def offer(self, ticker: Ticker) -> None:
        """Have a tick written soon. Never waits.

        Raises:
            BadTick: it is no tick.
        """
        check_tick(ticker)
        self.counts.offered += 1
        self._pending.add(ticker)
        self._some.set()
        self._idle.clear()

    async def drain(self) -> None:
        """Wait until everything that was offered is written or expired."""
        await self._idle.wait()

    async def run(self) -> None:
        """Write for ever. What the store does not take is retried."""
        while True:
            await self._some.wait()
            self._some.clear()
            began_ns = self._clock.monotonic_ns()
            await self._write(self._pending.take())
            if self._interval_s:
                spent_s = (self._clock.monotonic_ns() - began_ns) / 1e9
                await self._clock.sleep(max(self._interval_s - spent_s, 0.0))

    async def _write(self, tickers: list[Ticker]) -> None:
        fresh = self._cache.unexpired(tickers)
        self.counts.expired += len(tickers) - len(fresh)
        try:
            if fresh:
                await self._cache.set_checked(fresh)
        except StorageError as error:
            await self._failed(fresh, error)
            return
        except BaseException:  # cancelled: `drain` and `waiting` must not lose sight of them
            self._pending.put_back(fresh)
            raise
        if self._retries:
            self._listener(TicksWritten(store=self._cache.where, failures=self._retries))
        self._retries = 0
        self.counts.batches += bool(fresh)
        self.counts.written += len(fresh)
        if not self._pending:
            self._idle.set()

    async def _failed(self, tickers: list[Ticker], error: StorageError) -> None:
        self.counts.failures += 1
        self._pending.put_back(tickers)
        self._some.set()
        if not self._retries:
            self._listener(TicksNotWritten(store=self._cache.where, reason=str(error)))
        self._retries += 1
        await self._clock.sleep(_BACKOFF.delay(self._retries - 1, random()))
