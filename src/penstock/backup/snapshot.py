"""Takes a consistent copy of a store while collectors, workers and keepers write to it.

The parts are copied in this order: the state, the lake, the log.

- *The state never leads the data.* A document, such as a cursor, what is complete, or which numbers
  are sealed, is written after the records that it is about. So a copy of the data that is taken
  later has these records.
- *No record is missing.* A record is appended to the log, sealed into the lake, and deleted from
  the log by its owner once it is sealed, verified and old. The copy of the log has every record
  that the log has then. What the log no longer has was deleted before the copies were begun, or
  while they were made. In the first case it had been sealed, and is in the copy of the lake;
  retention may have deleted it there, which is what the user wants. The second case is detected:
  the first key of each stream is read before the state is copied, and its record is looked up in
  the copy of the log. If one is not there, the copies are discarded and made again. (That the copy
  has a lower key proves nothing: late records have lower keys.) Deletions are hours apart, the
  copies seconds.
- *The lake never leads the log.* Numbers that are sealed in the copy of the lake are in the log, or
  were deleted from it. So a keeper of the restored store continues where this one was; otherwise it
  would find numbers sealed that collectors assign again.
- *The ledger continues.* What the copied ledger has not counted yet is read from the log again, and
  it is still there, since nothing was deleted in between.

A table of the lake is copied at the version that is current when it is listed. Files of a version
do not change; seals and compactions write new files. A vacuum could remove files of that version
hours later, so they are linked into the folder of the copies where the file system allows that.

The log of each slot is a checkpoint made by its owner on request (``runtime.checkpoints``). A slot
without an owner is opened for a moment and copied here.
"""

import asyncio
import os
import shutil
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path

from penstock.backup.archive import Source
from penstock.backup.manifest import LAKE, LOG_ID, STATE, Part
from penstock.clock import Clock
from penstock.errors import SlotInUse, StorageError
from penstock.runtime.checkpoints import (
    ask_checkpoint,
    checkpoint_folder,
    read_request,
    staging_folder,
)
from penstock.runtime.status import read_processes, slot_status_id
from penstock.storage.lake.files import list_files
from penstock.storage.log import EventLog, open_log
from penstock.storage.log.keys import Stream
from penstock.storage.sqlite_file import as_storage_error
from penstock.storage.state import StateStore
from penstock.storage.state.sqlite_copy import copy_database

_ATTEMPTS = 5
_POLL_S = 0.2
_ELSEWHERE = {
    "postgresql": "It is in PostgreSQL: back it up with pg_dump.",
    "mongodb": "It is in MongoDB: back it up with mongodump.",
    "memory": "It is in memory.",
}


@dataclass(frozen=True)
class Store:
    """What is copied."""

    log: EventLog
    log_id: int
    state: StateStore
    state_url: str
    lake_url: str
    lake_folder: Path | None
    """None: it is in an object store."""
    clock: Clock
    checkpoint_timeout_s: float

    @property
    def folder(self) -> Path:
        """The folder of the log."""
        assert self.log.folder is not None
        return self.log.folder


@dataclass(frozen=True)
class Snapshot:
    """A copy of a store, as files to be archived."""

    folder: Path
    """It holds links and small files, and is removed at the end."""
    parts: dict[str, Part]
    slots: list[str]
    taken_ms: int
    elsewhere: Sequence[Source]
    """Files of the lake that could not be linked."""

    def sources(self) -> Iterator[Source]:
        """All files, in the order of the archive."""
        found = (path for path in self.folder.rglob("*") if path.is_file())
        linked = (Source(path.relative_to(self.folder).as_posix(), path) for path in found)
        yield from sorted((*linked, *self.elsewhere))

    def remove(self) -> None:
        """Remove the copy."""
        shutil.rmtree(self.folder, ignore_errors=True)


async def take_snapshot(store: Store, name: str) -> Snapshot:
    """Copy a store; ``name`` is unique.

    Raises:
        StorageError: a part cannot be read, a process does not answer, or the disk is full.
        MissingExtra: the library of the lake is not installed.
    """
    for attempt in range(_ATTEMPTS):
        copies = f"{name}-{attempt}"
        folder = staging_folder(store.folder) / copies
        try:
            found = await _attempt(store, copies, folder)
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        if found is not None:
            return found
        shutil.rmtree(folder, ignore_errors=True)
    raise StorageError(
        str(store.folder),
        f"records were deleted from the log during each of {_ATTEMPTS} attempts to copy it",
        "Retry; if it happens again, raise storage.log_max_bytes.",
    )


async def _attempt(store: Store, copies: str, folder: Path) -> Snapshot | None:
    """Copy everything; None if records were deleted from the log meanwhile."""
    before = await asyncio.to_thread(_first_keys, store.log)
    state = await asyncio.to_thread(_copy_state, store, folder)
    lake, elsewhere = await asyncio.to_thread(_copy_lake, store, folder)
    await asyncio.to_thread(_copy_log_id, store, folder)
    slots = await _copy_slots(store, copies)
    taken_ms = store.clock.now_ms()
    if await asyncio.to_thread(_is_trimmed, open_log(f"rocksdb:{folder}"), before):
        return None
    parts = {
        "log": Part(kind="rocksdb", included=True),
        "state": state,
        "lake": lake,
        "live": Part(kind="cache", included=False, note="It has the latest ticks only."),
    }
    return Snapshot(folder, parts, slots, taken_ms, elsewhere)


