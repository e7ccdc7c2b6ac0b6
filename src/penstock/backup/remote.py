"""Keeps a folder of backups and its remote equal, in three phases.

*Push* copies verified backups that the remote lacks. *Pull* copies back what the retention keeps
and is missing or damaged here, so a lost folder is restored. *Reconcile* deletes on both sides what
the retention does not keep: only after all transfers succeeded, and only while a copy that was
verified in this run stays on that side. All files pass through a staging folder. A process or an
rclone that is killed leaves nothing that looks like a backup.
"""

import asyncio
import shutil
from collections.abc import Container, Mapping
from contextlib import nullcontext
from datetime import UTC, datetime, timedelta
from pathlib import Path

from msgspec import Struct

from penstock.backup import local_folder
from penstock.backup.local_folder import LocalCopy
from penstock.backup.model import DIGEST_SUFFIX, BackupFile, digest_line, digest_name, time_of
from penstock.backup.ownership import claim_remote
from penstock.backup.remote_facts import (
    BackupPulled,
    BackupPushed,
    CopyDeleted,
    SyncEnded,
    SyncFailed,
)
from penstock.backup.remote_folder import Listing, RemoteFolder
from penstock.backup.retention import plan
from penstock.clock import Clock
from penstock.errors import RemoteError, StorageError
from penstock.telemetry import Listener, quiet

_LEFTOVER = timedelta(days=1)
"""After so long, nobody writes an unfinished file any more."""


class SyncReport(Struct, frozen=True, kw_only=True):
    """What a sync did, or would do."""

    remote: str
    pushed: tuple[str, ...] = ()
    pulled: tuple[str, ...] = ()
    deleted: tuple[str, ...] = ()
    """Deleted here."""
    deleted_remote: tuple[str, ...] = ()
    verified: tuple[str, ...] = ()
    """Backups of which the remote has an equal copy."""
    size_bytes: int = 0
    """The size of what was copied."""
    problems: tuple[str, ...] = ()


class RemoteSync:
    """Synchronizes one folder with one remote. For one event loop, one run at a time."""

    def __init__(
        self,
        folder: Path,
        remote: RemoteFolder,
        keep: int,
        clock: Clock,
        emit: Listener = quiet,
    ) -> None:
        self._folder, self._remote, self._keep = folder, remote, keep
        self._clock, self._emit = clock, emit

    async def run(self, *, dry_run: bool = False) -> SyncReport:
        """Do all three phases; return what was done. With ``dry_run``, nothing is changed.

        Raises:
            RcloneMissing: rclone cannot be used.
            RemoteError: the remote cannot be read. Transfers that fail are problems in the report.
            SyncRunning: another process synchronizes the folder.
            StorageError: the folder cannot be read or written.
        """
        shown = self._remote.remote
        try:
            await self._remote.open()
            with nullcontext(None) if dry_run else local_folder.staging(self._folder) as staging:
                run = _Run(self._folder, self._remote, self._keep, self._clock, staging, self._emit)
                report = await run.sync()
        except OSError as error:
            failure = StorageError(str(self._folder), error.strerror or str(error))
            self._emit(SyncFailed(remote=shown, reason=str(failure)))
            raise failure from error
        except RemoteError as error:
            self._emit(SyncFailed(remote=shown, reason=str(error)))
            raise
        if report.problems:
            self._emit(SyncFailed(remote=shown, reason=report.problems[0]))
        elif not dry_run:
            verified = sum(run.here[name].size for name in report.verified)
            self._emit(SyncEnded(remote=shown, verified=len(report.verified), size_bytes=verified))
        return report


