"""Notices that the store of live values was emptied: restarted without its data, or flushed.

A restart may be too short for any write to fail, so a value of its own is put into the store and
looked for every second. If it is gone before it expires, so is everything else.
"""

import os
import platform
from collections.abc import Callable
from contextlib import suppress
from random import getrandbits

from penstock.clock import Clock
from penstock.storage.cache import LiveStore, LiveValue
from penstock.telemetry import Listener
from penstock.tickers.facts import StoreEmptied

SPACE = "collectors"
LOOK_S = 1.0
_TTL_MS, _RENEW_NS = 60_000, 20_000_000_000


class StoreWatch:
    """Watches a store for one collector. For one event loop."""

    def __init__(
        self, store: LiveStore, clock: Clock, emit: Listener, emptied: Callable[[], None]
    ) -> None:
        self._store, self._clock, self._emit, self._emptied = store, clock, emit, emptied
        self._key = f"{platform.node()}-{os.getpid()}/{getrandbits(32):08x}"
        self._put_ns: int | None = None

    async def run(self) -> None:
        """Look for ever."""
        while True:
            # Whatever fails: others report it, and afterwards it is seen whether it was emptied.
            with suppress(Exception):
                await self.look()
            await self._clock.sleep(LOOK_S)

    async def look(self) -> None:
        """Put the value if it is due; call ``emptied`` if it is gone.

        Raises:
            StorageError: the store does not answer.
        """
        found = await self._store.get(SPACE, self._key)
        before_ns, now_ns = self._put_ns, self._clock.monotonic_ns()
        if found is not None and before_ns is not None and now_ns - before_ns < _RENEW_NS:
            return
        await self._store.put(SPACE, [LiveValue(self._key, b"{}", _TTL_MS)])
        self._put_ns = now_ns
        if found is None and before_ns is not None:
            self._emit(StoreEmptied(store=self._store.where))
            self._emptied()
