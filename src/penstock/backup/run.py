"""Makes one backup: copy, archive, rehearsal, retention.

It may be killed at any moment: what it leaves are files with names that are no backups, and a
folder of links, which the next backup removes. A lock that ends with the process keeps two backups
apart.
"""

import asyncio
import shutil
import threading
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from msgspec.structs import replace

from penstock import __version__
from penstock.backup import manifest
from penstock.backup.archive import ArchiveWriter, Written
from penstock.backup.facts import BackupDeleted, BackupMade, BackupRehearsed, RehearsalFailed
from penstock.backup.folder import (
    Rehearsal,
    clean,
    locked_alone,
    retain,
    write_rehearsal,
)
from penstock.backup.manifest import Manifest
from penstock.backup.model import name_of
from penstock.backup.outcome import BackupOutcome, write_outcome
from penstock.backup.ownership import claim_folder
from penstock.backup.rehearsal import rehearse
from penstock.backup.snapshot import Snapshot, Store, take_snapshot
from penstock.clock import Clock
from penstock.config import Settings
from penstock.errors import ConfigError, NoBackup, NoDataset, PenstockError, StorageError
from penstock.publish.endpoints import log_id
from penstock.runtime.checkpoints import staging_folder
from penstock.runtime.status import this_machine
from penstock.runtime.stores import (
    configured_log,
    lake_url,
    local_folder,
    open_state,
    state_url,
)
from penstock.storage.state import StateStore
from penstock.telemetry import Listener, quiet

Progress = Callable[[int, int], None]
"""Receives how many bytes are archived, and of how many."""


@dataclass(frozen=True)
class Backed:
    """A backup that was made."""

    written: Written
    manifest: Manifest
    seconds: float
    rehearsal: Rehearsal | None
    """None: it was not asked for."""
    deleted: list[str]


def backup_folder(settings: Settings) -> Path:
    """The folder of backups.

    Raises:
        NoBackup: none is set.
    """
    if not settings.backup.folder:
        raise NoBackup("No folder for backups is set. Set backup.folder, best on another disk.")
    return Path(settings.backup.folder).expanduser()


async def make_backup(
    settings: Settings,
    clock: Clock,
    listener: Listener = quiet,
    progress: Progress = lambda *_: None,
) -> Backed:
    """Make a backup of the store that the settings name.

    Raises:
        NoBackup: no folder for backups is set.
        NoDataset: there is nothing to back up.
        BackupRunning: another process makes one.
        ConfigError: a setting is invalid, or the folder has the backups of another log.
        StorageError, MissingExtra: a part cannot be read, or the archive not written.
    """
    folder, log = backup_folder(settings), configured_log(settings)
    if log.folder is None:
        raise ConfigError(
            "storage.log_url",
            problem="is a log in memory: there is nothing to back up.",
            origin="settings",
        )
    if not (log.folder / manifest.LOG).is_dir():
        raise NoDataset(str(log.folder), "there are no collected data in this folder")
    with ExitStack() as stack:
        stack.enter_context(locked_alone(folder))
        stack.enter_context(locked_alone(staging_folder(log.folder)))
        async with open_state(settings, clock) as state:
            store = Store(
                log=log,
                log_id=log_id(log.folder),
                state=state,
                state_url=state_url(settings),
                lake_url=lake_url(settings),
                lake_folder=local_folder(lake_url(settings)),
                clock=clock,
                checkpoint_timeout_s=settings.backup.checkpoint_timeout,
            )
            return await _Run(settings, store, folder, listener, progress).run()


def _prepare(folder: Path, staging: Path, log: int) -> None:
    try:
        claim_folder(folder, log)
        clean(folder)
        for left in staging.iterdir():
            shutil.rmtree(left, ignore_errors=True)
    except OSError as error:
        raise StorageError(str(error.filename or folder), error.strerror or str(error)) from error


