"""Copies of slots for backups, made by their owners.

Only the owner of a slot can copy it as it is now: a copy made by a reader lacks what is not yet in
table files. So a backup writes a request to the state store, and the owner makes a checkpoint,
which consists of hard links, in a folder of the log that the backup reads and removes.
"""

import asyncio
import re
from collections.abc import Callable
from pathlib import Path

from penstock.clock import Clock
from penstock.errors import PenstockError
from penstock.runtime.facts import CheckpointFailed, CheckpointMade
from penstock.storage.log import LogWriter
from penstock.storage.state import Document, StateStore, Write
from penstock.storage.state.documents import StoreNow
from penstock.storage.state.schema import CHECKPOINTS
from penstock.telemetry import Listener

_EVERY_S = 1.0
_BACKUP = re.compile(r"[0-9a-zA-Z-]{1,64}")


def checkpoint_folder(log_folder: Path, backup: str, slot: str) -> Path:
    """Where the copy of a slot for a backup is."""
    return staging_folder(log_folder) / backup / "log" / slot


def staging_folder(log_folder: Path) -> Path:
    """Where backups of a log are prepared."""
    return log_folder / "checkpoints"


class Checkpointer:
    """Copies one slot on request. For one event loop, that of the slot's owner."""

    def __init__(
        self, writer: LogWriter, log_id: int, folder: Path, clock: Clock, emit: Listener
    ) -> None:
        self._writer, self._folder, self._clock, self._emit = writer, folder, clock, emit
        self._id = _request_id(log_id, writer.slot)
        self._warned = False

    async def run(self, store: Callable[[], StateStore | None]) -> None:
        """Look for requests until cancelled. ``store`` is None until it is open."""
        while True:
            opened = store()
            if opened is not None:
                try:
                    await self.answer(opened)
                    self._warned = False
                except PenstockError as error:
                    if not self._warned:
                        self._failed(error)
                    self._warned = True
            await self._clock.sleep(_EVERY_S)

    async def answer(self, store: StateStore) -> None:
        """Copy the slot if a backup asks for it and still waits.

        Raises:
            StoreUnreachable: the store does not answer.
        """
        asked = await store.get(CHECKPOINTS, self._id)
        if asked is None or asked["state"] != "asked" or await store.now_ms() >= asked["until"]:
            return
        backup, problem = str(asked["backup"]), ""
        try:
            if not _BACKUP.fullmatch(backup):  # it becomes part of a path
                raise ValueError("the name of the backup is invalid")
            path = checkpoint_folder(self._folder, backup, self._writer.slot)
            if not path.exists():  # else it was made before, and that could not be written below
                await asyncio.to_thread(self._writer.checkpoint, path)
                self._emit(CheckpointMade(slot=self._writer.slot, backup=backup))
        except (PenstockError, OSError, ValueError) as error:
            problem = str(error)
            self._failed(error)
        patch = {"state": "failed" if problem else "made", "problem": problem}
        await store.write(CHECKPOINTS, [Write(self._id, {"backup": backup}, patch)])

    def _failed(self, error: Exception) -> None:
        self._emit(CheckpointFailed(slot=self._writer.slot, reason=str(error)))


async def ask_checkpoint(
    store: StateStore, log_id: int, slot: str, backup: str, timeout_s: float
) -> None:
    """Ask the owner of a slot for a copy within some seconds.

    Raises:
        StoreUnreachable: the store does not answer.
    """
    id_, within_ms = _request_id(log_id, slot), round(timeout_s * 1000)
    fields = {"log_id": f"{log_id:x}", "backup": backup, "state": "asked", "problem": ""}
    patch = {**fields, "until": StoreNow(within_ms)}
    [written] = await store.write(CHECKPOINTS, [Write(id_, {}, patch)])
    if written is None:
        until = await store.now_ms() + within_ms
        await store.insert_if_absent(CHECKPOINTS, {"id": id_, **fields, "until": until})


async def read_request(store: StateStore, log_id: int, slot: str) -> Document | None:
    """The last request for a copy of a slot: ``state`` is asked, made or failed.

    Raises:
        StoreUnreachable: the store does not answer.
    """
    return await store.get(CHECKPOINTS, _request_id(log_id, slot))


def _request_id(log_id: int, slot: str) -> str:
    return f"{log_id:x}/{slot}"
