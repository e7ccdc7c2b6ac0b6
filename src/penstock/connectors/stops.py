"""Stores the responses by which an exchange ordered stops, to be shown with its connector.

The stop itself is in the budget, which every process obeys. The response that ordered it is written
to the connector's document by the process that received it.
"""

import asyncio
import os
import platform
from collections import defaultdict, deque
from functools import partial

import msgspec
from msgspec import Struct

from penstock.clock import Clock
from penstock.errors import StorageError
from penstock.exchanges.facts import SendingStopped
from penstock.storage.state import Document, StateStore
from penstock.storage.state.schema import CONNECTORS
from penstock.telemetry import Fact

KEPT_REFUSALS = 50
_EVERY_S = 1.0
"""Seconds between two writes."""


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


class Refusal(Struct, frozen=True, kw_only=True):
    """A response that ordered a stop, in short."""

    at_ms: int
    status: int
    """The HTTP status."""
    process: str
    """The process that received it, as ``host/pid``."""
    retry_after_s: float
    """How long the exchange asked to wait."""


class _Unstored:
    """The responses of one exchange that are not stored yet."""

    def __init__(self) -> None:
        self.stop: Document = {}
        """The latest."""
        self.refusals: deque[Document] = deque(maxlen=KEPT_REFUSALS)


class StopRecorder:
    """A listener that stores responses that order a stop: the latest, and a list of them."""

    def __init__(self, store: StateStore, clock: Clock) -> None:
        self._store, self._clock = store, clock
        self._who = f"{platform.node()}/{os.getpid()}"
        self._received: defaultdict[str, _Unstored] = defaultdict(_Unstored)
        self._storing: asyncio.Task[None] | None = None

    def __call__(self, fact: Fact) -> None:
        """Store the response if the fact is a stop."""
        if not isinstance(fact, SendingStopped):
            return
        now_ms, unstored = self._clock.now_ms(), self._received[fact.exchange]
        unstored.stop = {
            "status": fact.status,
            "path": fact.path,
            "words": fact.words,
            "said_at": now_ms,
            "asked_until": fact.asked_ms,
        }
        unstored.refusals.append(
            {
                "at_ms": now_ms,
                "status": fact.status,
                "process": self._who,
                "retry_after_s": max(0, fact.asked_ms - now_ms) / 1000,
            }
        )
        if self._storing is None or self._storing.done():
            self._storing = asyncio.get_running_loop().create_task(self._store_all())

    async def aclose(self) -> None:
        """Wait for a pending write, for a short time."""
        if self._storing is not None:
            await asyncio.wait({self._storing}, timeout=_EVERY_S)
            self._storing.cancel()

    async def _store_all(self) -> None:
        while self._received:
            for exchange_id in list(self._received):
                unstored = self._received.pop(exchange_id)
                try:
                    await self._store.update(CONNECTORS, exchange_id, partial(_stopped, unstored))
                except StorageError:
                    self._put_back(exchange_id, unstored)
            if self._received:
                # Many requests in flight may be refused together, and the store may be away.
                await self._clock.sleep(_EVERY_S)

    def _put_back(self, exchange_id: str, unstored: _Unstored) -> None:
        since = self._received[exchange_id]
        since.stop = since.stop or unstored.stop
        since.refusals = deque([*unstored.refusals, *since.refusals], maxlen=KEPT_REFUSALS)


def _stopped(unstored: _Unstored, found: Document) -> Document:
    refusals = [*found.get("refusals", ()), *unstored.refusals][-KEPT_REFUSALS:]
    return {**found, "stop": unstored.stop, "refusals": refusals}


async def refusals_of(store: StateStore, limit: int = 1000) -> dict[str, tuple[Refusal, ...]]:
    """The latest responses that ordered a stop, the newest last, by exchange.

    Raises:
        StoreUnreachable: the store does not answer.
    """
    found = await store.find(CONNECTORS, limit=limit)
    return {
        document["id"]: msgspec.convert(document.get("refusals", ()), tuple[Refusal, ...])
        for document in found
    }
