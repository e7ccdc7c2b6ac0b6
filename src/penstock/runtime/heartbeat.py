"""Writes the status of a process to a store every few seconds, for as long as it runs.

A store that does not answer never stops the process: the next status has all that this one had.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress

from penstock.clock import Clock, wait_for
from penstock.runtime.facts import StatusNotStored
from penstock.runtime.sinks import Identified, Sink
from penstock.runtime.status import GONE_MS
from penstock.telemetry import Listener

_EVERY_S = 3.0
_LAST_S = 1.5
"""How long the last status may take."""
_AGAIN_S = 0.2
_CLEAN_NS = 3_600_000_000_000


class Heartbeat:
    """Writes statuses. For one event loop."""

    def __init__(
        self, current: Callable[[], Identified | None], clock: Clock, emit: Listener
    ) -> None:
        """``current`` returns the status; None while the process has no name of its own yet."""
        self._current, self._clock, self._emit = current, clock, emit
        self.sink: Sink | None = None
        """None until its store is open."""
        self.due = asyncio.Event()
        """Set when the status changed so much that it is written at once."""
        self._written_ns = clock.monotonic_ns()
        self._warned = False
        self._cleaned_ns: int | None = None

    async def run(self) -> None:
        """Write the status every few seconds, for ever."""
        while True:
            self.due.clear()
            if self.sink is not None:
                await self._beat(self.sink)
            await wait_for(self.due, self._clock, _EVERY_S)

    async def finish(self) -> None:
        """Write the last status, if the store answers in time."""
        if self.sink is None:
            return
        with suppress(TimeoutError):
            async with asyncio.timeout(_LAST_S):
                while not await self._write(self.sink):
                    await self._clock.sleep(_AGAIN_S)

    async def _beat(self, sink: Sink) -> None:
        now_ns = self._clock.monotonic_ns()
        if await self._write(sink) and (
            self._cleaned_ns is None or now_ns - self._cleaned_ns >= _CLEAN_NS
        ):
            self._cleaned_ns = now_ns
            with suppress(Exception):  # it is done again in an hour
                await sink.clean()

    async def _write(self, sink: Sink) -> bool:
        """Write the current status; return whether there is nothing left to write."""
        found: Identified | None = None
        try:
            found = self._current()
            if found is None:
                return True
            await sink.write(found)
        except Exception as error:
            # Whatever it is: the process is more important than its status.
            silent_ns = self._clock.monotonic_ns() - self._written_ns
            if not self._warned and silent_ns > GONE_MS * 1_000_000:
                self._warned = True
                name = found.status.name if found is not None else ""
                self._emit(StatusNotStored(process=name, reason=str(error)))
            return False
        self._written_ns, self._warned = self._clock.monotonic_ns(), False
        return True
