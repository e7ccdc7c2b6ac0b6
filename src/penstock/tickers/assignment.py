"""Keeps a collector at its share of the symbols, while symbols and daemons come and go."""

import asyncio
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager, suppress

from penstock.clock import Clock, wait_for
from penstock.errors import StorageError
from penstock.telemetry import Listener
from penstock.tickers.facts import SymbolsAssigned, SymbolsNotRead
from penstock.tickers.live_collector import LiveTickerCollector
from penstock.tickers.membership import Membership
from penstock.tickers.model import TickerSymbol
from penstock.tickers.partition import Member, share_of
from penstock.tickers.services import TickerServices

_CHECKS = 4
"""How many times the entries are checked after the members have changed."""


class Assignment:
    """The share of one daemon. For one event loop."""

    def __init__(
        self,
        own: Member,
        services: TickerServices,
        collector: LiveTickerCollector,
        pinned: Collection[TickerSymbol],
    ) -> None:
        """``pinned`` are collected whether they are in the share or not."""
        self._own, self._collector, self._pinned = own, collector, pinned
        self._symbols, self._poll_s = services.symbols, services.settings.tickers.poll_interval
        self._clock: Clock = services.clock
        self._emit: Listener = services.emit
        self.membership = Membership(services.live, own, services.clock, services.emit)
        self._last: tuple[int, int] | None = None

    @asynccontextmanager
    async def kept(self) -> AsyncIterator[None]:
        """Share symbols with the other daemons; at the end leave them to the others.

        Raises:
            StorageError: the symbols, or the other daemons, cannot be read.
        """
        try:
            await self.membership.join()
            await self._apply()
            tasks = [asyncio.create_task(each) for each in (self.membership.run(), self._follow())]
            try:
                yield
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.wait(tasks)
        finally:
            with suppress(StorageError):  # then the lease expires
                await self.membership.leave()

    async def _follow(self) -> None:
        warned, checks = False, _CHECKS
        while True:
            if await wait_for(self.membership.changed, self._clock, self._poll_s):
                checks = _CHECKS
            try:
                await self._apply()
                if checks:
                    # While symbols move, one daemon may end an entry that another has just begun.
                    await self._collector.reclaim_entries()
                    checks -= 1
                warned = False
            except Exception as error:
                # Whatever it is: what is collected is not affected, and it is retried.
                if not warned:
                    self._emit(SymbolsNotRead(daemon=self._own.id, reason=str(error)))
                warned = True
                self.membership.changed.clear()

    async def _apply(self) -> None:
        """Collect what this daemon is to collect now, and nothing else."""
        self.membership.changed.clear()
        symbols = await self._symbols.get_all(self._own.exchanges)
        members = self.membership.members
        share = set(share_of(self._own.id, symbols, members))
        collected = set(self._collector.symbols)
        self._collector.remove(collected - share - set(self._pinned))
        self._collector.add(sorted(share - collected, key=lambda symbol: symbol.key))
        if self._last != (now := (len(members), len(share))):
            self._last = now
            self._emit(SymbolsAssigned(daemon=self._own.id, members=now[0], symbols=now[1]))
