"""Stores the response by which an exchange ordered a stop, to be shown with its connector.

The stop itself is in the budget, which every process obeys. The response that ordered it is written
to the connector's document by the process that received it.
"""

import asyncio
from dataclasses import dataclass
from functools import partial

from msgspec import Struct

from penstock.clock import Clock
from penstock.errors import StorageError
from penstock.exchanges.facts import SendingStopped
from penstock.storage.state import Document, StateStore
from penstock.storage.state.schema import CONNECTORS
from penstock.telemetry import Fact

_RETRY_S = 1.0


class Stop(Struct, frozen=True, kw_only=True):
    """A response that ordered a stop."""

    status: int
    """The HTTP status."""
    path: str
    """The path of the request."""
    words: str
    said_at: int
    asked_until: int
    """The end that the exchange asked for; later than ``blocked_until`` if that was capped."""


@dataclass
class StopRecorder:
    """A listener that stores responses that order a stop."""

    store: StateStore
    clock: Clock

    def __post_init__(self) -> None:
        self._received: dict[str, Document] = {}
        self._storing: asyncio.Task[None] | None = None

    def __call__(self, fact: Fact) -> None:
        """Store the response if the fact is a stop."""
        if isinstance(fact, SendingStopped):
            self._received[fact.exchange] = {
                "status": fact.status,
                "path": fact.path,
                "words": fact.words,
                "said_at": self.clock.now_ms(),
                "asked_until": fact.asked_ms,
            }
            if self._storing is None or self._storing.done():
                self._storing = asyncio.get_running_loop().create_task(self._store_all())

    async def aclose(self) -> None:
        """Wait for a pending write, for a short time."""
        if self._storing is not None:
            await asyncio.wait({self._storing}, timeout=_RETRY_S)
            self._storing.cancel()

    async def _store_all(self) -> None:
        while self._received:
            exchange_id, stop = next(iter(self._received.items()))
            try:
                await self.store.update(CONNECTORS, exchange_id, partial(_stopped, stop))
            except StorageError:
                await self.clock.sleep(_RETRY_S)
                continue
            if self._received.get(exchange_id) is stop:
                del self._received[exchange_id]


def _stopped(stop: Document, found: Document) -> Document:
    return {**found, "stop": stop}
