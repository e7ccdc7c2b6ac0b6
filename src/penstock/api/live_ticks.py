"""The store of the latest ticks, opened when the API first needs it.

So the server also starts, and serves everything else, while that store is away.
"""

import asyncio

from penstock.api.problems import ProblemError
from penstock.clock import Clock
from penstock.config import Live
from penstock.errors import ConfigError, MissingExtra, PenstockError
from penstock.live import TickCache
from penstock.storage.cache import LiveStore, open_live_store
from penstock.telemetry import Listener, quiet

MOST_STREAMS = 128
"""Streams at the same time; other requests need connections too."""


class LiveTicks:
    """The latest ticks, for one event loop."""

    def __init__(self, url: str, settings: Live, clock: Clock, listener: Listener = quiet) -> None:
        self._url, self._settings, self._clock, self._listener = url, settings, clock, listener
        self._opening: asyncio.Task[LiveStore] | None = None
        self.streams = 0

    @property
    def ttl_s(self) -> float:
        """Seconds after which a tick expires."""
        return self._settings.tick_ttl

    async def cache(self) -> TickCache:
        """The ticks. Requests that come while the store is being opened wait for the same attempt.

        Raises:
            StorageError: the store cannot be opened; the next call tries again.
            ProblemError: its URL is wrong, or its library is not installed.
        """
        opening = self._opening
        if opening is None:
            opening = self._opening = asyncio.create_task(self._open())
        try:
            store = await asyncio.shield(opening)
        except PenstockError as error:
            if self._opening is opening:
                self._opening = None
            if isinstance(error, ConfigError | MissingExtra):
                raise ProblemError(503, f"The ticks cannot be read (live.url): {error}") from error
            raise
        return TickCache(
            store,
            ttl_s=self._settings.tick_ttl,
            stale_after_s=self._settings.stale_after,
            clock=self._clock,
        )

    async def close(self) -> None:
        """Close the store, if it was opened."""
        opening, self._opening = self._opening, None
        if opening is None:
            return
        await asyncio.wait([opening])
        if opening.exception() is None:
            await opening.result().close()

    async def _open(self) -> LiveStore:
        return await open_live_store(
            self._url,
            clock=self._clock,
            timeout_s=self._settings.timeout,
            listener=self._listener,
        )
