"""Tracks markets that an exchange begins to list while a process runs.

A process that fetches the listing saves it in the state store (see ``connectors.markets``). It is
read from there every minute, so that a new market is known without a restart and without a request.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress

from penstock.clock import Clock
from penstock.errors import UNAVAILABLE
from penstock.exchanges.symbol_map import ListedMarket, SymbolMap

_EVERY_S = 60.0


class Listings:
    """Keeps a symbol map up to date with the stored listing."""

    def __init__(
        self,
        stored: Callable[[], Awaitable[Sequence[ListedMarket]]],
        clock: Clock,
        symbols: SymbolMap | None = None,
    ) -> None:
        """``stored`` reads the last stored listing."""
        self.symbols = symbols
        """The known symbols; None until the first listing."""
        self.has_grown = asyncio.Event()
        """Set whenever a market is added."""
        self._stored, self._clock = stored, clock

    def learn(self, listed: Iterable[ListedMarket]) -> None:
        """Add these markets."""
        symbols = self.symbols
        if symbols is None:
            return
        known = len(symbols)
        symbols.learn(listed)
        if len(symbols) > known:
            self.has_grown.set()

    async def check(self) -> None:
        """Add the markets that other processes have stored.

        Raises:
            StorageError: the state store cannot be read.
        """
        self.learn(await self._stored())

    async def run(self) -> None:
        """Check every minute, for ever."""
        while True:
            await self._clock.sleep(_EVERY_S)
            # If the store does not answer, the next check retries.
            with suppress(*UNAVAILABLE):
                await self.check()
