"""What backups, rehearsals and syncs that were killed left. See ``keep.garbage``."""

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from penstock.backup.archive import PARTIAL
from penstock.backup.folder import REHEARSAL_FOLDER, REHEARSED_SUFFIX, locked_alone
from penstock.backup.local_folder import STAGING
from penstock.backup.model import DIGEST_SUFFIX, time_of
from penstock.errors import BackupRunning
from penstock.keep.garbage import Garbage, file_garbage, folder_garbage


def checkpoint_garbage(staging: Path) -> Iterator[Garbage]:
    """Copies of slots that were made for backups."""
    yield from _below(staging, "checkpoint")


def backup_garbage(folder: Path) -> Iterator[Garbage]:
    """Unfinished archives and copies, and files about archives that do not exist."""
    yield from _below(folder / STAGING, "unfinished copy")
    if not folder.is_dir():
        return
    with suppress(BackupRunning), locked_alone(folder):
        for path in sorted(folder.iterdir()):
            if REHEARSAL_FOLDER in path.name and path.is_dir():
                yield folder_garbage("rehearsal", path)
            elif path.name.startswith(PARTIAL) and path.is_file():
                yield file_garbage("unfinished backup", path)
            elif _is_alone(path):
                yield file_garbage("file about a backup", path)


def _below(folder: Path, kind: str) -> Iterator[Garbage]:
    if not folder.is_dir():
        return
    with suppress(BackupRunning), locked_alone(folder):
        for path in sorted(folder.iterdir()):
            yield folder_garbage(kind, path) if path.is_dir() else file_garbage(kind, path)


def _is_alone(path: Path) -> bool:
    for suffix in (DIGEST_SUFFIX, REHEARSED_SUFFIX):
        archive = path.name.removesuffix(suffix)
        if archive != path.name and time_of(archive) is not None:
            return not path.with_name(archive).exists()
    return False