class _Run:
    def __init__(
        self, settings: Settings, store: Store, folder: Path, emit: Listener, progress: Progress
    ) -> None:
        self._settings, self._store, self._folder = settings, store, folder
        # Not the log's, which may be elsewhere: processes report the same.
        self._data_folder = str(Path(settings.collect.data_dir).resolve())
        self._emit, self._progress, self._clock = emit, progress, store.clock
        self._is_cancelled = threading.Event()
        self._began_ms, self._began_ns = store.clock.now_ms(), store.clock.monotonic_ns()

    async def run(self) -> Backed:
        staging = staging_folder(self._store.folder)
        try:
            await asyncio.to_thread(_prepare, self._folder, staging, self._store.log_id)
            made = await self._make()
        except PenstockError as error:
            await self._report(problem=str(error))
            raise
        await self._report(made=made)
        return made

    async def _make(self) -> Backed:
        at = _time(self._began_ms)
        name = name_of(at, self._settings.backup.format)
        snapshot = await take_snapshot(self._store, at.strftime("%Y%m%dT%H%M%S%f"))
        try:
            written, listed = await asyncio.to_thread(self._archive, snapshot, name)
        except asyncio.CancelledError:
            self._is_cancelled.set()
            raise
        finally:
            await asyncio.to_thread(snapshot.remove)
        made = BackupMade(
            name=name,
            size_bytes=written.size,
            content_bytes=written.content,
            files=len(listed.files),
            seconds=self._seconds(),
        )
        self._emit(made)
        rehearsal = await self._rehearse(written) if self._settings.backup.rehearse else None
        now = _time(self._clock.now_ms())
        deleted = await asyncio.to_thread(retain, self._folder, self._settings.backup.keep, now)
        for each in deleted:
            self._emit(BackupDeleted(name=each.name))
        return Backed(written, listed, made.seconds, rehearsal, [each.name for each in deleted])

    def _archive(self, snapshot: Snapshot, name: str) -> tuple[Written, Manifest]:
        writer = ArchiveWriter(self._folder, name, self._settings.backup.format)
        try:
            sources = list(snapshot.sources())
            total = sum(source.file.stat().st_size for source in sources)

            def archived(done: int) -> None:
                if self._is_cancelled.is_set():
                    raise asyncio.CancelledError
                self._progress(done, total)

            files = list(writer.add(sources, archived))
            listed = Manifest(
                penstock=__version__,
                started_at=_text(self._began_ms),
                taken_at=_text(snapshot.taken_ms),
                log_id=f"{self._store.log_id:x}",
                parts=snapshot.parts,
                slots=snapshot.slots,
                files=files,
            )
            return writer.finish(manifest.encode(listed), self._began_ms // 1000), listed
        except OSError as error:
            where = str(error.filename or self._folder)
            raise StorageError(where, error.strerror or str(error)) from error
        finally:
            writer.discard()

    async def _rehearse(self, written: Written) -> Rehearsal:
        began_ns = self._clock.monotonic_ns()
        elsewhere = None if self._store.lake_folder is not None else self._store.lake_url
        options = self._settings.storage.lake_options
        found = await rehearse(written.path, written.digest, self._clock, elsewhere, options)
        try:
            await asyncio.to_thread(write_rehearsal, written.path, found)
        except OSError as error:
            where = str(error.filename or self._folder)
            raise StorageError(where, error.strerror or str(error)) from error
        if found.verified:
            seconds = (self._clock.monotonic_ns() - began_ns) / 1e9
            self._emit(BackupRehearsed(name=written.path.name, seconds=round(seconds, 3)))
        else:
            self._emit(RehearsalFailed(name=written.path.name, findings=found.findings))
        return found

    async def _report(self, made: Backed | None = None, problem: str = "") -> None:
        """Store how it ended; if that fails, the backup is as good as it is."""
        outcome = BackupOutcome(
            log_id=f"{self._store.log_id:x}",
            folder=self._data_folder,
            host=this_machine()[0],
            at_ms=self._began_ms,
            seconds=self._seconds(),
            problem=problem,
        )
        if made is not None:
            outcome = _with_result(outcome, made, self._began_ms)
        await _try_to_write(self._store.state, outcome)

    def _seconds(self) -> float:
        return round((self._clock.monotonic_ns() - self._began_ns) / 1e9, 3)


def _with_result(outcome: BackupOutcome, made: Backed, at_ms: int) -> BackupOutcome:
    rehearsal, name = made.rehearsal, made.written.path.name
    is_verified = rehearsal is not None and rehearsal.verified
    return replace(
        outcome,
        name=name,
        made_ms=at_ms,
        size_bytes=made.written.size,
        content_bytes=made.written.content,
        problem="; ".join(rehearsal.findings[:3]) if rehearsal is not None else "",
        verified=name if is_verified else "",
        verified_ms=at_ms if is_verified else None,
    )


async def _try_to_write(state: StateStore, outcome: BackupOutcome) -> None:
    try:
        await write_outcome(state, outcome)
    except PenstockError:
        return


def _time(ms: int) -> datetime:
    return datetime.fromtimestamp(ms / 1000, UTC)


def _text(ms: int) -> str:
    return _time(ms).isoformat(timespec="milliseconds").replace("+00:00", "Z")
