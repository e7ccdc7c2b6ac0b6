"""The snapshot queue: few snapshots at a time, the most urgent first, and one of a symbol at most.

Whoever waits for the budget waits in line and cannot be overtaken any more. So only a few are let
that far; all others wait here, where a book that was right a moment ago still goes before hundreds
that are only beginning.
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
    """Why a snapshot is wanted; the least goes first."""

    LOST = 0
    """The book was right once, and is not now."""
    FADING = 1
    """It is right, but its price nears the end of what is known."""
    COLD = 2
    """It has never been right yet."""
    AUDIT = 3
    """It is right, as far as anybody can tell: this is to make sure."""


@dataclass(order=True)
class _Ticket:
    urgency: Urgency
    order: int
    symbol: Symbol = field(compare=False)
    called: asyncio.Future[None] = field(compare=False)


class SnapshotQueue:
    """Gives turns. For one event loop."""

    def __init__(self, at_once: int) -> None:
        self._at_once = at_once
        self._waiting: list[_Ticket] = []
        """In the order they will go."""
        self._under_way: set[Symbol] = set()
        self._order = count()

    @asynccontextmanager
    async def turn(self, symbol: Symbol, urgency: Urgency) -> AsyncIterator[None]:
        """Wait for a turn, and hold it; whether what was wanted still is, look again then."""
        called = asyncio.get_running_loop().create_future()
        ticket = _Ticket(urgency, next(self._order), symbol, called)
        insort(self._waiting, ticket)
        self._call()
        try:
            await called
            yield
        finally:
            if ticket in self._waiting:  # whoever waited for it was cancelled
                self._waiting.remove(ticket)
            else:
                self._under_way.discard(symbol)
                self._call()

    def _call(self) -> None:
        """Give the free places to the first in line whose symbol has none yet."""
        for ticket in [*self._waiting]:
            if len(self._under_way) >= self._at_once:
                return
            if ticket.symbol not in self._under_way:
                self._waiting.remove(ticket)
                self._under_way.add(ticket.symbol)
                if not ticket.called.done():
                    ticket.called.set_result(None)