def _first_keys(log: EventLog) -> dict[str, dict[Stream, bytes]]:
    """The first key of every stream, by slot."""
    with closing(log.reader()) as reader:
        return {
            slot.slot: {each.stream: each.first_key for each in slot.streams}
            for slot in reader.stats()
        }


def _is_trimmed(copy: EventLog, before: Mapping[str, Mapping[Stream, bytes]]) -> bool:
    """Whether the copy lacks records that were the first before."""
    with closing(copy.reader()) as reader:
        return any(reader.lacks_any(slot, first) for slot, first in before.items())


def _copy_state(store: Store, folder: Path) -> Part:
    scheme, _, rest = store.state_url.partition(":")
    kind = scheme.partition("+")[0]
    if kind != "sqlite":
        return Part(kind=kind, included=False, note=_ELSEWHERE.get(kind, ""))
    path, copy = Path(rest.removeprefix("///")), folder / STATE
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with closing(sqlite3.connect(copy, isolation_level=None)) as database:
            copy_database(path, database, timeout_s=store.checkpoint_timeout_s)
    except (sqlite3.Error, OSError) as error:
        raise as_storage_error(str(path), error) from error
    return Part(kind=kind, included=True)


def _copy_lake(store: Store, folder: Path) -> tuple[Part, list[Source]]:
    if store.lake_folder is None:
        scheme = store.lake_url.partition("://")[0]
        note = "It is in an object store: use that store's versions or replication."
        return Part(kind=scheme, included=False, note=note), []
    if not store.lake_folder.is_dir():
        return Part(kind="delta", included=False, note="There is no lake."), []
    elsewhere = []
    try:
        for table in list_files(store.lake_folder):
            for path in table.log:
                _link_or_copy(store.lake_folder / path, folder / LAKE / path)
            for path in table.data:
                if not _linked(store.lake_folder / path, folder / LAKE / path):
                    elsewhere.append(Source(f"{LAKE}/{path}", store.lake_folder / path))
    except OSError as error:
        where = str(error.filename or store.lake_folder)
        raise StorageError(where, error.strerror or str(error), "Retry.") from error
    return Part(kind="delta", included=True), elsewhere


def _linked(file: Path, copy: Path) -> bool:
    copy.parent.mkdir(parents=True, exist_ok=True)
    try:
        os.link(file, copy)
    except FileNotFoundError:
        raise
    except OSError:  # on another file system, or one without links
        return False
    return True


def _link_or_copy(file: Path, copy: Path) -> None:
    if not _linked(file, copy):
        shutil.copyfile(file, copy)


def _copy_log_id(store: Store, folder: Path) -> None:
    try:
        (folder / LOG_ID).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(store.folder / LOG_ID, folder / LOG_ID)
    except OSError as error:
        where = str(error.filename or folder)
        raise StorageError(where, error.strerror or str(error)) from error


async def _copy_slots(store: Store, copies: str) -> list[str]:
    # Listed after the state was copied: a slot that is created later is in neither.
    with closing(store.log.reader()) as reader:
        slots = sorted(await asyncio.to_thread(reader.slots))
    seen = {each.id for each in await read_processes(store.state) if not each.gone}
    tasks = [
        asyncio.create_task(
            _copy_slot(store, slot, copies, is_owned=slot_status_id(store.log_id, slot) in seen)
        )
        for slot in slots
    ]
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    return slots


async def _copy_slot(store: Store, slot: str, copies: str, *, is_owned: bool) -> None:
    path = checkpoint_folder(store.folder, copies, slot)
    if not is_owned:
        with suppress(SlotInUse):
            return await asyncio.to_thread(_copy_without_owner, store.log, slot, path)
    timeout_s = store.checkpoint_timeout_s
    await ask_checkpoint(store.state, store.log_id, slot, copies, timeout_s)
    until_ns = store.clock.monotonic_ns() + round(timeout_s * 1e9)
    while store.clock.monotonic_ns() < until_ns:
        found = await read_request(store.state, store.log_id, slot)
        if found is not None and found["backup"] == copies:
            if found["state"] == "made":
                return None
            if found["state"] == "failed":
                problem = f"its owner could not copy it: {found['problem']}"
                raise StorageError(f"slot {slot}", problem, "Nothing is lost. Retry.")
        await store.clock.sleep(_POLL_S)
    try:  # its owner may have ended meanwhile
        await asyncio.to_thread(_copy_without_owner, store.log, slot, path)
    except SlotInUse as error:
        raise StorageError(
            f"slot {slot}",
            f"{error.holder} owns it and did not copy it within {timeout_s:g} s",
            "Restart that process if it hangs or is of an older version, and retry.",
        ) from error


def _copy_without_owner(log: EventLog, slot: str, path: Path) -> None:
    try:
        with closing(log.writer(slot, briefly=True)) as writer:
            if not path.exists():  # its owner may have ended before it could say that it made it
                writer.checkpoint(path)
    except OSError as error:
        where = str(error.filename or path)
        raise StorageError(where, error.strerror or str(error)) from error
