"""The folder of backups: what is in it, and who may write to it."""

import shutil
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from datetime import datetime, timedelta
from pathlib import Path

import msgspec
from msgspec import Struct

from penstock.backup.archive import PARTIAL
from penstock.backup.model import DIGEST_SUFFIX, BackupFile, digest_name, read_digest, time_of
from penstock.backup.restore import FRESH
from penstock.backup.retention import plan
from penstock.errors import BackupRunning, NoBackup, StorageError, near_matches
from penstock.files import locked_at_once, make_folder, replace_file

REHEARSED_SUFFIX = ".verified.json"
REHEARSAL_FOLDER = ".rehearsal"
_CLOCKS_DIFFER = timedelta(minutes=10)
"""By how much the clocks of two machines may differ."""


class Rehearsal(Struct, frozen=True, kw_only=True):
    """How a backup was checked by restoring it."""

    at: str
    """When, in UTC."""
    digest: str
    """Of the archive that was restored."""
    verified: bool
    files: int = 0
    size_bytes: int = 0
    compared: dict[str, int] = {}
    """What ``penstock verify`` compared in the restored copy, and how many of each."""
    findings: list[str] = []
    not_checked: list[str] = []


@contextmanager
def locked_alone(folder: Path) -> Iterator[None]:
    """Create a folder and hold a lock on it that no other process can have.

    Raises:
        BackupRunning: another process has it.
        StorageError: the folder cannot be created or locked.
    """
    with ExitStack() as stack:
        try:
            make_folder(folder)
            stack.enter_context(locked_at_once(folder))
        except BlockingIOError as error:
            raise BackupRunning(str(folder)) from error
        except OSError as error:
            where = str(error.filename or folder)
            raise StorageError(where, error.strerror or str(error)) from error
        yield


def is_busy(folder: Path) -> bool:
    """Whether a process makes or checks a backup there.

    Raises:
        StorageError: the folder cannot be created.
    """
    try:
        with locked_alone(folder):
            return False
    except BackupRunning:
        return True


def list_backups(folder: Path) -> list[BackupFile]:
    """The complete backups of a folder, oldest first. Those that were rehearsed are verified.

    Raises:
        StorageError: the folder cannot be read.
    """
    found = []
    try:
        for path in folder.iterdir() if folder.is_dir() else ():
            at = time_of(path.name)
            if at is not None and path.is_file() and not path.is_symlink():
                found.append(BackupFile(path.name, at, path.stat().st_size, _is_verified(path)))
    except OSError as error:
        where = str(error.filename or folder)
        raise StorageError(where, error.strerror or str(error)) from error
    return sorted(found, key=lambda each: (each.at, each.name))


def _is_verified(archive: Path) -> bool:
    """Whether the archive with this digest was restored without a finding."""
    rehearsal = read_rehearsal(archive)
    if rehearsal is None or not rehearsal.verified:
        return False
    try:
        text = archive.with_name(digest_name(archive.name)).read_text("ascii", "replace")
    except FileNotFoundError:
        return False
    return read_digest(text, archive.name) == rehearsal.digest


def ahead_of(folder: Path, now: datetime) -> list[str]:
    """Backups dated in the future: a clock was wrong when they were made, or is now.

    Raises:
        StorageError: the folder cannot be read.
    """
    return [each.name for each in list_backups(folder) if each.at > now + _CLOCKS_DIFFER]


def find_backup(folder: Path, name: str, now: datetime) -> Path:
    """The path of a backup: by its name, its path, or ``latest``.

    The latest is not one dated in the future, unless there are no others.

    Raises:
        NoBackup: there is none.
    """
    if name != "latest" and ("/" in name or Path(name).is_file()):
        path = Path(name)
        if time_of(path.name) is None or not path.is_file():
            raise NoBackup(f"{name} is not a backup: those are files storage-TIME.tar.gz or .zst.")
        return path
    names = [each.name for each in list_backups(folder)]
    if name == "latest" and names:
        ahead = ahead_of(folder, now)
        return folder / ([each for each in names if each not in ahead] or names)[-1]
    if name not in names:
        near = near_matches(name, names)
        meant = f" Did you mean {near[0]}?" if near else ""
        shown = "" if name == "latest" else f" {name!r}"
        raise NoBackup(f"There is no backup{shown} in {folder}.{meant} See: penstock backup list.")
    return folder / name


def read_rehearsal(archive: Path) -> Rehearsal | None:
    """The result of the last rehearsal of a backup; None if there was none."""
    try:
        data = archive.with_name(archive.name + REHEARSED_SUFFIX).read_bytes()
        return msgspec.json.decode(data, type=Rehearsal)
    except (OSError, ValueError):
        return None


def write_rehearsal(archive: Path, result: Rehearsal) -> None:
    """Store the result of a rehearsal beside its archive.

    Raises:
        OSError: it cannot be written.
    """
    data = msgspec.json.format(msgspec.json.encode(result), indent=1)
    replace_file(archive.with_name(archive.name + REHEARSED_SUFFIX), data)


def leftovers(folder: Path) -> Iterator[tuple[str, Path]]:
    """What killed backups left, each with its kind. Call it only while the folder is locked.

    Raises:
        OSError: the folder cannot be read.
    """
    for path in sorted(folder.iterdir()):
        if path.name.startswith(PARTIAL):
            yield "unfinished backup", path
        elif path.name.startswith((REHEARSAL_FOLDER, FRESH + REHEARSAL_FOLDER)):
            yield "rehearsal", path
        elif _is_alone(path):
            yield "file about a backup", path


def _is_alone(path: Path) -> bool:
    """Whether it is a file about an archive that does not exist."""
    for suffix in (DIGEST_SUFFIX, REHEARSED_SUFFIX):
        archive = path.name.removesuffix(suffix)
        if archive != path.name and time_of(archive) is not None:
            return not path.with_name(archive).exists()
    return False


def clean(folder: Path) -> None:
    """Remove what killed backups left. Call it only while the folder is locked.

    Raises:
        OSError: the folder cannot be read.
    """
    for _, path in leftovers(folder):
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            with suppress(OSError):
                path.unlink()


def retain(folder: Path, keep: int, now: datetime) -> Sequence[BackupFile]:
    """Delete the backups that the retention no longer keeps; return these.

    Raises:
        StorageError: one cannot be deleted.
    """
    deleted = plan(list_backups(folder), keep, now).deleted
    for each in deleted:
        try:
            # The archive first: without it the others mean nothing.
            (folder / each.name).unlink(missing_ok=True)
            (folder / digest_name(each.name)).unlink(missing_ok=True)
            (folder / (each.name + REHEARSED_SUFFIX)).unlink(missing_ok=True)
        except OSError as error:
            raise StorageError(str(error.filename), error.strerror or str(error)) from error
    return deleted
