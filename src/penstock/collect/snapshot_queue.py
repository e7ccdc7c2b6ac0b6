"""Queues snapshot requests: few at a time, the most urgent first, at most one per symbol.

A request that waits for the budget cannot be overtaken. So only a few are admitted there; all
others wait here, where a book that has just lost its sync goes before hundreds of new ones.
"""

import asyncio
from bisect import insort
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from enum import IntEnum
from itertools import count

from penstock.market.symbol import Symbol


class Urgency(IntEnum):
    """Why a snapshot is needed; the lowest value goes first."""

    LOST = 0
    """The book was synced before, and is not now."""
    FADING = 1
    """It is synced, but its price nears the end of the known depth."""
    COLD = 2
    """It has not been synced yet."""
    AUDIT = 3
    """It is synced; the snapshot is to verify it."""


@dataclass(order=True)
class _Ticket:
    urgency: Urgency
    order: int
    symbol: Symbol = field(compare=False)
    called: asyncio.Future[None] = field(compare=False)


class SnapshotQueue:
    """A priority queue of snapshot requests. For one event loop."""

    def __init__(self, at_once: int) -> None:
        self._at_once = at_once
        self._waiting: list[_Ticket] = []
        """In the order in which they will be admitted."""
        self._under_way: set[Symbol] = set()
        self._order = count()

    @asynccontextmanager
    async def turn(self, symbol: Symbol, urgency: Urgency) -> AsyncIterator[None]:
        """Wait for a turn, and hold it; the caller then checks if the snapshot is still needed."""
        called = asyncio.get_running_loop().create_future()
        ticket = _Ticket(urgency, next(self._order), symbol, called)
        insort(self._waiting, ticket)
        self._call()
        try:
            await called
            yield
        finally:
            if ticket in self._waiting:  # the waiting task was cancelled
                self._waiting.remove(ticket)
            else:
                self._under_way.discard(symbol)
                self._call()

    def _call(self) -> None:
        """Admit the first waiting requests whose symbols have none in progress."""
        for ticket in [*self._waiting]:
            if len(self._under_way) >= self._at_once:
                return
            if ticket.symbol not in self._under_way:
                self._waiting.remove(ticket)
                self._under_way.add(ticket.symbol)
                if not ticket.called.done():
                    ticket.called.set_result(None)