class _Run:
    """The state of one sync."""

    def __init__(
        self,
        folder: Path,
        remote: RemoteFolder,
        keep: int,
        clock: Clock,
        staging: Path | None,
        emit: Listener,
    ) -> None:
        self._folder, self._remote, self._keep = folder, remote, keep
        self._clock, self._staging, self._emit = clock, staging, emit
        self._kind = remote.hash_kind or "sha256"
        self.here: dict[str, LocalCopy] = {}
        """Backups here whose bytes have their digests."""
        self._there: dict[str, int] = {}
        """Sizes of the complete backups on the remote."""
        self._listing = Listing({})
        self._equal: set[str] = set()
        """Backups whose remote bytes were compared in this run, and have the right digest."""
        self._compared: set[str] = set()
        """Backups that were compared with the remote, and pushed if need be."""
        self._unusable: set[str] = set()
        """Remote copies that are damaged, or of another archive, or could not be fetched."""
        self._pushed: list[str] = []
        self._pulled: list[str] = []
        self._copied = 0
        self._problems: list[str] = []

    async def sync(self) -> SyncReport:
        for copy in await self._read_here():
            if copy.is_whole:
                self.here[copy.name] = copy
            else:
                self._problems.append(f"{self._folder / copy.name} does not have its digest")
        self._listing = await self._remote.list()
        await claim_remote(self._folder, self._remote, self._listing, self._staging)
        self._there = self._listing.backups()
        deleted, deleted_remote = list[str](), list[str]()
        try:
            await self._push()
            await self._pull()
            await self._push()  # what takes the place of copies that were found to be damaged
            deleted, deleted_remote = await self._reconcile()
        except RemoteError as error:
            self._problems.append(f"{error} Nothing more was copied or deleted in this sync.")
        return SyncReport(
            remote=self._remote.remote,
            pushed=tuple(self._pushed),
            pulled=tuple(self._pulled),
            deleted=tuple(deleted),
            deleted_remote=tuple(deleted_remote),
            verified=tuple(sorted(self._equal & self.here.keys())),
            size_bytes=self._copied,
            problems=tuple(self._problems),
        )

    async def _read_here(self) -> list[LocalCopy]:
        stopped = False
        try:
            return await asyncio.to_thread(
                lambda: list(local_folder.read_copies(self._folder, self._kind, lambda: stopped))
            )
        finally:
            stopped = True  # a cancelled call ends the thread soon

    def _kept(self) -> list[str]:
        """What the retention keeps of both sides together, newest first.

        A remote copy counts as verified until a comparison shows otherwise: it was when it was
        pushed, and it must not be given up for an older one before it was fetched.
        """
        sizes = {name: size for name, size in self._there.items() if name not in self._unusable}
        verified = (sizes.keys() - self.here.keys()) | self._verified_here()
        sizes.update({name: copy.size for name, copy in self.here.items()})
        retained = plan(_files(sizes, verified), self._keep, self._now())
        return [backup.name for backup in retained.kept]

    def _verified_here(self) -> set[str]:
        """Those here that were rehearsed; all whole ones, if none was."""
        rehearsed = {name for name, copy in self.here.items() if copy.is_rehearsed}
        return rehearsed or set(self.here)

    def _now(self) -> datetime:
        return datetime.fromtimestamp(self._clock.now_ns() / 1e9, UTC)

    # Push

    async def _push(self) -> None:
        for name in self._kept():
            if name not in self.here or name in self._compared:
                continue
            self._compared.add(name)
            if name in self._there and await self._is_current(self.here[name]):
                continue
            if name not in self._unusable:
                await self._push_one(self.here[name])

    async def _is_current(self, copy: LocalCopy) -> bool:
        """Whether the remote has this backup; if so, and its bytes are known, it is verified."""
        digest = await self._remote.digest(copy.name)
        if digest is not None and digest != copy.digest:
            self._unusable.add(copy.name)
            self._problems.append(
                f"{copy.name} on {self._remote.remote} is another archive than the one here."
                " Give each data folder a remote folder of its own. Neither was changed"
            )
            return False
        if digest is None or self._there[copy.name] != copy.size:
            return False
        if self._remote.hash_kind is None:
            return True
        return await self._compare(copy) is not False

    async def _compare(self, copy: LocalCopy, *, download: bool = False) -> bool | None:
        """Whether the remote bytes are equal; None if the remote does not know their digest."""
        kind, expected = ("sha256", copy.digest) if download else (self._kind, copy.hash)
        found = await self._remote.hash(kind, copy.name, copy.size, download=download)
        if found == expected:
            self._equal.add(copy.name)
        return found == expected if found else None

    async def _push_one(self, copy: LocalCopy) -> None:
        if self._staging is not None and not await self._upload(copy, self._staging):
            return
        self._pushed.append(copy.name)
        self._copied += copy.size
        self._there[copy.name] = copy.size

    async def _upload(self, copy: LocalCopy, staging: Path) -> bool:
        """Whether it was uploaded: a backup that is made meanwhile may delete older ones here."""
        staged, digest = staging / copy.name, staging / digest_name(copy.name)
        try:
            await asyncio.to_thread(local_folder.stage, self._folder / copy.name, staged)
        except FileNotFoundError:
            del self.here[copy.name]
            return False
        digest.write_text(digest_line(copy.digest, copy.name))
        await self._remote.upload(staged, copy.name)
        equal = None if self._remote.hash_kind is None else await self._compare(copy)
        if equal is None:
            equal = await self._compare(copy, download=True)
        if not equal:
            raise RemoteError(
                self._remote.remote, f"{copy.name} differs from its original after the transfer"
            )
        await self._remote.upload(digest, digest.name)
        staged.unlink()
        digest.unlink()
        self._emit(BackupPushed(name=copy.name, size_bytes=copy.size))
        return True

    # Pull

    async def _pull(self) -> None:
        tried = set[str]()
        # What turns out to be damaged is not counted: another one takes its place.
        while wanted := [
            name for name in self._kept() if name not in self.here and name not in tried
        ]:
            for name in wanted:
                tried.add(name)
                if self._staging is None:
                    self._pulled.append(name)
                    self._copied += self._there[name]
                    continue
                if not await self._pull_one(name, self._staging):
                    self._unusable.add(name)

    async def _pull_one(self, name: str, staging: Path) -> bool:
        size, free = self._there[name], shutil.disk_usage(self._folder).free
        if size >= free:
            self._problems.append(
                f"{name} was not fetched: it has {size:,} bytes, and {free:,} are free"
            )
            return False
        digest = await self._remote.digest(name)
        if digest is None:
            self._problems.append(f"{name} on {self._remote.remote} has no valid digest file")
            return False
        staged = staging / name
        # A second time, since the transfer may be what failed.
        for _ in range(2):
            staged.unlink(missing_ok=True)
            await self._remote.download(name, staged)
            try:
                found = await asyncio.to_thread(
                    local_folder.hash_file, staged, ("sha256", self._kind)
                )
            except FileNotFoundError:  # deleted meanwhile
                continue
            if found[1][0] == digest:
                break
        else:
            staged.unlink(missing_ok=True)
            await self._remote.set_aside(name)
            self._problems.append(
                f"{name} on {self._remote.remote} does not have its digest, and has a name now that"
                " ends with .damaged"
            )
            return False
        await asyncio.to_thread(local_folder.take_over, staged, self._folder, digest)
        self.here[name] = LocalCopy(name, found[0], digest, found[1][1], is_whole=True)
        self._equal.add(name)
        self._compared.add(name)
        self._pulled.append(name)
        self._copied += found[0]
        damaged = f"{self._folder / name} does not have its digest"
        self._problems = [problem for problem in self._problems if problem != damaged]
        self._emit(BackupPulled(name=name, size_bytes=found[0]))
        return True

    # Reconcile

    async def _reconcile(self) -> tuple[list[str], list[str]]:
        """Delete what the retention does not keep; return the names here and on the remote."""
        kept = set(self._kept())
        there = {n: s for n, s in self._there.items() if n not in self._unusable}
        to_delete_there = self._to_delete(_files(there, self._equal), kept)
        if to_delete_there and not self._equal - set(to_delete_there) and self._staging is not None:
            await self._verify_newest()
        if to_delete_there and not self._may_delete(self._equal - set(to_delete_there), "remote"):
            to_delete_there = []
        here = {name: copy.size for name, copy in self.here.items()}
        to_delete_here = self._to_delete(_files(here, self._verified_here()), kept)
        staying = self._verified_here() - set(to_delete_here)
        staying = {name for name in staying if (self._folder / name).is_file()}
        if to_delete_here and not self._may_delete(staying, "local"):
            to_delete_here = []
        if self._staging is not None:
            for name in to_delete_there:
                await self._remote.delete(name)
                await self._remote.delete(digest_name(name))
                self._emit(CopyDeleted(name=name, size_bytes=there[name], where="remote"))
            for name in to_delete_here:
                local_folder.delete(self._folder, name)
                self._emit(CopyDeleted(name=name, size_bytes=here[name], where="local"))
            await self._remove_leftovers()
        return to_delete_here, to_delete_there

    def _to_delete(self, files: list[BackupFile], kept: set[str]) -> list[str]:
        deleted = plan(files, self._keep, self._now()).deleted
        return [backup.name for backup in deleted if backup.name not in kept]

    def _may_delete(self, verified: set[str], where: str) -> bool:
        """Whether a verified copy stays on that side."""
        if self._staging is None or verified:
            return True
        self._problems.append(f"No {where} backup was deleted: no verified one would stay")
        return False

    async def _verify_newest(self) -> None:
        """Have at least one remote copy verified, on a remote that knows no digests."""
        for name in self._kept():
            if name in self.here and name in self._there:
                if not await self._compare(self.here[name], download=True):
                    await self._push_one(self.here[name])
                return

    async def _remove_leftovers(self) -> None:
        """Remove what uploads and deletions that were interrupted left on the remote."""
        for file in self._listing.files.values():
            archive = file.name.removesuffix(DIGEST_SUFFIX)
            alone = (
                archive != file.name
                and time_of(archive) is not None
                and archive not in self._listing.files
                and archive not in self._there
            )
            if (alone or file.is_partial) and self._now() - file.modified > _LEFTOVER:
                await self._remote.delete(file.name)


def _files(sizes: Mapping[str, int], verified: Container[str]) -> list[BackupFile]:
    return [
        BackupFile(name, at, size, verified=name in verified)
        for name, size in sizes.items()
        if (at := time_of(name)) is not None
    ]
