"""Restores a backup as a data folder.

The archive is read twice: first it is checked as a whole, and only then are its files written, each
compared with the manifest again. They are written to a new folder beside the target, which takes
its place once all is on the disk. So a target exists complete or not at all.

A lake in an object store may be newer than the backup: it has records under numbers that the
restored log would assign again, and the restored state does not know of them. So the restored log
gets an id of its own then. A state on a server knows its numbers: see
``RecordingProcess.continue_numbers``.
"""

import errno
import os
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from msgspec.structs import replace

from penstock.backup.manifest import Manifest
from penstock.backup.reading import Progress, check_archive, contents
from penstock.errors import FolderNotEmpty, StorageError, StorageFull
from penstock.files import locked_at_once, make_folder, sync_folder
from penstock.publish.endpoints import log_id, renew_log_id

FRESH = ".restoring-"
"""The beginning of the names of folders that are not restored completely."""
_SPARE = 16 << 20


def restore(
    archive: Path,
    target: Path,
    progress: Progress | None = None,
    *,
    keep_log_id: bool = False,
) -> Manifest:
    """Restore an archive as a folder that does not exist yet, or is empty.

    ``progress`` is called while the archive is read, twice. ``keep_log_id``: the copy is only read.

    Raises:
        FolderNotEmpty: there is something in the folder. Nothing was changed.
        BadBackup: the archive is damaged, or penstock did not make it. Nothing is left.
        StorageError: it cannot be read or written. Nothing is left.
    """
    target = target.absolute()
    _check_target(target)
    found = check_archive(archive, progress)
    with _errors_of(target):
        make_folder(target.parent)
        free = shutil.disk_usage(target.parent).free
        if free < found.size + _SPARE:
            needed = f"{found.size / 1e6:,.0f} MB are needed, {free / 1e6:,.0f} MB are free"
            raise StorageFull(str(target.parent), needed)
        _remove_left(target)
        with _fresh_folder(target) as fresh:
            write_files(archive, found, fresh, progress)
            if not keep_log_id and gets_new_id(found):
                renew_log_id(fresh)
                found = replace(found, log_id=f"{log_id(fresh):x}")
            _check_target(target)
            with suppress(FileNotFoundError):
                target.rmdir()
            fresh.rename(target)
            sync_folder(target.parent)
    return found


def gets_new_id(found: Manifest) -> bool:
    """Whether the restored log gets a new id.

    The lake may have records then that neither the log nor the state of the backup knows.
    """
    lake, state = found.parts.get("lake"), found.parts.get("state")
    is_elsewhere = lake is not None and not lake.included and lake.kind != "delta"
    return is_elsewhere and state is not None and state.included


def write_files(
    archive: Path, found: Manifest, folder: Path, progress: Progress | None = None
) -> None:
    """Write the files of an archive that was checked to an empty folder, durably."""
    folders = {folder}
    for file, chunks in contents(archive, found, progress):
        path = folder / file.path
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        folders.update(folder / each for each in Path(file.path).parents)
        _write(path, chunks)
    for each in folders:
        sync_folder(each)


def _write(path: Path, chunks: Iterable[bytes]) -> None:
    how = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
    descriptor = os.open(path, how, 0o600)
    try:
        for chunk in chunks:
            view = memoryview(chunk)
            while view:
                view = view[os.write(descriptor, view) :]
        os.fsync(descriptor)
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(descriptor)


def _check_target(target: Path) -> None:
    if target.is_mount():  # it cannot be replaced
        raise StorageError(str(target), "is a mount point", "Name a new folder inside it.")
    if target.is_symlink() or (target.exists() and not target.is_dir()):
        raise StorageError(str(target), "is not a folder", "Name a new folder.")
    if target.exists() and any(target.iterdir()):
        raise FolderNotEmpty(str(target))


@contextmanager
def _fresh_folder(target: Path) -> Iterator[Path]:
    """A new folder beside the target, locked; removed unless it took the target's place."""
    fresh = target.with_name(f"{FRESH}{target.name}-{os.getpid()}")
    fresh.mkdir(mode=0o700)
    try:
        with locked_at_once(fresh):
            yield fresh
    finally:
        shutil.rmtree(fresh, ignore_errors=True)


def _remove_left(target: Path) -> None:
    """Remove what a restore left that was killed; one that runs holds a lock."""
    for left in target.parent.glob(f"{FRESH}{target.name}-*"):
        if not left.is_symlink():
            with suppress(OSError), locked_at_once(left):
                shutil.rmtree(left, ignore_errors=True)


@contextmanager
def _errors_of(target: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        where = str(error.filename or target)
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise StorageFull(where, f"the backup cannot be restored: {error.strerror}") from error
        raise StorageError(where, error.strerror or str(error)) from error
