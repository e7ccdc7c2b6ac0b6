"""Writes the status file of one slot, after the records that it lists are synced to the disk.

The order is: make the status, sync the log, write the file. After a power cut a status may be older
than the log, but never lists lost ids as seen. While the log cannot be synced, the status has the
ids and numbers of the last sync, and everything else is current.
"""

import asyncio
from collections.abc import Callable
from pathlib import Path
from threading import Lock
from typing import NamedTuple, Protocol

from msgspec.structs import replace

from penstock.collect.status import CollectorStatus, write_status
from penstock.coverage.stored import IdsStatus
from penstock.errors import StorageError

_EVERY_S, _LATEST_S = 1.0, 3.0
"""The time between two statuses: at least, and at most."""
_SHARE = 0.01


def pause_s(took_s: float) -> float:
    """How long to wait after a status that took so long to make: it is to take 1 % of the time.

    With hundreds of markets it takes tens of milliseconds, in which nothing else is done.
    """
    return min(_LATEST_S, max(_EVERY_S, took_s / _SHARE))


class Syncs(Protocol):
    """The part of the log that a status needs."""

    async def sync(self) -> None: ...

    def sync_now(self) -> None: ...


class _Claims(NamedTuple):
    """What a status may list as recorded: what was recorded before the last sync."""

    ids: tuple[IdsStatus, ...] = ()
    numbered: int = 0
    synced_ms: int = 0


class StatusFile:
    """Writes statuses in order. For one event loop."""

    def __init__(self, folder: Path, on_unwritable: Callable[[str], None]) -> None:
        self.log: Syncs | None = None
        """None until something can be recorded."""
        self._folder, self._on_unwritable = folder, on_unwritable
        self._claims = _Claims()
        self._unwritable = ""
        self._turn = Lock()
        """Held while the file is written, by any thread."""
        self._made = self._written = 0
        """How many statuses were made, and the number of the one in the file."""

    def write(self, status: CollectorStatus) -> CollectorStatus:
        """Write a status, blocking the event loop; return it as it was written."""
        try:
            if self.log is not None:
                self.log.sync_now()
            status = self._after_sync(status)
        except StorageError:
            status = self._as_last_synced(status)
        self._made += 1
        self._note(self._write(status, self._made))
        return status

    async def report(self, status: CollectorStatus) -> CollectorStatus:
        """The same, without blocking the event loop."""
        try:
            if self.log is not None:
                await self.log.sync()
            status = self._after_sync(status)
        except StorageError:
            status = self._as_last_synced(status)
        self._made += 1
        self._note(await asyncio.to_thread(self._write, status, self._made))
        return status

    def _after_sync(self, status: CollectorStatus) -> CollectorStatus:
        """A status for which the log is synced."""
        self._claims = _Claims(tuple(status.ids), status.numbered or 0, status.at_ms)
        return replace(status, synced_ms=status.at_ms)

    def _as_last_synced(self, status: CollectorStatus) -> CollectorStatus:
        """A status that lists as recorded only what the last sync covered."""
        ids, numbered, synced_ms = self._claims
        return replace(status, ids=list(ids), numbered=numbered, synced_ms=synced_ms)

    def _write(self, status: CollectorStatus, number: int) -> str:
        """Write a status unless a newer one is written; return the error, or ""."""
        with self._turn:
            if number < self._written:
                return self._unwritable
            self._written = number
            try:
                write_status(self._folder, status)
            except OSError as error:
                return str(error)
            return ""

    def _note(self, unwritable: str) -> None:
        if unwritable and unwritable != self._unwritable:
            self._on_unwritable(unwritable)
        self._unwritable = unwritable
