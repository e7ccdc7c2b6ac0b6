"""Listings: markets that an exchange has begun to list while a process runs.

Whoever asks the exchange leaves the answer in the state store (see ``connectors.markets``). It is
read from there now and then, so that a new market is known without a restart and without a request.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress

from penstock.clock import Clock
from penstock.errors import UNAVAILABLE
from penstock.exchanges.base import ListedMarket, SymbolMap

_EVERY_S = 60.0


class Listings:
    """Keeps a map of symbols up to date with what any process knows."""

    def __init__(
        self,
        stored: Callable[[], Awaitable[Sequence[ListedMarket]]],
        clock: Clock,
        symbols: SymbolMap | None = None,
    ) -> None:
        """``stored`` reads what was last found to be listed."""
        self.symbols = symbols
        """What is known; None before anything is."""
        self.has_grown = asyncio.Event()
        """Set whenever a market becomes known."""
        self._stored, self._clock = stored, clock

    def learn(self, listed: Iterable[ListedMarket]) -> None:
        """These are listed too."""
        symbols = self.symbols
        if symbols is None:
            return
        known = len(symbols)
        symbols.learn(listed)
        if len(symbols) > known:
            self.has_grown.set()

    async def check(self) -> None:
        """Learn what other processes have found.

        Raises:
            StorageError: the state store cannot be asked.
        """
        self.learn(await self._stored())

    async def run(self) -> None:
        """Look now and then, for ever."""
        while True:
            await self._clock.sleep(_EVERY_S)
            # If the store cannot be asked now, it will be the next time.
            with suppress(*UNAVAILABLE):
                await self.check()
