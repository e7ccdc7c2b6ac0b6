"""What backups, rehearsals and syncs that were killed left. See ``keep.garbage``."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from penstock.backup.folder import leftovers, locked_alone
from penstock.backup.local_folder import STAGING
from penstock.errors import BackupRunning
from penstock.keep.garbage import Garbage, file_garbage, folder_garbage


def checkpoint_garbage(staging: Path) -> Iterator[Garbage]:
    """Copies of slots that were made for backups."""
    yield from _unless_used(staging, lambda: _all_of("checkpoint", staging))


def backup_garbage(folder: Path) -> Iterator[Garbage]:
    """Unfinished archives and copies, and files about archives that do not exist."""
    staging = folder / STAGING
    yield from _unless_used(staging, lambda: _all_of("unfinished copy", staging))
    yield from _unless_used(folder, lambda: leftovers(folder))


def _all_of(kind: str, folder: Path) -> Iterator[tuple[str, Path]]:
    yield from ((kind, path) for path in sorted(folder.iterdir()))


def _unless_used(folder: Path, find: Callable[[], Iterable[tuple[str, Path]]]) -> Iterator[Garbage]:
    if not folder.is_dir():
        return
    with suppress(BackupRunning), locked_alone(folder):
        for kind, path in find():
            yield folder_garbage(kind, path) if path.is_dir() else file_garbage(kind, path)
