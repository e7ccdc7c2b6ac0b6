"""Deletes from the log what the keeper found to be sealed and old enough.

Only the owner of a slot writes to it. So the keeper stores in the state store what may be deleted,
and the owner deletes it; the keeper does so only for a slot that has no owner.
"""

import asyncio
from collections.abc import Callable, Iterable

from penstock.clock import Clock
from penstock.errors import PenstockError
from penstock.runtime.facts import LogTrimmed, TrimmingFailed
from penstock.storage.lake.documents import Deletion, SealState, read_seals
from penstock.storage.log import LogWriter
from penstock.storage.state import StateStore
from penstock.telemetry import Listener

_EVERY_S = 20.0


class Trimmer:
    """Deletes sealed records of one slot. For one event loop, that of the slot's owner."""

    def __init__(self, writer: LogWriter, log_id: int, clock: Clock, emit: Listener) -> None:
        self._writer, self._log_id, self._clock, self._emit = writer, log_id, clock, emit
        self._done: dict[str, Deletion] = {}

    async def run(self, store: Callable[[], StateStore | None]) -> None:
        """Every few seconds, delete what may be deleted. ``store`` is None until it is open."""
        while True:
            opened = store()
            if opened is not None:
                try:
                    await self.trim(await read_seals(opened, self._log_id, self._writer.slot))
                except PenstockError as error:
                    self._emit(TrimmingFailed(slot=self._writer.slot, reason=str(error)))
            await self._clock.sleep(_EVERY_S)

    async def trim(self, states: Iterable[SealState]) -> int:
        """Delete what these documents name; return from how many streams.

        Raises:
            StorageError: the log cannot be written. What was deleted until then stays so.
        """
        due = {
            name: deletion
            for state in states
            for name, deletion in state.deletions.items()
            if self._done.get(name) != deletion
        }
        trimmed = 0
        streams = {str(stream): stream for stream in self._writer.last_numbers()} if due else {}
        for name, deletion in due.items():
            if name in streams:
                key = bytes.fromhex(deletion.key)
                trimmed += self._writer.delete_below(streams[name], key, seen=deletion.seen)
            self._done[name] = deletion
            await self._clock.sleep(0)  # events wait to be recorded
        if trimmed:
            await asyncio.get_running_loop().run_in_executor(None, self._writer.compact)
            self._emit(LogTrimmed(slot=self._writer.slot, streams=trimmed))
        return trimmed
